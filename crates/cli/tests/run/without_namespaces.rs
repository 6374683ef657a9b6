//! A host that does not let anyone make user namespaces: nothing runs, and the way out is named exactly.

use std::process::Command;

use serde_json::{Value, json};

use crate::toolgate::{Gate, Ran, binary, finish, has, missing, ran, start};

const ERROR: &str = "cannot create user and process namespaces: No space left on device (os error 28)";
const FIX: &str = "user namespaces are off: `sudo sysctl user.max_user_namespaces=15000`";

#[test]
fn a_run_is_refused_with_the_exact_fix() {
    let Some(host) = Host::without_namespaces() else { return };
    let said = format!("error: {ERROR}\nhint: {FIX}\n");
    assert_eq!(host.toolgate(&["run", "--", "echo", "ran"]), ran(125, "", said));
}

#[test]
fn a_proof_from_better_days_changes_nothing() {
    let Some(gate) = Gate::native() else { return };
    let Some(host) = Host::without_namespaces_for(gate) else { return };
    let said = format!("error: {ERROR}\nhint: {FIX}\n");
    assert_eq!(host.toolgate(&["run", "--", "echo", "ran"]), ran(125, "", said));
}

#[test]
fn the_refusal_is_json_when_asked() {
    let Some(host) = Host::without_namespaces() else { return };
    let ended = host.toolgate(&["run", "--json", "--", "echo", "ran"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(125), ""));
    let said: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    let expected = json!({"error": {"code": "sandbox_cannot_build", "message": ERROR, "hint": FIX}});
    assert_eq!(said, expected);
}

#[test]
fn doctor_says_that_nothing_is_usable_and_why() {
    let Some(host) = Host::without_namespaces() else { return };
    let ended = host.toolgate(&["doctor"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for line in [
        "  user namespaces  restricted",
        &format!("native sandbox    {ERROR}"),
        &format!("fix: {FIX}"),
        "not usable: without every wall marked * nothing is run",
    ] {
        assert!(ended.stdout.lines().any(|found| found == line), "no line {line:?} in\n{}", ended.stdout);
    }
    let ended = host.toolgate(&["doctor", "--json"]);
    let said: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(
        (ended.code, &said["usable"], &said["error"], &said["fix"], &said["controls"]),
        (Some(3), &json!(false), &json!(ERROR), &json!(FIX), &json!([]))
    );
}

/// What `--help` promises of `subprocess`: a plain process, which says that nothing holds it.
#[test]
fn subprocess_becomes_a_plain_process_and_says_so() {
    let Some(host) = Host::without_namespaces() else { return };
    let ended =
        host.toolgate(&["run", "--backend", "subprocess", "--json", "--", "sh", "-c", "echo ran; exit 7"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(7), ""), "{}", ended.stdout);
    let report: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(report["stdout"]["text"], "ran\n");
    let level = |name: &str| {
        let entries = report["enforcement"].as_array().expect("a list");
        entries.iter().find(|entry| entry["control"] == name).expect("it is there")["level"].clone()
    };
    assert_eq!(
        (level("filesystem"), level("network"), level("environment")),
        (json!("absent"), json!("absent"), json!("enforced"))
    );
}

/// A plain process cannot confine writing, so it is not trusted with any.
#[test]
fn subprocess_without_walls_is_granted_nothing_to_write() {
    let Some(host) = Host::without_namespaces() else { return };
    let ended = host.toolgate(&[
        "run",
        "--backend",
        "subprocess",
        "--profile",
        "build",
        "--rw",
        ".",
        "--",
        "echo",
        "ran",
    ]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
}

/// A user namespace in which no further one can be made: as near as a test comes to such a kernel.
struct Host {
    gate: Gate,
}

impl Host {
    fn without_namespaces() -> Option<Host> {
        Host::without_namespaces_for(Gate::new())
    }

    fn without_namespaces_for(gate: Gate) -> Option<Host> {
        if !has("unshare") {
            return None;
        }
        let host = Host { gate };
        let probe = host.inside("true", &[]);
        if probe.code != Some(0) {
            missing("unshare", &format!("a user namespace cannot be made: {}", probe.stderr));
            return None;
        }
        Some(host)
    }

    fn toolgate(&self, arguments: &[&str]) -> Ran {
        self.inside("exec \"$0\" \"$@\"", arguments)
    }

    fn inside(&self, script: &str, arguments: &[&str]) -> Ran {
        let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && {script}");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", &script]).arg(binary()).args(arguments);
        self.gate.settle(&mut command);
        finish(start(&mut command))
    }
}
