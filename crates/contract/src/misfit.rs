//! What is wrong with a value that does not fit its schema, in words that help to put it right.
//!
//! It repeats keys and the schema's own words, never a value.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::nearest::nearest;
use crate::scan::show_hidden;

/// How much of somebody's key is repeated to them.
const MOST_CHARACTERS: usize = 60;

/// One misfit, with the place where it is.
pub(crate) fn tell(error: &ValidationError<'_>, schema: &Value) -> String {
    let place = error.instance_path().to_string();
    let what = in_our_words(error, schema).unwrap_or_else(|| error.masked_with("the value").to_string());
    if place.is_empty() { what } else { format!("{place}: {what}") }
}

fn in_our_words(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let at = error.schema_path().to_string();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let named = at.rsplit_once('/').and_then(|(object, _)| schema.pointer(object)?.get("properties"));
            let known: Vec<&str> = named.and_then(Value::as_object)?.keys().map(String::as_str).collect();
            let told = unexpected.iter().map(|key| {
                let cut: String = key.chars().take(MOST_CHARACTERS).collect();
                format!("there is no `{}`{}", show_hidden(&cut), meant(key, &known))
            });
            Some(told.collect::<Vec<_>>().join("; "))
        }
        ValidationErrorKind::Required { property } => Some(format!("`{}` is missing", property.as_str()?)),
        _ => {
            let words = words_of(schema.pointer(&at)?)?;
            let near = error.instance().as_str().map(|text| meant(text, &words)).unwrap_or_default();
            Some(format!("the value is not one of {}{near}", listed(&words)))
        }
    }
}

fn meant(text: &str, known: &[&str]) -> String {
    nearest(text, known.iter().copied()).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}

/// The words that a keyword permits, if words are all that it permits.
fn words_of(keyword: &Value) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    for option in keyword.as_array()? {
        match option {
            Value::String(word) => words.push(word.as_str()),
            Value::Object(members) => match (members.get("const"), members.get("enum"), members.get("oneOf"))
            {
                (Some(Value::String(word)), _, _) => words.push(word),
                (None, Some(inner), _) | (None, None, Some(inner)) => words.extend(words_of(inner)?),
                _ if members.get("type") == Some(&Value::from("null")) => {}
                _ => return None,
            },
            _ => return None,
        }
    }
    (!words.is_empty()).then_some(words)
}

fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::Schema;

    fn told(value: serde_json::Value) -> Vec<String> {
        let word = |word: &str| json!({ "const": word, "type": "string", "description": "it" });
        let schema = json!({
            "type": "object",
            "properties": {
                "profile": { "oneOf": [word("inspect"), word("build")] },
                "kind": { "enum": ["file", "directory"] },
                "maybe": { "anyOf": [{ "enum": ["text", "base64"] }, { "type": "null" }] },
                "path": { "type": "string" },
                "inner": { "type": "object", "properties": { "count": { "type": "integer" } } },
            },
            "required": ["path"],
        });
        Schema::compile(&schema).unwrap().problems(&value)
    }

    #[test]
    fn a_word_that_there_is_not_is_answered_with_those_there_are_and_the_nearest() {
        assert_eq!(
            told(json!({ "path": "a", "profile": "inspct" })),
            ["/profile: the value is not one of `inspect` and `build`, did you mean `inspect`?"]
        );
        assert_eq!(
            told(json!({ "path": "a", "kind": "secret-password" })),
            ["/kind: the value is not one of `file` and `directory`"]
        );
        assert_eq!(
            told(json!({ "path": "a", "maybe": "txt" })),
            ["/maybe: the value is not one of `text` and `base64`, did you mean `text`?"]
        );
    }

    #[test]
    fn keys_that_are_missing_or_there_are_not_are_named() {
        assert_eq!(
            told(json!({ "Path": "a" })).join("; "),
            "there is no `Path`, did you mean `path`?; `path` is missing"
        );
        assert_eq!(
            told(json!({ "path": "a", "inner": { "cuont": 1 } })),
            ["/inner: there is no `cuont`, did you mean `count`?"]
        );
    }

    #[test]
    fn a_value_is_never_repeated() {
        for value in [json!("s3cret"), json!(["s3cret"]), json!({ "s3cret": 1 })] {
            let told = told(json!({ "path": "a", "profile": value, "kind": value, "maybe": value }));
            assert_eq!((told.len(), told.iter().any(|line| line.contains("s3cret"))), (3, false), "{told:?}");
        }
    }
}
