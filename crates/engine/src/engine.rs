//! The engine itself: what it is opened with, and what it holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use contract::{AgentName, CallId, CanonicalError, Category, Contract, ToolName, chain};
use policy::{Facts, Policy, Settings};
use store::{AddOperatorError, Keys, RegisterError, Role, Settlement, Store, StoreError, ToolRow, Witness};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::mcp::{Caller, Upstream};
use tools::{CallKind, Surroundings, Tool};

use crate::catalogue::{Catalogue, CatalogueError, Listed, SetByOperators};
use crate::clock::{Clock, Steady};
use crate::command_hook::command_hooks;
use crate::disclosure::Disclosure;
use crate::hooks::Hook;
use crate::in_force::{Held, InForce, Snapshot};
use crate::numbers::Tally;
use crate::operator::CredentialError;
use crate::past::ReadCandidate;
use crate::people::{LocalOperator, local_operator};
use crate::request::Request;
use crate::sign_in::Vouched;
use crate::sources::Shelf;
use crate::turns::Turns;

/// How far the clock may be ahead of what others have kept before that is kept anew, in milliseconds.
const MOST_APART: i64 = 1000;

/// What an engine is opened with.
pub struct Options {
    /// Toolgate's home: keys, and the credential of the local operator.
    pub home: PathBuf,
    /// The store, as `sqlite:PATH` or `postgres://USER@HOST/DATABASE`.
    pub store: String,
    /// What the configuration means.
    pub settings: Settings,
    /// Where agents work that have no place of their own.
    pub workspace: PathBuf,
    /// Where the others work.
    pub workspaces: BTreeMap<AgentName, PathBuf>,
    /// How long calls of a category may take at most, where that is less than their contract says.
    pub timeouts: BTreeMap<Category, Duration>,
    /// The tools there are.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What tools need around them.
    pub surroundings: Surroundings,
    /// Where the time comes from.
    pub clock: Clock,
}

/// Why an engine could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No keys.
    #[error("cannot use the keys of this gate")]
    Keys(#[from] store::KeysError),
    /// No store.
    #[error("cannot open the store")]
    Store(#[from] store::OpenError),
    /// The store was opened but does not work.
    #[error("cannot use the store")]
    Use(#[from] StoreError),
    /// No credential.
    #[error("cannot use the local operator's credential")]
    Credential(#[from] CredentialError),
    /// No operator.
    #[error("cannot make the local operator")]
    Operator(#[from] AddOperatorError),
    /// A tool cannot be registered.
    #[error("cannot register the tools")]
    Register(#[from] RegisterError),
    /// Nothing can name the settings, so nothing can be decided by them.
    #[error("the settings have no canonical form")]
    Settings(#[source] CanonicalError),
    /// The local operator has no possible name.
    #[error("the local operator cannot be named")]
    Name,
    /// The tools cannot stand beside each other.
    #[error("cannot list the tools")]
    Catalogue(#[from] CatalogueError),
}

/// Takes calls, from any way in. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// What this handle sees as in force and as listed, where it sees one call through; else whatever is.
    pub(crate) held: Option<Held>,
    /// Whoever makes calls by this handle, where it can be told something while they are under way.
    pub(crate) caller: Option<Arc<Caller>>,
    /// The session of a client that this handle serves, if it serves one.
    pub(crate) session: Option<Arc<str>>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) in_force: InForce,
    pub(crate) shelf: Shelf,
    /// What agents have been told of their tools.
    pub(crate) disclosure: Disclosure,
    pub(crate) surroundings: Surroundings,
    pub(crate) workspace: PathBuf,
    pub(crate) workspaces: BTreeMap<AgentName, PathBuf>,
    clock: Steady,
    pub(crate) local_operator: LocalOperator,
    /// Operators who came in without their credential.
    pub(crate) vouched: Vouched,
    /// How the text of another configuration is read.
    pub(crate) candidates: OnceLock<Arc<ReadCandidate>>,
    /// Other people's servers.
    pub(crate) upstreams: OnceLock<Vec<Arc<Upstream>>>,
    /// Those of whoever embeds this.
    pub(crate) hooks: OnceLock<Vec<Arc<dyn Hook>>>,
    /// Whose calls hooks hear at the moment.
    pub(crate) turns: Turns,
    /// Calls that this process sees through, each with the way to stop it.
    owned: Mutex<HashMap<CallId, CancellationToken>>,
    /// Calls that somebody here is about to record or to start, and how many those are.
    in_hand: Mutex<HashMap<CallId, usize>>,
    /// Calls that have ended, and whose end the store did not take.
    unsettled: Mutex<HashMap<CallId, Settlement>>,
    /// Agents whose latest call of a tool was one too many.
    pub(crate) used_up: Mutex<HashSet<(AgentName, ToolName)>>,
    pub(crate) tasks: TaskTracker,
    /// What was counted, if anybody counts.
    pub(crate) tally: tokio::sync::Mutex<Option<Tally>>,
    /// Cancelled when the engine is closed.
    pub(crate) ending: CancellationToken,
    /// Nobody waits for people any more: this process is about to go.
    pub(crate) leaving: CancellationToken,
}

impl Engine {
    /// Opens the store, registers the tools, makes the local operator if this is the first start, and ends what gates
    /// before this one have left open.
    pub async fn open(options: Options) -> Result<Engine, OpenError> {
        let keys = Keys::load_or_create(&options.home)?;
        let store = Store::open(&options.store, keys).await?;
        let clock = steady(options.clock, &store).await?;
        let now = clock.now();
        let local_operator = local_operator(&store, &options.home, now).await?;
        let registered: Vec<ToolRow> =
            options.tools.iter().map(|tool| ToolRow::of(tool.contract())).collect();
        let states = store.register_tools(&registered, now).await?;
        let mut listed = Vec::new();
        for tool in options.tools {
            let Some(state) = states.get(tool.contract().name()) else { continue };
            let set = SetByOperators { status: state.status, requires_approval: state.requires_approval };
            listed.push(Listed::of(tool, set, &options.timeouts));
        }
        let hooks = command_hooks(&options.settings, &options.surroundings);
        let policy = Policy::of(options.settings).map_err(OpenError::Settings)?;
        let mut catalogue = Catalogue::new(listed)?;
        catalogue.registered = Arc::new(states.into_keys().collect());
        catalogue.stances = store.stances().await?;
        let inner = Inner {
            store,
            in_force: InForce::of(Snapshot::of(policy, hooks)),
            shelf: Shelf::of(catalogue, options.timeouts),
            disclosure: Disclosure::default(),
            surroundings: options.surroundings.holding_in(options.home.join("holds")),
            workspace: options.workspace,
            workspaces: options.workspaces,
            clock,
            local_operator,
            vouched: Vouched::default(),
            candidates: OnceLock::new(),
            upstreams: OnceLock::new(),
            hooks: OnceLock::new(),
            turns: Turns::default(),
            owned: Mutex::default(),
            in_hand: Mutex::default(),
            unsettled: Mutex::default(),
            used_up: Mutex::default(),
            tasks: TaskTracker::new(),
            tally: tokio::sync::Mutex::default(),
            ending: CancellationToken::new(),
            leaving: CancellationToken::new(),
        };
        let engine = Engine { inner: Arc::new(inner), held: None, caller: None, session: None };
        // What cannot be recovered now stays as it is, which is safe, and is tried again.
        engine.recover_or_tell().await;
        Ok(engine)
    }

    /// The same engine for one session of a client: what its calls run can be found by it. Nothing is decided by it.
    #[must_use]
    pub fn in_session(self) -> Engine {
        let mut bytes = [0_u8; 16];
        // Without random bytes there is no session to be found by, and calls go on.
        let session = getrandom::fill(&mut bytes).ok().map(|()| {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Arc::from(digits)
        });
        Engine { session, ..self }
    }

    /// The tools that an agent may know of.
    pub fn tools_for(&self, agent: &AgentName) -> Vec<Contract> {
        self.catalogue().visible_to(agent, &self.settings())
    }

    /// What calls of a tool can be, where that depends on their arguments.
    pub fn kinds_of(&self, tool: &ToolName) -> Vec<CallKind> {
        self.catalogue().find(tool.as_str()).map(|listed| listed.tool.kinds()).unwrap_or_default()
    }

    /// The store, for those who show what happened.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// What the configuration in force means.
    pub fn settings(&self) -> Arc<Settings> {
        self.snapshot().policy.shared_settings()
    }

    /// Where agents work that have no place of their own.
    pub fn workspace(&self) -> &Path {
        &self.inner.workspace
    }

    /// The time, as this engine has it.
    pub fn now(&self) -> i64 {
        self.inner.clock.now()
    }

    /// How far the clock is behind what is on record. Times go on from the record until it has caught up.
    pub fn clock_behind(&self) -> Duration {
        self.inner.clock.behind()
    }

    /// Answers those who wait for people here that they still do, and lets nobody wait from now on: another process
    /// can go on with it. What runs goes on.
    pub fn leave(&self) {
        self.inner.leaving.cancel();
    }

    /// Ends what this process has started, and waits until it has ended.
    pub async fn close(&self) {
        self.inner.ending.cancel();
        self.owned().values().for_each(CancellationToken::cancel);
        self.upstreams().iter().for_each(|upstream| upstream.end());
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Where an agent works at this gate.
    pub(crate) fn workspace_of(&self, agent: &AgentName) -> &Path {
        self.inner.workspaces.get(agent).unwrap_or(&self.inner.workspace)
    }

    /// Where agents work at this gate.
    pub(crate) fn workspaces(&self) -> impl Iterator<Item = &Path> {
        self.inner.workspaces.values().chain([&self.inner.workspace]).map(PathBuf::as_path)
    }

    /// Calls that this process sees through.
    pub(crate) fn owned(&self) -> MutexGuard<'_, HashMap<CallId, CancellationToken>> {
        // Whoever panicked with it in hand has left a map that is whole.
        self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_hand(&self) -> MutexGuard<'_, HashMap<CallId, usize>> {
        self.inner.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unsettled(&self) -> MutexGuard<'_, HashMap<CallId, Settlement>> {
        self.inner.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn facts(
        &self,
        request: &Request,
        consent: Option<policy::Consent>,
        operators: &[store::OperatorRow],
    ) -> Facts {
        let proposers = self.proposers_of(request);
        let may_approve = |operator: &&store::OperatorRow| {
            operator.role >= Role::Approver && !proposers.contains(&operator.name)
        };
        Facts {
            now: self.now(),
            workspace: self.workspace_of(&request.agent).to_owned(),
            operators: operators.iter().filter(may_approve).count(),
            consent,
            ..self.facts_of_gate()
        }
    }

    /// What is true of this gate whoever asks, and whenever.
    pub(crate) fn facts_of_gate(&self) -> Facts {
        Facts {
            now: 0,
            workspace: PathBuf::new(),
            operators: 0,
            egress: self.inner.surroundings.reaches_out(),
            ask_for: self.settings().ask_for,
            consent: None,
            standing: Vec::new(),
            content: None,
            tallies: Vec::new(),
        }
    }
}

/// The time, going on from what is on record and from what has passed since others have opened the store.
async fn steady(clock: Clock, store: &Store) -> Result<Steady, StoreError> {
    let boot = clock.boot();
    let witness = match &boot {
        Some(boot) => store.witness(&boot.id).await?,
        None => None,
    };
    // ATTACK(clock-set-back-between-gates): processes that come and go would else stand still in time with the record.
    let passed =
        |witness: &Witness, up: i64| up.checked_sub(witness.since_boot).filter(|passed| *passed >= 0);
    let told = match (&witness, &boot) {
        (Some(witness), Some(boot)) => {
            passed(witness, boot.up).map(|passed| witness.time.saturating_add(passed))
        }
        _ => None,
    };
    let steady = Steady::since(clock, store.latest_time().await?.max(told));
    let now = steady.now();
    if let Some(boot) = boot
        && told.is_none_or(|told| now.saturating_sub(told) > MOST_APART)
    {
        let kept = store.keep_witness(&Witness { boot: boot.id, since_boot: boot.up, time: now }).await;
        // A store that cannot be written to can still be looked at.
        if let Err(error) = kept {
            tracing::warn!(error = chain(&error), "how time goes on could not be kept");
        }
    }
    Ok(steady)
}
