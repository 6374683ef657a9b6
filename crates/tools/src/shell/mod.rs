//! `shell`: commands as lists of words, behind walls that hold whatever the command is.

mod commands;
mod show;
mod syntax;
mod types;

use std::ffi::OsStr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{
    Actions, Canonical, Category, Contract, ContractError, CostTier, Definition, Digest, EgressClass,
    Example, Idempotency, Output, Profile, Reason, RunFacts, SafetyClass,
};
use jail::{ChangeReport, Hangup, Limit, Limits, Names, Outcome, Plan, Program, Report, Request, Strictness};
use policy::{Facets, Grant, Settings, WorkspaceAccess};
use sandbox::PlanRequest;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::facts::{facts_of_report, not_enforced};
use crate::inside::{Chunk, End, Pipeline, PipelineError, Stage, StageEnd, Trade, WORKER_ARGUMENT};
use crate::path::{Beneath, Guard, shown};
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant};
use crate::wire::write_frame;
use show::{SHOWN, cut};
use types::{ShellInput, ShellOutput, StageInput, StageOutput};

const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 600;
const MAX_STAGES: usize = 16;

/// Runs commands.
pub(crate) struct Shell {
    contract: Contract,
}

impl Shell {
    pub(crate) fn new() -> Result<Shell, ContractError> {
        Ok(Shell { contract: Contract::internal(definition())? })
    }
}

impl Tool for Shell {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let input = parse(arguments)?;
        syntax::check(&input)?;
        let commands: Vec<String> = stages_of(&input).map(|(command, _)| command.to_owned()).collect();
        for command in &commands {
            commands::check(command, input.profile, &settings.shell)?;
        }
        check_rest(&input)?;
        let action = Actions::default()
            .parse(&format!("exec:{}", input.profile))
            .map_err(|error| Reason::internal(error.to_string()))?;
        let (safety, egress, access) = match input.profile {
            Profile::Inspect => (SafetyClass::Read, EgressClass::None, WorkspaceAccess::Read),
            Profile::Build | Profile::Mutate => {
                (SafetyClass::Write, EgressClass::None, WorkspaceAccess::Write)
            }
            // What a command sends cannot be told from its words, so it counts as more than a question.
            Profile::Networked => (SafetyClass::Network, EgressClass::Write, WorkspaceAccess::Write),
        };
        let hosts = syntax::hosts(&input);
        Ok(Facets { action, safety, egress, access, profile: Some(input.profile), commands, hosts })
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            match self.prepare(&grant, arguments, at) {
                Ok(prepared) => prepared.run(at, &cancel).await,
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl Shell {
    fn prepare(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Result<Prepared, Reason> {
        check_grant(grant, &self.contract, arguments, at.now())?;
        let input = parse(arguments.value())?;
        syntax::check(&input)?;
        check_rest(&input)?;
        let authority = grant.authority();
        if authority.profile != Some(input.profile) {
            return Err(Reason::internal("the grant is for another profile"));
        }
        let profile = match input.profile {
            Profile::Inspect => sandbox::Profile::Inspect,
            Profile::Build => sandbox::Profile::Build,
            Profile::Mutate => sandbox::Profile::Mutate,
            Profile::Networked => {
                return Err(Reason::cannot_enforce("a sandbox of this version has no way to the network")
                    .with_hint("use `build` for what needs no network"));
            }
        };
        let root = grant.workspace();
        let writes = profile.may_write() && authority.access == WorkspaceAccess::Write;
        if profile.may_write() && !writes {
            return Err(Reason::internal("the grant does not permit this access to the workspace"));
        }
        let asked = Duration::from_secs(input.timeout.unwrap_or(TIMEOUT));
        let most = authority.limits.output;
        let limits = Limits {
            memory: authority.limits.memory,
            pids: authority.limits.pids,
            // Both streams, and the marks between their pieces.
            output: most.saturating_mul(3).saturating_add(1 << 20),
            timeout: asked.min(authority.limits.timeout.max(Duration::from_secs(1))),
            ..Limits::default()
        };
        let timeout = limits.timeout;
        let granted = |wanted: bool| if wanted { vec![root.to_owned()] } else { Vec::new() };
        let plan = PlanRequest {
            profile,
            program: Program::Brought(at.binary().to_owned()),
            arguments: vec![WORKER_ARGUMENT.into(), Trade::Pipeline.as_str().into()],
            working_directory: root.to_owned(),
            read: granted(!writes),
            write: granted(writes),
            variables: input.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            names: at.names().clone(),
            limits,
            changes: if writes { ChangeReport::List } else { ChangeReport::Skip },
            strictness: Strictness::Report,
        };
        let plan = plan.into_plan(at.host()).map_err(|error| not_enforced(&error.into()))?;
        let stages = stages_of(&input)
            .map(|(command, arguments)| Stage { command: command.to_owned(), arguments: arguments.to_vec() });
        let pipeline = Pipeline {
            root: root.to_owned(),
            directory: input.cwd.clone().unwrap_or_else(|| ".".to_owned()),
            stages: stages.collect(),
            most,
        };
        Ok(Prepared { plan, pipeline, timeout })
    }
}

/// The commands, in order.
fn stages_of(input: &ShellInput) -> impl Iterator<Item = (&str, &[String])> {
    let more = input.stages.iter().map(|StageInput { command, args }| (command.as_str(), args.as_slice()));
    [(input.command.as_str(), input.args.as_slice())].into_iter().chain(more)
}

fn parse(arguments: &Value) -> Result<ShellInput, Reason> {
    ShellInput::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))
}

/// Directory, time and variables.
fn check_rest(input: &ShellInput) -> Result<(), Reason> {
    if input.stages.len() >= MAX_STAGES {
        return Err(Reason::bad_arguments("a pipeline has at most 16 commands"));
    }
    if let Some(text) = &input.cwd {
        let names = Names::default();
        let directory = Beneath::parse(text)?;
        let guard = Guard { names: &names, root: Path::new("/") };
        if let Some(guarded) = guard.against_reading(&directory.path()) {
            return Err(guarded.reason(text));
        }
    }
    if input.timeout.is_some_and(|seconds| seconds == 0 || seconds > MAX_TIMEOUT) {
        return Err(Reason::bad_arguments("the timeout is between 1 and 600 seconds"));
    }
    for (name, value) in &input.env {
        check_variable(name, value)?;
    }
    Ok(())
}

fn check_variable(name: &str, value: &str) -> Result<(), Reason> {
    let shown = shown(name);
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(Reason::bad_arguments(format!(
            "`{shown}` is not the name of a variable, or its value holds a NUL"
        )));
    }
    // ATTACK(search-path): a list of command names means nothing if the caller says where they are looked up.
    if jail::is_denied_variable(OsStr::new(name)) || name.eq_ignore_ascii_case("PATH") {
        return Err(Reason::constrained(format!("the variable `{shown}` is not allowed in a sandbox"))
            .with_hint("secrets do not enter a sandbox, and nothing may change where programs and libraries are found"));
    }
    Ok(())
}

/// A command that has its plan.
struct Prepared {
    plan: Plan,
    pipeline: Pipeline,
    timeout: Duration,
}

impl Prepared {
    async fn run(self, at: &Surroundings, cancel: &CancellationToken) -> Ran {
        let mut input = Vec::new();
        let encoded = serde_json::to_vec(&self.pipeline).map_err(std::io::Error::from);
        if encoded.and_then(|bytes| write_frame(&mut input, &bytes)).is_err() {
            return Ran::failed(
                Reason::internal("the command cannot be sent to its worker"),
                RunFacts::default(),
            );
        }
        let request = Request { plan: self.plan, input };
        let ending = Arc::new(Ending::default());
        let of_run = Arc::clone(&ending);
        // Ends the sandbox when this future is dropped, too.
        let on_drop = EndOnDrop(Arc::clone(&ending));
        let running = at.launch(move |launcher| launcher.run(&request, |hangup| of_run.begun(hangup)));
        tokio::pin!(running);
        let mut cancelled = false;
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran,
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    ending.end();
                }
            }
        };
        drop(on_drop);
        let worker = at.worker_digest().await;
        match ran {
            None => Ran::failed(Reason::internal("the gate is ending"), RunFacts::default()),
            Some(Err(refusal)) => Ran::failed(not_enforced(&refusal), RunFacts::default()),
            Some(Ok(report)) => {
                let facts = facts_of_report(&report, &self.pipeline.root, worker);
                conclude(&report, &self.pipeline, self.timeout, facts)
            }
        }
    }
}

/// The end of a run, asked for by one thread and brought about by another.
#[derive(Default)]
struct Ending(Mutex<EndingState>);

#[derive(Default)]
enum EndingState {
    #[default]
    NotBegun,
    Begun(Hangup),
    Ended,
}

impl Ending {
    fn begun(&self, hangup: Hangup) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            EndingState::Ended => hangup.hang_up(),
            EndingState::NotBegun | EndingState::Begun(_) => *state = EndingState::Begun(hangup),
        }
    }

    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let EndingState::Begun(hangup) = std::mem::replace(&mut *state, EndingState::Ended) {
            hangup.hang_up();
        }
    }
}

struct EndOnDrop(Arc<Ending>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What a worker said, put together.
#[derive(Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<Result<End, PipelineError>>,
}

impl Said {
    fn of(report: &Report) -> Said {
        let mut said = Said::default();
        for chunk in Chunk::read_all(&report.stdout.bytes) {
            match chunk {
                Chunk::Stdout(bytes) => said.stdout.extend(bytes),
                Chunk::Stderr(bytes) => said.stderr.extend(bytes),
                Chunk::End(end) => {
                    said.end = Some(end);
                    break;
                }
            }
        }
        said
    }
}

fn conclude(report: &Report, pipeline: &Pipeline, timeout: Duration, mut facts: RunFacts) -> Ran {
    let said = Said::of(report);
    let whole: Vec<u8> = said.stdout.iter().chain(&said.stderr).copied().collect();
    facts.output = Some(Digest::of(&whole));
    let (end, failure) = match (&report.outcome, said.end.clone()) {
        (Outcome::Exit(0), Some(Ok(end))) if end.stages.len() == pipeline.stages.len() => (Some(end), None),
        (Outcome::Exit(0), Some(Err(error))) => (None, Some(not_run(&error, pipeline))),
        (outcome, _) => (None, Some(stopped(outcome, timeout))),
    };
    let timed_out = report.outcome == Outcome::Stopped(Limit::Timeout);
    let structured = structured(&said, end.as_ref(), pipeline, timed_out);
    facts.exit_code = structured.exit_code;
    facts.signal = structured.signal;
    let content = content_of(&structured, failure.as_ref());
    let is_error = failure.is_some() || structured.exit_code != Some(0);
    let mut artifacts = Vec::new();
    if structured.truncated {
        let streams = [("stdout", said.stdout), ("stderr", said.stderr)];
        artifacts
            .extend(streams.into_iter().filter(|(_, b)| !b.is_empty()).map(|(name, b)| (name.to_owned(), b)));
    }
    let structured = serde_json::to_value(structured).unwrap_or_default();
    Ran { output: Output { content, is_error, structured, artifacts }, facts, failure }
}

fn structured(said: &Said, end: Option<&End>, pipeline: &Pipeline, timed_out: bool) -> ShellOutput {
    let totals =
        end.map_or((said.stdout.len() as u64, said.stderr.len() as u64), |end| (end.stdout, end.stderr));
    // Complaints are short; what they leave is for the output.
    let stderr = cut(&said.stderr, totals.1, SHOWN / 3, "stderr");
    let stdout = cut(&said.stdout, totals.0, SHOWN - stderr.text.len().min(SHOWN / 3) - 200, "stdout");
    let ends = end.map(|end| end.stages.as_slice()).unwrap_or_default();
    let (exit_code, signal) = code_of(ends);
    let stage = |(stage, end): (&Stage, &StageEnd)| StageOutput {
        command: stage.command.clone(),
        exit_code: end.exit_code,
        signal: end.signal,
    };
    ShellOutput {
        exit_code,
        signal,
        timed_out,
        truncated: stdout.truncated || stderr.truncated,
        stdout: stdout.text,
        stderr: stderr.text,
        stdout_bytes: totals.0,
        stderr_bytes: totals.1,
        stages: pipeline.stages.iter().zip(ends).map(stage).collect(),
    }
}

/// The code of the last command that did not go well. One before the last that nobody listened to any more has done
/// its part: `yes | head` went well.
fn code_of(ends: &[StageEnd]) -> (Option<i32>, Option<i32>) {
    const SIGPIPE: i32 = 13;
    let last = ends.len().saturating_sub(1);
    let mut code = (!ends.is_empty()).then_some(0);
    let mut signal = None;
    for (index, end) in ends.iter().enumerate() {
        match (end.exit_code, end.signal) {
            (Some(0), _) => {}
            (None, Some(SIGPIPE)) if index < last => {}
            (Some(other), _) => (code, signal) = (Some(other), None),
            (None, number) => (code, signal) = (number.map(|number| 128 + number), number),
        }
    }
    (code, signal)
}

fn not_run(error: &PipelineError, pipeline: &Pipeline) -> Reason {
    match error {
        PipelineError::Directory => {
            let why = format!("`{}` is not a directory of the workspace", shown(&pipeline.directory));
            Reason::outside(why).with_hint("`cwd` is relative to the workspace, and goes through no link")
        }
        PipelineError::NotFound { command } => {
            Reason::tool_failed(format!("there is no `{}` in the sandbox", shown(command))).with_hint(
                "it may not be installed; toolchains in the home directory need the profile `build`",
            )
        }
        PipelineError::CannotExecute { command, error } => {
            let why = std::io::Error::from_raw_os_error(*error);
            Reason::tool_failed(format!("`{}` cannot be executed: {why}", shown(command)))
        }
        PipelineError::Broken => Reason::tool_failed("the commands could not be connected"),
    }
}

/// Why a worker did not come to the end of its work.
fn stopped(outcome: &Outcome, timeout: Duration) -> Reason {
    match outcome {
        Outcome::Stopped(Limit::Timeout) => Reason::timeout(format!(
            "it was killed after {} seconds, with every process it had",
            timeout.as_secs()
        ))
        .with_hint("ask for a longer `timeout` (at most 600), or for less work"),
        Outcome::Stopped(Limit::Memory) => {
            Reason::tool_failed("it was stopped: it took more memory than it may")
        }
        Outcome::Stopped(Limit::Disk) => Reason::tool_failed("it was stopped: it wrote more than it may"),
        Outcome::Stopped(Limit::Abandoned) => Reason::cancelled("the call was taken back"),
        Outcome::Exit(_) | Outcome::Signal(_) => Reason::tool_failed("its worker was ended from inside"),
        Outcome::NotFound | Outcome::CannotExecute(_) => {
            Reason::cannot_enforce("our own binary cannot be executed in the sandbox")
        }
    }
}

/// Output as a terminal would show it, and in the end what is not to be seen in it.
fn content_of(output: &ShellOutput, failure: Option<&Reason>) -> String {
    let mut content = output.stdout.clone();
    if !output.stderr.is_empty() {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str("stderr:\n");
        content.push_str(&output.stderr);
    }
    let mut say = |line: String| {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&line);
    };
    match (failure, output.exit_code, output.signal) {
        (Some(reason), _, _) => {
            say(reason.message.clone());
            if let Some(hint) = &reason.hint {
                say(format!("hint: {hint}"));
            }
        }
        (None, _, Some(signal)) => say(format!("ended by signal {signal}")),
        (None, Some(code), None) if code != 0 => say(format!("exit code {code}")),
        _ => {}
    }
    content
}

fn definition() -> Definition {
    let example = |about: &str, arguments: Value| Example { about: about.to_owned(), arguments };
    Definition {
        title: "Run a command".into(),
        description: "Runs a program in the workspace, in a sandbox without network. There is no shell: `command` is a \
            program's name, `args` are its arguments exactly as they are (no quoting, globs or variables), `stages` \
            are more programs, each reading what the one before wrote. Make one call for each command instead of \
            `&&`. The profile says what it may do: `inspect` looks and cannot write; `build` writes in the workspace \
            (compilers, tests, scripts; `sh` and `bash` too); `mutate` adds `cp`, `mv`, `rm` and the like and may \
            have to be approved; `networked` is the only one that reaches other hosts. HOME and /tmp are empty at \
            the start and gone at the end. Secrets in the tree are hidden, and `.git/hooks` and `.git/config` cannot \
            be written. Of long output the beginning and the end are shown; the whole is in the artifacts."
            .into(),
        category: Category::Terminal,
        action: "exec:inspect".into(),
        // Of the worst it can be asked for; what a call is says its profile.
        safety: SafetyClass::Network,
        egress: EgressClass::None,
        idempotency: Idempotency::None,
        cost: CostTier::Low,
        timeout_seconds: MAX_TIMEOUT,
        examples: vec![
            example("look at the history", json!({ "command": "git", "args": ["log", "--oneline", "-n", "20"] })),
            example(
                "a pipeline",
                json!({ "command": "grep", "args": ["-rn", "TODO", "src"], "stages": [{ "command": "wc", "args": ["-l"] }] }),
            ),
            example(
                "run the tests",
                json!({ "command": "cargo", "args": ["test", "--offline"], "profile": "build", "timeout": 600 }),
            ),
            example(
                "delete what was built",
                json!({ "command": "rm", "args": ["-r", "build"], "profile": "mutate", "purpose": "clean" }),
            ),
        ],
        failure_modes: vec![
            "shell_syntax: `command` holds spaces, or `&&`, `|`, `;`, `>` and the like; use `args` and `stages`".into(),
            "command_not_allowed: the profile does not have this command; the hint names one that does".into(),
            "constrained: a variable in `env` is a secret by its name, or changes where programs are found".into(),
            "timeout: it took too long, and every process of it was killed; what it wrote until then is kept".into(),
            "cannot_enforce: this host cannot build the sandbox, or the call needs a network; nothing was run".into(),
            "tool_failed: no such program in the sandbox, or it went past a limit".into(),
            "an exit code other than 0 is an answer, not a failure of the call".into(),
        ],
        ..Definition::of::<ShellInput, ShellOutput>("shell")
    }
}

#[cfg(test)]
mod tests;
