//! How others do it: bwrap without a network, socat inside it, a unix socket, and a plain HTTP proxy outside.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Result, ensure};

use super::Route;
use super::client::{CLIENT, Errand, Seen};
use crate::peers::Peers;

/// Where the forwarder listens inside.
const PORT: u16 = 3128;

pub(super) struct Forwarded<'a> {
    client: &'a Path,
    folder: PathBuf,
    port: u16,
}

impl<'a> Forwarded<'a> {
    /// Begins the proxy; nothing if bwrap or socat is not here.
    pub(super) fn begin(
        peers: &Peers,
        client: &'a Path,
        folder: &Path,
        port: u16,
    ) -> Result<Option<Forwarded<'a>>> {
        let has_socat = Command::new("socat").arg("-V").output().is_ok_and(|output| output.status.success());
        if peers.named("bwrap").is_none() || !has_socat {
            return Ok(None);
        }
        let folder = folder.join("proxy");
        std::fs::create_dir_all(&folder)?;
        let listener = UnixListener::bind(folder.join("socket"))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || relay(stream));
            }
        });
        Ok(Some(Forwarded { client, folder, port }))
    }
}

impl Route for Forwarded<'_> {
    fn name(&self) -> &str {
        "forwarder"
    }

    fn send(&self, errand: Errand) -> Result<Seen> {
        let words = errand.words(self.port, Some(PORT)).join(" ");
        // The client begins when the forwarder listens.
        let script = format!(
            "socat TCP-LISTEN:{PORT},fork,reuseaddr,nodelay UNIX-CONNECT:/proxy/socket & \
             until grep -q ':{PORT:04X} .* 0A ' /proc/net/tcp; do sleep 0.01; done; /client {CLIENT} {words}; \
             code=$?; kill $!; exit $code"
        );
        let mut bwrap = Command::new("bwrap");
        bwrap.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
        for name in ["bin", "sbin", "lib", "lib64"] {
            bwrap.args(["--symlink", &format!("usr/{name}"), &format!("/{name}")]);
        }
        bwrap.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
        bwrap.arg("--ro-bind").arg(self.client).arg("/client");
        bwrap.arg("--bind").arg(&self.folder).arg("/proxy");
        let output = bwrap.args(["/bin/sh", "-c", &script]).output()?;
        ensure!(output.status.success(), "the forwarder failed: {}", String::from_utf8_lossy(&output.stderr));
        Seen::read(&output.stdout)
    }
}

/// One request of CONNECT, and what follows it.
fn relay(client: UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let host = TcpStream::connect(head.split_whitespace().nth(1).unwrap_or_default())?;
    host.set_nodelay(true)?;
    (&client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut to_host, mut to_client, mut from_host) =
        (host.try_clone()?, client.try_clone()?, host.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_host, &mut to_client);
        to_client.shutdown(std::net::Shutdown::Write)
    });
    io::copy(&mut reader, &mut to_host)?;
    host.shutdown(std::net::Shutdown::Write)
}
