//! The worker by itself, without any wall around it: its own guards must hold.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use jail::Names;
use serde_json::{Value, json};

use super::*;
use crate::files::FileCall;
use crate::wire::{Links, ToldNames};

struct Place {
    folder: tempfile::TempDir,
    links: Links,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        Place { folder, links: Links::Refuse }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("root")
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn ask(&self, call: Value) -> WorkerResponse {
        let call: FileCall = serde_json::from_value(call).unwrap();
        answer(&WorkerRequest {
            root: self.root(),
            names: Arc::new(ToldNames::of(Names::default())),
            max_bytes: 1000,
            links: self.links,
            expected: Vec::new(),
            call,
        })
    }

    fn code(&self, call: Value) -> String {
        self.ask(call.clone()).result.err().unwrap_or_else(|| panic!("{call} went well")).code.to_string()
    }
}

#[test]
fn hidden_and_protected_names_are_refused_by_name_alone() {
    let place = Place::new();
    for path in [".env", "a/.ssh/id", "server.pem"] {
        place.put(path, "secret");
        assert_eq!(place.code(json!({ "Read": { "path": path } })), "protected", "{path}");
        assert_eq!(place.code(json!({ "Stat": { "path": path } })), "protected", "{path}");
        assert_eq!(place.code(json!({ "Delete": { "path": path } })), "protected", "{path}");
        assert_eq!(place.code(json!({ "Move": { "from": path, "to": "x" } })), "protected", "{path}");
    }
    place.put("own", "x");
    for path in [".git/hooks/post-checkout", ".git/x", ".vscode/settings.json", ".envrc"] {
        let write = json!({ "Write": { "path": path, "content": "x", "parents": true } });
        assert_eq!(place.code(write), "protected", "{path}");
        let append = json!({ "Append": { "path": path, "content": "x" } });
        assert_eq!(place.code(append), "protected", "{path}");
        assert_eq!(place.code(json!({ "Move": { "from": "own", "to": path } })), "protected", "{path}");
        assert_eq!(
            place.code(json!({ "MakeDirectory": { "path": path, "parents": true } })),
            "protected",
            "{path}"
        );
    }
    assert!(!place.root().join(".git").exists() && !place.root().join(".vscode").exists());
}

#[test]
fn no_directory_is_made_a_repository_and_none_that_is_one_is_changed() {
    let place = Place::new();
    let parts = ["HEAD", "objects/x", "refs/x"];
    let write = |path: &str| json!({ "Write": { "path": path, "content": "", "parents": true } });
    for last in parts {
        let folder = last.split('/').next().unwrap();
        for part in parts.into_iter().filter(|part| *part != last) {
            place.put(&format!("{folder}.d/{part}"), "");
        }
        assert_eq!(place.code(write(&format!("{folder}.d/{last}"))), "protected", "{last}");
        assert!(place.ask(write(&format!("{folder}.d/config"))).result.is_ok(), "{last}");
    }
    parts.into_iter().for_each(|part| place.put(&format!("there/{part}"), ""));
    for path in ["there/config", "there/hooks/update", "there/refs/heads/main"] {
        assert_eq!(place.code(write(path)), "protected", "{path}");
    }
    assert!(place.ask(json!({ "Delete": { "path": "there", "recursive": true } })).result.is_ok());
}

#[test]
fn a_directory_is_not_moved_so_that_a_name_in_it_becomes_guarded_or_ceases_to_be() {
    let place = Place::new();
    place.put("x/git/config", "evil");
    place.put(".docker/config.json", "secret");
    assert_eq!(place.code(json!({ "Move": { "from": "x", "to": ".config" } })), "protected");
    assert_eq!(place.code(json!({ "Move": { "from": ".docker", "to": "docker" } })), "protected");
    assert!(place.root().join(".docker/config.json").exists() && !place.root().join(".config").exists());
}

#[test]
fn links_are_refused_wherever_they_stand_in_a_path() {
    let place = Place::new();
    place.put("own", "x");
    symlink("..", place.root().join("up")).unwrap();
    symlink("../outside", place.root().join("out")).unwrap();
    for path in ["up/outside", "out", "up/root/own"] {
        for call in [
            json!({ "Read": { "path": path } }),
            json!({ "Append": { "path": path, "content": "x" } }),
            json!({ "Write": { "path": path, "content": "x" } }),
            json!({ "Search": { "path": path, "pattern": "secret" } }),
        ] {
            assert_eq!(place.code(call.clone()), "outside", "{call}");
        }
    }
    let overwrite = json!({ "Move": { "from": "own", "to": "up/outside", "overwrite": true } });
    assert_eq!(place.code(overwrite), "outside");
    assert_eq!(fs::read_to_string(place.folder.path().join("outside")).unwrap(), "secret");
}

#[test]
fn links_that_are_followed_stay_inside_and_do_not_rename_what_is_guarded() {
    let mut place = Place::new();
    place.links = Links::FollowInside;
    place.put("a/b/file", "inside");
    place.put(".env", "secret");
    symlink("a/b", place.root().join("short")).unwrap();
    symlink("../../a/./b/file", place.root().join("a/b/around")).unwrap();
    symlink("../../../outside", place.root().join("a/b/out")).unwrap();
    symlink(place.root().join(".env"), place.root().join("innocent")).unwrap();
    symlink("/", place.root().join("slash")).unwrap();
    symlink("self", place.root().join("self")).unwrap();
    for path in ["short/file", "short/around", "a/b/around"] {
        let Ok(FileResult::Read(read)) = place.ask(json!({ "Read": { "path": path } })).result else {
            panic!("{path} was not read");
        };
        assert_eq!((read.path.as_str(), read.content.as_str()), ("a/b/file", "inside"));
    }
    for path in ["short/out", "a/b/out", "slash/etc/passwd", "self", "slash"] {
        assert_eq!(place.code(json!({ "Read": { "path": path } })), "outside", "{path}");
    }
    assert_eq!(place.code(json!({ "Read": { "path": "innocent" } })), "protected");
    assert_eq!(place.code(json!({ "Write": { "path": "innocent", "content": "x" } })), "protected");
}

#[test]
fn a_file_with_two_names_is_left_alone() {
    let place = Place::new();
    fs::hard_link(place.folder.path().join("outside"), place.root().join("linked")).unwrap();
    assert_eq!(place.code(json!({ "Read": { "path": "linked" } })), "outside");
    assert_eq!(place.code(json!({ "Write": { "path": "linked", "content": "x" } })), "outside");
    assert_eq!(place.code(json!({ "Append": { "path": "linked", "content": "x" } })), "outside");
    assert_eq!(fs::read_to_string(place.folder.path().join("outside")).unwrap(), "secret");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let place = Place::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, place.root().join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    assert_eq!(place.code(json!({ "Read": { "path": "pipe" } })), "tool_failed");
    assert_eq!(place.code(json!({ "Write": { "path": "pipe", "content": "x" } })), "tool_failed");
    assert_eq!(place.code(json!({ "Append": { "path": "pipe", "content": "x" } })), "tool_failed");
    let found = place.ask(json!({ "Search": { "pattern": "x" } })).result;
    assert!(matches!(found, Ok(FileResult::Search(_))));
}

#[test]
fn a_delete_that_fails_half_way_says_what_is_gone() {
    let place = Place::new();
    place.put("a/b", "1");
    let answer = place.ask(json!({ "Delete": { "path": "a", "recursive": true } }));
    assert!(answer.result.is_ok());
    let gone: Vec<&str> = answer.changed.paths.keys().map(String::as_str).collect();
    assert_eq!(gone, ["a", "a/b"]);
}

#[test]
fn the_workspace_itself_is_neither_written_moved_nor_deleted() {
    let place = Place::new();
    for call in [
        json!({ "Write": { "path": ".", "content": "x" } }),
        json!({ "Delete": { "path": ".", "recursive": true } }),
        json!({ "Move": { "from": ".", "to": "x" } }),
        json!({ "MakeDirectory": { "path": ".", "parents": true } }),
    ] {
        assert_eq!(place.code(call.clone()), "bad_arguments", "{call}");
    }
    assert!(place.root().exists());
}

fn bound(place: &Place, words: &[&str]) -> Vec<Value> {
    let words: Vec<Value> =
        words.iter().map(|text| json!({ "text": text, "how": "sealed", "missing": "Watch" })).collect();
    let answer = place.ask(json!({ "Bind": { "directory": "sub", "words": words } }));
    let FileResult::Bind(looked) = answer.result.unwrap() else { panic!("another answer") };
    looked.into_iter().map(|looked| serde_json::to_value(looked).unwrap()).collect()
}

#[test]
fn a_named_file_is_bound_by_where_it_really_is() {
    let place = Place { links: Links::FollowInside, ..Place::new() };
    place.put("run.sh", "good");
    place.put("sub/own.sh", "own");
    symlink("../run.sh", place.root().join("sub/link.sh")).unwrap();
    for (word, path, content) in [
        ("own.sh", "sub/own.sh", "own"),
        ("../run.sh", "run.sh", "good"),
        ("/run.sh", "run.sh", "good"),
        ("link.sh", "run.sh", "good"),
        ("../sub/../sub/link.sh", "run.sh", "good"),
    ] {
        let looked = bound(&place, &[word]);
        let file = looked[0].pointer("/met/File").unwrap();
        assert_eq!(file["path"], path, "{word}");
        assert_eq!(file["digest"], json!(contract::Digest::of(content.as_bytes())), "{word}");
        assert!(file["copy"].is_string(), "{word}");
    }
    for word in ["nothing", "--flag", "a/b/c", "own.sh/x"] {
        assert_eq!(bound(&place, &[word])[0]["met"], "Absent", "{word}");
    }
    assert_eq!(bound(&place, &["."])[0]["met"], "Directory");
}

#[test]
fn what_is_hidden_is_not_even_hashed_and_what_has_a_second_name_is_not_copied() {
    let place = Place { links: Links::FollowInside, ..Place::new() };
    place.put("sub/.env", "secret");
    place.put("sub/twice", "x");
    place.put("sub/.vscode/tasks.json", "{}");
    fs::hard_link(place.root().join("sub/twice"), place.root().join("again")).unwrap();
    symlink(".env", place.root().join("sub/plain")).unwrap();
    symlink("../../outside", place.root().join("sub/out")).unwrap();
    assert_eq!(bound(&place, &[".env"])[0]["met"], "Hidden");
    assert_eq!(bound(&place, &["plain"])[0]["met"], "Hidden");
    assert_eq!(bound(&place, &["out"])[0]["met"], "Outside");
    for word in ["twice", ".vscode/tasks.json"] {
        let looked = bound(&place, &[word]);
        assert!(looked[0].pointer("/met/File/copy").unwrap().is_null(), "{word}");
    }
}

#[test]
fn no_more_is_bound_than_a_question_holds() {
    let place = Place { links: Links::FollowInside, ..Place::new() };
    let names: Vec<String> = (0..70).map(|number| format!("f{number}")).collect();
    names.iter().for_each(|name| place.put(&format!("sub/{name}"), name));
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let looked = bound(&place, &words);
    assert_eq!(looked.iter().filter(|looked| looked["met"] == "TooMuch").count(), 6);
    let large = fs::File::create(place.root().join("sub/large")).unwrap();
    large.set_len(crate::operands::MOST_BYTES + 1).unwrap();
    assert_eq!(bound(&place, &["large"])[0]["met"], "TooMuch");
}

#[test]
fn nothing_is_done_where_a_file_is_not_as_it_was() {
    let place = Place::new();
    let delete = |expected: Value| {
        let call: FileCall = serde_json::from_value(json!({ "Delete": { "path": "f" } })).unwrap();
        answer(&WorkerRequest {
            root: place.root(),
            names: Arc::new(ToldNames::of(Names::default())),
            max_bytes: 1000,
            links: Links::Refuse,
            expected: serde_json::from_value(expected).unwrap(),
            call,
        })
    };
    let digest = |text: &str| json!(contract::Digest::of(text.as_bytes()));
    let expecting = |digest: Value| json!([{ "named": "f", "path": "f", "digest": digest }]);
    place.put("f", "new");
    for expected in [
        expecting(digest("old")),
        expecting(Value::Null),
        json!([{ "named": "f", "path": "elsewhere", "digest": digest("new") }]),
        json!([{ "named": "gone", "path": "gone", "digest": digest("new") }]),
    ] {
        assert_eq!(delete(expected.clone()).result.unwrap_err().code.as_str(), "changed", "{expected}");
        assert!(place.root().join("f").exists());
    }
    assert!(delete(expecting(digest("new"))).result.is_ok());
    assert!(!place.root().join("f").exists());
}

#[test]
fn what_the_system_does_not_permit_is_told_with_what_to_do() {
    let reason = super::root::failed("write", "q", rustix::io::Errno::ACCESS);
    assert_eq!(reason.message, "no permission to write `q`");
    assert_eq!(reason.hint.as_deref(), Some("`fs.stat` shows its permissions; ask a person to change them"));
}
