//! Messages of a server that is not trusted: one JSON-RPC object on each line, read strictly.
//!
//! Knows neither what was asked nor what an answer means.
//!
//! # Invariants
//! - A message names no key twice, is no deeper than [`DEEPEST`] and no longer than [`MAX_JSON_BYTES`].
//! - What is no message ends the conversation: nobody guesses what a server may have meant.

use contract::{Canonical, CanonicalError, MAX_JSON_BYTES};
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use super::guards::{Guard, Guards};

/// How deep a message may be.
pub(super) const DEEPEST: usize = 64;

/// What a server said.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// It answers what we have asked.
    Answer { id: u64, answer: Result<Value, RpcError> },
    /// It asks us.
    Question { id: Value, method: String, params: Value },
    /// It tells us.
    Notice { method: String, params: Value },
}

/// An error that a server answers with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

/// Why what a server said is no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Garbled {
    #[error("it wrote a message of more than {MAX_JSON_BYTES} bytes")]
    TooLong,
    #[error("it wrote something that is not text")]
    NotText,
    #[error("it wrote something else than messages: {0}")]
    NotJson(#[from] CanonicalError),
    #[error("it wrote a message that is nested more than {DEEPEST} deep")]
    TooDeep,
    #[error("it wrote a message that is not understood: {0}")]
    NotUnderstood(&'static str),
    #[error("it answered what nobody had asked")]
    Unasked,
    #[error("it said more than {0} things that nobody had asked for")]
    TooMuch(usize),
}

/// Reads one line after the other.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    guards: Guards,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn of(reader: R, guards: Guards) -> Lines<R> {
        Lines { reader: BufReader::new(reader), line: Vec::new(), guards }
    }

    /// The next message; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(Message, usize)>, Garbled> {
        loop {
            self.line.clear();
            // ATTACK(endless-line): a line that does not end is not kept.
            let most = MAX_JSON_BYTES as u64 + 1;
            match (&mut self.reader).take(most).read_until(b'\n', &mut self.line).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
            if self.line.len() > MAX_JSON_BYTES {
                return Err(Garbled::TooLong);
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let text = std::str::from_utf8(&self.line).map_err(|_| Garbled::NotText)?;
            return Ok(Some((read_by(text, self.guards)?, text.len())));
        }
    }
}

/// Reads one message.
pub(super) fn read(text: &str) -> Result<Message, Garbled> {
    read_by(text, Guards::default())
}

/// The same as far as guards stand.
fn read_by(text: &str, guards: Guards) -> Result<Message, Garbled> {
    let stands = guards.stands(Guard::Reading);
    // ATTACK(garbled-server): before anything walks through it.
    if stands && is_deeper(text, DEEPEST) {
        return Err(Garbled::TooDeep);
    }
    // ATTACK(garbled-server): what one reader skips, another one obeys.
    let parsed = match stands {
        true => Canonical::parse(text)?.into_value(),
        false => serde_json::from_str(text).unwrap_or_default(),
    };
    let Value::Object(mut members) = parsed else {
        return Err(Garbled::NotUnderstood("it is no object"));
    };
    if members.remove("jsonrpc") != Some(Value::from("2.0")) {
        return Err(Garbled::NotUnderstood("it is not JSON-RPC 2.0"));
    }
    let known = ["id", "method", "params", "result", "error"];
    if members.keys().any(|key| !known.contains(&key.as_str())) {
        return Err(Garbled::NotUnderstood("it has members that JSON-RPC has not"));
    }
    let (id, method) = (members.remove("id"), members.remove("method"));
    match (id, method) {
        (None, Some(Value::String(method))) => {
            Ok(Message::Notice { method, params: members.remove("params").unwrap_or_default() })
        }
        (Some(id @ (Value::String(_) | Value::Number(_))), Some(Value::String(method))) => {
            Ok(Message::Question { id, method, params: members.remove("params").unwrap_or_default() })
        }
        (Some(Value::Number(id)), None) => {
            let id = id.as_u64().ok_or(Garbled::Unasked)?;
            Ok(Message::Answer { id, answer: answer_of(members)? })
        }
        (Some(Value::String(_)), None) => Err(Garbled::Unasked),
        _ => Err(Garbled::NotUnderstood("it is neither a question nor an answer nor a notice")),
    }
}

fn answer_of(mut members: Map<String, Value>) -> Result<Result<Value, RpcError>, Garbled> {
    match (members.remove("result"), members.remove("error")) {
        (Some(result), None) => Ok(Ok(result)),
        (None, Some(error)) => {
            let code = error.get("code").and_then(Value::as_i64);
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            let code = code.ok_or(Garbled::NotUnderstood("its error has no code"))?;
            let data = error.get("data").cloned();
            Ok(Err(RpcError { code, message: message.to_owned(), data }))
        }
        _ => Err(Garbled::NotUnderstood("it has to have either a result or an error")),
    }
}

/// Whether brackets are open deeper than this anywhere, by the characters alone.
fn is_deeper(text: &str, most: usize) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A question of ours, as it is sent.
pub(super) fn question(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// A notice of ours.
pub(super) fn notice(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// What the caller answers to a question.
pub(super) fn passed_on(id: &Value, answer: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": answer }))
}

/// An answer of ours. We are asked whether we are there, and nothing else that we would do.
pub(super) fn answer(id: &Value, method: &str) -> Vec<u8> {
    line(&match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => json!({ "jsonrpc": "2.0", "id": id,
            "error": { "code": -32601, "message": "this client offers nothing of that kind" } }),
    })
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_each_kind_are_read() {
        let answer = read(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#);
        assert_eq!(answer, Ok(Message::Answer { id: 7, answer: Ok(json!({ "a": 1 })) }));
        let error = read(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#);
        let expected = RpcError { code: -1, message: "no".into(), data: None };
        assert_eq!(error, Ok(Message::Answer { id: 7, answer: Err(expected) }));
        let notice = read(r#"{"jsonrpc":"2.0","method":"x"}"#);
        assert_eq!(notice, Ok(Message::Notice { method: "x".into(), params: Value::Null }));
        let question = read(r#"{"jsonrpc":"2.0","id":"s","method":"ping","params":{}}"#);
        assert_eq!(
            question,
            Ok(Message::Question { id: json!("s"), method: "ping".into(), params: json!({}) })
        );
    }

    #[test]
    fn what_has_two_meanings_or_none_is_no_message() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#, "[".repeat(70), "]".repeat(70));
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"name":1,"name":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"Result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            "Server is running",
            &deep,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(!is_deeper(r#"["[[[[\"[["]"#, 1), "what stands in a text is not nested");
    }
}
