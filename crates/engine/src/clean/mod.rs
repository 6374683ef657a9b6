//! Makes what a tool gave fit to be read by a model: nothing hidden, nothing that acts, nothing endless.
//!
//! Pure: text in, text out.
//!
//! # Invariants
//! - What comes out holds no control characters but line feed and tab, and no hidden ones.
//! - It is cut between characters, never within one.

mod escapes;

use contract::is_hidden;
use serde_json::Value;

use escapes::without_escapes;

/// The most text of one result that a model sees, in bytes.
pub const MAX_CONTENT: usize = 64 * 1024;

/// A text that a model may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The text.
    pub text: String,
    /// How many characters were taken out.
    pub removed: usize,
    /// Whether the end was cut off.
    pub cut: bool,
}

/// Cleans a text, and cuts it at `most` bytes.
pub fn clean_text(text: &str, most: usize) -> Cleaned {
    let before = text.chars().count();
    let plain = without_escapes(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut clean: String = plain.chars().filter(|character| !is_hidden(*character)).collect();
    let removed = before.saturating_sub(clean.chars().count());
    let cut = clean.len() > most;
    if cut {
        clean.truncate(clean.floor_char_boundary(most));
    }
    Cleaned { text: clean, removed, cut }
}

/// Cleans every text in a value, its keys too.
pub fn clean_value(value: Value) -> Value {
    let clean = |text: &str| clean_text(text, usize::MAX).text;
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(clean_value).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (clean(&key), clean_value(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clean(text: &str) -> String {
        clean_text(text, MAX_CONTENT).text
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        let text = "fn main() {\n\tprintln!(\"héllo 世界 🦀\");\n}\n";
        assert_eq!(clean(text), text);
    }

    #[test]
    fn terminal_escapes_are_taken_out_whole() {
        assert_eq!(clean("\u{1b}[31mred\u{1b}[0m"), "red");
        assert_eq!(clean("a\u{1b}]0;title\u{7}b\u{1b}]8;;http://x\u{1b}\\c"), "abc");
        assert_eq!(clean("a\u{9b}2Jb"), "ab");
        assert_eq!(clean("a\u{1b}Pq#0;2;0;0;0\u{1b}\\b\u{1b}c"), "ab");
    }

    #[test]
    fn an_escape_that_never_ends_does_not_swallow_more_than_its_line() {
        assert_eq!(clean("a\u{1b}]0;title\nthe rest"), "a\nthe rest");
        assert_eq!(clean("end\u{1b}"), "end");
        assert_eq!(clean("end\u{1b}["), "end");
    }

    #[test]
    fn hidden_characters_are_taken_out_and_counted() {
        let cleaned = clean_text("ig\u{200b}nore\u{202e}\u{e0041}\u{0}\u{8}", MAX_CONTENT);
        assert_eq!(cleaned, Cleaned { text: "ignore".into(), removed: 5, cut: false });
    }

    #[test]
    fn a_line_cannot_be_overwritten_by_what_follows_it() {
        assert_eq!(clean("rm -rf /\recho safe\r\n"), "rm -rf /\necho safe\n");
    }

    #[test]
    fn a_cut_never_tears_a_character() {
        for most in 0..12 {
            let cleaned = clean_text("aé世🦀z", most);
            assert!(cleaned.text.len() <= most);
            assert!("aé世🦀z".starts_with(&cleaned.text));
        }
    }

    #[test]
    fn values_are_cleaned_to_the_bottom() {
        let dirty = json!({ "k\u{200b}": ["\u{1b}[1mx", { "a": 1 }] });
        assert_eq!(clean_value(dirty), json!({ "k": ["x", { "a": 1 }] }));
    }
}
