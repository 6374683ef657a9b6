//! One pipeline of commands behind walls: prepared from a grant, run, and put together from what came of it.
//!
//! Knows no tool: whoever asks has checked the words, and makes an answer of what is [`Ended`].

mod ended;
mod launch;
mod show;
mod starts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use contract::{Action, EgressClass, Profile, Reason, SafetyClass};
use jail::{ChangeReport, HomeFile, Limits, Plan, Program, Running, Strictness, WORD};
use policy::{Facets, Grant, WorkspaceAccess};
use sandbox::PlanRequest;
use tokio_util::sync::CancellationToken;

pub(crate) use ended::{Ended, Shown, stopped};
pub(crate) use launch::{EndOnDrop, Ending, Launch, Launched};
pub(crate) use show::{Cut, SHOWN, cut};
pub(crate) use starts::{VARIABLE as TOLD_BY_A_VARIABLE, may_name_a_program};

use crate::facts::{facts_of_report, not_enforced};
use crate::inside::{GitUse, Pipeline, Stage, Trade, Transport};
use crate::operands::{InForce, Sealed, Sought, Words, words_of};
use crate::path::Beneath;
use crate::reach::{Login, Methods, WayOut, refusals_of, with_usage};
use crate::shell::hosts;
use crate::surroundings::Surroundings;
use crate::tool::taken_back;
use crate::wire::{Check, Links, write_frame};

/// As many commands as one pipeline has.
pub(crate) const MAX_STAGES: usize = 16;

/// As many bytes of words as the sandbox itself is told.
const MAX_TOLD: usize = 128 * 1024;

/// Who starts commands inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// A worker, which makes sure of things first, connects them, and says how each one ended.
    Worker,
    /// The sandbox itself: there is one command, in the workspace, and nothing to make sure of.
    Sandbox,
}

/// Commands that are to be run.
pub(crate) struct Commands {
    pub(crate) profile: Profile,
    /// Where they start, beneath the workspace.
    pub(crate) directory: String,
    /// Commands that come before, one after the other.
    pub(crate) before: Vec<Stage>,
    pub(crate) stages: Vec<Stage>,
    /// Whether they are git's.
    pub(crate) git: Option<GitUse>,
    /// Whom git logs in to, where it reaches out by ssh.
    pub(crate) login: Option<Login>,
    pub(crate) variables: BTreeMap<String, String>,
    /// How long they may take; the grant may have less.
    pub(crate) timeout: Duration,
}

/// What commands have in their environment besides what is passed. What they are found again by is the gate's to say.
fn variables_of(own: BTreeMap<String, String>, at: &Surroundings) -> Vec<(OsString, OsString)> {
    let own = own.into_iter().filter(|(name, _)| !name.starts_with("TOOLGATE_"));
    let own = own.map(|(name, value)| (name.into(), value.into()));
    own.chain(at.correlating().into_iter().map(|(name, value)| (name.into(), value.into()))).collect()
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
        reaches: Vec::new(),
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
        let stages = [self.before.as_slice(), &self.stages].concat();
        let Words { words, not_bound, unseen } = words_of(&stages, &self.variables, access, root);
        let directory = self.directory.clone();
        let (root, links) = (root.to_owned(), Links::FollowInside);
        at.bind(Sought { root, links, directory, words, not_bound, unseen }).await
    }

    /// A worker costs as much as the sandbox itself, so it is there for what only a worker does.
    fn starter(&self, at: &Surroundings) -> Starter {
        // ATTACK(model-chosen-directory): any other directory is reached by names, through no link.
        let is_in_workspace = Beneath::parse(&self.directory).is_ok_and(|path| path.names().is_empty());
        let is_plain = self.before.is_empty() && self.git.is_none() && at.in_force().is_none();
        match self.stages.as_slice() {
            [only] if is_plain && is_in_workspace && only.fits(MAX_TOLD) => Starter::Sandbox,
            _ => Starter::Worker,
        }
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
            Profile::Networked => sandbox::Profile::Networked,
        };
        let transport = self.git.and_then(GitUse::transport);
        let reading = match transport {
            None => Methods::ReadOnly,
            Some(Transport::Https) => Methods::GitFetch,
            // Who speaks there is git itself, told to fetch; ssh shows nobody what it says.
            Some(Transport::Ssh) => Methods::Any,
        };
        let way = WayOut::of(grant, at, reading, self.login.clone())?;
        if (self.profile == Profile::Networked || transport.is_some()) && way.is_none() {
            return Err(no_network());
        }
        let ssh = match (&way, &self.login) {
            (Some(way), Some(login)) => Some(way.ssh(login)?),
            _ => None,
        };
        let root = grant.workspace();
        let writes = profile.may_write() && authority.access == WorkspaceAccess::Write;
        if profile.may_write() && !writes {
            return Err(Reason::internal("the grant does not permit this access to the workspace"));
        }
        let most = authority.limits.output;
        let starter = self.starter(at);
        let (program, arguments) = match (starter, self.stages.first()) {
            (Starter::Sandbox, Some(Stage { command, arguments })) => {
                (Program::WhenTold(command.into()), arguments.iter().map(OsString::from).collect())
            }
            _ => (Program::Own, vec![Trade::Pipeline.as_str().into()]),
        };
        let limits = Limits {
            memory: authority.limits.memory,
            pids: authority.limits.pids,
            cpu_millis: authority.limits.cpu_millis,
            disk: authority.limits.disk,
            output: match starter {
                // Both streams, and the marks between their pieces.
                Starter::Worker => most.saturating_mul(3).saturating_add(1 << 20),
                Starter::Sandbox => most,
            },
            timeout: self.timeout.min(authority.limits.timeout),
            ..Limits::default()
        };
        let timeout = limits.timeout;
        let plan = PlanRequest {
            guarded: way.as_ref().map(WayOut::guarded),
            profile,
            program,
            arguments,
            working_directory: root.to_owned(),
            read: Vec::new(),
            workspace: (!writes).then(|| root.to_owned()),
            write: if writes { vec![root.to_owned()] } else { Vec::new() },
            variables: variables_of(self.variables, at),
            names: at.names().clone(),
            limits,
            changes: if writes { ChangeReport::List } else { ChangeReport::Skip },
            strictness: Strictness::Report,
        };
        let plan = plan.into_plan(at.host()).and_then(|plan| plan.with_home(vec![git_settings(root)]));
        let plan = plan.map_err(|error| not_enforced(&error.into()))?;
        let (plan, sealed) = match at.in_force() {
            Some(in_force) => in_force.seal(plan, root)?,
            None => (plan, Vec::new()),
        };
        let check = |in_force: &InForce| Check { names: at.names().clone(), expected: in_force.expected() };
        let pipeline = Pipeline {
            root: root.to_owned(),
            directory: self.directory,
            before: self.before,
            stages: self.stages,
            git: self.git,
            ssh,
            check: at.in_force().map(check),
            most,
        };
        let access = if writes { WorkspaceAccess::Write } else { WorkspaceAccess::Read };
        Ok(Prepared { plan, sealed, starter, pipeline, timeout, access, way })
    }
}

/// What root shows belongs to a stranger inside, and git asks who owns a repository before it reads it. Behind these
/// walls it may read this one; it is the scratch home that says so, not the workspace. Whoever commits without saying who
/// they are is an agent.
fn git_settings(root: &Path) -> HomeFile {
    let escaped = root.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let content = format!(
        "[safe]\n\tdirectory = \"{escaped}\"\n[user]\n\tname = agent\n\temail = agent@toolgate.invalid\n"
    );
    HomeFile { name: ".gitconfig".to_owned(), content }
}

fn no_network() -> Reason {
    Reason::cannot_enforce("this call has no way to the network")
        .with_hint("use `build` for what needs no network")
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
    starter: Starter,
    pipeline: Pipeline,
    timeout: Duration,
    access: WorkspaceAccess,
    way: Option<WayOut>,
}

impl Prepared {
    async fn run(self, at: &Surroundings, cancel: &CancellationToken) -> Result<Ended, Reason> {
        let input = match self.starter {
            Starter::Worker => for_worker(&self.pipeline)
                .map_err(|_| Reason::internal("the command cannot be sent to its worker"))?,
            Starter::Sandbox => WORD.to_vec(),
        };
        let Prepared { plan, sealed, starter, pipeline, timeout, access, way } = self;
        let launch = Launch { plan, sealed, input, root: pipeline.root.clone(), access, timeout, way };
        let Launched { report, usage, worker } = launch.run(at, cancel).await?;
        let not_reached = refusals_of(&usage);
        let facts = with_usage(facts_of_report(&report, &pipeline.root, worker), usage);
        Ok(Ended { not_reached, ..Ended::of(&report, &pipeline, starter, timeout, facts) })
    }
}

fn for_worker(pipeline: &Pipeline) -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    write_frame(&mut input, &serde_json::to_vec(pipeline)?)?;
    Ok(input)
}
