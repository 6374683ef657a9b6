//! Ends the calls that nobody sees through any more: of gates that died, and of this one where it lost sight of them.
//!
//! It repeats nothing. What had not begun is ended as not run, and whoever asked may ask again; what may have begun is
//! `unknown` until a person finds out; what waits for people goes on waiting.
//!
//! # Invariants
//! - A call whose owner lives is left alone.
//! - No effect is made here.

use std::collections::hash_map::Entry;
use std::time::Duration;

use contract::{CallId, CallStatus, GateId, Reason, SafetyClass, chain};
use store::{CallRow, Fate, SettleError};

use crate::call::case_of_row;
use crate::crash::is_seeded;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::settle::End;

/// How often a gate that goes on living looks for those that do not.
const LOOK_AFTER: Duration = Duration::from_secs(15);

/// How many calls are ended at a time.
const AT_A_TIME: u32 = 100;

impl Engine {
    /// Ends the calls that nobody sees through any more. How many those were.
    pub async fn recover(&self) -> Result<usize, EngineError> {
        let mut ended = 0;
        for owner in self.inner.store.owners().await? {
            ended += self.recover_from(owner.as_ref()).await?;
        }
        self.inner.store.sweep()?;
        Ok(ended)
    }

    /// Recovers every so often, until the engine is closed.
    pub fn keep_recovering(&self) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AFTER) => {}
                    () = engine.inner.ending.cancelled() => return,
                }
                engine.recover_or_tell().await;
            }
        });
    }

    /// The same once; what goes wrong is told to operators, and tried again later.
    pub(crate) async fn recover_or_tell(&self) {
        match self.recover().await {
            Ok(0) => {}
            Ok(calls) => tracing::info!(calls, "calls that nobody saw through were ended"),
            Err(error) => tracing::warn!(error = chain(&error), "recovery failed, and is tried again"),
        }
    }

    /// Ends the calls of one owner, if it is no more. How many those were.
    pub(crate) async fn recover_from(&self, owner: Option<&GateId>) -> Result<usize, EngineError> {
        let store = &self.inner.store;
        if is_seeded("leaves_the_calls_of_the_dead_alone") {
            return Ok(0);
        }
        let fate = store.fate(owner).await?;
        match (fate, owner) {
            (Fate::Lives, _) => return Ok(0),
            (Fate::Lost, Some(gate)) => {
                store.lose(gate, self.now()).await?;
            }
            (Fate::Lost, None) | (Fate::Own, _) => {}
        }
        let mut ended = 0;
        loop {
            let rows = store.under_way(owner, AT_A_TIME).await?;
            let mut here = 0;
            for row in &rows {
                if fate == Fate::Own && self.is_seen_through(&row.id) {
                    continue;
                }
                here += usize::from(self.end_unseen(row).await?);
            }
            ended += here;
            if here == 0 || rows.len() < AT_A_TIME as usize {
                return Ok(ended);
            }
        }
    }

    /// Ends one call that nobody sees through. False if somebody else did.
    async fn end_unseen(&self, row: &CallRow) -> Result<bool, EngineError> {
        let kept = self.unsettled().get(&row.id).cloned();
        let settled = match kept {
            // It was seen to its end, and only the record was missing.
            Some(settlement) => self.inner.store.settle(&settlement).await.map(drop),
            None => {
                let approval = self.approval_of(row).await?;
                self.try_settle(&case_of_row(row), end_of(row), approval.as_ref()).await.map(drop)
            }
        };
        match settled {
            Ok(()) | Err(SettleError::Settled { .. } | SettleError::NotOurs { .. }) => {
                self.unsettled().remove(&row.id);
                if settled.is_ok() {
                    tracing::warn!(call = %row.id, tool = %row.tool, agent = %row.agent, "recovery has ended a call");
                }
                Ok(settled.is_ok())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether somebody in this process is at it, or about to be.
    pub(crate) fn is_seen_through(&self, id: &CallId) -> bool {
        self.owned().contains_key(id) || self.in_hand().contains_key(id)
    }

    /// Takes a call in hand before it is on record, so that nobody takes it for a forgotten one.
    pub(crate) fn take_in_hand(&self, id: &CallId) -> InHand {
        *self.in_hand().entry(id.clone()).or_default() += 1;
        InHand { engine: self.clone(), id: id.clone() }
    }
}

/// A call that somebody is at.
pub(crate) struct InHand {
    engine: Engine,
    id: CallId,
}

impl Drop for InHand {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.engine.in_hand().entry(self.id.clone()) {
            match entry.get() {
                0 | 1 => drop(entry.remove()),
                _ => *entry.get_mut() -= 1,
            }
        }
    }
}

/// What can be said of a call whose gate is no more.
fn end_of(row: &CallRow) -> End {
    match (row.status, row.safety) {
        (CallStatus::Refused, _) => {
            End::Refused(Reason::interrupted("it was refused, and the gate ended before it said why"))
        }
        // ATTACK(blind-retry): what only reads has changed nothing, however far it came. Of the rest nobody knows.
        (CallStatus::Running, SafetyClass::Read) => End::NotRun(
            Reason::interrupted(
                "the gate ended in the middle of the call; it only reads, so nothing has changed",
            )
            .with_hint("make the call again"),
        ),
        (CallStatus::Running, _) => End::Lost(
            Reason::outcome_unknown("the gate ended in the middle of the call")
                .with_hint("an operator looks what happened, and says so with `toolgate reconcile`"),
        ),
        _ => End::NotRun(
            Reason::interrupted("the gate ended before the call began; nothing has happened")
                .with_hint("make the call again"),
        ),
    }
}
