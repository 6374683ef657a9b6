//! `--json`: one report with everything a program needs to know, or one error with a stable code.

use std::fs;
use std::path::Path;

use jail::Control;
use serde_json::{Value, json};

use crate::parts_of;
use crate::toolgate::{Gate, Ran, finish, has, start};

#[test]
fn a_report_has_exactly_these_parts() {
    let Some(gate) = Gate::native() else { return };
    let report = report_of(&gate.run(&["--json"], &["true"]), 0);
    let parts = parts_of(&report);
    let expected = [
        "cpu_ms",
        "enforcement",
        "files_changed",
        "outcome",
        "peak_memory",
        "quarantined",
        "run_ms",
        "setup_ms",
        "stderr",
        "stdout",
    ];
    assert_eq!(parts, expected);
    for time in ["cpu_ms", "run_ms", "setup_ms"] {
        assert!(report[time].as_f64().is_some_and(|millis| millis > 0.0 && millis < 20_000.0), "{time}");
    }
    let peak =
        report["peak_memory"].as_object().and_then(|peak| peak.values().next()).and_then(Value::as_u64);
    assert!(peak.is_some_and(|bytes| bytes > 100_000), "{}", report["peak_memory"]);
}

#[test]
fn the_outcome_and_the_exit_code_agree() {
    let Some(gate) = Gate::native() else { return };
    let not_executable = gate.work().join("file");
    fs::write(&not_executable, "").expect("it can be written");
    let outcomes: [(&[&str], i32, Value); 6] = [
        (&["true"], 0, json!({"exit": 0})),
        (&["sh", "-c", "exit 7"], 7, json!({"exit": 7})),
        (&["sh", "-c", "kill -TERM $$"], 143, json!({"signal": 15})),
        (&["sleep", "20"], 124, json!({"stopped": "timeout"})),
        (&["no-such-command"], 127, json!("not_found")),
        (&["./file"], 126, json!({"cannot_execute": 13})),
    ];
    for (command, code, outcome) in outcomes {
        let ended = gate.run(&["--json", "--timeout", "1"], command);
        assert_eq!(report_of(&ended, code)["outcome"], outcome, "{command:?}");
    }
}

#[test]
fn output_is_text_and_counted() {
    let Some(gate) = Gate::native() else { return };
    let ended = gate.run(&["--json"], &["sh", "-c", "printf 'out\\n'; printf 'p\\377q' >&2"]);
    let report = report_of(&ended, 0);
    assert_eq!(report["stdout"], json!({"text": "out\n", "bytes": 4, "dropped": 0}));
    assert_eq!(report["stderr"], json!({"text": "p\u{fffd}q", "bytes": 3, "dropped": 0}));
}

#[test]
fn output_past_the_cap_is_counted_and_no_character_is_torn() {
    let Some(gate) = Gate::native() else { return };
    let ended = gate.run(&["--json", "--output", "3"], &["sh", "-c", "printf 'aaé'; printf 'abc' >&2"]);
    let report = report_of(&ended, 0);
    assert_eq!(report["stdout"], json!({"text": "aa", "bytes": 4, "dropped": 1}));
    assert_eq!(report["stderr"], json!({"text": "abc", "bytes": 3, "dropped": 0}));
}

#[test]
fn a_cut_tears_no_character_after_bytes_that_are_no_text_either() {
    let Some(gate) = Gate::native() else { return };
    let ended = gate.run(&["--json", "--output", "3"], &["printf", "\\377a\\303\\251"]);
    assert_eq!(report_of(&ended, 0)["stdout"], json!({"text": "\u{fffd}a", "bytes": 4, "dropped": 1}));
}

#[test]
fn input_is_ours() {
    let Some(gate) = Gate::native() else { return };
    fs::write(gate.work().join("input"), "given").expect("it can be written");
    let mut command = gate.run_command(&["--json"], &["cat"]);
    command.stdin(fs::File::open(gate.work().join("input")).expect("it can be opened"));
    let report = report_of(&finish(start(&mut command)), 0);
    assert_eq!(report["stdout"], json!({"text": "given", "bytes": 5, "dropped": 0}));
}

#[test]
fn every_control_has_one_entry_that_says_how() {
    let Some(gate) = Gate::native() else { return };
    let report = report_of(&gate.run(&["--json"], &["true"]), 0);
    let entries = report["enforcement"].as_array().expect("a list");
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry["control"].as_str()).collect();
    let expected: Vec<&str> = Control::ALL.iter().map(|control| control.name()).collect();
    assert_eq!(names, expected);
    assert_eq!(names.len(), 28);
    for entry in entries {
        assert!(matches!(entry["level"].as_str(), Some("enforced" | "partly")), "{entry}");
        assert!(entry["how"].as_str().is_some_and(|how| !how.is_empty()), "{entry}");
    }
    for control in Control::ALL.into_iter().filter(|control| control.is_required()) {
        let entry = entries.iter().find(|entry| entry["control"] == control.name()).expect("it is there");
        assert_eq!(entry["level"], "enforced", "{entry}");
    }
}

#[test]
fn nothing_changed_is_an_exact_empty_list() {
    let Some(gate) = Gate::native() else { return };
    fs::write(gate.work().join("file"), "x").expect("it can be written");
    let report = report_of(&gate.run(&["--json"], &["cat", "file"]), 0);
    assert_eq!(report["files_changed"], json!({"exact": []}));
    let report = report_of(&gate.run(&["--json", "--profile", "build", "--rw", "."], &["cat", "file"]), 0);
    assert_eq!(report["files_changed"], json!({"exact": []}));
}

#[test]
fn changed_files_are_listed_exactly() {
    let Some(gate) = Gate::native() else { return };
    let work = gate.work();
    for (name, content) in [
        ("kept", "kept"),
        ("longer", "a"),
        ("same-size", "old"),
        ("gone", "x"),
        ("moved", "x"),
        ("mode", "x"),
    ] {
        fs::write(work.join(name), content).expect("it can be written");
    }
    fs::create_dir_all(work.join("folder/inner")).expect("it can be made");
    fs::write(work.join("folder/inner/deep"), "x").expect("it can be written");
    // The time of the last change to the content can be set back; that must not hide anything.
    let script = "echo more >> longer
        touch -r same-size /tmp/stamp; printf new > same-size; touch -r /tmp/stamp same-size
        rm gone; mv moved renamed; chmod 600 mode; echo x > made
        mkdir new; echo x > new/file; echo x >> folder/inner/deep; ln -s made link
        echo x > brief; rm brief; cat kept > /dev/null";
    let report = report_of(&build(&gate, script), 0);
    let expected = [
        ("folder/inner/deep", "modified"),
        ("gone", "removed"),
        ("link", "created"),
        ("longer", "modified"),
        ("made", "created"),
        ("mode", "modified"),
        ("moved", "removed"),
        ("new", "created"),
        ("new/file", "created"),
        ("renamed", "created"),
        ("same-size", "modified"),
    ];
    assert_eq!(report["files_changed"], exactly(&work, &expected));
    assert_eq!(report["quarantined"], json!([]));
}

#[test]
fn a_whole_tree_that_goes_is_listed_entry_by_entry() {
    let Some(gate) = Gate::native() else { return };
    let work = gate.work();
    fs::create_dir_all(work.join("a/b")).expect("it can be made");
    fs::write(work.join("a/b/c"), "x").expect("it can be written");
    let report = report_of(&build(&gate, "rm -r a"), 0);
    let expected = [("a", "removed"), ("a/b", "removed"), ("a/b/c", "removed")];
    assert_eq!(report["files_changed"], exactly(&work, &expected));
}

#[test]
fn changes_before_a_timeout_are_listed_too() {
    let Some(gate) = Gate::native() else { return };
    let work = gate.work();
    let options = ["--json", "--profile", "build", "--rw", ".", "--timeout", "1"];
    let report = report_of(&gate.run(&options, &["sh", "-c", "echo x > made; sleep 20"]), 124);
    assert_eq!(report["files_changed"], exactly(&work, &[("made", "created")]));
}

#[test]
fn a_name_that_the_host_would_run_is_quarantined_and_reported() {
    let Some(gate) = Gate::native() else { return };
    let work = gate.work();
    let report =
        report_of(&build(&gate, "mkdir .vscode; echo evil > .vscode/tasks.json; echo fine > fine"), 0);
    let text = |name: &str| work.join(name).display().to_string();
    let expected = json!([{
        "path": text(".vscode"),
        "moved_to": text(".vscode.quarantined"),
        "why": "a protected name that was not there before"
    }]);
    assert_eq!(report["quarantined"], expected);
    let mut left: Vec<_> =
        fs::read_dir(&work).expect("it can be listed").flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, [".vscode.quarantined", "fine"]);
}

#[test]
fn a_new_git_hook_is_quarantined_and_a_fresh_repository_is_not() {
    let Some(gate) = Gate::native() else { return };
    if !has("git") {
        return;
    }
    let work = gate.work();
    let report = report_of(&build(&gate, "git init -q . && echo x > file && git add file"), 0);
    assert_eq!(report["quarantined"], json!([]));
    let script = "mkdir other; cd other; git init -q .; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
    let report = report_of(&build(&gate, script), 0);
    let hook = work.join("other/.git/hooks/pre-commit").display().to_string();
    let expected =
        json!([{"path": hook, "moved_to": format!("{hook}.quarantined"), "why": "git would run it"}]);
    assert_eq!(report["quarantined"], expected);
}

#[test]
fn without_json_a_quarantined_file_is_a_warning() {
    let Some(gate) = Gate::native() else { return };
    let work = gate.work();
    let ended = gate.run(&["--profile", "build", "--rw", "."], &["sh", "-c", "echo evil > .bashrc"]);
    let said = format!(
        "warning: `{0}/.bashrc` was moved to `{0}/.bashrc.quarantined`: a protected name that was not there before\n",
        work.display()
    );
    assert_eq!(ended, Ran { code: Some(0), stdout: String::new(), stderr: said });
}

#[test]
fn an_error_is_json_with_a_stable_code_and_nothing_on_stderr() {
    let gate = Gate::new();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--env", "X"], 2, "usage"),
        (&["--env", "LD_PRELOAD=x"], 2, "usage"),
        (&["--profile", "nonsense"], 2, "usage"),
        (&["--backend", "nonsense"], 2, "usage"),
        (&["--pids", "0"], 2, "usage"),
        (&["--profile", "build", "--rw", "/etc"], 2, "usage"),
        (&["--backend", "deny"], 3, "sandbox_denied"),
        (&["--profile", "networked"], 2, "usage"),
        (&["--profile", "networked", "--allow", "*"], 2, "usage"),
    ];
    for (options, code, name) in cases {
        let ended = gate.run(&[&["--json"], options].concat(), &["true"]);
        assert_error(&ended, code, name);
    }
}

#[test]
fn an_error_in_the_arguments_themselves_is_json_too() {
    let gate = Gate::new();
    let cases: [&[&str]; 5] = [
        &["run", "--json"],
        &["run", "--json", "--memory", "5x", "--", "true"],
        &["run", "--json", "--pids", "many", "--", "true"],
        &["run", "--json", "--no-such-option", "--", "true"],
        &["run", "--json", "-t", "--", "true"],
    ];
    for arguments in cases {
        let ended = finish(start(&mut gate.command(arguments)));
        assert_error(&ended, 2, "usage");
    }
}

#[test]
fn a_directory_that_cannot_be_opened_is_json_with_a_stable_code() {
    let Some(gate) = Gate::native() else { return };
    for directory in ["/no/such/directory", "/etc/hostname"] {
        let ended = gate.run(&["--json", "--ro", directory], &["true"]);
        assert_error(&ended, 125, "sandbox_bad_directory");
    }
}

#[test]
fn a_limit_that_is_only_watched_is_refused_by_code_when_strict() {
    let Some(gate) = Gate::native() else { return };
    let ended = gate.run(&["--json", "--strict", "--profile", "build", "--rw", "."], &["true"]);
    assert_error(&ended, 125, "sandbox_partly_enforced");
}

/// The report of a run that ended with this code and said nothing else.
fn report_of(ended: &Ran, code: i32) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{}", ended.stdout);
    serde_json::from_str(&ended.stdout).expect("the report is JSON")
}

fn assert_error(ended: &Ran, code: i32, name: &str) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{}", ended.stdout);
    let value: Value = serde_json::from_str(&ended.stdout).expect("the error is JSON");
    assert_eq!(
        (parts_of(&value["error"]), &value["error"]["code"]),
        (vec!["code", "hint", "message"], &json!(name)),
        "{value}"
    );
    assert!(value["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
}

fn build(gate: &Gate, script: &str) -> Ran {
    gate.run(&["--json", "--profile", "build", "--rw", "."], &["sh", "-ec", script])
}

fn exactly(folder: &Path, changes: &[(&str, &str)]) -> Value {
    let change = |(path, kind): &(&str, &str)| json!({"path": folder.join(path), "kind": kind});
    json!({"exact": changes.iter().map(change).collect::<Vec<_>>()})
}
