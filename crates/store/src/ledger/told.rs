//! Reads entries for those who act on them: an entry counts if it is proved to be in the ledger that was signed.
//!
//! A row of the ledger alone proves nothing: whoever writes the database can put another one in its place, for a moment.
//! So its hash is computed anew, and led up to a root that this gate's key has signed. That takes two statements,
//! however long the ledger is.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::chain::{Tail, split};
use super::entry::Entry;
use super::proof::entry_of;
use super::tree::{Hash, Node, includes, inclusion, join, perfect};
use crate::error::StoreError;

const ENTRY: &str = "SELECT seq, time, kind, body, prev FROM ledger WHERE seq = $1";

/// What an entry tells, proved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) seq: i64,
    pub(crate) time: i64,
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Told {
    /// A text of its body.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key).and_then(Value::as_str)
    }

    /// Which entry comes before it in its list. Nothing if it is in no list; then it cannot be told.
    pub(crate) fn after(&self) -> Option<Option<i64>> {
        match self.body.get("after")? {
            Value::Null => Some(None),
            after => after.as_i64().map(Some),
        }
    }
}

/// The entry at a place. Nothing if there is none, or it is not the one that was signed.
pub(crate) async fn told(
    connection: &mut AnyConnection,
    tail: &Tail,
    seq: i64,
) -> Result<Option<Told>, StoreError> {
    let (size, root) = (tail.size(), tail.root());
    let Some(ranges) = u64::try_from(seq).ok().and_then(|index| inclusion(index, size)) else {
        return Ok(None);
    };
    let row = sqlx::query(ENTRY).bind(seq).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(None) };
    let entry: Entry = entry_of(&row)?;
    let ranges: Vec<Vec<Node>> = ranges.into_iter().map(|(start, end)| perfect(start, end)).collect();
    let Some(proof) = hashes(connection, &ranges).await? else { return Ok(None) };
    let index = u64::try_from(seq).unwrap_or(u64::MAX);
    // INVARIANT(told): rows can be forged; what the signed ledger tells cannot.
    if entry.seq != seq || !includes(entry.leaf(), index, size, &proof, &root) {
        return Ok(None);
    }
    let Ok(body) = serde_json::from_str(&entry.body) else { return Ok(None) };
    Ok(Some(Told { seq, time: entry.time, kind: entry.kind, body }))
}

/// The hash over each range, in one statement.
async fn hashes(
    connection: &mut AnyConnection,
    ranges: &[Vec<Node>],
) -> Result<Option<Vec<Hash>>, StoreError> {
    let places: Vec<String> = ranges.iter().flatten().map(|node| node.completed_by().to_string()).collect();
    let mut kept: HashMap<i64, Vec<Hash>> = HashMap::new();
    if !places.is_empty() {
        // Nothing but numbers of our own is in its text.
        let sql = format!("SELECT seq, hashes FROM ledger WHERE seq IN ({})", places.join(", "));
        for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await? {
            kept.insert(row.try_get("seq")?, split(row.try_get("hashes")?).unwrap_or_default());
        }
    }
    let hash = |node: &Node| {
        let hashes = kept.get(&i64::try_from(node.completed_by()).ok()?)?;
        hashes.get(usize::try_from(node.level).ok()?).copied()
    };
    let range = |nodes: &Vec<Node>| join(&nodes.iter().map(hash).collect::<Option<Vec<_>>>()?);
    Ok(ranges.iter().map(range).collect())
}
