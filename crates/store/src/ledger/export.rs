//! The ledger as a file: lines of canonical JSON, checked without a database.
//!
//! A header, then one line per entry with its hash and receipt, then a signed checkpoint over all of them.

use std::io::{self, BufRead, Read};

use contract::{Canonical, MAX_JSON_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::entry::{Entry, LedgerEntry, unhex};
use super::note::{Checkpoint, NoteError};
use super::verify::{Broken, Fault, Kept, Verified, Verifier};
use crate::error::StoreError;
use crate::keys::{PublicKey, hex};

const FORMAT: &str = "toolgate-ledger";

/// No line is longer: an entry and its receipt.
const MAX_LINE: u64 = MAX_JSON_BYTES as u64 + 1;

/// Why a ledger was not exported, or an exported one is not known to be right.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
    /// The file cannot be read.
    #[error("cannot read the export")]
    Read(#[source] io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the export {why}")]
    Form {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It was signed with another key.
    #[error("the export was made by a gate with another key, `{found}`")]
    OtherKey {
        /// Which key it names.
        found: String,
    },
    /// The checkpoint at its end is no good.
    #[error("the checkpoint at the end of the export is not valid")]
    LastCheckpoint(#[source] NoteError),
    /// The checkpoint to compare with is no good.
    #[error("the given checkpoint cannot be used")]
    Checkpoint(#[source] NoteError),
    /// Something is wrong with the ledger.
    #[error("the ledger is broken")]
    Broken(#[from] Broken),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    format: String,
    version: u32,
    key: String,
    size: u64,
}

impl Header {
    pub(crate) fn new(key: &PublicKey, size: u64) -> Header {
        Header { format: FORMAT.to_owned(), version: 1, key: key.to_string(), size }
    }
}

/// The lines in the middle.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    entry: LedgerEntry,
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<Value>,
}

impl Line {
    pub(crate) fn of(kept: &Kept) -> Result<Line, StoreError> {
        let receipt = kept.receipt.as_deref().map(|text| Canonical::parse(text).map(Canonical::into_value));
        let leaf = kept.hashes.first().ok_or(StoreError::Unreadable { what: "ledger hash" })?;
        Ok(Line {
            entry: LedgerEntry::try_from(&kept.entry)?,
            hash: hex(leaf),
            receipt: receipt.transpose()?,
        })
    }

    pub(crate) fn to_value(&self) -> Value {
        json!(self)
    }

    fn into_kept(self) -> Option<Kept> {
        let receipt = match self.receipt {
            Some(value) => Some(Canonical::of(value).ok()?.text().to_owned()),
            None => None,
        };
        Some(Kept { entry: Entry::try_from(&self.entry).ok()?, hashes: vec![unhex(&self.hash)?], receipt })
    }
}

/// The last line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    checkpoint: String,
}

/// Checks an exported ledger with nothing but a public key.
///
/// A checkpoint that was kept elsewhere also shows whether the ledger was cut or replaced as a whole.
pub fn verify_export(
    reader: impl BufRead,
    key: &PublicKey,
    checkpoint: Option<&str>,
) -> Result<Verified, ExportError> {
    let kept_elsewhere = match checkpoint {
        Some(note) => vec![Checkpoint::open(note, key).map_err(ExportError::Checkpoint)?],
        None => Vec::new(),
    };
    let mut lines = Lines { reader, line: 0 };
    let first = lines.next()?.ok_or(ExportError::Form { line: 1, why: "is missing" })?;
    let header: Header = lines.read(first, "is not the header of an exported ledger")?;
    if header.format != FORMAT || header.version != 1 {
        return Err(lines.form("is not the header of an exported ledger"));
    }
    if header.key != key.to_string() {
        return Err(ExportError::OtherKey { found: header.key.chars().take(256).collect() });
    }
    let mut verifier = Verifier::new(key, kept_elsewhere);
    let last = loop {
        let value = lines.next()?.ok_or(ExportError::Form { line: lines.line + 1, why: "is missing" })?;
        if value.get("entry").is_none() {
            break value;
        }
        let seq = value.pointer("/entry/seq").and_then(Value::as_i64);
        let line: Line = lines.read(value, "is not an entry")?;
        let unreadable = || Broken {
            seq,
            fault: Fault::Unreadable { why: "a hash or number in it is not one".to_owned() },
        };
        verifier.feed(&line.into_kept().ok_or_else(unreadable)?)?;
    };
    let footer: Footer = lines.read(last, "is neither an entry nor the last checkpoint")?;
    let signed = Checkpoint::open(&footer.checkpoint, key).map_err(ExportError::LastCheckpoint)?;
    if lines.next()?.is_some() {
        return Err(lines.form("stands after the last checkpoint"));
    }
    verifier.add(signed.clone());
    let (verified, _) = verifier.finish()?;
    // More entries than were signed is as wrong as fewer.
    if signed.size != verified.entries || header.size != verified.entries {
        let fault = Fault::Truncated { signed: signed.size.max(header.size), found: verified.entries };
        return Err(Broken { seq: None, fault }.into());
    }
    Ok(verified)
}

struct Lines<R> {
    reader: R,
    line: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<Value>, ExportError> {
        let mut text = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut text);
        if read.map_err(ExportError::Read)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        let text = text.strip_suffix(b"\n").ok_or_else(|| self.form("is too long, or has no end"))?;
        let text = str::from_utf8(text).map_err(|_| self.form("is not text"))?;
        match Canonical::parse(text) {
            // Every byte counts, also those that mean nothing.
            Ok(canonical) if canonical.text() == text => Ok(Some(canonical.into_value())),
            _ => Err(self.form("is not canonical JSON")),
        }
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, value: Value, why: &'static str) -> Result<T, ExportError> {
        serde_json::from_value(value).map_err(|_| self.form(why))
    }

    fn form(&self, why: &'static str) -> ExportError {
        ExportError::Form { line: self.line, why }
    }
}
