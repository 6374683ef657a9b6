//! What a cgroup that is used again tells of the run before: the most memory, who was killed, its limits.

use std::fs;
use std::path::{Path, PathBuf};

use jail::{Control, Limit, Limits, Memory, Outcome, Report, Request, Response};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Mode, Reply, Run, Site, Start, command_of};
use crate::payload::ATTACK_ARGUMENT;

const MIB: u64 = 1024 * 1024;
/// Less than the run before takes, more than one has that does nothing.
const MUCH: u64 = 48 * MIB;
/// Less than the run before takes: somebody of it is killed.
const TOO_LITTLE: u64 = 24 * MIB;
/// As often as it takes for a run to come after each of the others, in whichever sandboxes wait.
const ROUNDS: usize = 2;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        needs: vec![Need::Root],
        teeth: Teeth::Shown(Box::new(two_in_one)),
        ..Case::new(
            "cgroup-again",
            "what a run used, that it was killed and what it was limited to is not said of the next",
            &[Control::Memory],
            one_after_the_other,
        )
    }]
}

/// The control: of a cgroup that nobody sets back, the second is said to have had what the first had.
fn two_in_one(site: &Site<'_>) -> Try<Effect> {
    let (folder, door, peak) = cgroup_of_its_own()?;
    let enter = format!("echo 0 >{}; exec \"$0\" \"$@\"", folder.join(door).display());
    let run = |words: &[&str]| -> Try<()> {
        let mut arguments = vec!["-c".into(), enter.clone().into(), site.bench.tool.clone().into_os_string()];
        arguments.extend(words.iter().map(Into::into));
        let status = command_of(Path::new("/bin/sh"), &arguments).output()?.status;
        if status.success() { Ok(()) } else { Err(format!("{words:?} ended with {status}").into()) }
    };
    let ran = run(&[ATTACK_ARGUMENT, "take-memory"]).and_then(|()| run(&[ATTACK_ARGUMENT, "wait", "0"]));
    let most = fs::read_to_string(folder.join(peak));
    fs::remove_dir(&folder)?;
    ran?;
    let most: u64 = most?.trim().parse()?;
    Ok(Effect::through_if(most > MUCH, format!("the second had {most} bytes at most")))
}

/// Where processes enter it, and where it tells of the most memory.
fn cgroup_of_its_own() -> Try<(PathBuf, &'static str, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let name = format!("toolgate-attack-{}", std::process::id());
    let one = own.lines().find_map(|line| line.split_once(":memory:")).map(|(_, path)| path);
    let (folder, door, peak) = match one {
        Some(path) => (
            Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')),
            "tasks",
            "memory.max_usage_in_bytes",
        ),
        None => {
            let path = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("no cgroup")?;
            let here = Path::new("/sys/fs/cgroup").join(path);
            (
                here.parent().filter(|_| !path.is_empty()).unwrap_or(&here).to_owned(),
                "cgroup.procs",
                "memory.peak",
            )
        }
    };
    let folder = folder.join(name);
    fs::create_dir(&folder)?;
    Ok((folder, door, peak))
}

/// One takes much, one is killed for taking more than it may, one kills itself, one does nothing: each is told of alone.
fn one_after_the_other(site: &Site<'_>) -> Try<Attempt> {
    let Mode::Behind(without) = site.mode else { return Err("this needs a sandbox".into()) };
    let rounds = if site.start == Start::Cold { 1 } else { ROUNDS };
    let run = |run: &Run| -> Try<Box<Report>> {
        let request = Request { plan: site.plan(run, without)?, sealed: Vec::new(), input: Vec::new() };
        let response = match site.start {
            Start::Cold => site.bench.helper.run(&request)?,
            Start::Warm | Start::InPlace => site.bench.warm.run(&request)?,
        };
        match response {
            Response::Report(report) => Ok(report),
            Response::Refused { messages, .. } => Err(messages.join(": ").into()),
        }
    };
    let limited = Limits { memory: TOO_LITTLE, ..Limits::default() };
    let much = Run::payload("take-memory", [""; 0]);
    let bomb = Run { limits: limited, ..Run::payload("take-memory", [""; 0]) };
    let suicide = Run::command("sh", ["-c", "kill -KILL $$"]);
    let mut last = None;
    for round in 0..rounds {
        for (before, after) in
            [(&much, &much), (&much, &suicide), (&bomb, &suicide), (&bomb, &much), (&much, &bomb)]
        {
            run(before)?;
            let report = run(after)?;
            let expected = match () {
                () if std::ptr::eq(after, &much) => Outcome::Exit(0),
                () if std::ptr::eq(after, &bomb) => Outcome::Stopped(Limit::Memory),
                () => Outcome::Signal(libc::SIGKILL),
            };
            let has_much = matches!(report.usage.memory, Memory::Total(most) if most > MUCH);
            let is_own = report.outcome == expected && has_much == std::ptr::eq(after, &much);
            let said = format!("round {round}: {:?}, {:?}", report.outcome, report.usage.memory);
            if !is_own {
                return Ok(Attempt { effect: Effect::through_if(true, said), answer: Reply::Report(report) });
            }
        }
        last = Some(run(&Run::payload("wait", ["0"]))?);
    }
    let answer = Reply::Report(last.ok_or("there was no round")?);
    Ok(Attempt { effect: Effect::through_if(false, ""), answer })
}
