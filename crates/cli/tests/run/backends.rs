//! `--backend`: which kind of sandbox, and that none of them is weaker than it says.

use serde_json::Value;

use crate::toolgate::{Gate, ran};

#[test]
fn deny_runs_nothing_and_says_what_to_choose() {
    let gate = Gate::new();
    let said =
        "error: no sandbox backend is configured for this\nhint: choose a backend: `--backend native`\n";
    assert_eq!(gate.run(&["--backend", "deny"], &["echo", "ran"]), ran(3, "", said));
}

#[test]
fn subprocess_gets_the_native_walls_where_they_work() {
    let Some(gate) = Gate::native() else { return };
    let levels = |backend: &str| -> Vec<(String, String)> {
        let ended = gate.run(&["--backend", backend, "--json"], &["true"]);
        let report: Value = serde_json::from_str(&ended.stdout).expect("the report is JSON");
        let entries = report["enforcement"].as_array().expect("a list").clone();
        entries.iter().map(|entry| (entry["control"].to_string(), entry["level"].to_string())).collect()
    };
    assert_eq!(levels("subprocess"), levels("native"));
}

#[test]
fn subprocess_streams_and_passes_codes_through_like_native() {
    let Some(gate) = Gate::native() else { return };
    let script = "echo out; echo err >&2; exit 7";
    assert_eq!(gate.run(&["--backend", "subprocess"], &["sh", "-c", script]), ran(7, "out\n", "err\n"));
}
