//! Calls that run and calls that are refused.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::place::{Place, text};
use crate::toolgate::{finish, start};

#[test]
fn a_file_is_read_from_an_empty_home() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["call", "fs.read", r#"{"path":"README.md"}"#]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "# Project\n"), "{ran:?}");
    assert!(ran.stderr.contains("receipt  r-"), "{ran:?}");
}

#[test]
fn read_edit_read_gives_the_new_text() {
    let Some(place) = Place::new() else { return };
    let read = || text(&place.call("fs.read", r#"{"path":"README.md"}"#).1, "/content");
    assert_eq!(read(), "# Project\n");
    let (code, result) =
        place.call("fs.edit", r##"{"path":"README.md","old":"# Project","new":"# Changed"}"##);
    assert_eq!(code, Some(0), "{result}");
    assert_eq!(read(), "# Changed\n");
}

#[test]
fn a_secret_is_not_read_and_the_refusal_is_on_record() {
    let Some(place) = Place::new() else { return };
    let (code, result) = place.call("fs.read", r#"{"path":".env"}"#);
    assert_ne!(code, Some(0));
    assert!(!result.to_string().contains("sk-hidden"), "{result}");
    let shown = place.toolgate(&["receipt", "show", &text(&result, "/receipt")]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("signature good"), "{shown:?}");
}

#[test]
fn a_file_outside_the_workspace_is_neither_read_nor_written() {
    let Some(place) = Place::new() else { return };
    let outside = place.home().join("outside.txt");
    fs::write(&outside, "outside").expect("a file can be written");
    for path in ["../state/outside.txt", outside.to_str().expect("a plain path")] {
        let (code, result) = place.call("fs.read", &json!({ "path": path }).to_string());
        assert_ne!(code, Some(0), "{result}");
        assert!(!text(&result, "/content").contains("outside\n"), "{result}");
        let (code, _) = place.call("fs.write", &json!({ "path": path, "content": "x" }).to_string());
        assert_ne!(code, Some(0));
    }
    assert_eq!(fs::read_to_string(&outside).expect("it is still there"), "outside");
}

#[test]
fn a_command_runs_behind_walls_and_its_exit_code_is_told() {
    let Some(place) = Place::new() else { return };
    let (code, result) = place.call("shell", r#"{"command":"ls","args":["README.md"]}"#);
    assert_eq!((code, text(&result, "/structured/stdout").as_str()), (Some(0), "README.md\n"), "{result}");
    let (code, result) = place.call("shell", r#"{"command":"ls","args":["nowhere"]}"#);
    assert_eq!((code, result.pointer("/structured/exit_code")), (Some(1), Some(&json!(2))), "{result}");
}

#[test]
fn an_inspecting_command_cannot_write_whatever_the_program_does() {
    let Some(place) = Place::new() else { return };
    let find = r#"{"command":"find","args":[".","-maxdepth","0","-exec","touch","made","{}","+"]}"#;
    let (code, result) = place.call("shell", find);
    assert_eq!(code, Some(1), "{result}");
    assert!(!place.work().join("made").exists());
}

#[test]
fn shell_syntax_is_refused_and_nothing_runs() {
    let Some(place) = Place::new() else { return };
    for command in
        ["ls; touch made", "ls && touch made", "ls\ntouch made", "$(touch made)", "ls & touch made"]
    {
        let (code, result) = place.call("shell", &json!({ "command": command }).to_string());
        assert_eq!((code, text(&result, "/reason/code").as_str()), (Some(3), "shell_syntax"), "{result}");
    }
    assert!(!place.work().join("made").exists());
}

#[test]
fn an_unknown_tool_is_refused_with_the_nearest_name() {
    let Some(place) = Place::new() else { return };
    let (code, result) = place.call("fs.raed", "{}");
    assert_eq!((code, text(&result, "/reason/code").as_str()), (Some(3), "unknown_tool"));
    assert_eq!(
        text(&result, "/reason/hint"),
        "did you mean `fs.read`? `toolgate tools list` shows all there are"
    );
    let (_, result) = place.call("deploy.rollout", "{}");
    assert_eq!(text(&result, "/reason/hint"), "`toolgate tools list` shows those there are");
}

#[test]
fn a_refusal_that_a_setting_would_lift_names_it() {
    let Some(place) = Place::new() else { return };
    let hint = |arguments: &str| {
        let (code, result) = place.call("shell", arguments);
        assert_eq!(code, Some(3), "{result}");
        text(&result, "/reason/hint")
    };
    let networked = hint(r#"{"command":"make","profile":"networked"}"#);
    assert!(networked.contains("`egress.allow`"), "{networked}");
    let unlisted = hint(r#"{"command":"kubectl"}"#);
    assert!(unlisted.contains("`terminal: full` in `agents.NAME.overrides`"), "{unlisted}");
    let configuration = "agents: {default: {overrides: {terminal: full}}}\n";
    fs::write(place.home().join("toolgate.yaml"), configuration).expect("written");
    let (code, explained) = place.json(&["explain", "shell", r#"{"command":"kubectl"}"#]);
    assert_eq!(code, Some(0), "the hint is right: {explained}");
}

#[test]
fn unknown_and_case_variant_arguments_are_refused() {
    let Some(place) = Place::new() else { return };
    for arguments in [r#"{"Path":"README.md"}"#, r#"{"path":"README.md","Path":"x"}"#, r#"{"path":7}"#, "[]"]
    {
        let (code, result) = place.call("fs.read", arguments);
        assert_eq!((code, text(&result, "/reason/code").as_str()), (Some(3), "bad_arguments"), "{arguments}");
    }
}

#[test]
fn a_key_makes_two_calls_one_and_belongs_to_its_first_call() {
    let Some(place) = Place::new() else { return };
    let append = |text: &str| {
        let arguments = json!({ "path": "log.txt", "content": text }).to_string();
        place.json(&["call", "fs.append", &arguments, "--key", "k1", "--wait", "0"])
    };
    let (first, result) = append("once\n");
    let (second, again) = append("once\n");
    assert_eq!((first, second), (Some(0), Some(0)), "{result} {again}");
    assert_eq!(result.get("call_id"), again.get("call_id"));
    assert_eq!(fs::read_to_string(place.work().join("log.txt")).expect("it was written"), "once\n");
    let (code, other) = append("other\n");
    assert_eq!((code, text(&other, "/reason/code").as_str()), (Some(3), "key_conflict"));
}

#[test]
fn a_question_names_the_hosts_and_says_which_are_not_listed() {
    let Some(place) = Place::new() else { return };
    let call = r#"{"command":"curl","args":["https://Example.COM./x"],"profile":"networked"}"#;
    let why = |explained: &serde_json::Value| explained.pointer("/question/why").cloned().unwrap_or_default();
    let unlisted = "`example.com:443` is on no list of hosts; a yes lets this call reach it";
    let (code, explained) = place.json(&["explain", "shell", call]);
    assert_eq!((code, text(&explained, "/verdict").as_str()), (Some(4), "ask"), "{explained}");
    let by_default =
        ["`exec:networked` is asked for by default", "the registry requires approval for this tool"];
    assert_eq!(why(&explained), json!([unlisted, by_default[0], by_default[1]]));

    let configuration = "egress: {allow: [\"example.com:443\"], block: [evil.example]}\n";
    fs::write(place.home().join("toolgate.yaml"), configuration).expect("written");
    let (code, explained) = place.json(&["explain", "shell", call]);
    assert_eq!((code, text(&explained, "/verdict").as_str()), (Some(4), "ask"), "{explained}");
    assert_eq!(why(&explained), json!([by_default[0], by_default[1], "it would reach `example.com:443`"]));

    let blocked = call.replace("Example.COM.", "EVIL.example");
    let (code, explained) = place.json(&["explain", "shell", &blocked]);
    assert_eq!(
        (code, text(&explained, "/reason/code").as_str()),
        (Some(3), "host_not_allowed"),
        "{explained}"
    );
}

#[test]
fn explain_runs_nothing_and_says_why() {
    let Some(place) = Place::new() else { return };
    let arguments = r#"{"command":"curl","args":["http://169.254.169.254/"],"profile":"networked"}"#;
    let (code, explained) = place.json(&["explain", "shell", arguments]);
    assert_eq!((code, text(&explained, "/verdict").as_str()), (Some(3), "deny"), "{explained}");
    assert_eq!(text(&explained, "/reason/code"), "host_not_allowed");
    let (code, explained) = place.json(&["explain", "fs.read", r#"{"path":"README.md"}"#]);
    assert_eq!((code, text(&explained, "/verdict").as_str()), (Some(0), "allow"), "{explained}");
}

#[test]
fn output_is_cleaned_before_anybody_sees_it() {
    let Some(place) = Place::new() else { return };
    fs::write(place.work().join("evil.txt"), "a\u{1b}[2Jb\u{202e}c\u{200b}d\r\n")
        .expect("a file can be written");
    let (_, result) = place.call("fs.read", r#"{"path":"evil.txt"}"#);
    assert_eq!(text(&result, "/content"), "abcd\r\n");
    // Once each, although the text stands in what is structured, too.
    assert_eq!(result.pointer("/cleaning/removed"), Some(&json!(3)), "{result}");
    assert_eq!(text(&result, "/structured/content"), "abcd\r\n");
}

#[test]
fn large_output_is_cut_for_the_model_and_kept_as_an_artifact() {
    let Some(place) = Place::new() else { return };
    fs::write(place.work().join("large.txt"), "é".repeat(200_000)).expect("a file can be written");
    let (code, result) = place.call("shell", r#"{"command":"cat","args":["large.txt"]}"#);
    assert_eq!(code, Some(0));
    assert!(text(&result, "/content").len() < 12_000);
    assert_eq!(result.pointer("/artifacts/0/bytes"), Some(&json!(400_000)), "{:?}", result.get("artifacts"));
}

#[test]
fn the_demo_goes_from_a_call_to_a_verified_ledger() {
    let Some(place) = Place::new() else { return };
    let ran = place.toolgate(&["demo"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("ok: "), "{ran:?}");
    assert!(!ran.stdout.contains("not-for-agents"), "{ran:?}");
}

#[test]
fn the_demo_touches_nothing_that_is_configured() {
    let Some(place) = Place::new() else { return };
    let configuration = format!("agents: {{ default: {{ workspace: {:?} }} }}", place.work());
    fs::write(place.home().join("toolgate.yaml"), configuration).expect("a file can be written");
    let ran = place.toolgate(&["demo"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(place.work().join("build/old.o").exists());
    assert!(!place.home().join("toolgate.db").exists());
}

#[test]
fn commands_that_find_an_empty_home_at_once_make_it_ready_together() {
    for late in [0, 15, 30, 60, 90, 120] {
        let Some(place) = Place::new() else { return };
        let call = ["call", "fs.read", r#"{"path":"README.md"}"#, "--json"];
        let mut started = vec![start(&mut place.command(&call))];
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(late));
            started.push(start(&mut place.command(&["approvals", "--json"])));
        }
        for child in started {
            let ran = finish(child);
            assert_eq!(ran.code, Some(0), "{late} ms apart: {ran:?}");
        }
    }
}
