//! Checks and exports the whole ledger of a database, a page at a time.

use std::io::Write;

use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::chain::split;
use super::export::{ExportError, Header, Line};
use super::note::Checkpoint;
use super::proof::{entry_of, sign, size};
use super::tables::compare;
use super::verify::{Fault, Kept, Verified, Verifier, VerifyError};
use crate::error::StoreError;
use crate::keys::PublicKey;
use crate::open::Store;

/// Entries that are held in memory at once.
const PAGE: i64 = 128;

const ENTRIES: &str = "SELECT l.seq, l.time, l.kind, l.body, l.prev, l.hashes, \
    coalesce(r.envelope, x.envelope) AS envelope FROM ledger l LEFT JOIN receipts r ON r.seq = l.seq \
    LEFT JOIN reconciliations x ON x.seq = l.seq WHERE l.seq >= $1 ORDER BY l.seq LIMIT $2";
const NEXT: &str = "SELECT min(seq) AS seq FROM ledger WHERE seq >= $1";
const HEAD: &str = "SELECT size, note FROM head";
const CHECKPOINTS: &str = "SELECT size, note FROM checkpoints ORDER BY size";
/// What belongs to an entry that is not there.
const ORPHANS: &str = "SELECT min(seq) AS seq FROM ( \
    SELECT seq FROM receipts UNION ALL SELECT seq FROM reconciliations UNION ALL SELECT planned_seq AS seq FROM calls) \
    AS named \
    WHERE NOT EXISTS (SELECT 1 FROM ledger l WHERE l.seq = named.seq)";
/// A receipt that is filed under another call than it is about.
const FILED: &str = "SELECT r.seq, r.call, l.body FROM ( \
    SELECT seq, call FROM receipts UNION ALL SELECT seq, call FROM reconciliations) AS r \
    JOIN ledger l ON l.seq = r.seq WHERE r.seq >= $1 ORDER BY r.seq LIMIT $2";

impl Store {
    /// Goes through the whole ledger and recomputes everything: hashes, chain, tree, receipts, checkpoints. Then compares
    /// the tables of people, calls and approvals with what it tells.
    ///
    /// A checkpoint that was kept elsewhere also shows whether the ledger was cut or replaced as a whole.
    pub async fn verify(&self, checkpoint: Option<&str>) -> Result<Verified, VerifyError> {
        let key = self.keys().public();
        let mut checkpoints = match checkpoint {
            Some(note) => vec![Checkpoint::open(note, key)?],
            None => Vec::new(),
        };
        let mut read = self.snapshot().await?;
        for row in sqlx::query(CHECKPOINTS).fetch_all(&mut *read).await.map_err(StoreError::from)? {
            checkpoints.push(checkpoint_of(&row, key)?);
        }
        let head = head(&mut read, key).await?;
        checkpoints.extend(head.clone());
        let mut verifier = Verifier::new(key, checkpoints);
        let (mut from, mut limit) = (i64::MIN, PAGE);
        loop {
            let rows = match page(&mut read, from, limit).await {
                Ok(rows) => rows,
                // One value that is no text spoils the page: from here on one by one, until it is found.
                Err(error) if is_unreadable(&error) && limit > 1 => {
                    limit = 1;
                    continue;
                }
                Err(error) if is_unreadable(&error) => {
                    return Err(unreadable(next(&mut read, from).await?, &error.into()));
                }
                Err(error) => return Err(StoreError::from(error).into()),
            };
            let Some(last) = rows.last() else { break };
            from = seq_of(last)?.saturating_add(1);
            // SQLite answers in the thread of whoever asks: others have their turn between two pages.
            tokio::task::yield_now().await;
            for row in &rows {
                let kept = kept_of(row).map_err(|error| match seq_of(row) {
                    Ok(seq) => unreadable(seq, &error),
                    Err(error) => error.into(),
                });
                verifier.feed(&kept?)?;
            }
        }
        if let Some(seq) = self.orphan(&mut read).await? {
            return Err(VerifyError::broken(seq, Fault::Missing));
        }
        self.check_filing(&mut read).await?;
        let (verified, story) = verifier.finish()?;
        match head {
            None if verified.entries > 0 => return Err(VerifyError::broken(None, Fault::HeadMissing)),
            Some(head) if head.size < verified.entries => {
                return Err(VerifyError::broken(i64::try_from(head.size).ok(), Fault::Unsigned));
            }
            _ => {}
        }
        compare(&mut read, &story, PAGE).await?;
        Ok(verified)
    }

    async fn orphan(&self, connection: &mut AnyConnection) -> Result<Option<i64>, StoreError> {
        Ok(sqlx::query(ORPHANS).fetch_one(connection).await?.try_get("seq")?)
    }

    async fn check_filing(&self, connection: &mut AnyConnection) -> Result<(), VerifyError> {
        let mut from = 0;
        loop {
            let rows = sqlx::query(FILED).bind(from).bind(PAGE).fetch_all(&mut *connection).await;
            let rows = rows.map_err(StoreError::from)?;
            let Some(last) = rows.last() else { return Ok(()) };
            from = seq_of(last)?.saturating_add(1);
            for row in &rows {
                let body: String = row.try_get("body").map_err(StoreError::from)?;
                let call: String = row.try_get("call").map_err(StoreError::from)?;
                let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
                if body.get("call_id").and_then(|id| id.as_str()) != Some(call.as_str()) {
                    return Err(VerifyError::broken(seq_of(row)?, Fault::ReceiptDiffers));
                }
            }
        }
    }

    /// Writes the whole ledger as lines of JSON, for someone who has only the public key.
    pub async fn export(&self, out: &mut impl Write) -> Result<(), ExportError> {
        let mut read = self.snapshot().await?;
        let size = size(&mut read).await?;
        let header = Header::new(self.keys().public(), size);
        put(out, &json!(header))?;
        let mut from = 0;
        loop {
            let rows = page(&mut read, from, PAGE).await.map_err(StoreError::from)?;
            let Some(last) = rows.last() else { break };
            from = seq_of(last)?.saturating_add(1);
            for row in &rows {
                put(out, &Line::of(&kept_of(row)?)?.to_value())?;
            }
        }
        let checkpoint = sign(self, &mut read, size).await?;
        put(out, &json!({ "checkpoint": checkpoint }))?;
        out.flush().map_err(ExportError::Write)
    }
}

async fn head(connection: &mut AnyConnection, key: &PublicKey) -> Result<Option<Checkpoint>, VerifyError> {
    let row = sqlx::query(HEAD).fetch_optional(connection).await.map_err(StoreError::from)?;
    row.map(|row| checkpoint_of(&row, key)).transpose()
}

fn checkpoint_of(row: &AnyRow, key: &PublicKey) -> Result<Checkpoint, VerifyError> {
    let size: i64 = row.try_get("size").map_err(StoreError::from)?;
    let note: String = row.try_get("note").map_err(StoreError::from)?;
    let size = u64::try_from(size).unwrap_or_default();
    let invalid = |source| VerifyError::broken(None, Fault::CheckpointInvalid { size, source });
    Checkpoint::open(&note, key).map_err(invalid)
}

fn put(out: &mut impl Write, value: &serde_json::Value) -> Result<(), ExportError> {
    let canonical = contract::Canonical::of(value.clone()).map_err(StoreError::from)?;
    writeln!(out, "{}", canonical.text()).map_err(ExportError::Write)
}

async fn page(connection: &mut AnyConnection, from: i64, limit: i64) -> Result<Vec<AnyRow>, sqlx::Error> {
    sqlx::query(ENTRIES).bind(from).bind(limit).fetch_all(connection).await
}

/// The place of the first entry from here on.
async fn next(connection: &mut AnyConnection, from: i64) -> Result<Option<i64>, StoreError> {
    Ok(sqlx::query(NEXT).bind(from).fetch_one(connection).await?.try_get("seq")?)
}

/// Whether the database gave a value that is not of its column's kind.
fn is_unreadable(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. })
}

fn unreadable(seq: impl Into<Option<i64>>, error: &StoreError) -> VerifyError {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    VerifyError::broken(seq, Fault::Unreadable { why })
}

fn seq_of(row: &AnyRow) -> Result<i64, StoreError> {
    Ok(row.try_get("seq")?)
}

fn kept_of(row: &AnyRow) -> Result<Kept, StoreError> {
    let hashes = split(row.try_get("hashes")?).ok_or(StoreError::Unreadable { what: "ledger hash" })?;
    Ok(Kept { entry: entry_of(row)?, hashes, receipt: row.try_get("envelope")? })
}
