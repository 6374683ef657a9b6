//! Proof of life: a lock that a gate holds as long as it lives, and that is let go of for it when it dies.
//!
//! It knows no time of day: clocks may differ or jump, a process may be stopped for a day, its number may be given to
//! another. It decides nothing about calls either; that a gate which was taken for dead begins nothing more is the
//! database's own rule.
//!
//! # Invariants
//! - A gate holds its lock before its name is in the database, and until it ends.
//! - Looking disturbs nobody: those who look share, and only the gate itself holds alone.
// DECISION(0010)

mod file;
mod server;

use std::time::Duration;

use contract::GateId;
use sqlx::any::AnyConnectOptions;

use crate::error::StoreError;
use crate::open::Store;
use crate::place::{Place, Purpose};
use file::Files;
use server::Sessions;

/// Who this store is among all gates on its database, once it has to be somebody.
#[derive(Debug)]
pub(crate) enum Life {
    /// Locks of the kernel, beside the file of a database.
    Files(Files),
    /// Locks of sessions at a database server.
    Sessions(Sessions),
}

impl Life {
    /// How gates on a database know of each other.
    pub(crate) fn of(place: &Place, options: AnyConnectOptions, patience: Duration) -> Life {
        match place {
            Place::File(path) => Life::Files(Files::beside(path)),
            Place::Server { .. } => {
                Life::Sessions(Sessions::at(options, place.settings(Purpose::Read, patience)))
            }
        }
    }

    /// The id by which others know this gate; it has one from its first call on.
    pub(crate) async fn own(&self) -> Result<GateId, StoreError> {
        match self {
            Life::Files(files) => files.own().map_err(StoreError::Life),
            Life::Sessions(sessions) => sessions.own().await,
        }
    }

    /// The same, if it has one.
    pub(crate) fn own_if_any(&self) -> Option<GateId> {
        match self {
            Life::Files(files) => files.own_if_any(),
            Life::Sessions(sessions) => sessions.own_if_any(),
        }
    }

    /// Becomes another: others have taken `lost` for dead, and nothing more is done in its name.
    pub(crate) async fn renew(&self, lost: &GateId) -> Result<GateId, StoreError> {
        match self {
            Life::Files(files) => files.forget(lost),
            Life::Sessions(sessions) => sessions.forget(lost).await,
        }
        self.own().await
    }

    /// How long others wait for a gate without its lock to take it again, before they count it as lost.
    pub(crate) fn grace(&self) -> Duration {
        match self {
            // The kernel never takes it from the living.
            Life::Files(_) => Duration::ZERO,
            Life::Sessions(_) => server::GRACE,
        }
    }

    /// Takes away the locks of those that are no more.
    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        match self {
            Life::Files(files) => files.sweep().map_err(StoreError::Life),
            Life::Sessions(_) => Ok(()),
        }
    }
}

impl Store {
    /// Whether a gate lives.
    pub(crate) async fn is_alive(&self, gate: &GateId) -> Result<bool, StoreError> {
        if self.life().own_if_any().as_ref() == Some(gate) {
            return Ok(true);
        }
        match self.life() {
            Life::Files(files) => files.lives(gate).map_err(StoreError::Life),
            Life::Sessions(_) => server::lives(&mut *self.read().await?, gate).await,
        }
    }
}
