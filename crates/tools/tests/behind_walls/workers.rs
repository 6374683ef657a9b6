//! Workers that are kept: whom they serve, and when they end.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contract::Canonical;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::{KeptFor, Lifecycle, Owner};

use crate::Test;
use crate::bench::{self, Bench, owner, runtime};
use crate::leases;

pub(crate) const TESTS: &[Test] = &[
    ("a_worker_is_kept_for_its_owner_and_access", a_worker_is_kept_for_its_owner_and_access),
    ("a_worker_that_nobody_asks_ends", a_worker_that_nobody_asks_ends),
    ("no_more_wait_than_may", no_more_wait_than_may),
    ("a_worker_that_died_is_replaced", a_worker_that_died_is_replaced),
    ("a_kept_worker_dies_with_its_gate", a_kept_worker_dies_with_its_gate),
    ("what_a_killed_gate_left_is_reclaimed_by_the_next", what_a_killed_gate_left_is_reclaimed_by_the_next),
    ("a_call_past_its_time_ends_its_worker", a_call_past_its_time_ends_its_worker),
    ("a_workspace_that_was_replaced_gets_a_new_worker", a_workspace_that_was_replaced_gets_a_new_worker),
    ("without_an_owner_nothing_is_kept", without_an_owner_nothing_is_kept),
    ("a_call_that_is_taken_back_ends_its_worker", a_call_that_is_taken_back_ends_its_worker),
    ("calls_at_once_share_a_few_workers", calls_at_once_share_a_few_workers),
    (
        "reads_at_once_share_a_few_workers_and_each_gets_its_own",
        reads_at_once_share_a_few_workers_and_each_gets_its_own,
    ),
    (
        "a_call_that_waits_for_a_worker_is_taken_back_alone",
        a_call_that_waits_for_a_worker_is_taken_back_alone,
    ),
    ("a_worker_serves_whom_the_lifecycle_says", a_worker_serves_whom_the_lifecycle_says),
    ("a_worker_at_work_is_neither_reaped_nor_forgotten", a_worker_at_work_is_neither_reaped_nor_forgotten),
    (
        "a_worker_that_was_killed_while_it_waited_is_healed",
        a_worker_that_was_killed_while_it_waited_is_healed,
    ),
    ("a_worker_that_does_not_answer_is_ended", a_worker_that_does_not_answer_is_ended),
    ("an_agent_that_is_forgotten_leaves_nothing", an_agent_that_is_forgotten_leaves_nothing),
    ("a_thousand_leases_are_held_or_the_limit_is_named", leases::a_thousand_are_held_or_the_limit_is_named),
    ("a_grant_is_good_for_one_call_only", a_grant_is_good_for_one_call_only),
    (
        "a_write_that_is_given_up_holds_its_workspace_until_its_worker_is_gone",
        a_write_that_is_given_up_holds_its_workspace_until_its_worker_is_gone,
    ),
];

/// A gate of its own, which keeps a worker until somebody kills it.
pub(crate) fn be_a_gate_if_asked() {
    if std::env::args().nth(1).is_some_and(|argument| argument == GATE_ARGUMENT) {
        let bench = Bench::new();
        bench.put("f", "x");
        bench.done("fs.write", json!({ "path": "f", "content": "y" }));
        assert_eq!(bench.at.kept(), 1);
        eprintln!("{}", bench.workspace.display());
        std::thread::sleep(Duration::from_secs(120));
        std::process::exit(1);
    }
}

const GATE_ARGUMENT: &str = "__gate";

/// Processes of the host that can see a path as a mount.
fn processes_that_see(place: &str) -> usize {
    who_sees(place).len()
}

fn who_sees(place: &str) -> Vec<Pid> {
    let sees = |process: &Path| {
        fs::read_to_string(process.join("mountinfo")).is_ok_and(|mounts| mounts.contains(place))
    };
    let pid = |process: PathBuf| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?);
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| sees(process)).filter_map(pid).collect()
}

/// Sends a signal to whatever is in the sandboxes that can see a workspace.
fn signal_workers_of(bench: &Bench, signal: Signal) {
    let workers = who_sees(bench.workspace.to_str().unwrap());
    assert!(!workers.is_empty(), "the test must find whom to stop");
    for worker in workers {
        // The first of them may take the others with it.
        let _ = kill_process(worker, signal);
    }
}

/// Waits until no sandbox has a path any more.
fn nobody_sees(place: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while processes_that_see(place) > 0 {
        assert!(Instant::now() < until, "a worker is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A gate of its own that keeps a worker, and the workspace that the worker sees.
fn gate_with_a_worker() -> (Child, String) {
    let mut gate = Command::new(std::env::current_exe().unwrap())
        .arg(GATE_ARGUMENT)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut place = String::new();
    BufReader::new(gate.stderr.take().unwrap()).read_line(&mut place).unwrap();
    (gate, place.trim().to_owned())
}

/// The cgroups that were made for whoever sees a path, and whoever made them.
fn cgroups_of(place: &str) -> (Vec<PathBuf>, Vec<Pid>) {
    let mut names = BTreeSet::new();
    for worker in who_sees(place) {
        let own = fs::read_to_string(format!("/proc/{}/cgroup", worker.as_raw_nonzero())).unwrap_or_default();
        let name = |line: &str| Some(line.rsplit('/').next()?.to_owned());
        names.extend(own.lines().filter_map(name).filter(|name| name.starts_with("toolgate-")));
    }
    let maker = |name: &String| Pid::from_raw(name.split('-').nth(1)?.parse().ok()?);
    let makers = names.iter().filter_map(maker).collect();
    let (mut found, mut left) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if names.contains(&*entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    (found, makers)
}

fn what_a_killed_gate_left_is_reclaimed_by_the_next() {
    let (mut gate, place) = gate_with_a_worker();
    let (cgroups, makers) = cgroups_of(&place);
    // Whoever could clean up is killed first, then whoever could start somebody for it.
    for maker in &makers {
        kill_process(*maker, Signal::KILL).unwrap();
    }
    gate.kill().unwrap();
    gate.wait().unwrap();
    bench::clean_up(gate.id());
    nobody_sees(&place);
    fs::remove_dir_all(Path::new(&place).parent().unwrap()).unwrap();
    if cgroups.is_empty() {
        eprintln!("skipped: no cgroup can be made here that could be left");
        return;
    }
    let bench = Bench::new();
    bench.put("f", "x");
    let until = Instant::now() + Duration::from_secs(30);
    while let Some(left) = cgroups.iter().find(|cgroup| cgroup.exists()) {
        assert!(Instant::now() < until, "`{}` is still there", left.display());
        // Each start looks for what others have left.
        bench.at.forget(&owner("task"));
        bench.done("fs.read", json!({ "path": "f" }));
    }
}

fn a_kept_worker_dies_with_its_gate() {
    let (mut gate, place) = gate_with_a_worker();
    let place = place.as_str();
    assert!(processes_that_see(place) > 0, "no worker was kept for `{place}`");
    gate.kill().unwrap();
    gate.wait().unwrap();
    bench::clean_up(gate.id());
    nobody_sees(place);
    fs::remove_dir_all(Path::new(place).parent().unwrap()).unwrap();
}

fn a_worker_is_kept_for_its_owner_and_access() {
    let mut bench = Bench::new();
    bench.put("f", "x");
    let read = json!({ "path": "f" });
    for _ in 0..3 {
        bench.done("fs.read", read.clone());
        assert_eq!(bench.at.kept(), 1, "one worker serves one call after the other");
    }
    bench.done("fs.write", json!({ "path": "f", "content": "y" }));
    assert_eq!(bench.at.kept(), 2, "a worker that reads is not asked to write");
    bench.at = bench.at.for_owner(owner("another"));
    bench.done("fs.read", read.clone());
    assert_eq!(bench.at.kept(), 3, "nor is one that works for somebody else");
    bench.at.forget(&owner("task"));
    assert_eq!(bench.at.kept(), 1);
    bench.done("fs.read", read);
    assert_eq!(bench.at.kept(), 1);
    let place = bench.workspace.to_str().unwrap().to_owned();
    bench.at.forget(&owner("another"));
    nobody_sees(&place);
}

fn a_worker_that_nobody_asks_ends() {
    let mut bench = Bench::new();
    let grace = Duration::from_millis(200);
    bench.at = bench.at.keeping(Lifecycle { grace, ..Lifecycle::default() });
    bench.put("f", "x");
    bench.done("fs.read", json!({ "path": "f" }));
    nobody_sees(bench.workspace.to_str().unwrap());
    assert_eq!(bench.at.leases(), 0);
}

fn no_more_wait_than_may() {
    let mut bench = Bench::new();
    bench.at = bench.at.keeping(Lifecycle { most: 8, ..Lifecycle::default() });
    bench.put("f", "x");
    for number in 0..10 {
        bench.at = bench.at.for_owner(owner(&format!("t{number}")));
        bench.done("fs.read", json!({ "path": "f" }));
    }
    assert_eq!(bench.at.kept(), 8);
}

fn a_worker_that_died_is_replaced() {
    let bench = Bench::new();
    bench.put("f", "x");
    bench.done("fs.read", json!({ "path": "f" }));
    signal_workers_of(&bench, Signal::KILL);
    // It may take a moment until its end of the socket is closed; until then a call may meet a dying worker.
    let until = Instant::now() + Duration::from_secs(10);
    while bench.call("fs.read", json!({ "path": "f" })).failure.is_some() {
        assert!(Instant::now() < until, "it was never replaced");
    }
}

fn a_call_past_its_time_ends_its_worker() {
    let mut bench = Bench::new();
    bench.put("f", "x");
    let patient = bench.limits;
    bench.done("fs.read", json!({ "path": "f" }));
    assert_eq!(bench.at.kept(), 1);
    signal_workers_of(&bench, Signal::STOP);
    bench.limits.timeout = Duration::from_millis(200);
    assert_eq!(bench.refused("fs.read", json!({ "path": "f" })), "timeout");
    assert_eq!(bench.at.kept(), 0);
    nobody_sees(bench.workspace.to_str().unwrap());
    bench.limits = patient;
    bench.done("fs.read", json!({ "path": "f" }));
}

fn a_workspace_that_was_replaced_gets_a_new_worker() {
    let bench = Bench::new();
    bench.put("f", "old");
    bench.done("fs.read", json!({ "path": "f" }));
    fs::rename(&bench.workspace, bench.workspace.with_extension("away")).unwrap();
    fs::create_dir(&bench.workspace).unwrap();
    bench.put("f", "new");
    assert_eq!(bench.done("fs.read", json!({ "path": "f" }))["content"], "new");
}

fn without_an_owner_nothing_is_kept() {
    let mut bench = Bench::new();
    bench.put("f", "x");
    bench.at = bench::surroundings();
    bench.done("fs.read", json!({ "path": "f" }));
    assert_eq!(bench.at.kept(), 0);
}

fn a_call_that_is_taken_back_ends_its_worker() {
    let bench = Bench::new();
    bench.put("f", "x");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let ran = bench.call_with("fs.write", json!({ "path": "f", "content": "y" }), cancel);
    assert_eq!(ran.failure.unwrap().code.as_str(), "cancelled");
    assert_eq!(bench.text("f"), "x");
    bench.done("fs.write", json!({ "path": "f", "content": "z" }));
}

/// How many workers there may be for one owner, workspace and access.
fn lanes() -> usize {
    (std::thread::available_parallelism().unwrap().get() * 2).clamp(2, 16)
}

fn calls_at_once_share_a_few_workers() {
    let bench = Bench::new();
    let calls = (0..24).map(|number| json!({ "path": "log", "content": format!("{number}\n") }));
    let failures: Vec<_> =
        at_once(&bench, "fs.append", calls).into_iter().filter_map(|ran| ran.failure).collect();
    // Whoever meets a file that another is just making may be told so; nothing is lost without a word.
    let lines = bench.text("log").lines().count();
    assert_eq!(lines + failures.len(), 24, "{failures:?}");
    assert!((1..=lanes()).contains(&bench.at.leases()), "{}", bench.at.leases());
    assert_eq!(bench.at.kept(), bench.at.leases(), "all of them wait again");
}

fn reads_at_once_share_a_few_workers_and_each_gets_its_own() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.put(&format!("f{number}"), format!("{number}"));
    }
    // The longest first: those behind a slow one must not get what it gets.
    bench.put("f0", "long\n".repeat(50_000));
    let calls = (0..200).map(|number| json!({ "path": format!("f{number}") }));
    for (number, ran) in at_once(&bench, "fs.read", calls).into_iter().enumerate().skip(1) {
        assert_eq!(ran.failure, None);
        assert_eq!(ran.output.structured["content"], number.to_string());
    }
    assert!((1..=lanes()).contains(&bench.at.leases()), "{}", bench.at.leases());
    assert_eq!(bench.at.kept(), bench.at.leases());
}

/// Makes calls, all at once, and says what has become of each.
fn at_once(bench: &Bench, tool: &str, calls: impl Iterator<Item = serde_json::Value>) -> Vec<tools::Ran> {
    let tool = bench.tool(tool);
    runtime().block_on(async {
        let calls = calls.map(|arguments| {
            let arguments = Canonical::of(arguments).unwrap();
            let grant = bench.grant(&*tool, &arguments).unwrap();
            let (tool, at) = (tool.clone(), bench.at.clone());
            tokio::spawn(async move { tool.run(grant, &arguments, &at, CancellationToken::new()).await })
        });
        let mut rans = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            rans.push(call.await.unwrap());
        }
        rans
    })
}

fn a_call_that_waits_for_a_worker_is_taken_back_alone() {
    let bench = Bench::new();
    bench.put("f", "x\n".repeat(200_000));
    let tool = bench.tool("fs.search");
    // Each of these takes a worker for itself, so that some of them wait.
    let calls: Vec<_> = (0..lanes() * 4)
        .map(|number| {
            let arguments = Canonical::of(json!({ "pattern": format!("(x|y)+{number}$") })).unwrap();
            let (grant, cancel) = (bench.grant(&*tool, &arguments).unwrap(), CancellationToken::new());
            let (tool, at, token) = (tool.clone(), bench.at.clone(), cancel.clone());
            let run = async move { tool.run(grant, &arguments, &at, token).await.failure };
            (number, cancel, runtime().spawn(run))
        })
        .collect();
    for (number, cancel, _) in &calls {
        if number % 2 == 1 {
            cancel.cancel();
        }
    }
    for (number, _, call) in calls {
        let failure = runtime().block_on(call).unwrap();
        // One that is answered in the moment it is taken back has been answered.
        let code = failure.map(|reason| reason.code.to_string());
        assert!(
            code.is_none() || number % 2 == 1 && code.as_deref() == Some("cancelled"),
            "{number}: {code:?}"
        );
    }
    assert!(bench.at.leases() <= lanes());
    bench.done("fs.search", json!({ "pattern": "x" }));
}

/// The same bench, with another lifecycle.
fn keeping(lifecycle: Lifecycle) -> Bench {
    let mut bench = Bench::new();
    bench.at = bench.at.keeping(lifecycle);
    bench
}

fn without_task() -> Owner {
    Owner { task: None, ..owner("task") }
}

fn a_worker_serves_whom_the_lifecycle_says() {
    // How many there are after a call for a task, one for another task, and one for none.
    let expected = [
        (KeptFor::Call, [0, 0, 0]),
        (KeptFor::Task, [1, 2, 2]),
        (KeptFor::Agent, [1, 1, 1]),
        (KeptFor::TaskOrAgent, [1, 2, 3]),
    ];
    for (strategy, counts) in expected {
        let mut bench = keeping(Lifecycle { strategy, ..Lifecycle::default() });
        bench.put("f", "x");
        for (owner, count) in [owner("one"), owner("two"), without_task()].into_iter().zip(counts) {
            bench.at = bench.at.for_owner(owner.clone());
            for _ in 0..2 {
                bench.done("fs.read", json!({ "path": "f" }));
                assert_eq!((bench.at.leases(), bench.at.kept()), (count, count), "{strategy:?} {owner:?}");
            }
        }
    }
}

fn a_worker_at_work_is_neither_reaped_nor_forgotten() {
    let moment = Duration::from_millis(1);
    let bench =
        keeping(Lifecycle { grace: moment, idle: moment, health: moment, most: 1, ..Lifecycle::default() });
    bench.put("f", "x\n".repeat(100_000));
    let tool = bench.tool("fs.search");
    for _ in 0..5 {
        let arguments = Canonical::of(json!({ "pattern": "(x|y)+z$" })).unwrap();
        let grant = bench.grant(&*tool, &arguments).unwrap();
        let (tool, at) = (tool.clone(), bench.at.clone());
        let run = async move { tool.run(grant, &arguments, &at, CancellationToken::new()).await.failure };
        let call = runtime().spawn(run);
        while !call.is_finished() {
            bench.at.forget(&owner("task"));
            std::thread::yield_now();
        }
        assert_eq!(runtime().block_on(call).unwrap(), None);
    }
    nobody_sees(bench.workspace.to_str().unwrap());
}

/// Waits until nothing is kept, without any call.
fn nothing_is_kept(bench: &Bench) {
    let until = Instant::now() + Duration::from_secs(60);
    while bench.at.leases() > 0 {
        assert!(Instant::now() < until, "one is still believed to be well");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_worker_that_was_killed_while_it_waited_is_healed() {
    let bench = keeping(Lifecycle { health: Duration::from_millis(50), ..Lifecycle::default() });
    bench.put("f", "x");
    bench.done("fs.write", json!({ "path": "f", "content": "y" }));
    assert_eq!(bench.at.kept(), 1);
    signal_workers_of(&bench, Signal::KILL);
    nothing_is_kept(&bench);
    bench.done("fs.write", json!({ "path": "f", "content": "z" }));
    assert_eq!((bench.at.kept(), bench.text("f")), (1, "z".to_owned()));
}

fn a_worker_that_does_not_answer_is_ended() {
    let bench = keeping(Lifecycle { health: Duration::from_millis(50), ..Lifecycle::default() });
    bench.put("f", "x");
    bench.done("fs.read", json!({ "path": "f" }));
    signal_workers_of(&bench, Signal::STOP);
    nothing_is_kept(&bench);
    nobody_sees(bench.workspace.to_str().unwrap());
    bench.done("fs.read", json!({ "path": "f" }));
}

fn an_agent_that_is_forgotten_leaves_nothing() {
    let mut bench = Bench::new();
    bench.put("f", "x");
    for owner in [owner("one"), owner("two"), without_task()] {
        bench.at = bench.at.for_owner(owner);
        bench.done("fs.read", json!({ "path": "f" }));
    }
    let stranger = contract::AgentName::parse("stranger").unwrap();
    bench.at.forget_agent(&stranger);
    assert_eq!(bench.at.leases(), 3);
    bench.at.forget_agent(&bench::agent_name());
    assert_eq!(bench.at.leases(), 0);
    nobody_sees(bench.workspace.to_str().unwrap());
}

fn a_grant_is_good_for_one_call_only() {
    let bench = Bench::new();
    bench.put("f", "x");
    bench.put("g", "y");
    let tool = bench.tool("fs.read");
    let (granted, other) = (json!({ "path": "f" }), json!({ "path": "g" }));
    let (granted, other) = (Canonical::of(granted).unwrap(), Canonical::of(other).unwrap());
    let grant = bench.grant(&*tool, &granted).unwrap();
    let ran = runtime().block_on(tool.run(grant, &other, &bench.at, CancellationToken::new()));
    assert_eq!(ran.failure.unwrap().code.as_str(), "internal");
    let grant = bench.grant(&*tool, &granted).unwrap();
    let write = bench.tool("fs.delete");
    let ran = runtime().block_on(write.run(grant, &granted, &bench.at, CancellationToken::new()));
    assert_eq!(ran.failure.unwrap().code.as_str(), "internal");
    assert_eq!(bench.text("f"), "x");
}

/// Whether nobody works in the workspace of a bench.
fn is_free(bench: &Bench) -> bool {
    bench.at.try_hold_alone(&bench.workspace).unwrap().is_some()
}

fn a_write_that_is_given_up_holds_its_workspace_until_its_worker_is_gone() {
    let bench = Bench::new();
    bench.put("f", "x");
    // From the third worker on they have sandboxes that have waited.
    for _ in 0..3 {
        bench.at.forget(&owner("task"));
        bench.done("fs.write", json!({ "path": "f", "content": "y" }));
    }
    signal_workers_of(&bench, Signal::STOP);
    let (tool, cancel) = (bench.tool("fs.write"), CancellationToken::new());
    let arguments = Canonical::of(json!({ "path": "f", "content": "z" })).unwrap();
    let grant = bench.grant(&*tool, &arguments).unwrap();
    let (at, token) = (bench.at.clone(), cancel.clone());
    let call = runtime().spawn(async move { tool.run(grant, &arguments, &at, token).await.failure });
    while is_free(&bench) {
        assert!(!call.is_finished(), "a worker that is stopped has answered");
        std::thread::yield_now();
    }
    // Long enough for the question to be on its way: nothing tells from outside.
    std::thread::sleep(Duration::from_millis(50));
    cancel.cancel();
    assert!(runtime().block_on(call).unwrap().is_some(), "it was given up");
    let until = Instant::now() + Duration::from_secs(10);
    while !is_free(&bench) {
        assert!(Instant::now() < until, "it is never let go");
    }
    assert_eq!(processes_that_see(bench.workspace.to_str().unwrap()), 0, "its worker is still there");
    assert_eq!(bench.text("f"), "y");
}
