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
    assert_eq!(place.toolgate(&["policy", "test"]).stdout, "1 example of rules hold\n0 passed, 0 failed\n");
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
    // What is let through has nothing nearer.
    let (_, free) = place.json(&["explain", "git.status"]);
    assert_eq!((text(&free, "/verdict").as_str(), &free["nearest"]), ("allow", &Value::Null), "{free}");
}
