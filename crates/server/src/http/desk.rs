//! What the console shows beyond calls and questions, and what it asks of the gate for that.
//!
//! All of it only looks, but for a reading of what a call keeps private, which the ledger has first.
//!
//! # Invariants
//! - No look takes longer because the ledger is longer: each has a limit, and says what it left out. To verify is no look:
//!   it goes through all of it.

use contract::{ApprovalId, CallId, ToolName};
use engine::Credential;
use serde_json::Value;
use thiserror::Error;

use super::gate::{GateError, Pending};

/// What a gate lets operators look over.
pub trait Desk: Send + Sync {
    /// A question that waits, with all that is known of it. Nothing if it does not wait.
    fn review<'a>(&'a self, id: &'a ApprovalId) -> Pending<'a, Result<Option<Value>, GateError>>;

    /// All that the ledger tells of a call, what was decided of it, and what came of it.
    fn story<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>>;

    /// A call's receipt, checked: its signature, and its place in the ledger. Nothing if it has none yet.
    fn receipt<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>>;

    /// What a call keeps private. The ledger has it that they looked.
    fn reading<'a>(
        &'a self,
        id: &'a CallId,
        credential: &'a Credential,
    ) -> Pending<'a, Result<Value, ReadingError>>;

    /// Every tool that is listed, whoever may see it.
    fn registry(&self) -> Pending<'_, Result<Vec<Value>, GateError>>;

    /// One of them, with every version there was. Nothing if there is none of that name.
    fn registered<'a>(&'a self, name: &'a ToolName) -> Pending<'a, Result<Option<Value>, GateError>>;

    /// Every agent, and what it did lately.
    fn agents(&self) -> Pending<'_, Result<Vec<Value>, GateError>>;

    /// Whom the calls reached that were settled before a place in the ledger.
    fn egress(&self, before: Option<u64>) -> Pending<'_, Result<Value, GateError>>;

    /// How many calls there were lately, how they ended, how long they took and what they cost.
    fn overview(&self) -> Pending<'_, Result<Value, GateError>>;

    /// Which policy is in force, and those before it.
    fn policy(&self) -> Pending<'_, Result<Value, GateError>>;

    /// The entries of the ledger before a place, newest first, at most so many.
    fn entries(&self, before: Option<u64>, most: u32) -> Pending<'_, Result<Value, GateError>>;

    /// Goes through the whole ledger: how many entries it has, or the first thing wrong with it.
    fn verify(&self) -> Pending<'_, Result<Value, GateError>>;
}

/// Why somebody was not shown what a call keeps private.
#[derive(Debug, Error)]
pub enum ReadingError {
    /// There is no such call.
    #[error("there is no such call")]
    Unknown,
    /// Nothing is left of it.
    #[error("what this call was asked and gave was erased")]
    Erased,
    /// Not to them.
    #[error("{why}")]
    Forbidden {
        /// Why not.
        why: String,
    },
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] GateError),
}
