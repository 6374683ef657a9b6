//! How many refusals are recorded: anybody can have something refused, and the ledger is forever.

use std::sync::{Mutex, PoisonError};

/// Those of one way in.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Bucket>);

#[derive(Default)]
struct Bucket {
    used: i64,
    since: i64,
    unrecorded: u64,
}

/// So many at once, and one more in each of these.
const MOST_RECORDED: i64 = 30;
const ONE_MORE_EACH_MS: i64 = 2000;

impl Refusals {
    /// How many were passed over since the last one; nothing if this one is, too.
    pub(super) fn take(&self, now: i64) -> Option<u64> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let regained = now.saturating_sub(bucket.since).max(0) / ONE_MORE_EACH_MS;
        if regained > 0 {
            bucket.used = bucket.used.saturating_sub(regained).max(0);
            bucket.since = now;
        }
        if bucket.used >= MOST_RECORDED {
            bucket.unrecorded += 1;
            return None;
        }
        bucket.used += 1;
        Some(std::mem::take(&mut bucket.unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_recorded() {
        let refusals = Refusals::default();
        let recorded = (0..1000).filter(|_| refusals.take(5000).is_some()).count();
        assert_eq!(recorded, 30);
        assert_eq!(refusals.take(5000 + ONE_MORE_EACH_MS), Some(970));
        assert_eq!(refusals.take(5000 + ONE_MORE_EACH_MS), None);
    }
}
