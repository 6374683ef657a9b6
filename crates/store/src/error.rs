//! What can go wrong with any statement.

use contract::CanonicalError;
use thiserror::Error;

/// Why the database did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process holds it.
    #[error("the store is locked by another process")]
    Locked(#[source] sqlx::Error),
    /// There is no room.
    #[error("the disk that holds the store is full")]
    Full(#[source] sqlx::Error),
    /// It cannot be written to.
    #[error("the store is read-only")]
    ReadOnly(#[source] sqlx::Error),
    /// The file is damaged.
    #[error("the store is damaged")]
    Damaged(#[source] sqlx::Error),
    /// Anything else that the database says.
    #[error("the store does not answer as it should")]
    Database(#[source] sqlx::Error),
    /// It is written, but may not survive a power cut; nothing more is written until the store is opened again.
    #[error("the disk does not keep what the store has written")]
    NotDurable {
        /// What the disk says; nothing if it said so before.
        source: Option<std::io::Error>,
    },
    /// A row holds what this code never wrote.
    #[error("the store holds an unreadable {what}")]
    Unreadable {
        /// Which value.
        what: &'static str,
    },
    /// A value has no canonical form, so that it cannot be recorded.
    #[error("a value cannot be recorded")]
    Unrecordable(#[from] CanonicalError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        // The primary result codes of SQLite.
        match sqlite_code(&error) {
            Some(5 | 6) => StoreError::Locked(error),
            Some(8) => StoreError::ReadOnly(error),
            Some(11 | 26) => StoreError::Damaged(error),
            Some(13) => StoreError::Full(error),
            _ if matches!(error, sqlx::Error::PoolTimedOut) => StoreError::Locked(error),
            _ => StoreError::Database(error),
        }
    }
}

/// The primary code of what SQLite said.
pub(crate) fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
