//! One transaction that writes: rows and the ledger entries that tell of them, together or not at all.

use serde_json::Value;
use sqlx::{Any, AnyConnection, Transaction};

use crate::error::StoreError;
use crate::ledger::Tail;
use crate::migrations::begin;
use crate::open::Store;
use crate::place::Database;

/// Several gates on one database write in turn: the lock belongs to the table, so each schema has its own.
const LOCK: &str = "SELECT pg_advisory_xact_lock(4398046511104 + 'ledger'::regclass::oid::bigint)";

/// A transaction that holds the database's one write lock.
pub(crate) struct Write<'a> {
    store: &'a Store,
    transaction: Transaction<'static, Any>,
    tail: Option<Tail>,
}

impl Store {
    /// Begins to write. The lock is taken at once, so that what is read in it stays true.
    pub(crate) async fn write(&self) -> Result<Write<'_>, StoreError> {
        if let Some(disk) = &self.disk {
            disk.check()?;
        }
        let mut transaction = self.writer.begin_with(begin(self.database)).await?;
        if self.database == Database::Postgres {
            sqlx::query(LOCK).execute(&mut *transaction).await?;
        }
        Ok(Write { store: self, transaction, tail: None })
    }
}

impl Write<'_> {
    pub(crate) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }

    /// Appends to the ledger; returns the entry's place.
    pub(crate) async fn append(&mut self, time: i64, kind: &str, body: Value) -> Result<i64, StoreError> {
        let mut tail = match self.tail.take() {
            Some(tail) => tail,
            None => Tail::load(&mut self.transaction, self.store.remembered()).await?,
        };
        let key = self.store.keys().public();
        let seq = tail.append(&mut self.transaction, key, time, kind, body).await?;
        self.tail = Some(tail);
        Ok(seq)
    }

    /// Makes everything durable.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        if let Some(tail) = &self.tail {
            tail.sign(&mut self.transaction, self.store.keys()).await?;
        }
        self.transaction.commit().await?;
        if let Some(tail) = self.tail {
            self.store.remember(tail);
        }
        match &self.store.disk {
            Some(disk) => disk.wait().await,
            None => Ok(()),
        }
    }
}

impl Store {
    fn remembered(&self) -> Option<Tail> {
        // Whoever panicked with it in hand has left it whole; and it is checked before it is used.
        self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn remember(&self, tail: Tail) {
        *self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(tail);
    }
}
