//! A host of the world that is reached by ssh: a real `sshd`, one process for each connection.
//!
//! It is started by whoever takes the connection, so that it needs no port of its own and no user but the caller. Which user it
//! lets in is said by a list of users of its own, in a mount namespace of its own.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use rustix::process::{getgid, getuid};

use crate::bench::find_program;
use crate::launch::command_of;

/// The address of `other.test`, which has a key of its own.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 35));

/// Tells what was asked, and does what git asks.
const SERVE: &str =
    "echo \"$SSH_ORIGINAL_COMMAND\" >> served.log\nexec git shell -c \"$SSH_ORIGINAL_COMMAND\"\n";

/// Root lets go of more before it lets anybody in, and wants an empty folder for that.
const AS_ROOT: &str = "mount -t tmpfs none /run && mkdir /run/sshd && ";
const START: &str = "exec /usr/sbin/sshd -i -e -f \"$1/$2\" 2>>\"$1/sshd.log\"";

/// Serves the repositories in the folder, at every address and this port. Whoever has the key in `authorized` is let in as
/// `git`; the host proves itself with the key in `host`, and `other.test` with the one in `other`.
pub(crate) fn serve_ssh(folder: &Path) -> io::Result<u16> {
    let folder = folder.to_owned();
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let root = if uid == 0 { "" } else { "root:x:0:0::/:/bin/sh\n" };
    let users = format!(
        "git:x:{uid}:{gid}::{}:/bin/sh\n{root}sshd:x:64:65534::/nonexistent:/usr/sbin/nologin\n",
        folder.display()
    );
    fs::write(folder.join("passwd"), users)?;
    fs::write(folder.join("serve"), SERVE)?;
    for key in ["host", "other"] {
        let config = format!(
            "HostKey {0}/{key}\nAuthorizedKeysFile {0}/authorized\nForceCommand sh {0}/serve\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPidFile none\n",
            folder.display()
        );
        fs::write(folder.join(format!("config-{key}")), config)?;
    }
    #[expect(clippy::disallowed_methods, reason = "a server of the suite's own, in its own namespace")]
    let listener = TcpListener::bind(SocketAddr::from(([0_u16; 8], 0)))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || let_in(stream, &folder));
        }
    });
    Ok(port)
}

fn let_in(stream: TcpStream, folder: &Path) -> io::Result<()> {
    let is_other = stream.local_addr()?.ip().to_canonical() == OTHER;
    let config = if is_other { "config-other" } else { "config-host" };
    let is_root = getuid().is_root();
    let script =
        format!("mount --bind \"$1/passwd\" /etc/passwd && {}{START}", if is_root { AS_ROOT } else { "" });
    let namespaces: &[&str] =
        if is_root { &["--mount"] } else { &["--mount", "--user", "--map-current-user", "--keep-caps"] };
    let mut arguments: Vec<OsString> = namespaces.iter().map(OsString::from).collect();
    arguments.extend(["sh", "-c", &script, "sh"].map(OsString::from));
    arguments.extend([folder.into(), config.into()]);
    let unshare = find_program("unshare").unwrap_or_else(|| PathBuf::from("unshare"));
    let answers = stream.try_clone()?;
    let mut server = command_of(&unshare, &arguments)
        .env_clear()
        .env("PATH", jail::DEFAULT_PATH)
        .current_dir(folder)
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::from(OwnedFd::from(answers)))
        .stderr(Stdio::null())
        .spawn()?;
    server.wait().map(drop)
}
