//! The one connection that writes, for as long as a transaction is open on it.
//!
//! # Invariants
//! - What is dropped before it was committed is rolled back at once, or its connection is closed, which is the same.

use sqlx::AnyConnection;
use sqlx::any::Any;
use sqlx::pool::PoolConnection;
use tokio::sync::OwnedMutexGuard;

use crate::error::StoreError;

const ROLLBACK: &str = "ROLLBACK";

/// A connection with an open transaction.
pub(crate) struct Held {
    /// Nothing once the transaction has ended.
    connection: Option<PoolConnection<Any>>,
    /// Held until then.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Held {
    /// From the moment on at which a transaction may begin on it.
    pub(crate) fn new(connection: PoolConnection<Any>, turn: Option<OwnedMutexGuard<()>>) -> Held {
        Held { connection: Some(connection), turn }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut AnyConnection, StoreError> {
        self.connection.as_deref_mut().ok_or(StoreError::Locked(sqlx::Error::PoolClosed))
    }

    /// Lets go of both: the transaction has ended.
    pub(crate) fn let_go(&mut self) {
        self.connection = None;
        self.turn = None;
    }

    /// Ends the transaction without a trace.
    pub(crate) fn roll_back(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        // Whoever is next waits for the connection.
        tokio::spawn(async move {
            // One that is no more was ended by the database itself; whatever is left of it ends with the connection.
            if sqlx::raw_sql(ROLLBACK).execute(&mut *connection).await.is_err() {
                let _ = connection.close().await;
            }
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.roll_back();
    }
}
