//! Standard input, read strictly: what one parser skips and another obeys never reaches either.

use std::time::Duration;

use contract::MAX_JSON_BYTES;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::message::{self, Unread};

/// Room for messages on their way.
const BUFFER: usize = 64 * 1024;

/// How long a client that reads no more is waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

/// Both directions of a client, and the tasks that move its messages. They end with it.
pub(super) struct Lines {
    tasks: JoinSet<()>,
    reading: AbortHandle,
}

impl Lines {
    /// A client on standard input and output, and the two ends that a server reads and writes.
    pub(super) fn of_stdio() -> (Lines, (DuplexStream, DuplexStream)) {
        Lines::of(tokio::io::stdin(), tokio::io::stdout())
    }

    /// Passes on messages that have one meaning, and answers the others with an error.
    pub(super) fn of(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    ) -> (Lines, (DuplexStream, DuplexStream)) {
        let (to_server, from_client) = tokio::io::duplex(BUFFER);
        let (to_client, from_server) = tokio::io::duplex(BUFFER);
        let (say, answers) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        let reading = tasks.spawn(pass_in(input, to_server, say.clone()));
        tasks.spawn(pass_out(from_server, say));
        tasks.spawn(write_all(output, answers));
        (Lines { tasks, reading }, (from_client, to_client))
    }

    /// Reads no more, and writes what the server has said; it has let go of its ends.
    pub(super) async fn close(mut self) {
        self.reading.abort();
        let written = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, written).await;
    }
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
        let text = str::from_utf8(&line).map_err(|_| Unread::because("the message is not UTF-8"));
        let read = text.and_then(message::read);
        match read {
            Ok(_) => {
                if to_server.write_all(&line).await.is_err() {
                    return;
                }
            }
            Err(unread) => {
                let too_long = line.len() > MAX_JSON_BYTES;
                let answer = format!("{}\n", unread.answer()).into_bytes();
                if say.send(answer).await.is_err() || too_long {
                    return;
                }
            }
        }
    }
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
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_message_with_one_meaning_is_passed_on_as_it_is() {
        let (mut client, ours) = tokio::io::duplex(1024);
        let (_lines, (mut passed, _to_client)) = Lines::of(ours, tokio::io::sink());
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
        let (_lines, (mut passed, _to_client)) = Lines::of(ours, output);
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

    #[tokio::test]
    async fn what_was_said_before_the_end_is_written_and_nothing_is_read_after_it() {
        let (mut client, ours) = tokio::io::duplex(1024);
        let (output, mut heard) = tokio::io::duplex(1024);
        let (lines, (passed, mut to_client)) = Lines::of(ours, output);
        to_client.write_all(b"{\"id\":1}\n").await.unwrap();
        drop((passed, to_client));
        lines.close().await;
        let mut said = String::new();
        heard.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "{\"id\":1}\n");
        assert!(client.write_all(b"{}\n").await.is_err(), "nobody is there to read");
    }
}
