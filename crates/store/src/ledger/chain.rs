//! Appends to the ledger.

use contract::Canonical;
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::entry::{Entry, NOTHING_BEFORE, OPENED};
use super::lists::{List, Lists};
use super::note::Checkpoint;
use super::tree::{Frontier, Hash, Node, perfect};
use crate::error::StoreError;
use crate::keys::{Keys, PublicKey};
use crate::later::Later;

pub(crate) const LAST: &str = "SELECT seq, hashes FROM ledger ORDER BY seq DESC LIMIT 1";
const HASHES: &str = "SELECT hashes FROM ledger WHERE seq = $1";
const APPEND: &str =
    "INSERT INTO ledger (seq, time, kind, body, prev, hashes) VALUES ($1, $2, $3, $4, $5, $6)";

const HEAD: &str = "SELECT note FROM head";
// By its key, or SQLite would keep a list of the rows to change.
const MOVE_HEAD: &str = "UPDATE head SET size = $1, note = $2 WHERE one = 1";
const FIRST_HEAD: &str = "INSERT INTO head (one, size, note) VALUES (1, $1, $2)";

/// The last entry of a ledger, if it has one: its place and its hash.
pub(crate) type LastEntry = Option<(i64, Hash)>;

/// Where the ledger ends: all that is needed to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    frontier: Frontier,
    last: Hash,
    lists: Lists,
    /// Whether the head was signed by a version that knew no lists.
    is_earlier: bool,
    /// How many entries were signed when it was read.
    signed: u64,
}

impl Tail {
    /// Reads it, or takes the one that is remembered if nobody has appended since. Only in a transaction that writes.
    pub(crate) async fn load(
        connection: &mut AnyConnection,
        remembered: Option<Tail>,
        key: &PublicKey,
    ) -> Result<Tail, StoreError> {
        let last = last_entry(connection).await?;
        Tail::after(connection, last, remembered, key).await
    }

    /// The same where the last entry has been read already, in the same transaction.
    pub(crate) async fn after(
        connection: &mut AnyConnection,
        last: LastEntry,
        remembered: Option<Tail>,
        key: &PublicKey,
    ) -> Result<Tail, StoreError> {
        let known = remembered.as_ref().map_or(0, Tail::size);
        let Some((seq, last)) = last else {
            let empty = Frontier::default();
            let lists = Lists::default();
            let tail = Tail { frontier: empty, last: NOTHING_BEFORE, lists, is_earlier: false, signed: 0 };
            return if known == 0 { Ok(tail) } else { Err(StoreError::RolledBack) };
        };
        let size = u64::try_from(seq).unwrap_or_default() + 1;
        // A head that was signed once is signed for good; it is not the last one for good.
        if size < known {
            return Err(StoreError::RolledBack);
        }
        if let Some(tail) = remembered.filter(|tail| tail.frontier.size() == size && tail.last == last) {
            return Ok(tail);
        }
        let frontier = frontier(connection, size).await?;
        // INVARIANT(signed): what goes on is signed, so what it goes on from has to be.
        let head = sqlx::query(HEAD).fetch_optional(connection).await?;
        let note: String = head.ok_or(StoreError::Unsigned)?.try_get("note")?;
        let (head, lists) = Checkpoint::open_head(&note, key).map_err(|_| StoreError::Unsigned)?;
        if head != (Checkpoint { size, root: frontier.root() }) {
            return Err(StoreError::Unsigned);
        }
        let is_earlier = lists.is_none();
        Ok(Tail { frontier, last, lists: lists.unwrap_or_default(), is_earlier, signed: size })
    }

    /// How many entries there are.
    pub(crate) fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// The root over all entries.
    pub(crate) fn root(&self) -> Hash {
        self.frontier.root()
    }

    /// The last entry of a list.
    pub(crate) fn last_of(&self, list: List) -> Option<i64> {
        self.lists.last(list)
    }

    /// Whether an entry was signed already when this was read, so that no transaction takes it back.
    pub(crate) fn has_signed(&self, seq: i64) -> bool {
        u64::try_from(seq).is_ok_and(|seq| seq < self.signed)
    }

    /// Whether the head was signed by a version that knew no lists.
    pub(crate) fn is_earlier(&self) -> bool {
        self.is_earlier
    }

    /// The same, now that all of it is signed and durable.
    pub(crate) fn signed(self) -> Tail {
        Tail { signed: self.size(), is_earlier: false, ..self }
    }

    /// Appends one entry, and before the very first one that which says whose ledger it is.
    pub(crate) fn append(
        &mut self,
        later: &mut Later,
        key: &PublicKey,
        time: i64,
        kind: &str,
        list: Option<List>,
        mut body: Value,
    ) -> Result<i64, StoreError> {
        self.open(later, key, time)?;
        if let Some(list) = list {
            let seq = i64::try_from(self.size()).unwrap_or(i64::MAX);
            self.lists.push(list, seq, &mut body);
        }
        self.put(later, time, kind, Canonical::of(body)?.text().to_owned())
    }

    /// The same for an entry of no list, whose body is canonical JSON already.
    pub(crate) fn append_text(
        &mut self,
        later: &mut Later,
        key: &PublicKey,
        time: i64,
        kind: &str,
        body: String,
    ) -> Result<i64, StoreError> {
        self.open(later, key, time)?;
        self.put(later, time, kind, body)
    }

    fn open(&mut self, later: &mut Later, key: &PublicKey, time: i64) -> Result<(), StoreError> {
        if self.frontier.size() == 0 {
            let opened = json!({ "version": 1, "public_key": key.to_string() });
            self.put(later, time, OPENED, Canonical::of(opened)?.text().to_owned())?;
        }
        Ok(())
    }

    /// The last entry: its place and its hash.
    pub(crate) fn last(&self) -> Option<(i64, Hash)> {
        let size = i64::try_from(self.frontier.size()).ok()?;
        (size > 0).then_some((size - 1, self.last))
    }

    /// Signs the ledger as it now is, if there is anything new in it.
    pub(crate) fn sign(&self, later: &mut Later, keys: &Keys) -> Result<(), StoreError> {
        if self.signed == self.size() && !self.is_earlier {
            return Ok(());
        }
        let checkpoint = Checkpoint { size: self.frontier.size(), root: self.frontier.root() };
        let size =
            i64::try_from(checkpoint.size).map_err(|_| StoreError::Unreadable { what: "ledger size" })?;
        let note = checkpoint.sign_head(&self.lists, keys);
        // What goes on was signed: see `load`.
        let sql = if self.signed == 0 { FIRST_HEAD } else { MOVE_HEAD };
        later.keep(sqlx::query(sql).bind(size).bind(note))
    }

    fn put(&mut self, later: &mut Later, time: i64, kind: &str, body: String) -> Result<i64, StoreError> {
        let seq = i64::try_from(self.frontier.size())
            .map_err(|_| StoreError::Unreadable { what: "ledger size" })?;
        let entry = Entry { seq, time, kind: kind.to_owned(), prev: self.last, body };
        let leaf = entry.leaf();
        let hashes = self.frontier.push(leaf).concat();
        let append = sqlx::query(APPEND).bind(entry.seq).bind(entry.time).bind(entry.kind).bind(entry.body);
        later.keep(append.bind(entry.prev.to_vec()).bind(hashes))?;
        self.last = leaf;
        Ok(seq)
    }
}

/// The last entry of the ledger: its place and its hash.
async fn last_entry(connection: &mut AnyConnection) -> Result<LastEntry, StoreError> {
    last_of(sqlx::query(LAST).fetch_optional(connection).await?)
}

/// The same from what was answered to [`LAST`].
pub(crate) fn last_of(row: Option<AnyRow>) -> Result<LastEntry, StoreError> {
    let Some(row) = row else { return Ok(None) };
    let last = split(row.try_get("hashes")?).and_then(|hashes| hashes.first().copied());
    Ok(Some((row.try_get("seq")?, last.ok_or(StoreError::Unreadable { what: "ledger hash" })?)))
}

/// The frontier of the ledger at a size.
pub(crate) async fn frontier(connection: &mut AnyConnection, size: u64) -> Result<Frontier, StoreError> {
    let mut hashes = Vec::new();
    for node in perfect(0, size) {
        hashes.push(node_hash(connection, node).await?);
    }
    Frontier::of(size, hashes).ok_or(StoreError::Unreadable { what: "ledger hash" })
}

/// The hash of one perfect subtree.
pub(crate) async fn node_hash(connection: &mut AnyConnection, node: Node) -> Result<Hash, StoreError> {
    let unreadable = StoreError::Unreadable { what: "ledger hash" };
    let Ok(seq) = i64::try_from(node.completed_by()) else { return Err(unreadable) };
    let Some(row) = sqlx::query(HASHES).bind(seq).fetch_optional(connection).await? else {
        return Err(unreadable);
    };
    let hashes = split(row.try_get("hashes")?);
    let level = usize::try_from(node.level).unwrap_or(usize::MAX);
    hashes.and_then(|hashes| hashes.get(level).copied()).ok_or(unreadable)
}

/// Whether an entry stands in its place.
pub(crate) async fn stands(connection: &mut AnyConnection, seq: i64, leaf: Hash) -> Result<bool, StoreError> {
    let row = sqlx::query(HASHES).bind(seq).fetch_optional(connection).await?;
    let Some(row) = row else { return Ok(false) };
    Ok(split(row.try_get("hashes")?).is_some_and(|hashes| hashes.first() == Some(&leaf)))
}

/// The hashes that stand one after another in a column.
pub(crate) fn split(bytes: &[u8]) -> Option<Vec<Hash>> {
    bytes.chunks(32).map(|hash| hash.try_into().ok()).collect()
}
