//! The process that has sandboxes waiting for a gate, runs them, and cleans up after them, and the processes beside it.
//!
//! It is our own binary under another argument. On its standard input it gets one end of a socket for each sandbox that is
//! to wait; a thread of its own builds one as far as that goes without a plan, and waits at that socket for a plan and for the
//! socket of the next. Threads cannot clone a sandbox's init, so that zygotes do it for them ([`crate::nursery`]).
//!
//! # Invariants
//! - Each sandbox is used once. What goes on from one run to the next is the thread, which nothing inside is a copy of.
//! - A zygote sees no plan, so nothing of a run can be left in what the next init is a copy of.
//! - All of it ends with the keeper, whichever way that ends. When the gate hangs up the keeper ends, but not before every
//!   thread has cleaned up.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::helper::{self, Turn};
use crate::host_mounts::HostMounts;
use crate::identity::Caller;
use crate::nursery::{self, Guide, Kind, Nursery, Zygote, Zygotes};
use crate::orders::receive;
use crate::own;
use crate::seccomp::{self, Part};
use crate::sys::{self, Cloned};

/// The argument that makes our binary a keeper with its zygotes.
pub const ZYGOTE_ARGUMENT: &str = "__zygote";

/// A zygote that takes longer to answer has been stopped by somebody, and is done without. So has a guide, or it hangs in a file
/// system of somebody else's: what it is asked for was searched a moment ago.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// As much as a survey of a directory needs, several times over.
const STACK: usize = 1 << 20;

/// Has sandboxes wait, as many as it is told to, until the gate hangs up.
pub(crate) fn serve() -> io::Result<()> {
    let control = rustix::io::dup(rustix::stdio::stdin())?;
    // Once, for all that are copied from here.
    let _ = [Part::Most, Part::Rest].map(seccomp::filter);
    own::prepare();
    let mounts = Arc::new(HostMounts::begin()?);
    let (plain, readied) = (begin_zygote(Kind::Plain)?, begin_zygote(Kind::Readied)?);
    // Root's keeper copies mounts itself.
    let guide = match Caller::current() {
        Caller::Root => None,
        // ATTACK(waited-mounts): what it sees is of the moment that everything else is of.
        Caller::User => Some(Guide::greeted(begin_zygote(Kind::Guide)?)),
    };
    let zygotes = Zygotes::new(plain, readied, guide, mounts.clone());
    allow_many_descriptors();
    let zygotes = Arc::new(zygotes);
    let nursery = Nursery::of_zygotes(zygotes.clone());
    let mut waiting: Vec<JoinHandle<()>> = Vec::new();
    while let Ok(((), channels)) = receive::<()>(&control) {
        waiting.retain(|thread| !thread.is_finished());
        for channel in channels {
            let (nursery, zygotes, control) = (nursery.clone(), zygotes.clone(), control.try_clone()?);
            let mounts = mounts.clone();
            let turn = Turn { channel: UnixStream::from(channel), expected: None };
            let serve = move || serve_line(&nursery, &zygotes, &mounts, turn, &control);
            // One that cannot be started is noticed by the gate: its socket is closed.
            waiting.extend(thread::Builder::new().stack_size(STACK).spawn(serve).ok());
        }
    }
    for thread in waiting {
        // One that panicked has hung up on its gate.
        let _ = thread.join();
    }
    Ok(())
}

/// Begins a process that inits will be copies of, or the guide.
fn begin_zygote(kind: Kind) -> io::Result<Zygote> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let within = if kind == Kind::Guide { SHOWN_WITHIN } else { ANSWERED_WITHIN };
    sockopt::set_socket_timeout(&ours, sockopt::Timeout::Recv, Some(within))?;
    // By the first thread, which is there until the end: those whom the zygote clones end with their parent's thread.
    match sys::clone_process(0, None)? {
        Cloned::Child => {
            drop(ours);
            sys::exit_now(i32::from(be_zygote(&theirs, kind).is_err()))
        }
        Cloned::Parent { pid, .. } => Ok(Zygote::new(pid, ours)),
    }
}

fn be_zygote(keeper: &OwnedFd, kind: Kind) -> io::Result<()> {
    // Nothing of the gate's: it would not hear when the keeper has ended.
    rustix::stdio::dup2_stdin(keeper)?;
    rustix::stdio::dup2_stdout(keeper)?;
    sys::close_all_but(keeper)?;
    nursery::serve(keeper, kind)
}

/// One sandbox after the other, as long as the gate says where the next is to wait.
fn serve_line(
    nursery: &Nursery,
    zygotes: &Zygotes,
    mounts: &Arc<HostMounts>,
    mut turn: Turn,
    control: &OwnedFd,
) {
    while let Ok(Some(next)) = helper::serve_waiting(nursery.clone(), mounts, turn)
        && !zygotes.are_stale()
    {
        turn = next;
    }
    if zygotes.are_stale() {
        // The gate hears that with its next order, and starts another keeper. What waits here may still be used.
        let _ = shutdown(control.as_fd(), Shutdown::Both);
    }
}

/// Each sandbox takes a dozen of them. Where they end, sandboxes are made elsewhere.
fn allow_many_descriptors() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}
