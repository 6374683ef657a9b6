//! Standard input, read strictly: what one parser skips and another obeys never reaches either.

use contract::{Canonical, MAX_JSON_BYTES};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

/// Room for messages on their way.
const BUFFER: usize = 64 * 1024;

/// Both directions of a client on standard input and output.
pub(super) fn strict_stdin() -> (DuplexStream, DuplexStream) {
    strict(tokio::io::stdin(), tokio::io::stdout())
}

/// Passes on messages that have one meaning, and answers the others with an error.
fn strict(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
) -> (DuplexStream, DuplexStream) {
    let (to_server, from_client) = tokio::io::duplex(BUFFER);
    let (to_client, from_server) = tokio::io::duplex(BUFFER);
    let (say, answers) = mpsc::channel(16);
    tokio::spawn(pass_in(input, to_server, say.clone()));
    tokio::spawn(pass_out(from_server, say));
    tokio::spawn(write_all(output, answers));
    (from_client, to_client)
}

async fn pass_in(input: impl AsyncRead + Unpin, mut to_server: DuplexStream, say: mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        // ATTACK(endless-line): a line that does not end is not kept.
        let most = MAX_JSON_BYTES as u64 + 1;
        match (&mut reader).take(most).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match check(&line) {
            Ok(()) => {
                if to_server.write_all(&line).await.is_err() {
                    return;
                }
            }
            Err(why) => {
                let too_long = line.len() > MAX_JSON_BYTES;
                if say.send(refusal(&line, &why)).await.is_err() || too_long {
                    return;
                }
            }
        }
    }
}

/// ATTACK(duplicate-key)
fn check(line: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(line).map_err(|_| "the message is not UTF-8".to_owned())?;
    Canonical::parse(text.trim()).map(drop).map_err(|error| error.to_string())
}

/// The answer to a message that has no meaning, to its id if that much can be read.
fn refusal(line: &[u8], why: &str) -> Vec<u8> {
    let id = serde_json::from_slice::<Value>(line).ok().and_then(|value| value.get("id").cloned());
    let error = json!({ "code": -32600, "message": why });
    let mut bytes = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

async fn pass_out(from_server: DuplexStream, say: mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(from_server);
    loop {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) if say.send(line).await.is_err() => return,
            Ok(_) => {}
        }
    }
}

async fn write_all(mut output: impl tokio::io::AsyncWrite + Unpin, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = answers.recv().await {
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_with_one_meaning_is_passed_on_as_it_is() {
        let (mut client, ours) = tokio::io::duplex(1024);
        let (mut passed, _to_client) = strict(ours, tokio::io::sink());
        client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1}\n").await.unwrap();
        drop(client);
        let mut seen = String::new();
        passed.read_to_string(&mut seen).await.unwrap();
        assert_eq!(seen, "{\"jsonrpc\":\"2.0\",\"id\":1}\n");
    }

    #[tokio::test]
    async fn a_message_that_names_a_key_twice_is_answered_and_goes_no_further() {
        let (mut client, ours) = tokio::io::duplex(1024);
        let (output, mut heard) = tokio::io::duplex(1024);
        let (mut passed, _to_client) = strict(ours, output);
        client.write_all(b"{\"id\":7,\"params\":{\"name\":\"a\",\"name\":\"b\"}}\n").await.unwrap();
        drop(client);
        let mut seen = String::new();
        passed.read_to_string(&mut seen).await.unwrap();
        assert_eq!(seen, "");
        let mut answer = vec![0; 1024];
        let length = heard.read(&mut answer).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer[..length]).unwrap();
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["error"]["code"], -32600);
    }
}
