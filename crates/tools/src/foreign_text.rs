//! Texts of strangers that a model is shown beside a tool: cleaned, and left out where they give orders.
//!
//! What is hashed and scanned elsewhere is what its author wrote; this is what is shown of it.

use contract::{Finding, scan_description, show_hidden};

/// The longest text beside a part of a tool, in characters; the longest word that cannot be left out, in bytes.
pub(crate) const LONGEST_REMARK: usize = 1024;

/// A text as it is shown. One that gives orders is not shown at all.
pub(crate) fn remark(text: &str, most: usize) -> String {
    // ATTACK(poisoned-description)
    let found = scan_description(text);
    let orders = found.iter().any(|finding| !matches!(finding, Finding::HiddenCharacters { .. }));
    if orders {
        return "(left out: it speaks to its reader instead of saying what the tool does)".to_owned();
    }
    let cleaned = clean::clean_text(text, most.saturating_mul(4)).text;
    cleaned.chars().take(most).collect()
}

/// Whether a text that cannot be left out says no more than what it is.
pub(crate) fn is_plain(text: &str) -> bool {
    text.len() <= LONGEST_REMARK && scan_description(text).is_empty()
}

/// The beginning of a text, to say which one it was.
pub(crate) fn beginning(text: &str) -> String {
    show_hidden(&text.chars().take(80).collect::<String>())
}
