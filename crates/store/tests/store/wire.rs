//! A wire to the test server that can be cut, and a server of its own that can be stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::gate::{Raw, server};

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It carries everything.
    Whole,
    /// The next `COMMIT` does not arrive; then it is whole again.
    LosesCommit,
    /// The next `COMMIT` arrives, and its answer does not; then it is whole again.
    LosesAnswer,
    /// The next `COMMIT` arrives, its answer does not, and nothing is carried afterwards.
    LosesAnswerAndStaysCut,
    /// It carries nothing.
    Cut,
    /// The next `COMMIT` goes nowhere and nothing follows it, and nobody is told.
    SilentAtCommit,
    /// It carries nothing, and nobody is told. When it is whole again, what was begun is cut.
    Silent,
}

pub(crate) struct Wire {
    mode: Arc<Mutex<Mode>>,
    port: u16,
}

impl Wire {
    pub(crate) async fn new() -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(Mutex::new(Mode::Whole));
        let shared = Arc::clone(&mode);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *shared.lock().unwrap() != Mode::Cut {
                    tokio::spawn(carry(client, Arc::clone(&shared)));
                }
            }
        });
        Wire { mode, port }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// The same URL by way of this wire.
    pub(crate) fn to(&self, url: &str) -> String {
        let (before, rest) = url.split_once('@').unwrap();
        let (_, after) = rest.split_once('/').unwrap();
        format!("{before}@127.0.0.1:{}/{after}", self.port)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[expect(clippy::disallowed_methods, reason = "a test between the store and its database")]
async fn to_server() -> Box<dyn Stream> {
    let url = server();
    let host = url.split_once('@').unwrap().1.split('/').next().unwrap();
    match host.strip_prefix("%2F") {
        Some(folder) => {
            let socket = format!("/{}/.s.PGSQL.5432", folder.replace("%2F", "/"));
            Box::new(UnixStream::connect(socket).await.unwrap())
        }
        None => Box::new(TcpStream::connect(host).await.unwrap()),
    }
}

async fn carry(mut client: TcpStream, mode: Arc<Mutex<Mode>>) {
    let mut server = to_server().await;
    let (mut from_client, mut from_server) = (vec![0; 65536], vec![0; 65536]);
    let mut deaf = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                let bytes = from_client.get(..count).unwrap();
                let now = *mode.lock().unwrap();
                if bytes.windows(7).any(|part| part == b"COMMIT\0") {
                    match now {
                        Mode::LosesCommit => {
                            *mode.lock().unwrap() = Mode::Whole;
                            return;
                        }
                        Mode::LosesAnswer | Mode::LosesAnswerAndStaysCut => deaf = true,
                        Mode::SilentAtCommit => *mode.lock().unwrap() = Mode::Silent,
                        Mode::Whole | Mode::Cut | Mode::Silent => {}
                    }
                }
                if *mode.lock().unwrap() == Mode::Silent {
                    return until_whole(&mode).await;
                }
                server.write_all(bytes).await.unwrap();
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if *mode.lock().unwrap() == Mode::Silent {
                    return until_whole(&mode).await;
                }
                if deaf {
                    // The server has answered, so it has committed.
                    let mut mode = mode.lock().unwrap();
                    *mode = if *mode == Mode::LosesAnswer { Mode::Whole } else { Mode::Cut };
                    return;
                }
                if *mode.lock().unwrap() == Mode::Cut || client.write_all(from_server.get(..count).unwrap()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Holds both ends of a line that carries nothing.
async fn until_whole(mode: &Mutex<Mode>) {
    while *mode.lock().unwrap() == Mode::Silent {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A server of its own. It does not start as root, so root starts it as nobody.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    programs: PathBuf,
}

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        let programs =
            Raw::connect(&server()).await.text("SELECT setting FROM pg_config WHERE name = 'BINDIR'").await;
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster { folder, programs: PathBuf::from(programs) };
        std::fs::create_dir(cluster.home()).unwrap();
        if is_root() {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(cluster.folder.path(), open).unwrap();
            std::os::unix::fs::chown(cluster.home(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        cluster
            .run("initdb", &["--username", "toolgate", "--auth", "trust", "--no-sync", "--encoding", "UTF8"]);
        cluster.begin();
        cluster
    }

    pub(crate) fn begin(&self) {
        let options = format!("-c listen_addresses= -c unix_socket_directories={}", self.home().display());
        self.run("pg_ctl", &["--wait", "--log", "log", "--options", &options, "start"]);
    }

    pub(crate) fn end(&self, how: &str) {
        self.run("pg_ctl", &["--wait", "--mode", how, "stop"]);
    }

    pub(crate) fn url(&self) -> String {
        let folder = self.home().display().to_string().replace('/', "%2F");
        format!("postgres://toolgate@{folder}/postgres")
    }

    /// Lets the server have a folder.
    pub(crate) fn give(&self, folder: &Path) {
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    #[expect(clippy::disallowed_methods, reason = "a test that starts and stops a database server")]
    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            let nobody = NOBODY.to_string();
            command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("--pgdata").arg(self.home().join("data")).args(arguments).current_dir(self.home());
        // The server must not hold on to what this process writes to.
        let log = std::fs::File::create(self.folder.path().join("said")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let done = command.status().unwrap();
        let said = || std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        assert!(done.success(), "{command:?}: {}", said());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.home().join("data/postmaster.pid").exists() {
            self.end("immediate");
        }
    }
}

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(Path::new("/proc/self")).unwrap().uid() == 0
}
