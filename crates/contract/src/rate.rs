//! How often something may happen: so many times in so much time, whenever one looks.
//!
//! Pure arithmetic on times it is handed; it reads no clock and counts nothing.

use serde::{Deserialize, Serialize};

/// At most so many in any stretch of time of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// This many at most …
    pub max_calls: u64,
    /// … in this many milliseconds.
    pub window_ms: u64,
}

/// How far apart the clocks of several gates on one store may be, in milliseconds. A clock that is behind by more was set
/// back.
pub const CLOCKS_APART_MS: i64 = 10_000;

/// What the time is after what was counted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTheClock {
    /// This is the time.
    At(i64),
    /// The clock was set back by this much: whatever was counted before is to be moved back as far.
    SetBack(i64),
}

impl Rate {
    /// How long it takes until one more may happen, in milliseconds; nothing if it may now.
    ///
    /// `counted` is when the one happened that has `max_calls - 1` others after it, if there were as many.
    pub fn wait(self, counted: Option<i64>, now: i64) -> Option<u64> {
        if self.max_calls == 0 {
            return Some(self.window_ms);
        }
        let window = i64::try_from(self.window_ms).unwrap_or(i64::MAX);
        let free_at = counted?.saturating_add(window);
        u64::try_from(free_at.saturating_sub(now)).ok().filter(|wait| *wait > 0)
    }
}

impl OnTheClock {
    /// What the time is, where the newest thing counted has the time `newest` and the clock says `now`.
    ///
    /// ATTACK(clock-set-back): with the clock's own word a window would neither end nor, once emptied, hold.
    pub fn after(newest: Option<i64>, now: i64) -> OnTheClock {
        match newest.map(|newest| newest.saturating_sub(now)) {
            Some(behind) if behind > CLOCKS_APART_MS => OnTheClock::SetBack(behind),
            Some(behind) if behind > 0 => OnTheClock::At(now.saturating_add(behind)),
            _ => OnTheClock::At(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { max_calls: 3, window_ms: 1000 };

    #[test]
    fn one_more_may_happen_when_the_oldest_of_as_many_has_left_the_window() {
        assert_eq!(RATE.wait(None, 5000), None, "there were fewer");
        assert_eq!(RATE.wait(Some(4000), 5000), None);
        assert_eq!(RATE.wait(Some(4001), 5000), Some(1));
        assert_eq!(RATE.wait(Some(5000), 5000), Some(1000));
    }

    #[test]
    fn none_at_all_is_never() {
        assert_eq!(Rate { max_calls: 0, ..RATE }.wait(None, 5000), Some(1000));
    }

    #[test]
    fn numbers_at_their_ends_are_no_way_around_it() {
        let forever = Rate { max_calls: 1, window_ms: u64::MAX };
        assert!(forever.wait(Some(i64::MAX), i64::MIN).is_some());
        assert!(forever.wait(Some(0), i64::MAX - 1).is_some());
        assert_eq!(RATE.wait(Some(i64::MIN), i64::MAX), None);
    }

    #[test]
    fn a_clock_that_is_a_little_behind_waits_and_one_that_is_far_behind_was_set_back() {
        assert_eq!(OnTheClock::after(None, 7), OnTheClock::At(7));
        assert_eq!(OnTheClock::after(Some(5), 7), OnTheClock::At(7));
        assert_eq!(OnTheClock::after(Some(10_007), 7), OnTheClock::At(10_007));
        assert_eq!(OnTheClock::after(Some(10_008), 7), OnTheClock::SetBack(10_001));
    }
}
