//! Programs from nowhere: executed from memory, loaded with something else, several at once.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use jail::{Control, Outcome};
use rustix::fs::MemfdFlags;

use super::leaks::ask_for_variable;
use super::network::Canary;
use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Mode, Reply, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, held, tell};

pub(crate) const PAYLOADS: &[Payload] = &[("from-memory", from_memory), ("strike", strike)];

/// How many runs there are at once, and in all, in one workspace.
const AT_ONCE: usize = 8;
const IN_ALL: usize = 48;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "memfd-exec",
                "a program executed from memory has the same walls",
                &[Control::Filesystem, Control::Network],
                execute_from_memory,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(loader_obeys)),
            trace: Trace::Refused("is not allowed in a sandbox"),
            needs: vec![Need::Program("true")],
            ..Case::new("ld-preload", "a plan that preloads something is refused", &[], |site| {
                ask_for_variable(site, "LD_PRELOAD")
            })
        },
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "several-at-once",
                "several runs at once in one workspace do not disturb each other",
                &[Control::Filesystem],
                run_several,
            )
        },
    ]
}

fn execute_from_memory(site: &Site<'_>) -> Try<Attempt> {
    let canary = Canary::new("127.0.0.1:0")?;
    let shown = site.place.open_folder("shown")?;
    let arguments = [shown.as_os_str().to_owned(), canary.address()?.into()];
    let ran = site.run(Run { read: vec![shown.clone()], ..Run::payload("from-memory", arguments) })?;
    let through = shown.join("pwned").exists() || canary.was_reached();
    ran.judged(|ran| ran.seen(through, "a program from memory got through"))
}

/// The control: on the bare host the loader does what the variable says.
fn loader_obeys(_: &Site<'_>) -> Try<Effect> {
    let output =
        command_of(Path::new("/bin/true"), &[]).env_clear().env("LD_PRELOAD", "/nonexistent.so").output()?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(Effect::through_if(complaint.contains("/nonexistent.so"), complaint))
}

/// On the bare host the same processes at once would overwrite each other's scratch file; here each has its own.
fn run_several(site: &Site<'_>) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    if matches!(site.mode, Mode::Bare) {
        let ran = site.run(Run::payload("wait", ["0"]))?;
        return Ok(ran.attempt(Effect::Through("one scratch space for all".to_owned())));
    }
    let one = |number: usize| -> Try<Reply> {
        let made = work.join(format!("made{number}"));
        let ran = site.run(Run { write: vec![work.clone()], ..Run::payload("make", [&made]) })?;
        match ran.report()?.outcome {
            Outcome::Exit(0) if made.exists() => Ok(ran.answer),
            _ => Err(ran.said_nothing()),
        }
    };
    let results: Vec<Try<Reply>> = std::thread::scope(|scope| {
        let worker = |first: usize| (first..IN_ALL).step_by(AT_ONCE).map(one).collect::<Vec<_>>();
        let workers: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || worker(first))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    });
    let count = results.len();
    let mut answers = results.into_iter().collect::<Try<Vec<Reply>>>()?;
    let answer = answers.pop().filter(|_| count == IN_ALL).ok_or("a worker panicked")?;
    Ok(Attempt { effect: Effect::Held(format!("{count} runs, none failed")), answer })
}

/// Copies this program into a file that has no name, and becomes that.
fn from_memory(arguments: &[String]) {
    let attempt = || -> std::io::Result<std::io::Error> {
        let mut program = Vec::new();
        fs::File::open("/proc/self/exe")?.read_to_end(&mut program)?;
        // Not closed on execution: the program is found by its number.
        let memory = rustix::fs::memfd_create("nothing", MemfdFlags::empty())?;
        rustix::io::write(&memory, &[])?;
        std::io::Write::write_all(&mut fs::File::from(memory.try_clone()?), &program)?;
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let own = [ATTACK_ARGUMENT, "strike"].map(OsString::from);
        let rest = arguments.iter().map(OsString::from);
        let all: Vec<OsString> = own.into_iter().chain(rest).collect();
        Ok(command_of(Path::new(&path), &all).stdin(Stdio::null()).exec())
    };
    match attempt() {
        Ok(error) | Err(error) => held(format!("execute from memory: {error}")),
    }
}

/// Tries to write where it may only read, and to reach the host.
fn strike(arguments: &[String]) {
    let own = fs::read_link("/proc/self/exe").unwrap_or_default();
    let file = Path::new(argument(arguments, 0)).join("pwned");
    tell(&format!("{} write", own.display()), fs::write(file, "pwned"));
    let address = argument(arguments, 1).parse().unwrap_or_else(|_| ([127, 0, 0, 1], 9).into());
    let wait = std::time::Duration::from_millis(500);
    tell("connect", std::net::TcpStream::connect_timeout(&address, wait));
}
