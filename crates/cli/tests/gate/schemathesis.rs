//! What schemathesis makes of the API: it asks a real gate by the OpenAPI document, as an agent and as an admin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::clients::clients;
use crate::place::{CLEAN, Place, Up, text};
use crate::toolgate::{finish_within, missing, start};

const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// What it would never guess: things that there are.
fn known(call: &str, approval: &str) -> String {
    let of = |paths: &str, name: &str, value: &str| {
        format!(
            "[[operations]]\ninclude-path-regex = \"^{paths}/\"\nparameters = {{ \"path.{name}\" = \"{value}\" }}\n"
        )
    };
    [
        of("/v1/calls", "id", call),
        of("/v1/approvals", "id", approval),
        of("/v1/(tools|registry)", "name", "fs.read"),
        of("/v1/agents", "name", "spare"),
        of("/v1/operators", "name", "guest"),
        of("/v1/ledger/proof", "seq", "1"),
        of("/assets", "file", "console.js"),
    ]
    .concat()
}

/// Every status that an operation was answered with.
fn answered(report: &Path) -> BTreeMap<String, BTreeSet<u64>> {
    let mut answered: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let lines = BufReader::new(fs::File::open(report).expect("it reports")).lines();
    for line in lines.map_while(Result::ok) {
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(recorder) = line.pointer("/ScenarioFinished/recorder") else { continue };
        let statuses = answered.entry(text(recorder, "/label")).or_default();
        let interactions = recorder.get("interactions").and_then(Value::as_object);
        let of = |one: &Value| one.pointer("/response/status_code").and_then(Value::as_u64);
        statuses.extend(interactions.into_iter().flatten().filter_map(|(_, one)| of(one)));
    }
    answered
}

#[test]
fn schemathesis_finds_neither_a_failure_of_the_gate_nor_an_answer_that_the_document_does_not_tell_of() {
    let Some(place) = Place::new() else { return };
    let Some(clients) = clients() else { return };
    let schemathesis = clients.join("st/bin/st");
    if !schemathesis.exists() {
        return missing("clients", "there is no schemathesis");
    }
    let settings = "agents: { default: {}, spare: {} }\napproval: { timeout_seconds: 3600 }\n";
    fs::write(place.home().join("toolgate.yaml"), settings).expect("settings can be written");
    assert_eq!(place.toolgate(&["operators", "add", "guest", "--role", "viewer"]).code, Some(0));
    let up = Up::start(&place);
    // Passkeys belong to a name.
    let url = up.url().replace("127.0.0.1", "localhost");
    let (_, waiting) = place.call("shell", CLEAN);
    let (call, approval) = (text(&waiting, "/call_id"), text(&waiting, "/approval/id"));
    let settings = place.home().join("schemathesis.toml");
    fs::write(&settings, known(&call, &approval)).expect("settings can be written");
    let seconds = if std::env::var_os("TOOLGATE_LONG").is_some() { 300 } else { 36 };
    let agent = place.toolgate(&["agents", "token", "default"]).stdout.trim().to_owned();
    let operator = fs::read_to_string(place.home().join("operator.key")).expect("there is an operator");
    // Each sees what is its own; an operator's requests name the agent that is meant.
    let named = Some("X-Toolgate-Agent: default");
    for (whose, token, more, least) in [("agent", agent, None, 12), ("admin", operator, named, 38)] {
        let report = place.home().join(format!("{whose}.ndjson"));
        let mut command = Command::new(&schemathesis);
        command.arg("--config-file").arg(&settings).args(["run", &format!("{url}/openapi.json")]);
        command.args(["--max-time", &(seconds / 2).to_string(), "--checks", CHECKS]);
        command.args(["--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color", "--seed", "1"]);
        // What never ends, and what has a suite of its own.
        command.args(["--exclude-path-regex", "^/v1/events$|^/mcp$", "--request-timeout", "20"]);
        command.args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
        command.arg("--report-ndjson-path").arg(&report);
        if let Some(more) = more {
            command.args(["-H", more]);
        }
        place.settle(&mut command);
        let ran = finish_within(start(&mut command), Duration::from_secs(seconds * 3 + 60));
        assert_eq!(ran.code, Some(0), "as {whose}: {}\n{}", ran.stdout, ran.stderr);
        // A run in which everything was refused at the door would find nothing either.
        let answered = answered(&report);
        let only =
            |statuses: &BTreeSet<u64>, known: &[u64]| statuses.iter().all(|status| known.contains(status));
        let done = answered.values().filter(|statuses| statuses.iter().any(|status| *status < 400)).count();
        let outside: Vec<&String> = answered
            .iter()
            .filter(|(_, statuses)| only(statuses, &[401, 405]))
            .map(|(label, _)| label)
            .collect();
        let all = answered.len();
        let _ = writeln!(
            std::io::stderr(),
            "schemathesis as {whose}: {all} operations, {done} of them done, never let in: {outside:?}"
        );
        assert!(done >= least, "as {whose}: {answered:?}");
        assert!(outside.is_empty(), "as {whose}: {outside:?}");
    }
    // Thousands of requests have left a long ledger.
    let verified = finish_within(start(&mut place.command(&["ledger", "verify"])), Duration::from_secs(300));
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
