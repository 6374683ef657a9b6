//! Workers for files: started behind walls, asked, and kept for their owner's next call.
//!
//! A worker that is kept is a lease: [`lease`] talks to one, [`table`] says which one a call gets. There are only so many
//! for one owner, workspace and access, however many calls come: further calls wait for their turn, in the order in
//! which they came, and no longer than they may take.
//!
//! Several questions that only read and are soon answered are under way on one socket at once. Those that take long, and
//! all that write, have a worker for themselves. So what becomes of a question whose worker ends is simple:
//!
//! | the question | what is known | what becomes of it |
//! |---|---|---|
//! | could not be sent | nothing of it has begun | it is asked elsewhere |
//! | read, behind another | reading twice does no harm | it is asked elsewhere |
//! | read, the next to be answered, by a worker that was kept | it may have died before | it is asked elsewhere, once |
//! | read, the next to be answered | it may be what ended the worker | it has failed |
//! | write | it may have happened | its outcome is unknown |
//!
//! A question that is taken back or takes too long ends its worker, with the same for the others.
//!
//! # Invariants
//! - A worker is kept only after it has answered, and answered sense; everything else ends it.
//! - A kept worker serves its own owner, workspace and access, and nothing else: not even less access.
//! - A worker whose workspace is another directory by now is not used.
//! - A worker at work is ended only by a question of its own, never for its age, its waiting, its number or `forget`.
//! - Whoever writes holds its workspace until its worker is gone.

mod lease;
mod table;

use std::path::Path;

use contract::Reason;
use jail::{
    Access, ChangeReport, Content, Directory, Draft, Enforcement, Limits, Network, Plan, Program, Strictness,
};
use policy::{GrantLimits, WorkspaceAccess};

use crate::crash::reach;
use crate::facts::not_enforced;
use crate::files::FileCall;
use crate::inside::Trade;
use crate::lifecycle::Lifecycle;
use crate::surroundings::Surroundings;
use crate::wire::{WorkerRequest, WorkerResponse};
use lease::{Lease, Silence};
pub(crate) use table::Pool;
use table::{Key, Share};

/// How often a question is asked elsewhere before it has failed. Each time another one ended the worker.
const MOST_TIMES: usize = 8;

/// An answer, and what held whoever gave it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) answer: WorkerResponse,
    pub(crate) enforcement: Enforcement,
}

impl Surroundings {
    /// Asks a worker. Dropping the future ends the worker, if the question is under way.
    pub(crate) async fn ask(
        &self,
        access: WorkspaceAccess,
        limits: GrantLimits,
        question: &WorkerRequest,
    ) -> Result<Asked, Reason> {
        let bytes = serde_json::to_vec(question).map_err(|error| Reason::internal(error.to_string()))?;
        // Let go last: after the worker, if that has to be ended.
        let hold = self.hold(&question.root, access).await?;
        // One that was started with other limits than usual holds them for its whole life, so it serves one call.
        let usual = GrantLimits { timeout: limits.timeout, ..GrantLimits::default() };
        let owner = self.owner().filter(|_| limits == usual).and_then(|owner| self.pool().owner_of(owner));
        let start = async || self.start(access, limits, &question.root).await;
        let Some(key) = owner.and_then(|owner| Key::of(owner, &question.root, access)) else {
            let lease = Lease::new();
            lease.start(start).await?;
            lease.hold(hold.clone());
            reach("worker/unasked");
            return concluded(&lease, access, lease.ask(&bytes).await);
        };
        let share = if is_brief(&question.call) { Share::Brief } else { Share::Alone };
        let mut deaths = 0;
        for _ in 0..MOST_TIMES {
            let taken = self.pool().take(&key, share).await;
            let lease = taken.lease();
            let was_kept = lease.is_started();
            lease.start(start).await?;
            lease.hold(hold.clone());
            reach("worker/unasked");
            let answered = lease.ask(&bytes).await;
            match &answered {
                Err(Silence::NotBegun) => {}
                Err(Silence::Died) if was_kept && deaths == 0 && access != WorkspaceAccess::Write => {
                    deaths += 1
                }
                _ => return concluded(lease, access, answered),
            }
        }
        Err(died(access))
    }

    async fn start(
        &self,
        access: WorkspaceAccess,
        limits: GrantLimits,
        root: &Path,
    ) -> Result<jail::Kept, Reason> {
        let plan =
            plan_for(access, limits, root, self.names()).map_err(|error| not_enforced(&error.into()))?;
        let kept = self.launch(move |launcher| launcher.keep(&plan)).await;
        let kept = kept.ok_or_else(|| Reason::internal("the gate is ending"))?;
        kept.map_err(|refusal| not_enforced(&refusal))
    }
}

/// What has come of a question, for whoever asked.
fn concluded(
    lease: &Lease,
    access: WorkspaceAccess,
    answered: Result<lease::Heard, Silence>,
) -> Result<Asked, Reason> {
    let garbled = || Reason::bad_output("the worker's answer is not understood");
    match answered {
        Ok(heard) => {
            reach("worker/answered");
            let Ok(answer) = serde_json::from_slice(heard.said()) else {
                // One that talks nonsense is not asked again, and nobody behind is answered.
                lease.end();
                return Err(garbled());
            };
            lease.hold(None);
            Ok(Asked { answer, enforcement: lease.enforcement() })
        }
        Err(Silence::NotBegun | Silence::Died) => Err(died(access)),
        Err(Silence::Garbled) => Err(garbled()),
    }
}

/// Whether a question is soon answered, so that others may wait behind it.
fn is_brief(call: &FileCall) -> bool {
    match call {
        FileCall::Read(_) | FileCall::List(_) | FileCall::Stat(_) => true,
        FileCall::Search(_) | FileCall::Bind(_) => false,
        FileCall::Write(_)
        | FileCall::Append(_)
        | FileCall::Edit(_)
        | FileCall::MakeDirectory(_)
        | FileCall::Move(_)
        | FileCall::Delete(_) => false,
    }
}

fn died(access: WorkspaceAccess) -> Reason {
    match access {
        WorkspaceAccess::Write => {
            Reason::outcome_unknown("the worker ended in the middle of the call; it may have happened")
                .with_hint("look at the file before you try again")
        }
        WorkspaceAccess::None | WorkspaceAccess::Read => {
            Reason::tool_failed("the worker ended in the middle of the call").with_hint("try again")
        }
    }
}

/// What a worker for files may do: see one directory, and talk to the gate.
fn plan_for(
    access: WorkspaceAccess,
    granted: GrantLimits,
    root: &Path,
    names: &jail::Names,
) -> Result<Plan, jail::PlanError> {
    let access = match access {
        WorkspaceAccess::Write => Access::Write,
        WorkspaceAccess::None | WorkspaceAccess::Read => Access::Read,
    };
    Plan::try_from(Draft {
        program: Program::Own,
        arguments: vec![Trade::Files.as_str().into()],
        working_directory: "/".into(),
        directories: vec![Directory { path: root.to_owned(), access, content: Content::Workspace }],
        environment: Vec::new(),
        names: names.clone(),
        network: Network::Closed,
        // Of its whole life; what one question may take is in the question.
        limits: Limits {
            memory: granted.memory.min(512 << 20),
            pids: granted.pids.min(8),
            cpu_millis: granted.cpu_millis,
            disk: if granted.disk == GrantLimits::default().disk { 64 << 30 } else { granted.disk },
            output: 1 << 46,
            timeout: Lifecycle::LIFE * 2,
            ..Limits::default()
        },
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    })
}
