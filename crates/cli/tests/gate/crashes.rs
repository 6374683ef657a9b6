//! A gate that is killed in the middle of a call, and what others make of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, Up, text};
use crate::toolgate::{PATIENCE, alive, finish, has, marker, ran, start, until, within_a_second};

/// A call that goes on until somebody ends it, and would change something if it wanted to.
struct Endless {
    marker: String,
    arguments: String,
}

impl Endless {
    fn new(profile: &str) -> Endless {
        let marker = marker();
        // The interval is the mark by which it is found in the list of processes.
        let arguments = format!(
            r#"{{"command":"tail","args":["-f","-s","{marker}","README.md"],"profile":"{profile}","timeout":600}}"#
        );
        Endless { marker, arguments }
    }

    fn words(&self) -> Vec<String> {
        ["call", "shell", &self.arguments, "--key", "k", "--json"].map(str::to_owned).to_vec()
    }

    /// Starts the call in a gate of its own, and waits until the command is up.
    fn begin(&self, place: &Place) -> Child {
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut child = start(&mut place.command(&words));
        let began = Instant::now();
        while !alive(&self.marker).iter().any(|process| process.contains("tail -f")) {
            assert!(began.elapsed() < PATIENCE, "it never begins");
            assert_eq!(child.try_wait().expect("a child can be waited for"), None, "it has ended");
            thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn again(&self, place: &Place) -> (Option<i32>, Value) {
        let words = self.words();
        let ran = place.toolgate(&words.iter().map(String::as_str).collect::<Vec<_>>());
        (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
    }
}

fn killed(mut gate: Child) {
    gate.kill().expect("a child can be killed");
    finish(gate);
}

fn statuses(place: &Place, arguments: &[&str]) -> Vec<String> {
    let (code, calls) = place.json(&[&["calls"], arguments].concat());
    assert_eq!(code, Some(0), "{calls}");
    calls.as_array().expect("a list").iter().map(|call| text(call, "/status")).collect()
}

/// A place with one call whose gate was killed in the middle of it, and the call's id.
fn after_a_kill(endless: &Endless) -> Option<(Place, String)> {
    let place = Place::new()?;
    let gate = endless.begin(&place);
    assert_eq!(statuses(&place, &[]), ["running"], "its gate lives, so others leave it alone");
    assert_eq!(statuses(&place, &["--unresolved"]), Vec::<String>::new());
    killed(gate);
    assert!(within_a_second(|| alive(&endless.marker).is_empty()), "{:?}", alive(&endless.marker));
    let (_, calls) = place.json(&["calls"]);
    Some((place, text(&calls, "/0/call_id")))
}

#[test]
fn a_call_whose_gate_was_killed_is_unknown_listed_and_not_repeated() {
    let endless = Endless::new("build");
    let Some((place, id)) = after_a_kill(&endless) else { return };
    assert_eq!(statuses(&place, &["--unresolved"]), ["unknown"]);
    let (code, again) = endless.again(&place);
    assert_eq!((code, text(&again, "/status").as_str()), (Some(2), "unknown"), "{again}");
    assert_eq!(text(&again, "/call_id"), id, "the same key is the same call");
    assert_eq!(text(&again, "/reason/code"), "outcome_unknown");
    assert_eq!(statuses(&place, &[]).len(), 1);
    let shown = place.toolgate(&["receipt", "show", &id]);
    assert!(shown.stdout.contains("status     unknown"), "{shown:?}");
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
    let listed = place.toolgate(&["calls", "--unresolved"]);
    assert!(listed.stdout.contains("tail -f") && listed.stderr.contains("toolgate reconcile"), "{listed:?}");
}

#[test]
fn what_did_not_happen_may_be_made_again_under_the_same_key() {
    let endless = Endless::new("build");
    let Some((place, id)) = after_a_kill(&endless) else { return };
    let said = place.toolgate(&["reconcile", &id[..8], "--did-not", "--reason", "no trace of it"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(statuses(&place, &["--unresolved"]), Vec::<String>::new());
    let second = place.toolgate(&["receipt", "show", &id]);
    assert!(second.stdout.contains("did_not by me: no trace of it"), "{second:?}");
    let gate = endless.begin(&place);
    assert_eq!(statuses(&place, &[]), ["running", "failed"], "it runs again");
    killed(gate);
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn what_happened_is_not_made_again_and_the_same_key_is_told_so() {
    let endless = Endless::new("build");
    let Some((place, id)) = after_a_kill(&endless) else { return };
    let added = place.toolgate(&["operators", "add", "guest", "--role", "viewer", "--out", "guest.key"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let guest = place.toolgate(&["reconcile", &id, "--happened", "--key-file", "guest.key"]);
    assert!(guest.code == Some(3) && guest.stderr.contains("`guest` may not reconcile"), "{guest:?}");
    let (code, said) = place.json(&["reconcile", &id, "--happened", "--reason", "I saw it"]);
    assert_eq!((code, text(&said, "/status").as_str()), (Some(0), "completed"), "{said}");
    let (code, again) = endless.again(&place);
    assert_eq!((code, text(&again, "/call_id")), (Some(0), id.clone()), "{again}");
    assert!(text(&again, "/content").contains("`me` found out: I saw it"), "{again}");
    let envelopes = place.toolgate(&["receipt", "show", &id, "--json"]).stdout;
    assert_eq!(envelopes.lines().count(), 2, "what the gate knew, and what a person found out: {envelopes}");
    std::fs::write(place.work().join("both.json"), &envelopes).expect("they can be kept");
    let verified = place.toolgate(&["receipt", "verify", "both.json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let (first, second) =
        verified.stdout.split_once("reconciled happened by me: I saw it").unwrap_or_default();
    assert!(first.contains("status     unknown") && first.contains("status     completed"), "{verified:?}");
    assert!(!second.is_empty(), "{verified:?}");
    let last = envelopes.lines().last().unwrap_or_default();
    std::fs::write(place.work().join("second.json"), last).expect("it can be kept");
    let verified = place.toolgate(&["receipt", "verify", "second.json"]);
    assert!(verified.stdout.contains("reconciled happened by me: I saw it"), "{verified:?}");
    let forged = envelopes.replacen("\"sig\":\"", "\"sig\":\"AAAA", 1);
    std::fs::write(place.work().join("both.json"), forged).expect("it can be changed");
    assert_eq!(place.toolgate(&["receipt", "verify", "both.json"]).code, Some(1), "one of them is broken");

    for found in ["--happened", "--did-not"] {
        let twice = place.toolgate(&["reconcile", &id, found]);
        assert_eq!(
            twice,
            ran(3, "", format!("error: the call `{id}` is reconciled already: happened\n")),
            "{found}"
        );
    }
}

#[test]
fn what_only_reads_is_made_again_freely() {
    let endless = Endless::new("inspect");
    let Some((place, _)) = after_a_kill(&endless) else { return };
    assert_eq!(statuses(&place, &[]), ["failed"]);
    assert_eq!(statuses(&place, &["--unresolved"]), Vec::<String>::new());
    let gate = endless.begin(&place);
    assert_eq!(statuses(&place, &[]), ["running", "failed"]);
    killed(gate);
}

#[test]
fn only_what_nobody_knows_is_reconciled() {
    let Some(place) = Place::new() else { return };
    let (_, read) = place.call("fs.read", r#"{"path":"README.md"}"#);
    let id = text(&read, "/call_id");
    let known = place.toolgate(&["reconcile", &id, "--did-not"]);
    let said = format!("error: the outcome of the call `{id}` is known: it is completed\n");
    assert_eq!(known, ran(3, "", said));
    assert_eq!(place.toolgate(&["reconcile", "ffffffff", "--did-not"]).code, Some(2));
    for found in [&["--did-not", "--happened"][..], &[]] {
        assert_eq!(place.toolgate(&[&["reconcile", &id], found].concat()).code, Some(2), "{found:?}");
    }
    let nothing = place.toolgate(&["calls", "--unresolved"]);
    assert_eq!(nothing, ran(0, "", "the outcome of every call is known\n"));
}

#[test]
fn reconciling_takes_an_operators_credential() {
    let endless = Endless::new("build");
    let Some((place, id)) = after_a_kill(&endless) else { return };
    std::fs::write(place.home().join("operator.key"), "0".repeat(64)).expect("it can be replaced");
    let refused = place.toolgate(&["reconcile", &id, "--did-not"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert_eq!(statuses(&place, &["--unresolved"]), ["unknown"]);
}

#[test]
fn sandboxes_that_wait_end_with_a_gate_that_is_killed() {
    let Some(place) = Place::new() else { return };
    if !has("curl") {
        return;
    }
    let up = Up::start(&place);
    let token = place.toolgate(&["agents", "token", "default"]).stdout;
    for _ in 0..3 {
        let mut call = Command::new("curl");
        call.args(["--silent", "--json", r#"{"tool":"shell","arguments":{"command":"true"}}"#])
            .args(["--header", &format!("Authorization: Bearer {}", token.trim())])
            .arg(format!("{}/v1/calls", up.url()));
        place.settle(&mut call);
        let answer = finish(start(&mut call)).stdout;
        assert!(answer.contains(r#""status":"completed""#), "{answer}");
    }
    // A zygote, a launcher and its init, besides whatever has just ended.
    until("a sandbox waits", || (descendants(up.id()).len() > 2).then_some(()));
    let waiting = descendants(up.id());
    drop(up);
    let alive = || {
        waiting.iter().filter(|pid| Path::new("/proc").join(pid).join("fd/0").exists()).collect::<Vec<_>>()
    };
    assert!(within_a_second(|| alive().is_empty()), "{:?} live on", alive());
}

/// The numbers of all processes beneath one.
fn descendants(pid: u32) -> Vec<String> {
    let mut found = vec![pid.to_string()];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        // Each thread has its own.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
        let children = children.map(Result::unwrap_or_default).collect::<Vec<String>>().join(" ");
        found.extend(children.split_whitespace().map(str::to_owned));
        at += 1;
    }
    found.split_off(1)
}
