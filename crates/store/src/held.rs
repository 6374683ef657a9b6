//! The one connection that writes, for as long as a transaction is open on it.
//!
//! # Invariants
//! - What is dropped before it was committed is rolled back at once, or its connection is closed, which is the same.

use std::time::Duration;

use sqlx::AnyConnection;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::error::StoreError;
use crate::pool::Lent;

const ROLLBACK: &str = "ROLLBACK";

/// A connection with an open transaction.
pub(crate) struct Held {
    /// Nothing once the transaction has ended.
    connection: Option<Lent>,
    /// Held until then.
    turn: Option<OwnedMutexGuard<()>>,
    /// How long a server may take to roll back. After that the line to it is given up, and the server does so by itself.
    longest: Option<Duration>,
}

impl Held {
    /// From the moment on at which a transaction may begin on it.
    pub(crate) fn new(
        connection: Lent,
        turn: Option<OwnedMutexGuard<()>>,
        longest: Option<Duration>,
    ) -> Held {
        Held { connection: Some(connection), turn, longest }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut AnyConnection, StoreError> {
        self.connection.as_deref_mut().ok_or(StoreError::Locked(sqlx::Error::PoolClosed))
    }

    /// Lets go of both: the transaction has ended.
    pub(crate) fn let_go(&mut self) {
        self.connection = None;
        self.turn = None;
    }

    /// Ends the transaction without a trace. Nothing can be asked or told any more.
    pub(crate) fn roll_back(&mut self) {
        self.end_with(None);
    }

    fn end_with(&mut self, turn: Option<OwnedMutexGuard<()>>) {
        let Some(mut connection) = self.connection.take() else { return };
        let longest = self.longest;
        tokio::spawn(async move {
            let rolling_back = sqlx::raw_sql(ROLLBACK).execute(&mut *connection);
            let rolled_back = match longest {
                Some(longest) => timeout(longest, rolling_back).await.ok(),
                None => Some(rolling_back.await),
            };
            match rolled_back {
                Some(Ok(_)) => {}
                // One that is no more was ended by the database itself; whatever is left of it ends with the connection.
                Some(Err(_)) | None => connection.discard(),
            }
            drop(turn);
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Whoever is next waits for their turn, and not for the connection.
        let turn = self.turn.take();
        self.end_with(turn);
    }
}
