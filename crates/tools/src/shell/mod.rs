//! `shell`: commands as lists of words, behind walls that hold whatever the command is.

mod commands;
mod definition;
mod syntax;
mod types;

pub(crate) use commands::unlisted;
pub(crate) use syntax::hosts;

use std::ffi::OsStr;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use contract::{Actions, Canonical, Contract, ContractError, Output, Profile, Reason, RunFacts};
use jail::Names;
use policy::{Facets, Grant, Settings};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::inside::{Stage, StageEnd};
use crate::operands::Sealed;
use crate::path::{Beneath, Guard, names_of, shown};
use crate::pipeline::{
    Commands, Ended, MAX_STAGES, Ready, TOLD_BY_A_VARIABLE, danger_of, facets_of, may_name_a_program,
};
use crate::surroundings::Surroundings;
use crate::tool::{CallKind, Ran, Tool, check_grant, only_looks};
use definition::definition;
use types::{ShellInput, ShellOutput, StageInput, StageOutput};

const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 600;

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

    fn kinds(&self) -> Vec<CallKind> {
        let kind = |profile: &Profile| {
            let (safety, egress, _) = danger_of(*profile);
            CallKind { word: profile.as_str(), safety, egress }
        };
        Profile::ALL.iter().map(kind).collect()
    }

    fn actions(&self) -> Vec<&str> {
        vec!["exec:inspect", "exec:build", "exec:mutate", "exec:networked"]
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let input = parse(arguments)?;
        check(&input, &names_of(&settings.files))?;
        let action = Actions::built_in()
            .parse(&format!("exec:{}", input.profile))
            .map_err(|error| Reason::internal(error.to_string()))?;
        let mut facets =
            facets_of(input.profile, action, input.cwd.as_deref().unwrap_or("."), &stages_of(&input));
        let is_told = input.env.iter().any(|(name, value)| may_name_a_program(name, value));
        for command in &mut facets.commands {
            command.unlisted = commands::unlisted(&command.name, input.profile);
            // ATTACK(program-by-another): `PAGER` and its like are words of the call, too.
            command.untold = command.untold.or(is_told.then_some(TOLD_BY_A_VARIABLE));
        }
        Ok(facets)
    }

    fn seal<'a>(
        &'a self,
        arguments: &'a Canonical,
        workspace: &'a Path,
        at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async move { commands_of(arguments, at.names())?.seal(workspace, at).await })
    }

    fn get_ready(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Option<Ready> {
        self.commands(grant, arguments, at).ok()?.get_ready(grant, at)
    }

    fn is_unnoticed(&self, grant: &Grant) -> bool {
        only_looks(grant)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let ended = match self.commands(&grant, arguments, at) {
                Ok(commands) => commands.run(&grant, at, &cancel).await,
                Err(reason) => Err(reason),
            };
            ended.map_or_else(|reason| Ran::failed(reason, RunFacts::default()), answer)
        })
    }
}

impl Shell {
    fn commands(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Result<Commands, Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        commands_of(arguments, at.names())
    }
}

/// What is to be run.
fn commands_of(arguments: &Canonical, names: &Names) -> Result<Commands, Reason> {
    let input = parse(arguments.value())?;
    check(&input, names)?;
    Ok(Commands {
        profile: input.profile,
        before: Vec::new(),
        stages: stages_of(&input),
        git: None,
        login: None,
        timeout: Duration::from_secs(input.timeout.unwrap_or(TIMEOUT)),
        directory: input.cwd.unwrap_or_else(|| ".".to_owned()),
        variables: input.env,
    })
}

/// The answer to a call: output as it is, and how each command ended.
fn answer(mut ended: Ended) -> Ran {
    if ended.timed_out {
        let hint = "ask for a longer `timeout` (at most 600), or for less work";
        ended.failure = ended.failure.map(|reason| reason.with_hint(hint));
    }
    let shown = ended.shown();
    let content = ended.content(&shown);
    let stage = |(command, end): &(String, StageEnd)| StageOutput {
        command: command.clone(),
        exit_code: end.exit_code,
        signal: end.signal,
    };
    let structured = ShellOutput {
        exit_code: ended.exit_code,
        signal: ended.signal,
        timed_out: ended.timed_out,
        stdout: shown.stdout.clone(),
        stderr: shown.stderr.clone(),
        stdout_bytes: ended.stdout_bytes,
        stderr_bytes: ended.stderr_bytes,
        truncated: shown.truncated,
        stages: ended.stages.iter().map(stage).collect(),
    };
    let is_error = ended.failure.is_some() || ended.exit_code != Some(0);
    let structured = serde_json::to_value(structured).unwrap_or_default();
    ended.answer(Output { content, is_error, structured, artifacts: Vec::new() }, shown)
}

/// The commands, in order.
fn stages_of(input: &ShellInput) -> Vec<Stage> {
    let more = input.stages.iter().map(|StageInput { command, args }| (command, args));
    let all = [(&input.command, &input.args)].into_iter().chain(more);
    all.map(|(command, args)| Stage { command: command.clone(), arguments: args.clone() }).collect()
}

fn parse(arguments: &Value) -> Result<ShellInput, Reason> {
    ShellInput::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))
}

/// Refuses what can never be, whatever is granted.
fn check(input: &ShellInput, names: &Names) -> Result<(), Reason> {
    syntax::check(input)?;
    // A program of the workspace, by a relative path, is in it.
    for Stage { command, .. } in stages_of(input) {
        if command.contains('/') && !command.starts_with('/') {
            Beneath::parse(&command)?;
        }
    }
    if input.stages.len() >= MAX_STAGES {
        return Err(Reason::bad_arguments("a pipeline has at most 16 commands"));
    }
    if let Some(text) = &input.cwd {
        let directory = Beneath::parse(text)?;
        let guard = Guard { names, root: Path::new("/") };
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

#[cfg(test)]
mod tests;
