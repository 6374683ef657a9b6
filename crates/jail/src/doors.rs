//! The ways out of a guarded network: sockets that listen inside the sandbox, and are held by whoever guards it.
//!
//! The sandbox's network namespace has loopback and nothing else, and every address is on it. So whatever a program
//! connects to is one of these sockets, or is refused by the kernel at once. It takes no firewall, no forwarder and no
//! root; who may be reached is not known here.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::vec;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, recv, send,
    socket_with, sockopt,
};
use rustix::process::fchdir;

use crate::entry::{Kind, open_beneath};
use crate::mounts::{Use, attach_at, copy_of, restrict, write_file};
use crate::plan::{Guarded, LocalDoor};

/// Where programs that know proxies find one that speaks HTTP.
const HTTP_PROXY_PORT: u16 = 3128;
/// Where they find one that speaks SOCKS 5.
const SOCKS_PORT: u16 = 1080;
const DNS_PORT: u16 = 53;
/// Ports with a door of their own on 127.0.0.1.
const SERVICES: [u16; 3] = [DNS_PORT, HTTP_PROXY_PORT, SOCKS_PORT];

/// How many connections wait to be taken.
const BACKLOG: i32 = 1024;
/// The largest list of certificates that is added to.
const MOST_CERTIFICATES: usize = 4 * 1024 * 1024;

/// What the host's programs trust, wherever it has it.
const BUNDLES: [&str; 3] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "etc/ca-certificates/extracted/tls-ca-bundle.pem",
];
/// The same and the plan's own authority, for programs that are told by a variable.
pub const CERTIFICATES: &str = "/etc/toolgate-ca.crt";

/// Where programs find the guard's unix socket, if their plan has one.
pub const LOCAL_DOOR: &str = "/run/toolgate.sock";

/// Sockets that listen inside a sandbox. A program's connection waits until somebody takes it; once they are closed, every
/// connection is refused.
#[derive(Debug)]
pub struct Doors {
    /// Questions about names, at 127.0.0.1.
    pub dns_udp: OwnedFd,
    /// The same over TCP.
    pub dns_tcp: OwnedFd,
    /// For programs that know proxies: HTTP, at 127.0.0.1.
    pub http_proxy: OwnedFd,
    /// The same for SOCKS 5.
    pub socks: OwnedFd,
    /// Each port of the plan, at every address.
    pub tcp: Vec<(u16, OwnedFd)>,
    /// A unix socket at [`LOCAL_DOOR`], if the plan has one.
    pub local: Option<OwnedFd>,
}

impl Doors {
    /// From descriptors in the order of [`Doors::descriptors`].
    pub(crate) fn from_descriptors(ports: &[u16], descriptors: Vec<OwnedFd>) -> Option<Doors> {
        let mut descriptors: vec::IntoIter<OwnedFd> = descriptors.into_iter();
        let mut next = || descriptors.next();
        let (dns_udp, dns_tcp, http_proxy, socks) = (next()?, next()?, next()?, next()?);
        let tcp = ports.iter().map(|port| Some((*port, next()?))).collect::<Option<_>>()?;
        Some(Doors { dns_udp, dns_tcp, http_proxy, socks, tcp, local: next() })
    }

    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let services = [&self.dns_udp, &self.dns_tcp, &self.http_proxy, &self.socks];
        let ports = self.tcp.iter().map(|(_, door)| door);
        services.into_iter().chain(ports).chain(&self.local).map(AsFd::as_fd).collect()
    }

    /// The same doors, for somebody who serves them for a while.
    pub fn try_clone(&self) -> io::Result<Doors> {
        let again = |door: &OwnedFd| door.try_clone();
        Ok(Doors {
            dns_udp: again(&self.dns_udp)?,
            dns_tcp: again(&self.dns_tcp)?,
            http_proxy: again(&self.http_proxy)?,
            socks: again(&self.socks)?,
            tcp: self.tcp.iter().map(|(port, door)| Ok((*port, again(door)?))).collect::<io::Result<_>>()?,
            local: self.local.as_ref().map(again).transpose()?,
        })
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.tcp.iter().map(|(port, _)| *port).collect()
    }

    /// Makes them in this network namespace, which must be one of its own, and in the root that is being built.
    pub(crate) fn make(guarded: &Guarded, root: Option<&OwnedFd>) -> io::Result<Doors> {
        lead_everything_here()?;
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let dns_udp = socket(AddressFamily::INET, SocketType::DGRAM)?;
        bind(&dns_udp, &here(DNS_PORT))?;
        let ports = guarded.ports.iter();
        let tcp = ports.map(|port| Ok((*port, everywhere(*port)?))).collect::<io::Result<_>>()?;
        let local = match (guarded.local, root) {
            (LocalDoor::Absent, _) => None,
            (LocalDoor::Open, Some(root)) => Some(listening_locally(root)?),
            (LocalDoor::Open, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Doors {
            dns_udp,
            dns_tcp: listening(here(DNS_PORT))?,
            http_proxy: listening(here(HTTP_PROXY_PORT))?,
            socks: listening(here(SOCKS_PORT))?,
            tcp,
            local,
        })
    }
}

/// Tells programs whom to ask for names, and whom to trust.
pub(crate) fn tell_programs(root: &OwnedFd, guarded: &Guarded) -> io::Result<()> {
    write_file(root, Path::new("etc/resolv.conf"), b"nameserver 127.0.0.1\noptions attempts:1\n")?;
    let Some(authority) = &guarded.authority else { return Ok(()) };
    let found = BUNDLES.iter().find_map(|path| Some((path, read_bundle(root, path).ok()?)));
    let (place, mut bundle) = found.map_or((None, Vec::new()), |(path, bundle)| (Some(path), bundle));
    bundle.extend_from_slice(b"\n");
    bundle.extend_from_slice(authority.as_bytes());
    write_file(root, Path::new(CERTIFICATES), &bundle)?;
    let Some(place) = place else { return Ok(()) };
    let copy = copy_of(root, Path::new(CERTIFICATES.trim_start_matches('/')))?;
    restrict(&copy, Use::ReadOnly)?;
    Ok(attach_at(&copy, root, Path::new(place), Kind::File)?)
}

fn read_bundle(root: &OwnedFd, path: &str) -> io::Result<Vec<u8>> {
    let file = open_beneath(root, Path::new(path), OFlags::RDONLY)?;
    let mut bundle = Vec::new();
    io::Read::read_to_end(
        &mut io::Read::take(std::fs::File::from(file), MOST_CERTIFICATES as u64),
        &mut bundle,
    )?;
    if bundle.len() < MOST_CERTIFICATES { Ok(bundle) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn listening(at: SocketAddr) -> io::Result<OwnedFd> {
    let door = socket(AddressFamily::INET, SocketType::STREAM)?;
    listen_at(door, at)
}

/// One at a path of the root being built. Programs may connect to it, and can neither remove nor replace it.
fn listening_locally(root: &OwnedFd) -> io::Result<OwnedFd> {
    let door = socket(AddressFamily::UNIX, SocketType::STREAM)?;
    // A path of a socket is looked up from where the process is; it is led elsewhere before anything starts.
    fchdir(root)?;
    bind(&door, &SocketAddrUnix::new(LOCAL_DOOR.trim_start_matches('/'))?)?;
    listen(&door, BACKLOG)?;
    Ok(door)
}

/// One that takes connections to this port of any address, of both kinds where the host has both.
fn everywhere(port: u16) -> io::Result<OwnedFd> {
    let both = socket(AddressFamily::INET6, SocketType::STREAM).map_err(io::Error::from).and_then(|door| {
        sockopt::set_ipv6_v6only(&door, false)?;
        listen_at(door, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
    });
    both.or_else(|_| {
        let door = socket(AddressFamily::INET, SocketType::STREAM)?;
        listen_at(door, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
    })
}

fn listen_at(door: OwnedFd, at: SocketAddr) -> io::Result<OwnedFd> {
    if SERVICES.contains(&at.port()) {
        // A plan may name a port that has a door already; the kernel takes the one with the address.
        sockopt::set_socket_reuseport(&door, true)?;
    }
    bind(&door, &at)?;
    listen(&door, BACKLOG)?;
    Ok(door)
}

/// Makes every address one of this namespace's own.
fn lead_everything_here() -> io::Result<()> {
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    route_to_loopback(&netlink, AddressFamily::INET)?;
    // Where there is no IPv6, or none on loopback, no such address can be reached at all.
    let _ = route_to_loopback(&netlink, AddressFamily::INET6);
    // An older kernel has no such pieces, and is only slower.
    let _ = widen_loopback(&netlink);
    Ok(())
}

/// The same for a network namespace of a test's own that this process is in.
#[cfg(feature = "weaken")]
pub fn lead_everything_to_loopback() -> io::Result<()> {
    crate::sys::raise_loopback(&socket(AddressFamily::INET, SocketType::DGRAM)?)?;
    lead_everything_here()
}

/// A request that wants to be answered, and one that makes something as well.
const ASK: u16 = 0x1 | 0x4;
const MAKE: u16 = ASK | 0x400;
/// Loopback is the first of every namespace.
const LOOPBACK: u32 = 1;

/// `ip route add local default dev lo`.
fn route_to_loopback(netlink: &OwnedFd, family: AddressFamily) -> io::Result<()> {
    const NEW_ROUTE: u16 = 24;
    const TABLE_LOCAL: u8 = 255;
    const BY_BOOT: u8 = 3;
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    const OUT_INTERFACE: u16 = 4;

    let family = u8::try_from(family.as_raw()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut route = vec![family, 0, 0, 0, TABLE_LOCAL, BY_BOOT, SCOPE_HOST, LOCAL, 0, 0, 0, 0];
    route.extend(attribute(OUT_INTERFACE, LOOPBACK));
    order(netlink, NEW_ROUTE, MAKE, &route)
}

/// Lets loopback take pieces of half a megabyte instead of 64 KiB: a download then costs the gate half as much.
fn widen_loopback(netlink: &OwnedFd) -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const LARGEST: u32 = 500_000;
    /// The largest piece that is sent and that is put together, of each kind of address.
    const SIZES: [u16; 4] = [41, 58, 63, 64];

    let mut link = vec![0; 4];
    link.extend(LOOPBACK.to_ne_bytes());
    link.extend([0; 8]);
    link.extend(SIZES.iter().flat_map(|size| attribute(*size, LARGEST)));
    order(netlink, NEW_LINK, ASK, &link)
}

fn attribute(name: u16, value: u32) -> [u8; 8] {
    let mut attribute = [0; 8];
    let (head, rest) = attribute.split_at_mut(4);
    head.copy_from_slice(&[8_u16.to_ne_bytes(), name.to_ne_bytes()].concat());
    rest.copy_from_slice(&value.to_ne_bytes());
    attribute
}

/// Has the kernel do something about the network, and waits for its answer.
fn order(netlink: &OwnedFd, what: u16, flags: u16, about: &[u8]) -> io::Result<()> {
    let length = u32::try_from(16 + about.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(what.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(about);
    send(netlink, &message, SendFlags::empty())?;

    let mut answer = [0_u8; 256];
    let (_, length) = recv(netlink, answer.as_mut_slice(), RecvFlags::empty())?;
    // A header, and the negated number of an error.
    let number = answer.get(..length).and_then(|answer| answer.get(16..)).and_then(<[u8]>::first_chunk);
    match number.map(|number| i32::from_ne_bytes(*number)) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
