//! Who works in one place has a sandbox wait there, and is served as from any other.
//!
//! The test's own binary is the launcher of every sandbox.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; it plays the host, and says what it skips"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Test, folder, reported, request, with_program};
use jail::{
    Access, Content, Control, Directory, Draft, Helper, HomeFile, Limits, Network, Outcome, Plan, Program,
    Report, Request, SealedFile, WORD, Warm,
};

mod common;

const TESTS: &[Test] = &[
    ("whoever_comes_back_to_a_place_is_served_by_whoever_waits_there", whoever_comes_back),
    ("what_waits_in_place_executes_nothing_before_the_word", nothing_before_the_word),
    ("only_the_last_places_are_waited_in", only_the_last_places),
    ("nobody_waits_where_something_has_to_be_guarded", where_something_is_guarded),
    ("nobody_waits_where_something_may_be_changed", where_something_may_be_changed),
    ("a_plan_with_other_limits_has_another_place", other_limits),
    ("what_runs_in_place_may_be_on_every_processor", on_every_processor),
];

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);
/// As long as it takes, mostly, until somebody waits in place.
const A_MOMENT: Duration = Duration::from_millis(20);
/// Longer than it takes until somebody waits in place.
const A_WHILE: Duration = Duration::from_millis(500);

fn main() {
    common::run_all(TESTS);
}

fn whoever_comes_back() {
    let folder = folder();
    fs::write(folder.path().join("note"), "of the host").unwrap();
    let warm = Warm::new(Helper::own().unwrap());
    let asked = reading("cat note ~/.own; echo $WHO $1; pwd; exec sleep 0.3", folder.path());
    let before = with_program(&asked.plan, Program::Inside("true".into()));
    settle_in(&warm, &before);
    let draft = Draft {
        arguments: [asked.plan.draft().arguments.clone(), vec!["-".into(), "you".into()]].concat(),
        environment: [
            asked.plan.draft().environment.clone(),
            vec![("WHO".into(), "for".into()), ("HOME".into(), jail::HOME.into())],
        ]
        .concat(),
        ..asked.plan.draft().clone()
    };
    let own = HomeFile { name: ".own".to_owned(), content: " of the plan\n".to_owned() };
    let plan = Plan::try_from(draft).unwrap().with_home(vec![own]).unwrap();
    let request = Request { plan, ..asked };
    let waited = kept();
    let running = warm.start(&request).unwrap();
    // Nobody else waits there; and whoever serves it was there before.
    assert!(!warm.waits_in_place_of(&before), "another one was taken");
    let serving = wait_for(|| parent_of("sleep 0.3"));
    assert!(waited.contains(&serving), "{serving} is none of {waited:?}");
    let report = reported(running.wait().unwrap());
    let expected = format!("of the host of the plan\nfor you\n{}\n", folder.path().display());
    assert_eq!((report.outcome.clone(), report.stdout.text()), (Outcome::Exit(0), expected));
    let at_once = reported(Helper::own().unwrap().run(&request).unwrap());
    for control in Control::ALL {
        let level = |report: &Report| report.enforcement.level(control);
        assert_eq!(level(&report), level(&at_once), "{control}");
    }
}

fn nothing_before_the_word() {
    let folder = folder();
    let warm = Warm::new(Helper::own().unwrap());
    let asked = reading("readlink /proc/self/fd/0", folder.path());
    let plan = with_program(&asked.plan, Program::WhenTold("sh".into()));
    settle_in(&warm, &plan);
    let taken_back = warm.begin(&plan).unwrap();
    drop(taken_back);
    warm.refill();
    settle_in(&warm, &plan);
    let running = warm.begin(&plan).unwrap();
    std::thread::sleep(A_WHILE);
    assert_eq!(running.answered(), jail::Answered::NotYet);
    running.give(WORD).unwrap();
    let report = reported(running.wait().unwrap());
    assert_eq!((report.outcome, report.stdout.text()), (Outcome::Exit(0), "/dev/null\n".to_owned()));
}

fn only_the_last_places() {
    let folders = [folder(), folder(), folder()];
    let warm = Warm::new(Helper::own().unwrap());
    let plans = folders.each_ref().map(|folder| reading("true", folder.path()).plan);
    for plan in &plans {
        settle_in(&warm, plan);
    }
    assert_eq!(plans.each_ref().map(|plan| warm.waits_in_place_of(plan)), [false, true, true]);
}

fn where_something_is_guarded() {
    let folder = folder();
    fs::write(folder.path().join(".env"), "secret").unwrap();
    let warm = Warm::new(Helper::own().unwrap());
    let asked = reading("cat .env", folder.path());
    assert_nobody_waits(&warm, &asked);
    let report = reported(warm.run(&asked).unwrap());
    assert!(!report.stdout.text().contains("secret"), "{}", report.stdout.text());
    // Once it is gone somebody does.
    fs::remove_file(folder.path().join(".env")).unwrap();
    settle_in(&warm, &asked.plan);
}

fn where_something_may_be_changed() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let beneath = folder.path().join("beneath");
    fs::create_dir(&beneath).unwrap();
    let reads = reading("true", folder.path());
    let draft = |change: &dyn Fn(&mut Draft)| {
        let mut draft = reads.plan.draft().clone();
        change(&mut draft);
        Plan::try_from(draft).unwrap()
    };
    let seals = SealedFile { path: folder.path().join("file"), bytes: 0, executable: false };
    let plans = [
        ("writes", draft(&|draft| draft.directories[0].access = Access::Write)),
        ("starts beneath", draft(&|draft| draft.working_directory = beneath.clone())),
        ("seals", reads.plan.clone().sealing(vec![seals]).unwrap()),
        ("brings", draft(&|draft| draft.program = Program::Brought("/usr/bin/true".into()))),
    ];
    for (name, plan) in plans {
        let warm = Warm::new(Helper::own().unwrap());
        assert_nobody_waits(&warm, &Request { plan, ..reads.clone() });
        eprintln!("nobody waits for a plan that {name}");
    }
}

fn other_limits() {
    let folder = folder();
    let warm = Warm::new(Helper::own().unwrap());
    let plan = reading("true", folder.path()).plan;
    settle_in(&warm, &plan);
    let limits = Limits { memory: 64 << 20, ..Limits::default() };
    let network = Network::Loopback;
    for other in [Draft { limits, ..plan.draft().clone() }, Draft { network, ..plan.draft().clone() }] {
        assert!(!warm.waits_in_place_of(&Plan::try_from(other).unwrap()));
    }
}

fn on_every_processor() {
    let folder = folder();
    let warm = Warm::new(Helper::own().unwrap());
    let asked = reading("grep Cpus_allowed_list /proc/self/status", folder.path());
    // As many as any machine has: a usual limit would take some of a large one's away.
    let limits = Limits { cpu_millis: 1_000_000, ..Limits::default() };
    let plan = Plan::try_from(Draft { limits, ..asked.plan.draft().clone() }).unwrap();
    let asked = Request { plan, ..asked };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ours = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    for _ in 0..10 {
        settle_in(&warm, &asked.plan);
        assert_eq!(reported(warm.run(&asked).unwrap()).stdout.text().trim_end(), ours);
    }
}

/// Runs it until somebody waits in its place.
fn settle_in(warm: &Warm, plan: &Plan) {
    let plan = with_program(plan, Program::Inside("true".into()));
    let request = Request { plan, sealed: Vec::new(), input: Vec::new() };
    wait_for(|| {
        assert_eq!(reported(warm.run(&request).unwrap()).outcome, Outcome::Exit(0));
        std::thread::sleep(A_MOMENT);
        warm.waits_in_place_of(&request.plan).then_some(())
    });
}

fn assert_nobody_waits(warm: &Warm, request: &Request) {
    for _ in 0..3 {
        reported(warm.run(request).unwrap());
    }
    std::thread::sleep(A_WHILE);
    assert!(!warm.waits_in_place_of(&request.plan));
}

/// A request that reads one directory, and starts there.
fn reading(script: &str, folder: &Path) -> Request {
    let asked = request(script, Limits::default(), None);
    let directory = Directory { path: folder.to_owned(), access: Access::Read, content: Content::Work };
    let draft = Draft {
        directories: vec![directory],
        working_directory: folder.to_owned(),
        ..asked.plan.draft().clone()
    };
    Request { plan: Plan::try_from(draft).unwrap(), ..asked }
}

/// What this test's keepers have: process 1 of each sandbox is among them.
fn kept() -> BTreeSet<u32> {
    let ours = std::process::id();
    processes().filter(|(pid, _)| ancestors(*pid).any(|pid| pid == ours)).map(|(pid, _)| pid).collect()
}

/// The parent of the process that was started with this command line.
fn parent_of(command: &str) -> Option<u32> {
    let ours = std::process::id();
    let found = processes()
        .filter(|(_, said)| said == command)
        .find(|(pid, _)| ancestors(*pid).any(|pid| pid == ours));
    found.and_then(|(pid, _)| parent(pid))
}

fn processes() -> impl Iterator<Item = (u32, String)> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")))
    })
}

/// The parent of a process, and so on.
fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(pid), |pid| parent(*pid))
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

fn wait_for<T>(come: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match come() {
            Some(come) => return come,
            None if begun.elapsed() < LONG => std::thread::sleep(Duration::from_millis(2)),
            None => panic!("it never came"),
        }
    }
}
