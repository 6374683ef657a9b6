//! What the launcher itself has: open files, handles, variables.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use jail::{
    Caller, ChangeReport, Control, Limits, Names, PlanError, Program, Strictness, is_denied_variable,
};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandbox::{Host, PlanRequest, Profile};

use super::processes::Victim;
use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Launcher, Mode, Reply, Run, Site};
use crate::payload::{ATTACK_ARGUMENT, Payload, argument, held, say, tell, through};
use crate::place::token;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("read-descriptor", read_descriptor),
    ("read-beneath-descriptor", read_beneath_descriptor),
    ("signal-descriptor", signal_descriptor),
    ("environment", environment),
    ("command-lines", command_lines),
];

pub(crate) fn cases(caller: Caller) -> Vec<Case> {
    let mut handle_walls = vec![Control::Descriptors, Control::Processes, Control::LandlockScopes];
    if caller == Caller::Root {
        handle_walls.push(Control::Identity);
    }
    let unwritable = |name: &'static str| Case {
        teeth: Teeth::Shown(Box::new(|_| Ok(compared_with_case("Api_Key")))),
        trace: Trace::Refused("is not allowed in a sandbox"),
        ..Case::new(
            "environment-case",
            format!("a plan with the variable {name} is refused"),
            &[],
            move |site| ask_for_variable(site, name),
        )
    };
    vec![
        Case::new(
            "leaked-file",
            "a file that the launcher has open is not open inside",
            &[Control::Descriptors],
            leak_a_file,
        ),
        Case {
            needs: vec![Need::Landlock(1)],
            ..Case::new(
                "leaked-directory",
                "a directory that the launcher has open is no way out",
                &[Control::Descriptors, Control::LandlockFiles],
                leak_a_directory,
            )
        },
        Case {
            needs: vec![Need::Landlock(6)],
            ..Case::new(
                "leaked-pidfd",
                "a process that the launcher has a handle of cannot be signalled by it",
                &handle_walls,
                leak_a_process,
            )
        },
        Case::new(
            "launcher-environment",
            "the variables of the launcher reach nobody inside and no environ shows them",
            &[Control::Environment],
            read_environment,
        ),
        Case::new(
            "launcher-arguments",
            "the command line of the launcher is shown to nobody inside",
            &[Control::Environment],
            read_command_lines,
        ),
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "secret-locale",
                "a variable that begins like a locale and is named like a secret is not passed on",
                &[],
                pass_a_secret_locale,
            )
        },
        unwritable("Api_Key"),
        unwritable("ld_preload"),
        unwritable("Bash_Env"),
        unwritable("githubToken"),
    ]
}

/// A descriptor of this process that is not closed when another program is started, until it is dropped.
struct Leaked(OwnedFd);

impl Leaked {
    fn new(descriptor: impl AsFd) -> Try<Leaked> {
        // A high number: nothing else that is started meanwhile expects one there.
        let leaked = rustix::io::fcntl_dupfd_cloexec(descriptor, 200)?;
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty())?;
        Ok(Leaked(leaked))
    }

    fn identity(&self) -> Try<String> {
        let status = rustix::fs::fstat(&self.0)?;
        Ok(format!("{}:{}", status.st_dev, status.st_ino))
    }
}

fn leak_a_file(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let file = fs::File::open(site.place.file("outside/secret", &secret)?)?;
    let leaked = Leaked::new(&file)?;
    let ran = site.run(Run::payload("read-descriptor", [leaked.identity()?]))?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn leak_a_directory(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    site.place.file("outside/secret", &secret)?;
    let folder = fs::File::open(site.place.path("outside"))?;
    let leaked = Leaked::new(&folder)?;
    let ran = site.run(Run::payload("read-beneath-descriptor", [leaked.identity()?, "secret".to_owned()]))?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn leak_a_process(site: &Site<'_>) -> Try<Attempt> {
    let mut victim = Victim::new(site.bench, "victim")?;
    let pid = victim.pid().parse().ok().and_then(Pid::from_raw).ok_or("no process number")?;
    let leaked = Leaked::new(pidfd_open(pid, PidfdFlags::empty())?)?;
    let ran = site.run(Run::payload("signal-descriptor", [leaked.identity()?]))?;
    ran.judged(|ran| ran.seen(victim.was_killed()?, "a process of the host was killed"))
}

fn read_environment(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let environment = vec![("GATE_SETTING".to_owned(), secret.clone())];
    let launcher = Launcher { environment, ..Launcher::default() };
    let ran = site.run(Run { launcher, ..Run::payload("environment", [""; 0]) })?;
    ran.judged(|ran| ran.revealed(&secret))
}

fn read_command_lines(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let launcher = Launcher { mark: Some(secret.clone()), ..Launcher::default() };
    let ran = site.run(Run { launcher, ..Run::payload("command-lines", ["a word of its own"]) })?;
    if !ran.stdout.contains("a word of its own") {
        return Err("the tool's own command line is gone".into());
    }
    ran.judged(|ran| ran.revealed(&secret))
}

/// Locales are passed by the beginning of their names, which anybody can give to something else.
fn pass_a_secret_locale(site: &Site<'_>) -> Try<Attempt> {
    let (secret, harmless) = (token(), token());
    if matches!(site.mode, Mode::Bare) {
        let environment = vec![("LC_API_TOKEN".to_owned(), secret.clone())];
        let launcher = Launcher { environment, ..Launcher::default() };
        let ran = site.run(Run { launcher, ..Run::payload("environment", [""; 0]) })?;
        return ran.judged(|ran| ran.revealed(&secret));
    }
    let variables = vec![
        ("LC_ALL".into(), harmless.clone().into()),
        ("LC_API_TOKEN".into(), secret.clone().into()),
        ("lc_password".into(), secret.clone().into()),
    ];
    let request = PlanRequest {
        guarded: None,
        profile: Profile::Inspect,
        program: Program::Brought(site.bench.tool.clone()),
        arguments: vec![ATTACK_ARGUMENT.into(), "environment".into()],
        working_directory: "/".into(),
        read: Vec::new(),
        workspace: None,
        write: Vec::new(),
        variables: Vec::new(),
        names: Names::default(),
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    };
    let plan = request.into_plan(&Host { home: None, variables })?;
    let ran = site.run_plan(plan, &Launcher::default())?;
    if !ran.stdout.contains(&harmless) {
        return Err(ran.said_nothing());
    }
    ran.judged(|ran| ran.revealed(&secret))
}

/// What a list compared letter by letter would make of a name.
fn compared_with_case(name: &str) -> Effect {
    let denied = ["KEY", "TOKEN", "SECRET", "LD_PRELOAD"].iter().any(|word| name.contains(word));
    Effect::through_if(
        !denied && is_denied_variable(name.as_ref()),
        "a list with upper case only lets it through",
    )
}

pub(crate) fn ask_for_variable(site: &Site<'_>, name: &str) -> Try<Attempt> {
    let variables = vec![(name.into(), "x".into())];
    let refused = site.run(Run { environment: variables, ..Run::payload("environment", [""; 0]) });
    match refused {
        Ok(ran) => Ok(ran.attempt(Effect::Through(format!("{name} was accepted")))),
        Err(error) => match error.downcast_ref::<PlanError>() {
            Some(PlanError::DeniedVariable { .. }) => {
                let answer = Reply::Refused(error.to_string());
                Ok(Attempt { effect: Effect::Held("refused".to_owned()), answer })
            }
            _ => Err(error),
        },
    }
}

/// Descriptors of this process with this device and inode.
fn descriptors_like(identity: &str) -> Vec<OwnedFd> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let numbers =
                fs::metadata(entry.path()).map(|status| format!("{}:{}", status.dev(), status.ino()));
            numbers.is_ok_and(|numbers| numbers == identity)
        })
        .filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok())
        .filter_map(crate::raw::duplicate)
        .collect()
}

fn found(arguments: &[String]) -> Option<OwnedFd> {
    let found = descriptors_like(argument(arguments, 0)).pop();
    if found.is_none() {
        held("the descriptor is not open here");
    }
    found
}

fn read_descriptor(arguments: &[String]) {
    let Some(descriptor) = found(arguments) else { return };
    let mut bytes = [0; 256];
    match rustix::io::pread(&descriptor, &mut bytes, 0) {
        Ok(_) => {
            say(String::from_utf8_lossy(&bytes).trim_end_matches('\0'));
            through("read an open file");
        }
        Err(error) => held(error),
    }
}

fn read_beneath_descriptor(arguments: &[String]) {
    let Some(descriptor) = found(arguments) else { return };
    let opened = rustix::fs::openat(&descriptor, argument(arguments, 1), OFlags::RDONLY, FileMode::empty());
    match opened.map_err(std::io::Error::from).and_then(|file| std::io::read_to_string(fs::File::from(file)))
    {
        Ok(text) => {
            say(&text);
            through("read beneath an open directory");
        }
        Err(error) => held(format!("read beneath an open directory: {error}")),
    }
}

fn signal_descriptor(arguments: &[String]) {
    let Some(descriptor) = found(arguments) else { return };
    tell("signal by a handle", pidfd_send_signal(&descriptor, Signal::KILL));
}

/// Every command line that is shown.
fn command_lines(_: &[String]) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Ok(bytes) = fs::read(entry.path().join("cmdline")) {
            say(&String::from_utf8_lossy(&bytes).replace('\0', " "));
        }
    }
    held("looked at every command line");
}

/// Everything that could be somebody's environment.
#[expect(clippy::disallowed_methods, reason = "looks for variables that must not be there")]
fn environment(_: &[String]) {
    for (name, value) in std::env::vars_os() {
        say(&format!("{}={}", name.display(), value.display()));
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Ok(bytes) = fs::read(entry.path().join("environ")) {
            say(&String::from_utf8_lossy(&bytes).replace('\0', " "));
        }
    }
    held("looked at every environment");
}
