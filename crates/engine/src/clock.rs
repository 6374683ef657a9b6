//! The one place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the time comes from.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    read: fn() -> i64,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Clock {
        Clock { read: system_milliseconds }
    }

    /// Another clock, for tests.
    pub fn of(read: fn() -> i64) -> Clock {
        Clock { read }
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

#[expect(clippy::disallowed_methods, reason = "the clock is read here and nowhere else")]
fn system_milliseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
