//! Our own code as the tool: a copy of the init goes on with it, behind the same walls, and nothing has to be executed.
//!
//! The init was copied from a launcher before that had a plan, so what is in its memory is its own plan and nothing else.

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use rustix::process::Pid;

use crate::lasting;
use crate::orders::OrderedCommand;
use crate::sys::{self, Forked};

/// What a sandbox runs for [`crate::Program::Own`].
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Makes what every run would make for itself, once, where runs are copied from.
    pub prepare: fn(),
    /// Runs with the plan's arguments; returns the exit code.
    pub run: fn(&[OsString]) -> i32,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// The exit code of what panics.
const PANICKED: i32 = 101;

/// Remembers it for every sandbox that this process, or a copy of it, launches.
pub(crate) fn remember(own: Own) {
    let _ = OWN.set(own);
}

/// Before copies of this process are made.
pub(crate) fn prepare() {
    if let Some(own) = OWN.get() {
        lasting::make(own.prepare);
    }
}

/// Begins with it in a new process.
pub(crate) fn begin(command: &OrderedCommand) -> io::Result<Pid> {
    let own = OWN.get().ok_or(io::ErrorKind::Unsupported)?;
    match sys::fork()? {
        Forked::Parent(pid) => Ok(pid),
        Forked::Child => {
            let code = catch_unwind(AssertUnwindSafe(|| {
                sys::begin_anew(&command.environment).map_or(PANICKED, |()| (own.run)(&command.arguments))
            }));
            // Says what is still to be said, as every program does at its end.
            std::process::exit(code.unwrap_or(PANICKED))
        }
    }
}
