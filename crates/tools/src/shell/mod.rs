//! `shell`: commands as lists of words, behind walls that hold whatever the command is.

mod commands;
mod definition;
mod ended;
mod show;
mod syntax;
mod types;

use std::ffi::OsStr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{
    Actions, Canonical, Contract, ContractError, EgressClass, Profile, Reason, RunFacts, SafetyClass,
};
use jail::{ChangeReport, Hangup, Limits, Names, Plan, Program, Request, Strictness};
use policy::{Facets, Grant, Settings, WorkspaceAccess};
use sandbox::PlanRequest;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::facts::{facts_of_report, not_enforced};
use crate::inside::{Pipeline, Stage, Trade, WORKER_ARGUMENT};
use crate::path::{Beneath, Guard, shown};
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant, taken_back};
use crate::wire::write_frame;
use definition::definition;
use ended::conclude;
use types::{ShellInput, StageInput};

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
                Ok(_) if cancel.is_cancelled() => Ran::failed(taken_back(), RunFacts::default()),
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

#[cfg(test)]
mod tests;
