//! What people and machines get wrong: a clear error, nothing lost, the exit code that is promised.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::place::Place;

#[test]
fn arguments_that_are_not_json_are_a_usage_error() {
    let Some(place) = Place::new() else { return };
    for arguments in ["{", "", "nope", r#"{"path":"a","path":"b"}"#, r#"{"path":"a"}x"#, r#"{"a":1e999}"#] {
        let ran = place.toolgate(&["call", "fs.read", arguments]);
        assert_eq!(ran.code, Some(2), "{arguments}: {ran:?}");
        assert!(ran.stderr.starts_with("error: the arguments are not understood"), "{ran:?}");
        let hint = "hint: arguments are a JSON object, such as '{\"path\":\"README.md\"}'; `toolgate tools show fs.read` has examples";
        assert!(ran.stderr.contains(hint), "{ran:?}");
    }
}

#[test]
fn names_that_are_none_are_usage_errors() {
    let Some(place) = Place::new() else { return };
    for option in [["--agent", "no such"], ["--task", "a/b"], ["--key", "a b"]] {
        let ran = place.toolgate(&["call", "fs.read", "{}", option[0], option[1]]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}

#[test]
fn an_agent_that_is_not_configured_gets_nothing() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["call", "fs.read", r#"{"path":"README.md"}"#, "--agent", "stranger"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn a_store_that_is_none_is_an_error_with_a_hint() {
    let Some(place) = Place::new() else { return };
    fs::write(place.work().join("not.db"), "not a database, and long enough to look like a file")
        .expect("written");
    for store in ["sqlite:/proc/nowhere/x.db", "sqlite:not.db", "oracle:x", "sqlite:"] {
        let ran = place.toolgate(&["call", "fs.read", r#"{"path":"README.md"}"#, "--store", store]);
        assert_eq!(ran.code, Some(2), "{store}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let Some(place) = Place::new() else { return };
    assert_eq!(place.call("fs.read", r#"{"path":"README.md"}"#).0, Some(0));
    let key = place.home().join("signing.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("its mode can be set");
    let ran = place.toolgate(&["call", "fs.read", r#"{"path":"README.md"}"#]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_read_only_store_runs_nothing() {
    let Some(place) = Place::new() else { return };
    place.call("fs.read", r#"{"path":"README.md"}"#);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        return; // Root writes to what it likes.
    }
    let store = place.home().join("toolgate.db");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o400)).expect("its mode can be set");
    let ran = place.toolgate(&["call", "fs.write", r#"{"path":"new.txt","content":"x"}"#]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!place.work().join("new.txt").exists());
}

#[test]
fn what_guards_an_agent_is_not_kept_where_the_agent_writes() {
    let Some(place) = Place::new() else { return };
    fs::write(place.work().join("gate.yaml"), "{}").expect("a file can be written");
    fs::create_dir(place.work().join("state")).expect("a folder can be made");
    let read = ["call", "fs.read", r#"{"path":"README.md"}"#];
    for option in [["--store", "sqlite:here.db"], ["--config", "gate.yaml"]] {
        let ran = place.toolgate(&[&read[..], &option].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("an agent could change what guards it"), "{ran:?}");
    }
    let mut command = place.command(&read);
    command.env("TOOLGATE_HOME", place.work().join("state"));
    let ran = crate::toolgate::finish(crate::toolgate::start(&mut command));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let mut command = place.command(&read);
    command.current_dir(place.home());
    let ran = crate::toolgate::finish(crate::toolgate::start(&mut command));
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_home_that_is_refused_is_not_made_and_one_that_cannot_be_is_told_with_a_hint() {
    let Some(place) = Place::new() else { return };
    let at = |home: std::path::PathBuf| {
        let mut command = place.command(&["call", "fs.list", "{}"]);
        command.env("TOOLGATE_HOME", home);
        crate::toolgate::finish(crate::toolgate::start(&mut command))
    };
    let ran = at(place.work().join(".tg/deep"));
    assert!(ran.code == Some(2) && ran.stderr.contains("an agent could change what guards it"), "{ran:?}");
    assert!(!place.work().join(".tg").exists(), "nothing is left of it");
    let ran = at("/proc/nowhere".into());
    assert!(ran.code == Some(2) && ran.stderr.starts_with("error: cannot make `/proc/nowhere`"), "{ran:?}");
    assert!(ran.stderr.contains("hint: set TOOLGATE_HOME to a directory that is yours alone"), "{ran:?}");
}

#[test]
fn the_whole_machine_is_no_workspace() {
    let Some(place) = Place::new() else { return };
    let mut command = place.command(&["call", "fs.list", "{}"]);
    command.current_dir("/");
    let ran = crate::toolgate::finish(crate::toolgate::start(&mut command));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("error: the workspace is `/`"), "{ran:?}");
    assert!(ran.stderr.contains("hint: start in a project's own directory"), "{ran:?}");
}

#[test]
fn a_word_that_an_argument_does_not_take_is_answered_with_those_it_takes() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["call", "shell", r#"{"command":"ls","profile":"inspct"}"#]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let told = "/profile: the value is not one of `inspect`, `build`, `mutate` and `networked`, did you mean `inspect`?";
    assert!(ran.stderr.contains(told), "{ran:?}");
}

#[test]
fn a_ledger_that_is_not_there_is_not_made_to_be_verified() {
    let Some(place) = Place::new() else { return };
    for arguments in [&["ledger", "verify"][..], &["ledger", "show"], &["receipt", "show", "abcd"]] {
        let ran = place.toolgate(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("there is no store"), "{ran:?}");
    }
    assert!(!place.home().join("toolgate.db").exists());
}
