//! Network namespaces that wait for the next sandbox: to make one and to take it down is the dearest part of a run.
//!
//! A sandbox of these has no power over its network, because the namespace belongs to the zygote: it cannot make an address,
//! a route or a rule, nor change a setting. What is left to it is to use the network, and the kernel counts that.
//!
//! # Invariants
//! - A namespace is given to another sandbox only when every process of the one before has ended, when it has no socket, and
//!   when everything that the kernel tells of it is, byte by byte, what it told when it was new: nobody has sent a byte in it.
//! - What cannot be read, or differs, is not used again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::identity::open_in_processes;
use crate::sys;

/// What the kernel tells of a network: packets of its device, and what every protocol has counted; and labels, which outlive
/// their socket. The last two only if there is IPv6.
///
/// ATTACK(used-twice): whatever one sandbox leaves here, the next could read.
const TOLD: [&str; 5] = ["dev", "snmp", "netstat", "snmp6", "ip6_flowlabel"];

/// How many of those are there without IPv6.
const ALWAYS_TOLD: usize = 3;

/// Where the kernel tells how many sockets of all kinds a network has, used or not, whoever holds them.
///
/// ATTACK(socket-handed-on): a process can hand a socket to one in another sandbox, and end.
const SOCKETS: &str = "sockstat";

/// What that begins with where there is none.
const NO_SOCKETS: &[u8] = b"sockets: used 0\n";

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
    told: Vec<(File, Vec<u8>)>,
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
        let namespace = open_in_processes("self/ns/net", OFlags::RDONLY)?.into();
        let sockets = open_in_processes(&format!("self/net/{SOCKETS}"), OFlags::RDONLY)?;
        let mut told = Vec::with_capacity(TOLD.len());
        for (index, name) in TOLD.iter().enumerate() {
            match open_in_processes(&format!("self/net/{name}"), OFlags::RDONLY) {
                Ok(file) => {
                    read_whole(&file, buffer)?;
                    told.push((file, buffer.clone()));
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
        let mut says = |file: &File, is_right: &dyn Fn(&[u8]) -> bool| {
            file.read_at(buffer, 0).ok().and_then(|length| buffer.get(..length)).is_some_and(is_right)
        };
        says(&self.sockets, &|said| said.starts_with(NO_SOCKETS))
            && self.told.iter().all(|(file, before)| says(file, &|said| said == before.as_slice()))
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
        let network = |before: &str| Network {
            namespace: File::open("/dev/null").unwrap().into(),
            sockets: File::open(&sockets).unwrap(),
            told: vec![(file.try_clone().unwrap(), before.as_bytes().to_vec())],
        };
        let mut buffer = Vec::new();
        assert!(network("lo 0").is_as_new(&mut buffer));
        for there in ["sockets: used 1\n", "sockets: used 05\n", "sockets: used 0", ""] {
            std::fs::write(&sockets, there).unwrap();
            assert!(!network("lo 0").is_as_new(&mut buffer), "there may be a socket: {there}");
        }
        std::fs::write(&sockets, NO_SOCKETS).unwrap();
        std::fs::write(&path, "lo 1").unwrap();
        assert!(!network("lo 0").is_as_new(&mut buffer));
        std::fs::write(&path, "lo 0 and more").unwrap();
        assert!(!network("lo 0").is_as_new(&mut buffer), "what it begins with is not all");
        std::fs::write(&path, "x".repeat(LONGEST)).unwrap();
        assert!(read_whole(&file, &mut buffer).is_err(), "what is too long is not known");
    }
}
