//! One pipeline of commands behind walls: prepared from a grant, run, and put together from what came of it.
//!
//! Knows no tool: whoever asks has checked the words, and makes an answer of what is [`Ended`].

mod ended;
mod show;
mod starts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{Action, EgressClass, Profile, Reason, SafetyClass};
use jail::{ChangeReport, Hangup, HelperError, Limits, Plan, Program, Request, Running, Strictness};
use policy::{Facets, Grant, WorkspaceAccess};
use sandbox::{PlanRequest, Refusal};
use tokio_util::sync::CancellationToken;

pub(crate) use ended::{Ended, Shown};

use crate::facts::{facts_of_report, not_enforced};
use crate::inside::{Pipeline, Stage, Trade};
use crate::operands::{InForce, Sealed, Sought, Words, busy, words_of};
use crate::shell::hosts;
use crate::surroundings::Surroundings;
use crate::tool::taken_back;
use crate::wire::{Check, Links, write_frame};

/// As many commands as one pipeline has.
pub(crate) const MAX_STAGES: usize = 16;

/// Commands that are to be run.
pub(crate) struct Commands {
    pub(crate) profile: Profile,
    /// Where they start, beneath the workspace.
    pub(crate) directory: String,
    pub(crate) stages: Vec<Stage>,
    pub(crate) variables: BTreeMap<String, String>,
    /// How long they may take; the grant may have less.
    pub(crate) timeout: Duration,
}

/// How dangerous a profile makes a call, whatever the commands.
pub(crate) fn danger_of(profile: Profile) -> (SafetyClass, EgressClass, WorkspaceAccess) {
    match profile {
        Profile::Inspect => (SafetyClass::Read, EgressClass::None, WorkspaceAccess::Read),
        Profile::Build | Profile::Mutate => (SafetyClass::Write, EgressClass::None, WorkspaceAccess::Write),
        // What a command sends cannot be told from its words, so it counts as more than a question.
        Profile::Networked => (SafetyClass::Network, EgressClass::Write, WorkspaceAccess::Write),
    }
}

/// What a call of these commands would do. No command is held to be unlisted.
pub(crate) fn facets_of(profile: Profile, action: Action, directory: &str, stages: &[Stage]) -> Facets {
    let (safety, egress, access) = danger_of(profile);
    let command = |stage: &Stage| starts::command_of(stage, directory);
    Facets {
        action,
        safety,
        egress,
        access,
        profile: Some(profile),
        commands: stages.iter().map(command).collect(),
        trees: Vec::new(),
        hosts: hosts(stages.iter().flat_map(|stage| &stage.arguments)),
    }
}

impl Commands {
    /// Runs them with the authority of a grant that was checked to be for this call.
    pub(crate) async fn run(
        self,
        grant: &Grant,
        at: &Surroundings,
        cancel: &CancellationToken,
    ) -> Result<Ended, Reason> {
        let prepared = self.prepare(grant, at)?;
        if cancel.is_cancelled() {
            return Err(taken_back());
        }
        prepared.run(at, cancel).await
    }

    /// Gets a sandbox ready for them, if they only read and no file has to be sealed in it.
    pub(crate) fn get_ready(self, grant: &Grant, at: &Surroundings) -> Option<Ready> {
        if self.profile != Profile::Inspect || at.in_force().is_some() {
            return None;
        }
        let plan = self.prepare(grant, at).ok()?.plan;
        let running = at.launcher().begin(&plan)?;
        Some(Ready { plan, running: Some(running), at: at.clone() })
    }

    /// Binds the files that they name.
    pub(crate) async fn seal(&self, root: &Path, at: &Surroundings) -> Result<Sealed, Reason> {
        let (_, _, access) = danger_of(self.profile);
        let Words { words, not_bound, unseen } = words_of(&self.stages, &self.variables, access, root);
        let directory = self.directory.clone();
        let (root, links) = (root.to_owned(), Links::FollowInside);
        at.bind(Sought { root, links, directory, words, not_bound, unseen }).await
    }

    fn prepare(self, grant: &Grant, at: &Surroundings) -> Result<Prepared, Reason> {
        let authority = grant.authority();
        if authority.profile != Some(self.profile) {
            return Err(Reason::internal("the grant is for another profile"));
        }
        let profile = match self.profile {
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
        let most = authority.limits.output;
        let limits = Limits {
            memory: authority.limits.memory,
            pids: authority.limits.pids,
            cpu_millis: authority.limits.cpu_millis,
            disk: authority.limits.disk,
            // Both streams, and the marks between their pieces.
            output: most.saturating_mul(3).saturating_add(1 << 20),
            timeout: self.timeout.min(authority.limits.timeout),
            ..Limits::default()
        };
        let timeout = limits.timeout;
        let plan = PlanRequest {
            profile,
            program: Program::Own,
            arguments: vec![Trade::Pipeline.as_str().into()],
            working_directory: root.to_owned(),
            read: Vec::new(),
            workspace: (!writes).then(|| root.to_owned()),
            write: if writes { vec![root.to_owned()] } else { Vec::new() },
            variables: self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            names: at.names().clone(),
            limits,
            changes: if writes { ChangeReport::List } else { ChangeReport::Skip },
            strictness: Strictness::Report,
        };
        let plan = plan.into_plan(at.host()).map_err(|error| not_enforced(&error.into()))?;
        let (plan, sealed) = match at.in_force() {
            Some(in_force) => in_force.seal(plan, root)?,
            None => (plan, Vec::new()),
        };
        let check = |in_force: &InForce| Check { names: at.names().clone(), expected: in_force.expected() };
        let pipeline = Pipeline {
            root: root.to_owned(),
            directory: self.directory,
            stages: self.stages,
            check: at.in_force().map(check),
            most,
        };
        let access = if writes { WorkspaceAccess::Write } else { WorkspaceAccess::Read };
        Ok(Prepared { plan, sealed, pipeline, timeout, access })
    }
}

/// A sandbox in which our own code waits to be told what it is to do. If that never comes, it ends with this.
#[derive(Debug)]
pub struct Ready {
    plan: Plan,
    running: Option<Running>,
    at: Surroundings,
}

impl Ready {
    /// The run, if it is one of this plan.
    fn taken_for(mut self, plan: &Plan) -> Option<Running> {
        if self.plan == *plan { self.running.take() } else { None }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Its end is waited for.
            let at = self.at.clone();
            tokio::task::spawn_blocking(move || at.launcher().let_go(running));
        }
    }
}

/// Commands that have their plan.
struct Prepared {
    plan: Plan,
    /// The content of what the plan seals.
    sealed: Vec<u8>,
    pipeline: Pipeline,
    timeout: Duration,
    access: WorkspaceAccess,
}

impl Prepared {
    async fn run(self, at: &Surroundings, cancel: &CancellationToken) -> Result<Ended, Reason> {
        let mut input = Vec::new();
        let encoded = serde_json::to_vec(&self.pipeline).map_err(std::io::Error::from);
        encoded
            .and_then(|bytes| write_frame(&mut input, &bytes))
            .map_err(|_| Reason::internal("the command cannot be sent to its worker"))?;
        let hold = tokio::select! {
            held = at.hold(&self.pipeline.root, self.access) => held?,
            () = cancel.cancelled() => return Err(taken_back()),
            () = tokio::time::sleep(self.timeout) => return Err(busy()),
        };
        let ready = at.take_ready().and_then(|ready| ready.taken_for(&self.plan));
        let request = Request { plan: self.plan, sealed: self.sealed, input };
        let ending = Arc::new(Ending::default());
        let of_run = Arc::clone(&ending);
        // Ends the sandbox when this future is dropped, too.
        let on_drop = EndOnDrop(Arc::clone(&ending));
        let running = at.launch(move |launcher| {
            // Until its last process has ended, whoever stops waiting for it.
            let _hold = hold;
            let begun = |hangup| of_run.begun(hangup);
            match ready {
                Some(running) => launcher.finish(running, &request, begun),
                None => launcher.run(&request, begun),
            }
        });
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
        let report = ran.ok_or_else(|| Reason::internal("the gate is ending"))?;
        let report = report.map_err(|refusal| not_ended(&refusal, self.access))?;
        let facts = facts_of_report(&report, &self.pipeline.root, worker);
        Ok(Ended::of(&report, &self.pipeline, self.timeout, facts))
    }
}

/// Why there is no report. A helper that says nothing may have run all of it.
fn not_ended(refusal: &Refusal, access: WorkspaceAccess) -> Reason {
    match (refusal, access) {
        (Refusal::Helper(HelperError::Silent(_)), WorkspaceAccess::Write) => Reason::outcome_unknown(
            "the sandbox's launcher ended in the middle of the call; it may have happened",
        )
        .with_hint("look at the workspace before you try again"),
        _ => not_enforced(refusal),
    }
}

/// The end of a run, asked for by one thread and brought about by another.
#[derive(Default)]
pub(crate) struct Ending(Mutex<EndingState>);

#[derive(Default)]
enum EndingState {
    #[default]
    NotBegun,
    Begun(Hangup),
    Ended,
}

impl Ending {
    pub(crate) fn begun(&self, hangup: Hangup) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            EndingState::Ended => hangup.hang_up(),
            EndingState::NotBegun | EndingState::Begun(_) => *state = EndingState::Begun(hangup),
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), EndingState::Ended)
    }

    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let EndingState::Begun(hangup) = std::mem::replace(&mut *state, EndingState::Ended) {
            hangup.hang_up();
        }
    }
}

/// Ends a run when nobody waits for it any more.
pub(crate) struct EndOnDrop(pub(crate) Arc<Ending>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
