//! One transaction that writes: rows and the ledger entries that tell of them, together or not at all.

use std::io::ErrorKind;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use contract::Canonical;
use serde_json::Value;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::crash::About;
use crate::error::{StoreError, leaves_doubt};
use crate::held::Held;
use crate::later::{Answers, Later};
use crate::ledger::{Hash, LAST, LastEntry, List, Tail, last_of, stands};
use crate::migrations::begin;
use crate::open::Store;
use crate::place::Database;
use crate::records::{Records, Roster};
use crate::stances::Stances;

/// Several gates on one database write in turn: the lock belongs to the table, so each schema has its own.
const LOCK: &str = "SELECT pg_advisory_xact_lock(4398046511104 + 'ledger'::regclass::oid::bigint)";

/// After this many times its patience a gate believes that a server is gone which has let it in and then says nothing:
/// later than the server itself gives a statement up.
const LONGEST: u32 = 7;

const COMMIT: &str = "COMMIT";

/// When a record has to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// When it is told that it is recorded.
    Now,
    /// With the next record of the same call, which is waited for. Until then a power cut may take it back, and with it
    /// everything that came after it; the end of a process does not. So nothing may happen meanwhile that anybody could
    /// notice. A server makes everything durable at once.
    WithNext,
}

/// A transaction that holds the database's one write lock.
pub(crate) struct Write<'a> {
    store: &'a Store,
    held: Held,
    tail: Option<Tail>,
    /// The last entry of the ledger as the transaction began, until the tail is loaded from it.
    last: Option<LastEntry>,
    /// What is said before anything is asked, and at the end.
    later: Later,
    about: About,
}

impl Store {
    /// Begins to write. The lock is taken at once, so that what is read in it stays true.
    pub(crate) async fn write(&self) -> Result<Write<'_>, StoreError> {
        Ok(self.write_asking(Later::default()).await?.0)
    }

    /// The same, and asks in the same breath what is known from the beginning to be needed.
    pub(crate) async fn write_asking(&self, questions: Later) -> Result<(Write<'_>, Answers), StoreError> {
        self.faults.check()?;
        if let Some(disk) = &self.disk {
            disk.check()?;
        }
        let waiting = timeout(self.patience.saturating_mul(6), Arc::clone(&self.turn).lock_owned());
        let turn = waiting.await.map_err(|_| StoreError::Locked(sqlx::Error::PoolTimedOut))?;
        let (held, last, answers) = self.begin(turn.into(), questions).await?;
        let (later, about) = (Later::default(), About::new());
        Ok((Write { store: self, held, tail: None, last: Some(last), later, about }, answers))
    }

    /// The transaction, with its lock and what is asked first in it; unless the server is silent for longer than it lets
    /// anybody wait for the lock.
    async fn begin(
        &self,
        turn: Option<OwnedMutexGuard<()>>,
        questions: Later,
    ) -> Result<(Held, LastEntry, Answers), StoreError> {
        let most = self.patience.saturating_mul(3);
        let mut held = self.answered(most, Box::pin(self.hold(turn))).await?;
        let mut asked = Later::default();
        if self.database == Database::Sqlite {
            asked.keep(sqlx::query(begin(self.database)))?;
        }
        asked.keep(sqlx::query(LAST))?;
        asked.append(questions);
        let asking = Box::pin(asked.ask(held.connection()?));
        let mut answers = self.answered(self.patience.saturating_mul(LONGEST), asking).await?;
        if self.database == Database::Sqlite {
            answers.rows()?;
        }
        let last = last_of(answers.row()?)?;
        Ok((held, last, answers))
    }

    /// The one connection that writes. A server begins the transaction and takes the lock; a file does so with the first
    /// question.
    async fn hold(&self, turn: Option<OwnedMutexGuard<()>>) -> Result<Held, StoreError> {
        let connection = self.writer.acquire().await.map_err(|error| self.not_reached(error))?;
        let longest = (self.database == Database::Postgres).then_some(self.patience);
        let mut held = Held::new(connection, turn, longest);
        if self.database == Database::Postgres {
            let begin = format!("{}; {LOCK}", begin(self.database));
            sqlx::raw_sql(AssertSqlSafe(begin)).execute(held.connection()?).await?;
        }
        Ok(held)
    }

    /// Waits for a server only so long: a line that carries nothing and is not cut never fails by itself.
    ///
    /// What is waited for is on the heap: as a part of all that waits for it in turn, it would fill a thread's stack.
    async fn answered<T>(
        &self,
        most: Duration,
        work: Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + '_>>,
    ) -> Result<T, StoreError> {
        match self.database {
            Database::Sqlite => work.await,
            Database::Postgres => {
                let silent = || Err(StoreError::Unreachable(sqlx::Error::Io(ErrorKind::TimedOut.into())));
                timeout(most, work).await.unwrap_or_else(|_| silent())
            }
        }
    }

    /// Whether the ledger has an entry, now that the transaction that wrote it has ended one way or the other: it held
    /// the lock that is taken here.
    async fn has(&self, seq: i64, leaf: Hash) -> Result<bool, StoreError> {
        let looking = async {
            let (mut held, ..) = self.begin(None, Later::default()).await?;
            stands(held.connection()?, seq, leaf).await
        };
        self.answered(self.patience.saturating_mul(6), Box::pin(looking)).await
    }
}

impl Write<'_> {
    pub(crate) fn store(&self) -> &Store {
        self.store
    }

    /// For what is asked: everything that was said before it is told first.
    pub(crate) async fn connection(&mut self) -> Result<&mut AnyConnection, StoreError> {
        self.tell().await?;
        self.held.connection()
    }

    /// Asks several things at once, after everything that was said before.
    pub(crate) async fn ask(&mut self, questions: Later) -> Result<Answers, StoreError> {
        self.tell().await?;
        let asking = Box::pin(questions.ask(self.held.connection()?));
        let answered = self.store.answered(self.store.patience.saturating_mul(LONGEST), asking).await;
        self.or_nothing(answered)
    }

    /// INVARIANT(all-or-nothing): after something has failed, nothing more is told, and nothing committed.
    fn or_nothing<T>(&mut self, answered: Result<T, StoreError>) -> Result<T, StoreError> {
        answered.inspect_err(|_| self.held.roll_back())
    }

    /// Says something whose answer nobody needs. If it fails, so does the next question, or the end.
    pub(crate) fn say(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<(), StoreError> {
        self.later.keep(query)
    }

    async fn tell(&mut self) -> Result<(), StoreError> {
        if self.later.is_empty() {
            return Ok(());
        }
        let later = mem::take(&mut self.later);
        let telling = Box::pin(later.tell(self.held.connection()?));
        let told = self.store.answered(self.store.patience.saturating_mul(LONGEST), telling).await;
        self.or_nothing(told)
    }

    /// What the signed ledger tells, as it is in this transaction.
    pub(crate) async fn records(&mut self) -> Result<Records<'_>, StoreError> {
        let tail = self.loaded().await?;
        self.tell().await?;
        let tail = self.tail.insert(tail);
        Ok(Records { connection: self.held.connection()?, tail, proved: &self.store.proved })
    }

    /// Who the operators are, as the signed ledger tells.
    pub(crate) async fn roster(&mut self) -> Result<Arc<Roster>, StoreError> {
        Box::pin(self.records().await?.roster()).await
    }

    /// What operators have said of tools, as the signed ledger tells.
    pub(crate) async fn stances(&mut self) -> Result<Arc<Stances>, StoreError> {
        Box::pin(self.records().await?.stances()).await
    }

    /// Appends to the ledger; returns the entry's place.
    pub(crate) async fn append(&mut self, time: i64, kind: &str, body: Value) -> Result<i64, StoreError> {
        self.append_to(List::of(kind), time, kind, body).await
    }

    /// The same for an entry that belongs to a list, although not all of its kind do.
    pub(crate) async fn append_to(
        &mut self,
        list: impl Into<Option<List>>,
        time: i64,
        kind: &str,
        body: Value,
    ) -> Result<i64, StoreError> {
        let mut tail = self.appending(kind).await?;
        let key = self.store.keys().public();
        let seq = tail.append(&mut self.later, key, time, kind, list.into(), body)?;
        self.tail = Some(tail);
        Ok(seq)
    }

    /// The same for a body whose text is known already, in no list.
    pub(crate) async fn append_canonical(
        &mut self,
        time: i64,
        kind: &str,
        body: &Canonical,
    ) -> Result<i64, StoreError> {
        let mut tail = self.appending(kind).await?;
        let key = self.store.keys().public();
        let seq = tail.append_text(&mut self.later, key, time, kind, body.text().to_owned())?;
        self.tail = Some(tail);
        Ok(seq)
    }

    async fn appending(&mut self, kind: &str) -> Result<Tail, StoreError> {
        self.store.faults.check()?;
        self.about.note(kind);
        self.loaded().await
    }

    /// Where the ledger ends, taken or read.
    async fn loaded(&mut self) -> Result<Tail, StoreError> {
        match self.tail.take() {
            Some(tail) => Ok(tail),
            None => {
                let (key, remembered) = (self.store.keys().public(), self.store.remembered());
                let (last, connection) = (self.last.take(), self.held.connection()?);
                let loading = Box::pin(async move {
                    match last {
                        Some(last) => Tail::after(connection, last, remembered, key).await,
                        None => Tail::load(connection, remembered, key).await,
                    }
                });
                self.store.answered(self.store.patience.saturating_mul(LONGEST), loading).await
            }
        }
    }

    /// Makes everything durable.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.commit_until(Durable::Now).await
    }

    /// Commits, and makes it durable when this says.
    pub(crate) async fn commit_until(mut self, durable: Durable) -> Result<(), StoreError> {
        self.store.faults.check()?;
        if let Some(tail) = &self.tail {
            tail.sign(&mut self.later, self.store.keys())?;
        }
        let committed = match self.store.database {
            // Told in one breath with what is left to be said.
            Database::Sqlite => {
                if cfg!(feature = "crash") {
                    // Where gates are killed, there is a moment between the two.
                    self.tell().await?;
                }
                self.about.reach("before-commit");
                self.say(sqlx::query(COMMIT))?;
                self.tell().await?;
                Ok(())
            }
            Database::Postgres => {
                self.tell().await?;
                self.about.reach("before-commit");
                let committing = sqlx::raw_sql(COMMIT).execute(self.held.connection()?);
                match timeout(self.store.patience.saturating_mul(LONGEST), committing).await {
                    Ok(committed) => committed.map(drop),
                    Err(_) => Err(sqlx::Error::Io(ErrorKind::TimedOut.into())),
                }
            }
        };
        if let Err(error) = committed {
            // INVARIANT(doubt): a commit of which nobody heard is not taken for one that did not happen.
            let last = self.tail.as_ref().and_then(Tail::last);
            // Whoever looks needs the place of this one.
            self.held.roll_back();
            match (self.store.database, last) {
                (Database::Postgres, Some((seq, leaf))) if leaves_doubt(&error) => {
                    match self.store.has(seq, leaf).await {
                        Ok(true) => {}
                        Ok(false) => return Err(error.into()),
                        Err(_) => return Err(StoreError::Unknown(error)),
                    }
                }
                _ => return Err(error.into()),
            }
        }
        self.about.reach("before-sync");
        if let Some(tail) = self.tail {
            self.store.remember(tail.signed());
        }
        // The next one may write while this one waits for the disk.
        self.held.let_go();
        if let Some(disk) = &self.store.disk {
            disk.committed(&self.store.turn);
        }
        if durable == Durable::Now {
            if let Some(disk) = &self.store.disk {
                disk.wait().await?;
            }
            self.about.reach("durable");
        }
        // Written, and not told.
        self.store.faults.check()
    }
}

impl Store {
    pub(crate) fn remembered(&self) -> Option<Tail> {
        // Whoever panicked with it in hand has left it whole; and it is checked before it is used.
        self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn remember(&self, tail: Tail) {
        let mut remembered = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Whoever read it before others wrote comes too late.
        if remembered.as_ref().is_none_or(|known| known.size() <= tail.size()) {
            *remembered = Some(tail);
        }
    }
}
