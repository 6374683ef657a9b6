//! The binary under test, and a fresh place to run it in: a home, a state folder and a working directory of its own.
//!
//! Works as root and as an ordinary user. `TOOLGATE_BIN` names the binary where the one that cargo built cannot be
//! reached. What is missing on a host is skipped aloud, and fails where `TOOLGATE_REQUIRE` names it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// After this long a run counts as hung. Generous: two shared processors, debug builds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A search path that every Debian has.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Everything that one test needs. Removed when dropped.
pub(crate) struct Gate {
    binary: PathBuf,
    folder: TempDir,
}

impl Gate {
    /// For what is refused before a sandbox is built.
    pub(crate) fn new() -> Gate {
        Gate::of(binary())
    }

    /// For a run in a sandbox; `None` where there are no walls. They are tried once, not once for each test.
    pub(crate) fn native() -> Option<Gate> {
        let state = match proved_state() {
            Ok(state) => state,
            Err(why) => {
                missing("native", why);
                return None;
            }
        };
        let gate = Gate::new();
        for (name, content) in state {
            fs::write(gate.state().join(name), content).expect("the proof can be copied");
        }
        Some(gate)
    }

    /// The same for another binary.
    pub(crate) fn of(binary: PathBuf) -> Gate {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for name in ["state", "home", "work", "tmp"] {
            fs::create_dir(folder.path().join(name)).expect("a folder can be made");
        }
        Gate { binary, folder }
    }

    /// Where a command starts.
    pub(crate) fn work(&self) -> PathBuf {
        self.place("work")
    }

    /// `TOOLGATE_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.place("state")
    }

    /// One of its folders, by its real path: `TMPDIR` may lead through a link.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).canonicalize().expect("the folder is there")
    }

    /// `toolgate` with these arguments, no input, and output that can be read.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// Gives any command the environment that toolgate gets here.
    pub(crate) fn settle(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.place("home"))
            .env("TMPDIR", self.place("tmp"))
            .env("TOOLGATE_HOME", self.state())
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// `toolgate run OPTIONS -- COMMAND`, to be started by the test.
    pub(crate) fn run_command(&self, options: &[&str], command: &[&str]) -> Command {
        self.command(&[&["run"], options, &["--"], command].concat())
    }

    /// `toolgate run OPTIONS -- COMMAND`, to its end.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Ran {
        finish(start(&mut self.run_command(options, command)))
    }
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Its exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// For comparing whole.
pub(crate) fn ran(code: i32, stdout: impl Into<String>, stderr: impl Into<String>) -> Ran {
    Ran { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
}

/// Starts a command.
pub(crate) fn start(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

/// Waits for the end of a command and reads what it wrote. One that hangs is ended, and fails the test; so does one
/// that leaves somebody behind who could still write.
pub(crate) fn finish(child: Child) -> Ran {
    finish_within(child, PATIENCE)
}

/// The same for what takes longer.
pub(crate) fn finish_within(mut child: Child, patience: Duration) -> Ran {
    let stdout = child.stdout.take().map(|stream| thread::spawn(|| read_all(stream)));
    let stderr = child.stderr.take().map(|stream| thread::spawn(|| read_all(stream)));
    let code = wait(&mut child, patience);
    let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
        let Some(reader) = reader else { return String::new() };
        until("nobody writes any more", || reader.is_finished().then_some(()));
        String::from_utf8_lossy(&reader.join().expect("a reader does not panic")).into_owned()
    };
    Ran { code, stdout: text(stdout), stderr: text(stderr) }
}

/// Looks again and again for something that has to come by itself. If it does not come, the test fails.
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "after {PATIENCE:?} it is not so: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the end of a command: its exit code, `None` for a signal. One that hangs is ended, and fails the test.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status.code();
        }
        if begun.elapsed() > patience {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            panic!("still running after {patience:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Everything until the end.
pub(crate) fn read_all(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TOOLGATE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_toolgate").into(), PathBuf::from)
}

/// Something is not there. Says so, past the test runner's capture; fails where it is required.
pub(crate) fn missing(what: &str, why: &str) {
    let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
    let test = thread::current().name().unwrap_or("a test").to_owned();
    assert!(!required.split(',').any(|name| name == what), "`{what}` is required here: {why}");
    let _ = std::io::stderr().write_all(format!("skipped: {test}: no `{what}`: {why}\n").as_bytes());
}

/// Whether a program of the host is there; else [`missing`].
pub(crate) fn has(program: &str) -> bool {
    let found = PATH.split(':').any(|folder| Path::new(folder).join(program).is_file());
    if !found {
        missing(program, "it is not installed");
    }
    found
}

/// A number that no other process has in its arguments: for `sleep`, to be found again in `/proc`.
pub(crate) fn marker() -> String {
    let mut bytes = [0; 6];
    let mut random = fs::File::open("/dev/urandom").expect("there is randomness");
    random.read_exact(&mut bytes).expect("there is randomness");
    let digits: String = bytes.iter().map(|byte| format!("{byte:03}")).collect();
    format!("7777.{digits}")
}

/// Living processes with this text in their arguments or as their program. The dead that nobody waited for do not count.
pub(crate) fn alive(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("there is a /proc").flatten();
    entries.filter_map(|entry| describe(&entry.path())).filter(|process| process.contains(text)).collect()
}

/// Waits a second at most for a condition that has to come by itself.
pub(crate) fn within_a_second(condition: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > Duration::from_secs(1) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

fn describe(process: &Path) -> Option<String> {
    let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let status = fs::read_to_string(process.join("stat")).ok()?;
    // The state follows the name, which is in brackets and may hold anything.
    let (_, after_name) = status.rsplit_once(") ")?;
    if after_name.starts_with(['Z', 'X']) {
        return None;
    }
    let arguments = fs::read(process.join("cmdline")).ok()?;
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    Some(format!("{pid} {} {}", program.display(), String::from_utf8_lossy(&arguments).replace('\0', " ")))
}

type Files = Vec<(OsString, Vec<u8>)>;

/// The files that one successful run leaves in its state folder, or why there is none.
fn proved_state() -> Result<&'static Files, &'static str> {
    static STATE: OnceLock<Result<Files, String>> = OnceLock::new();
    let prove = || {
        let gate = Gate::new();
        let first = gate.run(&[], &["true"]);
        if first != ran(0, "", "") {
            return Err(format!("no sandbox can be built here: {first:?}"));
        }
        let files = fs::read_dir(gate.state()).expect("the state folder is there").flatten();
        let keep = |file: fs::DirEntry| (file.file_name(), fs::read(file.path()).expect("it can be read"));
        Ok(files.map(keep).collect())
    };
    STATE.get_or_init(prove).as_ref().map_err(String::as_str)
}
