//! Who the sandbox is, on the host and to itself.
//!
//! Root never runs a tool as host root: the sandbox gets a host id from a range of its own, and owners in granted
//! directories are translated. An ordinary user's sandbox keeps that user's one id.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{
    Pid, Signal, getegid, geteuid, getppid, pidfd_send_signal, set_parent_process_death_signal,
};

use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use crate::sys::{self, Cloned, NEW_USER};

/// First of the 65,536 host ids for sandboxes that root starts: above what distributions and containers use.
const FIRST_HOST_ID: u32 = 1_952_907_264;
const HOST_IDS: u32 = 65_536;

/// Who a tool believes to be when root started it: somebody, but not root.
const ORDINARY: u32 = 1000;

/// Who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// Root of this user namespace: may map any id, and may translate owners where the kernel lets it.
    Root,
    /// Anyone else: one id, their own.
    User,
}

impl Caller {
    /// Who this process is.
    pub fn current() -> Caller {
        if geteuid().is_root() { Caller::Root } else { Caller::User }
    }
}

/// The one id inside and the one host id behind it, for users and for groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) caller: Caller,
    pub(crate) inside_uid: u32,
    pub(crate) inside_gid: u32,
    host_uid: u32,
    host_gid: u32,
}

impl Identity {
    /// The identity of a sandbox about to be made. `unguarded` keeps host root, to show that this matters.
    pub(crate) fn choose(unguarded: bool) -> Identity {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        match Caller::current() {
            Caller::User => Identity {
                caller: Caller::User,
                inside_uid: uid,
                inside_gid: gid,
                host_uid: uid,
                host_gid: gid,
            },
            Caller::Root => {
                let host = if unguarded { 0 } else { host_id_for_root() };
                Identity {
                    caller: Caller::Root,
                    inside_uid: ORDINARY,
                    inside_gid: ORDINARY,
                    host_uid: host,
                    host_gid: host,
                }
            }
        }
    }

    /// How the identity is held, for the report.
    pub(crate) fn describe(&self) -> String {
        match self.caller {
            Caller::Root => format!("host uid {} of a range of its own", self.host_uid),
            Caller::User => format!("the caller's uid {}, nothing else mapped", self.host_uid),
        }
    }

    /// Whether the sandbox would be host root.
    pub(crate) fn is_host_root(&self) -> bool {
        self.host_uid == 0
    }

    /// Writes the maps of a process that has just entered a new user namespace.
    pub(crate) fn write_maps(&self, pid: Pid) -> io::Result<()> {
        write_maps(
            pid,
            self.caller,
            &format!("{} {} 1", self.inside_uid, self.host_uid),
            &format!("{} {} 1", self.inside_gid, self.host_gid),
        )
    }

    /// Becomes root of a user namespace in which this process is who it was. Nobody but an ordinary user has to.
    pub(crate) fn be_root_of_a_namespace(&self) -> io::Result<()> {
        sys::enter_new_namespaces(UnshareFlags::NEWUSER)?;
        self.write_maps(rustix::process::getpid())
    }

    /// A user namespace that translates files of this owner and group to the sandbox's host id and back.
    pub(crate) fn translation_from(&self, owner: u32, group: u32) -> io::Result<OwnedFd> {
        let launcher = rustix::process::getpid();
        let (pid, pidfd) = match sys::clone_process(NEW_USER, None)? {
            Cloned::Child => wait_to_be_killed_by(launcher),
            Cloned::Parent { pid, pidfd } => (pid, pidfd),
        };
        let namespace = write_maps(
            pid,
            self.caller,
            &format!("{owner} {} 1", self.host_uid),
            &format!("{group} {} 1", self.host_gid),
        )
        .and_then(|()| open_in_processes(&format!("{}/ns/user", pid.as_raw_nonzero()), OFlags::RDONLY));
        // The namespace lives on by its descriptor; the process is of no further use.
        pidfd_send_signal(&pidfd, Signal::KILL)?;
        sys::wait_for(Some(pid))?;
        namespace.map(OwnedFd::from)
    }
}

/// The child of [`Identity::translation_from`]: only its namespace is wanted. It does not outlive its launcher.
fn wait_to_be_killed_by(launcher: Pid) -> ! {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    while bound.is_ok() && getppid() == Some(launcher) {
        let _ = rustix::event::poll(&mut [], None);
    }
    sys::exit_now(1)
}

/// The host's `/proc`, in a zygote that does not see it any more. An init has it closed, and has no use for it.
static PROCESSES: OnceLock<OwnedFd> = OnceLock::new();

/// Remembers it.
pub(crate) fn keep_processes(processes: OwnedFd) {
    let _ = PROCESSES.set(processes);
}

/// Opens something in the host's `/proc`.
pub(crate) fn open_in_processes(path: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    let opened = match PROCESSES.get() {
        Some(processes) => openat(processes, path, flags, Mode::empty()),
        None => openat(CWD, format!("/proc/{path}"), flags, Mode::empty()),
    };
    Ok(File::from(opened?))
}

fn write_maps(pid: Pid, caller: Caller, uids: &str, gids: &str) -> io::Result<()> {
    let write = |file: &str, text: &str| {
        let path = format!("{}/{file}", pid.as_raw_nonzero());
        open_in_processes(&path, OFlags::WRONLY)?.write_all(text.as_bytes())
    };
    if caller == Caller::User {
        // The kernel's condition for mapping one's own group without privilege.
        write("setgroups", "deny")?;
    }
    write("uid_map", uids)?;
    write("gid_map", gids)
}

/// A host id that is not root's, nor that of what another thread launches meanwhile. In a container only some ids exist:
/// then the highest of those.
fn host_id_for_root() -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let wanted = FIRST_HOST_ID + thread % HOST_IDS;
    // The map of a user namespace is written once.
    static RANGES: OnceLock<Vec<(u32, u32)>> = OnceLock::new();
    let ranges = RANGES.get_or_init(|| {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.lines().filter_map(range_of).collect()
    });
    if ranges.iter().any(|(first, last)| (*first..=*last).contains(&wanted)) {
        return wanted;
    }
    ranges.iter().map(|(_, last)| *last).max().unwrap_or(wanted)
}

/// First and last id inside, of one line of a map.
fn range_of(line: &str) -> Option<(u32, u32)> {
    let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().ok());
    let (first, _, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((first, first.checked_add(count.checked_sub(1)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_an_id_map_are_read() {
        assert_eq!(range_of("         0          0 4294967295"), Some((0, 4_294_967_294)));
        assert_eq!(range_of("1 100000 65536"), Some((1, 65_536)));
        assert_eq!(range_of("nonsense"), None);
    }
}
