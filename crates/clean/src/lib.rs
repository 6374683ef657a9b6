//! Makes what a tool gave fit to be read by a model: nothing hidden, nothing that acts, no credential, nothing endless.
//!
//! Pure: text in, text and findings out. Knows no clock, no disk, no network, and no agent.
//!
//! Two steps in one pass. The [`sieve`] takes out what is not seen or what a terminal would obey. The [`window`] looks
//! through what is left for credentials, marks and links, and masks them; words that give orders are told of and stay.
//!
//! # Invariants
//! - What comes out holds no control characters but line feed, tab, form feed and the return before a line feed, and no
//!   hidden ones but where a script or an emoji needs them.
//! - It is the same however the input was cut into pieces.
//! - Time grows with the input, and memory does not.
//! - It is cut between characters, never within one.
#![forbid(unsafe_code)]

mod characters;
mod class;
mod decode;
mod detect;
mod escapes;
mod excerpt;
mod finding;
mod fold;
mod links;
mod lookalike;
mod markers;
mod orders;
mod phrases;
mod rules;
mod secrets;
mod sieve;
mod table;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

pub use excerpt::{Excerpt, excerpt};
pub use finding::{Action, Category, Finding, Findings, MAX_FINDINGS};
pub use rules::{Rule, rules};

use sieve::Sieve;
use window::Window;

/// The most text of one result that a model sees, in bytes.
pub const MAX_CONTENT: usize = 64 * 1024;

/// A text that a model may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The text.
    pub text: String,
    /// What was found in it.
    pub findings: Findings,
    /// Whether the end was cut off.
    pub cut: bool,
}

/// Makes the tables that cleaning needs, which otherwise happens with the first text: for a process that is copied.
pub fn prepare() {
    detect::prepare();
    phrases::prepare();
    fold::prepare();
}

/// Cleans a text, and cuts it at `most` bytes.
pub fn clean_text(text: &str, most: usize) -> Cleaned {
    let mut cleaner = Cleaner::default();
    cleaner.push(text);
    let (mut text, findings) = cleaner.finish();
    let cut = text.len() > most;
    if cut {
        text.truncate(text.floor_char_boundary(most));
    }
    Cleaned { text, findings, cut }
}

/// Cleans every text in a value, its keys too.
pub fn clean_value(value: Value, findings: &mut Findings) -> Value {
    match value {
        Value::String(text) => Value::String(clean_text_into(&text, findings)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| clean_value(item, findings)).collect())
        }
        Value::Object(members) => Value::Object(clean_members(members, findings)),
        other => other,
    }
}

fn clean_members(members: Map<String, Value>, findings: &mut Findings) -> Map<String, Value> {
    let cleaned: Vec<(String, bool, Value)> = members
        .into_iter()
        .map(|(key, value)| {
            let name = clean_text_into(&key, findings);
            let stays = name == key;
            (name, stays, clean_value(value, findings))
        })
        .collect();
    // A key that was clean keeps its name: one that only looks like it, and stands before it, does not take its place.
    let mut taken: HashSet<String> =
        cleaned.iter().filter(|(_, stays, _)| *stays).map(|(name, ..)| name.clone()).collect();
    let mut used = HashMap::new();
    let named = cleaned.into_iter().map(|(name, stays, value)| match stays {
        true => (name, value),
        false => (free_key(&mut taken, &mut used, name), value),
    });
    named.collect()
}

fn clean_text_into(text: &str, findings: &mut Findings) -> String {
    let cleaned = clean_text(text, usize::MAX);
    findings.absorb(cleaned.findings);
    cleaned.text
}

/// Two keys that differ only in what was taken out stay two. `used` has the last number that each was given: nobody counts
/// from the beginning for every key of many.
fn free_key(taken: &mut HashSet<String>, used: &mut HashMap<String, u64>, key: String) -> String {
    if taken.insert(key.clone()) {
        return key;
    }
    let last = used.entry(key.clone()).or_insert(1);
    loop {
        *last += 1;
        let numbered = format!("{key} ({last})");
        if taken.insert(numbered.clone()) {
            return numbered;
        }
    }
}

/// Cleans a text that comes in pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    sieve: Sieve,
    window: Window,
    /// The beginning of a character that was cut.
    torn: Vec<u8>,
}

impl Cleaner {
    /// Takes the next piece.
    pub fn push(&mut self, text: &str) {
        self.let_go();
        self.sieve.push(text, &mut self.window);
    }

    /// Takes the next piece of what may be text. What is none becomes U+FFFD, and a finding.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = bytes;
        if !self.torn.is_empty() {
            self.torn.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.torn);
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.sieve.push(text, &mut self.window),
                Err(error) => {
                    let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or_default();
                    self.sieve.push(std::str::from_utf8(valid).unwrap_or_default(), &mut self.window);
                    let Some(length) = error.error_len() else {
                        self.torn = after.to_vec();
                        return;
                    };
                    self.sieve.push_broken(length, &mut self.window);
                    rest = after.get(length..).unwrap_or_default();
                }
            }
        }
    }

    /// What is clean by now.
    pub fn take(&mut self) -> String {
        self.window.take()
    }

    /// The rest, and what was found.
    pub fn finish(mut self) -> (String, Findings) {
        self.let_go();
        self.sieve.finish(&mut self.window);
        self.window.finish()
    }

    /// A character that was begun and not finished is none.
    fn let_go(&mut self) {
        let torn = std::mem::take(&mut self.torn);
        if !torn.is_empty() {
            self.sieve.push_broken(torn.len(), &mut self.window);
        }
    }
}
