//! What changes on the host while a sandbox waits for its plan.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jail::{
    Access, ChangeReport, Content, Control, Directory, Draft, Helper, Limits, Names, Network, Plan, Program,
    Request, Response, Strictness, Warm,
};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Mode, Reply, Run, Site, command_of};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, say};
use crate::raw::unshare;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("waited-mounts", host),
    (ANYWHERE, |arguments| gate(arguments, 1)),
    // A place is known from the first run there, and waited in from the second one on.
    (IN_PLACE, |arguments| gate(arguments, 2)),
    ("waited-mounts-stale", stale),
];

const NOBODY: u32 = 65_534;
const SECRET: &str = "VAULT=opened";
/// A gate whose sandbox waits for any plan, or where the next one is run.
const ANYWHERE: &str = "waited-mounts-gate";
/// See [`ANYWHERE`].
const IN_PLACE: &str = "waited-mounts-gate-in-place";
/// What becomes of the mount that a sandbox has seen.
const TAKEN_OFF: &str = "taken-off";
/// See [`TAKEN_OFF`].
const REPLACED: &str = "replaced";

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, promise, change: &'static str| Case {
        needs: vec![Need::Root],
        teeth: Teeth::Shown(Box::new(move |site| attempt(site, "waited-mounts-stale", change))),
        ..Case::new(name, promise, &[Control::HiddenNames], move |site| {
            for gate in [ANYWHERE, IN_PLACE] {
                if let Effect::Through(what) = attempt(site, gate, change)? {
                    let answer = Reply::Silent(what.clone());
                    return Ok(Attempt { effect: Effect::Through(what), answer });
                }
            }
            // The gate was an ordinary user's; what the same plan reports here is the trace.
            let answer = site.bench.site(Mode::behind_all())?.run(Run::payload("wait", ["0"]))?.answer;
            Ok(Attempt { effect: Effect::Held("it was not seen".to_owned()), answer })
        })
    };
    vec![
        case(
            "waited-mounts",
            "what was taken off the host while a user's sandbox waited is not in it",
            TAKEN_OFF,
        ),
        case(
            "waited-mounts-replaced",
            "what was replaced by another mount of the same looks while a user's sandbox waited is not in it",
            REPLACED,
        ),
    ]
}

fn attempt(site: &Site<'_>, inner: &str, change: &str) -> Try<Effect> {
    let folder = site.place.open_folder(&format!("granted-{inner}"))?;
    fs::create_dir(folder.join("vault"))?;
    let payload: OsString = "waited-mounts".into();
    let arguments = [ATTACK_ARGUMENT.into(), payload, folder.into_os_string(), inner.into(), change.into()];
    let output = command_of(&site.bench.tool, &arguments).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !said.contains("@asked") {
        return Err(format!("it was not tried: {said} {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(Effect::through_if(said.contains(SECRET), said))
}

/// A host with private mounts: one with a secret is taken off after somebody has looked at them all.
fn host(arguments: &[String]) {
    let vault = Path::new(argument(arguments, 0)).join("vault");
    let make = || -> Try<()> {
        unshare(libc::CLONE_NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount("tmpfs", &vault, "tmpfs", MountFlags::empty(), None)?;
        fs::write(vault.join(".env"), SECRET)?;
        let listed = fs::read_to_string("/proc/self/mountinfo")?;
        let inner = [ATTACK_ARGUMENT, argument(arguments, 1), argument(arguments, 0)].map(OsString::from);
        let mut child = command_of(&std::env::current_exe()?, &inner)
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        output.read_line(&mut String::new())?;
        unmount(&vault, UnmountFlags::empty())?;
        if argument(arguments, 2) == REPLACED {
            // Until it is listed as the first one was: numbers of mounts and devices that are free are given again.
            for _ in 0..64 {
                mount("tmpfs", &vault, "tmpfs", MountFlags::empty(), None)?;
                if fs::read_to_string("/proc/self/mountinfo")? == listed {
                    break;
                }
                unmount(&vault, UnmountFlags::empty())?;
            }
        }
        child.stdin.take().ok_or("no input")?.write_all(b"go\n")?;
        let mut said = String::new();
        output.read_to_string(&mut said)?;
        child.wait()?;
        say(&said);
        Ok(())
    };
    if let Err(error) = make() {
        say(&format!("failed: {error}"));
    }
}

/// An ordinary user's gate, with a sandbox that waits.
fn gate(arguments: &[String], times: usize) {
    let folder = Path::new(argument(arguments, 0));
    let work = || -> Try<String> {
        let warm = Warm::new(Helper { binary: std::env::current_exe()? });
        let run = |program: &str, word: Vec<OsString>| -> Try<String> {
            let plan = plan(program, word, folder)?;
            match warm.run(&Request { plan, sealed: Vec::new(), input: Vec::new() })? {
                Response::Report(report) => Ok(report.stdout.text()),
                Response::Refused { messages, .. } => Err(messages.join(": ").into()),
            }
        };
        for _ in 0..times {
            run("true", Vec::new())?;
        }
        wait_for_the_word();
        run("cat", vec![folder.join("vault/.env").into_os_string()])
    };
    match work() {
        Ok(seen) => say(&format!("@asked {seen}")),
        Err(error) => say(&format!("failed: {error}")),
    }
}

/// The control: mounts that somebody has copied show what was taken off since.
fn stale(arguments: &[String]) {
    let secret = Path::new(argument(arguments, 0)).join("vault/.env");
    let copied = unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
    wait_for_the_word();
    say(&format!("@asked {copied:?} {}", fs::read_to_string(secret).unwrap_or_default()));
}

/// Long enough for a sandbox to be built: nothing tells when one waits.
fn wait_for_the_word() {
    std::thread::sleep(Duration::from_secs(1));
    say("ready");
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn plan(program: &str, arguments: Vec<OsString>, folder: &Path) -> Try<Plan> {
    let directory = Directory { path: folder.to_owned(), access: Access::Read, content: Content::Workspace };
    Ok(Plan::try_from(Draft {
        program: Program::Inside(program.into()),
        arguments,
        working_directory: "/".into(),
        directories: vec![directory],
        environment: vec![("PATH".into(), jail::DEFAULT_PATH.into())],
        names: Names::default(),
        network: Network::Closed,
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    })?)
}
