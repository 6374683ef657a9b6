//! How much one run may use. Numbers only; who enforces them is decided elsewhere.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// How much one run may use. Every field is a hard limit; there is no "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Total memory in bytes, scratch space included.
    pub memory: u64,
    /// Processes and threads at once.
    pub pids: u32,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
    /// Bytes in scratch space, and bytes added to granted directories.
    pub disk: u64,
    /// Open files of one process.
    pub open_files: u32,
    /// Bytes of each output stream that are kept or passed on.
    pub output: u64,
    /// Wall clock time.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 2 * GIB,
            pids: 512,
            cpu_millis: 4000,
            disk: GIB,
            open_files: 4096,
            output: 10 * MIB,
            timeout: Duration::from_secs(30),
        }
    }
}

/// A limit that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} of {given} is not between {least} and {most}")]
pub struct LimitsError {
    /// Which limit.
    pub what: &'static str,
    /// What was asked.
    pub given: u64,
    /// The least that works.
    pub least: u64,
    /// The most that is accepted.
    pub most: u64,
}

impl Limits {
    /// Refuses numbers under which nothing could run, and numbers that are no limit at all.
    pub fn check(&self) -> Result<(), LimitsError> {
        let rules = [
            ("memory limit", self.memory, 8 * MIB, 1 << 46),
            ("process limit", u64::from(self.pids), 1, 65_536),
            ("processor limit in thousandths", u64::from(self.cpu_millis), 10, 1_024_000),
            ("disk limit", self.disk, 64 * 1024, 1 << 46),
            ("open file limit", u64::from(self.open_files), 16, 1 << 20),
            ("output limit", self.output, 0, 1 << 46),
            ("timeout in milliseconds", millis(self.timeout), 1, 7 * 24 * 3600 * 1000),
        ];
        for (what, given, least, most) in rules {
            if given < least || given > most {
                return Err(LimitsError { what, given, least, most });
            }
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_own_bounds() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |limits: Limits| limits.check().map_err(|e| e.what);
        assert_eq!(refused(Limits { memory: 1, ..Limits::default() }), Err("memory limit"));
        assert_eq!(refused(Limits { pids: 0, ..Limits::default() }), Err("process limit"));
        assert_eq!(
            refused(Limits { timeout: Duration::ZERO, ..Limits::default() }),
            Err("timeout in milliseconds")
        );
    }
}
