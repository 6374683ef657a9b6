//! Arguments that a server wants in headers as well, so that whoever stands before it need not read the body.
//!
//! # Invariants
//! - A header carries what the argument is, and no character that would end it or begin another.
//! - A schema that marks something else than a plain value, or gives two the same header, is not taken.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The word in a schema.
const MARK: &str = "x-mcp-header";

/// The properties that are mirrored, each with what its header ends with; or what is wrong with them.
pub(super) fn marked(schema: &Value) -> Result<Vec<(&str, &str)>, &'static str> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(Vec::new()) };
    let (mut marked, mut seen) = (Vec::new(), HashSet::new());
    for (property, of) in properties {
        let Some(mark) = of.get(MARK) else { continue };
        let name = mark.as_str().unwrap_or_default();
        // What stands in a schema would stand in the head of a request.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_token) {
            return Err("it wants an argument in a header that is none");
        }
        if !matches!(of.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err("it wants something in a header that is no plain value");
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err("it wants two arguments in one header");
        }
        marked.push((property.as_str(), name));
    }
    Ok(marked)
}

/// The headers of a call with these arguments.
pub(super) fn headers(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let marked = marked(schema).unwrap_or_default();
    let header = |(property, name): (&str, &str)| {
        let value = match arguments.get(property)? {
            Value::String(text) => text.clone(),
            Value::Bool(yes) => yes.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((format!("mcp-param-{}", name.to_ascii_lowercase()), written(&value)))
    };
    marked.into_iter().filter_map(header).collect()
}

/// A text as it stands in a header.
pub(super) fn written(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    let looks_packed = text.starts_with("=?base64?") && text.ends_with("?=");
    if is_plain && !looks_packed { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_mirrored_as_they_are_and_end_no_header() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "quiet": { "type": "boolean", "x-mcp-header": "Quiet" },
            "query": { "type": "string" },
        } });
        let arguments = json!({ "region": "a\r\nx: y", "count": 3, "quiet": null, "query": "q" });
        let mut sent = headers(&schema, &arguments);
        sent.sort();
        let expected = [("mcp-param-count", "3"), ("mcp-param-region", "=?base64?YQ0KeDogeQ==?=")];
        assert_eq!(sent, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!((written("us west"), written(" a")), ("us west".to_owned(), "=?base64?IGE=?=".to_owned()));
        assert_eq!(written("=?base64?YQ==?="), format!("=?base64?{}?=", STANDARD.encode("=?base64?YQ==?=")));
    }

    #[test]
    fn what_would_be_no_header_of_its_own_is_not_taken() {
        let of =
            |kind: &str, name: &str| json!({ "properties": { "a": { "type": kind, "x-mcp-header": name } } });
        for (kind, name) in [
            ("string", ""),
            ("string", "a b"),
            ("string", "a:b"),
            ("string", "é"),
            ("string", "a\t"),
            ("number", "A"),
            ("object", "A"),
            ("array", "A"),
            ("null", "A"),
        ] {
            assert!(marked(&of(kind, name)).is_err(), "{kind} {name}");
        }
        let mark = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        let twice = json!({ "properties": { "a": mark("X"), "b": mark("x") } });
        assert!(marked(&twice).is_err());
    }
}
