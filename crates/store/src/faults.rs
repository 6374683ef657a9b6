//! Failures on demand: what is promised of errors is tried with every operation in turn.
//!
//! A store fails by itself or not at all; only [`crate::danger::fail_at`] asks for more.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::StoreError;

/// When the next failure is due: after so many operations; never, if negative.
#[derive(Debug)]
pub(crate) struct Faults(AtomicI64);

impl Default for Faults {
    fn default() -> Faults {
        Faults(AtomicI64::new(-1))
    }
}

impl Faults {
    /// Fails if it is due, and then no more.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        // Nearly always this is all.
        if self.0.load(Ordering::Relaxed) < 0 {
            return Ok(());
        }
        match self.0.fetch_sub(1, Ordering::SeqCst) {
            0 => Err(StoreError::Database(sqlx::Error::PoolClosed)),
            _ => Ok(()),
        }
    }

    pub(crate) fn set(&self, after: i64) {
        self.0.store(after, Ordering::SeqCst);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 0
    }
}
