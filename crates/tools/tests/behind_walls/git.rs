//! The `git.*` tools, with the host's own git.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::Test;
use crate::bench::{Bench, is_required};

pub(crate) const TESTS: &[Test] = &[
    ("git_tells_what_has_changed_and_commits_it", git_tells_what_has_changed_and_commits_it),
    ("git_makes_branches_and_checks_them_out", git_makes_branches_and_checks_them_out),
    ("git_shows_commits_and_old_files", git_shows_commits_and_old_files),
    ("git_neither_shows_nor_commits_what_is_hidden", git_neither_shows_nor_commits_what_is_hidden),
    ("git_commits_in_the_name_that_it_is_given", git_commits_in_the_name_that_it_is_given),
    ("git_works_in_a_repository_beneath_the_workspace", git_works_in_a_repository_beneath_the_workspace),
    ("a_repository_is_a_directory_of_the_workspace", a_repository_is_a_directory_of_the_workspace),
    ("a_long_patch_is_cut_and_kept_whole", a_long_patch_is_cut_and_kept_whole),
    ("names_with_marks_in_them_stand_for_themselves", names_with_marks_in_them_stand_for_themselves),
    ("a_file_that_is_not_text_is_told_as_what_it_is", a_file_that_is_not_text_is_told_as_what_it_is),
    ("git_that_looks_writes_nothing", git_that_looks_writes_nothing),
    ("filters_are_off_where_git_looks_and_refused_where_it_writes", filters_are_off_or_refused),
    ("a_git_that_says_no_is_a_failure_with_its_complaint", a_git_that_says_no),
];

/// A workspace with one commit, or nothing where there is no git.
fn repository() -> Option<Bench> {
    let bench = Bench::new();
    bench.put("a.txt", "one\n");
    bench.put("src/b.txt", "two\n");
    let made = host_git(&bench, &["init", "-q", "-b", "main"])
        && host_git(&bench, &["add", "."])
        && host_git(&bench, &["commit", "-qm", "first"]);
    if !made {
        assert!(!is_required("git"), "no git here");
        eprintln!("skipped: no `git` here");
        return None;
    }
    Some(bench)
}

/// git as a person runs it.
fn host_git(bench: &Bench, arguments: &[&str]) -> bool {
    let run = Command::new("git")
        .args(["-c", "user.name=me", "-c", "user.email=me@example.com"])
        .args(arguments)
        .current_dir(&bench.workspace)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output();
    run.is_ok_and(|output| output.status.success())
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

fn git_tells_what_has_changed_and_commits_it() {
    let Some(bench) = repository() else { return };
    assert_eq!(bench.done("git.status", json!({}))["entries"], json!([]));
    bench.put("a.txt", "one\nmore\n");
    bench.put("new/c.txt", "new\n");
    let status = bench.done("git.status", json!({ "all_untracked": true }));
    assert_eq!(
        (status["branch"].as_str(), paths(&status["entries"])),
        (Some("main"), vec!["a.txt", "new/c.txt"])
    );
    assert_eq!(
        status["entries"][0],
        json!({ "path": "a.txt", "renamed_from": null, "index": "same", "file": "modified" })
    );
    let diff = bench.call("git.diff", json!({}));
    assert!(diff.output.content.contains("+more"), "{}", diff.output.content);
    assert_eq!(
        diff.output.structured["files"],
        json!([{ "path": "a.txt", "renamed_from": null, "added": 1, "removed": 0 }])
    );
    let ran = bench.call("git.commit", json!({ "message": "second\n\n# not a comment", "paths": ["."] }));
    assert_eq!(ran.failure, None, "{}", ran.output.content);
    let made = &ran.output.structured;
    assert_eq!(paths(&made["files"]), ["a.txt", "new/c.txt"]);
    assert_eq!(made["commit"]["body"], "# not a comment");
    assert_eq!(made["commit"]["author"], json!({ "name": "agent", "email": "agent@toolgate.invalid" }));
    assert_eq!(made["commit"]["references"], json!(["HEAD -> main"]));
    assert!(
        ran.facts.files_changed.keys().any(|path| path.starts_with(".git/")),
        "{:?}",
        ran.facts.files_changed
    );
    assert_eq!(bench.done("git.status", json!({}))["entries"], json!([]));
    let log = bench.done("git.log", json!({}));
    let subjects: Vec<&Value> =
        log["commits"].as_array().unwrap().iter().map(|commit| &commit["subject"]).collect();
    assert_eq!(subjects, ["second", "first"]);
    assert_eq!(log["commits"][0]["commit"], made["commit"]["commit"]);
    let between = json!({ "from": "HEAD~1", "to": "HEAD", "paths": ["new"] });
    assert_eq!(paths(&bench.done("git.diff", between)["files"]), ["new/c.txt"]);
    for (arguments, count) in [
        (json!({ "since_revision": "HEAD~1" }), 1),
        (json!({ "paths": ["new"] }), 1),
        (json!({ "author": "AGENT@" }), 1),
        (json!({ "text": "fir" }), 1),
        (json!({ "count": 1, "skip": 1 }), 1),
        (json!({ "before": "2001-01-01" }), 0),
    ] {
        let found = bench.done("git.log", arguments.clone());
        assert_eq!(found["commits"].as_array().unwrap().len(), count, "{arguments}");
    }
}

fn git_makes_branches_and_checks_them_out() {
    let Some(bench) = repository() else { return };
    let made = bench.done("git.branch", json!({ "create": "feature/x" }));
    let names = |value: &Value| -> Vec<String> {
        value["branches"].as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&made), ["feature/x", "main"]);
    let out = bench.done("git.checkout", json!({ "branch": "feature/x" }));
    assert_eq!((&out["branch"], &out["changed_files"]), (&json!("feature/x"), &json!(0)));
    bench.put("a.txt", "changed\n");
    bench.done("git.commit", json!({ "message": "on x", "all": true }));
    assert_eq!(bench.done("git.checkout", json!({ "branch": "main" }))["branch"], "main");
    assert_eq!(bench.text("a.txt"), "one\n");
    let unmerged = bench.call("git.branch", json!({ "delete": "feature/x" }));
    assert_eq!(unmerged.failure.unwrap().code.as_str(), "tool_failed");
    assert!(unmerged.output.content.contains("not fully merged"), "{}", unmerged.output.content);
    bench.done("git.checkout", json!({ "branch": "y", "create": true, "start": "main" }));
    let gone = bench.done("git.branch", json!({ "delete": "main" }));
    assert_eq!(names(&gone), ["feature/x", "y"]);
    let detached = bench.done("git.checkout", json!({ "commit": "feature/x" }));
    assert_eq!((detached["branch"].clone(), bench.text("a.txt").as_str()), (Value::Null, "changed\n"));
    // Changes that would be lost are kept, and it says so.
    bench.put("a.txt", "mine\n");
    assert_eq!(bench.refused("git.checkout", json!({ "branch": "y" })), "tool_failed");
    assert_eq!(bench.text("a.txt"), "mine\n");
    assert!(!bench.text(".git/config").contains("branch"), "settings are not written");
}

fn git_shows_commits_and_old_files() {
    let Some(bench) = repository() else { return };
    bench.put("a.txt", "later\n");
    bench.done("git.commit", json!({ "message": "later", "all": true }));
    let shown = bench.call("git.show", json!({}));
    assert_eq!(shown.output.structured["commit"]["subject"], "later");
    assert_eq!(paths(&shown.output.structured["difference"]["files"]), ["a.txt"]);
    assert!(shown.output.content.contains("-one\n+later"), "{}", shown.output.content);
    let first = bench.done("git.show", json!({ "revision": "HEAD~1" }));
    assert_eq!(paths(&first["difference"]["files"]), ["a.txt", "src/b.txt"]);
    let old = bench.call("git.show", json!({ "revision": "HEAD~1", "path": "a.txt" }));
    assert_eq!(old.output.content, "one\n");
    assert_eq!(
        old.output.structured["file"],
        json!({ "content": "one\n", "encoding": "utf-8", "bytes": 4, "truncated": false })
    );
    assert_eq!(bench.refused("git.show", json!({ "path": "none" })), "tool_failed");
    assert_eq!(bench.refused("git.show", json!({ "revision": "none" })), "tool_failed");
}

fn git_neither_shows_nor_commits_what_is_hidden() {
    let Some(bench) = repository() else { return };
    bench.put(".env", "TOKEN=hidden-one\n");
    bench.put("tests/server.PEM", "hidden-two\n");
    assert!(host_git(&bench, &["add", "-f", "."]) && host_git(&bench, &["commit", "-qm", "by a person"]));
    bench.put(".env", "TOKEN=hidden-three\n");
    bench.put("deep/.env.local", "hidden-four\n");
    bench.put("a.txt", "seen\n");
    let status = bench.done("git.status", json!({ "all_untracked": true }));
    assert_eq!(paths(&status["entries"]), ["a.txt"]);
    for (tool, arguments) in [
        ("git.diff", json!({})),
        ("git.diff", json!({ "from": "HEAD~1", "to": "HEAD" })),
        ("git.show", json!({})),
        ("git.log", json!({})),
    ] {
        let ran = bench.call(tool, arguments);
        assert_eq!(ran.failure, None, "{tool}");
        let all = format!("{}{}", ran.output.content, ran.output.structured);
        assert!(!all.contains("hidden-"), "{tool}: {all}");
    }
    assert_eq!(bench.refused("git.show", json!({ "path": ".env" })), "protected");
    for arguments in [json!({ "message": "m", "all": true }), json!({ "message": "m", "paths": ["."] })] {
        bench.put("a.txt", arguments.to_string());
        let made = bench.done("git.commit", arguments);
        assert_eq!(paths(&made["files"]), ["a.txt"]);
    }
    assert!(host_git(&bench, &["cat-file", "-e", "HEAD:.env"]), "what a person has committed is still there");
}

fn git_commits_in_the_name_that_it_is_given() {
    let Some(bench) = repository() else { return };
    assert!(
        host_git(&bench, &["config", "user.name", "Repo"])
            && host_git(&bench, &["config", "user.email", "r@x"])
    );
    bench.put("a.txt", "1");
    let made = bench.done("git.commit", json!({ "message": "m", "all": true }));
    assert_eq!(made["commit"]["author"], json!({ "name": "Repo", "email": "r@x" }));
    bench.put("a.txt", "2");
    let author = json!({ "name": "Ann B.", "email": "ann@example.com" });
    let made = bench.done("git.commit", json!({ "message": "m", "all": true, "author": author }));
    assert_eq!((&made["commit"]["author"], &made["commit"]["committer"]["name"]), (&author, &json!("Repo")));
}

fn git_works_in_a_repository_beneath_the_workspace() {
    let bench = Bench::new();
    bench.put("sub/repo/f", "x");
    if !host_git(&bench, &["init", "-q", "-b", "main", "sub/repo"]) {
        return;
    }
    assert_eq!(bench.refused("git.status", json!({})), "tool_failed");
    let repository = json!({ "repository": "sub/repo", "message": "m", "paths": ["f"] });
    let made = bench.done("git.commit", repository);
    assert_eq!((&made["commit"]["parents"], paths(&made["files"])), (&json!([]), vec!["f"]));
    assert_eq!(bench.done("git.status", json!({ "repository": "sub/repo" }))["branch"], "main");
}

fn a_repository_is_a_directory_of_the_workspace() {
    let Some(bench) = repository() else { return };
    symlink(".", bench.workspace.join("link")).unwrap();
    assert_eq!(bench.refused("git.status", json!({ "repository": "link" })), "outside");
    assert_eq!(bench.refused("git.status", json!({ "repository": "none" })), "outside");
    assert_eq!(bench.refused("git.status", json!({ "repository": "src" })), "tool_failed");
    // One that its own file, or a link, says to be elsewhere.
    bench.put("worktree/.git", "gitdir: ../.git\n");
    assert_eq!(bench.refused("git.status", json!({ "repository": "worktree" })), "cannot_enforce");
    fs::create_dir(bench.workspace.join("linked")).unwrap();
    symlink("../.git", bench.workspace.join("linked/.git")).unwrap();
    assert_eq!(bench.refused("git.status", json!({ "repository": "linked" })), "cannot_enforce");
    bench.put(".git/commondir", "../elsewhere\n");
    assert_eq!(bench.refused("git.status", json!({})), "cannot_enforce");
}

fn a_long_patch_is_cut_and_kept_whole() {
    let Some(bench) = repository() else { return };
    let long: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    bench.put("a.txt", &long);
    let ran = bench.call("git.diff", json!({}));
    assert_eq!(ran.output.structured["truncated"], true);
    assert!(ran.output.content.len() <= 10 * 1024 && ran.output.content.contains("see artifact `patch`"));
    let (name, bytes) = &ran.output.artifacts[0];
    assert!(name == "patch" && bytes.len() > long.len() && bytes.starts_with(b"diff --git a/a.txt"));
    bench.done("git.commit", json!({ "message": "long", "all": true }));
    let ran = bench.call("git.show", json!({ "path": "a.txt" }));
    assert_eq!(ran.output.artifacts, [("file".to_owned(), long.into_bytes())]);
}

fn names_with_marks_in_them_stand_for_themselves() {
    let Some(bench) = repository() else { return };
    for name in ["*", "-f", "a b", "new\nline", "[a].txt"] {
        bench.put(name, "x");
    }
    let made = bench.done("git.commit", json!({ "message": "m", "paths": ["*", "-f", "new\nline"] }));
    assert_eq!(paths(&made["files"]), ["*", "-f", "new\nline"]);
    let left = bench.done("git.status", json!({ "paths": ["[a].txt", "a b"] }));
    assert_eq!(paths(&left["entries"]), ["[a].txt", "a b"]);
}

fn a_file_that_is_not_text_is_told_as_what_it_is() {
    let Some(bench) = repository() else { return };
    bench.put("logo", [0xff, 0, 1, 2]);
    bench.put("latin", b"caf\xe9\n");
    let made = bench.done("git.commit", json!({ "message": "m", "paths": ["."] }));
    assert_eq!(
        made["files"][1],
        json!({ "path": "logo", "renamed_from": null, "added": null, "removed": null })
    );
    let shown = bench.done("git.show", json!({ "path": "logo" }));
    assert_eq!(shown["file"]["encoding"], "base64");
    bench.put("latin", b"th\xe9\n");
    assert_eq!(paths(&bench.done("git.diff", json!({}))["files"]), ["latin"]);
}

fn git_that_looks_writes_nothing() {
    let Some(bench) = repository() else { return };
    // Git would write down that these are unchanged, to be faster next time.
    fs::File::open(bench.workspace.join("a.txt")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let before = fs::read(bench.workspace.join(".git/index")).unwrap();
    for tool in ["git.status", "git.diff", "git.log", "git.show", "git.branch"] {
        let ran = bench.call(tool, json!({}));
        assert_eq!((ran.failure, ran.facts.files_changed.len()), (None, 0), "{tool}");
        assert!(!ran.output.content.contains("stderr"), "{tool}: {}", ran.output.content);
    }
    assert_eq!(fs::read(bench.workspace.join(".git/index")).unwrap(), before);
}

fn filters_are_off_or_refused() {
    let Some(bench) = repository() else { return };
    bench.put(".gitattributes", "*.txt filter=x\n");
    assert!(host_git(&bench, &["config", "filter.x.clean", "touch RAN; cat"]));
    assert!(host_git(&bench, &["config", "filter.x.required", "true"]));
    bench.put("a.txt", "changed\n");
    assert_eq!(paths(&bench.done("git.diff", json!({}))["files"]), ["a.txt"]);
    let ran = bench.call("git.commit", json!({ "message": "m", "all": true }));
    let reason = ran.failure.unwrap();
    assert_eq!(reason.code.as_str(), "cannot_enforce");
    assert!(reason.message.contains("filter.x.clean"), "{}", reason.message);
    assert!(!bench.workspace.join("RAN").exists());
}

fn a_git_that_says_no() {
    let Some(bench) = repository() else { return };
    let ran = bench.call("git.commit", json!({ "message": "m" }));
    assert_eq!(ran.failure.unwrap().message, "`git commit` ended with exit code 1");
    assert!(
        ran.output.content.contains("nothing to commit") || ran.output.content.contains("no changes added"),
        "{}",
        ran.output.content
    );
    let ran = bench.call("git.branch", json!({ "create": "main" }));
    assert!(ran.output.content.contains("already exists"), "{}", ran.output.content);
}
