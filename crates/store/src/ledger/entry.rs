//! One entry of the ledger, and the bytes that are hashed.
//!
//! # Invariants
//! - The bytes are canonical JSON; they hold the entry's place and the hash of the one before, so that an entry fits in
//!   one place of one ledger only.

use contract::{Canonical, CanonicalError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tree::{Hash, leaf_hash};
use crate::keys::hex;

/// The kind of the first entry of every ledger.
pub(crate) const OPENED: &str = "gate.opened";

/// The kind of an entry whose body is that of a receipt.
pub(crate) const SETTLED: &str = "call.settled";

/// The kind of an entry whose body is that of a call's second receipt.
pub(crate) const RECONCILED: &str = "call.reconciled";

/// What stands for the entry before the first.
pub(crate) const NOTHING_BEFORE: Hash = [0; 32];

/// One event. As canonical JSON it is exactly what was hashed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// Its place, from 0.
    pub seq: i64,
    /// When, in milliseconds since 1970.
    pub time: i64,
    /// What happened.
    pub kind: String,
    /// The leaf hash of the entry before, in hexadecimal digits.
    pub prev: String,
    /// What is to be known about it.
    pub body: Value,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) seq: i64,
    pub(crate) time: i64,
    pub(crate) kind: String,
    pub(crate) prev: Hash,
    /// Canonical JSON.
    pub(crate) body: String,
}

impl Entry {
    /// The bytes that are hashed. Any other body, kind, place or time gives others.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // The members of canonical JSON are sorted, so the text of the body goes in as it is.
        format!(
            r#"{{"body":{},"kind":{},"prev":"{}","seq":{},"time":{}}}"#,
            self.body,
            Value::from(self.kind.as_str()),
            hex(&self.prev),
            self.seq,
            self.time
        )
        .into_bytes()
    }

    pub(crate) fn leaf(&self) -> Hash {
        leaf_hash(&self.bytes())
    }
}

impl TryFrom<&Entry> for LedgerEntry {
    type Error = CanonicalError;
    fn try_from(entry: &Entry) -> Result<LedgerEntry, CanonicalError> {
        Ok(LedgerEntry {
            seq: entry.seq,
            time: entry.time,
            kind: entry.kind.clone(),
            prev: hex(&entry.prev),
            body: Canonical::parse(&entry.body)?.into_value(),
        })
    }
}

impl TryFrom<&LedgerEntry> for Entry {
    type Error = CanonicalError;
    fn try_from(entry: &LedgerEntry) -> Result<Entry, CanonicalError> {
        let prev = unhex(&entry.prev)
            .ok_or_else(|| CanonicalError::Json { why: "`prev` has 64 hexadecimal digits".to_owned() })?;
        let body = Canonical::of(entry.body.clone())?.text().to_owned();
        Ok(Entry { seq: entry.seq, time: entry.time, kind: entry.kind.clone(), prev, body })
    }
}

/// Reads 64 lower-case hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Hash> {
    let digits: Option<Vec<u8>> = text
        .bytes()
        .map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        })
        .collect();
    let bytes: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => high << 4 | low,
            _ => 0,
        })
        .collect();
    if text.len() == 64 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Entry {
        Entry {
            seq: 7,
            time: 1_700_000_000_000,
            kind: "call.\"planned\"\n".into(),
            prev: [0xab; 32],
            body: Canonical::of(json!({ "b": [1, "é"], "a": null })).unwrap().text().to_owned(),
        }
    }

    #[test]
    fn the_bytes_are_canonical_json_of_the_entry() {
        let shown = LedgerEntry::try_from(&entry()).unwrap();
        let canonical = Canonical::of(serde_json::to_value(&shown).unwrap()).unwrap();
        assert_eq!(String::from_utf8(entry().bytes()).unwrap(), canonical.text());
        assert_eq!(Entry::try_from(&shown).unwrap(), entry());
    }

    #[test]
    fn each_part_of_an_entry_is_hashed() {
        let others = [
            Entry { seq: 8, ..entry() },
            Entry { time: 1, ..entry() },
            Entry { kind: "call.planned".into(), ..entry() },
            Entry { prev: [0; 32], ..entry() },
            Entry { body: "{}".into(), ..entry() },
        ];
        assert!(others.iter().all(|other| other.leaf() != entry().leaf()));
    }

    #[test]
    fn hashes_are_read_in_one_form_only() {
        assert_eq!(unhex(&hex(&[0xab; 32])), Some([0xab; 32]));
        for text in ["", "ab", &"AB".repeat(32), &"ab".repeat(33), &"é".repeat(32)] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
