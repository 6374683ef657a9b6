//! What people are told about their rules: which do nothing, whether their tests hold, and what would let a call run.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, text};

const CONFIGURATION: &str = r#"agents:
  default:
    denied_tools:
      - fs.delete
approval:
  rules:
    - { tool: "fs.*", action: prompt }
    - { tool: fs.read, action: prompt }
    - { tool: http.request, action: approve }
policy:
  rules:
    - id: main-by-review
      cedar: |
        forbid (principal, action, resource == Tool::"git.push")
        when { context.arguments.branch == "main" };
      examples:
        - { tool: git.push, arguments: { url: "https://git.example/a.git", branch: main }, expect: forbid }
"#;

const PUSH: &str = r#"{"url":"https://git.example/a.git","branch":"main"}"#;

fn configured(configuration: &str) -> Option<Place> {
    let place = Place::new()?;
    fs::write(place.home().join("toolgate.yaml"), configuration).expect("written");
    Some(place)
}

#[test]
fn rules_that_do_nothing_are_told_with_their_lines_and_what_to_do() {
    let Some(place) = configured(CONFIGURATION) else { return };
    let (code, told) = place.json(&["policy", "lint"]);
    let findings = told["findings"].as_array().cloned().unwrap_or_default();
    let short: Vec<(String, String)> =
        findings.iter().map(|found| (text(found, "/kind"), text(found, "/place"))).collect();
    let expected = [("shadowed", "toolgate.yaml:8"), ("unreachable", "toolgate.yaml:9")];
    assert_eq!(short, expected.map(|(kind, place)| (kind.to_owned(), place.to_owned())), "{told}");
    assert!(
        findings.iter().all(|found| !text(found, "/why").is_empty() && !text(found, "/advice").is_empty())
    );
    assert_eq!(code, Some(1));
    let idle = CONFIGURATION.replace("branch: main }, expect: forbid", "branch: fix }, expect: nothing");
    fs::write(place.home().join("toolgate.yaml"), idle).expect("written");
    let (_, told) = place.json(&["policy", "lint"]);
    assert_eq!(text(&told, "/findings/2/kind"), "no_positive_example", "{told}");
    fs::write(place.home().join("toolgate.yaml"), "{}\n").expect("written");
    let clean = place.toolgate(&["policy", "lint"]);
    assert_eq!((clean.code, clean.stdout.as_str()), (Some(0), "0 findings in 0 rules\n"));
}

#[test]
fn tests_of_rules_are_run_and_what_differs_is_told() {
    let Some(place) = configured(CONFIGURATION) else { return };
    let file = place.home().join("tests.yaml");
    let tests = json!([
        { "name": "main", "tool": "git.push", "arguments": serde_json::from_str::<Value>(PUSH).expect("JSON"),
          "expect": "deny", "code": "denied_by_rule", "layer": "cedar", "rule": "main-by-review" },
        { "tool": "fs.read", "arguments": { "path": "a" }, "expect": "ask", "rule": "toolgate.yaml:8" },
        { "name": "wrong", "tool": "fs.list", "expect": "allow", "at": "2026-01-31T18:30:00Z" },
        { "name": "no call", "tool": "fs.read", "expect": "deny" },
    ]);
    fs::write(&file, tests.to_string()).expect("written");
    let path = file.to_string_lossy();
    let (code, told) = place.json(&["policy", "test", &path]);
    assert_eq!(
        (code, &told["examples"], &told["passed"], &told["failed"]),
        (Some(1), &json!(1), &json!(2), &json!(2)),
        "{told}"
    );
    assert!(
        text(&told, "/tests/2/wrong/0").contains("expected allow, and it is ask (rule: toolgate.yaml:7"),
        "{told}"
    );
    assert!(text(&told, "/tests/3/wrong/0").contains("it is no call"), "{told}");
    fs::write(&file, "- { tool: fs.read, expct: allow }\n").expect("written");
    assert_eq!(place.toolgate(&["policy", "test", &path]).code, Some(2));
    assert_eq!(place.toolgate(&["policy", "test"]).stdout, "1 example of rules holds\n0 passed, 0 failed\n");
}

#[test]
fn editors_get_the_schema_that_rules_are_checked_with() {
    let Some(place) = configured("{}\n") else { return };
    let schema = place.toolgate(&["policy", "schema", "--tool", "git.push"]).stdout;
    assert!(schema.contains("\"vcs:push\"") && schema.contains("branch: __cedar::String"), "{schema}");
    let (code, all) = place.json(&["policy", "schema"]);
    assert!(code == Some(0) && all[""]["entityTypes"]["Agent"].is_object(), "{all}");
    let slip = place.toolgate(&["policy", "schema", "--tool", "git.psuh"]);
    assert!(slip.code == Some(2) && slip.stderr.contains("did you mean `git.push`?"), "{slip:?}");
}

#[test]
fn a_refusal_names_its_line_and_the_nearest_change_that_would_let_it_run() {
    let Some(place) = configured(CONFIGURATION) else { return };
    let (code, told) = place.json(&["explain", "fs.delete", r#"{"path":"build/old.o"}"#]);
    assert_eq!(code, Some(3));
    assert_eq!(text(&told, "/trace/0/place"), "toolgate.yaml:4", "{told}");
    assert_eq!(text(&told, "/nearest/change/place"), "toolgate.yaml:4", "{told}");
    assert_eq!(text(&told, "/nearest/change/then"), "ask", "{told}");
    let shown = place.toolgate(&["explain", "git.push", PUSH]).stdout;
    assert!(shown.contains("nearest: toolgate.yaml:14: remove or narrow the rule"), "{shown}");
    let (_, private) =
        place.json(&["explain", "http.request", r#"{"method":"GET","url":"http://169.254.169.254/"}"#]);
    assert_eq!(private["nearest"], json!({}), "{private}");
    // A hint that names a change is not contradicted.
    let metadata =
        place.toolgate(&["explain", "http.request", r#"{"method":"GET","url":"http://169.254.169.254/"}"#]);
    assert!(metadata.stdout.contains("`egress.private`"), "{metadata:?}");
    assert!(!metadata.stdout.contains("nearest:"), "{metadata:?}");
    // What is let through has nothing nearer.
    let (_, free) = place.json(&["explain", "git.status"]);
    assert_eq!((text(&free, "/verdict").as_str(), &free["nearest"]), ("allow", &Value::Null), "{free}");
}

#[test]
fn slips_in_names_are_told_and_not_taken_for_nothing() {
    let Some(place) = configured("policy: { shadow: nxt.yaml }\n") else { return };
    let file = place.home().join("tests.yaml");
    fs::write(&file, "- { agent: defualt, tool: fs.read, arguments: { path: a }, expect: deny }\n")
        .expect("written");
    let tested = place.toolgate(&["policy", "test", &file.to_string_lossy()]);
    assert!(tested.code == Some(1) && tested.stdout.contains("did you mean `default`?"), "{tested:?}");

    assert_eq!(place.call("fs.read", r#"{"path":"README.md"}"#).0, Some(0));
    let own = place.home().join("toolgate.yaml");
    let simulate = ["policy", "simulate", "--policy", &own.to_string_lossy()].map(str::to_owned);
    let nothing = "no recorded call fits what was asked for, so nothing was compared";
    for (more, is_told) in [(&["--tool", "fs.raed"][..], true), (&["--agent", "defualt"], true), (&[], false)]
    {
        let arguments: Vec<&str> = simulate.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let told = place.toolgate(&arguments);
        assert_eq!(told.stderr.contains(nothing), is_told, "{told:?}");
    }

    let checked = place.toolgate(&["config", "check", &own.to_string_lossy()]);
    assert!(
        checked.stderr.contains("the shadow cannot be used: ") && checked.stderr.contains("nxt.yaml"),
        "{checked:?}"
    );
    let shadow = place.toolgate(&["policy", "shadow"]);
    assert!(shadow.stderr.contains("the shadow cannot be used: "), "{shadow:?}");
    fs::write(&own, "{}\n").expect("written");
    let shadow = place.toolgate(&["policy", "shadow"]);
    assert!(shadow.stderr.contains("`policy.shadow` names none"), "{shadow:?}");
}

#[test]
fn arguments_that_do_not_fit_are_explained_with_where_to_look() {
    let Some(place) = configured("{}\n") else { return };
    let told = place.toolgate(&["explain", "fs.read", r#"{"pth":"a"}"#]).stdout;
    assert!(told.contains("hint: the tool's input schema says what it takes\n"), "{told}");
    assert!(told.contains("hint: `toolgate tools show fs.read` has it, with examples\n"), "{told}");
}

#[test]
fn a_history_with_nothing_in_it_says_so() {
    let Some(place) = configured("{}\n") else { return };
    assert_eq!(place.toolgate(&["tools", "list"]).code, Some(0));
    let told = place.toolgate(&["policy", "history"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told:?}");
    assert!(told.stderr.contains("no policy is on record yet"), "{told:?}");
    let json = place.toolgate(&["policy", "history", "--json"]);
    assert_eq!((json.code, json.stdout.as_str(), json.stderr.as_str()), (Some(0), "", ""), "{json:?}");
}
