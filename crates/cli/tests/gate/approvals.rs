//! Calls that wait for people.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::place::{CLEAN, Place, text};
use crate::toolgate::{finish, start, until};

#[test]
fn a_risky_call_waits_is_approved_and_runs_once() {
    let Some(place) = Place::new() else { return };
    let (code, waiting) = place.call("shell", CLEAN);
    assert_eq!((code, text(&waiting, "/status").as_str()), (Some(4), "waiting"), "{waiting}");
    assert!(place.work().join("build").exists());
    let id = text(&waiting, "/approval/id");

    let listed = place.toolgate(&["approvals"]);
    assert!(listed.stdout.contains(&id[..8]) && listed.stdout.contains("rm -r build"), "{listed:?}");

    let approved = place.toolgate(&["approve", &id[..8]]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(place.work().join("build").exists(), "an approval alone runs nothing");

    let (code, done) = place.call("shell", CLEAN);
    assert_eq!((code, done.get("call_id")), (Some(0), waiting.get("call_id")), "{done}");
    assert!(!place.work().join("build").exists());

    let shown = place.toolgate(&["receipt", "show", &text(&done, "/receipt")]);
    assert!(shown.stdout.contains("approved   by me via cli"), "{shown:?}");

    // The yes was for that one call: the same call again asks again.
    let (code, again) = place.call("shell", CLEAN);
    assert_eq!(code, Some(4), "{again}");
    assert_ne!(again.get("call_id"), done.get("call_id"));
}

#[test]
fn a_question_lists_the_files_that_a_yes_is_good_for_and_the_approved_ones_run() {
    let Some(place) = Place::new() else { return };
    let script = place.work().join("release.sh");
    fs::write(&script, "echo approved > out\n").expect("a script can be written");
    let call = r#"{"command":"sh","args":["release.sh","build"],"profile":"mutate"}"#;
    let (_, waiting) = place.call("shell", call);
    let id = text(&waiting, "/approval/id");

    let listed = place.toolgate(&["approvals"]).stdout;
    let lines: Vec<&str> = listed.lines().map(str::trim).collect();
    assert!(
        lines.iter().any(|line| line.starts_with("bound    release.sh") && line.ends_with("sealed copy")),
        "{listed}"
    );
    assert!(lines.contains(&"build: a directory: what is in it may change"), "{listed}");
    let (_, waits) = place.json(&["approvals"]);
    assert_eq!(text(&waits, "/0/operands/bound/0/path"), "release.sh");
    let digest = text(&waits, "/0/operands/bound/0/digest");
    assert_eq!(digest.len(), 64, "{waits}");

    assert_eq!(place.toolgate(&["approve", &id]).code, Some(0));
    fs::write(&script, "echo swapped > out\n").expect("a script can be written");
    let (code, done) = place.call("shell", call);
    assert_eq!(code, Some(0), "{done}");
    assert_eq!(fs::read_to_string(place.work().join("out")).expect("it ran"), "approved\n");
    let shown = place.toolgate(&["receipt", "show", &text(&done, "/receipt")]).stdout;
    assert!(shown.contains("bound") && shown.contains(&digest[..16]), "{shown}");
}

#[test]
fn a_file_that_has_changed_since_it_was_approved_is_left_alone() {
    let Some(place) = Place::new() else { return };
    let file = place.work().join("notes");
    fs::write(&file, "old").expect("a file can be written");
    let call = r#"{"path":"notes"}"#;
    let (_, waiting) = place.call("fs.delete", call);
    assert_eq!(place.toolgate(&["approve", &text(&waiting, "/approval/id")]).code, Some(0));
    fs::write(&file, "new").expect("a file can be written");
    let (code, failed) = place.call("fs.delete", call);
    assert_eq!((code, text(&failed, "/reason/code").as_str()), (Some(1), "changed"), "{failed}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
}

#[test]
fn a_call_that_still_waits_goes_on_by_itself_once_it_is_approved() {
    let Some(place) = Place::new() else { return };
    let waiting = start(&mut place.command(&["call", "shell", CLEAN, "--wait", "20", "--json"]));
    let id = until("it waits", || {
        let (_, waits) = place.json(&["approvals"]);
        Some(text(&waits, "/0/id")).filter(|id| !id.is_empty())
    });
    assert_eq!(place.toolgate(&["approve", &id]).code, Some(0));
    let ran = finish(waiting);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!place.work().join("build").exists());
}

#[test]
fn a_denied_call_is_refused_with_the_reason() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    assert_eq!(place.toolgate(&["deny", &id, "--reason", "not today"]).code, Some(0));
    let (_, shown) = place.json(&["receipt", "show", &text(&waiting, "/call_id")]);
    assert!(shown.get("payload").is_some(), "{shown}");
    let plain = place.toolgate(&["receipt", "show", &text(&waiting, "/call_id")]);
    assert!(plain.stdout.contains("`me` said no: not today"), "{plain:?}");
    assert!(place.work().join("build").exists());
}

#[test]
fn deciding_twice_is_an_error() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let id = text(&waiting, "/approval/id");
    assert_eq!(place.toolgate(&["approve", &id]).code, Some(0));
    assert_eq!(place.toolgate(&["approve", &id]).code, Some(3));
    assert_eq!(place.toolgate(&["deny", &id]).code, Some(3));
}

#[test]
fn nobody_decides_without_the_operators_credential() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    fs::write(place.home().join("operator.key"), "a".repeat(64)).expect("it can be replaced");
    let key = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.home().join("operator.key"), key).expect("its mode can be set");
    // A credential that nobody has is made an operator's by nothing but the first start.
    let refused = place.toolgate(&["approve", &text(&waiting, "/approval/id")]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(place.work().join("build").exists());
}

#[test]
fn an_unknown_or_short_id_is_an_error() {
    let Some(place) = Place::new() else { return };
    assert_eq!(place.toolgate(&["approve", "ffffffff"]).code, Some(2));
    assert_eq!(place.toolgate(&["approve", "f"]).code, Some(2));
}

#[test]
fn an_agent_cannot_bury_people_in_questions() {
    let Some(place) = Place::new() else { return };
    let ask = |number: usize| {
        let arguments = format!(r#"{{"command":"rm","args":["f{number}"],"profile":"mutate"}}"#);
        place.call("shell", &arguments)
    };
    for number in 0..20 {
        assert_eq!(ask(number).0, Some(4));
    }
    let (code, refused) = ask(20);
    assert_eq!((code, text(&refused, "/reason/code").as_str()), (Some(3), "rate_limited"), "{refused}");
}
