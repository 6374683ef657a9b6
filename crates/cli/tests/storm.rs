//! Many runs, and many runs killed at any moment, leave nothing behind: no process, mount, cgroup or folder.
//!
//! `TOOLGATE_LONG=1` makes it 3,000 kills and 10,000 runs.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start processes and fail aloud"
)]

#[expect(dead_code, reason = "the tests of `run` use the rest")]
#[path = "toolgate/mod.rs"]
mod toolgate;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use toolgate::{Gate, alive, binary, has, marker, missing, ran, start, within_a_second};

/// One at a time: each looks at what the whole machine holds afterwards.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn killed_at_any_moment_nothing_of_a_sandbox_is_alive_a_second_later() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(storm) = Storm::begin() else { return };
    let kills = if is_long() { 3000 } else { 300 };
    let marker = marker();
    // A daemon that has left its parent, its group and its session, and a tool that waits.
    let script = format!("(setsid sleep {marker} &); sleep {marker}");
    let build: &[&str] = &["--profile", "build", "--rw", "."];
    let mut started = 0;
    in_parallel(2, kills, |number| {
        let options = if number % 3 == 0 { build } else { &[] };
        let mut child = start(storm.gate.run_command(options, &["sh", "-c", &script]).stdout(Stdio::null()));
        thread::sleep(moment(number));
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
    });
    // Some must have come far enough, or the storm has proved nothing.
    for _ in 0..20 {
        let mut child = start(&mut storm.gate.run_command(&[], &["sh", "-c", &script]));
        started += usize::from(within_a_second(|| daemons(&marker) > 0));
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
        assert!(
            within_a_second(|| daemons(&marker) == 0),
            "alive a second after the kill: {:?}",
            alive(&marker)
        );
    }
    assert_eq!(started, 20);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(alive(&marker), Vec::<String>::new(), "alive a second after the last kill");
    assert_eq!(alive(&storm.program()), Vec::<String>::new(), "alive a second after the last kill");

    // What only a living launcher could have removed is removed by the next run.
    assert_eq!(storm.gate.run(&[], &["true"]), ran(0, "", ""));
    storm.assert_nothing_left();
}

#[test]
fn many_runs_several_at_once_leave_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(storm) = Storm::begin() else { return };
    let runs = if is_long() { 10_000 } else { 300 };
    let marker = marker();
    let daemon = format!("(setsid sleep {marker} &)");
    let build: &[&str] = &["--profile", "build", "--rw", "."];
    let kinds: [(&[&str], &[&str], i32); 12] = [
        (&[], &["true"], 0),
        (&[], &["sh", "-c", "exit 7"], 7),
        (build, &["sh", "-c", "echo $$ > file; mkdir -p folder"], 0),
        (&["--json"], &["sh", "-c", &daemon], 0),
        (&[], &["no-such-command"], 127),
        (&["--timeout", "0.05"], &["sleep", &marker], 124),
        (&["--ro", "/no/such/directory"], &["true"], 125),
        (&["-t"], &["sh", "-c", "kill -KILL $$"], 137),
        (&["--pids", "many"], &["true"], 2),
        (&["--env", "LD_PRELOAD=x"], &["true"], 2),
        (&["--help"], &["true"], 0),
        (&["--backend", "deny"], &["true"], 3),
    ];
    in_parallel(4, runs, |number| {
        let (options, command, expected) = kinds[number % kinds.len()];
        let ended = storm.gate.run(options, command);
        assert_eq!(ended.code, Some(expected), "run {number}, {options:?} {command:?}: {ended:?}");
    });
    assert!(within_a_second(|| alive(&marker).is_empty()), "still alive: {:?}", alive(&marker));
    storm.assert_nothing_left();
}

#[test]
fn a_gate_that_is_killed_with_its_whole_group_leaves_nothing_of_its_kept_workers() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(storm) = Storm::begin() else { return };
    fs::write(storm.gate.work().join("file"), "x").expect("a file can be written");
    for _ in 0..3 {
        let mut command = storm.gate.command(&["mcp", "--agent", "default"]);
        let mut gate = start(command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0));
        let mut answers = BufReader::new(gate.stdout.take().expect("it has an output")).lines();
        let mut input = gate.stdin.take().expect("it has an input");
        for line in [HELLO, READ, WRITE] {
            writeln!(input, "{line}").expect("it can be told");
            answers.next().expect("it answers").expect("in text");
        }
        let pid = i32::try_from(gate.id()).ok().and_then(Pid::from_raw).expect("it has a number");
        assert!(helpers_of(&storm.program()) >= 2, "one worker reads, one writes, and both are kept");
        kill_process_group(pid, Signal::KILL).expect("it can be killed");
        gate.wait().expect("a child can be waited for");
        let program = storm.program();
        assert!(within_a_second(|| alive(&program).is_empty()), "processes are left: {:?}", alive(&program));
        let new = || orphans().difference(&storm.orphans).cloned().collect::<Vec<_>>();
        assert!(within_a_second(|| new().is_empty()), "cgroups are left: {:#?}", new());
    }
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"storm","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const READ: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fs_read","arguments":{"path":"file"}}}"#;
const WRITE: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs_write","arguments":{"path":"folder","content":"x"}}}"#;

/// How many helpers of this binary are up, and inits that they forked, with sandboxes that are kept.
fn helpers_of(program: &str) -> usize {
    alive(program).iter().filter(|process| process.contains("__jail")).count()
}

/// A binary of this test's own, so that nobody else's processes are mistaken for ours, and how things were before.
struct Storm {
    gate: Gate,
    _folder: tempfile::TempDir,
    program: PathBuf,
    mounts: BTreeSet<String>,
    orphans: BTreeSet<String>,
}

impl Storm {
    fn begin() -> Option<Storm> {
        if !has("setsid") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let program = folder.path().join("toolgate");
        fs::copy(binary(), &program).expect("the binary can be copied");
        let gate = Gate::of(program.clone());
        let first = gate.run(&[], &["true"]);
        if first != ran(0, "", "") {
            missing("native", &format!("no sandbox can be built here: {first:?}"));
            return None;
        }
        Some(Storm { gate, _folder: folder, program, mounts: mounts(), orphans: orphans() })
    }

    fn program(&self) -> String {
        self.program.display().to_string()
    }

    fn assert_nothing_left(&self) {
        let program = self.program();
        assert!(within_a_second(|| alive(&program).is_empty()), "processes are left: {:?}", alive(&program));
        // Others use this machine too: what is theirs goes, or has come before.
        let new_mounts = || mounts().difference(&self.mounts).cloned().collect::<Vec<_>>();
        assert!(within_a_second(|| new_mounts().is_empty()), "mounts are left: {:#?}", new_mounts());
        let new_orphans = || orphans().difference(&self.orphans).cloned().collect::<Vec<_>>();
        assert!(within_a_second(|| new_orphans().is_empty()), "cgroups are left: {:#?}", new_orphans());
        assert_eq!(names_in(&self.gate.state()), ["native-proof.json"]);
        assert_eq!(names_in(&self.gate.place("tmp")), Vec::<String>::new());
        assert_eq!(names_in(&self.gate.place("home")), Vec::<String>::new());
        let work: Vec<String> = names_in(&self.gate.work())
            .into_iter()
            .filter(|name| name != "file" && name != "folder")
            .collect();
        assert_eq!(work, Vec::<String>::new());
    }
}

/// Does something that many times, so many at once.
fn in_parallel(threads: usize, times: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= times {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

/// Every second one sweeps the first 8 ms in steps of 20 µs; the others come at random, up to 40 ms.
fn moment(number: usize) -> Duration {
    if number.is_multiple_of(2) {
        return Duration::from_micros((number as u64 / 2 * 20) % 8000);
    }
    let mut bytes = [0; 2];
    let mut random = fs::File::open("/dev/urandom").expect("there is randomness");
    random.read_exact(&mut bytes).expect("there is randomness");
    Duration::from_micros(u64::from(u16::from_le_bytes(bytes)) % 40_000)
}

/// How many sleepers with this mark are up: the tool and its daemon make two.
fn daemons(marker: &str) -> usize {
    let sleeper = format!("sleep {marker}");
    alive(marker).iter().filter(|process| process.trim_end().ends_with(&sleeper)).count()
}

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("there is a list of mounts");
    text.lines().map(str::to_owned).collect()
}

/// Cgroups whose launcher is no more. One with a living launcher is somebody's run.
fn orphans() -> BTreeSet<String> {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", "toolgate-*"])
        .output()
        .expect("there is a find");
    let is_orphan = |path: &&str| {
        let launcher =
            path.rsplit("toolgate-").next().and_then(|name| name.split('-').next()).unwrap_or_default();
        !Path::new("/proc").join(launcher).exists()
    };
    String::from_utf8_lossy(&found.stdout).lines().filter(is_orphan).map(str::to_owned).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be listed").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_long() -> bool {
    std::env::var("TOOLGATE_LONG").is_ok_and(|value| value == "1")
}
