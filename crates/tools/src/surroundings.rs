//! What tools need besides a grant: the way to a sandbox, the clock, and workers that wait.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use contract::{AgentName, CallId, Digest, Reason, TaskName};
use egress::Egress;
use jail::{Helper, Names};
use policy::{EgressSettings, FileSettings};
use sandbox::{Host, Launcher, Proofs};

use crate::lifecycle::Lifecycle;
use crate::mcp::Caller;
use crate::operands::{Holds, InForce};
use crate::path::names_of;
use crate::pipeline::Ready;
use crate::pool::Pool;
use crate::reach::Reaching;
use crate::wire::ToldNames;

/// What tools need besides a grant. A clone is the same surroundings.
#[derive(Clone, Debug)]
pub struct Surroundings {
    shared: Arc<Shared>,
    names: Arc<ToldNames>,
    holds: Option<Arc<Holds>>,
    pool: Arc<Pool>,
    owner: Option<Owner>,
    correlation: Option<Correlation>,
    in_force: Option<InForce>,
    ready: Arc<Mutex<Option<Ready>>>,
    reaching: Option<Arc<Reaching>>,
    caller: Option<Arc<Caller>>,
}

/// For whom workers are kept: they serve nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Which agent.
    pub agent: AgentName,
    /// For which task, if it said so.
    pub task: Option<TaskName>,
}

/// By what one call is found again in logs, traces and the ledger. Commands of the call have it in their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// Which call.
    pub request: CallId,
    /// In which session of a client, if it was in one.
    pub session: Option<String>,
}

#[derive(Debug)]
struct Shared {
    /// Our own binary: helper, canary, and what workers are copies of.
    binary: PathBuf,
    launcher: Launcher,
    host: Host,
    clock: fn() -> i64,
    digest: tokio::sync::OnceCell<Option<Digest>>,
}

impl Surroundings {
    /// `binary` is one whose `main` begins with [`jail::serve_if_asked`], which is given [`crate::WORKER`], and
    /// [`sandbox::serve_if_asked`]; `clock` gives milliseconds since 1970. Nothing is kept until there is an owner.
    pub fn new(binary: PathBuf, proofs: Proofs, host: Host, clock: fn() -> i64) -> Surroundings {
        let launcher = Launcher::new(Helper { binary: binary.clone() }, proofs);
        let shared = Shared { binary, launcher, host, clock, digest: tokio::sync::OnceCell::new() };
        let shared = Arc::new(shared);
        let pool = Arc::new(Pool::new(Lifecycle::default()));
        Surroundings {
            shared,
            names: Arc::new(ToldNames::of(Names::default())),
            holds: None,
            pool,
            owner: None,
            correlation: None,
            in_force: None,
            ready: Arc::default(),
            reaching: None,
            caller: None,
        }
    }

    /// The same with a way out for those calls whose grant names places.
    #[must_use]
    pub fn reaching_out(self, egress: Egress, settings: &EgressSettings) -> Surroundings {
        let reaching = Reaching { egress, settings: settings.clone() };
        Surroundings { reaching: Some(Arc::new(reaching)), ..self }
    }

    /// How the gate signs in to a server, if it does.
    pub fn sign_in(&self, server: &str) -> Option<egress::SignIn> {
        self.reaching.as_ref()?.egress.sign_in(server)
    }

    /// Whether a sandbox can have a network here.
    pub fn reaches_out(&self) -> bool {
        self.reaching.is_some()
    }

    /// The same where workers are kept as this says. Those that are kept already are not among them.
    #[must_use]
    pub fn keeping(self, lifecycle: Lifecycle) -> Surroundings {
        Surroundings { pool: Arc::new(Pool::new(lifecycle)), ..self }
    }

    /// The same where more names are guarded: those of these settings, besides those that always are.
    #[must_use]
    pub fn guarding(self, settings: &FileSettings) -> Surroundings {
        Surroundings { names: Arc::new(ToldNames::of(names_of(settings).into_owned())), ..self }
    }

    /// The same with a folder, out of every sandbox's reach, where all gates of one home say what they hold.
    #[must_use]
    pub fn holding_in(self, folder: PathBuf) -> Surroundings {
        Surroundings { holds: Some(Arc::new(Holds::in_folder(folder))), ..self }
    }

    /// The same for calls of one owner, whose workers are kept for a while.
    #[must_use]
    pub fn for_owner(&self, owner: Owner) -> Surroundings {
        Surroundings { owner: Some(owner), ..self.clone() }
    }

    /// The same for one call, by what it is found again.
    #[must_use]
    pub fn for_call(&self, correlation: Correlation) -> Surroundings {
        Surroundings { correlation: Some(correlation), ..self.clone() }
    }

    /// The variables by which a command can be found again. No command's own variable stands in their place.
    pub(crate) fn correlating(&self) -> Vec<(&'static str, String)> {
        let (owner, correlation) = (self.owner.as_ref(), self.correlation.as_ref());
        let task = owner.and_then(|owner| owner.task.as_ref()).map(|task| task.as_str().to_owned());
        let all = [
            ("TOOLGATE_AGENT_ID", owner.map(|owner| owner.agent.as_str().to_owned())),
            ("TOOLGATE_SESSION_ID", correlation.and_then(|known| known.session.clone())),
            ("TOOLGATE_TASK_ID", task),
            ("TOOLGATE_REQUEST_ID", correlation.map(|known| known.request.as_str().to_owned())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The same for one call whose operands were bound when people were asked about it.
    #[must_use]
    pub fn with_operands(&self, in_force: InForce) -> Surroundings {
        Surroundings { in_force: Some(in_force), ..self.clone() }
    }

    /// The same for one call for which a sandbox is ready.
    #[must_use]
    pub fn with_ready(&self, ready: Ready) -> Surroundings {
        Surroundings { ready: Arc::new(Mutex::new(Some(ready))), ..self.clone() }
    }

    /// The same for one call whose maker can be told something while it is under way.
    #[must_use]
    pub fn with_caller(&self, caller: Arc<Caller>) -> Surroundings {
        Surroundings { caller: Some(caller), ..self.clone() }
    }

    /// Ends the workers that are kept for this owner. Those at work end with their call, and are not used again.
    pub fn forget(&self, owner: &Owner) {
        self.pool.forget(|kept_for| kept_for == owner);
    }

    /// The same for whatever is kept for an agent, whichever its task is.
    pub fn forget_agent(&self, agent: &AgentName) {
        self.pool.forget(|kept_for| kept_for.agent == *agent);
    }

    /// How many workers wait for a call.
    pub fn kept(&self) -> usize {
        self.pool.waiting()
    }

    /// How many workers there are, at work or not, that are kept for somebody.
    pub fn leases(&self) -> usize {
        self.pool.held()
    }

    pub(crate) fn now(&self) -> i64 {
        (self.shared.clock)()
    }

    pub(crate) fn reaching(&self) -> Option<&Reaching> {
        self.reaching.as_deref()
    }

    pub(crate) fn names(&self) -> &Names {
        self.names.names()
    }

    /// The same, to be told to workers.
    pub(crate) fn told_names(&self) -> Arc<ToldNames> {
        Arc::clone(&self.names)
    }

    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    /// What was bound for this call, if anything was.
    pub(crate) fn in_force(&self) -> Option<&InForce> {
        self.in_force.as_ref()
    }

    /// Whoever made this call, if that can be told something.
    pub(crate) fn caller(&self) -> Option<&Arc<Caller>> {
        self.caller.as_ref()
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Where it is kept who writes in which workspace.
    pub(crate) fn holds(&self) -> Result<&Holds, Reason> {
        self.holds.as_deref().ok_or_else(|| Reason::internal("there is no place to hold a workspace by"))
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The sandbox that is ready for this call, if one is; for the first who asks.
    pub(crate) fn take_ready(&self) -> Option<Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// For what does not block.
    pub(crate) fn launcher(&self) -> &Launcher {
        &self.shared.launcher
    }

    /// Does something that blocks with the way to a sandbox.
    pub(crate) async fn launch<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Launcher) -> T + Send + 'static,
    ) -> Option<T> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || work(&shared.launcher)).await.ok()
    }

    /// The digest of our own binary, computed once.
    pub(crate) async fn worker_digest(&self) -> Option<Digest> {
        let binary = self.shared.binary.clone();
        let compute = || async move {
            let read =
                tokio::task::spawn_blocking(move || std::fs::read(binary).map(|bytes| Digest::of(&bytes)));
            read.await.ok().and_then(Result::ok)
        };
        *self.shared.digest.get_or_init(compute).await
    }
}
