//! When hooks are heard about a call: in the turn of its agent, and when it could run.
//!
//! It hears nothing itself, and knows nothing of what hooks say.
//!
//! # Invariants
//! - However many calls an agent makes, no more hooks are heard about them at once than it has places, so that others' calls
//!   are heard, too. Waiting for a place takes none of a hook's own time, and is bounded.
//! - No hook hears of a call that its agent's allowance would not let run.
//! - What people have approved is heard by one caller at a time, when it can begin. Until then it waits, and loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::{AgentName, CallId, CallStatus, Reason};
use policy::{Admitted, HookTime, Verdict};
use serde_json::Value;
use store::CallRow;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::hooks::tell;
use crate::rates::with_limit;
use crate::request::Request;
use crate::settle::Case;

/// How many calls of one agent hooks hear at once.
const PLACES: usize = 4;
/// How long a call waits for a place.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Whose turn it is.
#[derive(Default)]
pub(crate) struct Turns {
    /// Of each agent that has made a call that hooks hear. What is asked here has an agent that the settings name.
    places: Mutex<BTreeMap<AgentName, Arc<Semaphore>>>,
    /// Approved calls whose turn it is.
    approved: Mutex<BTreeSet<CallId>>,
}

impl Turns {
    fn places_of(&self, agent: &AgentName) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // ATTACK(hook-crowd): many calls of one agent keep nobody else's from being heard.
        let places = places.entry(agent.clone()).or_insert_with(|| Arc::new(Semaphore::new(PLACES)));
        Arc::clone(places)
    }

    /// A place for a call of this agent. Nothing if there was none for too long.
    async fn wait(&self, agent: &AgentName) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(LONGEST_WAIT, self.places_of(agent).acquire_owned()).await.ok()?.ok()
    }

    /// The same, if there is one now.
    fn try_now(&self, agent: &AgentName) -> Option<OwnedSemaphorePermit> {
        self.places_of(agent).try_acquire_owned().ok()
    }

    fn approved(&self) -> MutexGuard<'_, BTreeSet<CallId>> {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a call that people have approved. It is over when this is dropped.
pub(crate) struct ApprovedTurn {
    engine: Engine,
    call: CallId,
    _place: OwnedSemaphorePermit,
}

impl Drop for ApprovedTurn {
    fn drop(&mut self) {
        self.engine.inner.turns.approved().remove(&self.call);
    }
}

/// Whether an approved call can be heard about.
pub(crate) enum Approved {
    /// No hook hears of it.
    Unheard,
    /// Now, for as long as this is kept.
    Now(ApprovedTurn),
    /// Later.
    NotYet,
}

impl Engine {
    /// A verdict after the hooks had their say, where the call could run: a place among those of its agent is waited for.
    pub(crate) async fn hear_in_turn(
        &self,
        case: &Case,
        request: &Request,
        admitted: &Admitted,
        verdict: Verdict,
        mut trace: Value,
    ) -> Result<(Verdict, Value), EngineError> {
        let is_heard = self.is_heard(HookTime::Before, &admitted.tool.name);
        if !is_heard || matches!(verdict, Verdict::Deny(_)) {
            return self.hear_before(request, admitted, verdict, trace).await;
        }
        let Some(_place) = self.wait_for_place(&case.agent).await else {
            let reason = no_place();
            tell(&mut trace, None, "deny", reason.message.clone())?;
            return Ok((Verdict::Deny(reason), trace));
        };
        // ATTACK(hook-storm): whoever is over the limit starts nothing. What is asked about counts when it begins.
        if matches!(verdict, Verdict::Allow(_)) {
            let limits = self.limits_on_running(&case.tool);
            let claim = self.claim_of(request, case);
            let (store, allowances) = (&self.inner.store, &limits.allowances);
            let used_up = store.used_up(&case.agent, &case.tool, claim.as_deref(), allowances, self.now());
            if let Some(used_up) = used_up.await? {
                let reason = limits.reason(used_up);
                let trace = with_limit(trace, &limits.step(used_up))?;
                return Ok((Verdict::Deny(reason), trace));
            }
        }
        self.hear_before(request, admitted, verdict, trace).await
    }

    /// Whether it is the turn of a call that people have approved. Its allowance is looked at, and not used.
    pub(crate) async fn turn_of_approved(&self, row: &CallRow) -> Result<Approved, EngineError> {
        if !self.is_heard(HookTime::Before, &row.tool) {
            return Ok(Approved::Unheard);
        }
        let turns = &self.inner.turns;
        // ATTACK(hook-again): one hearing, however many wait for the call, and however often each looks.
        let Some(place) = turns.try_now(&row.agent) else { return Ok(Approved::NotYet) };
        if !turns.approved().insert(row.id.clone()) {
            return Ok(Approved::NotYet);
        }
        let turn = ApprovedTurn { engine: self.clone(), call: row.id.clone(), _place: place };
        // Whoever had the turn before may have begun it, or ended it.
        let store = &self.inner.store;
        if store.call(&row.id).await?.is_none_or(|row| row.status != CallStatus::Waiting) {
            return Ok(Approved::NotYet);
        }
        let allowances = self.limits_on_running(&row.tool).allowances;
        let used_up = store.used_up(&row.agent, &row.tool, None, &allowances, self.now());
        Ok(match used_up.await? {
            None => Approved::Now(turn),
            Some(_) => Approved::NotYet,
        })
    }

    /// A place for hooks to hear a call of this agent. Nothing if there was none for too long.
    pub(crate) async fn wait_for_place(&self, agent: &AgentName) -> Option<OwnedSemaphorePermit> {
        self.inner.turns.wait(agent).await
    }
}

/// Why a call is not heard about.
pub(crate) fn no_place() -> Reason {
    let why = "hooks had other calls of this agent to hear, for too long";
    Reason::hook_failed(why).with_hint("make fewer calls at once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agent_has_its_places_and_leaves_others_theirs() {
        let turns = Turns::default();
        let [one, other] = ["one", "other"].map(|name| AgentName::parse(name).unwrap());
        let mut taken: Vec<_> = (0..PLACES).map(|_| turns.try_now(&one)).collect();
        assert!(taken.iter().all(Option::is_some) && turns.try_now(&one).is_none());
        assert!(turns.wait(&other).await.is_some());
        taken.pop();
        assert!(turns.wait(&one).await.is_some());
    }
}
