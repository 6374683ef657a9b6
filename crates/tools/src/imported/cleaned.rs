//! What a file says to whoever reads about its tools: cleaned, and left out where it gives orders.
//!
//! What is hashed and scanned is the file's own words; they stand in the origin of the definition.

use serde_json::{Map, Value};

use crate::foreign_text::{LONGEST_REMARK, beginning, is_plain, remark};

/// The longest title, in characters.
const LONGEST_TITLE: usize = 128;

pub(super) fn title(text: &str) -> String {
    remark(text, LONGEST_TITLE)
}

pub(super) fn about(text: &str) -> String {
    remark(text, LONGEST_REMARK)
}

/// A description. Whoever checks contracts says how long it is.
pub(super) fn description(text: &str) -> String {
    remark(text, usize::MAX)
}

/// A guide, without the lines that give orders; all of it is left out if they do so together.
// ATTACK(imported-speaks)
pub(super) fn guide(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| remark(line, usize::MAX)).collect();
    remark(&lines.join("\n"), usize::MAX)
}

/// A schema with its remarks cleaned. What is checked by it cannot be left out, so it has to be plain.
pub(super) fn schema(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::Object(members) => {
            let mut told = Map::new();
            for (name, member) in members {
                word(name)?;
                let member = match (name.as_str(), member) {
                    ("title" | "description", Value::String(text)) => Value::String(about(text)),
                    _ => schema(member)?,
                };
                told.insert(name.clone(), member);
            }
            Value::Object(told)
        }
        Value::Array(items) => Value::Array(items.iter().map(schema).collect::<Result<_, _>>()?),
        Value::String(text) => {
            word(text)?;
            value.clone()
        }
        plain => plain.clone(),
    })
}

/// Refuses a word that says more than it is.
pub(super) fn word(text: &str) -> Result<(), String> {
    match is_plain(text) {
        true => Ok(()),
        false => Err(format!("`{}` speaks to its reader, and cannot be left out", beginning(text))),
    }
}
