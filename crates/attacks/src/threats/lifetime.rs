//! Whoever lives on: daemons, orphans, and what a killed launcher leaves.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jail::{Control, Controls, Limit, Limits, Request, Response, Warm};
use rustix::process::{Pid, Signal, kill_process, setsid};

use super::processes::processes_with;
use crate::Try;
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Launcher, Mode, Reply, Run, Site, Start, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, tell};
use crate::place::token;

pub(crate) const PAYLOADS: &[Payload] =
    &[("daemon", daemon), ("daemon-middle", daemon_middle), ("beat", beat)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            teeth: Teeth::Bare,
            trace: Trace::Stopped(Limit::Timeout),
            ..Case::new(
                "daemon",
                "a daemon in a session of its own does not outlive the timeout",
                &[Control::Timeout, Control::Processes],
                outlive_the_timeout,
            )
        },
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "daemon-after-the-end",
                "a daemon in a session of its own does not outlive the command that started it",
                &[Control::Processes],
                outlive_the_command,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(orphan_of_a_killed_parent)),
            trace: Trace::Walls,
            ..Case::new(
                "launcher-killed",
                "nothing lives on when the launcher is killed",
                &[],
                kill_the_launcher,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(orphan_of_a_killed_parent)),
            ..Case::new(
                "launcher-killed-at-any-moment",
                "nothing lives on whenever the launcher is killed",
                &[],
                kill_the_launcher_at_any_moment,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(orphan_of_a_killed_parent)),
            ..Case::new(
                "waiting-killed",
                "whoever waits is replaced when it is killed, and nothing of it is left",
                &[],
                kill_those_who_wait,
            )
        },
    ]
}

fn outlive_the_timeout(site: &Site<'_>) -> Try<Attempt> {
    attempt_to_outlive(site, "30000")
}

fn outlive_the_command(site: &Site<'_>) -> Try<Attempt> {
    attempt_to_outlive(site, "0")
}

/// A daemon writes to a granted directory again and again. Whether it still does is seen there.
fn attempt_to_outlive(site: &Site<'_>, stays: &'static str) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let beats = granted.join("beats");
    let stays = if matches!(site.mode, Mode::Bare) { "0" } else { stays };
    let run = Run {
        write: vec![granted],
        limits: Limits { timeout: Duration::from_millis(400), ..Limits::default() },
        ..Run::payload("daemon", [beats.as_os_str(), stays.as_ref()])
    };
    let ran = site.run(run)?;
    ran.judged(|ran| ran.seen(still_beats(&beats)?, "the daemon lives on"))
}

/// Whether somebody still writes to a file. It must have been written at all.
fn still_beats(beats: &Path) -> Try<bool> {
    let length = || fs::metadata(beats).map(|status| status.len());
    let first = length().map_err(|error| format!("the daemon never ran: {error}"))?;
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(50));
        if length()? > first {
            return Ok(true);
        }
    }
    Ok(false)
}

fn kill_the_launcher(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let (beats, noted) = (granted.join("beats"), site.place.path("noted"));
    let run = Run {
        write: vec![granted],
        launcher: Launcher { noted: Some(noted.clone()), ..Launcher::default() },
        ..Run::payload("daemon", [beats.as_os_str(), "30000".as_ref()])
    };
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| site.run(run));
        wait_patiently(|| beats.exists())?;
        kill_noted(&noted)?;
        running.join().map_err(|_| "the run panicked")?
    })?;
    // One second is promised; it is over much sooner.
    std::thread::sleep(Duration::from_millis(100));
    let lives = still_beats(&beats)?;
    let Reply::Silent(_) = ran.answer else { return Err("the launcher was not killed".into()) };
    // Nobody was left to make a report: what the same plan reports otherwise is the trace.
    let answer = site.run(Run::payload("wait", ["0"]))?.answer;
    Ok(Attempt { effect: Effect::through_if(lives, "the sandbox lives on"), answer })
}

fn kill_the_launcher_at_any_moment(site: &Site<'_>) -> Try<Attempt> {
    let mark = token();
    let granted = site.place.open_folder("granted")?;
    // Who finds a keeper killed before it was ready has another launcher, and runs to its end.
    let (delays, stays) = match site.start {
        Start::Cold => (24, "20000"),
        Start::Warm | Start::InPlace => (6, "3000"),
    };
    for delay in 0..delays {
        let noted = site.place.path(&format!("noted{delay}"));
        let run = Run {
            write: vec![granted.clone()],
            launcher: Launcher {
                noted: Some(noted.clone()),
                mark: Some(mark.clone()),
                ..Launcher::default()
            },
            ..Run::payload("wait", [stays, &mark])
        };
        std::thread::scope(|scope| -> Try<()> {
            let running = scope.spawn(|| site.run(run));
            wait_patiently(|| fs::metadata(&noted).is_ok_and(|status| status.len() > 0))?;
            std::thread::sleep(Duration::from_micros(delay * 16_800 / delays));
            kill_noted(&noted)?;
            running.join().map_err(|_| "the run panicked")??;
            Ok(())
        })?;
    }
    let gone = wait_until(|| processes_with(&mark).is_empty()).is_ok();
    let left = processes_with(&mark).join("; ");
    let answer = site.run(Run::payload("wait", ["0"]))?.answer;
    Ok(Attempt { effect: Effect::through_if(!gone, left), answer })
}

/// The keeper, its zygotes and its inits, each kind in turn: the next run is made all the same.
fn kill_those_who_wait(site: &Site<'_>) -> Try<Attempt> {
    let (mark, noted) = (token(), site.place.path("noted"));
    let launcher = Launcher { noted: Some(noted.clone()), mark: Some(mark.clone()), ..Launcher::default() };
    let warm = Warm::new(site.script(&launcher)?);
    let plan = site.plan(&Run::payload("wait", ["0"]), Controls::NONE)?;
    let request = Request { plan, sealed: Vec::new(), input: Vec::new() };
    let run = || match warm.run(&request)? {
        Response::Report(report) => Ok(report),
        Response::Refused { messages, .. } => {
            Err(Box::<dyn std::error::Error + Send + Sync>::from(messages.join(": ")))
        }
    };
    let mut report = run()?;
    // The last: whoever waited, and whoever could have replaced it.
    let all = [Kind::Zygote, Kind::Init];
    for kinds in [&[Kind::Keeper], &[Kind::Zygote], &[Kind::Init], all.as_slice()] {
        wait_patiently(|| is_waiting(&noted))?;
        for kind in kinds {
            for pid in kept(&noted, *kind)? {
                // One that has ended by itself meanwhile is none.
                let _ = kill_process(pid, Signal::KILL);
                wait_patiently(|| has_ended(pid))?;
            }
        }
        report = run().map_err(|error| format!("after each {kinds:?} was killed: {error}"))?;
    }
    drop(warm);
    let gone = wait_until(|| processes_with(&mark).is_empty()).is_ok();
    let left = processes_with(&mark).join("; ");
    Ok(Attempt { effect: Effect::through_if(!gone, left), answer: Reply::Report(report) })
}

/// Whether a process is no more, or waits to be buried with all its threads: all that it had open is closed then, and not
/// before.
fn has_ended(pid: Pid) -> bool {
    let place = format!("/proc/{}", pid.as_raw_nonzero());
    let is_dead = fs::read_to_string(format!("{place}/stat"))
        .map_or(true, |status| status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    is_dead && fs::read_dir(format!("{place}/task")).map_or(0, Iterator::count) <= 1
}

/// Who is there where sandboxes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Keeper,
    Zygote,
    Init,
}

/// Whether the keeper lives, and has zygotes and an init.
fn is_waiting(noted: &Path) -> bool {
    [Kind::Zygote, Kind::Init].iter().all(|kind| kept(noted, *kind).is_ok_and(|found| !found.is_empty()))
}

/// The keeper, or its children of one kind: an init is process 1 of a namespace of its own.
fn kept(noted: &Path, kind: Kind) -> Try<Vec<Pid>> {
    let keeper = fs::read_to_string(noted)?.trim().to_owned();
    let pid = |number: &str| -> Try<Pid> { Ok(Pid::from_raw(number.parse()?).ok_or("no process number")?) };
    if kind == Kind::Keeper {
        return Ok(vec![pid(&keeper)?]);
    }
    let is_init = |number: &str| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        numbers.split_whitespace().next_back() == Some("1")
    };
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))?;
    let wanted = children.split_whitespace().filter(|number| is_init(number) == (kind == Kind::Init));
    let found = wanted.map(pid).collect::<Try<Vec<Pid>>>()?;
    Ok(found.into_iter().filter(|pid| !has_ended(*pid)).collect())
}

/// The control: on the bare host a child outlives its killed parent.
fn orphan_of_a_killed_parent(site: &Site<'_>) -> Try<Effect> {
    let beats = site.place.path("beats");
    let arguments = [ATTACK_ARGUMENT.as_ref(), "daemon".as_ref(), beats.as_os_str(), "30000".as_ref()]
        .map(OsString::from);
    let mut parent = command_of(&site.bench.tool, &arguments).stdout(Stdio::null()).spawn()?;
    let seen = wait_patiently(|| beats.exists());
    parent.kill()?;
    parent.wait()?;
    seen?;
    Ok(Effect::through_if(still_beats(&beats)?, "the child lives on"))
}

/// Kills the launcher. Where sandboxes wait, that is their keeper.
fn kill_noted(noted: &Path) -> Try<()> {
    kept(noted, Kind::Keeper)?.into_iter().try_for_each(|pid| Ok(kill_process(pid, Signal::KILL)?))
}

/// Waits up to a second, which is what is promised.
fn wait_until(condition: impl Fn() -> bool) -> Try<()> {
    wait_at_most(Duration::from_secs(1), condition)
}

/// The same for what has to happen, and not by a certain time: long enough for a host with much else to do.
pub(crate) fn wait_patiently(condition: impl Fn() -> bool) -> Try<()> {
    wait_at_most(Duration::from_secs(20), condition)
}

pub(crate) fn wait_at_most(most: Duration, condition: impl Fn() -> bool) -> Try<()> {
    let begun = Instant::now();
    while begun.elapsed() < most {
        if condition() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if condition() { Ok(()) } else { Err(format!("it took longer than {most:?}").into()) }
}

/// Leaves a daemon that writes to a file, and stays for so many milliseconds.
fn daemon(arguments: &[String]) {
    let started = start_self("daemon-middle", argument(arguments, 0)).and_then(|mut middle| middle.wait());
    tell("leave a daemon", started);
    // The daemon has begun when its file is there.
    let _ = wait_patiently(|| Path::new(argument(arguments, 0)).exists());
    let stays = argument(arguments, 1).parse().unwrap_or(0);
    std::thread::sleep(Duration::from_millis(stays));
}

/// The middle of a double fork: a session of its own, and gone.
fn daemon_middle(arguments: &[String]) {
    let _ = setsid();
    let _ = start_self("beat", argument(arguments, 0));
}

/// Writes to a file every few milliseconds, for two seconds at most.
fn beat(arguments: &[String]) {
    let _ = setsid();
    let begun = Instant::now();
    let file = fs::OpenOptions::new().create(true).append(true).open(argument(arguments, 0));
    let Ok(mut file) = file else { return };
    while begun.elapsed() < Duration::from_secs(2) {
        let _ = file.write_all(b"x");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start_self(payload: &str, path: &str) -> std::io::Result<Child> {
    let arguments = [ATTACK_ARGUMENT, payload, path].map(OsString::from);
    command_of(&std::env::current_exe()?, &arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
