//! What can go wrong with any statement.

use contract::{ApprovalId, CanonicalError};
use sqlx::postgres::PgDatabaseError;
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
    /// The server does not answer, or has gone away.
    #[error("the database server cannot be reached")]
    Unreachable(#[source] sqlx::Error),
    /// The server went away while it made something durable, and has not come back to tell.
    #[error("the database server was lost while it recorded: whether it did is not known")]
    Unknown(#[source] sqlx::Error),
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
    /// Whether gates live cannot be told.
    #[error("the locks of the gates on this store cannot be used")]
    Life(#[source] std::io::Error),
    /// The file was removed, or another put in its place.
    #[error("the file of the store is gone, or is another")]
    Gone,
    /// A row holds what this code never wrote.
    #[error("the store holds an unreadable {what}")]
    Unreadable {
        /// Which value.
        what: &'static str,
    },
    /// An approval, or the call that it is about, is not what the signed ledger tells: somebody has written past the gate.
    #[error("the signed ledger does not tell of the approval `{approval}` as the store has it: {what}")]
    Unproved {
        /// Which approval.
        approval: ApprovalId,
        /// What differs.
        what: &'static str,
    },
    /// The ledger is shorter than this gate has seen it.
    #[error("the ledger has lost entries that this gate has seen")]
    RolledBack,
    /// The ledger ends with entries that this gate's key has not signed: nothing is built on them.
    #[error("the ledger holds entries that were not signed")]
    Unsigned,
    /// There is no randomness for keys.
    #[error("the system gives no random bytes")]
    NoRandom,
    /// A value has no canonical form, so that it cannot be recorded.
    #[error("a value cannot be recorded")]
    Unrecordable(#[from] CanonicalError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        match Says::of(&error) {
            Says::Locked => StoreError::Locked(error),
            Says::ReadOnly | Says::NoRights => StoreError::ReadOnly(error),
            Says::Damaged | Says::NotADatabase => StoreError::Damaged(error),
            Says::Full => StoreError::Full(error),
            Says::Unreachable | Says::SignIn | Says::NoDatabase => StoreError::Unreachable(error),
            Says::CannotOpen | Says::Other => StoreError::Database(error),
        }
    }
}

/// Whether a transaction may have been committed although its end was an error: nobody heard what became of it.
pub(crate) fn leaves_doubt(error: &sqlx::Error) -> bool {
    match error {
        // What the server itself says about a commit is its end, unless the server was ending too.
        sqlx::Error::Database(_) => Says::of(error) == Says::Unreachable,
        _ => true,
    }
}

/// What either database says, in one language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Locked,
    ReadOnly,
    NoRights,
    CannotOpen,
    NotADatabase,
    Damaged,
    Full,
    Unreachable,
    SignIn,
    NoDatabase,
    Other,
}

impl Says {
    pub(crate) fn of(error: &sqlx::Error) -> Says {
        match error {
            sqlx::Error::PoolTimedOut => Says::Locked,
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) => Says::Unreachable,
            sqlx::Error::Database(error) => match error.try_downcast_ref::<PgDatabaseError>() {
                Some(error) => Says::of_postgres(error.code()),
                None => error.code().and_then(|code| code.parse().ok()).map_or(Says::Other, Says::of_sqlite),
            },
            _ => Says::Other,
        }
    }

    /// By the primary result code, which is the lowest byte.
    fn of_sqlite(code: u32) -> Says {
        match code & 0xff {
            5 | 6 => Says::Locked,
            8 => Says::ReadOnly,
            11 => Says::Damaged,
            13 => Says::Full,
            14 => Says::CannotOpen,
            26 => Says::NotADatabase,
            _ => Says::Other,
        }
    }

    /// By SQLSTATE, whose first two characters are its class.
    fn of_postgres(code: &str) -> Says {
        match code {
            // No lock in time, no end in time, a deadlock, a snapshot that is too old.
            "55P03" | "57014" | "40001" | "40P01" => Says::Locked,
            // A server that only follows another.
            "25006" => Says::ReadOnly,
            // A user who may only read.
            "42501" => Says::NoRights,
            "53100" => Says::Full,
            "3D000" | "3F000" => Says::NoDatabase,
            "XX001" | "XX002" => Says::Damaged,
            // Too many connections; the server stops, has crashed, or starts.
            "53300" | "57P01" | "57P02" | "57P03" | "57P05" => Says::Unreachable,
            _ if code.starts_with("08") => Says::Unreachable,
            _ if code.starts_with("28") => Says::SignIn,
            _ => Says::Other,
        }
    }
}
