//! Processes of the host: seen, signalled, looked into.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use jail::{Caller, Control, Outcome};
use rustix::process::{Pid, Signal, kill_process};

use crate::Try;
use crate::bench::{Bench, Need};
use crate::case::{Attempt, Case, Teeth};
use crate::launch::{Mode, Ran, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, held, say, tell, through};
use crate::place::{reversed, token};
use crate::raw;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("see-process", see_process),
    ("signal", signal),
    ("kill-everyone", kill_everyone),
    ("disposable", disposable),
    ("disposable-init", disposable_init),
    ("peek", peek),
];

pub(crate) fn cases(caller: Caller) -> Vec<Case> {
    let mut signal_walls = vec![Control::Processes, Control::LandlockScopes];
    if caller == Caller::Root {
        // Root's sandbox is another user: that alone keeps it from signalling root's processes.
        signal_walls.push(Control::Identity);
    }
    vec![
        Case::new(
            "host-processes",
            "processes of the host cannot be seen",
            &[Control::Processes],
            see_a_host_process,
        ),
        Case {
            needs: vec![Need::Landlock(6)],
            ..Case::new(
                "host-signal",
                "a process of the host cannot be signalled",
                &signal_walls,
                signal_a_host_process,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(|site| site.run(Run::payload("disposable", [""; 0]))?.told())),
            ..Case::new(
                "kill-everyone",
                "kill minus nine minus one ends nobody outside",
                &[Control::Processes],
                kill_all,
            )
        },
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "read-the-init",
                "the memory and environment of the sandbox's first process cannot be read",
                &[Control::Processes],
                read_the_init,
            )
        },
    ]
}

/// A process of the host that ends by itself, or when dropped.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn new(bench: &Bench, mark: &str) -> Try<Victim> {
        let arguments = [ATTACK_ARGUMENT, "wait", "20000", mark].map(OsString::from);
        let mut command = command_of(&bench.tool, &arguments);
        Ok(Victim(command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Whether a signal ended it. One that was only just sent gets a moment.
    pub(crate) fn was_killed(&mut self) -> Try<bool> {
        for _ in 0..20 {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.signal().is_some());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn see_a_host_process(site: &Site<'_>) -> Try<Attempt> {
    let mark = token();
    let _victim = Victim::new(site.bench, &mark)?;
    let ran = site.run(Run::payload("see-process", [reversed(&mark)]))?;
    ran.judged(|ran| ran.revealed(&mark))
}

fn signal_a_host_process(site: &Site<'_>) -> Try<Attempt> {
    let mut victim = Victim::new(site.bench, "victim")?;
    let ran = site.run(Run::payload("signal", [victim.pid()]))?;
    ran.judged(|ran| ran.seen(victim.was_killed()?, "a process of the host was killed"))
}

fn kill_all(site: &Site<'_>) -> Try<Attempt> {
    let mut victim = Victim::new(site.bench, "victim")?;
    let ran = site.run(Run::payload("kill-everyone", [""; 0]))?;
    // The launcher and the init lived on: there is a report, and the tool ended as it wanted to.
    let unharmed = ran.report()?.outcome == Outcome::Exit(0);
    ran.judged(|ran| ran.seen(victim.was_killed()? || !unharmed, "somebody outside was killed"))
}

fn read_the_init(site: &Site<'_>) -> Try<Attempt> {
    let victim = Victim::new(site.bench, "victim")?;
    let pid = match site.mode {
        Mode::Bare => victim.pid(),
        Mode::Behind(_) => "1".to_owned(),
    };
    let ran = site.run(Run::payload("peek", [pid]))?;
    ran.judged(Ran::told)
}

/// Processes of the host whose arguments hold this text.
pub(crate) fn processes_with(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|text| text.contains(mark))
        .collect()
}

/// Looks for a process by a word in its arguments, handed over backwards.
fn see_process(arguments: &[String]) {
    let mark = reversed(argument(arguments, 0));
    match processes_with(&mark).first() {
        Some(found) => {
            say(found);
            through("sees a process of the host");
        }
        None => held("sees no process of the host"),
    }
}

fn signal(arguments: &[String]) {
    let pid = argument(arguments, 0).parse().ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return };
    tell("signal a process of the host", kill_process(pid, Signal::KILL));
}

fn kill_everyone(_: &[String]) {
    tell("signal everyone", raw::kill_everyone());
}

/// Two processes in a pid namespace of their own, one of which signals everyone: what it would do to a host.
fn disposable(_: &[String]) {
    let entered = raw::enter_user_namespace().and_then(|()| raw::unshare(libc::CLONE_NEWPID));
    let own = std::env::current_exe();
    match (entered, own) {
        // The first child is process 1 of the new namespace, and takes everyone with it when it ends.
        (Ok(()), Ok(own)) => {
            let arguments = [ATTACK_ARGUMENT, "disposable-init"].map(OsString::from);
            let _ = command_of(&own, &arguments).status();
        }
        (Err(error), _) | (_, Err(error)) => held(format!("no disposable namespace: {error}")),
    }
}

fn disposable_init(_: &[String]) {
    let Ok(own) = std::env::current_exe() else { return };
    let start = |payload: &str| {
        command_of(&own, &[ATTACK_ARGUMENT, payload, "5000"].map(OsString::from))
            .stdout(Stdio::null())
            .spawn()
    };
    let (Ok(mut victim), Ok(mut killer)) = (start("wait"), start("kill-everyone")) else { return };
    let _ = killer.wait();
    match victim.wait() {
        Ok(status) if status.signal().is_some() => through("everyone in the namespace was killed"),
        other => held(format!("{other:?}")),
    }
}

/// Looks into another process.
fn peek(arguments: &[String]) {
    let pid = argument(arguments, 0);
    for name in ["environ", "mem", "maps", "fd", "root/etc", "cwd/etc", "map_files"] {
        let path = format!("/proc/{pid}/{name}");
        let opened = match fs::metadata(&path) {
            Ok(status) if status.is_dir() => fs::read_dir(&path).map(|_| ()),
            // Reading nothing from memory is no success; opening it is.
            _ => fs::File::open(&path).map(|_| ()),
        };
        tell(&format!("look into {path}"), opened);
    }
}
