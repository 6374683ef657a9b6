//! The policy in force: one snapshot for each call, and the ways to change it while the gate runs.
//!
//! It reads no file and knows nothing of where a policy comes from; whoever changes it says that, and the ledger keeps it.
//!
//! # Invariants
//! - A call sees one policy from its start to its end: it is made by a handle that holds a snapshot.
//! - Once [`Engine::replace_policy`] has returned, nothing is decided by the policy before, and nothing that it has decided is
//!   recorded as begun: that is decided anew. What is on record by then goes on.
//! - While nobody can tell what the policy is, no call begins.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use contract::{CanonicalError, Digest, Reason, chain};
use policy::{Policy, Settings};
use serde_json::json;
use store::{PolicyEvent, StoreError};
use thiserror::Error;

use crate::catalogue::Catalogue;
use crate::command_hook::command_hooks;
use crate::engine::Engine;
use crate::hooks::Hook;
use crate::standing::place_of;

/// What is in force at one moment: a policy, and what was made from it.
pub(crate) struct Snapshot {
    pub(crate) policy: Arc<Policy>,
    /// Those that its settings name.
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    /// A policy that only records what it would have said.
    pub(crate) shadow: Option<Arc<Policy>>,
    standing: Standing,
    /// Workspaces in which no yes of another policy is left.
    pub(crate) in_force_at: Mutex<HashSet<Digest>>,
}

/// What a handle holds on to that sees one call through.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) catalogue: Arc<Catalogue>,
}

/// Whether calls are decided by a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    InForce,
    /// There is a newer one that nobody can read.
    Suspended,
}

impl Snapshot {
    pub(crate) fn of(policy: Policy, hooks: Vec<Arc<dyn Hook>>) -> Snapshot {
        Snapshot { hooks, ..Snapshot::beside(Arc::new(policy)) }
    }

    /// One that nothing acts by: no hook hears of what it says.
    pub(crate) fn beside(policy: Arc<Policy>) -> Snapshot {
        Snapshot {
            policy,
            hooks: Vec::new(),
            shadow: None,
            standing: Standing::InForce,
            in_force_at: Mutex::default(),
        }
    }

    /// The same, with another one beside it or another standing.
    fn again(&self, shadow: Option<Arc<Policy>>, standing: Standing) -> Snapshot {
        Snapshot {
            policy: Arc::clone(&self.policy),
            hooks: self.hooks.clone(),
            shadow,
            standing,
            in_force_at: Mutex::default(),
        }
    }
}

/// Holds the snapshot in force. To take one costs a lock that nobody keeps, and a count.
pub(crate) struct InForce {
    now: RwLock<Arc<Snapshot>>,
    /// Changes come one after the other.
    changing: tokio::sync::Mutex<()>,
    /// Held by those who record that a call begins, and by whoever replaces what decides that.
    recording: tokio::sync::RwLock<()>,
}

impl InForce {
    pub(crate) fn of(snapshot: Snapshot) -> InForce {
        InForce {
            now: RwLock::new(Arc::new(snapshot)),
            changing: tokio::sync::Mutex::default(),
            recording: tokio::sync::RwLock::default(),
        }
    }

    fn now(&self) -> Arc<Snapshot> {
        // Nothing panics with it in hand.
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, snapshot: Snapshot) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }
}

/// Why a policy came into force, or was to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The gate was started.
    Start,
    /// Its files have changed.
    Reload,
    /// Somebody asked for it with a signal.
    Signal,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Cause::Start => "start",
            Cause::Reload => "reload",
            Cause::Signal => "signal",
        })
    }
}

/// Where a policy comes from, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    /// The file, or `built in`.
    pub name: String,
    /// The digest of all files that it was read from; nothing if there are none.
    pub files: Option<Digest>,
}

/// What becomes of calls when a new policy cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnBadReload {
    /// None begins until it can be had.
    #[default]
    Refuse,
    /// They are decided by the last one that was good.
    Keep,
}

/// Why a policy did not come into force.
#[derive(Debug, Error)]
pub enum ReplaceError {
    /// Nothing can name its settings, so nothing can be decided by them.
    #[error("the settings have no canonical form")]
    Settings(#[source] CanonicalError),
    /// It could not be recorded.
    #[error("the ledger does not take it")]
    Store(#[from] StoreError),
}

impl Engine {
    /// The snapshot that this handle sees: the one it holds, else the one in force.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        match &self.held {
            Some(held) => Arc::clone(&held.snapshot),
            None => self.inner.in_force.now(),
        }
    }

    /// What the policy in force is known by.
    pub fn policy_hash(&self) -> Digest {
        self.policy().hash()
    }

    /// The policy that this handle sees.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.snapshot().policy)
    }

    /// A handle that sees what is in force now, and goes on seeing it.
    pub(crate) fn anew(&self) -> Engine {
        self.seeing(self.inner.in_force.now())
    }

    pub(crate) fn seeing(&self, snapshot: Arc<Snapshot>) -> Engine {
        let held = Held { snapshot, catalogue: self.inner.shelf.now() };
        Engine { held: Some(held), ..self.clone() }
    }

    /// Keeps what is in force while it is recorded that a call begins.
    pub(crate) async fn hold_in_force(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.inner.in_force.recording.read().await
    }

    /// Waits until nobody records that a call begins, and keeps it so.
    pub(crate) async fn nobody_records(&self) -> tokio::sync::RwLockWriteGuard<'_, ()> {
        self.inner.in_force.recording.write().await
    }

    /// Whether what this handle holds is no longer what is in force, or how this tool is listed.
    pub(crate) fn is_superseded(&self, tool: &str) -> bool {
        let in_force = self.inner.in_force.now();
        self.held.as_ref().is_some_and(|held| !Arc::ptr_eq(&held.snapshot, &in_force))
            || self.is_listed_anew(tool)
    }

    /// Whether no call begins, since nobody can tell what the policy is.
    pub fn is_suspended(&self) -> bool {
        self.snapshot().standing == Standing::Suspended
    }

    /// Why a call does not begin, while nobody can tell what the policy is.
    pub(crate) fn refuse_if_suspended(&self) -> Result<(), Reason> {
        if !self.is_suspended() {
            return Ok(());
        }
        // ATTACK(unreadable-while-running)
        let why = "the policy has changed, and cannot come into force";
        let hint = "whoever runs this gate finds the reason in its log and with `toolgate policy history`; calls are taken again as soon as the policy can be read";
        Err(Reason::policy_unreadable(why).with_hint(hint))
    }

    /// Has another policy decided beside the one in force, which only records, or none. What names it.
    pub async fn set_shadow(&self, shadow: Option<Settings>) -> Result<Option<Digest>, CanonicalError> {
        let shadow = shadow.map(Policy::of).transpose()?.map(Arc::new);
        let hash = shadow.as_ref().map(|policy| policy.hash());
        let _changing = self.inner.in_force.changing.lock().await;
        let now = self.inner.in_force.now();
        self.inner.in_force.replace(now.again(shadow, now.standing));
        Ok(hash)
    }

    /// Tells the ledger which policy a gate begins with.
    pub async fn tell_policy(&self, source: &PolicySource) -> Result<(), StoreError> {
        let snapshot = self.inner.in_force.now();
        self.tell_in_force(&snapshot, None, source, Cause::Start).await
    }

    /// Puts another policy in force. Every call that is decided after this has returned is decided by it.
    pub async fn replace_policy(
        &self,
        settings: Settings,
        shadow: Option<Settings>,
        source: &PolicySource,
        cause: Cause,
    ) -> Result<Digest, ReplaceError> {
        let hooks = command_hooks(&settings, &self.inner.surroundings);
        let policy = Policy::of(settings).map_err(ReplaceError::Settings)?;
        let shadow = shadow.map(Policy::of).transpose().map_err(ReplaceError::Settings)?;
        let next = Snapshot { shadow: shadow.map(Arc::new), ..Snapshot::of(policy, hooks) };
        let hash = next.policy.hash();
        let changing = self.inner.in_force.changing.lock().await;
        let before = self.inner.in_force.now().policy.hash();
        // First on record: of a policy that the ledger does not know nothing is decided.
        self.tell_in_force(&next, Some(before), source, cause).await?;
        // ATTACK(reload-race): whoever has looked already records first.
        let nobody_records = self.inner.in_force.recording.write().await;
        self.inner.in_force.replace(next);
        drop(nobody_records);
        drop(changing);
        tracing::info!(policy = %hash, %before, %cause, "a policy came into force");
        self.end_what_is_nobodys();
        self.end_standing_everywhere().await;
        Ok(hash)
    }

    /// Tells the ledger that a policy could not come into force, and has no call begin if that is wanted.
    pub async fn reject_policy(
        &self,
        why: &str,
        source: &PolicySource,
        cause: Cause,
        then: OnBadReload,
    ) -> Result<(), StoreError> {
        let changing = self.inner.in_force.changing.lock().await;
        let now = self.inner.in_force.now();
        // Before it is told: nothing begins meanwhile.
        if then == OnBadReload::Refuse {
            let _nobody_records = self.inner.in_force.recording.write().await;
            self.inner.in_force.replace(now.again(now.shadow.clone(), Standing::Suspended));
        }
        drop(changing);
        self.tell_rejected("configuration", why, source, cause, then == OnBadReload::Refuse).await
    }

    /// Tells the ledger that a shadow cannot be read. It harms no call.
    pub async fn reject_shadow(
        &self,
        why: &str,
        source: &PolicySource,
        cause: Cause,
    ) -> Result<(), StoreError> {
        self.tell_rejected("shadow", why, source, cause, false).await
    }

    async fn tell_rejected(
        &self,
        what: &str,
        why: &str,
        source: &PolicySource,
        cause: Cause,
        suspends: bool,
    ) -> Result<(), StoreError> {
        let why: String = contract::show_hidden(why).chars().take(LONGEST_WHY).collect();
        let body = json!({
            "what": what,
            "source": source.name,
            "files": source.files,
            "why": why,
            "by": cause.to_string(),
            "in_force": self.inner.in_force.now().policy.hash(),
            "calls": if suspends { "refused" } else { "go on" },
        });
        self.inner.store.record_policy(PolicyEvent::Rejected, body, self.now()).await?;
        Ok(())
    }

    async fn tell_in_force(
        &self,
        snapshot: &Snapshot,
        before: Option<Digest>,
        source: &PolicySource,
        cause: Cause,
    ) -> Result<(), StoreError> {
        let body = json!({
            "policy": snapshot.policy.hash(),
            "shadow": snapshot.shadow.as_ref().map(|shadow| shadow.hash()),
            "source": source.name,
            "files": source.files,
            "previous": before,
            "by": cause.to_string(),
        });
        self.inner.store.record_policy(PolicyEvent::InForce, body, self.now()).await?;
        Ok(())
    }

    /// A yes ends with its policy, wherever agents work here. What cannot be ended now is ended before the next call there.
    async fn end_standing_everywhere(&self) {
        let engine = self.anew();
        let snapshot = engine.snapshot();
        for place in engine.workspaces().map(place_of).collect::<BTreeSet<Digest>>() {
            if let Err(error) = engine.end_standing_of_others(&snapshot, place).await {
                tracing::warn!(error = chain(&error), "approvals of another policy are ended later");
            }
        }
    }
}

/// As much of a reason as is kept.
const LONGEST_WHY: usize = 4096;
