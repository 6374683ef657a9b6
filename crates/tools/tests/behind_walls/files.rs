//! What the `fs` tools do when all is well.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use crate::Test;
use crate::bench::{Bench, names_in};

pub(crate) const TESTS: &[Test] = &[
    ("read_edit_and_read_again_gives_the_new_text", read_edit_and_read_again_gives_the_new_text),
    (
        "a_write_is_one_step_and_keeps_permissions_and_owner",
        a_write_is_one_step_and_keeps_permissions_and_owner,
    ),
    ("what_is_written_is_told_exactly", what_is_written_is_told_exactly),
    ("anything_is_read_and_written_as_base64", anything_is_read_and_written_as_base64),
    (
        "a_file_past_the_size_limit_is_neither_read_nor_written",
        a_file_past_the_size_limit_is_neither_read_nor_written,
    ),
    ("a_list_is_sorted_limited_and_escaped", a_list_is_sorted_limited_and_escaped),
    ("directories_are_made_moved_and_deleted", directories_are_made_moved_and_deleted),
    ("a_search_finds_lines_and_names", a_search_finds_lines_and_names),
    ("an_edit_that_is_not_exact_changes_nothing", an_edit_that_is_not_exact_changes_nothing),
    ("a_run_says_what_held_it", a_run_says_what_held_it),
    (
        "what_only_its_owner_may_read_is_read_where_everybody_may_enter",
        what_only_its_owner_may_read_is_read_where_everybody_may_enter,
    ),
    ("what_is_a_strangers_stays_closed", what_is_a_strangers_stays_closed),
];

fn what_only_its_owner_may_read_is_read_where_everybody_may_enter() {
    let bench = Bench::new();
    fs::set_permissions(&bench.workspace, fs::Permissions::from_mode(0o755)).unwrap();
    let own = bench.put("own", "mine");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(bench.done("fs.read", json!({ "path": "own" }))["content"], "mine");
    let cat = bench.done("shell", json!({ "command": "cat", "args": ["own"] }));
    assert_eq!(cat["stdout"], "mine");
    // As it is for those that write.
    bench.done("fs.edit", json!({ "path": "own", "old": "mine", "new": "ours" }));
    assert_eq!(bench.done("fs.read", json!({ "path": "own" }))["content"], "ours");
}

/// The gate of root shows a workspace as its owner would see it, not as root does.
fn what_is_a_strangers_stays_closed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    fs::set_permissions(&bench.workspace, fs::Permissions::from_mode(0o755)).unwrap();
    let other = bench.put("other", "secret");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&other, Some(65534), Some(65534)).unwrap();
    assert_eq!(bench.refused("fs.read", json!({ "path": "other" })), "tool_failed");
}

fn read_edit_and_read_again_gives_the_new_text() {
    let bench = Bench::new();
    bench.put("src/lib.rs", "fn one() {}\nfn two() {}\n");
    let read = bench.call("fs.read", json!({ "path": "src/lib.rs" }));
    assert_eq!(read.output.content, "fn one() {}\nfn two() {}\n");
    let edit = json!({ "path": "src/lib.rs", "old": "fn two()", "new": "fn three()" });
    let edited = bench.call("fs.edit", edit);
    assert_eq!(edited.output.structured["diff"], "@@ line 2 @@\n-fn two() {}\n+fn three() {}\n");
    assert_eq!(edited.facts.files_changed, [("src/lib.rs".into(), "modified".into())].into());
    let again = bench.call("fs.read", json!({ "path": "src/lib.rs", "offset": 2 }));
    assert_eq!(again.output.content, "fn three() {}\n");
    bench.done("fs.append", json!({ "path": "src/lib.rs", "content": "// end" }));
    assert_eq!(bench.text("src/lib.rs"), "fn one() {}\nfn three() {}\n// end");
}

fn a_write_is_one_step_and_keeps_permissions_and_owner() {
    let bench = Bench::new();
    let script = bench.put("run.sh", "old");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let before = fs::metadata(&script).unwrap();
    bench.done("fs.write", json!({ "path": "run.sh", "content": "new" }));
    let after = fs::metadata(&script).unwrap();
    assert_eq!(bench.text("run.sh"), "new");
    assert_eq!((after.mode() & 0o7777, after.uid(), after.gid()), (0o750, before.uid(), before.gid()));
    assert_ne!(before.ino(), after.ino(), "a new file took the name");
    assert_eq!(names_in(&bench.workspace), ["run.sh"], "nothing is left beside it");
}

fn what_is_written_is_told_exactly() {
    let bench = Bench::new();
    let write = json!({ "path": "a/b/c.txt", "content": "x", "parents": true });
    let ran = bench.call("fs.write", write.clone());
    let created = |path: &str| (path.to_owned(), "created".to_owned());
    assert_eq!(ran.facts.files_changed, [created("a"), created("a/b"), created("a/b/c.txt")].into());
    assert!(ran.facts.files_changed_complete);
    let again = bench.call("fs.write", write);
    assert_eq!(again.facts.files_changed, [("a/b/c.txt".to_owned(), "modified".to_owned())].into());
    let only_new = json!({ "path": "a/b/c.txt", "content": "y", "create_only": true });
    assert_eq!(bench.refused("fs.write", only_new), "tool_failed");
    assert_eq!(bench.refused("fs.write", json!({ "path": "no/such/dir", "content": "" })), "tool_failed");
    assert_eq!(bench.text("a/b/c.txt"), "x");
}

fn anything_is_read_and_written_as_base64() {
    let bench = Bench::new();
    bench.put("raw", [0xff, 0x00, 0x0a]);
    assert_eq!(bench.refused("fs.read", json!({ "path": "raw" })), "bad_arguments");
    let read = bench.done("fs.read", json!({ "path": "raw", "encoding": "base64" }));
    assert_eq!(read["content"], "/wAK");
    bench.done("fs.write", json!({ "path": "copy", "content": "/wAK", "encoding": "base64" }));
    assert_eq!(fs::read(bench.workspace.join("copy")).unwrap(), [0xff, 0x00, 0x0a]);
    let wrong = json!({ "path": "copy", "content": "???", "encoding": "base64" });
    assert_eq!(bench.refused("fs.write", wrong), "bad_arguments");
}

fn a_file_past_the_size_limit_is_neither_read_nor_written() {
    let mut bench = Bench::new();
    bench.settings.files.max_bytes = 1000;
    bench.put("large", "x".repeat(1001));
    bench.put("full", "x".repeat(1000));
    assert_eq!(bench.refused("fs.read", json!({ "path": "large" })), "tool_failed");
    bench.done("fs.read", json!({ "path": "full" }));
    assert_eq!(
        bench.refused("fs.write", json!({ "path": "new", "content": "x".repeat(1001) })),
        "tool_failed"
    );
    assert_eq!(bench.refused("fs.append", json!({ "path": "full", "content": "y" })), "tool_failed");
    let grow = json!({ "path": "full", "old": "x", "new": "xx", "all": true });
    assert_eq!(bench.refused("fs.edit", grow), "tool_failed");
    assert_eq!(bench.text("full").len(), 1000);
    assert!(!bench.workspace.join("new").exists());
}

fn a_list_is_sorted_limited_and_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    for name in ["b", "a/inner", "c", ".env"] {
        bench.put(name, "x");
    }
    fs::write(bench.workspace.join(std::ffi::OsStr::from_bytes(b"n\xff")), "").unwrap();
    let paths = |arguments| {
        let listed = bench.done("fs.list", arguments);
        let path = |entry: &serde_json::Value| entry["path"].as_str().unwrap().to_owned();
        (
            listed["entries"].as_array().unwrap().iter().map(path).collect::<Vec<_>>(),
            listed["truncated"].clone(),
        )
    };
    assert_eq!(paths(json!({})).0, [".env", "a", "b", "c", "n\\xff"]);
    assert_eq!(paths(json!({ "recursive": true })).0, [".env", "a", "a/inner", "b", "c", "n\\xff"]);
    assert_eq!(paths(json!({ "limit": 2 })), (vec![".env".to_owned(), "a".to_owned()], json!(true)));
    assert_eq!(paths(json!({ "path": "a" })), (vec!["inner".to_owned()], json!(false)));
    let listed = bench.done("fs.list", json!({}));
    assert_eq!((&listed["entries"][0]["hidden"], &listed["entries"][2]["size"]), (&json!(true), &json!(1)));
    assert_eq!(bench.refused("fs.list", json!({ "path": "b" })), "tool_failed");
}

fn directories_are_made_moved_and_deleted() {
    let bench = Bench::new();
    assert_eq!(bench.refused("fs.mkdir", json!({ "path": "x/y" })), "tool_failed");
    bench.done("fs.mkdir", json!({ "path": "x/y", "parents": true }));
    assert_eq!(bench.done("fs.mkdir", json!({ "path": "x/y", "parents": true }))["created"], false);
    bench.put("x/y/file", "1");
    bench.put("other", "2");
    let moved = bench.call("fs.move", json!({ "from": "x/y", "to": "z" }));
    let expected = [("x/y".to_owned(), "removed".to_owned()), ("z".to_owned(), "created".to_owned())];
    assert_eq!(moved.facts.files_changed, expected.into());
    assert_eq!(bench.refused("fs.move", json!({ "from": "other", "to": "z/file" })), "tool_failed");
    bench.done("fs.move", json!({ "from": "other", "to": "z/file", "overwrite": true }));
    assert_eq!(bench.text("z/file"), "2");
    assert_eq!(bench.refused("fs.delete", json!({ "path": "z" })), "tool_failed");
    let deleted = bench.call("fs.delete", json!({ "path": "z", "recursive": true }));
    assert_eq!(deleted.output.structured["removed"], 2);
    assert_eq!(deleted.facts.files_changed.len(), 2);
    assert_eq!(bench.done("fs.delete", json!({ "path": "x" }))["removed"], 1);
    assert_eq!(names_in(&bench.workspace), Vec::<String>::new());
}

fn a_search_finds_lines_and_names() {
    let bench = Bench::new();
    bench.put("src/a.rs", "fn needle() {}\nlet x = 1;\n");
    bench.put("src/b.txt", "a Needle here\n");
    bench.put(".git/config", "needle\n");
    bench.put(".env", "needle=secret\n");
    bench.put("binary", b"needle\0");
    let found = |arguments| {
        let found = bench.done("fs.search", arguments);
        let place = |m: &serde_json::Value| format!("{}:{}", m["path"].as_str().unwrap(), m["line"]);
        found["matches"].as_array().unwrap().iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(found(json!({ "pattern": "needle" })), ["src/a.rs:1"]);
    assert_eq!(found(json!({ "pattern": "needle", "ignore_case": true })), ["src/a.rs:1", "src/b.txt:1"]);
    assert_eq!(found(json!({ "pattern": "x = \\d", "regex": true, "glob": "*.rs" })), ["src/a.rs:2"]);
    assert_eq!(found(json!({ "pattern": "x = \\d" })), Vec::<String>::new(), "literal unless it is said");
    assert_eq!(found(json!({ "pattern": "b.t", "scope": "names" })), ["src/b.txt:null"]);
    assert_eq!(bench.refused("fs.search", json!({ "pattern": "(", "regex": true })), "bad_arguments");
    let huge = "(a{1000}){1000}";
    assert_eq!(bench.refused("fs.search", json!({ "pattern": huge, "regex": true })), "bad_arguments");
}

fn an_edit_that_is_not_exact_changes_nothing() {
    let bench = Bench::new();
    bench.put("f", "a\na\n");
    assert_eq!(bench.refused("fs.edit", json!({ "path": "f", "old": "b", "new": "c" })), "tool_failed");
    assert_eq!(bench.refused("fs.edit", json!({ "path": "f", "old": "a", "new": "c" })), "tool_failed");
    assert_eq!(bench.text("f"), "a\na\n");
    assert_eq!(
        bench.done("fs.edit", json!({ "path": "f", "old": "a", "new": "c", "all": true }))["replaced"],
        2
    );
    assert_eq!(bench.text("f"), "c\nc\n");
}

fn a_run_says_what_held_it() {
    let bench = Bench::new();
    bench.put("f", "x");
    for _ in 0..2 {
        let facts = bench.call("fs.read", json!({ "path": "f" })).facts;
        assert_eq!(facts.backend, "native");
        assert_eq!(facts.enforced.len(), jail::Control::ALL.len());
        for control in jail::Control::ALL.into_iter().filter(|control| control.is_required()) {
            assert_eq!(facts.enforced[control.name()].level, "enforced", "{control}");
        }
        let own = contract::Digest::of(&fs::read(std::env::current_exe().unwrap()).unwrap());
        assert_eq!(facts.worker, Some(own));
        assert!(facts.wall_micros > 0 && facts.peak_memory > 0);
    }
}
