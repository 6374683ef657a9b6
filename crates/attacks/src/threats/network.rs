//! Sockets that lead out: TCP, UDP, abstract, by every way the kernel has.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use jail::{Control, Network};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Teeth};
use crate::launch::{Ran, Run, Site};
use crate::payload::{Payload, argument, held, tell, through};
use crate::place::token;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("connect", connect),
    ("connect-mptcp", connect_mptcp),
    ("connect-fast", connect_fast),
    ("datagram", datagram),
    ("send-to", send_to),
    ("listen", listen),
    ("every-port", every_port),
    ("abstract", connect_abstract),
    ("route", route),
];

const WAIT: Duration = Duration::from_millis(700);

pub(crate) fn cases() -> Vec<Case> {
    // Ways to connect that Landlock does not see: the filter closes them, so that the second wall is whole.
    let detour = |promise, payload: &'static str| Case {
        needs: vec![Need::Landlock(4)],
        ..Case::new("landlock-tcp-detours", promise, &[Control::Network, Control::Seccomp], move |site| {
            reach_listener(site, payload, Network::Closed, V4)
        })
    };
    vec![
        Case::new("host-listener", "a listener of the host cannot be reached", &[Control::Network], |site| {
            reach_listener(site, "connect", Network::Loopback, V4)
        }),
        Case::new(
            "host-listener-ipv6",
            "a listener of the host cannot be reached over ipv6",
            &[Control::Network],
            |site| reach_listener(site, "connect", Network::Loopback, V6),
        ),
        Case {
            needs: vec![Need::Landlock(4)],
            ..Case::new(
                "host-listener-twice",
                "tcp is held by two walls",
                &[Control::Network, Control::LandlockTcp],
                |site| reach_listener(site, "connect", Network::Closed, V4),
            )
        },
        detour("multipath tcp is no way around the second wall", "connect-mptcp"),
        detour("a fast open is no way around the second wall", "connect-fast"),
        Case::new("host-datagram", "a datagram does not reach the host", &[Control::Network], send_datagram),
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "every-loopback-port",
                "every port of the host on loopback is closed",
                &[Control::Network],
                scan_every_port,
            )
        },
        Case {
            needs: vec![Need::Landlock(4)],
            ..Case::new(
                "own-loopback",
                "a plan without loopback cannot listen on it",
                &[Control::LandlockTcp],
                listen_inside,
            )
        },
        Case {
            needs: vec![Need::Landlock(6)],
            ..Case::new(
                "abstract-socket",
                "an abstract socket of the host cannot be reached",
                &[Control::Network, Control::LandlockScopes],
                reach_abstract,
            )
        },
        Case {
            needs: vec![Need::Route],
            ..Case::new(
                "metadata-address",
                "no address outside has a route and the metadata address has none",
                &[Control::Network],
                find_route,
            )
        },
    ]
}

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// A listener of the host that notes whether anybody came.
pub(crate) struct Canary(TcpListener);

impl Canary {
    #[expect(clippy::disallowed_methods, reason = "a listener on loopback that an attack must not reach")]
    pub(crate) fn new(address: &str) -> Try<Canary> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Canary(listener))
    }

    pub(crate) fn address(&self) -> Try<String> {
        Ok(self.0.local_addr()?.to_string())
    }

    pub(crate) fn was_reached(&self) -> bool {
        self.0.accept().is_ok()
    }
}

fn reach_listener(site: &Site<'_>, payload: &'static str, network: Network, at: &str) -> Try<Attempt> {
    let canary = Canary::new(at)?;
    let ran = site.run(Run { network, ..Run::payload(payload, [canary.address()?]) })?;
    ran.judged(|ran| ran.seen(canary.was_reached(), "the host's listener was reached"))
}

#[expect(clippy::disallowed_methods, reason = "a socket on loopback that an attack must not reach")]
fn send_datagram(site: &Site<'_>) -> Try<Attempt> {
    let socket = UdpSocket::bind(V4)?;
    socket.set_nonblocking(true)?;
    let ran = site.run(Run::payload("datagram", [socket.local_addr()?.to_string()]))?;
    let received = socket.recv(&mut [0; 16]).is_ok();
    ran.judged(|ran| ran.seen(received, "the host received a datagram"))
}

fn scan_every_port(site: &Site<'_>) -> Try<Attempt> {
    let canary = Canary::new(V4)?;
    let ran =
        site.run(Run { network: Network::Loopback, ..Run::payload("every-port", [canary.address()?]) })?;
    ran.judged(Ran::told)
}

fn listen_inside(site: &Site<'_>) -> Try<Attempt> {
    let ran = site.run(Run::payload("listen", [V4]))?;
    ran.judged(Ran::told)
}

fn reach_abstract(site: &Site<'_>) -> Try<Attempt> {
    let name = token();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
    let listener = UnixListener::bind_addr(&address)?;
    listener.set_nonblocking(true)?;
    let ran = site.run(Run::payload("abstract", [name]))?;
    ran.judged(|ran| ran.seen(listener.accept().is_ok(), "the host's abstract socket was reached"))
}

fn find_route(site: &Site<'_>) -> Try<Attempt> {
    let addresses = ["169.254.169.254:80", "10.0.0.1:443", "1.1.1.1:443", "[2606:4700:4700::1111]:443"];
    let ran = site.run(Run { network: Network::Loopback, ..Run::payload("route", addresses) })?;
    ran.judged(Ran::told)
}

fn address_of(arguments: &[String]) -> SocketAddr {
    argument(arguments, 0).parse().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 9)))
}

fn connect(arguments: &[String]) {
    let connected = TcpStream::connect_timeout(&address_of(arguments), WAIT);
    tell("connect", connected.and_then(|mut stream| stream.write_all(b"x")));
}

fn connect_mptcp(arguments: &[String]) {
    let attempt = || -> rustix::io::Result<()> {
        let protocol = std::num::NonZeroU32::new(262).map(Protocol::from_raw);
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, protocol)?;
        rustix::net::connect(&socket, &address_of(arguments))
    };
    tell("connect by multipath TCP", attempt());
}

fn connect_fast(arguments: &[String]) {
    const FAST_OPEN: u32 = 0x2000_0000;
    let attempt = || -> rustix::io::Result<usize> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let flags = SendFlags::from_bits_retain(FAST_OPEN);
        rustix::net::sendto(&socket, b"x", flags, &address_of(arguments))
    };
    tell("connect by sending", attempt());
}

#[expect(clippy::disallowed_methods, reason = "the attempt is the point: it must not get through")]
fn datagram(arguments: &[String]) {
    let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", address_of(arguments)));
    tell("send a datagram", sent);
}

#[expect(clippy::disallowed_methods, reason = "the attempt is the point: it must not get through")]
fn listen(arguments: &[String]) {
    tell("listen on loopback", TcpListener::bind(argument(arguments, 0)));
}

/// Sends the last word to each of the addresses before it.
fn send_to(arguments: &[String]) {
    let Some((word, addresses)) = arguments.split_last() else { return };
    for address in addresses {
        let sent = address.parse().map_err(std::io::Error::other).and_then(|at: SocketAddr| {
            let mut stream = TcpStream::connect_timeout(&at, WAIT)?;
            stream.write_all(format!("GET /{word} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
            stream.read(&mut [0; 100])
        });
        tell(&format!("send to {address}"), sent);
    }
}

/// Tries the port it was told, then all of them.
fn every_port(arguments: &[String]) {
    let told = address_of(arguments).port();
    let is_open = |port: &u16| {
        let connected = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], *port)), WAIT);
        // A socket may by chance have connected to itself: both of its ends are then the same.
        connected.is_ok_and(|stream| stream.local_addr().ok() != stream.peer_addr().ok())
    };
    match std::iter::once(told).chain(1..=u16::MAX).find(is_open) {
        Some(port) => through(format!("port {port} is open")),
        None => held("every port is closed"),
    }
}

fn connect_abstract(arguments: &[String]) {
    let attempt = std::os::unix::net::SocketAddr::from_abstract_name(argument(arguments, 0))
        .and_then(|address| UnixStream::connect_addr(&address))
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_millis(1)))?;
            let _ = stream.read(&mut [0]);
            Ok(())
        });
    tell("connect to an abstract socket", attempt);
}

/// Asks the kernel for a way to each address. Nothing is sent.
#[expect(clippy::disallowed_methods, reason = "the attempt is the point: it must not get through")]
fn route(arguments: &[String]) {
    for address in arguments {
        let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        tell(&format!("find a way to {address}"), UdpSocket::bind(any).and_then(|s| s.connect(address)));
    }
}
