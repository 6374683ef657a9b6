//! The one place that reads the clock, and the time that is made of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the time comes from.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    read: fn() -> i64,
    boot: fn() -> Option<Boot>,
}

/// How long the host has been up: a witness of time that nobody sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Which start of which host.
    pub id: String,
    /// How long ago that was, in milliseconds.
    pub up: i64,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Clock {
        Clock { read: system_milliseconds, boot: system_boot }
    }

    /// Another clock, for tests, and no other witness.
    pub fn of(read: fn() -> i64) -> Clock {
        Clock { read, boot: || None }
    }

    /// The same with another witness.
    pub fn beside(self, boot: fn() -> Option<Boot>) -> Clock {
        Clock { boot, ..self }
    }

    /// How long the host has been up, where that can be told.
    pub fn boot(self) -> Option<Boot> {
        (self.boot)()
    }

    /// Milliseconds since 1970.
    pub fn now(self) -> i64 {
        (self.read)()
    }

    /// The clock as a function, for whoever needs nothing more.
    pub fn as_function(self) -> fn() -> i64 {
        self.read
    }
}

/// Time that goes on whatever the clock says: what has expired stays so, and nothing lives longer than it was given.
///
/// # Invariants
/// - It is never earlier than it was, nor than the latest time on record.
/// - It never passes more slowly than it does.
#[derive(Debug)]
pub(crate) struct Steady {
    clock: Clock,
    /// The latest time that was told, and when that was.
    latest: Mutex<(i64, Instant)>,
}

impl Steady {
    /// Goes on from the latest time that is on record, or from the clock's if that is later.
    pub(crate) fn since(clock: Clock, on_record: Option<i64>) -> Steady {
        let now = clock.now();
        let first = on_record.map_or(now, |recorded| recorded.max(now));
        Steady { clock, latest: Mutex::new((first, Instant::now())) }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        // ATTACK(clock-set-back): the clock is one witness; the time that has passed since is another.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = i64::try_from(latest.1.elapsed().as_millis()).unwrap_or(i64::MAX);
        let now = self.clock.now().max(latest.0.saturating_add(passed));
        // Only whole steps are noted, so that what is less than a millisecond is not lost.
        if now > latest.0 {
            *latest = (now, Instant::now());
        }
        now
    }

    /// How far the clock is behind.
    pub(crate) fn behind(&self) -> Duration {
        let behind = self.now().saturating_sub(self.clock.now());
        Duration::from_millis(u64::try_from(behind).unwrap_or_default())
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is read here and nowhere else")]
fn system_milliseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Nothing where the kernel does not tell one start from another.
fn system_boot() -> Option<Boot> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some(Boot {
        id: id.trim().to_owned(),
        up: up.tv_sec.saturating_mul(1000).saturating_add(up.tv_nsec / 1_000_000),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn time_does_not_go_back_with_the_clock_and_does_not_stop() {
        static CLOCK: AtomicI64 = AtomicI64::new(1_000_000);
        let steady = Steady::since(Clock::of(|| CLOCK.load(Ordering::SeqCst)), None);
        let before = steady.now();
        assert!(before >= 1_000_000);
        CLOCK.store(2_000_000, Ordering::SeqCst);
        assert!(steady.now() >= 2_000_000);
        CLOCK.store(0, Ordering::SeqCst);
        let at = steady.now();
        assert!(at >= 2_000_000);
        assert!(steady.behind() >= Duration::from_secs(2000));
        while steady.now() < at + 3 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn how_long_the_host_is_up_goes_on_and_has_a_name() {
        let (one, other) = (system_boot().unwrap(), system_boot().unwrap());
        assert_eq!(one.id, other.id);
        assert!(one.id.len() > 30 && one.up > 0 && other.up >= one.up, "{one:?} {other:?}");
    }

    #[test]
    fn time_goes_on_from_what_is_on_record() {
        let steady = Steady::since(Clock::of(|| 5), Some(77));
        assert!(steady.now() >= 77);
        let steady = Steady::since(Clock::of(|| 500), Some(77));
        assert!(steady.now() >= 500);
    }
}
