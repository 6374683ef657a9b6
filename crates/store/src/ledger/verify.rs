//! Checks a ledger entry by entry, and names the first one that is wrong.
//!
//! Pure: entries are fed to it, from a database or from an exported file; it holds one entry at a time.

use contract::Canonical;
use thiserror::Error;

use super::dsse::{self, ReceiptError};
use super::entry::{Entry, NOTHING_BEFORE, OPENED, RECONCILED, SETTLED};
use super::note::{Checkpoint, NoteError, shown};
use super::story::Story;
use super::tree::{Frontier, Hash};
use crate::error::StoreError;
use crate::keys::PublicKey;

/// How far around its place a moved entry is looked for.
const NEIGHBOURHOOD: i64 = 64;

/// A ledger in which nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// How many entries it has.
    pub entries: u64,
    /// How many receipts belong to them.
    pub receipts: u64,
    /// The root over all entries, in base64.
    pub root: String,
}

/// The first thing wrong with a ledger.
#[derive(Debug, Error)]
#[error("{}{fault}", seq.map(|seq| format!("entry {seq}: ")).unwrap_or_default())]
pub struct Broken {
    /// The first bad entry, where it can be told.
    pub seq: Option<i64>,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a ledger.
#[derive(Debug, Error)]
pub enum Fault {
    /// It is not there, but a later one is, or something that belongs to it.
    #[error("it is missing")]
    Missing,
    /// It stands where another one should.
    #[error("it stands twice, or after one that comes later")]
    OutOfOrder,
    /// It is an entry of this ledger, from another place.
    #[error("here stands what belongs to entry {from}")]
    Moved {
        /// Where it belongs.
        from: i64,
    },
    /// It does not have the bytes that were hashed.
    #[error("its content has changed")]
    Changed,
    /// It fits its own hash, but not the entry that follows.
    #[error("its content has changed, and its hash was made to fit")]
    Rewritten,
    /// Its hashes of subtrees do not fit.
    #[error("its tree hashes have changed")]
    Tree,
    /// It cannot be read at all.
    #[error("it cannot be read: {why}")]
    Unreadable {
        /// Why.
        why: String,
    },
    /// The first entry names another key.
    #[error("the ledger was opened with another key")]
    OtherKey,
    /// A settled call without its receipt.
    #[error("its receipt is missing")]
    ReceiptMissing,
    /// A receipt that is no good.
    #[error("its receipt is not valid")]
    ReceiptInvalid(#[source] ReceiptError),
    /// A good receipt, of something else.
    #[error("its receipt says something else")]
    ReceiptDiffers,
    /// A receipt where there should be none.
    #[error("it has a receipt, but settles nothing")]
    ReceiptStray,
    /// A checkpoint is of a longer ledger.
    #[error("the ledger was cut: a checkpoint is of {signed} entries, and there are {found}")]
    Truncated {
        /// How many there were.
        signed: u64,
        /// How many there are.
        found: u64,
    },
    /// A checkpoint has another root.
    #[error("the first {size} entries are not those that were signed: the ledger was forked or rewritten")]
    Fork {
        /// How many entries the checkpoint is of.
        size: u64,
    },
    /// People are said to have approved, and no entry tells of it.
    #[error("approval {approval} counts answers of which no entry tells")]
    Unproved {
        /// Which approval.
        approval: String,
    },
    /// Somebody is an operator, or answers as one, and no entry tells of them so.
    #[error("operator `{operator}` is not one of whom the ledger tells, or not so")]
    Stranger {
        /// Who.
        operator: String,
    },
    /// A call has ended that nobody has planned.
    #[error("the call {call} was not planned, or has ended before")]
    Unplanned {
        /// Which call.
        call: String,
    },
    /// A receipt is about something else than was planned.
    #[error("the {what} of the receipt is another than was planned")]
    NotAsPlanned {
        /// What differs.
        what: &'static str,
    },
    /// A table says something else than the ledger.
    #[error("the store says something else of {what} than the ledger")]
    Differs {
        /// Of what.
        what: String,
    },
    /// The signed root over all entries is not there.
    #[error("the signed head of the ledger is missing")]
    HeadMissing,
    /// There are entries that were not signed.
    #[error("it and those after it were not signed")]
    Unsigned,
    /// A checkpoint that the store itself keeps is no good.
    #[error("a stored checkpoint of {size} entries is not valid")]
    CheckpointInvalid {
        /// How many entries it is of.
        size: u64,
        /// Why.
        source: NoteError,
    },
}

/// Why a ledger is not known to be right.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Something is wrong with it.
    #[error("the ledger is broken")]
    Broken(#[from] Broken),
    /// The checkpoint to compare with is no good.
    #[error("the given checkpoint cannot be used")]
    Checkpoint(#[from] NoteError),
    /// It could not be read to its end.
    #[error("the ledger cannot be read")]
    Store(#[from] StoreError),
}

impl VerifyError {
    pub(crate) fn broken(seq: impl Into<Option<i64>>, fault: Fault) -> VerifyError {
        VerifyError::Broken(Broken { seq: seq.into(), fault })
    }
}

/// An entry with what is kept beside it.
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    /// Its leaf hash, then those of the subtrees it completes, as far as they are kept.
    pub(crate) hashes: Vec<Hash>,
    pub(crate) receipt: Option<String>,
}

/// Goes through a ledger from its first entry.
pub(crate) struct Verifier<'a> {
    key: &'a PublicKey,
    /// From small to large.
    checkpoints: Vec<Checkpoint>,
    frontier: Frontier,
    before: Hash,
    receipts: u64,
    story: Story,
}

impl Verifier<'_> {
    pub(crate) fn new(key: &PublicKey, mut checkpoints: Vec<Checkpoint>) -> Verifier<'_> {
        checkpoints.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.size));
        let (frontier, story) = (Frontier::default(), Story::default());
        Verifier { key, checkpoints, frontier, before: NOTHING_BEFORE, receipts: 0, story }
    }

    /// One more checkpoint to meet.
    pub(crate) fn add(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
        self.checkpoints.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.size));
    }

    /// How many entries were right so far.
    pub(crate) fn size(&self) -> u64 {
        self.frontier.size()
    }

    pub(crate) fn feed(&mut self, kept: &Kept) -> Result<(), Broken> {
        self.check_signed_roots()?;
        let entry = &kept.entry;
        let place = i64::try_from(self.size()).unwrap_or(i64::MAX);
        let broken = |seq, fault| Err(Broken { seq: Some(seq), fault });
        if entry.seq > place {
            return broken(place, Fault::Missing);
        }
        if entry.seq < place {
            return broken(entry.seq, Fault::OutOfOrder);
        }
        let leaf = entry.leaf();
        if kept.hashes.first() != Some(&leaf) {
            return broken(place, misplaced(entry, kept.hashes.first()));
        }
        if entry.prev != self.before {
            // The entry itself is as it was hashed, so it is the one before that no longer is.
            return broken((place - 1).max(0), if place == 0 { Fault::Changed } else { Fault::Rewritten });
        }
        let completed = self.frontier.push(leaf);
        if kept.hashes.iter().ne(completed.iter().take(kept.hashes.len())) {
            return broken(place, Fault::Tree);
        }
        if place == 0 && !self.opens(entry) {
            return broken(0, Fault::OtherKey);
        }
        if let Some(fault) = self.receipt_fault(kept) {
            return broken(place, fault);
        }
        if let Some(fault) = self.story.hear(entry) {
            return broken(place, fault);
        }
        self.before = leaf;
        Ok(())
    }

    /// That all of it is right, and what it tells.
    pub(crate) fn finish(mut self) -> Result<(Verified, Story), Broken> {
        self.check_signed_roots()?;
        let entries = self.size();
        // All smaller ones were met on the way.
        if let Some(checkpoint) = self.checkpoints.first() {
            let fault = Fault::Truncated { signed: checkpoint.size, found: entries };
            return Err(Broken { seq: i64::try_from(entries).ok(), fault });
        }
        let root = shown(&self.frontier.root());
        Ok((Verified { entries, receipts: self.receipts, root }, self.story))
    }

    fn check_signed_roots(&mut self) -> Result<(), Broken> {
        while let Some(checkpoint) = self.checkpoints.pop_if(|next| next.size <= self.frontier.size()) {
            if checkpoint.root != self.frontier.root() {
                return Err(Broken { seq: None, fault: Fault::Fork { size: checkpoint.size } });
            }
        }
        Ok(())
    }

    fn opens(&self, entry: &Entry) -> bool {
        let body = Canonical::parse(&entry.body).map(Canonical::into_value).unwrap_or_default();
        let named = body.get("public_key").and_then(|key| key.as_str());
        entry.kind == OPENED && named == Some(self.key.to_string().as_str())
    }

    fn receipt_fault(&mut self, kept: &Kept) -> Option<Fault> {
        match (&kept.receipt, [SETTLED, RECONCILED].contains(&kept.entry.kind.as_str())) {
            (None, false) => None,
            (None, true) => Some(Fault::ReceiptMissing),
            (Some(_), false) => Some(Fault::ReceiptStray),
            (Some(receipt), true) => match dsse::open_own(receipt, self.key) {
                Ok(payload) if payload == kept.entry.body => {
                    self.receipts += 1;
                    None
                }
                Ok(_) => Some(Fault::ReceiptDiffers),
                Err(error) => Some(Fault::ReceiptInvalid(error)),
            },
        }
    }
}

/// What is wrong with an entry that is not what its hash says.
fn misplaced(entry: &Entry, hash: Option<&Hash>) -> Fault {
    let Some(hash) = hash else { return Fault::Changed };
    let around = entry.seq.saturating_sub(NEIGHBOURHOOD).max(0)..entry.seq.saturating_add(NEIGHBOURHOOD);
    let mut moved = entry.clone();
    for seq in around {
        moved.seq = seq;
        if moved.leaf() == *hash {
            return Fault::Moved { from: seq };
        }
    }
    Fault::Changed
}
