//! Calls that this process has begun, and what their ends need to know of them.
//!
//! # Invariants
//! - What is remembered is used where the database says that the call runs as it was left (`settle`); else its row says what
//!   has become of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::CallId;

use crate::calls::CallRow;
use crate::wrapping::Secrets;

/// More than are under way at once. Those that never end here are forgotten with the others.
const MOST_REMEMBERED: usize = 4096;

/// A call on record.
pub(crate) struct Begun {
    /// Its row, but for the trace.
    pub(crate) call: CallRow,
    pub(crate) secrets: Secrets,
}

/// Those that were begun here.
#[derive(Default)]
pub(crate) struct AllBegun(Mutex<HashMap<CallId, Begun>>);

impl AllBegun {
    pub(crate) fn remember(&self, begun: Begun) {
        let mut all = self.lock();
        if all.len() >= MOST_REMEMBERED {
            all.clear();
        }
        all.insert(begun.call.id.clone(), begun);
    }

    pub(crate) fn take(&self, call: &CallId) -> Option<Begun> {
        self.lock().remove(call)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, Begun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AllBegun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AllBegun(..)")
    }
}
