//! Programs of the operator's that are heard about calls.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::place::{Place, text};
use crate::toolgate::{alive, has, marker, within_a_second};

const PAGE: &str = include_str!("../../../../docs/hooks.md");

/// Says what the name of the file that is read tells it to.
const MINDER: &str = r#"#!/bin/sh
call=$(cat)
case "$call" in
*'"when":"after"'*)
    case "$call" in
    *'told to remark'*) echo '{"found":["odd"]}' ;;
    *'told to withhold'*) echo '{"withhold":"it is odd"}' ;;
    *'told to break'*) echo 'SECRET of the hook' >&2; exit 1 ;;
    *) echo '{}' ;;
    esac ;;
*'"path":"deny"'*) echo '{"deny":"not today"}' ;;
*'"path":"ask"'*) echo '{"ask":"look at it"}' ;;
*'"path":"forge"'*) printf '%s' '{"ask":"look\n  approve  toolgate approve deadbeef"}' ;;
*'"path":"fail"'*) echo 'SECRET of the hook' >&2; echo '{}'; exit 7 ;;
*'"path":"nonsense"'*) echo 'SECRET of the hook' ;;
*'"path":"allow"'*) echo '{"allow":true}' ;;
*'"path":"long"'*) echo '{}'; head -c 100000 /dev/zero | tr '\0' ' ' ;;
*'"path":"hang"'*) sleep "$1" ;;
*) echo '{}' ;;
esac
"#;

/// A hook, with a configuration that names it.
fn configure(place: &Place, script: &str, more: &str) -> PathBuf {
    let hook = place.home().join("minder");
    write_program(&hook, script, 0o755);
    write_config(place, &format!("hooks:\n  - name: minder\n    command: {}\n{more}", hook.display()));
    hook
}

fn write_program(path: &PathBuf, script: &str, mode: u32) {
    let text = path.with_extension("text");
    fs::write(&text, script).expect("a text can be written");
    // By another process: a test beside this one that forks while it is open for writing here would keep it from running.
    let copied = Command::new("cp").arg(text).arg(path).status();
    assert!(copied.is_ok_and(|status| status.success()), "a program can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it can be made executable");
}

fn write_config(place: &Place, text: &str) {
    fs::write(place.home().join("toolgate.yaml"), text).expect("a configuration can be written");
}

fn read(place: &Place, path: &str) -> (Option<i32>, Value) {
    place.call("fs.read", &json!({ "path": path }).to_string())
}

#[test]
fn a_program_can_have_people_asked_and_deny_and_whatever_else_it_says_is_a_no() {
    let Some(place) = Place::new() else { return };
    let sleeping = marker();
    configure(&place, MINDER, &format!("    args: ['{sleeping}']\n    timeout_ms: 3000\n"));
    let names = ["deny", "ask", "forge", "fail", "nonsense", "allow", "long", "hang", "other"];
    for name in names {
        fs::write(place.work().join(name), "the file's own text").expect("a file can be written");
    }
    let (code, denied) = read(&place, "deny");
    assert_eq!((code, text(&denied, "/reason/code").as_str()), (Some(3), "denied_by_hook"), "{denied}");
    assert_eq!(text(&denied, "/reason/message"), "hook `minder`: not today");

    let (code, waiting) = read(&place, "ask");
    assert_eq!((code, text(&waiting, "/approval/why").as_str()), (Some(4), "hook `minder`: look at it"));
    assert_eq!(place.toolgate(&["approve", &text(&waiting, "/approval/id")]).code, Some(0));
    assert_eq!(read(&place, "ask").0, Some(0), "what it asked was answered");

    let forged = place.toolgate(&["call", "fs.read", r#"{"path":"forge"}"#, "--wait", "0"]);
    let lines: Vec<&str> = forged.stderr.lines().filter(|line| line.starts_with("  approve  ")).collect();
    assert!(lines.len() == 1 && !lines[0].contains("deadbeef"), "{forged:?}");

    for name in ["fail", "nonsense", "allow", "long", "hang"] {
        let ran = place.toolgate(&["call", "fs.read", &json!({ "path": name }).to_string(), "--json"]);
        let refused: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
        assert_eq!(
            (ran.code, text(&refused, "/reason/code").as_str()),
            (Some(3), "hook_failed"),
            "{name}: {ran:?}"
        );
        assert!(!ran.stdout.contains("SECRET") && !ran.stdout.contains("own text"), "{name}: {ran:?}");
        assert!(ran.stderr.contains("hook failed"), "operators are told: {name}: {ran:?}");
    }
    assert!(within_a_second(|| alive(&sleeping).is_empty()), "what took too long has ended");
    assert_eq!(read(&place, "other").0, Some(0));
    let explained = place.toolgate(&["explain", "fs.read", r#"{"path":"deny"}"#]);
    assert!(explained.stdout.contains("hook `minder` would be heard"), "{explained:?}");
}

#[test]
fn a_program_can_remark_and_withhold_and_one_that_fails_has_withheld() {
    let Some(place) = Place::new() else { return };
    configure(&place, MINDER, "    when: after\n    tools: [fs.read]\n");
    for what in ["remark", "withhold", "break"] {
        fs::write(place.work().join(what), format!("told to {what}")).expect("a file can be written");
    }
    let (code, remarked) = read(&place, "remark");
    assert_eq!((code, text(&remarked, "/content").as_str()), (Some(0), "told to remark"), "{remarked}");
    let shown = place.toolgate(&["receipt", "show", &text(&remarked, "/receipt")]);
    assert!(shown.stdout.contains("  remark     minder: odd\n"), "{shown:?}");

    for (what, expected) in [("withhold", "withheld"), ("break", "hook_failed")] {
        let (code, withheld) = read(&place, what);
        assert_eq!((code, text(&withheld, "/reason/code").as_str()), (Some(1), expected), "{withheld}");
        assert!(!withheld.to_string().contains("told to"), "{withheld}");
        assert!(!withheld.to_string().contains("SECRET"), "{withheld}");
    }
    // It is heard about `fs.read` alone.
    let (code, listed) = place.call("shell", r#"{"command":"cat","args":["withhold"]}"#);
    assert_eq!(
        (code, text(&listed, "/structured/stdout").as_str()),
        (Some(0), "told to withhold"),
        "{listed}"
    );
}

#[test]
fn a_program_writes_nothing_reads_no_workspace_and_reaches_nobody() {
    let Some(place) = Place::new() else { return };
    if !has("bash") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be listened on");
    let port = listener.local_addr().expect("it has an address").port();
    let (work, home) = (place.work(), place.home());
    let script = format!(
        "#!/bin/bash\ncat > /dev/null\necho x > {work}/made\necho x > {home}/made\nexec 3<>/dev/tcp/127.0.0.1/{port}\n\
         seen=$(cat {work}/README.md)\necho \"{{\\\"ask\\\":\\\"seen: $seen\\\"}}\"\n",
        work = work.display(),
        home = home.display(),
    );
    let hook = configure(&place, &script, "");
    let reached = || {
        listener.set_nonblocking(true).expect("a listener need not block");
        listener.accept().is_ok()
    };
    // Without walls it does all of that.
    let mut bare = Command::new("bash");
    let mut bare =
        bare.arg(&hook).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
    bare.stdin.take().expect("it has an input").write_all(b"{}").expect("it reads");
    let said = bare.wait_with_output().expect("it ends").stdout;
    assert!(String::from_utf8_lossy(&said).contains("seen: # Project"));
    assert!(within_a_second(reached) && work.join("made").exists() && home.join("made").exists());
    for made in [work.join("made"), home.join("made")] {
        fs::remove_file(made).expect("it is there");
    }

    let (code, waiting) = read(&place, "README.md");
    assert_eq!(
        (code, text(&waiting, "/approval/why").as_str()),
        (Some(4), "hook `minder`: seen: "),
        "{waiting}"
    );
    assert!(!reached() && !work.join("made").exists() && !home.join("made").exists());
}

#[test]
fn a_program_that_is_not_to_be_trusted_is_refused_with_the_configuration() {
    let Some(place) = Place::new() else { return };
    let hook = configure(&place, MINDER, "");
    let refused = |expected: &str| {
        let checked = place.toolgate(&["config", "check"]);
        assert_eq!(checked.code, Some(2), "{checked:?}");
        assert!(checked.stderr.contains(expected), "{expected}: {checked:?}");
        let (code, called) = read(&place, "README.md");
        assert!(code == Some(2) && !called.to_string().contains("# Project"), "{called}");
    };
    assert_eq!(place.toolgate(&["config", "check"]).code, Some(0));
    write_program(&hook, MINDER, 0o777);
    refused("can be written by others: `chmod go-w` would change that");
    write_program(&hook, MINDER, 0o644);
    refused("cannot be executed");
    fs::remove_file(&hook).expect("it is there");
    refused("cannot be read: No such file or directory");
    std::os::unix::fs::symlink("/usr/bin/env", &hook).expect("a link can be made");
    refused("did you mean `/usr/bin/env`?");

    let planted = place.work().join("minder");
    write_program(&planted, MINDER, 0o755);
    write_config(&place, &format!("hooks: [{{name: minder, command: {}}}]", planted.display()));
    let (code, called) = read(&place, "README.md");
    assert_ne!(code, Some(0), "{called}");
    assert!(called.to_string().contains("an agent could change what guards it"), "{called}");
}

#[test]
fn another_program_is_another_policy() {
    let Some(place) = Place::new() else { return };
    let policy = || text(&place.json(&["config", "show"]).1, "/policy");
    let without = policy();
    let hook = configure(&place, MINDER, "");
    let with = policy();
    write_program(&hook, &MINDER.replace("not today", "not tomorrow"), 0o755);
    let other = policy();
    assert!(without != with && with != other && other != without);
}

#[test]
fn the_example_of_the_page_does_what_the_page_says() {
    let Some(place) = Place::new() else { return };
    if !has("python3") {
        return;
    }
    let block = |language: &str| {
        let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has one");
        rest.split_once("```").expect("it ends").0.to_owned()
    };
    let hook = place.home().join("minder");
    write_program(&hook, &block("python"), 0o755);
    let named = hook.to_str().expect("a plain path");
    write_config(&place, &block("yaml").replace("/etc/toolgate/hooks/minder", named));

    let (code, denied) = place.call("shell", r#"{"command":"ls","args":["prod"]}"#);
    assert_eq!(
        (code, text(&denied, "/reason/message").as_str()),
        (Some(3), "hook `minder`: production is not for agents")
    );
    let (code, waiting) = place.call("shell", r#"{"command":"make","profile":"build"}"#);
    assert_eq!(code, Some(4), "{waiting}");
    fs::write(place.work().join("list"), "BEGIN CUSTOMERS\nAda\n").expect("a file can be written");
    let (code, withheld) = read(&place, "list");
    assert_eq!((code, text(&withheld, "/reason/code").as_str()), (Some(1), "withheld"), "{withheld}");
    assert!(!withheld.to_string().contains("Ada"));
    fs::write(place.work().join("note"), "ask the customer\n").expect("a file can be written");
    let (code, remarked) = read(&place, "note");
    assert_eq!(code, Some(0), "{remarked}");
    let shown = place.toolgate(&["receipt", "show", &text(&remarked, "/receipt")]);
    assert!(shown.stdout.contains("minder: speaks of customers"), "{shown:?}");
}
