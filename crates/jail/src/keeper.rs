//! A small process with one thread that forks launchers, so that none of them has to be executed.
//!
//! It is our own binary under another argument. On its standard input it gets one end of a socket for each launcher that
//! is wanted; the launcher builds a sandbox as far as that goes without a plan, and waits at that socket. The zygote sees
//! no plan, so nothing of a run can be left in what the next launcher is a copy of. It ends when the gate hangs up; each
//! launcher ends when its own socket does.

use std::io;
use std::os::fd::OwnedFd;

use crate::helper;
use crate::orders::{Manner, receive};
use crate::own;
use crate::seccomp::{self, Part};
use crate::sys::{self, Cloned};

/// The argument that makes our binary a zygote.
pub const ZYGOTE_ARGUMENT: &str = "__zygote";

/// Forks launchers until the gate hangs up.
pub(crate) fn serve() -> io::Result<()> {
    let control = rustix::io::dup(rustix::stdio::stdin())?;
    // Nobody waits for launchers: whoever wants to know hears it from their socket.
    sys::ignore_signal(libc::SIGCHLD);
    // Once, for all that are copied from here.
    let _ = [Part::Most, Part::Rest].map(seccomp::filter);
    own::prepare();
    loop {
        let Ok(((), descriptors)) = receive::<()>(&control) else { return Ok(()) };
        for channel in descriptors {
            // One that cannot be forked is noticed by the gate: the socket ends with this turn.
            if let Ok(Cloned::Child) = sys::clone_process(0, None) {
                drop(control);
                sys::exit_now(i32::from(become_launcher(channel).is_err()));
            }
        }
    }
}

fn become_launcher(channel: OwnedFd) -> io::Result<()> {
    sys::default_signal(libc::SIGCHLD);
    rustix::stdio::dup2_stdin(&channel)?;
    rustix::stdio::dup2_stdout(&channel)?;
    drop(channel);
    helper::serve(Manner::Waiting)
}
