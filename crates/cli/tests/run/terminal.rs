//! `-t`: a terminal of the sandbox's own, behind the caller's.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::streams::processor_time_of;
use crate::toolgate::{
    Gate, PATIENCE, alive, binary, finish, has, marker, ran, start, wait, within_a_second,
};

#[test]
fn the_tool_gets_a_terminal_of_the_sandboxs_own() {
    let Some(mut session) = Session::begin(&["-t"], &["tty"]) else { return };
    session.expect("/dev/pts/0\r\n");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn without_the_option_there_is_none() {
    let Some(gate) = Gate::native() else { return };
    assert_eq!(gate.run(&[], &["tty"]), ran(1, "not a tty\n", ""));
    assert_eq!(gate.run(&[], &["sh", "-c", "exec 2>/dev/null; : </dev/tty"]).code, Some(2));
}

#[test]
fn all_three_streams_are_the_terminal() {
    let script = "test -t 0 && test -t 1 && test -t 2 && echo all three";
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", script]) else { return };
    session.expect("all three\r\n");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn it_has_the_size_of_ours_from_the_start() {
    // More than once: the tool may be faster than whoever sets the size.
    for _ in 0..10 {
        let Some(mut session) = Session::begin(&["-t"], &["stty", "size"]) else { return };
        session.expect("37 101\r\n");
        assert_eq!(session.end(), Some(0));
    }
}

#[test]
fn it_follows_when_ours_changes_and_tells_the_tool() {
    let script = "trap 'stty size; exit 3' WINCH; echo up; while :; do sleep 0.05; done";
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", script]) else { return };
    session.expect("up\r\n");
    session.resize(50, 132);
    session.expect("50 132\r\n");
    assert_eq!(session.end(), Some(3));
}

#[test]
fn what_is_typed_reaches_the_tool_and_is_shown_once() {
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", "echo up; read line; echo \"<$line>\""])
    else {
        return;
    };
    session.expect("up\r\n");
    session.type_in(b"hello\n");
    session.expect("hello\r\n<hello>\r\n");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn the_end_of_file_key_is_the_end_of_input() {
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", "echo up; cat; echo over"]) else { return };
    session.expect("up\r\n");
    session.type_in(b"a line\n");
    session.expect("a line\r\na line\r\n");
    session.type_in(b"\x04");
    session.expect("over\r\n");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn the_interrupt_key_interrupts_the_tool_not_us() {
    let script = "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.05; done";
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", script]) else { return };
    session.expect("up\r\n");
    session.type_in(b"\x03");
    session.expect("caught\r\n");
    assert_eq!(session.end(), Some(5));
}

#[test]
fn our_terminal_is_raw_meanwhile_and_as_before_afterwards() {
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", "echo up; read line; exit 4"]) else {
        return;
    };
    session.expect("up\r\n");
    let canonical = |modes: &Termios| modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO);
    assert!(canonical(&session.before) && !canonical(&session.modes()));
    session.type_in(b"\n");
    assert_eq!(session.end(), Some(4));
    assert_eq!(shown(&session.modes()), shown(&session.before));
}

#[test]
fn our_terminal_is_as_before_after_a_timeout_or_a_signal_too() {
    for (limit, script, code) in
        [("--timeout=1", "echo up; sleep 20", 124), ("--timeout=9", "echo up; kill -KILL $$", 137)]
    {
        let Some(mut session) = Session::begin(&["-t", limit], &["sh", "-c", script]) else { return };
        session.expect("up\r\n");
        assert_eq!(session.end(), Some(code));
        assert_eq!(shown(&session.modes()), shown(&session.before));
    }
}

#[test]
fn modes_that_the_tool_sets_are_its_own_terminals() {
    let Some(mut session) =
        Session::begin(&["-t"], &["sh", "-c", "stty -icanon -echo raw; echo up; read line"])
    else {
        return;
    };
    session.expect("up\n");
    session.type_in(b"\n");
    assert_eq!(session.end(), Some(0));
    assert_eq!(shown(&session.modes()), shown(&session.before));
}

#[test]
fn a_terminal_that_hangs_up_ends_everything() {
    let marker = marker();
    let script = format!("echo up; (setsid sleep {marker} &); sleep {marker}");
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", &script]) else { return };
    session.expect("up\r\n");
    let code = session.hang_up();
    assert_eq!(code, Some(128 + 1));
    assert!(within_a_second(|| alive(&marker).is_empty()), "still alive: {:?}", alive(&marker));
}

#[test]
fn a_terminal_that_nobody_reads_does_not_defeat_the_timeout() {
    let with: &[&str] = &["-t", "--timeout=1"];
    let without: &[&str] = &["--timeout=1"];
    for (options, script) in [(with, "yes"), (without, "yes"), (with, "yes >&2"), (without, "yes >&2")] {
        let Some(session) = Session::begin(options, &["sh", "-c", script]) else { return };
        let begun = Instant::now();
        assert_eq!(session.end_unread(), Some(124), "{options:?} {script}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(6), "{options:?} {script}: ended after {took:?}");
    }
}

#[test]
fn input_and_output_that_are_no_terminal_work_too() {
    let Some(gate) = Gate::native() else { return };
    assert_eq!(gate.run(&["-t"], &["sh", "-c", "tty; exit 3"]), ran(3, "/dev/pts/0\r\n", ""));
}

#[test]
fn waiting_without_input_costs_no_processor_time() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(gate.run_command(&["-t"], &["sleep", "1.5"]).stdin(Stdio::null()));
    thread::sleep(Duration::from_secs(1));
    let used = processor_time_of(child.id());
    assert_eq!(wait(&mut child, PATIENCE), Some(0));
    assert!(used < Duration::from_millis(300), "{used:?} of processor time in one second of waiting");
}

#[test]
fn input_that_is_no_terminal_arrives_as_if_typed_and_ends_as_if_by_key() {
    let Some(gate) = Gate::native() else { return };
    // An unfinished line needs the key twice: once for the line, once for the end.
    for (input, shown) in [("", ""), ("hello\n", "hello\r\nhello\r\n"), ("half", "halfhalf")] {
        fs::write(gate.work().join("input"), input).expect("it can be written");
        let mut command = gate.run_command(&["-t", "--timeout", "5"], &["sh", "-c", "cat; echo over"]);
        command.stdin(fs::File::open(gate.work().join("input")).expect("it can be opened"));
        let ended = finish(start(&mut command));
        // Some terminals show the key itself, and take it back.
        let seen = ended.stdout.replace("^D\u{8}\u{8}", "");
        assert_eq!(
            (ended.code, seen, ended.stderr.as_str()),
            (Some(0), format!("{shown}over\r\n"), ""),
            "{input:?}"
        );
    }
}

#[test]
fn what_is_typed_ahead_is_not_lost() {
    let Some(mut session) = Session::begin(&["-t"], &["sh", "-c", "read line; echo \"<$line>\""]) else {
        return;
    };
    session.type_in(b"hello\n");
    session.expect("<hello>\r\n");
    assert_eq!(session.end(), Some(0));
}

/// A person at a terminal of 37 rows and 101 columns, who has started `toolgate run`.
struct Session {
    _gate: Gate,
    master: OwnedFd,
    slave: OwnedFd,
    before: Termios,
    child: Child,
    seen: Vec<u8>,
}

impl Session {
    fn begin(options: &[&str], command: &[&str]) -> Option<Session> {
        let gate = Gate::native()?;
        if !has("setsid") {
            return None;
        }
        let (master, slave) = open_terminal();
        tcsetwinsize(&master, size(37, 101)).expect("a terminal has a size");
        let before = tcgetattr(&slave).expect("it is a terminal");
        // Its own session with this terminal, as a login makes it; `setsid` then becomes toolgate.
        let mut run = Command::new("setsid");
        run.arg("--ctty").arg(binary()).arg("run").args(options).arg("--").args(command);
        gate.settle(&mut run);
        let stream = || Stdio::from(slave.try_clone().expect("a descriptor can be copied"));
        run.stdin(stream()).stdout(stream()).stderr(stream());
        let child = start(&mut run);
        Some(Session { _gate: gate, master, slave, before, child, seen: Vec::new() })
    }

    /// Reads until this text has come.
    fn expect(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.seen.windows(text.len()).any(|window| window == text.as_bytes()) {
            let seen = String::from_utf8_lossy(&self.seen).into_owned();
            assert!(begun.elapsed() < PATIENCE, "waited for {text:?}, saw {seen:?}");
            let ended = self.child.try_wait().expect("a child can be waited for");
            if self.read() == 0 {
                assert!(ended.is_none(), "waited for {text:?}, saw {seen:?}, then {ended:?}");
            }
        }
    }

    /// Reads what is there, after waiting a moment for it.
    fn read(&mut self) -> usize {
        if !is_readable(&self.master) {
            return 0;
        }
        let mut buffer = [0; 4096];
        let count = rustix::io::read(&self.master, &mut buffer).unwrap_or_default();
        self.seen.extend_from_slice(&buffer[..count]);
        count
    }

    fn type_in(&self, keys: &[u8]) {
        let written = rustix::io::write(&self.master, keys).expect("a terminal takes keys");
        assert_eq!(written, keys.len());
    }

    fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).expect("a terminal has a size");
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.slave).expect("it is a terminal")
    }

    /// Reads on until toolgate ends; returns its exit code.
    fn end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.read();
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status.code();
            }
        }
        self.child.kill().expect("a child can be killed");
        panic!("still running after {PATIENCE:?}; saw {:?}", String::from_utf8_lossy(&self.seen));
    }

    /// Waits for the end without reading a byte.
    fn end_unread(mut self) -> Option<i32> {
        wait(&mut self.child, PATIENCE)
    }

    /// Closes the window.
    fn hang_up(self) -> Option<i32> {
        let Session { master, slave, mut child, _gate, .. } = self;
        drop((master, slave));
        wait(&mut child, PATIENCE)
    }
}

fn open_terminal() -> (OwnedFd, OwnedFd) {
    // Other tests start processes meanwhile, which must not keep ours open.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there is a /dev/ptmx");
    grantpt(&master).expect("the terminal is ours");
    unlockpt(&master).expect("the terminal can be unlocked");
    let name = ptsname(&master, Vec::new()).expect("the terminal has a name");
    let slave = openat(CWD, std::ffi::OsStr::from_bytes(name.to_bytes()), flags, Mode::empty())
        .expect("the terminal can be opened");
    let mut modes = tcgetattr(&slave).expect("it is a terminal");
    // So that raw mode has something to change, and something to bring back.
    modes.local_modes |= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcsetattr(&slave, OptionalActions::Now, &modes).expect("its modes can be set");
    (master, slave)
}

fn is_readable(terminal: impl AsFd) -> bool {
    let mut watched = [PollFd::new(&terminal, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    poll(&mut watched, Some(&moment)).is_ok() && watched[0].revents().contains(PollFlags::IN)
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn shown(modes: &Termios) -> String {
    format!(
        "{:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
    )
}
