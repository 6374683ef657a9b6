//! A socket that is handed on, and so outlives the sandbox and the network that it was made in.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jail::{Control, Network};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType,
};

use crate::Try;
use crate::case::{Attempt, Case, Teeth};
use crate::launch::{Run, Site};
use crate::payload::{Payload, argument, held, through};

pub(crate) const PAYLOADS: &[Payload] = &[("hand-over", hand_over), ("hold-on", hold_on), ("speak", speak)];

/// A port that nobody has by chance.
const PORT: u16 = 47_435;

/// How many speak afterwards: more than sandboxes wait, so that one has the network in question if anybody is lent it again.
const SPEAKERS: usize = 12;

/// After this nobody waits any longer.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        teeth: Teeth::Bare,
        ..Case::new(
            "socket-handed-on",
            "a socket that outlives its sandbox hears nothing of another one's network",
            &[Control::Network],
            hand_on,
        )
    }]
}

/// The first hands a socket that was never used to the second, and ends; then others speak to themselves.
fn hand_on(site: &Site<'_>) -> Try<Attempt> {
    let folder = site.place.open_folder("shared")?;
    let run = |name: &'static str| Run {
        network: Network::Loopback,
        write: vec![folder.clone()],
        ..Run::payload(name, [&folder])
    };
    thread::scope(|scope| {
        // Sockets that are there when a sandbox begins are covered, so the one who looks for it has to be there first.
        let first = scope.spawn(|| site.run(run("hand-over")));
        wait_for(&folder.join("first"))?;
        let second = scope.spawn(|| site.run(run("hold-on")));
        first.join().map_err(|_| "the first panicked")??.told()?;
        wait_for(&folder.join("held"))?;
        let mut spoke = Ok(());
        for _ in 0..SPEAKERS {
            spoke = spoke.and(site.run(run("speak")).and_then(|ran| ran.told()).map(drop));
        }
        fs::write(folder.join("over"), "")?;
        let second = second.join().map_err(|_| "the second panicked")??;
        spoke?;
        second.judged(|ran| ran.told())
    })
}

fn wait_for(file: &Path) -> Try<()> {
    let began = Instant::now();
    while !file.exists() {
        if began.elapsed() > PATIENCE {
            return Err(format!("`{}` did not come", file.display()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn hand_over(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let hand = || -> Try<()> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        fs::write(folder.join("first"), "")?;
        wait_for(&folder.join("bound"))?;
        let line = UnixStream::connect(folder.join("post"))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [socket.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(&line, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty())?;
        Ok(())
    };
    match hand() {
        Ok(()) => held("handed over"),
        Err(error) => crate::payload::say(&format!("cannot hand over: {error}")),
    }
}

fn hold_on(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    match take(folder).and_then(|socket| listen(folder, &socket)) {
        Ok(Some(heard)) => through(format!("heard `{heard}`")),
        Ok(None) => held("nobody was heard"),
        Err(error) => crate::payload::say(&format!("cannot hold on: {error}")),
    }
}

fn take(folder: &Path) -> Try<OwnedFd> {
    let post = UnixListener::bind(folder.join("post"))?;
    fs::write(folder.join("bound"), "")?;
    let (line, _) = post.accept()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(&line, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty())?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| "no descriptor came".into())
}

/// Listens in the network of whoever made the socket, until it is over.
fn listen(folder: &Path, socket: &OwnedFd) -> Try<Option<String>> {
    fs::write(folder.join("held"), "")?;
    // Only now, when the first has ended and its network was looked at.
    thread::sleep(Duration::from_millis(300));
    rustix::net::bind(socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT))?;
    fs::write(folder.join("listening"), "")?;
    let mut heard = [0; 64];
    let began = Instant::now();
    while began.elapsed() < PATIENCE * 2 {
        match rustix::net::recv(socket, &mut heard, RecvFlags::DONTWAIT) {
            Ok((_, length)) => {
                return Ok(Some(
                    String::from_utf8_lossy(heard.get(..length).unwrap_or_default()).into_owned(),
                ));
            }
            Err(rustix::io::Errno::AGAIN) if folder.join("over").exists() => return Ok(None),
            Err(rustix::io::Errno::AGAIN) => thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.into()),
        }
    }
    Err("it was never over".into())
}

fn speak(arguments: &[String]) {
    let speak = || -> Try<()> {
        wait_for(&Path::new(argument(arguments, 0)).join("listening"))?;
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let oneself = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
        rustix::net::sendto(&socket, b"what is said here", SendFlags::empty(), &oneself)?;
        Ok(())
    };
    match speak() {
        Ok(()) => held("spoken"),
        Err(error) => crate::payload::say(&format!("cannot speak: {error}")),
    }
}
