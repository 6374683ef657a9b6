//! Cgroups that wait for the next sandbox: to make one and to remove it is a tenth of a run.
//!
//! Knows nothing of what makes one fit to be used again; see [`Cgroup`].
//!
//! # Invariants
//! - A cgroup has one sandbox at a time. It is here only while nobody is in it, and only if it is as new.
//! - All that wait here are removed when this is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cgroup::{Cgroup, Renewed};

/// How many wait at most.
const MOST_FREE: usize = 64;

/// Those of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// They are as new.
    free: Vec<Cgroup>,
    /// They will be when the kernel has taken back what is still charged to them. The first has waited longest.
    charged: VecDeque<Cgroup>,
}

impl Cgroups {
    /// An empty one without limits of a plan, which comes back by itself.
    pub(crate) fn take(self: &Arc<Cgroups>) -> Cgroup {
        let (free, charged) = {
            let mut kept = self.kept();
            let free = kept.free.pop();
            (free, kept.charged.pop_front())
        };
        // The kernel has had time since. One that is not as new even now is removed.
        let renewed = charged.and_then(|mut cgroup| (cgroup.renew() == Renewed::AsNew).then_some(cgroup));
        let taken = match (free, renewed) {
            (Some(free), Some(renewed)) => {
                self.put(renewed);
                Some(free)
            }
            (free, renewed) => free.or(renewed),
        };
        let cgroup = taken.unwrap_or_else(|| {
            let made = Cgroup::begin();
            made.reclaim_beside();
            made
        });
        cgroup.at_home(self.clone())
    }

    /// Takes one that is as new.
    pub(crate) fn put(&self, cgroup: Cgroup) {
        let mut kept = self.kept();
        if kept.free.len() < MOST_FREE {
            kept.free.push(cgroup);
            return;
        }
        // It is removed, which may take a while.
        drop(kept);
        drop(cgroup);
    }

    /// Takes one to which too much is charged for a moment.
    pub(crate) fn put_aside(&self, cgroup: Cgroup) {
        let mut kept = self.kept();
        if kept.charged.len() < MOST_FREE {
            kept.charged.push_back(cgroup);
            return;
        }
        drop(kept);
        drop(cgroup);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
