//! What a server answers to a call, in our terms.
//!
//! # Invariants
//! - That a call failed, as the server says, is said on.
//! - What is no text is never put before a model: it is kept beside, and its place says what it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Output;
use serde_json::{Map, Value};

/// As many pieces as an answer has at most.
const MOST_PIECES: usize = 1000;

/// Where the texts of resources in an answer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceTexts {
    /// In the text of the answer.
    Within,
    /// Beside it: a client gets them as what they are.
    Beside,
}

/// Reads an answer; says what is wrong with it, if it is none.
pub(super) fn output_of(
    mut answer: Value,
    texts_of_resources: ResourceTexts,
) -> Result<Output, &'static str> {
    check_keys(&answer)?;
    let Some(Value::Array(pieces)) = answer.get_mut("content").map(Value::take) else {
        return Err("it has no content");
    };
    if pieces.len() > MOST_PIECES {
        return Err("it has more than a thousand pieces");
    }
    let is_error = match answer.get("isError") {
        None => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => return Err("it does not say whether it failed"),
    };
    let structured = match answer.get_mut("structuredContent").map(Value::take) {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(structured @ Value::Object(_)) => structured,
        Some(_) => return Err("what it says for programs is no object"),
    };
    let (mut texts, mut artifacts) = (Vec::new(), Vec::new());
    for (place, piece) in pieces.into_iter().enumerate() {
        check_keys(&piece)?;
        texts.push(text_of(place + 1, &piece, texts_of_resources, &mut artifacts)?);
    }
    Ok(Output { content: texts.join("\n"), is_error, structured, artifacts })
}

/// ATTACK(answer-in-two-cases): whether it failed, and what a piece is, has one meaning for whoever reads it.
fn check_keys(value: &Value) -> Result<(), &'static str> {
    match value.as_object().and_then(contract::case_variant) {
        Some(_) => Err("two of its keys differ by their case alone"),
        None => Ok(()),
    }
}

fn text_of(
    number: usize,
    piece: &Value,
    texts_of_resources: ResourceTexts,
    artifacts: &mut Vec<(String, Vec<u8>)>,
) -> Result<String, &'static str> {
    let text = |key: &str| piece.get(key).and_then(Value::as_str);
    match text("type").ok_or("a piece of it has no type")? {
        "text" => Ok(text("text").ok_or("a text in it is none")?.to_owned()),
        kind @ ("image" | "audio") => {
            let data = text("data").ok_or("a picture or sound in it is none")?;
            aside(kind, number, text("mimeType"), data, artifacts)
        }
        "resource_link" => Ok(format!("[resource: {}]", plain(text("uri").unwrap_or_default()))),
        "resource" => {
            let resource = piece.get("resource").ok_or("a resource in it is none")?;
            let text = |key: &str| resource.get(key).and_then(Value::as_str);
            let uri = plain(text("uri").unwrap_or_default());
            match (text("text"), text("blob")) {
                (Some(own), _) if texts_of_resources == ResourceTexts::Beside => {
                    artifacts.push((format!("resource-{number}"), own.as_bytes().to_vec()));
                    Ok(format!("[resource {number}: {uri}, {} bytes]", own.len()))
                }
                (Some(own), _) => Ok(format!("[resource: {uri}]\n{own}")),
                (None, Some(blob)) => aside("resource", number, text("mimeType"), blob, artifacts),
                (None, None) => Err("a resource in it is none"),
            }
        }
        // Of kinds that come later nothing is guessed.
        _ => Ok(format!("[piece {number}: of a kind that is not known here]")),
    }
}

/// Keeps what is no text beside the answer.
pub(super) fn aside(
    kind: &str,
    number: usize,
    of_type: Option<&str>,
    data: &str,
    artifacts: &mut Vec<(String, Vec<u8>)>,
) -> Result<String, &'static str> {
    let bytes = STANDARD.decode(data).map_err(|_| "something in it is not base64")?;
    let of_type = plain(of_type.unwrap_or("application/octet-stream"));
    let placeholder = format!("[{kind} {number}: {of_type}, {} bytes]", bytes.len());
    artifacts.push((format!("{kind}-{number}"), bytes));
    Ok(placeholder)
}

pub(super) fn plain(text: &str) -> String {
    contract::show_hidden(&text.chars().take(256).collect::<String>()).replace(['[', ']', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_joined_and_the_rest_stands_beside() {
        let answer = json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "demo://x", "text": "two" } },
            { "type": "audio", "data": "AA==", "mimeType": "audio/wav" },
        ], "structuredContent": { "n": 1 } });
        let output = output_of(answer, ResourceTexts::Within).unwrap();
        assert_eq!(
            output.content,
            "one\n[image 2: image/png, 3 bytes]\n[resource: demo://x]\ntwo\n[audio 4: audio/wav, 1 bytes]"
        );
        assert_eq!((output.is_error, output.structured), (false, json!({ "n": 1 })));
        assert_eq!(output.artifacts, [("image-2".into(), vec![0, 1, 2]), ("audio-4".into(), vec![0])]);
    }

    #[test]
    fn that_it_failed_is_said_on() {
        let failed = output_of(
            json!({ "content": [{ "type": "text", "text": "no" }], "isError": true }),
            ResourceTexts::Within,
        );
        assert_eq!(failed.map(|output| (output.is_error, output.structured)), Ok((true, json!({}))));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for answer in [
            json!({}),
            json!({ "content": "text" }),
            json!({ "content": [{ "text": "no type" }] }),
            json!({ "content": [], "isError": "false" }),
            json!({ "content": [], "isError": false, "IsError": true }),
            json!({ "content": [{ "type": "text", "text": "a", "Text": "b" }] }),
            json!({ "content": [], "structuredContent": [1] }),
            json!({ "content": [{ "type": "image", "data": "%%%" }] }),
        ] {
            assert!(output_of(answer.clone(), ResourceTexts::Within).is_err(), "{answer}");
        }
    }
}
