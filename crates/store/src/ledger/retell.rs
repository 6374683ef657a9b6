//! The ledger as an earlier version would have told it, for tests of what becomes of such a store.

use contract::Canonical;
use serde_json::Value;

use super::dsse;
use super::entry::{Entry, NOTHING_BEFORE, RECONCILED, SETTLED};
use super::note::Checkpoint;
use super::tree::Frontier;
use crate::error::StoreError;
use crate::open::Store;

/// An entry, told anew.
#[derive(Clone, Debug)]
pub struct Retold {
    /// Its place.
    pub seq: i64,
    /// What it says now.
    pub body: String,
    /// The hash of the one before.
    pub prev: [u8; 32],
    /// Its own hashes.
    pub hashes: Vec<u8>,
    /// Its receipt, if it has one.
    pub envelope: Option<String>,
}

/// Tells every entry of a short ledger anew, and signs it as earlier versions did: entries, and the note of the head.
///
/// Nothing is written: the database would not let anybody.
pub async fn retold(
    store: &Store,
    edit: impl Fn(&str, Value) -> Value,
) -> Result<(Vec<Retold>, String), StoreError> {
    let (mut told, mut frontier, mut prev) = (Vec::new(), Frontier::default(), NOTHING_BEFORE);
    for entry in store.latest_event(-1).await? {
        let body = Canonical::of(edit(&entry.kind, entry.body))?.text().to_owned();
        let receipt = [SETTLED, RECONCILED].contains(&entry.kind.as_str());
        let envelope = receipt.then(|| dsse::sign(&body, store.keys()));
        let entry = Entry { seq: entry.seq, time: entry.time, kind: entry.kind, prev, body };
        let leaf = entry.leaf();
        let hashes = frontier.push(leaf).concat();
        told.push(Retold { seq: entry.seq, body: entry.body, prev, hashes, envelope });
        prev = leaf;
    }
    let head = Checkpoint { size: frontier.size(), root: frontier.root() };
    Ok((told, head.sign(store.keys())))
}
