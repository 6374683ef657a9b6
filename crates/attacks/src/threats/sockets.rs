//! Unix sockets of the host, which a read-only mount does not close.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use jail::Control;

use crate::Try;
use crate::case::{Attempt, Case};
use crate::launch::{Run, Site};
use crate::payload::{Payload, tell};

pub(crate) const PAYLOADS: &[Payload] = &[("connect-unix", connect_unix)];

/// From this version on Landlock closes sockets in read-only directories too.
const COVERS_SOCKETS: i32 = 9;

pub(crate) fn cases() -> Vec<Case> {
    let mut walls = vec![Control::HostSockets];
    if jail::landlock_version().is_some_and(|version| version >= COVERS_SOCKETS) {
        walls.push(Control::LandlockFiles);
    }
    let case = |id, promise: &str, access| Case::new(id, promise, &walls, move |site| reach(site, access));
    vec![
        case("docker-sock", "a socket in a directory granted for reading cannot be reached", Granted::Read),
        // Where one may write, one may make and reach sockets: only the cover holds.
        Case {
            walls: vec![Control::HostSockets],
            ..case(
                "socket-in-a-writable-directory",
                "a socket in a directory granted for writing cannot be reached or replaced",
                Granted::Write,
            )
        },
        case("socket-in-git", "a socket in a git directory cannot be reached", Granted::InGit),
        case("socket-by-a-link", "a socket cannot be reached through a link", Granted::ByLink),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Granted {
    Read,
    Write,
    ByLink,
    InGit,
}

fn reach(site: &Site<'_>, granted: Granted) -> Try<Attempt> {
    let folder = site.place.open_folder("granted")?;
    let deep = if granted == Granted::InGit { "granted/.git/deep" } else { "granted/deep" };
    let path = site.place.folder(deep)?.join("docker.sock");
    let listener = UnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    let target = match granted {
        Granted::ByLink => site.place.link("granted/innocent", "deep/docker.sock")?,
        _ => path.clone(),
    };
    let mut run = Run::payload("connect-unix", [&target, &PathBuf::from("/proc/self/cwd/deep/docker.sock")]);
    run.working_directory = folder.clone();
    match granted {
        Granted::Write => run.write = vec![folder],
        _ => run.read = vec![folder],
    }
    let ran = site.run(run)?;
    let reached = listener.accept().is_ok();
    let replaced = UnixStream::connect(&path).is_err();
    ran.judged(|ran| ran.seen(reached || replaced, "the host's socket was reached or replaced"))
}

fn connect_unix(arguments: &[String]) {
    for path in arguments {
        tell(&format!("connect to {path}"), UnixStream::connect(path));
        // A socket of one's own in its place would be worse than none.
        tell(&format!("replace {path}"), fs::remove_file(path).and_then(|()| UnixListener::bind(path)));
    }
}
