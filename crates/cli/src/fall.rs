//! What is said and done when our own code panics.
//!
//! # Invariants
//! - Nothing of what it was working on is said: a panic's own words may hold arguments, output or secrets.
//! - A process that builds or lives in a sandbox ends at once, before anything is unwound: its child is a copy of it, and
//!   must not run what the parent left to do. Only a gate lives on, and what panicked in it is answered as unknown.

use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process goes on after a panic.
static LIVES_ON: AtomicBool = AtomicBool::new(false);

/// Takes over what happens on a panic. First of all, in every process.
pub(crate) fn prepare() {
    std::panic::set_hook(Box::new(fall));
}

/// From here on a panic ends its task, and not the process.
pub(crate) fn live_on() {
    LIVES_ON.store(true, Ordering::SeqCst);
}

fn fall(info: &PanicHookInfo<'_>) {
    // ATTACK(panic-prints-arguments): where, and never what.
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "error: toolgate's own code failed at {place}");
    if !LIVES_ON.load(Ordering::SeqCst) {
        std::process::abort();
    }
}
