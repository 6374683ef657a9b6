//! What is known of a run at a server while it goes on, so that its receipt says it however the run ends.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use contract::RunFacts;
use jail::Enforcement;

use crate::facts::{facts_of, micros};
use crate::reach::{Usage, with_usage};

/// How long a run that is cut short may take to say what it was.
pub(super) const CUT_WITHIN: Duration = Duration::from_secs(5);

/// What is known so far.
#[derive(Debug)]
pub(super) struct RunSoFar {
    began: Instant,
    walls: OnceLock<RunFacts>,
}

impl RunSoFar {
    /// Nothing, of a run that begins now.
    pub(super) fn nothing() -> RunSoFar {
        RunSoFar { began: Instant::now(), walls: OnceLock::new() }
    }

    /// These walls hold the server.
    pub(super) fn held_by(&self, enforcement: &Enforcement) {
        let _ = self.walls.set(facts_of(enforcement, None));
    }

    /// As a receipt says it: nothing, if nobody was at work.
    pub(super) fn facts(&self, usage: Option<Usage>) -> RunFacts {
        let Some(walls) = self.walls.get() else { return RunFacts::default() };
        let facts = RunFacts {
            wall_micros: micros(self.began.elapsed()),
            // A server serves several calls, and works between them: nobody knows what one of them takes.
            cpu_incomplete: true,
            ..walls.clone()
        };
        match usage {
            Some(usage) => with_usage(facts, usage),
            None => facts,
        }
    }
}
