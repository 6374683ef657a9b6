//! New sign-in links for whoever runs the gate: a socket in Toolgate's home that nobody else can use.
//!
//! It needs no credential and hands none out: the kernel says who is at the other end.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Credential;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use super::app::App;

/// The socket of one gate. It goes with the gate.
pub(super) struct LinkSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// Where the gate that listens on a port hands out sign-in links, in Toolgate's home.
pub fn link_socket(home: &Path, port: u16) -> PathBuf {
    home.join(format!("up-{port}.sock"))
}

impl LinkSocket {
    /// Opens it. Whoever calls this holds the port, so what lies there is left over from a gate that has ended.
    pub(super) fn open(path: PathBuf) -> io::Result<LinkSocket> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let socket = LinkSocket { listener, path };
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        Ok(socket)
    }

    /// Answers every connection of the gate's own user with a link of the local operator's, until it is told to stop.
    pub(super) async fn serve(self, app: App, whose: Arc<Credential>, stop: CancellationToken) {
        let own = rustix::process::geteuid().as_raw();
        loop {
            let taken = tokio::select! {
                () = stop.cancelled() => return,
                taken = self.listener.accept() => taken,
            };
            let Ok((mut stream, _)) = taken else {
                tokio::time::sleep(super::TAKE_BREATH).await;
                continue;
            };
            // ATTACK(link-for-another-user): the mode of a file in a folder that others may look into is not enough.
            let peer = stream.peer_cred().map(|peer| peer.uid());
            if peer.is_ok_and(|peer| peer == own || peer == 0)
                && let Ok(url) = app.new_link(whose.clone()).await
            {
                let _ = stream.write_all(format!("{url}\n").as_bytes()).await;
            }
        }
    }
}

impl Drop for LinkSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
