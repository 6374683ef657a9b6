//! A gate with a small project to work on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::toolgate::{Gate, Ran, finish, start};

/// A gate, and a workspace with a file, a secret and something to delete.
pub(crate) struct Place {
    gate: Gate,
}

pub(crate) const CLEAN: &str =
    r#"{"command":"rm","args":["-r","build"],"profile":"mutate","purpose":"clean"}"#;

impl Place {
    /// `None` where this host has no walls.
    pub(crate) fn new() -> Option<Place> {
        let gate = Gate::native()?;
        let work = gate.work();
        fs::create_dir(work.join("build")).expect("a folder can be made");
        fs::write(work.join("build/old.o"), "old").expect("a file can be written");
        fs::write(work.join("README.md"), "# Project\n").expect("a file can be written");
        fs::write(work.join(".env"), "API_KEY=sk-hidden\n").expect("a file can be written");
        Some(Place { gate })
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.gate.work()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.gate.state()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.gate.command(arguments)
    }

    /// Gives another program the environment that toolgate gets here.
    pub(crate) fn settle(&self, command: &mut Command) {
        self.gate.settle(command);
    }

    pub(crate) fn toolgate(&self, arguments: &[&str]) -> Ran {
        finish(start(&mut self.command(arguments)))
    }

    /// The same with `--json`, and what it printed.
    pub(crate) fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let ran = self.toolgate(&[arguments, &["--json"]].concat());
        let value = serde_json::from_str(&ran.stdout);
        (ran.code, value.unwrap_or_else(|error| panic!("not JSON: {error}: {ran:?}")))
    }

    /// A call that does not wait.
    pub(crate) fn call(&self, tool: &str, arguments: &str) -> (Option<i32>, Value) {
        self.json(&["call", tool, arguments, "--wait", "0"])
    }
}

/// A text in a JSON value, by its pointer.
pub(crate) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Where a gate with its page talks to, in its home.
pub(crate) const TALK: &str = "up.talk";

/// The gate with its page; ended when dropped.
pub(crate) struct Up {
    child: Child,
    pub(crate) sign_in: String,
}

impl Up {
    pub(crate) fn start(place: &Place) -> Up {
        let mut command = place.command(&["up", "--listen", "127.0.0.1:0"]);
        command.stderr(fs::File::create(place.home().join(TALK)).expect("a file can be made"));
        let mut child = start(&mut command);
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let mut links = lines.map_while(Result::ok).filter_map(|line| {
            line.split_whitespace().find(|word| word.contains("/sign-in?code=")).map(str::to_owned)
        });
        let sign_in = links.next().expect("it prints a link to sign in");
        Up { child, sign_in }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.id()).expect("a process number")).expect("not 0");
        kill_process(pid, Signal::TERM).expect("it is ours");
    }

    /// Waits until it has ended: its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it is ours").code()
    }

    /// Where it listens, as `http://ADDRESS:PORT`.
    pub(crate) fn url(&self) -> String {
        self.sign_in.split_once("/sign-in").expect("it is a link to sign in").0.to_owned()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
