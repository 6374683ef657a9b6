//! More than its share: memory, processor, processes, time; and core dumps.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jail::{Caller, Control, Limit, Limits, Outcome};
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::kernel::told_by;
use crate::Try;
use crate::bench::{Need, processors};
use crate::case::{Attempt, Case, Effect, Trace};
use crate::launch::{Launcher, Ran, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, held, tell, through};
use crate::raw::{self, Word};
use crate::stage::Stage;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("take-memory", take_memory),
    ("take-memory-together", take_memory_together),
    ("take-memory-in-files", take_memory_in_files),
    ("take-memory-in-scratch", take_memory_in_scratch),
    ("take-memory-without-a-leader", take_memory_without_a_leader),
    ("take-segment", take_segment),
    ("part-files", part_files),
    ("spin", spin),
    ("hog", hog),
    ("spread", spread),
    ("fork-bomb", fork_bomb),
    ("thread-bomb", thread_bomb),
    ("raise-limits", raise_limits),
    ("crash", crash),
    ("set-core-limit", set_core_limit),
];

const MIB: u64 = 1024 * 1024;
/// What a memory bomb may have, and what it takes.
const MEMORY: u64 = 32 * MIB;
const TAKEN: usize = 64 * 1024 * 1024;
/// How long a hog tries to get more than its share.
const HOG_TIME: Duration = Duration::from_secs(6);
/// How many processes a bomb may have, and how many it tries to start.
const PIDS: u32 = 16;
const STARTED: usize = 64;
const NOTHING: Word = Word::Number(0);
/// More than any machine of ours has.
const MOST_PROCESSORS: usize = 1024;

pub(crate) fn cases(caller: Caller) -> Vec<Case> {
    let bomb = |id, promise, payload: &'static str| Case {
        trace: Trace::Stopped(Limit::Memory),
        ..Case::new(id, promise, &[Control::Memory], move |site| explode(site, payload))
    };
    let too_many = |id, promise, payload: &'static str| {
        Case::new(id, promise, &[Control::Pids], move |site| multiply(site, payload))
    };
    let processor = match caller {
        Caller::Root => Case::new(
            "processor-hog",
            "a hog gets no more of a processor than its share",
            &[Control::Cpu],
            hog_a_processor,
        ),
        // Without a cgroup the number of processors is all that can be limited.
        Caller::User => Case {
            needs: vec![Need::Processors],
            ..Case::new(
                "processor-hog",
                "a hog gets no more processors than its share",
                &[Control::Cpu],
                hog_all_processors,
            )
        },
    };
    vec![
        bomb("memory-bomb", "one process cannot take more memory than there is for all", "take-memory"),
        // Version 1 of cgroups ends one process after the other, not all at once: the bomb itself may live to tell.
        Case {
            trace: Trace::Walls,
            ..bomb(
                "memory-bomb-together",
                "many processes cannot take more memory than there is for all",
                "take-memory-together",
            )
        },
        bomb("memory-bomb-in-files", "files in memory count as memory", "take-memory-in-files"),
        bomb("memory-bomb-in-scratch", "scratch space counts as memory", "take-memory-in-scratch"),
        bomb(
            "memory-bomb-without-a-leader",
            "memory counts when the first thread of a process has ended",
            "take-memory-without-a-leader",
        ),
        Case::new(
            "detached-segment",
            "memory cannot be kept in segments that no process has",
            &[Control::Seccomp],
            |site| told_by(site, "take-segment", &[]),
        ),
        Case::new(
            "files-of-one-thread",
            "a thread cannot have open files of its own where nobody looks for them",
            &[Control::Seccomp],
            |site| told_by(site, "part-files", &[]),
        ),
        processor,
        too_many("fork-bomb", "a fork bomb ends at the number of processes", "fork-bomb"),
        too_many("thread-bomb", "threads count as processes", "thread-bomb"),
        Case::new("raised-limit", "a limit of processes cannot be raised", &[Control::Pids], |site| {
            multiply(site, "raise-limits")
        }),
        Case {
            trace: Trace::Stopped(Limit::Timeout),
            ..Case::new("timeout", "a command that does not end is ended", &[Control::Timeout], take_too_long)
        },
        Case::new(
            "core-dump",
            "a crash leaves no core dump in a granted directory",
            &[Control::CoreDumps],
            dump,
        ),
        Case::new(
            "core-pattern",
            "the limit that keeps a crash from starting the core dump handler of the host cannot be changed",
            &[Control::Seccomp],
            |site| told_by(site, "set-core-limit", &[]),
        ),
    ]
}

fn explode(site: &Site<'_>, payload: &'static str) -> Try<Attempt> {
    let limits = Limits { memory: MEMORY, timeout: Duration::from_secs(10), ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload(payload, [""; 0]) })?;
    // The bomb says so when it has all it wanted; one that was ended says nothing.
    let effect = match (&ran.report()?.outcome, ran.told()) {
        (_, Ok(told)) => told,
        (outcome @ (Outcome::Stopped(_) | Outcome::Signal(_)), Err(_)) => {
            Effect::Held(format!("{outcome:?}"))
        }
        (_, Err(error)) => return Err(error),
    };
    Ok(ran.attempt(effect))
}

fn multiply(site: &Site<'_>, payload: &'static str) -> Try<Attempt> {
    let limits = Limits { pids: PIDS, ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload(payload, [""; 0]) })?;
    ran.judged(Ran::told)
}

/// A fiftieth of a processor. Judged by what it got of it, so that a machine with much else to do gives the same answer.
fn hog_a_processor(site: &Site<'_>) -> Try<Attempt> {
    let limits = Limits { cpu_millis: 20, ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload("hog", [""; 0]) })?;
    let usage = ran.report()?.usage;
    let used = usage.cpu_user + usage.cpu_system;
    // Its share of the time it takes, twice.
    let effect = ran.seen(used > HOG_TIME / 25, &format!("used {used:?} of {HOG_TIME:?}"))?;
    Ok(ran.attempt(effect))
}

fn hog_all_processors(site: &Site<'_>) -> Try<Attempt> {
    let limits = Limits { cpu_millis: 1000, ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload("spread", [processors().to_string()]) })?;
    ran.judged(Ran::told)
}

fn take_too_long(site: &Site<'_>) -> Try<Attempt> {
    let limits = Limits { timeout: Duration::from_millis(300), ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload("spin", ["900"]) })?;
    let effect = match (&ran.report()?.outcome, ran.told()) {
        (_, Ok(_)) => Effect::Through("ran to its end".to_owned()),
        (Outcome::Stopped(_), Err(_)) => Effect::Held("stopped".to_owned()),
        (_, Err(error)) => return Err(error),
    };
    Ok(ran.attempt(effect))
}

fn dump(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let run = Run {
        working_directory: granted.clone(),
        write: vec![granted.clone()],
        launcher: Launcher { stages: vec![Stage::CoreDumps], ..Launcher::default() },
        ..Run::payload("crash", [""; 0])
    };
    let ran = site.run(run)?;
    if ran.report()?.outcome != Outcome::Signal(libc::SIGABRT) {
        return Err(ran.said_nothing());
    }
    let left: Vec<String> =
        fs::read_dir(&granted)?.flatten().map(|e| e.file_name().to_string_lossy().into()).collect();
    // Where a handler of the host takes dumps, what counts is whether the kernel would start it.
    let handled = fs::read_to_string("/proc/sys/kernel/core_pattern")?.starts_with('|');
    let told = ran.told()?;
    let through = !left.is_empty() || (handled && matches!(told, Effect::Through(_)));
    Ok(ran.attempt(Effect::through_if(through, format!("left {left:?}"))))
}

/// Takes memory, page by page, and keeps it for a while.
fn hold_memory(bytes: usize) {
    let mut taken = vec![0_u8; bytes];
    taken.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::thread::sleep(Duration::from_millis(600));
    std::hint::black_box(&taken);
}

fn take_memory(arguments: &[String]) {
    let bytes = argument(arguments, 0).parse().unwrap_or(TAKEN);
    hold_memory(bytes);
    through(format!("took {bytes} bytes"));
}

fn take_memory_together(_: &[String]) {
    let share = (TAKEN / 8).to_string();
    let children: Vec<Child> = (0..8).filter_map(|_| start_self("take-memory", &share).ok()).collect();
    let count = children.len();
    let ended: Vec<bool> =
        children.into_iter().map(|mut c| c.wait().is_ok_and(|status| status.success())).collect();
    if count == 8 && ended.iter().all(|well| *well) {
        through("took it together");
    } else {
        held("not all of them could");
    }
}

/// Memory that belongs to no process: files without a name.
fn take_memory_in_files(_: &[String]) {
    let piece = vec![1_u8; 4 * 1024 * 1024];
    let take = || -> std::io::Result<Vec<fs::File>> {
        (0..TAKEN / piece.len())
            .map(|_| {
                let mut file = fs::File::from(rustix::fs::memfd_create("piece", MemfdFlags::CLOEXEC)?);
                file.write_all(&piece)?;
                Ok(file)
            })
            .collect()
    };
    let taken = take();
    std::thread::sleep(Duration::from_millis(600));
    tell("take memory in files", taken);
}

fn take_memory_in_scratch(_: &[String]) {
    let taken = fs::write("/tmp/taken", vec![1_u8; TAKEN / 8]).and_then(|()| {
        // Copied in the kernel, so that the bytes are nobody's but the file's.
        (1..8).try_for_each(|number| fs::copy("/tmp/taken", format!("/tmp/taken{number}")).map(drop))
    });
    std::thread::sleep(Duration::from_millis(600));
    tell("take memory in scratch space", taken);
}

fn take_memory_without_a_leader(_: &[String]) {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        hold_memory(TAKEN);
        through("took it without a first thread");
        std::process::exit(0);
    });
    raw::end_this_thread();
}

/// A segment that is filled and left, and found again later.
fn take_segment(_: &[String]) {
    tell("keep memory in a segment", raw::fill_segment(TAKEN));
}

fn part_files(_: &[String]) {
    const UNSHARE: i64 = 2;
    tell("part with the files of the others", raw::unshare(libc::CLONE_FILES));
    let words = [Word::Number(1000), Word::Number(1000), Word::Number(UNSHARE), NOTHING, NOTHING];
    tell("part with them by closing some", raw::try_call(libc::SYS_close_range, words));
}

fn spin(arguments: &[String]) {
    let wanted = Duration::from_millis(argument(arguments, 0).parse().unwrap_or(0));
    let begun = Instant::now();
    while begun.elapsed() < wanted {
        std::hint::black_box(0);
    }
    held("span");
}

/// Takes three times its share of some time, as soon as it gets it; at the end of that time it goes without.
fn hog(_: &[String]) {
    let used = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
    };
    let begun = Instant::now();
    while begun.elapsed() < HOG_TIME && used() < HOG_TIME * 3 / 50 {
        std::hint::black_box(0);
    }
    held("span");
}

/// Runs on every processor there is, if it may.
fn spread(arguments: &[String]) {
    let wanted: usize = argument(arguments, 0).parse().unwrap_or(2);
    // A busy machine may keep several threads on one processor for long: whoever may have more waits for it.
    let may_use = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    let patience = Duration::from_millis(if may_use > 1 { 10_000 } else { 400 });
    let seen: [AtomicBool; MOST_PROCESSORS] = std::array::from_fn(|_| AtomicBool::new(false));
    let count = || seen.iter().filter(|on| on.load(Ordering::Relaxed)).count();
    let begun = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..wanted * 2 {
            threads.spawn(|| {
                while begun.elapsed() < patience && count() < 2 {
                    if let Some(on) = seen.get(rustix::thread::sched_getcpu()) {
                        on.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if count() > 1 { through("ran on several processors") } else { held("ran on one") }
}

fn fork_bomb(_: &[String]) {
    let started: Vec<Child> = (0..STARTED).map_while(|_| start_self("wait", "700").ok()).collect();
    count(started.len());
    for mut child in started {
        let _ = child.wait();
    }
}

fn thread_bomb(_: &[String]) {
    let wait = || std::thread::sleep(Duration::from_millis(300));
    let start = || std::thread::Builder::new().stack_size(64 * 1024).spawn(wait).ok();
    let started: Vec<_> = (0..STARTED).map_while(|_| start()).collect();
    count(started.len());
    for thread in started {
        let _ = thread.join();
    }
}

fn count(started: usize) {
    if started == STARTED {
        through(format!("started {started}"))
    } else {
        held(format!("started {started}"))
    }
}

/// As high as a limit goes, then no higher than somebody may have.
fn raise_limits(_: &[String]) {
    for wanted in [None, Some(4096), Some(u64::from(PIDS) + 2)] {
        let limit = Rlimit { current: wanted, maximum: wanted };
        tell(&format!("raise the limit of processes to {wanted:?}"), setrlimit(Resource::Nproc, limit));
    }
}

fn crash(_: &[String]) {
    match getrlimit(Resource::Core).current {
        Some(1) => held("the core limit is 1"),
        other => through(format!("the core limit is {other:?}")),
    }
    std::process::abort();
}

/// A limit of zero would make the kernel start a handler again, and so would any other but one.
fn set_core_limit(_: &[String]) {
    for limit in [0, 1] {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        tell("change the core limit", setrlimit(Resource::Core, limit));
    }
}

fn start_self(payload: &str, text: &str) -> std::io::Result<Child> {
    let arguments = [ATTACK_ARGUMENT, payload, text].map(OsString::from);
    command_of(&std::env::current_exe()?, &arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}
