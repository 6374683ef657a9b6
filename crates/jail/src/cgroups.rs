//! Cgroups that wait for the next sandbox: to make one and to remove it is a tenth of a run.
//!
//! Knows nothing of what makes one fit to be used again; see [`Cgroup`].
//!
//! # Invariants
//! - A cgroup has one sandbox at a time. It is here only while nobody is in it, and only if it is as new.
//! - All that wait here are removed when this is dropped.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::Cgroup;

/// How many wait at most.
const MOST_FREE: usize = 64;

/// Those of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    free: Mutex<Vec<Cgroup>>,
}

impl Cgroups {
    /// An empty one without limits of a plan, which comes back by itself.
    pub(crate) fn take(self: &Arc<Cgroups>) -> Cgroup {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cgroup = free.unwrap_or_else(|| {
            let made = Cgroup::begin();
            made.reclaim_beside();
            made
        });
        cgroup.at_home(self.clone())
    }

    /// Takes one that is as new.
    pub(crate) fn put(&self, cgroup: Cgroup) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MOST_FREE {
            free.push(cgroup);
            return;
        }
        // It is removed, which may take a while.
        drop(free);
        drop(cgroup);
    }
}
