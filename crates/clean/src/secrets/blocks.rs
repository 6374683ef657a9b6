//! Private keys, from their first line to their last.

use std::ops::Range;

use super::super::class::Class;
use super::super::decode::from_base64;
use super::super::detect::{Hit, Runs};

/// What a block begins with.
pub(crate) const KEY_BLOCKS: [&str; 3] = ["-----BEGIN ", "PuTTY-User-Key-File-", "BEGIN OpenVPN Static key"];

/// `-----BEGIN ` in base64, as configuration files of clusters have it.
pub(crate) const ENCODED_KEY: &str = "LS0tLS1CRUdJTi";

/// Looks whether a block is a private key that is really there.
pub(crate) fn find_key_block(bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
    let rest = bytes.get(place.end..)?;
    let first = rest.get(..64.min(rest.len()))?;
    let line = first.iter().position(|byte| matches!(byte, b'\n' | b'\\')).unwrap_or(first.len());
    let line = first.get(..line)?;
    let opening = bytes.get(place.clone())?;
    let (rule, body) = if opening.eq_ignore_ascii_case(b"-----BEGIN ") {
        let title = line.windows(5).position(|part| part == b"-----")?;
        if !line.get(..title)?.windows(11).any(|part| part == b"PRIVATE KEY") {
            return None;
        }
        ("private-key", place.end + title + 5)
    } else if opening.starts_with(b"PuTTY") {
        ("private-key", place.end + line.len())
    } else {
        ("static-key", place.end + line.len())
    };
    let (length, key) = key_length(bytes.get(body..)?);
    let end = body + length;
    // A document that only speaks of keys has the line, and no key.
    (key >= 32).then(|| Hit { rank: 0, goes_on: Some(Class::Key), ..Hit::secret(rule, place.start..end) })
}

/// How long the lines of a key are, to the one that ends it or to the first that is not of a key; and how much of that
/// is key.
fn key_length(bytes: &[u8]) -> (usize, usize) {
    let (mut at, mut key) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        // Lines may be written as in source code: a backslash and `n`.
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\\'));
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let feed = match end.and_then(|end| rest.get(end..)) {
            Some([b'\\', b'n' | b'r' | b't', ..]) => 2,
            Some(_) => 1,
            None => 0,
        };
        let text = line.trim_ascii().trim_start_of(b"\"'+#/>*|,").trim_ascii();
        let text = text.trim_end_of(b"\"',+;").trim_ascii();
        if let Some(marker) = line.windows(8).position(|part| part == b"-----END") {
            let tail = line.get(marker + 8..).unwrap_or_default();
            let close = tail.windows(5).position(|part| part == b"-----");
            return (at + marker + 8 + close.map_or(tail.len(), |close| close + 5), key);
        }
        let is_header = text.len() <= 80
            && text.iter().take(24).any(|byte| *byte == b':')
            && text.first().is_some_and(u8::is_ascii_uppercase);
        let is_key = Class::Padded.run(text) == text.len();
        let is_frame = text.starts_with(b"-----");
        if !(is_key || is_header || is_frame) {
            return (at, key);
        }
        key += if is_key { text.len() } else { 0 };
        at += line.len() + feed;
    }
    (bytes.len(), key)
}

trait TrimOf {
    fn trim_start_of(&self, bytes: &[u8]) -> &[u8];
    fn trim_end_of(&self, bytes: &[u8]) -> &[u8];
}

impl TrimOf for [u8] {
    fn trim_start_of(&self, bytes: &[u8]) -> &[u8] {
        let from = self.iter().position(|byte| !bytes.contains(byte)).unwrap_or(self.len());
        self.get(from..).unwrap_or_default()
    }

    fn trim_end_of(&self, bytes: &[u8]) -> &[u8] {
        let to = self.iter().rposition(|byte| !bytes.contains(byte)).map_or(0, |last| last + 1);
        self.get(..to).unwrap_or_default()
    }
}

/// Looks whether something in base64 is a private key.
pub(crate) fn find_encoded_key(place: &Range<usize>, runs: &mut Runs<'_>) -> Option<Hit> {
    let bytes = runs.bytes();
    let end = runs.end(Class::Padded, place.start);
    let first = from_base64(bytes.get(place.start..end.min(place.start + 88))?);
    let is_key = first.windows(11).any(|part| part == b"PRIVATE KEY") && end - place.start >= 128;
    is_key.then(|| Hit {
        rank: 0,
        goes_on: Some(Class::Padded),
        ..Hit::secret("encoded-private-key", place.start..end)
    })
}
