//! The canaries: a run inside a fresh sandbox that tries to get through each wall and tells how far it came.
//!
//! The prober is our own binary, brought into the sandbox. What it says is believed only about itself getting
//! *through*: a wall counts as proved when the attempt failed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use jail::Control;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// The argument that makes our binary a prober.
pub(crate) const CANARY_ARGUMENT: &str = "__canary";

/// The name of a file that is sealed, and the content it is sealed with.
pub(crate) const SEALED: &str = "sealed";

/// What the prober is told about the host, to try for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Targets {
    /// A host file outside every granted directory.
    pub(crate) secret: String,
    /// A directory shown read-only, with a `.env`, a fifo `pipe` and a socket `socket` in it.
    pub(crate) shown: String,
    /// A directory shown read-only and not searched, with a fifo `pipe` in it.
    pub(crate) installed: String,
    /// A directory granted for writing, with `.git/hooks` in it, and a file that is sealed.
    pub(crate) granted: String,
    /// A listener of the host on loopback.
    pub(crate) listener: SocketAddr,
    /// A process of the host.
    pub(crate) process: i32,
    /// The host's own namespaces, by name.
    pub(crate) namespaces: BTreeMap<String, String>,
    /// Names of the variables that may be there.
    pub(crate) variables: Vec<String>,
}

/// What one attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attempt {
    /// It failed, as it should.
    Held,
    /// It got through.
    Through(String),
}

/// The attempts of one prober.
pub(crate) type Attempts = Vec<(Control, Attempt)>;

/// What a prober is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Probe {
    /// Try every wall.
    Walls(Targets),
    /// Take this much memory and keep it.
    Memory(usize),
    /// Start threads, fill scratch space.
    Totals,
    /// Print this much.
    Print(usize),
    /// Burn processor time until stopped.
    Spin,
}

/// Becomes a prober if the arguments say so, and does not return then.
pub fn serve_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_some_and(|argument| argument == CANARY_ARGUMENT) {
        let done = arguments.next().and_then(|text| serde_json::from_str(&text).ok()).map(perform);
        std::process::exit(i32::from(done.is_none()));
    }
}

fn perform(probe: Probe) {
    match probe {
        Probe::Walls(targets) => tell(&try_walls(&targets)),
        Probe::Memory(bytes) => take_memory(bytes),
        Probe::Totals => tell(&try_totals()),
        Probe::Print(bytes) => {
            let _ = std::io::stdout().write_all(&vec![b'x'; bytes]);
        }
        Probe::Spin => loop {
            std::hint::black_box(0);
        },
    }
}

fn tell(attempts: &Attempts) {
    let _ = serde_json::to_writer(std::io::stdout(), attempts);
}

fn try_walls(targets: &Targets) -> Attempts {
    vec![
        (
            Control::Identity,
            all([host_root_is_not_behind_us(), cannot(File::open("/etc/shadow"), "read /etc/shadow")]),
        ),
        (Control::Filesystem, try_files(targets)),
        (Control::Processes, try_processes(targets)),
        (Control::Network, try_network(targets)),
        (Control::Ipc, own_namespace(targets, "ipc")),
        (Control::Hostname, own_namespace(targets, "uts")),
        (Control::CgroupView, all([own_namespace(targets, "cgroup"), cgroup_paths_are_hidden()])),
        (Control::Privileges, try_privileges()),
        (Control::Seccomp, try_system_calls()),
        (Control::LandlockFiles, try_pipe(&targets.installed)),
        (Control::LandlockTcp, cannot(bind_loopback(), "listen on loopback")),
        (Control::ProcFiles, try_proc()),
        (Control::Devices, try_devices()),
        (Control::Descriptors, try_descriptors()),
        (Control::Environment, try_environment(targets)),
        (Control::Session, cannot(File::open("/dev/tty"), "open the caller's terminal")),
        (
            Control::HiddenNames,
            cannot(fs::read(Path::new(&targets.shown).join(".env")), "read a hidden file"),
        ),
        (Control::ProtectedNames, try_protected(targets)),
        (
            Control::HostSockets,
            all([
                cannot(UnixStream::connect(Path::new(&targets.shown).join("socket")), "reach a socket"),
                try_pipe(&targets.shown),
            ]),
        ),
        (Control::SealedFiles, try_sealed(targets)),
        (Control::CoreDumps, try_core_limit()),
    ]
}

/// Another file stands there than the one that was sealed.
fn try_sealed(targets: &Targets) -> Attempt {
    let path = Path::new(&targets.granted).join(SEALED);
    match fs::read_to_string(&path) {
        Ok(text) if text == SEALED => cannot(fs::write(&path, "again"), "write a sealed file"),
        _ => Attempt::Through("read what was put in place of a sealed file".to_owned()),
    }
}

/// Held when the attempt failed.
fn cannot<T, E>(attempt: Result<T, E>, what: &str) -> Attempt {
    match attempt {
        Ok(_) => Attempt::Through(format!("could {what}")),
        Err(_) => Attempt::Held,
    }
}

/// Held if so.
pub(crate) fn held_if(held: bool, otherwise: &str) -> Attempt {
    if held { Attempt::Held } else { Attempt::Through(otherwise.to_owned()) }
}

/// Held when all are.
fn all(attempts: impl IntoIterator<Item = Attempt>) -> Attempt {
    attempts.into_iter().find(|attempt| *attempt != Attempt::Held).unwrap_or(Attempt::Held)
}

fn host_root_is_not_behind_us() -> Attempt {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outside: Vec<&str> = map.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    held_if(!outside.is_empty() && !outside.contains(&"0"), "runs as the host's root")
}

fn try_files(targets: &Targets) -> Attempt {
    let write = |path: &str| {
        cannot(OpenOptions::new().create(true).append(true).open(path), &format!("write `{path}`"))
    };
    all([
        cannot(fs::read(&targets.secret), "read a file outside the granted directories"),
        write("/usr/.toolgate-canary"),
        write("/etc/.toolgate-canary"),
        write("/.toolgate-canary"),
        write(&format!("{}/canary", targets.shown)),
        cannot(fs::read_dir("/sys/kernel"), "see /sys"),
    ])
}

fn try_processes(targets: &Targets) -> Attempt {
    let visible = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .count();
    // In a container the host's process may have the number of one of ours.
    let host = rustix::process::Pid::from_raw(targets.process).filter(|_| targets.process > 8);
    let signal = host.map_or(Err(rustix::io::Errno::SRCH), rustix::process::test_kill_process);
    all([
        held_if(visible <= 3, "sees the host's processes"),
        cannot(signal, "signal a process of the host"),
        own_namespace(targets, "pid"),
    ])
}

fn try_network(targets: &Targets) -> Attempt {
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let only_loopback = interfaces.lines().skip(2).all(|line| line.trim_start().starts_with("lo:"));
    all([
        own_namespace(targets, "net"),
        held_if(only_loopback, "sees an interface of the host"),
        cannot(
            TcpStream::connect_timeout(&targets.listener, Duration::from_secs(1)),
            "connect to a listener of the host",
        ),
    ])
}

#[expect(clippy::disallowed_methods, reason = "the attempt is the point: it must not get through")]
fn bind_loopback() -> std::io::Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0")
}

fn own_namespace(targets: &Targets, name: &str) -> Attempt {
    let ours = fs::read_link(format!("/proc/self/ns/{name}")).map(|link| link.display().to_string());
    let differs = match (ours, targets.namespaces.get(name)) {
        (Ok(ours), Some(host)) => ours != *host,
        _ => false,
    };
    held_if(differs, &format!("shares the host's {name} namespace"))
}

fn cgroup_paths_are_hidden() -> Attempt {
    let paths = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    held_if(paths.lines().all(|line| line.ends_with(":/")), "sees the host's cgroup paths")
}

fn try_privileges() -> Attempt {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let no_capabilities = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"]
        .iter()
        .all(|set| field(set) == "0000000000000000");
    all([
        held_if(no_capabilities, "has capabilities"),
        held_if(field("NoNewPrivs:") == "1", "may gain privileges by executing a file"),
    ])
}

fn try_system_calls() -> Attempt {
    #[expect(deprecated, reason = "the safe form; only namespaces are asked for")]
    let unshared = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    all([
        cannot(unshared, "make a user namespace"),
        held_if(status.lines().any(|line| line == "Seccomp:\t2"), "has no system call filter"),
    ])
}

/// A read-only mount does not stop writing to a pipe; a cover does, and so does the second wall.
fn try_pipe(folder: &str) -> Attempt {
    let pipe = Path::new(folder).join("pipe");
    cannot(
        rustix::fs::open(pipe, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()),
        "write to a pipe of the host",
    )
}

fn try_proc() -> Attempt {
    let write =
        |path: &str| cannot(OpenOptions::new().write(true).open(path), &format!("open `{path}` to write"));
    all([
        write("/proc/sys/kernel/core_pattern"),
        write("/proc/sys/vm/drop_caches"),
        write("/proc/sysrq-trigger"),
        write("/proc/self/oom_score_adj"),
        cannot(fs::read("/proc/keys"), "read the host's keys"),
    ])
}

fn try_devices() -> Attempt {
    let known = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
        "zero",
    ];
    let strange = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|name| !known.contains(&name.as_str()));
    match strange {
        Some(name) => Attempt::Through(format!("sees the device `{name}`")),
        None => cannot(fs::read("/dev/null").and_then(|_| File::open("/dev/kmsg")), "open /dev/kmsg"),
    }
}

fn try_descriptors() -> Attempt {
    // 0, 1, 2, and the one that reads the directory.
    let open = fs::read_dir("/proc/self/fd").map_or(usize::MAX, Iterator::count);
    held_if(open <= 4, "has a descriptor of the launcher")
}

#[expect(clippy::disallowed_methods, reason = "looks for variables that must not be there")]
fn try_environment(targets: &Targets) -> Attempt {
    let strange =
        std::env::vars_os().find(|(name, _)| !targets.variables.iter().any(|known| name == known.as_str()));
    match strange {
        Some((name, _)) => Attempt::Through(format!("sees the variable `{}`", name.display())),
        None => cannot(
            fs::read("/proc/1/environ")
                .map_err(drop)
                .and_then(|e| if e.is_empty() { Err(()) } else { Ok(()) }),
            "read the launcher's environment",
        ),
    }
}

fn try_protected(targets: &Targets) -> Attempt {
    let granted = Path::new(&targets.granted);
    let writable = fs::write(granted.join("canary"), "");
    all([
        held_if(writable.is_ok(), "cannot write where it may, so that this proves nothing"),
        cannot(fs::write(granted.join(".git/hooks/post-checkout"), ""), "write a git hook"),
        cannot(fs::rename(granted.join(".git"), granted.join("moved")), "move `.git` away"),
    ])
}

fn try_core_limit() -> Attempt {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Core);
    all([
        held_if(limit.current == Some(1), "may dump core"),
        cannot(
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }),
            "change the core limit",
        ),
    ])
}

fn try_totals() -> Attempts {
    let threads: Vec<_> = (0..64)
        .map_while(|_| {
            let wait = || std::thread::sleep(Duration::from_millis(200));
            std::thread::Builder::new().stack_size(64 * 1024).spawn(wait).ok()
        })
        .collect();
    let pids = held_if(threads.len() < 64, "started 64 threads with a limit of 16");
    for thread in threads {
        let _ = thread.join();
    }
    let disk = cannot(fs::write("/tmp/fill", vec![0; 4 * 1024 * 1024]), "write 4 MiB with a limit of 1");
    vec![(Control::Pids, pids), (Control::Disk, disk)]
}

fn take_memory(bytes: usize) {
    let mut taken = vec![0_u8; bytes];
    // Every page, so that it is really there.
    taken.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::thread::sleep(Duration::from_millis(700));
    std::hint::black_box(&taken);
    tell(&vec![(Control::Memory, Attempt::Through("took twice the memory it may have".to_owned()))]);
}
