//! The `shell` tool.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use contract::Canonical;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Test;
use crate::bench::{Bench, SECRET, is_required, names_in, runtime};

pub(crate) const TESTS: &[Test] = &[
    ("a_command_gives_its_output_and_its_code", a_command_gives_its_output_and_its_code),
    ("stages_are_a_pipeline_in_one_sandbox", stages_are_a_pipeline_in_one_sandbox),
    ("arguments_reach_the_program_as_they_are", arguments_reach_the_program_as_they_are),
    ("inspect_cannot_write_whatever_the_program_does", inspect_cannot_write_whatever_the_program_does),
    ("build_writes_in_the_workspace_and_that_is_told", build_writes_in_the_workspace_and_that_is_told),
    ("git_can_be_asked_about_the_workspace", git_can_be_asked_about_the_workspace),
    ("a_directory_to_start_in_stays_in_the_workspace", a_directory_to_start_in_stays_in_the_workspace),
    (
        "a_timeout_ends_the_whole_tree_and_keeps_the_output",
        a_timeout_ends_the_whole_tree_and_keeps_the_output,
    ),
    ("cancelling_ends_the_whole_tree", cancelling_ends_the_whole_tree),
    ("dropping_the_future_ends_the_whole_tree", dropping_the_future_ends_the_whole_tree),
    ("long_output_is_cut_for_the_model_and_kept_whole", long_output_is_cut_for_the_model_and_kept_whole),
    ("somebody_left_behind_is_not_waited_for", somebody_left_behind_is_not_waited_for),
    ("a_sandbox_that_waited_has_the_memory_of_its_call", a_sandbox_that_waited_has_the_memory_of_its_call),
    (
        "only_a_call_that_changes_nothing_and_reaches_nobody_goes_unnoticed",
        only_a_call_that_changes_nothing_and_reaches_nobody_goes_unnoticed,
    ),
    (
        "what_is_ready_for_one_call_is_not_used_for_another",
        what_is_ready_for_one_call_is_not_used_for_another,
    ),
    ("a_refusal_is_told_however_long_the_command_is", a_refusal_is_told_however_long_the_command_is),
    ("a_command_cannot_speak_for_its_worker", a_command_cannot_speak_for_its_worker),
    ("there_is_no_network_and_networked_is_refused", there_is_no_network_and_networked_is_refused),
];

fn a_command_gives_its_output_and_its_code() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\n");
    let ran = bench.call("shell", json!({ "command": "cat", "args": ["a.txt"] }));
    assert_eq!(
        (ran.output.content.as_str(), ran.output.is_error, ran.facts.exit_code),
        ("one\ntwo\n", false, Some(0))
    );
    let ran = bench.call("shell", json!({ "command": "ls", "args": ["missing"] }));
    assert_eq!(
        (ran.failure.is_none(), ran.output.is_error),
        (true, true),
        "its answer is no failure of ours"
    );
    assert_eq!(ran.output.structured["exit_code"], 2);
    assert!(ran.output.structured["stderr"].as_str().unwrap().contains("missing"));
    assert!(ran.output.content.ends_with("exit code 2"), "{}", ran.output.content);
    assert_eq!(ran.facts.enforced.len(), jail::Control::ALL.len());
    assert_eq!(bench.refused("shell", json!({ "command": "bat", "args": ["x"] })), "tool_failed");
}

fn stages_are_a_pipeline_in_one_sandbox() {
    let bench = Bench::new();
    bench.put("words", "b\na\nb\n");
    let piped = json!({
        "command": "cat", "args": ["words"],
        "stages": [{ "command": "sort" }, { "command": "uniq", "args": ["-c"] }, { "command": "wc", "args": ["-l"] }],
    });
    let done = bench.done("shell", piped);
    assert_eq!(done["stdout"].as_str().unwrap().trim(), "2");
    assert_eq!(done["stages"].as_array().unwrap().len(), 4);
    let failing =
        json!({ "command": "cat", "args": ["none"], "stages": [{ "command": "wc", "args": ["-c"] }] });
    let done = bench.done("shell", failing);
    assert_eq!(
        (&done["exit_code"], &done["stages"][0]["exit_code"], &done["stages"][1]["exit_code"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let endless = json!({ "command": "yes", "stages": [{ "command": "head", "args": ["-n", "1"] }] });
    let done = bench.done("shell", endless);
    assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(0), &json!("y\n")));
    assert_eq!(done["stages"][0]["signal"], 13);
}

fn arguments_reach_the_program_as_they_are() {
    let bench = Bench::new();
    let odd = ["$HOME", "*", "a b", "`id`", "$(id)", "x;y", "'q'", "\"", "\\n", "é\n"];
    let arguments: Vec<&str> = ["[%s]"].into_iter().chain(odd).collect();
    let done = bench.done("shell", json!({ "command": "printf", "args": arguments }));
    let expected: String = odd.iter().map(|word| format!("[{word}]")).collect();
    assert_eq!(done["stdout"], expected);
    assert_eq!(bench.refused("shell", json!({ "command": "ls -la" })), "shell_syntax");
    assert_eq!(bench.refused("shell", json!({ "command": "ls", "args": ["&&", "id"] })), "shell_syntax");
    assert_eq!(bench.refused("shell", json!({ "command": "/var/tmp/ls" })), "command_not_allowed");
}

fn inspect_cannot_write_whatever_the_program_does() {
    let bench = Bench::new();
    bench.put("f", "old\n");
    bench.put(".env", SECRET);
    let attempts = [
        json!({ "command": "env", "args": ["sh", "-c", "echo new > f; echo new > g"] }),
        json!({ "command": "find", "args": [".", "-exec", "rm", "{}", "+"] }),
        json!({ "command": "sed", "args": ["-i", "s/old/new/", "f"] }),
        json!({ "command": "awk", "args": ["BEGIN { system(\"echo new > f\") }"] }),
        json!({ "command": "sort", "args": ["--compress-program=sh", "-o", "f", "f"] }),
        json!({ "command": "tee", "args": ["f"] }),
        json!({ "command": "git", "args": ["-c", "core.pager=sh -c 'echo new > f'", "--paginate", "--help"] }),
    ];
    for arguments in attempts {
        let ran = bench.call("shell", arguments.clone());
        assert_eq!(bench.text("f"), "old\n", "{arguments}");
        assert!(ran.facts.files_changed.is_empty());
    }
    assert_eq!(names_in(&bench.workspace), [".env", "f"]);
    let ran = bench.call("shell", json!({ "command": "cat", "args": [".env", "f"] }));
    assert!(
        !ran.output.content.contains(SECRET) && ran.output.content.contains("old"),
        "{}",
        ran.output.content
    );
}

fn build_writes_in_the_workspace_and_that_is_told() {
    let bench = Bench::new();
    bench.put("old", "1");
    let script = bench.put("make.sh", "#!/bin/sh\necho built > out\nrm old\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(bench.refused("shell", json!({ "command": "./make.sh" })), "command_not_allowed");
    let ran = bench.call("shell", json!({ "command": "./make.sh", "profile": "build" }));
    assert_eq!(ran.output.structured["exit_code"], 0, "{}", ran.output.content);
    let expected = [("old".to_owned(), "removed".to_owned()), ("out".to_owned(), "created".to_owned())];
    assert_eq!(ran.facts.files_changed, expected.into());
    assert!(ran.facts.files_changed_complete);
    let escape = format!("echo x >> {}", bench.outside.display());
    let ran = bench.call("shell", json!({ "command": "sh", "args": ["-c", escape], "profile": "build" }));
    assert!(ran.output.is_error);
    bench.outside_is_untouched();
    let ran = bench
        .call("shell", json!({ "command": "rm", "args": ["out"], "profile": "mutate", "purpose": "clean" }));
    assert_eq!(ran.facts.files_changed, [("out".to_owned(), "removed".to_owned())].into());
}

fn git_can_be_asked_about_the_workspace() {
    let bench = Bench::new();
    bench.put("f", "x");
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(arguments)
            .current_dir(&bench.workspace)
            .env("HOME", "/nonexistent")
            .output();
        done.is_ok_and(|output| output.status.success())
    };
    let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
    let made =
        git(&["init", "-q"]) && git(&["add", "f"]) && git(&[&who[..], &["commit", "-qm", "first"]].concat());
    if !made {
        assert!(!is_required("git"), "no git here");
        eprintln!("skipped: git can be asked about the workspace: no `git` here");
        return;
    }
    for profile in ["inspect", "build"] {
        let ran = bench
            .call("shell", json!({ "command": "git", "args": ["log", "--format=%s"], "profile": profile }));
        assert_eq!(ran.output.content, "first\n", "{profile}");
    }
}

fn a_directory_to_start_in_stays_in_the_workspace() {
    let bench = Bench::new();
    bench.put("sub/f", "x");
    symlink("..", bench.workspace.join("up")).unwrap();
    let done = bench.done("shell", json!({ "command": "ls", "cwd": "sub" }));
    assert_eq!(done["stdout"], "f\n");
    assert_eq!(bench.refused("shell", json!({ "command": "ls", "cwd": "up" })), "outside");
    assert_eq!(bench.refused("shell", json!({ "command": "ls", "cwd": "none" })), "outside");
    assert_eq!(bench.refused("shell", json!({ "command": "ls", "cwd": "/" })), "outside");
    // Where it starts does not decide where it may write.
    let write = json!({ "command": "sh", "args": ["-c", "echo y > ../g && echo y > /usr/g"], "cwd": "sub", "profile": "build" });
    assert!(bench.call("shell", write).output.is_error);
    assert_eq!(bench.text("g"), "y\n");
}

/// Whether a process of the host still has this argument.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes()))
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn a_timeout_ends_the_whole_tree_and_keeps_the_output() {
    let bench = Bench::new();
    let script = "echo before; setsid sleep 98761 & sleep 98761";
    let ran = bench
        .call("shell", json!({ "command": "sh", "args": ["-c", script], "profile": "build", "timeout": 1 }));
    assert_eq!(ran.failure.unwrap().code.as_str(), "timeout");
    let output = ran.output.structured;
    assert_eq!((&output["timed_out"], &output["stdout"]), (&json!(true), &json!("before\n")));
    assert!(wait_until(|| !is_running("98761")), "the tree outlived its time");
}

fn cancelling_ends_the_whole_tree() {
    let bench = Bench::new();
    let cancel = CancellationToken::new();
    let arguments = json!({ "command": "sleep", "args": ["98762"], "timeout": 60 });
    let ran = std::thread::scope(|scope| {
        let call = scope.spawn(|| bench.call_with("shell", arguments, cancel.clone()));
        assert!(wait_until(|| is_running("98762")), "it never began");
        cancel.cancel();
        call.join().unwrap()
    });
    assert_eq!(ran.failure.unwrap().code.as_str(), "cancelled");
    assert_eq!(ran.facts.backend, "native", "what ran is told, also when it was taken back");
    assert!(!is_running("98762"));
    // Before it began at all.
    let ran = bench.call_with("shell", json!({ "command": "ls" }), cancel);
    assert_eq!(ran.failure.unwrap().code.as_str(), "cancelled");
}

fn dropping_the_future_ends_the_whole_tree() {
    let bench = Bench::new();
    let tool = bench.tool("shell");
    let arguments =
        contract::Canonical::of(json!({ "command": "sleep", "args": ["98763"], "timeout": 60 })).unwrap();
    let grant = bench.grant(&*tool, &arguments).unwrap();
    runtime().block_on(async {
        let running = tool.run(grant, &arguments, &bench.at, CancellationToken::new());
        let begun = async {
            while !is_running("98763") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ran = running => panic!("it ended by itself: {ran:?}"),
            () = begun => {}
        }
    });
    assert!(wait_until(|| !is_running("98763")), "nobody waits for it, and it runs");
}

fn long_output_is_cut_for_the_model_and_kept_whole() {
    let bench = Bench::new();
    let ran = bench.call("shell", json!({ "command": "seq", "args": ["100000"] }));
    let content = &ran.output.content;
    assert!(content.len() <= 10 * 1024, "{}", content.len());
    assert!(content.starts_with("1\n2\n") && content.ends_with("99999\n100000\n"));
    assert!(content.contains("bytes left out, see artifact `stdout`"));
    assert_eq!(ran.output.structured["stdout_bytes"], 588_895);
    let (name, bytes) = &ran.output.artifacts[0];
    assert_eq!((name.as_str(), bytes.len()), ("stdout", 588_895));
    // Past the grant's own limit it is counted and dropped.
    let mut small = Bench::new();
    small.limits.output = 1000;
    let ran = small.call("shell", json!({ "command": "seq", "args": ["100000"] }));
    assert_eq!(ran.output.structured["stdout_bytes"], 588_895);
    assert_eq!(ran.output.artifacts[0].1.len(), 1000);
}

fn somebody_left_behind_is_not_waited_for() {
    let bench = Bench::new();
    let begun = Instant::now();
    let script = "echo done; sleep 98764 &";
    let done = bench
        .done("shell", json!({ "command": "sh", "args": ["-c", script], "profile": "build", "timeout": 60 }));
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("done\n"), &json!(0)));
    assert!(begun.elapsed() < Duration::from_secs(50), "it waited for somebody who holds a pipe");
    assert!(wait_until(|| !is_running("98764")));
}

fn a_sandbox_that_waited_has_the_memory_of_its_call() {
    const TAKEN: &str = "200000000";
    let mut bench = Bench::new();
    let take = |bench: &Bench| {
        let ran = bench.call(
            "shell",
            json!({
                "command": "head", "args": ["-c", TAKEN, "/dev/zero"],
                "stages": [{ "command": "tail", "args": ["-c", TAKEN] }, { "command": "wc", "args": ["-c"] }],
            }),
        );
        let stdout = ran.output.structured["stdout"].as_str().unwrap_or_default().trim().to_owned();
        (stdout, ran.facts.enforced["memory"].clone())
    };
    // From the second one on, sandboxes wait, with the usual limit.
    let [_, _, (stdout, usual)] = [(); 3].map(|()| take(&bench));
    assert_eq!(stdout, TAKEN);
    let most = bench.limits.memory;
    for memory in [most * 2, most / 2, most * 4] {
        bench.limits.memory = memory;
        assert_eq!(take(&bench), (TAKEN.to_owned(), usual.clone()), "{memory}");
    }
    bench.limits.memory = 64 << 20;
    let (stdout, enforced) = take(&bench);
    assert_eq!(enforced, usual);
    // Where it is only watched, it may be over before anybody looks.
    assert!(enforced.level != "enforced" || stdout != TAKEN, "{enforced:?}");
}

fn what_is_ready_for_one_call_is_not_used_for_another() {
    let (one, other) = (Bench::new(), Bench::new());
    one.put("a.txt", "one");
    other.put("a.txt", "other");
    let arguments = Canonical::of(json!({ "command": "cat", "args": ["a.txt"] })).unwrap();
    let tool = one.tool("shell");
    let ready = || {
        // Sandboxes wait from the second run on; how soon is the machine's business.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            assert_eq!(one.call("shell", arguments.value().clone()).output.content, "one");
            let grant = one.grant(&*tool, &arguments).unwrap();
            if let Some(ready) = tool.get_ready(&grant, &arguments, &one.at) {
                return ready;
            }
            assert!(Instant::now() < deadline, "nothing ever waits");
        }
    };
    let _context = runtime().enter();
    for (bench, content) in [(&one, "one"), (&other, "other")] {
        let at = bench.at.with_ready(ready());
        let grant = bench.grant(&*tool, &arguments).unwrap();
        let ran = runtime().block_on(tool.run(grant, &arguments, &at, CancellationToken::new()));
        assert_eq!((ran.output.content.as_str(), ran.failure), (content, None));
        // It was used up, or thrown away.
        let again = bench.grant(&*tool, &arguments).unwrap();
        let ran = runtime().block_on(tool.run(again, &arguments, &at, CancellationToken::new()));
        assert_eq!((ran.output.content.as_str(), ran.failure), (content, None));
    }
    // One that writes, and one whose grant is not for it, get nothing.
    let writing = Canonical::of(json!({ "command": "cat", "args": ["a.txt"], "profile": "build" })).unwrap();
    for (given, asked) in [(&writing, &writing), (&arguments, &writing)] {
        let grant = one.grant(&*tool, given).unwrap();
        assert!(tool.get_ready(&grant, asked, &one.at).is_none());
    }
}

fn only_a_call_that_changes_nothing_and_reaches_nobody_goes_unnoticed() {
    let bench = Bench::new();
    bench.put("a.txt", "one");
    let shell = |profile: &str| json!({ "command": "cat", "args": ["a.txt"], "profile": profile });
    for (tool, arguments, unnoticed) in [
        ("fs.read", json!({ "path": "a.txt" }), true),
        ("fs.search", json!({ "pattern": "one" }), true),
        ("git.log", json!({}), true),
        ("shell", shell("inspect"), true),
        ("shell", shell("build"), false),
        ("fs.write", json!({ "path": "a.txt", "content": "two" }), false),
    ] {
        let arguments = Canonical::of(arguments).unwrap();
        let tool = bench.tool(tool);
        let grant = bench.grant(&*tool, &arguments).unwrap();
        assert_eq!(tool.is_unnoticed(&grant), unnoticed, "{}", arguments.text());
    }
}

fn a_refusal_is_told_however_long_the_command_is() {
    let bench = Bench::new();
    // A workspace that a link has taken the place of is not shown, and nothing runs.
    let elsewhere = bench.workspace.with_extension("moved");
    fs::rename(&bench.workspace, &elsewhere).unwrap();
    symlink(&elsewhere, &bench.workspace).unwrap();
    let long = "x".repeat(1 << 20);
    for _ in 0..4 {
        for profile in ["inspect", "build"] {
            let code =
                bench.refused("shell", json!({ "command": "cat", "args": [long], "profile": profile }));
            assert_eq!(code, "cannot_enforce", "{profile}");
        }
    }
}

fn a_command_cannot_speak_for_its_worker() {
    let bench = Bench::new();
    // The streams of everybody else in the sandbox, by every name that leads to them.
    let script = "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] && continue; \
                  ls $p/fd >/dev/null && echo open $p; for f in 0 1 2; do echo forged > $p/fd/$f; done; done; exit 3";
    let last = json!({ "command": "sh", "args": ["-c", script] });
    let piped = json!({ "command": "true", "stages": [last], "profile": "build" });
    // One alone has the init for a neighbour, those of a pipeline have a worker besides.
    let alone = json!({ "command": "sh", "args": ["-c", script], "profile": "build" });
    for (call, neighbour) in [(alone, "/proc/1/fd"), (piped, "/proc/2/fd")] {
        let done = bench.done("shell", call);
        assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(3), &json!("")));
        assert!(done["stderr"].as_str().unwrap().contains(neighbour), "it must have found it: {done}");
    }
}

fn there_is_no_network_and_networked_is_refused() {
    let bench = Bench::new();
    let call = json!({ "command": "curl", "args": ["https://example.com/"], "profile": "networked" });
    assert_eq!(bench.refused("shell", call), "cannot_enforce");
    let metadata = json!({ "command": "curl", "args": ["http://169.254.169.254/"], "profile": "networked" });
    assert_eq!(bench.refused("shell", metadata), "host_not_allowed");
    let done = bench.done("shell", json!({ "command": "cat", "args": ["/proc/net/dev"] }));
    let devices =
        done["stdout"].as_str().unwrap().lines().skip(2).filter(|line| !line.trim().starts_with("lo:"));
    assert_eq!(devices.count(), 0);
}
