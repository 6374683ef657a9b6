//! The ledger from the outside: verified here, verified elsewhere, broken on purpose.

use std::fs;

use crate::place::{CLEAN, Place, text};

fn with_calls() -> Option<Place> {
    let place = Place::new()?;
    for _ in 0..2 {
        place.call("fs.read", r#"{"path":"README.md"}"#);
    }
    place.call("fs.read", r#"{"path":"../x"}"#);
    Some(place)
}

#[test]
fn an_honest_ledger_verifies() {
    let Some(place) = with_calls() else { return };
    let ran = place.toolgate(&["ledger", "verify"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("ok: "), "{ran:?}");
}

#[test]
fn an_export_verifies_elsewhere_with_the_public_key_alone() {
    let Some(place) = with_calls() else { return };
    let elsewhere = Place::new().expect("there were walls a moment ago");
    let path = |name: &str| elsewhere.work().join(name).to_str().expect("a plain path").to_owned();
    let export = place.toolgate(&["ledger", "export", "--to", &path("ledger.jsonl")]);
    assert_eq!(export.code, Some(0), "{export:?}");
    fs::copy(place.home().join("signing.pub"), path("key.pub")).expect("the public key is there");
    let verify = ["ledger", "verify", "--export", "ledger.jsonl", "--key", "key.pub"];
    let ran = elsewhere.toolgate(&verify);
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let honest = fs::read_to_string(path("ledger.jsonl")).expect("it was written");
    let changed = honest.replacen("fs.read", "fs.raad", 1);
    assert_ne!(changed, honest);
    fs::write(path("ledger.jsonl"), changed).expect("it can be changed");
    let ran = elsewhere.toolgate(&verify);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("broken: "), "{ran:?}");
}

#[test]
fn an_entry_is_proved_and_a_checkpoint_kept_elsewhere_is_agreed_with() {
    let Some(place) = with_calls() else { return };
    let checkpoint = place.toolgate(&["ledger", "checkpoint"]);
    assert_eq!(checkpoint.code, Some(0), "{checkpoint:?}");
    fs::write(place.work().join("kept"), &checkpoint.stdout).expect("it can be kept");
    place.call("fs.read", r#"{"path":"README.md"}"#);
    let ran = place.toolgate(&["ledger", "verify", "--checkpoint", "kept"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let proof = place.toolgate(&["ledger", "prove", "1"]);
    assert_eq!(proof.code, Some(0), "{proof:?}");
    assert_eq!(place.toolgate(&["ledger", "prove", "999999"]).code, Some(2));
}

#[test]
fn a_receipt_verifies_from_a_file_and_one_changed_byte_breaks_it() {
    let Some(place) = with_calls() else { return };
    let (_, read) = place.call("fs.read", r#"{"path":"README.md"}"#);
    let envelope = place.toolgate(&["receipt", "show", &text(&read, "/receipt"), "--json"]).stdout;
    fs::write(place.work().join("receipt.json"), &envelope).expect("it can be kept");
    assert_eq!(place.toolgate(&["receipt", "verify", "receipt.json"]).code, Some(0));
    let at = envelope.find("\"payload\":\"").expect("it has a payload") + 20;
    let mut changed = envelope.into_bytes();
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    fs::write(place.work().join("receipt.json"), changed).expect("it can be changed");
    assert_eq!(place.toolgate(&["receipt", "verify", "receipt.json"]).code, Some(1));
}

#[test]
fn the_ledger_names_the_calls_and_approvals_it_tells_of() {
    let Some(place) = Place::new() else { return };
    let (_, waiting) = place.call("shell", CLEAN);
    let short = |pointer: &str| text(&waiting, pointer).chars().take(8).collect::<String>();
    let (call, approval) = (short("/call_id"), short("/approval/id"));
    assert_eq!(place.toolgate(&["approve", &approval]).code, Some(0));
    assert_eq!(place.call("shell", CLEAN).0, Some(0));
    let shown = place.toolgate(&["ledger", "show", "--last", "5"]).stdout;
    let told: Vec<&str> = shown.lines().filter_map(|line| line.get(29..)).collect();
    let expected = [
        format!("call.planned       {call}  shell → ask agent default"),
        format!("approval.asked     {call}  shell approval {approval} agent default"),
        format!("approval.answered  {call}  approve by me → approved approval {approval}"),
        format!("call.started       {call}  approval {approval}"),
        format!("call.settled       {call}  shell completed agent default"),
    ];
    assert_eq!(told, expected, "{shown}");
}

#[test]
fn receipts_are_listed_and_shown_with_the_directory_and_the_command() {
    let Some(place) = Place::new() else { return };
    let words =
        r#"{"command":"cat","args":["README.md","my file"],"stages":[{"command":"wc"}],"cwd":"build"}"#;
    let (_, ran) = place.call("shell", words);
    let id: String = text(&ran, "/receipt").chars().take(10).collect();
    let listed = place.toolgate(&["receipt", "list"]).stdout;
    assert!(listed.starts_with(&format!("{id}  ")), "{listed}");
    assert!(listed.trim_end().ends_with("shell       cat README.md 'my file' | wc"), "{listed}");
    let (_, row) = place.json(&["receipt", "list", "--last", "1"]);
    assert_eq!(row["receipt"], ran["receipt"]);
    let shown = place.toolgate(&["receipt", "show", &id]).stdout;
    let directory = place.work().canonicalize().expect("it is there").join("build");
    assert!(shown.contains(&format!("\n  directory  {}\n", directory.display())), "{shown}");
    assert!(shown.contains("\n  call       cat README.md 'my file' | wc\n"), "{shown}");
}
