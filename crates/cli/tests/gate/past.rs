//! Past calls, by another configuration and once more: told, and never done.

use std::fs;

use serde_json::Value;

use crate::place::{Place, text};

const IN_FORCE: &str = "\
approval:
  rules:
    - { tool: fs.read, action: deny, arguments: { path: \"secrets/*\" } }
";

const CANDIDATE: &str = "\
approval:
  rules:
    - { tool: fs.list, action: prompt, quorum: 1 }
policy:
  rules:
    - id: overflows
      cedar: |
        forbid (principal, action, resource == Tool::\"fs.stat\") when { (context.hour + 2) * 9223372036854775807 > 0 };
";

/// A gate with four past calls, and a candidate beside it.
fn place() -> Option<(Place, String)> {
    let place = Place::new()?;
    fs::write(place.home().join("toolgate.yaml"), IN_FORCE).expect("a configuration can be written");
    let candidate = place.home().join("next.yaml");
    fs::write(&candidate, CANDIDATE).expect("a configuration can be written");
    fs::write(place.work().join("a"), "x").expect("a file can be written");
    for (tool, arguments) in [
        ("fs.read", r#"{"path":"a"}"#),
        ("fs.read", r#"{"path":"secrets/x"}"#),
        ("fs.list", "{}"),
        ("fs.stat", r#"{"path":"a"}"#),
    ] {
        place.call(tool, arguments);
    }
    Some((place, candidate.display().to_string()))
}

fn ledger_size(place: &Place) -> usize {
    place.toolgate(&["ledger", "export"]).stdout.lines().count()
}

#[test]
fn a_candidate_is_tried_on_what_was_recorded_and_every_flip_is_listed() {
    let Some((place, candidate)) = place() else { return };
    let size = ledger_size(&place);
    let simulate = ["policy", "simulate", "--policy", &candidate];
    let (code, told) = place.json(&simulate);
    assert_eq!(code, Some(0), "{told}");
    let numbers = ["decided", "unchanged", "loosened", "tightened", "rules_failed", "drift"];
    assert_eq!(numbers.map(|key| told[key].as_u64().unwrap_or(99)), [4, 1, 1, 2, 1, 0], "{told}");
    let groups: Vec<(String, String, String, bool)> = told["groups"]
        .as_array()
        .expect("there are groups")
        .iter()
        .map(|group| {
            let decider = if group["loosens"] == true { "/today/place" } else { "/candidate/place" };
            let flip = format!("{} {}", text(group, "/today/says"), text(group, "/candidate/says"));
            (text(group, "/tool"), flip, text(group, decider), group["loosens"] == true)
        })
        .collect();
    let group = |tool: &str, flip: &str, place: &str, loosens| {
        (tool.to_owned(), flip.to_owned(), place.to_owned(), loosens)
    };
    assert_eq!(
        groups,
        [
            group("fs.read", "deny allow", "toolgate.yaml:3", true),
            group("fs.stat", "allow deny", "next.yaml:8", false),
            group("fs.list", "allow ask", "next.yaml:3", false),
        ]
    );

    let shown = place.toolgate(&simulate);
    assert!(shown.stdout.contains("★ 1 looser, 2 stricter, 1 unchanged"), "{shown:?}");
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown:?}");
    assert_eq!(shown, place.toolgate(&simulate), "the same twice");
    for (more, code) in [
        (&["--fail-on", "loosened"][..], 1),
        (&["--fail-on", "loosened", "--tool", "fs.list"], 0),
        (&["--fail-on", "flip", "--until", "2020-01-01"], 0),
        (&["--since", "soon"], 2),
        (&["--agent", "no one"], 2),
    ] {
        assert_eq!(place.toolgate(&[&simulate[..], more].concat()).code, Some(code), "{more:?}");
    }
    assert_eq!(ledger_size(&place), size, "nothing is recorded");
}

#[test]
fn what_a_candidate_changes_and_no_decision_shows_is_named() {
    let Some((place, _)) = place() else { return };
    let (same, other) = (place.home().join("same.yaml"), place.home().join("other.yaml"));
    fs::write(&same, IN_FORCE).expect("a configuration can be written");
    let more = "egress: { block: [bad.example] }\ntools: { filesystem: { hidden_names: [\"*.key\"] } }\n";
    fs::write(&other, format!("{IN_FORCE}\n{more}")).expect("a configuration can be written");
    let simulate =
        |file: &std::path::Path| place.json(&["policy", "simulate", "--policy", &file.to_string_lossy()]);
    assert_eq!(simulate(&same).1["not_compared"], serde_json::json!([]));
    let named = serde_json::json!(["tools.filesystem.hidden_names", "egress.block"]);
    let (_, told) = simulate(&other);
    assert_eq!((&told["not_compared"], &told["loosened"]), (&named, &serde_json::json!(0)), "{told}");
    let arguments = ["policy", "simulate", "--policy", &other.to_string_lossy(), "--fail-on", "loosened"];
    let shown = place.toolgate(&arguments);
    assert!(shown.stderr.contains("tools.filesystem.hidden_names, egress.block"), "{shown:?}");
    assert!(shown.stdout.contains("`egress.block` differ"), "{shown:?}");
}

#[test]
fn drift_is_what_the_policy_in_force_says_otherwise_than_was_recorded() {
    let Some((place, candidate)) = place() else { return };
    fs::write(place.home().join("toolgate.yaml"), "{}").expect("a configuration can be written");
    let (_, told) = place.json(&["policy", "simulate", "--policy", &candidate]);
    assert_eq!((&told["drift"], text(&told, "/drift_groups/0/then").as_str()), (&1.into(), "deny"), "{told}");
    let shown = place.toolgate(&["policy", "simulate", "--policy", &candidate, "--drift"]).stdout;
    assert!(shown.contains("drift: deny → allow  `fs.read`  1 call"), "{shown}");
}

#[test]
fn a_past_call_is_shown_with_then_and_now_and_is_not_done_again() {
    let Some((place, candidate)) = place() else { return };
    let (code, result) = place.call("fs.write", r#"{"path":"note","content":"once"}"#);
    assert_eq!(code, Some(0), "{result}");
    fs::remove_file(place.work().join("note")).expect("it was written");
    let (id, size) = (text(&result, "/call_id"), ledger_size(&place));
    let (code, told) = place.json(&["replay", &id[..8]]);
    assert_eq!(
        (code, text(&told, "/then/says"), text(&told, "/now/says")),
        (Some(0), "allow".into(), "allow".into())
    );
    assert_eq!(text(&told, "/tool_since"), "same", "{told}");
    assert!(!place.work().join("note").exists() && ledger_size(&place) == size, "nothing happens");

    let refused: Vec<Value> = place.json(&["calls"]).1.as_array().cloned().unwrap_or_default();
    let refused = refused.iter().find(|call| call["status"] == "refused").expect("one was refused");
    let shown = place.toolgate(&["replay", &text(refused, "/call_id"), "--policy", &candidate]).stdout;
    assert!(shown.contains("★ looser: then deny (toolgate.yaml:3: "), "{shown}");
    assert!(shown.contains("with the candidate allow (`code:read` is free by default)"), "{shown}");

    let unknown = place.toolgate(&["replay", "deadbeef"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("there is no call"), "{unknown:?}");
    assert_eq!(place.toolgate(&["erase", &id]).code, Some(0));
    let erased = place.toolgate(&["replay", &id]);
    assert!(erased.code == Some(0) && erased.stdout.contains("what it was asked is erased"), "{erased:?}");
    let (_, told) = place.json(&["policy", "simulate", "--policy", &candidate]);
    assert_eq!(told.pointer("/not_decided/erased/count"), Some(&1.into()), "{told}");
}
