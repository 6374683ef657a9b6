//! Networks where every address is local, and sockets made in them.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

const OUTSIDE: &str = "--outside";
const SOCKETS: &str = "--make-sockets";
/// Brings up a network where every address is local, and goes on there.
const ALL_LOCAL: &str = "ip link set lo up && ip route add local default dev lo && \
    ip -6 route add local default dev lo && exec \"$@\"";

/// The arguments of the test run.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    std::env::args().filter(|argument| argument != OUTSIDE)
}

pub(crate) fn is_outside() -> bool {
    std::env::args().any(|argument| argument == OUTSIDE)
}

/// Runs the tests in a network of their own and ends with them. Comes back only with what is missing for that.
pub(crate) fn go_outside() -> Option<String> {
    let probe = Command::new("unshare").args(["-rn", "sh", "-c", ALL_LOCAL, "sh", "true"]).output();
    match probe {
        Ok(ran) if ran.status.success() => {}
        Ok(ran) => return Some(String::from_utf8_lossy(&ran.stderr).into_owned()),
        Err(error) => return Some(format!("unshare: {error}")),
    }
    let ran = Command::new("unshare")
        .args(["-rn", "sh", "-c", ALL_LOCAL, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(std::env::args().skip(1))
        .arg(OUTSIDE)
        .status()
        .unwrap();
    std::process::exit(ran.code().unwrap_or(1));
}

/// A network of a sandbox, by the process that makes sockets in it.
pub(crate) struct Sandbox {
    maker: Child,
    talk: Mutex<UnixStream>,
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let maker = Command::new("unshare")
            .args(["-n", "sh", "-c", ALL_LOCAL, "sh"])
            .arg(std::env::current_exe().unwrap())
            .arg(SOCKETS)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        Sandbox { maker, talk: Mutex::new(ours) }
    }

    pub(crate) fn listen(&self, at: &str) -> OwnedFd {
        self.ask(&format!("listen {at}")).unwrap()
    }

    pub(crate) fn bind_udp(&self, at: &str) -> OwnedFd {
        self.ask(&format!("udp {at}")).unwrap()
    }

    /// A connection from within, or the error's text.
    pub(crate) fn connect(&self, to: SocketAddr) -> Result<tokio::net::TcpStream, String> {
        let stream = TcpStream::from(self.ask(&format!("connect {to}"))?);
        stream.set_nonblocking(true).unwrap();
        Ok(tokio::net::TcpStream::from_std(stream).unwrap())
    }

    fn ask(&self, what: &str) -> Result<OwnedFd, String> {
        let mut talk = self.talk.lock().unwrap();
        writeln!(talk, "{what}").unwrap();
        let mut reply = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            talk.as_fd(),
            &mut [IoSliceMut::new(&mut reply)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
        .unwrap();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut received) = message {
                return Ok(received.next().unwrap());
            }
        }
        Err(String::from_utf8_lossy(&reply[..got.bytes]).into_owned())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.maker.kill();
        let _ = self.maker.wait();
    }
}

/// Serves a [`Sandbox`], if the process was started for that.
pub(crate) fn make_sockets_if_asked() {
    if !std::env::args().any(|argument| argument == SOCKETS) {
        return;
    }
    let mut talk = UnixStream::from(rustix::io::dup(std::io::stdin()).unwrap());
    let mut line = Vec::new();
    let mut byte = [0];
    while talk.read(&mut byte).is_ok_and(|count| count == 1) {
        if byte != *b"\n" {
            line.extend(byte);
            continue;
        }
        let made = make(std::str::from_utf8(&line).unwrap());
        line.clear();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let borrowed = made.as_ref().map(|made| [made.as_fd()]);
        let said = match &borrowed {
            Ok(descriptors) => {
                assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
                "made".to_owned()
            }
            Err(error) => error.to_string(),
        };
        rustix::net::sendmsg(&talk, &[IoSlice::new(said.as_bytes())], &mut ancillary, SendFlags::empty())
            .unwrap();
    }
    std::process::exit(0);
}

fn make(order: &str) -> std::io::Result<OwnedFd> {
    let (what, at) = order.split_once(' ').unwrap();
    match what {
        "listen" => TcpListener::bind(at).map(OwnedFd::from),
        "udp" => UdpSocket::bind(at).map(OwnedFd::from),
        "connect" => {
            let wait = std::time::Duration::from_secs(5);
            TcpStream::connect_timeout(&at.parse().unwrap(), wait).map(OwnedFd::from)
        }
        _ => panic!("{order}"),
    }
}
