//! What the signed ledger tells of people and their answers: all that anything is decided by.
//!
//! Tables say the same, and are quicker to search; but whoever reaches the database can write them. So who is an operator
//! is read from here alone, and what a table says of an answer counts only as far as it is told here.
//!
//! # Invariants
//! - Every entry was proved to be in a ledger that this gate's key has signed, in the transaction that acts on it or in an
//!   earlier one of this process.
//! - What a list does not hold was not said: its end is signed, and each entry names the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contract::{AgentName, Digest, OperatorName};
use sqlx::AnyConnection;

use crate::error::StoreError;
use crate::later::Later;
use crate::ledger::{LAST, LastEntry, List, Tail, Told, last_of, told};
use crate::open::Store;
use crate::operators::{OperatorRow, Role};
use crate::presence::Passkey;
use crate::stances::Stances;
use crate::tokens::AgentToken;

/// How many entries are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// How often somebody can set a password or add a passkey in a day: each is told for good.
pub(crate) const MOST_CHANGES: usize = 30;
const CHANGES_COUNT_FOR: i64 = 24 * 60 * 60 * 1000;

/// What this process has proved already.
#[derive(Debug, Default)]
pub(crate) struct Proved {
    entries: Mutex<BTreeMap<i64, Arc<Told>>>,
    roster: Mutex<Option<(Option<i64>, Arc<Roster>)>>,
    stances: Mutex<Option<(Option<i64>, Arc<Stances>)>>,
}

/// The ledger as it is at one moment, for those who act on it.
pub(crate) struct Records<'a> {
    pub(crate) connection: &'a mut AnyConnection,
    pub(crate) tail: &'a Tail,
    pub(crate) proved: &'a Proved,
}

/// Everybody who is an operator or was one, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    people: BTreeMap<OperatorName, OperatorRow>,
    /// The digests of what passwords are compared with.
    passwords: BTreeMap<OperatorName, Digest>,
    /// By their ids.
    passkeys: BTreeMap<String, Passkey>,
    tokens: BTreeMap<AgentName, AgentToken>,
    /// The entry that made each of them an operator, or gave somebody else's hand a credential of theirs.
    since: BTreeMap<OperatorName, i64>,
    /// When they last set a password or added a passkey.
    changes: BTreeMap<OperatorName, Vec<i64>>,
    began: Option<i64>,
}

impl Records<'_> {
    /// The entry at a place. Nothing if it is not the one that was signed.
    pub(crate) async fn entry(&mut self, seq: i64) -> Result<Option<Told>, StoreError> {
        told(self.connection, self.tail, seq).await
    }

    /// The entries of a list after a place, newest first. Nothing if one of them is not what was signed.
    pub(crate) async fn list(
        &mut self,
        list: List,
        after: i64,
    ) -> Result<Option<Vec<Arc<Told>>>, StoreError> {
        let mut found = Vec::new();
        let mut next = self.tail.last_of(list);
        while let Some(seq) = next.filter(|seq| *seq > after) {
            let Some(entry) = self.listed(seq).await? else { return Ok(None) };
            let Some(before) = entry.after() else { return Ok(None) };
            found.push(entry);
            // Signed by this very gate; but a circle would never end.
            next = before.filter(|before| *before < seq);
        }
        Ok(Some(found))
    }

    /// The entries of a list after one that was heard, newest first. Nothing if they do not follow on it: then the list is
    /// another, and has to be heard whole.
    async fn news(&mut self, list: List, heard: Option<i64>) -> Result<Option<Vec<Arc<Told>>>, StoreError> {
        let Some(heard) = heard else { return Ok(None) };
        let entries = self.list(list, heard).await?;
        let follows = |entries: &Vec<Arc<Told>>| {
            entries.last().and_then(|oldest| oldest.after()).flatten() == Some(heard)
        };
        Ok(entries.filter(follows))
    }

    /// Everybody who is an operator, or was one.
    pub(crate) async fn roster(&mut self) -> Result<Arc<Roster>, StoreError> {
        let last = self.tail.last_of(List::People);
        let known = lock(&self.proved.roster).clone();
        if let Some((_, roster)) = known.as_ref().filter(|(at, _)| *at == last) {
            return Ok(Arc::clone(roster));
        }
        // ATTACK(endless-roster): what was heard is not heard again, however much of it there is.
        let (mut roster, entries) = match known {
            Some((at, roster)) => match self.news(List::People, at).await? {
                Some(entries) => ((*roster).clone(), Some(entries)),
                None => (Roster::default(), None),
            },
            None => (Roster::default(), None),
        };
        let entries = match entries {
            Some(entries) => entries,
            None => self.list(List::People, -1).await?.ok_or(StoreError::Unsigned)?,
        };
        for entry in entries.iter().rev() {
            roster.hear(entry).ok_or(StoreError::Unreadable { what: "entry about an operator" })?;
        }
        let roster = Arc::new(roster);
        if last.is_none_or(|last| self.tail.has_signed(last)) {
            *lock(&self.proved.roster) = Some((last, Arc::clone(&roster)));
        }
        Ok(roster)
    }

    /// What operators have said of tools.
    pub(crate) async fn stances(&mut self) -> Result<Arc<Stances>, StoreError> {
        let last = self.tail.last_of(List::Tools);
        let known = lock(&self.proved.stances).clone();
        if let Some((_, stances)) = known.filter(|(at, _)| *at == last) {
            return Ok(stances);
        }
        let entries = self.list(List::Tools, -1).await?.ok_or(StoreError::Unsigned)?;
        let mut stances = Stances::default();
        for entry in entries.iter().rev() {
            stances.hear(entry).ok_or(StoreError::Unreadable { what: "entry about a tool" })?;
        }
        let stances = Arc::new(stances);
        if last.is_none_or(|last| self.tail.has_signed(last)) {
            *lock(&self.proved.stances) = Some((last, Arc::clone(&stances)));
        }
        Ok(stances)
    }

    async fn listed(&mut self, seq: i64) -> Result<Option<Arc<Told>>, StoreError> {
        if let Some(known) = lock(&self.proved.entries).get(&seq) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(entry) = self.entry(seq).await?.map(Arc::new) else { return Ok(None) };
        // What is not signed yet may be taken back, and another entry stand in its place.
        if self.tail.has_signed(seq) {
            let mut entries = lock(&self.proved.entries);
            if entries.len() >= MOST_REMEMBERED {
                entries.clear();
            }
            entries.insert(seq, Arc::clone(&entry));
        }
        Ok(Some(entry))
    }
}

impl Roster {
    /// Takes in an entry; nothing if it is not about an operator who is known.
    pub(crate) fn hear(&mut self, entry: &Told) -> Option<()> {
        if entry.kind.starts_with("agent.") {
            return self.hear_of_token(entry);
        }
        let name = OperatorName::parse(entry.text("operator")?).ok()?;
        let credential = || entry.text("credential").and_then(Digest::parse);
        match entry.kind.as_str() {
            "operator.added" | "operator.carried" => {
                let role = Role::parse(entry.text("role")?)?;
                let number = |key: &str| entry.body.get(key).and_then(serde_json::Value::as_i64);
                let added_at = number("added_at").unwrap_or(entry.time);
                let revoked_at = number("removed_at");
                let credential = credential()?;
                let row = OperatorRow { name: name.clone(), role, credential, added_at, revoked_at };
                // Whoever was carried over was there before.
                let since = if entry.kind == "operator.added" { entry.seq } else { -1 };
                self.since.insert(name.clone(), since);
                self.people.insert(name, row);
            }
            "operator.rotated" => {
                self.people.get_mut(&name)?.credential = credential()?;
                // The owner of the gate, who lets somebody back in, could write the ledger anyway.
                if entry.text("by").is_some_and(|by| by != name.as_str()) {
                    self.since.insert(name.clone(), entry.seq);
                }
                // ATTACK(rotated-credential): whoever had the old one may have set a password, or added a passkey.
                self.passwords.remove(&name);
                self.passkeys.retain(|_, passkey| passkey.operator != name);
            }
            "operator.removed" => self.people.get_mut(&name)?.revoked_at = Some(entry.time),
            "operator.password" => {
                let verifier = entry.text("verifier").and_then(Digest::parse)?;
                self.people.get(&name)?;
                self.note_change(&name, entry.time);
                self.passwords.insert(name, verifier);
            }
            "operator.passkey" => {
                self.people.get(&name)?;
                self.note_change(&name, entry.time);
                let text = |key: &str| entry.text(key).map(str::to_owned);
                let passkey = Passkey {
                    id: text("id")?,
                    operator: name,
                    algorithm: entry.body.get("algorithm")?.as_i64()?,
                    public_key: text("public_key")?,
                    label: text("label")?,
                    added_at: entry.time,
                };
                self.passkeys.insert(passkey.id.clone(), passkey);
            }
            "operator.passkey_removed" => {
                self.passkeys.remove(entry.text("id")?);
            }
            _ => return None,
        }
        self.began = self.began.or(Some(entry.seq));
        Some(())
    }

    fn hear_of_token(&mut self, entry: &Told) -> Option<()> {
        let agent = AgentName::parse(entry.text("agent")?).ok()?;
        match entry.kind.as_str() {
            "agent.token" => {
                let digest = entry.text("token").and_then(Digest::parse)?;
                let token = AgentToken { agent: agent.clone(), digest, issued_at: entry.time };
                self.tokens.insert(agent, token);
            }
            "agent.token_revoked" => {
                self.tokens.remove(&agent);
            }
            _ => return None,
        }
        Some(())
    }

    fn note_change(&mut self, name: &OperatorName, at: i64) {
        let changes = self.changes.entry(name.clone()).or_default();
        if changes.len() >= MOST_CHANGES {
            changes.remove(0);
        }
        changes.push(at);
    }

    /// Whether somebody has set passwords and added passkeys as often as they may for a while.
    pub(crate) fn changes_too_often(&self, name: &OperatorName, now: i64) -> bool {
        let changes = self.changes.get(name).map(Vec::as_slice).unwrap_or_default();
        let counts = |at: &&i64| now.saturating_sub(**at) < CHANGES_COUNT_FOR;
        changes.iter().filter(counts).count() >= MOST_CHANGES
    }

    /// Whether somebody was an operator before an entry, by a credential that nobody else has given out since.
    pub(crate) fn was_there_before(&self, name: &OperatorName, seq: i64) -> bool {
        self.since.get(name).is_some_and(|since| *since < seq)
    }

    /// The digest of what somebody's password is compared with.
    pub(crate) fn password_of(&self, name: &OperatorName) -> Option<Digest> {
        self.passwords.get(name).copied()
    }

    /// The passkey of an id.
    pub(crate) fn passkey(&self, id: &str) -> Option<&Passkey> {
        self.passkeys.get(id)
    }

    /// Somebody's passkeys.
    pub(crate) fn passkeys_of(&self, name: &OperatorName) -> impl Iterator<Item = &Passkey> {
        self.passkeys.values().filter(move |passkey| passkey.operator == *name)
    }

    /// An agent's token.
    pub(crate) fn token_of(&self, agent: &AgentName) -> Option<&AgentToken> {
        self.tokens.get(agent)
    }

    /// Whose token has a digest.
    pub(crate) fn agent_of(&self, digest: &Digest) -> Option<&AgentName> {
        self.tokens.values().find(|token| token.digest == *digest).map(|token| &token.agent)
    }

    /// Everybody, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OperatorRow> {
        self.people.values()
    }

    /// Everybody who is an operator now, by name.
    pub(crate) fn present(&self) -> Vec<OperatorRow> {
        self.all().filter(|operator| operator.revoked_at.is_none()).cloned().collect()
    }

    /// Whoever has a name, or had it.
    pub(crate) fn named(&self, name: &OperatorName) -> Option<&OperatorRow> {
        self.people.get(name)
    }

    /// The first entry about any of them.
    pub(crate) fn began(&self) -> Option<i64> {
        self.began
    }

    /// What somebody may do: nothing if they are no operator, or not any more.
    pub(crate) fn role_of(&self, name: &OperatorName) -> Option<Role> {
        self.named(name).filter(|operator| operator.revoked_at.is_none()).map(|operator| operator.role)
    }

    /// Whether somebody's answers count.
    pub(crate) fn may_answer(&self, name: &OperatorName) -> bool {
        self.role_of(name).is_some_and(|role| role >= Role::Approver)
    }
}

impl Store {
    /// The entry at a place, as the ledger is now. Nothing if there is none, or it is not the one that was signed.
    pub(crate) async fn signed_entry(&self, seq: i64) -> Result<Option<Told>, StoreError> {
        let remembered = self.remembered();
        let mut read = self.snapshot().await?;
        let tail = Tail::load(&mut read, remembered, self.keys().public()).await?;
        told(&mut read, &tail, seq).await
    }

    /// Who the operators are, as the ledger is now.
    pub(crate) async fn roster(&self) -> Result<Arc<Roster>, StoreError> {
        let before = self.remembered();
        let mut question = Later::default();
        question.keep(sqlx::query(LAST))?;
        let last = last_of(self.look(question).await?.row()?)?;
        if let Some(roster) = self.roster_as_remembered(before, last) {
            return Ok(roster);
        }
        self.with_records(async |mut records| records.roster().await).await
    }

    /// Looks at the ledger as it is now.
    pub(crate) async fn with_records<T>(
        &self,
        look: impl AsyncFnOnce(Records<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // Before the view is taken: what is remembered is not newer than it.
        let remembered = self.remembered();
        let mut read = self.snapshot().await?;
        let tail = Tail::load(&mut read, remembered, self.keys().public()).await?;
        let seen = look(Records { connection: &mut read, tail: &tail, proved: &self.proved }).await?;
        self.remember(tail);
        Ok(seen)
    }
}

impl Store {
    /// The same if this process has proved it, and nobody else has appended since: then one look at the last entry is
    /// enough, and what was remembered before that look.
    pub(crate) fn roster_as_remembered(&self, before: Option<Tail>, last: LastEntry) -> Option<Arc<Roster>> {
        let is_last = |tail: &Tail| tail.last() == last;
        // This process may have written in the meantime, too.
        let tail = before.filter(is_last).or_else(|| self.remembered().filter(is_last))?;
        let known = lock(&self.proved.roster).clone();
        known.filter(|(at, _)| *at == tail.last_of(List::People)).map(|(_, roster)| roster)
    }
}

impl Store {
    /// The same of what operators have said of tools.
    pub(crate) fn stances_as_remembered(
        &self,
        before: Option<Tail>,
        last: LastEntry,
    ) -> Option<Arc<Stances>> {
        let is_last = |tail: &Tail| tail.last() == last;
        let tail = before.filter(is_last).or_else(|| self.remembered().filter(is_last))?;
        let known = lock(&self.proved.stances).clone();
        known.filter(|(at, _)| *at == tail.last_of(List::Tools)).map(|(_, stances)| stances)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Whoever panicked with it in hand has left it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
