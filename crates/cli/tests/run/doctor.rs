//! `toolgate doctor`: every control on this host, by a fresh trial.

use jail::Control;
use serde_json::Value;

use crate::parts_of;
use crate::toolgate::{Gate, Ran, finish, start};

#[test]
fn the_table_names_every_control_in_order_and_the_verdict() {
    let Some(gate) = Gate::native() else { return };
    let ended = doctor(&gate, &[]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), "trying every wall from inside a fresh sandbox …\n")
    );
    let mut parts = ended.stdout.split("\n\n");
    let (host, table, verdict) = (parts.next(), parts.next(), parts.next());
    assert!(host.is_some_and(|host| host.starts_with("host\n  kernel           ")), "{}", ended.stdout);
    let rows: Vec<&str> = table.expect("a table").lines().collect();
    assert_eq!(rows[0], "native sandbox    state     canary   by");
    let named: Vec<(bool, &str)> = rows[1..]
        .iter()
        .filter_map(|row| Some((row.starts_with('*'), row.get(2..)?.split(' ').next()?)))
        // A row that tells what got through has no name.
        .filter(|(_, name)| !name.is_empty())
        .collect();
    let expected: Vec<(bool, &str)> =
        Control::ALL.iter().map(|control| (control.is_required(), control.name())).collect();
    assert_eq!(named, expected);
    assert!(verdict.is_some_and(|verdict| verdict.starts_with("usable: ")), "{}", ended.stdout);
}

#[test]
fn no_required_wall_lets_its_canary_through() {
    let Some(gate) = Gate::native() else { return };
    let found = json_of(&doctor(&gate, &["--json"]));
    assert_eq!(found["usable"], true);
    let controls = found["controls"].as_array().expect("a list");
    let names: Vec<&str> = controls.iter().filter_map(|entry| entry["control"].as_str()).collect();
    assert_eq!(names, Control::ALL.map(Control::name));
    for control in Control::ALL.into_iter().filter(|control| control.is_required()) {
        let entry = controls.iter().find(|entry| entry["control"] == control.name()).expect("it is there");
        assert_eq!((&entry["level"], &entry["canary"]), (&"enforced".into(), &"held".into()), "{entry}");
    }
}

#[test]
fn json_has_exactly_these_parts() {
    let Some(gate) = Gate::native() else { return };
    let ended = doctor(&gate, &["--json"]);
    assert_eq!(ended.stderr, "");
    let found = json_of(&ended);
    assert_eq!(parts_of(&found), ["controls", "error", "fix", "host", "usable"]);
    let host: Vec<&str> =
        found["host"].as_array().expect("a list").iter().filter_map(|fact| fact["name"].as_str()).collect();
    assert_eq!(host, ["kernel", "caller", "user namespaces", "landlock", "cgroups", "in a container"]);
}

#[test]
fn what_it_proves_is_kept_for_runs_and_nothing_else_is_left() {
    if Gate::native().is_none() {
        return;
    }
    let gate = Gate::new();
    assert_eq!(doctor(&gate, &[]).code, Some(0));
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(gate.place(folder)).expect("it can be listed").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("state"), ["native-proof.json"]);
    assert_eq!((names("tmp"), names("home"), names("work")), (vec![], vec![], vec![]));
}

/// ATTACK(planted-proof): a proof that somebody else could have written counts for nothing.
#[test]
fn a_proof_that_others_can_write_is_made_anew() {
    let Some(gate) = Gate::native() else { return };
    let proof = gate.state().join("native-proof.json");
    let honest = std::fs::read_to_string(&proof).expect("it is there");
    let forged = honest.replace("\"level\":\"enforced\"", "\"level\":\"absent\"");
    assert_ne!(forged, honest);
    let plant = |mode: u32| {
        std::fs::write(&proof, &forged).expect("it can be written");
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&proof, permissions).expect("its mode can be set");
        gate.run(&[], &["true"]).code
    };
    // It counts as long as only we could have written it, so the test can fail.
    assert_eq!(plant(0o600), Some(125));
    assert_eq!(plant(0o666), Some(0));
}

fn doctor(gate: &Gate, options: &[&str]) -> Ran {
    finish(start(&mut gate.command(&[&["doctor"], options].concat())))
}

fn json_of(ended: &Ran) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}
