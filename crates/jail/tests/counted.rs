//! What a run is said to have used is what all of its processes have used, however they came to their end; and one that waits
//! for a word has used nothing before it.
//!
//! The test's own binary is the launcher of every sandbox.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; it plays the host, and says what it skips"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Test, folder, reported, request, with_program};
use jail::{
    Control, Counted, DEFAULT_PATH, Draft, Helper, HomeFile, Level, Limit, Limits, Outcome, Plan, Program,
    Report, Request, Response, Running, WORD, Warm,
};
use tempfile::TempDir;

mod common;

const TESTS: &[Test] = &[
    ("whoever_is_left_behind_is_counted", whoever_is_left_behind_is_counted),
    ("whoever_is_left_behind_is_counted_in_a_sandbox_that_has_waited", whoever_is_left_behind_when_warm),
    ("many_that_are_left_behind_are_all_ended_and_counted", many_that_are_left_behind),
    ("one_that_is_stopped_and_hears_nothing_holds_nobody_up", one_that_is_stopped),
    ("what_is_written_until_the_end_arrives", what_is_written_until_the_end_arrives),
    ("a_timeout_counts_what_was_used_until_then", a_timeout_counts),
    ("a_run_that_is_taken_back_counts_what_it_used_until_then", a_run_that_is_taken_back_counts),
    ("where_everybody_is_ended_at_once_the_report_says_that_it_is_a_part", where_it_is_a_part),
    ("a_cgroup_counts_children_of_whom_nobody_wants_to_hear", a_cgroup_counts_everybody),
    ("a_program_that_waits_for_the_word_is_not_executed_before_it", nothing_before_the_word),
    ("what_cannot_be_found_is_not_answered_before_the_word", not_found_when_told),
    ("what_could_not_be_executed_has_not_run", what_could_not_be_executed),
    ("a_program_finds_in_its_home_what_came_with_the_plan", what_is_in_the_home),
];

/// Burns the processor until the kernel has counted three tenths of a second for this shell.
const BURN: &str = "while read -r s </proc/self/stat; set -- $s; [ $((${14} + ${15})) -lt 30 ]; do :; done";
/// A program that ignores its child, and a child that burns the processor for as long and ends.
const UNHEARD: &str = r#"
    $SIG{CHLD} = "IGNORE";
    if (!fork) { do { @t = times } while $t[0] + $t[1] < 0.3; open F, ">/tmp/burnt"; exit }
    select undef, undef, undef, 0.05 until -e "/tmp/burnt";
    sleep 1;
"#;
/// The same, a tick less: the kernel's two counts differ by as much.
const BURNT: Duration = Duration::from_millis(290);
/// Longer than anything here takes that is not held up.
const LONG: Duration = Duration::from_secs(20);

fn main() {
    common::run_all(TESTS);
}

fn whoever_is_left_behind_is_counted() {
    let report = run(&left_behind());
    assert_counted(&report, Outcome::Exit(0));
}

fn whoever_is_left_behind_when_warm() {
    let warm = Warm::new(Helper::own().unwrap());
    for _ in 0..3 {
        let report = reported(warm.run(&request(&left_behind(), Limits::default(), None)).unwrap());
        assert_counted(&report, Outcome::Exit(0));
    }
}

fn many_that_are_left_behind() {
    let idle = "i=0; while [ $i -lt 100 ]; do (sleep 60 >/dev/null 2>&1 &); i=$((i + 1)); done";
    let report = run(&format!("{idle}; {}", left_behind()));
    assert_counted(&report, Outcome::Exit(0));
}

fn one_that_is_stopped() {
    let deaf = "(trap '' HUP INT TERM; sh -c 'kill -STOP $$' &)";
    let report = run(&format!("{deaf}; {}", left_behind()));
    assert_counted(&report, Outcome::Exit(0));
}

fn what_is_written_until_the_end_arrives() {
    // It holds the streams, and would hold them for a minute.
    let report = run("(printf left; printf behind >&2; : >/tmp/said; sleep 60) & \
                      until [ -e /tmp/said ]; do :; done; exit 7");
    assert_eq!(report.outcome, Outcome::Exit(7));
    assert_eq!((report.stdout.text(), report.stderr.text()), ("left".to_owned(), "behind".to_owned()));
    assert_eq!(report.usage.counted, Counted::All);
}

fn a_timeout_counts() {
    let limits = Limits { timeout: Duration::from_secs(3), ..Limits::default() };
    // One child that it waits for, and one that it knows nothing of.
    for script in [format!("({BURN}; sleep 60); true"), format!("((({BURN}; sleep 60)) &); sleep 60")] {
        let report = reported(Helper::own().unwrap().run(&request(&script, limits, None)).unwrap());
        assert_counted(&report, Outcome::Stopped(Limit::Timeout));
    }
}

fn a_run_that_is_taken_back_counts() {
    let folder = folder();
    let script = format!("((({BURN}; : >burnt; sleep 60)) &); sleep 60");
    let running =
        Helper::own().unwrap().start(&request(&script, Limits::default(), Some(folder.path()))).unwrap();
    wait_for(&folder.path().join("burnt"));
    running.hangup().unwrap().hang_up();
    let report = reported(running.wait().unwrap());
    assert_counted(&report, Outcome::Stopped(Limit::Abandoned));
}

fn where_it_is_a_part() {
    let folder = folder();
    let limits = Limits { disk: 1 << 20, ..Limits::default() };
    let script = format!("({BURN}); for n in 1 2 3 4; do head -c 900000 /dev/zero >$n; done; sleep 60");
    let report =
        reported(Helper::own().unwrap().run(&request(&script, limits, Some(folder.path()))).unwrap());
    match report.usage.counted {
        Counted::Part => assert_eq!(report.outcome, Outcome::Stopped(Limit::Disk)),
        Counted::All => {
            assert!(has_cgroups_that_count(), "nobody can have counted all");
            assert_counted(&report, Outcome::Stopped(Limit::Disk));
        }
    }
}

fn a_cgroup_counts_everybody() {
    if !has_cgroups_that_count() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: there is no cgroup of version 2 to be had");
        return;
    }
    // No shell ignores its children, whatever it is told.
    let report = run(&format!("exec perl -e '{UNHEARD}'"));
    if report.outcome == Outcome::Exit(127) {
        eprintln!("skipped: there is no perl");
        return;
    }
    assert_counted(&report, Outcome::Exit(0));
}

/// A shell whose grandchild burns the processor and goes on with it; the shell ends when enough is burnt.
fn left_behind() -> String {
    format!("(({BURN}; : >/tmp/burnt; while :; do :; done) &); until [ -e /tmp/burnt ]; do sleep 0.05; done")
}

fn assert_counted(report: &Report, outcome: Outcome) {
    assert_eq!(report.outcome, outcome, "{}", report.stderr.text());
    let used = report.usage.cpu_user + report.usage.cpu_system;
    assert!(used >= BURNT, "{used:?} is less than was burnt");
    assert_eq!(report.usage.counted, Counted::All);
}

fn run(script: &str) -> Report {
    let begun = Instant::now();
    let answer = Helper::own().unwrap().run(&request(script, Limits::default(), None)).unwrap();
    assert!(begun.elapsed() < LONG, "it took {:?}", begun.elapsed());
    reported(answer)
}

fn nothing_before_the_word() {
    let folder = TempDir::new_in(std::env::current_dir().unwrap()).unwrap();
    let began = folder.path().join("began");
    let warm = Warm::new(Helper::own().unwrap());
    let told = request("readlink /proc/self/fd/0 >began", Limits::default(), Some(folder.path())).plan;
    let plan = with_program(&told, Program::WhenTold("sh".into()));
    let ready = || begun(&warm, &plan);
    // Long enough for it to be begun, if it were begun without the word.
    let wait = || std::thread::sleep(Duration::from_millis(300));
    let taken_back = ready();
    wait();
    assert!(!began.exists(), "it has begun by itself");
    drop(taken_back);
    wait();
    assert!(!began.exists(), "it has begun when it was taken back");
    let empty = ready();
    empty.give(&[]).unwrap();
    let _ = empty.wait();
    assert!(!began.exists(), "it has begun without a word");
    let running = ready();
    running.give(WORD).unwrap();
    let Ok(Response::Report(report)) = running.wait() else { panic!("there is no report") };
    assert_eq!(report.outcome, Outcome::Exit(0), "{}", report.stderr.text());
    // The word was not for it.
    assert_eq!(std::fs::read_to_string(&began).unwrap(), "/dev/null\n");
}

fn not_found_when_told() {
    let warm = Warm::new(Helper::own().unwrap());
    let asked = request("true", Limits::default(), None).plan;
    let plan = with_program(&asked, Program::WhenTold("no-such-command".into()));
    let running = begun(&warm, &plan);
    // Long enough for it to be looked for.
    std::thread::sleep(Duration::from_millis(300));
    running.give(WORD).expect("it waits for the word");
    let report = reported(running.wait().unwrap());
    assert_eq!((report.outcome, report.usage.counted), (Outcome::NotFound, Counted::All));
    let taken_back = begun(&warm, &plan);
    taken_back.give(&[]).unwrap();
    let answer = taken_back.wait().unwrap();
    assert!(matches!(answer, Response::Refused { .. }), "it has answered without a word: {answer:?}");
}

fn what_could_not_be_executed() {
    let folder = folder();
    // By another process: what is open for writing in this one cannot be executed by whoever is started meanwhile.
    let write = "printf '#!/nowhere\n' >script; printf 'not a program' >text; chmod +x script text";
    let written = Command::new("sh").args(["-c", write]).current_dir(folder.path()).status().unwrap();
    assert!(written.success());
    let warm = Warm::new(Helper::own().unwrap());
    let asked = request("true", Limits::default(), Some(folder.path()));
    let outcomes = [("script", Outcome::NotFound), ("text", Outcome::CannotExecute(libc::ENOEXEC))];
    for (name, outcome) in outcomes {
        let path = folder.path().join(name).into_os_string();
        let plan = with_program(&asked.plan, Program::Inside(path.clone()));
        let request = Request { plan, ..asked.clone() };
        let at_once = reported(Helper::own().unwrap().run(&request).unwrap());
        let running = begun(&warm, &with_program(&asked.plan, Program::WhenTold(path)));
        running.give(WORD).unwrap();
        for report in [at_once, reported(running.wait().unwrap())] {
            assert_eq!((report.outcome, report.usage.counted), (outcome.clone(), Counted::All), "{name}");
            assert_eq!(report.timings.run, Duration::ZERO, "{name}");
            assert_eq!(report.enforcement.level(Control::Filesystem), Level::Absent, "{name}");
        }
    }
}

/// A run that waits for the word.
fn begun(warm: &Warm, plan: &Plan) -> Running {
    let until = Instant::now() + LONG;
    loop {
        match warm.begin(plan) {
            Some(running) => return running,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            None => panic!("nothing ever waits"),
        }
    }
}

fn what_is_in_the_home() {
    let file = |name: &str| HomeFile { name: name.to_owned(), content: "of the plan".to_owned() };
    let asked = request("cat ~/.note", Limits::default(), None);
    let home = vec![("HOME".into(), jail::HOME.into()), ("PATH".into(), DEFAULT_PATH.into())];
    let draft = Draft { environment: home, ..asked.plan.draft().clone() };
    let plan = Plan::try_from(draft).unwrap();
    let request = Request { plan: plan.clone().with_home(vec![file(".note")]).unwrap(), ..asked };
    let Response::Report(report) = Helper::own().unwrap().run(&request).unwrap() else { panic!("refused") };
    assert_eq!(report.stdout.text(), "of the plan", "{}", report.stderr.text());
    for name in ["", ".", "..", "a/b", "/etc/passwd", "a\0b"] {
        assert!(plan.clone().with_home(vec![file(name)]).is_err(), "{name:?}");
    }
}

/// Whether cgroups are of version 2.
fn has_cgroups_that_count() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn wait_for(file: &Path) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < LONG, "{} never came", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
