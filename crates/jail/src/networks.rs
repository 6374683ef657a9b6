//! Network namespaces that wait for the next sandbox: to make one and to take it down is the dearest part of a run.
//!
//! A sandbox of these has no power over its network, because the namespace belongs to the zygote: it cannot make an address,
//! a route or a rule, nor change a setting. What is left to it is to use the network, and the kernel counts that.
//!
//! # Invariants
//! - A namespace is given to another sandbox only when every process of the one before has ended, and when everything that
//!   the kernel tells of it is, byte by byte, what it told when it was new: nobody has sent a byte in it.
//! - What cannot be read, or differs, is not used again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::sys;

/// What the kernel tells of a network: packets of its device, and what every protocol has counted; sockets with a name, of
/// which one may outlive its process for a moment; and labels, which outlive their socket. The last two only if there is IPv6.
/// The sockets are read only if there is any ([`SOCKETS`]).
///
/// ATTACK(used-twice): whatever one sandbox leaves here, the next could read.
const TOLD: [&str; 6] = ["dev", "snmp", "netstat", "unix", "snmp6", "ip6_flowlabel"];

/// Which of those lists sockets.
const LIST_OF_SOCKETS: &str = "unix";

/// Where the kernel tells how many sockets of all kinds there are in a network. To list them it goes through a large table.
const SOCKETS: &str = "sockstat";

/// What it begins with where there is none.
const NO_SOCKETS: &[u8] = b"sockets: used 0\n";

/// How many of those are there without IPv6.
const ALWAYS_TOLD: usize = 4;

/// As much as one of them is long, and more.
const LONGEST: usize = 32 * 1024;

/// How many wait unused at most.
const MOST_FREE: usize = 64;

/// The networks that the zygote has made.
#[derive(Default)]
pub(crate) struct Networks {
    free: Vec<Network>,
    lent: Vec<(u64, Network)>,
    next: u64,
    buffer: Vec<u8>,
}

/// A network namespace with loopback, and what was told of it when it was new.
pub(crate) struct Network {
    namespace: OwnedFd,
    sockets: File,
    told: Vec<Told>,
}

/// One of [`TOLD`].
struct Told {
    name: &'static str,
    file: File,
    before: Vec<u8>,
}

impl Networks {
    /// Moves this process into a network that nobody uses or has used, and lends it to whom this process clones next.
    pub(crate) fn lend(&mut self) -> io::Result<u64> {
        let network = match self.free.pop() {
            Some(network) => {
                move_into_link_name_space(network.namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                network
            }
            None => Network::new(&mut self.buffer)?,
        };
        self.next += 1;
        self.lent.push((self.next, network));
        Ok(self.next)
    }

    /// Everybody to whom it was lent has ended. It is kept if they have left nothing.
    pub(crate) fn take_back(&mut self, number: u64) {
        if let Some(network) = self.give_up(number)
            && self.free.len() < MOST_FREE
            && network.is_as_new(&mut self.buffer)
        {
            self.free.push(network);
        }
    }

    /// Nobody knows whether all to whom it was lent have ended.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<Network> {
        let place = self.lent.iter().position(|(lent, _)| *lent == number)?;
        Some(self.lent.swap_remove(place).1)
    }
}

impl Network {
    /// Makes one, and moves this process into it.
    fn new(buffer: &mut Vec<u8>) -> io::Result<Network> {
        sys::enter_new_namespaces(UnshareFlags::NEWNET)?;
        raise_loopback()?;
        let namespace = File::open("/proc/self/ns/net")?.into();
        let sockets = File::open(format!("/proc/self/net/{SOCKETS}"))?;
        let mut told = Vec::with_capacity(TOLD.len());
        for (index, name) in TOLD.into_iter().enumerate() {
            match File::open(format!("/proc/self/net/{name}")) {
                Ok(file) => {
                    read_whole(&file, buffer)?;
                    told.push(Told { name, file, before: buffer.clone() });
                }
                Err(error) if index >= ALWAYS_TOLD && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Network { namespace, sockets, told })
    }

    /// The kernel gives the beginning of a list at once. If that is what the whole was before, there is no more of it: what
    /// is longer begins otherwise.
    fn is_as_new(&self, buffer: &mut Vec<u8>) -> bool {
        buffer.resize(LONGEST, 0);
        let length = self.sockets.read_at(buffer, 0).unwrap_or_default();
        let has_sockets = !buffer.get(..length).unwrap_or_default().starts_with(NO_SOCKETS);
        self.told.iter().filter(|told| has_sockets || told.name != LIST_OF_SOCKETS).all(|told| {
            let said = told.file.read_at(buffer, 0).ok().and_then(|length| buffer.get(..length));
            said == Some(told.before.as_slice())
        })
    }
}

/// So that programs in this network can talk to themselves.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sys::raise_loopback(&socket)
}

/// Everything that a file of the kernel says now.
fn read_whole(file: &File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(LONGEST, 0);
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, length as u64)? {
            0 => {
                buffer.truncate(length);
                return Ok(());
            }
            got => length += got,
        }
    }
    // Longer than it can be: somebody has made much of it.
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_whole_and_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        std::fs::write(&path, "lo 0").unwrap();
        let file = File::open(&path).unwrap();
        let sockets = folder.path().join("sockets");
        std::fs::write(&sockets, NO_SOCKETS).unwrap();
        let of = |name: &'static str, before: &str| Network {
            namespace: File::open("/dev/null").unwrap().into(),
            sockets: File::open(&sockets).unwrap(),
            told: vec![Told { name, file: file.try_clone().unwrap(), before: before.as_bytes().to_vec() }],
        };
        let network = |before: &str| of("dev", before);
        let mut buffer = Vec::new();
        assert!(network("lo 0").is_as_new(&mut buffer));
        std::fs::write(&path, "lo 1").unwrap();
        assert!(!network("lo 0").is_as_new(&mut buffer));
        std::fs::write(&path, "lo 0 and more").unwrap();
        assert!(!network("lo 0").is_as_new(&mut buffer), "what it begins with is not all");
        assert!(of(LIST_OF_SOCKETS, "").is_as_new(&mut buffer), "where there is no socket none is listed");
        for there in ["sockets: used 1\n", "sockets: used 0", "sockets: used 05\n", ""] {
            std::fs::write(&sockets, there).unwrap();
            assert!(!of(LIST_OF_SOCKETS, "").is_as_new(&mut buffer), "there may be one: {there}");
        }
        std::fs::write(&path, "x".repeat(LONGEST)).unwrap();
        assert!(read_whole(&file, &mut buffer).is_err(), "what is too long is not known");
    }
}
