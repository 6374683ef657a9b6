//! What calls keep private: shown to those who may see it, and erased.

use std::fs;

use serde_json::Value;

use crate::place::{Place, text};
use crate::toolgate::ran;

const SECRET: &str = "WORDS-71ce09";

fn write(place: &Place, more: &[&str]) -> String {
    let arguments = format!(r#"{{"path":"note","content":"{SECRET}"}}"#);
    let (code, result) = place.json(&[&["call", "fs.write", &arguments], more].concat());
    assert_eq!(code, Some(0), "{result}");
    text(&result, "/call_id")
}

fn is_in_the_store(place: &Place) -> bool {
    let files = fs::read_dir(place.home()).expect("the home is there").flatten();
    let names = files.map(|file| file.path()).filter(|path| path.is_file());
    names
        .map(|path| fs::read(path).expect("it is ours"))
        .any(|file| String::from_utf8_lossy(&file).contains(SECRET))
}

#[test]
fn a_call_is_shown_and_erased_by_operators_and_the_ledger_says_by_whom() {
    let Some(place) = Place::new() else { return };
    let id = write(&place, &[]);
    assert!(!is_in_the_store(&place));
    let (code, shown) = place.json(&["reveal", &id[..8]]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(text(&shown, "/arguments").contains(SECRET), "{shown}");

    let added = place.toolgate(&["operators", "add", "guest", "--role", "viewer", "--out", "guest.key"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    for command in ["reveal", "erase"] {
        let guest = place.toolgate(&[command, &id, "--key-file", "guest.key"]);
        assert!(guest.code == Some(3) && guest.stderr.contains("`guest` may not"), "{guest:?}");
    }

    let erased = place.toolgate(&["erase", &id, "--reason", "asked to"]);
    assert_eq!(erased, ran(0, "", format!("erased: what call {id} was asked and gave\n")));
    assert!(!is_in_the_store(&place));
    let gone = place.toolgate(&["reveal", &id]);
    assert_eq!(gone, ran(3, "", format!("error: the call `{id}` is erased\n")));
    let twice = place.toolgate(&["erase", &id]);
    assert_eq!(twice, ran(3, "", format!("error: the call `{id}` is erased already\n")));
    assert_eq!(place.toolgate(&["erase", "ffffffff"]).code, Some(2));
    for command in [&["receipt", "show", &id][..], &["ledger", "verify"], &["calls"]] {
        let looked = place.toolgate(command);
        assert!(looked.code == Some(0) && !looked.stdout.contains(SECRET), "{looked:?}");
    }
    let entries = place.toolgate(&["ledger", "show", "--json"]).stdout;
    let entries: Vec<Value> =
        entries.lines().map(|line| serde_json::from_str(line).expect("a line is an entry")).collect();
    let by = |kind: &str| {
        entries.iter().find(|entry| entry["kind"] == kind).map(|entry| entry["body"]["by"].clone())
    };
    assert_eq!((by("call.read"), by("call.erased")), (Some("me".into()), Some("me".into())));
}

#[test]
fn a_call_that_could_be_made_again_under_its_key_is_not_erased_yet() {
    let Some(place) = Place::new() else { return };
    let id = write(&place, &["--key", "one"]);
    let refused = place.toolgate(&["erase", &id]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.stderr.contains("kept for 24 hours") && refused.stderr.contains("hint: try again after "),
        "{refused:?}"
    );
    assert_eq!(write(&place, &["--key", "one"]), id, "the same key is the same call");
}

#[test]
fn a_lost_wrapping_key_is_named_is_not_replaced_and_works_again_when_put_back() {
    let Some(place) = Place::new() else { return };
    let id = write(&place, &[]);
    let (key, aside) = (place.home().join("wrapping.key"), place.home().join("aside"));
    fs::rename(&key, &aside).expect("it can be moved");
    for command in [&["call", "fs.read", r#"{"path":"note"}"#][..], &["reveal", &id], &["ledger", "verify"]] {
        let broken = place.toolgate(command);
        assert_eq!(broken.code, Some(2), "{broken:?}");
        let named = format!("`{}` is not there", key.display());
        assert!(broken.stderr.contains(&named) && broken.stderr.contains("backup"), "{broken:?}");
        assert!(!broken.stderr.contains("hint:"), "{broken:?}");
        assert!(!key.exists(), "no new one stands where the old one belongs");
    }
    fs::rename(&aside, &key).expect("it can be moved");
    let (code, shown) = place.json(&["reveal", &id]);
    assert!(code == Some(0) && text(&shown, "/arguments").contains(SECRET), "{shown}");
}
