//! A gate that runs follows its configuration: what changes comes into force, or no call begins.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::{Place, TALK, Up, text};

const FREE: &str = "agents:\n  default:\n    autonomy: full\n";
const LOCKED: &str = "agents:\n  default:\n    autonomy: locked\n";

/// A gate with a page, whose configuration can be changed.
struct Running {
    place: Place,
    up: Up,
    token: String,
}

impl Running {
    fn with(content: &str) -> Option<Running> {
        let place = Place::new()?;
        fs::create_dir_all(place.home()).expect("the home can be made");
        fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        fs::write(file(&place), content).expect("a file can be written");
        let token = place.toolgate(&["agents", "token", "default"]).stdout.trim().to_owned();
        let up = Up::start(&place);
        Some(Running { place, up, token })
    }

    fn write(&self, content: &str) {
        fs::write(file(&self.place), content).expect("a file can be written");
    }

    fn hang_up(&self) {
        let pid = Pid::from_raw(i32::try_from(self.up.id()).expect("a process number")).expect("not 0");
        kill_process(pid, Signal::HUP).expect("it is ours");
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let address = self.up.url().replace("http://", "");
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Whether a file can be written; the reason, if it cannot.
    fn try_to_write(&self) -> Result<(), String> {
        let call = json!({ "tool": "fs.write", "arguments": { "path": "new", "content": "x" } });
        let answer = self.ask("POST", "/v1/calls", &call.to_string());
        match text(&answer, "/status").as_str() {
            "completed" => Ok(()),
            _ => Err(text(&answer, "/reason/code")),
        }
    }

    fn health(&self) -> String {
        text(&self.ask("GET", "/healthz", ""), "/status")
    }

    /// Waits until writing a file ends so.
    fn wait_until(&self, ends: Result<(), &str>) {
        let ends = ends.map_err(str::to_owned);
        let until = Instant::now() + Duration::from_secs(20);
        while self.try_to_write() != ends {
            assert!(Instant::now() < until, "{:?} and not {ends:?}", self.try_to_write());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What it has said so far.
    fn talk(&self) -> String {
        fs::read_to_string(self.place.home().join(TALK)).expect("it talks to a file")
    }

    fn history(&self) -> Vec<Value> {
        let ran = self.place.toolgate(&["policy", "history", "--json"]);
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

fn file(place: &Place) -> PathBuf {
    place.home().join("toolgate.yaml")
}

#[test]
fn a_change_comes_into_force_and_the_ledger_says_since_when() {
    let Some(gate) = Running::with(FREE) else { return };
    assert_eq!(gate.try_to_write(), Ok(()));
    gate.write(LOCKED);
    gate.wait_until(Err("locked"));
    gate.write(FREE);
    gate.hang_up();
    gate.wait_until(Ok(()));
    let history = gate.history();
    let told: Vec<(String, String)> =
        history.iter().map(|entry| (text(entry, "/kind"), text(entry, "/body/by"))).collect();
    let in_force = |by: &str| ("policy.in_force".to_owned(), by.to_owned());
    assert_eq!(told.last(), Some(&in_force("start")), "{history:?}");
    assert!(told.contains(&in_force("reload")) && told.contains(&in_force("signal")), "{history:?}");
    for (later, earlier) in history.iter().zip(history.iter().skip(1)) {
        assert_eq!(text(later, "/body/previous"), text(earlier, "/body/policy"), "{history:?}");
    }
    let verified = gate.place.toolgate(&["ledger", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn while_the_file_cannot_be_understood_calls_are_refused_and_health_is_degraded() {
    let Some(gate) = Running::with(FREE) else { return };
    assert_eq!(gate.health(), "ok");
    gate.write("agents:\n  default:\n    autonomy: fulll\n");
    gate.wait_until(Err("policy_unreadable"));
    assert_eq!(gate.health(), "degraded");
    // Whoever looks still sees.
    assert!(gate.ask("GET", "/v1/calls", "").get("calls").is_some());
    // The very same content again.
    gate.write(FREE);
    gate.wait_until(Ok(()));
    assert_eq!(gate.health(), "ok");
    let history = gate.history();
    let rejected =
        history.iter().find(|entry| text(entry, "/kind") == "policy.rejected").expect("it is on record");
    let why = text(rejected, "/body/why");
    assert!(why.contains("toolgate.yaml:3:15: unknown word `fulll`"), "{why}");
    assert_eq!(text(rejected, "/body/calls"), "refused");
}

#[test]
fn a_change_that_needs_a_restart_is_named_and_nothing_of_it_is_taken() {
    let Some(gate) = Running::with(&format!("{FREE}policy: {{ on_bad_reload: keep }}\n")) else { return };
    gate.write(&format!("{LOCKED}tools: {{ filesystem: {{ max_file_size: 7 }} }}\n"));
    let until = Instant::now() + Duration::from_secs(20);
    let rejected = loop {
        let found = gate.history().into_iter().find(|entry| text(entry, "/kind") == "policy.rejected");
        if let Some(found) = found {
            break found;
        }
        assert!(Instant::now() < until, "nothing is on record");
        std::thread::sleep(Duration::from_millis(300));
    };
    let why = text(&rejected, "/body/why");
    assert_eq!(why, "the gate has to be started anew for changes to `tools.filesystem`");
    assert_eq!(text(&rejected, "/body/calls"), "go on");
    assert_eq!(gate.try_to_write(), Ok(()), "the policy before is in force, as was wished");
    // It is valid, so checking it would say nothing.
    let talk = gate.talk();
    assert!(talk.contains("hint: restart the gate, or take the change back"), "{talk}");
    assert!(!talk.contains("config check"), "{talk}");
    // What is wrong is another matter.
    gate.write("agents:\n  default:\n    autonomy: fulll\n");
    let until = Instant::now() + Duration::from_secs(20);
    while !gate.talk().contains("`toolgate config check` says what is wrong") {
        assert!(Instant::now() < until, "{}", gate.talk());
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_shadow_is_told_of_and_changes_nothing() {
    let Some(gate) = Running::with(FREE) else { return };
    fs::write(gate.place.home().join("next.yaml"), LOCKED).expect("a file can be written");
    gate.write(&format!("{FREE}policy: {{ shadow: next.yaml }}\n"));
    let until = Instant::now() + Duration::from_secs(20);
    let lines = loop {
        assert_eq!(gate.try_to_write(), Ok(()));
        let (_, lines) = gate.place.json(&["policy", "shadow", "--since", "1h"]);
        if lines.as_array().is_some_and(|lines| !lines.is_empty()) {
            break lines;
        }
        assert!(Instant::now() < until, "nothing is told of it");
        std::thread::sleep(Duration::from_millis(300));
    };
    let of = |key: &str| text(&lines, &format!("/0/{key}"));
    assert_eq!(
        (of("tool"), of("from"), of("to"), of("layer"), of("code")),
        ("fs.write".into(), "allow".into(), "deny".into(), "autonomy".into(), "locked".into())
    );
    // One that cannot be read is told of, and left out.
    fs::write(gate.place.home().join("next.yaml"), "agents: [\n").expect("a file can be written");
    gate.hang_up();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(gate.try_to_write(), Ok(()));
    let history = gate.history();
    assert!(history.iter().any(|entry| text(entry, "/body/what") == "shadow"), "{history:?}");
    assert_eq!(gate.health(), "ok");
}

#[test]
fn a_shadow_that_never_stands_still_holds_off_nothing() {
    let Some(gate) = Running::with(FREE) else { return };
    let (shadow, done) = (gate.place.home().join("next.yaml"), AtomicBool::new(false));
    fs::write(&shadow, LOCKED).expect("a file can be written");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                fs::write(&shadow, format!("{LOCKED}# {number}\n")).expect("a file can be written");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let _stop = Stop(&done);
        gate.write(&format!("{LOCKED}policy: {{ shadow: next.yaml }}\n"));
        gate.wait_until(Err("locked"));
        gate.write(&format!("{FREE}policy: {{ shadow: next.yaml }}\n"));
        gate.wait_until(Ok(()));
    });
    // And it is followed once it stands still.
    fs::write(&shadow, FREE).expect("a file can be written");
    let until = Instant::now() + Duration::from_secs(20);
    let size = gate.history().len();
    while gate.history().len() == size {
        assert!(Instant::now() < until, "{:?}", gate.history());
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn what_is_mended_in_a_file_that_was_newly_named_is_taken() {
    let Some(gate) = Running::with(FREE) else { return };
    let rules = gate.place.home().join("rules.cedar");
    fs::write(&rules, "forbid (principal, action, resource").expect("a file can be written");
    gate.write(&format!("{FREE}policy: {{ files: [rules.cedar] }}\n"));
    gate.wait_until(Err("policy_unreadable"));
    let rule = "forbid (principal, action, resource == Tool::\"fs.write\");";
    fs::write(&rules, rule).expect("a file can be written");
    gate.wait_until(Err("denied_by_rule"));
    // Tried again and again, and told once.
    let rejected = gate.history().iter().filter(|entry| text(entry, "/kind") == "policy.rejected").count();
    assert_eq!(rejected, 1, "{:?}", gate.history());
}

#[test]
fn a_change_of_the_shadow_takes_no_half_of_a_policy() {
    let rule = "approval:\n  rules:\n    - { tool: fs.write, action: deny }\n";
    let Some(gate) = Running::with(&format!("{FREE}policy: {{ shadow: next.yaml }}\n{rule}")) else { return };
    let shadow = gate.place.home().join("next.yaml");
    fs::write(&shadow, LOCKED).expect("a file can be written");
    assert_eq!(gate.try_to_write(), Err("denied_by_rule".to_owned()));
    let mut written = format!("{FREE}policy: {{ shadow: next.yaml }}\n");
    fs::write(&shadow, FREE).expect("a file can be written");
    for number in 0..12 {
        written.push_str(&format!("# line {number}\n"));
        gate.write(&written);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(gate.try_to_write(), Err("denied_by_rule".to_owned()), "after line {number}");
    }
    gate.write(&format!("{written}{rule}"));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(gate.try_to_write(), Err("denied_by_rule".to_owned()));
}

/// Ends the writer also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
