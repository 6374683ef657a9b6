//! Checkpoints and proofs out of the database.

use serde::{Deserialize, Serialize};
use sqlx::{AnyConnection, Row};
use thiserror::Error;

use super::chain::{frontier, node_hash};
use super::entry::{Entry, LedgerEntry, unhex};
use super::note::{Checkpoint, NoteError};
use super::tree::{Hash, consistency, extends, includes, inclusion, join, perfect};
use crate::error::StoreError;
use crate::keys::{PublicKey, hex};
use crate::open::Store;

const SIZE: &str = "SELECT coalesce(max(seq) + 1, 0) AS size FROM ledger";
const ENTRY: &str = "SELECT seq, time, kind, body, prev FROM ledger WHERE seq = $1";
const AFTER: &str = "SELECT seq, time, kind, body, prev FROM ledger WHERE seq > $1 ORDER BY seq LIMIT 500";
const KEPT: &str = "SELECT note FROM checkpoints WHERE size = $1";
const KEEP: &str = "INSERT INTO checkpoints (size, made_at, note) VALUES ($1, $2, $3)";

/// That an entry is in the ledger, for someone who has only the public key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InclusionProof {
    /// The entry.
    pub entry: LedgerEntry,
    /// Its place.
    pub index: u64,
    /// The size of the tree that it is proved to be in.
    pub tree_size: u64,
    /// The hashes from its leaf to the root, in hexadecimal digits.
    pub hashes: Vec<String>,
    /// The root, signed.
    pub checkpoint: String,
}

/// That a ledger grew out of a smaller one, without a change to what was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsistencyProof {
    /// The size before.
    pub old_size: u64,
    /// The size after.
    pub new_size: u64,
    /// The hashes from which both roots follow, in hexadecimal digits.
    pub hashes: Vec<String>,
}

/// Why there is no proof, or why one does not hold.
#[derive(Debug, Error)]
pub enum ProofError {
    /// The ledger is not that long.
    #[error("the ledger has {size} entries, so there is no entry or size {asked}")]
    OutOfRange {
        /// What was asked for.
        asked: u64,
        /// How many there are.
        size: u64,
    },
    /// The smaller one is larger.
    #[error("a ledger of {new} entries cannot have grown out of one of {old}")]
    Shrunk {
        /// The size before.
        old: u64,
        /// The size after.
        new: u64,
    },
    /// The checkpoint in it is no good.
    #[error("the checkpoint of the proof is not valid")]
    Checkpoint(#[from] NoteError),
    /// It does not lead from the one to the other.
    #[error("the proof does not hold")]
    Refuted,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InclusionProof {
    /// Checks it with nothing but a public key.
    pub fn verify(&self, key: &PublicKey) -> Result<(), ProofError> {
        let checkpoint = Checkpoint::open(&self.checkpoint, key)?;
        let entry = Entry::try_from(&self.entry).map_err(|_| ProofError::Refuted)?;
        let hashes = read_hashes(&self.hashes).ok_or(ProofError::Refuted)?;
        let holds = checkpoint.size == self.tree_size
            && u64::try_from(entry.seq) == Ok(self.index)
            && includes(entry.leaf(), self.index, self.tree_size, &hashes, &checkpoint.root);
        if holds { Ok(()) } else { Err(ProofError::Refuted) }
    }
}

impl ConsistencyProof {
    /// Checks that it leads from one checkpoint to the other.
    pub fn verify(&self, old: &Checkpoint, new: &Checkpoint) -> Result<(), ProofError> {
        let hashes = read_hashes(&self.hashes).ok_or(ProofError::Refuted)?;
        let holds = (old.size, new.size) == (self.old_size, self.new_size)
            && extends((old.size, &old.root), (new.size, &new.root), &hashes);
        if holds { Ok(()) } else { Err(ProofError::Refuted) }
    }
}

fn read_hashes(texts: &[String]) -> Option<Vec<Hash>> {
    texts.iter().map(|text| unhex(text)).collect()
}

impl Store {
    /// The root of the ledger as it is now, as a signed note. Kept, so that later it can be compared with.
    pub async fn checkpoint(&self, now: i64) -> Result<String, StoreError> {
        let mut read = self.snapshot().await?;
        let size = size(&mut read).await?;
        let note = sign(self, &mut read, size).await?;
        drop(read);
        let Ok(size @ 1..) = i64::try_from(size) else { return Ok(note) };
        let kept = sqlx::query(KEPT).bind(size);
        if kept.fetch_optional(&mut *self.read().await?).await?.is_some() {
            return Ok(note);
        }
        let mut write = self.write().await?;
        let kept = sqlx::query(KEPT).bind(size);
        if kept.fetch_optional(write.connection().await?).await?.is_none() {
            let keep = sqlx::query(KEEP).bind(size).bind(now).bind(&note);
            keep.execute(write.connection().await?).await?;
        }
        write.commit().await?;
        Ok(note)
    }

    /// Proves that an entry is in the ledger.
    pub async fn prove(&self, seq: i64) -> Result<InclusionProof, ProofError> {
        let mut read = self.snapshot().await?;
        let connection = &mut *read;
        let size = size(connection).await?;
        let index = u64::try_from(seq).unwrap_or(u64::MAX);
        let ranges = inclusion(index, size).ok_or(ProofError::OutOfRange { asked: index, size })?;
        let hashes = fetch(connection, ranges).await?;
        let row = sqlx::query(ENTRY).bind(seq).fetch_one(&mut *connection).await.map_err(StoreError::from)?;
        let entry = LedgerEntry::try_from(&entry_of(&row)?).map_err(StoreError::from)?;
        let checkpoint = sign(self, connection, size).await?;
        Ok(InclusionProof { entry, index, tree_size: size, hashes, checkpoint })
    }

    /// Proves that the ledger of one size grew out of that of a smaller one.
    pub async fn consistency(&self, old_size: u64, new_size: u64) -> Result<ConsistencyProof, ProofError> {
        let mut read = self.snapshot().await?;
        let size = size(&mut read).await?;
        if new_size > size {
            return Err(ProofError::OutOfRange { asked: new_size, size });
        }
        let shrunk = ProofError::Shrunk { old: old_size, new: new_size };
        let ranges = consistency(old_size, new_size).ok_or(shrunk)?;
        Ok(ConsistencyProof { old_size, new_size, hashes: fetch(&mut read, ranges).await? })
    }

    /// The entries after one, oldest first, at most 500. Before the first is -1.
    pub async fn latest_event(&self, after_seq: i64) -> Result<Vec<LedgerEntry>, StoreError> {
        let mut read = self.read().await?;
        let rows = sqlx::query(AFTER).bind(after_seq).fetch_all(&mut *read).await?;
        rows.iter().map(|row| Ok(LedgerEntry::try_from(&entry_of(row)?)?)).collect()
    }

    /// How many entries the ledger has.
    pub async fn ledger_size(&self) -> Result<u64, StoreError> {
        size(&mut *self.read().await?).await
    }
}

pub(crate) async fn size(connection: &mut AnyConnection) -> Result<u64, StoreError> {
    let size: i64 = sqlx::query(SIZE).fetch_one(connection).await?.try_get("size")?;
    u64::try_from(size).map_err(|_| StoreError::Unreadable { what: "ledger size" })
}

/// The signed root at a size.
pub(crate) async fn sign(
    store: &Store,
    connection: &mut AnyConnection,
    size: u64,
) -> Result<String, StoreError> {
    let root = frontier(connection, size).await?.root();
    Ok(Checkpoint { size, root }.sign(store.keys()))
}

async fn fetch(connection: &mut AnyConnection, ranges: Vec<(u64, u64)>) -> Result<Vec<String>, StoreError> {
    let mut texts = Vec::new();
    for (start, end) in ranges {
        let mut hashes = Vec::new();
        for node in perfect(start, end) {
            hashes.push(node_hash(connection, node).await?);
        }
        let hash = join(&hashes).ok_or(StoreError::Unreadable { what: "ledger hash" })?;
        texts.push(hex(&hash));
    }
    Ok(texts)
}

pub(crate) fn entry_of(row: &sqlx::any::AnyRow) -> Result<Entry, StoreError> {
    let prev: &[u8] = row.try_get("prev")?;
    Ok(Entry {
        seq: row.try_get("seq")?,
        time: row.try_get("time")?,
        kind: row.try_get("kind")?,
        prev: prev.try_into().map_err(|_| StoreError::Unreadable { what: "ledger hash" })?,
        body: row.try_get("body")?,
    })
}
