//! How what happened is told to people.

use std::process::Stdio;

use crate::place::{CLEAN, Place, text};
use crate::toolgate::{finish, start};

/// Where a text begins in a line, in characters.
fn column(line: &str, of: &str) -> usize {
    let before = line.split_once(of).unwrap_or_else(|| panic!("no `{of}` in `{line}`")).0;
    before.chars().count()
}

#[test]
fn a_failure_is_told_once_with_what_to_do_about_it() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["call", "fs.read", r#"{"path":"nope"}"#]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert_eq!(ran.stderr.matches("there is no `nope`").count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("hint: `fs.list` shows what is there"), "{ran:?}");
    let ran = place.toolgate(&["call", "fs.move", r#"{"from":"README.md","to":"build/old.o"}"#]);
    assert!(ran.stderr.contains("failed: `build/old.o` exists already"), "{ran:?}");
    assert!(ran.stderr.contains("hint: with `overwrite` a file replaces a file"), "{ran:?}");
}

#[test]
fn a_call_that_waits_says_for_how_long() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["call", "shell", CLEAN, "--wait", "1"]);
    assert!(ran.code == Some(4) && ran.stderr.contains("  waits    1 s for an answer"), "{ran:?}");
    let ran = place.toolgate(&["call", "shell", CLEAN, "--wait", "0"]);
    assert!(ran.code == Some(4) && !ran.stderr.contains("  waits"), "{ran:?}");
}

#[test]
fn what_was_erased_is_said_to_be() {
    let Some(place) = Place::new() else { return };
    let (_, result) = place.call("fs.read", r#"{"path":"README.md"}"#);
    let id = text(&result, "/call_id");
    let tell = |arguments: &[&str]| place.toolgate(arguments).stdout;
    let lists: [&[&str]; 3] = [&["calls"], &["receipt", "list"], &["receipt", "show", &id]];
    assert!(lists.iter().all(|list| !tell(list).contains("erased") && tell(list).contains("README.md")));
    assert_eq!(place.toolgate(&["erase", &id]).code, Some(0));
    for list in lists {
        assert!(tell(list).contains("(erased)"), "{list:?}: {}", tell(list));
    }
}

#[test]
fn a_call_that_waits_has_given_nothing_to_be_revealed() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let shown = place.toolgate(&["reveal", &text(&waiting, "/call_id")]);
    assert!(shown.stdout.contains("  raw        nothing yet"), "{shown:?}");
}

#[test]
fn the_ledger_says_about_whom_its_entries_are() {
    let Some(place) = Place::new() else { return };
    let added = place.toolgate(&["operators", "add", "alice", "--role", "viewer", "--out", "alice.key"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let told = place.toolgate(&["ledger", "show"]).stdout;
    let line = told.lines().find(|line| line.contains("operator.added") && line.contains("alice"));
    assert!(line.is_some_and(|line| line.ends_with("alice by me")), "{told}");
}

#[test]
fn lists_have_columns() {
    let Some(place) = Place::new() else { return };
    let added = place.toolgate(&["operators", "add", "alice.accounts", "--role", "viewer", "--out", "a.key"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let told = place.toolgate(&["operators", "list"]).stdout;
    let columns: Vec<usize> = told.lines().map(|line| column(line, "since")).collect();
    assert!(columns.len() == 2 && columns[0] == columns[1], "{told}");

    place.call("fs.read", r#"{"path":"README.md"}"#);
    place.call("shell", r#"{"command":"ls","args":["README.md"]}"#);
    let told = place.toolgate(&["calls"]).stdout;
    let columns: Vec<usize> = told.lines().map(|line| column(line, "README.md")).collect();
    assert_eq!(columns[0] - "ls ".len(), columns[1], "{told}");

    place.call("fs.delete", r#"{"path":"build","recursive":true}"#);
    let told = place.toolgate(&["approvals"]).stdout;
    let begin = told.lines().find(|line| line.ends_with('{')).expect("it is told with what");
    let end = told.lines().find(|line| line.trim() == "}").expect("the arguments end");
    assert_eq!(column(begin, "{"), column(end, "}"), "{told}");
}

#[test]
fn whoever_stops_reading_an_export_has_seen_enough() {
    let Some(place) = Place::new() else { return };
    place.call("fs.read", r#"{"path":"README.md"}"#);
    let mut child = start(place.command(&["ledger", "export"]).stdout(Stdio::piped()));
    drop(child.stdout.take());
    let ran = finish(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn an_explanation_names_the_level() {
    let Some(place) = Place::new() else { return };
    let told = place.toolgate(&["explain", "fs.read", r#"{"path":"README.md"}"#]).stdout;
    assert!(told.contains("within what level `standard` lets `file_system` do"), "{told}");
}
