//! Ways out of the workspace, and to what is guarded in it. Each must fail, and leave no trace outside.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::Test;
use crate::bench::{Bench, SECRET, names_in};

pub(crate) const TESTS: &[Test] = &[
    ("traversal_is_refused_by_every_tool", traversal_is_refused_by_every_tool),
    ("a_symlink_out_of_the_workspace_is_refused", a_symlink_out_of_the_workspace_is_refused),
    (
        "links_are_followed_inside_only_where_that_is_switched_on",
        links_are_followed_inside_only_where_that_is_switched_on,
    ),
    ("a_hard_link_is_neither_read_nor_written", a_hard_link_is_neither_read_nor_written),
    ("magic_links_lead_nowhere", magic_links_lead_nowhere),
    ("pipes_and_devices_are_refused_without_waiting", pipes_and_devices_are_refused_without_waiting),
    ("nul_overlong_and_empty_paths_are_refused", nul_overlong_and_empty_paths_are_refused),
    ("secrets_are_hidden_also_those_that_come_later", secrets_are_hidden_also_those_that_come_later),
    ("what_the_host_runs_cannot_be_written", what_the_host_runs_cannot_be_written),
    ("a_tree_with_something_guarded_is_not_deleted", a_tree_with_something_guarded_is_not_deleted),
];

/// Every tool with this path in every place where one goes.
fn every_call(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("fs.read", json!({ "path": path })),
        ("fs.read", json!({ "path": path, "encoding": "base64" })),
        ("fs.write", json!({ "path": path, "content": "overwritten" })),
        ("fs.write", json!({ "path": path, "content": "overwritten", "parents": true })),
        ("fs.append", json!({ "path": path, "content": "overwritten" })),
        ("fs.edit", json!({ "path": path, "old": "secret", "new": "overwritten" })),
        ("fs.move", json!({ "from": path, "to": "stolen" })),
        ("fs.move", json!({ "from": "own", "to": path, "overwrite": true })),
        ("fs.search", json!({ "path": path, "pattern": "secret" })),
    ]
}

fn traversal_is_refused_by_every_tool() {
    let bench = Bench::new();
    bench.put("own", "own");
    let outside = bench.outside.to_str().unwrap().to_owned();
    for path in ["../outside", "a/../../outside", "./../outside", &outside, "/proc/self/root/etc/passwd"] {
        let more = [("fs.list", json!({ "path": path })), ("fs.stat", json!({ "path": path }))];
        let more = more.into_iter().chain([
            ("fs.mkdir", json!({ "path": path })),
            ("fs.delete", json!({ "path": path, "recursive": true })),
        ]);
        for (tool, arguments) in every_call(path).into_iter().chain(more) {
            assert_eq!(bench.refused(tool, arguments), "outside", "{tool} {path}");
        }
    }
    bench.outside_is_untouched();
    assert_eq!(names_in(&bench.workspace), ["own"]);
}

fn a_symlink_out_of_the_workspace_is_refused() {
    let bench = Bench::new();
    bench.put("own", "own");
    symlink(&bench.outside, bench.workspace.join("absolute")).unwrap();
    symlink("../outside", bench.workspace.join("relative")).unwrap();
    symlink("..", bench.workspace.join("up")).unwrap();
    symlink("own", bench.workspace.join("inner")).unwrap();
    for path in ["absolute", "relative", "up/outside", "inner"] {
        for (tool, arguments) in every_call(path) {
            let code = bench.refused(tool, arguments.clone());
            assert!(["outside", "tool_failed"].contains(&code.as_str()), "{tool} {arguments}: {code}");
        }
    }
    // Through a directory that is a link, nothing is made or deleted either.
    assert_eq!(bench.refused("fs.mkdir", json!({ "path": "up/made" })), "outside");
    assert_eq!(bench.refused("fs.delete", json!({ "path": "up/outside" })), "outside");
    assert_eq!(bench.refused("fs.list", json!({ "path": "up" })), "outside");
    // A link itself can be looked at and deleted; what it leads to stays.
    assert_eq!(bench.done("fs.stat", json!({ "path": "relative" }))["target"], "../outside");
    bench.done("fs.delete", json!({ "path": "relative" }));
    bench.outside_is_untouched();
    let parent = bench.outside.parent().unwrap();
    assert_eq!(names_in(parent), ["outside", "workspace"]);
    assert_eq!(bench.text("own"), "own");
}

fn links_are_followed_inside_only_where_that_is_switched_on() {
    let mut bench = Bench::new();
    bench.settings.files.follow_links = true;
    bench.put("src/real.txt", "inside");
    bench.put(".env", "KEY=1");
    symlink("src", bench.workspace.join("folder")).unwrap();
    symlink("../src/real.txt", bench.workspace.join("src/back")).unwrap();
    symlink(bench.workspace.join("src/real.txt"), bench.workspace.join("whole")).unwrap();
    for path in ["folder/real.txt", "folder/back", "whole"] {
        assert_eq!(bench.done("fs.read", json!({ "path": path }))["path"], "src/real.txt", "{path}");
    }
    symlink("../outside", bench.workspace.join("out")).unwrap();
    symlink("folder/../../outside", bench.workspace.join("around")).unwrap();
    symlink("loop", bench.workspace.join("loop")).unwrap();
    symlink(".env", bench.workspace.join("innocent")).unwrap();
    symlink(".git", bench.workspace.join("repository")).unwrap();
    bench.put(".git/hooks/x", "");
    for path in ["out", "around", "loop"] {
        assert_eq!(bench.refused("fs.read", json!({ "path": path })), "outside", "{path}");
    }
    assert_eq!(bench.refused("fs.read", json!({ "path": "innocent" })), "protected");
    let hook = json!({ "path": "repository/hooks/pre-commit", "content": "x" });
    assert_eq!(bench.refused("fs.write", hook), "protected");
    bench.outside_is_untouched();
}

fn a_hard_link_is_neither_read_nor_written() {
    let bench = Bench::new();
    fs::hard_link(&bench.outside, bench.workspace.join("linked")).unwrap();
    let before = fs::metadata(&bench.outside).unwrap();
    for (tool, arguments) in [
        ("fs.read", json!({ "path": "linked" })),
        ("fs.write", json!({ "path": "linked", "content": "x" })),
        ("fs.append", json!({ "path": "linked", "content": "x" })),
        ("fs.edit", json!({ "path": "linked", "old": "secret", "new": "x" })),
    ] {
        assert_eq!(bench.refused(tool, arguments), "outside", "{tool}");
    }
    let found = bench.done("fs.search", json!({ "pattern": "secret" }));
    assert_eq!((&found["matches"], &found["skipped"]), (&json!([]), &json!(1)));
    bench.outside_is_untouched();
    let after = fs::metadata(&bench.outside).unwrap();
    assert_eq!(
        (before.mtime_nsec(), before.ctime_nsec(), 2),
        (after.mtime_nsec(), after.ctime_nsec(), after.nlink())
    );
}

fn magic_links_lead_nowhere() {
    let mut bench = Bench::new();
    symlink("/proc/self/root", bench.workspace.join("root")).unwrap();
    symlink("/proc/self/cwd", bench.workspace.join("cwd")).unwrap();
    symlink("/proc/1/fd/0", bench.workspace.join("fd")).unwrap();
    for follow in [false, true] {
        bench.settings.files.follow_links = follow;
        for path in ["root/etc/passwd", "cwd/x", "fd", "root"] {
            assert_eq!(bench.refused("fs.read", json!({ "path": path })), "outside", "{path}");
        }
        assert_eq!(bench.refused("fs.write", json!({ "path": "root/tmp/x", "content": "" })), "outside");
    }
}

fn pipes_and_devices_are_refused_without_waiting() {
    let bench = Bench::new();
    let make = |name: &str, kind, device| {
        mknodat(CWD, bench.workspace.join(name), kind, Mode::RUSR | Mode::WUSR, device)
    };
    make("pipe", FileType::Fifo, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.workspace.join("socket"));
    // Only root makes devices.
    let device = make("zero", FileType::CharacterDevice, rustix::fs::makedev(1, 5)).is_ok();
    let names =
        ["pipe"].into_iter().chain(device.then_some("zero")).chain(_socket.is_ok().then_some("socket"));
    for name in names {
        for tool in ["fs.read", "fs.write", "fs.append", "fs.edit"] {
            let arguments = match tool {
                "fs.read" => json!({ "path": name }),
                "fs.edit" => json!({ "path": name, "old": "a", "new": "b" }),
                _ => json!({ "path": name, "content": "x" }),
            };
            let code = bench.refused(tool, arguments);
            assert!(["tool_failed", "protected"].contains(&code.as_str()), "{tool} {name}: {code}");
        }
        bench.done("fs.stat", json!({ "path": name }));
    }
    bench.done("fs.search", json!({ "pattern": "x" }));
}

fn nul_overlong_and_empty_paths_are_refused() {
    let bench = Bench::new();
    for path in ["", "a\0b", &"x".repeat(256), &"y/".repeat(3000)] {
        assert_eq!(bench.refused("fs.read", json!({ "path": path })), "bad_arguments");
        assert_eq!(bench.refused("fs.write", json!({ "path": path, "content": "" })), "bad_arguments");
    }
    // As long as it may be, and no file.
    assert_eq!(bench.refused("fs.read", json!({ "path": "z".repeat(255) })), "tool_failed");
}

fn secrets_are_hidden_also_those_that_come_later() {
    let bench = Bench::new();
    bench.put("api/.env.local", SECRET);
    bench.put("deploy/server.pem", SECRET);
    assert_eq!(bench.refused("fs.read", json!({ "path": "api/.env.local" })), "protected");
    assert_eq!(bench.refused("fs.read", json!({ "path": "api/.ENV.local" })), "protected");
    bench.put("readable", "x");
    bench.done("fs.read", json!({ "path": "readable" }));
    // The worker is there by now; what comes after it is covered by no mount.
    bench.put("late/.env", SECRET);
    bench.put("late/.ssh/id", SECRET);
    for path in ["late/.env", "late/.ssh/id", "late/.ssh"] {
        assert_eq!(bench.refused("fs.read", json!({ "path": path })), "protected", "{path}");
        assert_eq!(bench.refused("fs.move", json!({ "from": path, "to": "shown" })), "protected", "{path}");
    }
    let found = bench.call("fs.search", json!({ "pattern": "secret" }));
    assert_eq!(found.output.structured["matches"], json!([]));
    let listed = bench.call("fs.list", json!({ "recursive": true }));
    assert!(!listed.output.content.contains(".ssh/id"), "{}", listed.output.content);
}

fn what_the_host_runs_cannot_be_written() {
    let bench = Bench::new();
    bench.put(".git/config", "[core]\n");
    bench.put(".git/hooks/keep", "");
    bench.done("fs.read", json!({ "path": ".git/config" }));
    for path in
        [".git/hooks/pre-commit", ".git/config", "new/.git/config", ".vscode/tasks.json", ".GIT/config"]
    {
        let write = json!({ "path": path, "content": "evil", "parents": true });
        assert_eq!(bench.refused("fs.write", write), "protected", "{path}");
    }
    bench.put("hooks/pre-commit", "evil");
    bench.put("x/git/config", "evil");
    assert_eq!(bench.refused("fs.move", json!({ "from": "hooks", "to": ".git/hooks2" })), "protected");
    assert_eq!(bench.refused("fs.move", json!({ "from": ".git", "to": "git" })), "protected");
    assert_eq!(bench.refused("fs.move", json!({ "from": "x", "to": ".config" })), "protected");
    assert_eq!(bench.refused("fs.delete", json!({ "path": ".git", "recursive": true })), "protected");
    assert_eq!(names_in(&bench.workspace.join(".git/hooks")), ["keep"]);
    assert_eq!(bench.text(".git/config"), "[core]\n");
}

fn a_tree_with_something_guarded_is_not_deleted() {
    let bench = Bench::new();
    bench.put("app/a", "1");
    bench.put("app/z/.env", SECRET);
    assert_eq!(bench.refused("fs.delete", json!({ "path": "app", "recursive": true })), "protected");
    assert_eq!((bench.text("app/a"), bench.text("app/z/.env")), ("1".to_owned(), SECRET.to_owned()));
    // A link in a tree is deleted, and what it leads to is not.
    bench.put("plain/x", "1");
    symlink(&bench.outside, bench.workspace.join("plain/link")).unwrap();
    symlink("..", bench.workspace.join("plain/up")).unwrap();
    bench.done("fs.delete", json!({ "path": "plain", "recursive": true }));
    bench.outside_is_untouched();
    assert!(!bench.workspace.join("plain").exists());
}
