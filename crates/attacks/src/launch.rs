//! Makes one run: behind the walls of a plan, behind all but some of them, or on the bare host.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jail::{
    Access, ChangeReport, Content, Control, Controls, Directory, Draft, Helper, Limits, Names, Network, Plan,
    Program, Report, Request, Response, Strictness, Warm,
};

use crate::Try;
use crate::bench::{Bench, find_program};
use crate::case::{Attempt, Effect, set_of};
use crate::payload::{ATTACK_ARGUMENT, HELD, THROUGH};
use crate::place::Place;
use crate::stage::{STAGE_ARGUMENT, Stage};
use crate::threats::{wait_at_most, wait_patiently};

/// What stands between the attack and the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// The whole plan, without these walls.
    Behind(Controls),
    /// Nothing: a plain process.
    Bare,
}

/// Where the sandbox comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It is made for the run.
    Cold,
    /// It has waited for one.
    Warm,
    /// It has waited where the run is made, with every wall around it. Only a run that needs nothing of the host but its program.
    InPlace,
}

impl Mode {
    /// The whole plan.
    pub(crate) fn behind_all() -> Mode {
        Mode::Behind(Controls::NONE)
    }

    /// The plan without these.
    pub(crate) fn without(walls: &[Control]) -> Mode {
        Mode::Behind(set_of(walls))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Behind(without) if without.is_empty() => f.write_str("behind every wall"),
            Mode::Behind(without) => write!(f, "without {without}"),
            Mode::Bare => f.write_str("on the bare host"),
        }
    }
}

/// One attempt's place, and what stands around the attack.
pub(crate) struct Site<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) mode: Mode,
    pub(crate) start: Start,
    pub(crate) place: Place,
    /// Whether a run was made here for which a sandbox could wait where it is made.
    pub(crate) can_be_in_place: AtomicBool,
}

/// One run to be made.
pub(crate) struct Run {
    pub(crate) what: What,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) working_directory: PathBuf,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) network: Network,
    pub(crate) changes: ChangeReport,
    pub(crate) limits: Limits,
    pub(crate) launcher: Launcher,
}

/// What is run.
pub(crate) enum What {
    /// A function of this suite, by its name.
    Payload(&'static str),
    /// A program of the host.
    Command(String),
}

/// What the launcher of a sandbox is like.
#[derive(Default)]
pub(crate) struct Launcher {
    /// Variables it has.
    pub(crate) environment: Vec<(String, String)>,
    /// What happens to it before it launches anything.
    pub(crate) stages: Vec<Stage>,
    /// A file it writes its process number to.
    pub(crate) noted: Option<PathBuf>,
    /// An argument it can be found by.
    pub(crate) mark: Option<String>,
}

impl Run {
    /// A function of this suite, with nothing granted.
    pub(crate) fn payload(
        name: &'static str,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Run {
        Run {
            what: What::Payload(name),
            arguments: arguments.into_iter().map(Into::into).collect(),
            working_directory: PathBuf::from("/"),
            read: Vec::new(),
            write: Vec::new(),
            environment: Vec::new(),
            network: Network::Closed,
            changes: ChangeReport::Skip,
            limits: Limits { timeout: Duration::from_secs(20), ..Limits::default() },
            launcher: Launcher::default(),
        }
    }

    /// A program of the host, with nothing granted.
    pub(crate) fn command(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Run {
        let path = (OsString::from("PATH"), OsString::from(jail::DEFAULT_PATH));
        Run { what: What::Command(program.into()), environment: vec![path], ..Run::payload("", arguments) }
    }
}

/// What came back.
pub(crate) enum Reply {
    Report(Box<Report>),
    /// Nothing was executed; the error and its causes.
    Refused(String),
    /// The launcher said nothing.
    Silent(String),
    /// There was no launcher; the code it ended with.
    Bare(Option<i32>),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Report(report) => write!(f, "{:?}", report.outcome),
            Reply::Refused(why) => write!(f, "refused: {why}"),
            Reply::Silent(why) => write!(f, "no answer: {why}"),
            Reply::Bare(code) => write!(f, "exit {code:?}"),
        }
    }
}

/// A run that was made.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) answer: Reply,
}

impl Site<'_> {
    /// Makes a run and waits for its end.
    pub(crate) fn run(&self, run: Run) -> Try<Ran> {
        match self.mode {
            Mode::Behind(without) => self.run_plan(self.plan(&run, without)?, &run.launcher),
            Mode::Bare => self.run_bare(&run),
        }
    }

    /// The plan of a run, without these walls.
    pub(crate) fn plan(&self, run: &Run, without: Controls) -> Try<Plan> {
        Ok(weakened(Plan::try_from(self.draft(run, without))?, without))
    }

    /// Runs a plan as it is.
    pub(crate) fn run_plan(&self, plan: Plan, launcher: &Launcher) -> Try<Ran> {
        self.run_sealed(plan, Vec::new(), launcher)
    }

    /// The same for one that seals files.
    pub(crate) fn run_sealed(&self, plan: Plan, sealed: Vec<u8>, launcher: &Launcher) -> Try<Ran> {
        let request = Request { plan, sealed, input: Vec::new() };
        let answer = match (self.start, self.helper(launcher)?) {
            (Start::Cold, helper) => helper.unwrap_or_else(|| self.bench.helper.clone()).run(&request),
            (Start::InPlace, None) if stands_at(&request.plan, &self.bench.tool) => {
                self.in_place(&request)?.run(&request)
            }
            (Start::Warm | Start::InPlace, None) => self.bench.warm.run(&request),
            // With a zygote that was started the same way.
            (Start::Warm | Start::InPlace, Some(helper)) => Warm::new(helper).run(&request),
        };
        Ok(match answer {
            Ok(Response::Report(report)) => Ran {
                stdout: report.stdout.text(),
                stderr: report.stderr.text(),
                answer: Reply::Report(report),
            },
            Ok(Response::Refused { messages, .. }) => {
                Ran::without_output(Reply::Refused(messages.join(": ")))
            }
            Err(error) => Ran::without_output(Reply::Silent(error.to_string())),
        })
    }

    /// Whose sandbox waits where this is run. Nobody else takes it.
    pub(crate) fn in_place(&self, request: &Request) -> Try<Warm> {
        let warm = Warm::new(self.bench.helper.clone());
        wait_in_place(&warm, request)?;
        Ok(warm)
    }

    fn draft(&self, run: &Run, without: Controls) -> Draft {
        let granted = |paths: &[PathBuf], access| -> Vec<Directory> {
            let directory = |path: &PathBuf| Directory { path: path.clone(), access, content: Content::Work };
            paths.iter().map(directory).collect()
        };
        let mut directories = granted(&run.read, Access::Read);
        directories.extend(granted(&run.write, Access::Write));
        let tools = self.bench.tool.parent().unwrap_or(Path::new("/"));
        let needs_only_its_program = matches!(run.what, What::Payload(_))
            && directories.is_empty()
            && !matches!(run.network, Network::Guarded(_));
        self.can_be_in_place.fetch_or(needs_only_its_program, Ordering::Relaxed);
        let (program, arguments) = match &run.what {
            What::Payload(name) if self.start == Start::InPlace && needs_only_its_program => {
                let (path, access) = (tools.to_owned(), Access::Read);
                directories.push(Directory { path, access, content: Content::Software });
                (Program::Inside(self.bench.tool.clone().into()), payload_arguments(name, run))
            }
            // What is brought in stands in the new root; without one, the tool is where it was.
            What::Payload(name) if without.contains(Control::Filesystem) => {
                (Program::Inside(self.bench.tool.clone().into()), payload_arguments(name, run))
            }
            What::Payload(name) => (Program::Brought(self.bench.tool.clone()), payload_arguments(name, run)),
            What::Command(program) => (Program::Inside(program.into()), run.arguments.clone()),
        };
        Draft {
            program,
            arguments,
            working_directory: run.working_directory.clone(),
            directories,
            environment: run.environment.clone(),
            names: Names::default(),
            network: run.network.clone(),
            limits: run.limits,
            changes: run.changes,
            strictness: Strictness::Report,
        }
    }

    /// A script that prepares the binary that launches, if it is not launched as it is.
    fn helper(&self, launcher: &Launcher) -> Try<Option<Helper>> {
        let Launcher { environment, stages, noted, mark } = launcher;
        if environment.is_empty() && stages.is_empty() && noted.is_none() && mark.is_none() {
            return Ok(None);
        }
        let mut script = String::from("#!/bin/sh\n");
        if let Some(file) = noted {
            script.push_str(&format!("echo $$ > '{}'\n", file.display()));
        }
        for (name, value) in environment {
            script.push_str(&format!("export {name}='{value}'\n"));
        }
        let stages: Vec<String> =
            stages.iter().map(|stage| format!("{STAGE_ARGUMENT} '{}'", stage.encode())).collect();
        let mark = mark.as_deref().unwrap_or_default();
        script.push_str(&format!(
            "exec '{}' {} \"$@\" {mark}\n",
            self.bench.tool.display(),
            stages.join(" ")
        ));
        Ok(Some(Helper { binary: self.place.program("launcher", &script)? }))
    }

    /// The same, which there must be.
    pub(crate) fn script(&self, launcher: &Launcher) -> Try<Helper> {
        self.helper(launcher)?.ok_or_else(|| "a launcher as it is has no script".into())
    }

    fn run_bare(&self, run: &Run) -> Try<Ran> {
        let mut command = match &run.what {
            What::Payload(name) => command_of(&self.bench.tool, &payload_arguments(name, run)),
            What::Command(program) => {
                let found = find_program(program).unwrap_or_else(|| PathBuf::from(program));
                command_of(&found, &run.arguments)
            }
        };
        let environment = run.environment.iter().map(|(name, value)| (name, value));
        let outside = run.launcher.environment.iter().map(|(name, value)| (name, value));
        let output = command
            .env_clear()
            .envs(environment)
            .envs(outside)
            .current_dir(&run.working_directory)
            .stdin(Stdio::null())
            .output()?;
        Ok(Ran::bare(&output))
    }
}

impl Ran {
    fn without_output(answer: Reply) -> Ran {
        Ran { stdout: String::new(), stderr: String::new(), answer }
    }

    pub(crate) fn bare(output: &Output) -> Ran {
        Ran {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            answer: Reply::Bare(output.status.code()),
        }
    }

    /// What the payload itself says. One that says nothing did not make its attack.
    pub(crate) fn told(&self) -> Try<Effect> {
        let line_of = |mark: &str| self.stdout.lines().find_map(|line| line.strip_prefix(mark));
        match (line_of(THROUGH), line_of(HELD)) {
            (Some(what), _) => Ok(Effect::Through(what.to_owned())),
            (None, Some(why)) => Ok(Effect::Held(why.to_owned())),
            (None, None) => Err(self.said_nothing()),
        }
    }

    /// Through if the output holds the secret, whatever the payload says of itself.
    pub(crate) fn revealed(&self, secret: &str) -> Try<Effect> {
        let told = self.told()?;
        if self.stdout.contains(secret) {
            return Ok(Effect::Through("read the secret".to_owned()));
        }
        match told {
            Effect::Held(why) | Effect::Through(why) => Ok(Effect::Held(why)),
        }
    }

    /// What was seen at the target, once it is known that the attack was made.
    pub(crate) fn seen(&self, through: bool, what: &str) -> Try<Effect> {
        match self.told()? {
            _ if through => Ok(Effect::Through(what.to_owned())),
            Effect::Held(why) | Effect::Through(why) => Ok(Effect::Held(why)),
        }
    }

    /// The report, where there must be one.
    pub(crate) fn report(&self) -> Try<&Report> {
        match &self.answer {
            Reply::Report(report) => Ok(report),
            other => Err(format!("a report was expected, not: {other}").into()),
        }
    }

    /// This run as an attempt, judged by what it shows.
    pub(crate) fn judged(self, judge: impl FnOnce(&Ran) -> Try<Effect>) -> Try<Attempt> {
        let effect = judge(&self)?;
        Ok(self.attempt(effect))
    }

    /// This run as an attempt with this effect.
    pub(crate) fn attempt(self, effect: Effect) -> Attempt {
        Attempt { effect, answer: self.answer }
    }

    pub(crate) fn said_nothing(&self) -> Box<dyn std::error::Error + Send + Sync> {
        let stderr: String = self.stderr.chars().take(400).collect();
        format!("the payload did not answer: {} {stderr}", self.answer).into()
    }
}

/// Whether it needs nothing of the host but its program, and finds that where it is.
fn stands_at(plan: &Plan, tool: &Path) -> bool {
    matches!(&plan.draft().program, Program::Inside(program) if program == tool) && plan.sealed().is_empty()
}

/// The plan without these walls.
fn weakened(plan: Plan, without: Controls) -> Plan {
    let left_out = Control::ALL.into_iter().filter(|control| without.contains(*control));
    left_out.fold(plan, Plan::dangerously_without)
}

fn payload_arguments(name: &str, run: &Run) -> Vec<OsString> {
    let own = [OsString::from(ATTACK_ARGUMENT), OsString::from(name)];
    own.into_iter().chain(run.arguments.iter().cloned()).collect()
}

/// A plain process of the host: a control, a victim, or what a person would run.
#[expect(clippy::disallowed_methods, reason = "controls and victims are plain processes of the host")]
pub(crate) fn command_of(program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Waits until a sandbox waits where this is run. A place is known from the first run there, and waited in from the second one on;
/// and where something was mounted meanwhile, nobody waits until there is another run.
pub(crate) fn wait_in_place(warm: &Warm, request: &Request) -> Try<()> {
    let path = (OsString::from("PATH"), OsString::from(jail::DEFAULT_PATH));
    let draft = Draft {
        program: Program::Inside("true".into()),
        arguments: Vec::new(),
        environment: vec![path],
        ..request.plan.draft().clone()
    };
    let before = Request { plan: Plan::try_from(draft)?, ..request.clone() };
    let waits = || warm.waits_in_place_of(&request.plan);
    wait_patiently(|| {
        let comes_soon = || wait_at_most(Duration::from_millis(10), waits).is_ok();
        if !comes_soon() {
            drop(warm.run(&before));
        }
        waits()
    })
    .map_err(|error| format!("nobody waits in place: {error}").into())
}
