//! One message of a client, read strictly: what one parser skips and another obeys has no meaning.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{Canonical, case_variant};
use serde_json::{Value, json};

/// The headers that say something about the message; each of them once, or not at all.
const ABOUT: [HeaderName; 5] = [METHOD, NAME, VERSION, SESSION, LAST_EVENT];
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Where a message names itself in its headers by a key of its parameters.
const NAMED_BY: [(&str, &str); 8] = [
    ("tools/call", "name"),
    ("prompts/get", "name"),
    ("resources/read", "uri"),
    ("resources/subscribe", "uri"),
    ("resources/unsubscribe", "uri"),
    ("tasks/get", "taskId"),
    ("tasks/update", "taskId"),
    ("tasks/cancel", "taskId"),
];

/// JSON-RPC's code for a message that is none.
const INVALID_REQUEST: i32 = -32600;
/// MCP's code for headers that say something else than the message.
const HEADER_MISMATCH: i32 = -32020;

/// A message that is not passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread {
    code: i32,
    id: Option<Value>,
    why: String,
}

impl Unread {
    pub(super) fn because(why: &str) -> Unread {
        Unread { code: INVALID_REQUEST, id: None, why: why.to_owned() }
    }

    /// The answer to it, to its id if that much can be read.
    pub(super) fn answer(&self) -> Value {
        let error = json!({ "code": self.code, "message": self.why });
        json!({ "jsonrpc": "2.0", "id": self.id, "error": error })
    }
}

/// Reads a message.
pub(super) fn read(text: &str) -> Result<Value, Unread> {
    // ATTACK(duplicate-key), ATTACK(deep-message): bounded in depth and length, and every key has one meaning.
    let parsed = Canonical::parse(text.trim()).map_err(|error| {
        let id = serde_json::from_str::<Value>(text).ok().and_then(|value| value.get("id").cloned());
        Unread { code: INVALID_REQUEST, id, why: error.to_string() }
    })?;
    let message = parsed.into_value();
    // ATTACK(batch-of-messages): what is looked at one by one elsewhere is not passed by the dozen.
    if !message.is_object() {
        return Err(Unread::because("one message at a time: batches are not taken"));
    }
    // ATTACK(name-and-name): arguments have a schema that knows its keys; what stands around them is checked here.
    let params = message.get("params");
    let meta = params.and_then(|params| params.get("_meta"));
    for part in [Some(&message), params, meta].into_iter().flatten() {
        if let Some(key) = part.as_object().and_then(case_variant) {
            let why = format!("`{key}` stands there twice, in letters of another case");
            return Err(Unread { code: INVALID_REQUEST, id: message.get("id").cloned(), why });
        }
    }
    Ok(message)
}

/// Whether what the headers say of a message is what it says itself, in every revision.
///
/// Newer revisions demand these headers and the SDK compares them there. In the older ones nobody reads them, or so it
/// is thought: whoever stands in between may route or log by them all the same.
// ATTACK(headers-say-another)
pub(super) fn check_headers(headers: &HeaderMap, message: &Value) -> Result<(), Unread> {
    let id = message.get("id").cloned();
    let mismatch = |why: String| Unread { code: HEADER_MISMATCH, id: id.clone(), why };
    check_single(headers).map_err(mismatch)?;
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    if let Some(said) = headers.get(METHOD)
        && said.as_bytes() != method.as_bytes()
    {
        return Err(mismatch("the header `Mcp-Method` does not name the method of the message".to_owned()));
    }
    if let Some(said) = headers.get(NAME) {
        let key = NAMED_BY.iter().find(|(named, _)| *named == method).map(|(_, key)| *key);
        let name = key.and_then(|key| message.get("params")?.get(key)?.as_str());
        if !name.is_some_and(|name| is_header_for(said.as_bytes(), name)) {
            let why = "the header `Mcp-Name` does not name what the message is about".to_owned();
            return Err(mismatch(why));
        }
    }
    Ok(())
}

/// Whether each of these headers stands once at most.
pub(super) fn check_single(headers: &HeaderMap) -> Result<(), String> {
    match ABOUT.iter().find(|name| headers.get_all(*name).iter().count() > 1) {
        Some(twice) => Err(format!("the header `{twice}` stands more than once")),
        None => Ok(()),
    }
}

/// Whether a header's value is this text, as it is or in base64 as MCP writes what cannot stand in a header.
fn is_header_for(said: &[u8], text: &str) -> bool {
    said == text.as_bytes() || said == format!("=?base64?{}?=", STANDARD.encode(text)).as_bytes()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn call() -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "fs_read" } })
    }

    fn said(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_that_say_the_same_or_nothing_pass() {
        for pairs in [
            vec![],
            vec![("mcp-method", "tools/call"), ("mcp-name", "fs_read")],
            vec![("mcp-name", "=?base64?ZnNfcmVhZA==?=")],
        ] {
            assert_eq!(check_headers(&said(&pairs), &call()), Ok(()), "{pairs:?}");
        }
    }

    #[test]
    fn headers_that_say_something_else_do_not() {
        for pairs in [
            vec![("mcp-method", "tools/list")],
            vec![("mcp-method", "Tools/Call")],
            vec![("mcp-name", "fs_delete")],
            vec![("mcp-name", "=?base64?ZnNfZGVsZXRl?=")],
            vec![("mcp-method", "tools/call"), ("mcp-method", "tools/list")],
            vec![("mcp-session-id", "a"), ("mcp-session-id", "b")],
            vec![("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2026-07-28")],
        ] {
            assert!(check_headers(&said(&pairs), &call()).is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn what_has_no_name_is_not_named_by_a_header() {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        assert!(check_headers(&said(&[("mcp-name", "fs_read")]), &list).is_err());
    }

    #[test]
    fn keys_that_differ_in_case_alone_are_refused_where_the_protocol_reads_them() {
        for text in [
            r#"{"id":1,"method":"tools/list","Method":"tools/call"}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":"fs_read","Name":"shell"}}"#,
            r#"{"id":1,"method":"tools/call","params":{"uris":1,"uri\u017f":2}}"#,
            r#"{"id":1,"method":"tools/call","params":{"_meta":{"key":1,"\u212aey":2}}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(r#"{"id":1,"params":{"arguments":{"a":1,"A":2}}}"#).is_ok(), "that is the schema's");
    }

    #[test]
    fn several_messages_at_once_are_none() {
        let batch = read(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).unwrap_err();
        assert_eq!(batch.answer()["error"]["code"], INVALID_REQUEST);
        assert!(read(&format!("{}{}", "[".repeat(5000), "]".repeat(5000))).is_err());
    }
}
