//! How often agents call: which limits hold for a call, and what is answered when one is used up.
//!
//! It counts nothing: the store does, in the transaction that records the call.

use contract::{CallResult, CallStatus, Reason, ToolName};
use policy::{Counted, Step};
use serde_json::Value;
use store::{Allowance, UsedUp};

use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::settle::{Case, without_effect};

/// The limits that hold for one call.
pub(crate) struct Limits {
    counted: Vec<Counted>,
    pub(crate) allowances: Vec<Allowance>,
}

impl Engine {
    /// Those for a call that runs.
    pub(crate) fn limits_on_running(&self, tool: &ToolName) -> Limits {
        Limits::of(self.settings().rates.counted(tool, self.catalogue().registered.iter()))
    }

    /// Those for a call that is refused.
    pub(crate) fn limits_on_refusing(&self) -> Limits {
        Limits::of(vec![self.settings().rates.counted_refused()])
    }
}

impl Limits {
    fn of(counted: Vec<Counted>) -> Limits {
        let allowance = |limit: &Counted| Allowance { tools: limit.tools.clone(), rate: limit.rate };
        Limits { allowances: counted.iter().map(allowance).collect(), counted }
    }

    /// Why a call has to wait.
    pub(crate) fn reason(&self, used_up: UsedUp) -> Reason {
        match self.counted.get(used_up.which) {
            Some(limit) => limit.used_up(used_up.wait_ms),
            None => Reason::rate_limited("this agent calls too often").retry_after(used_up.wait_ms),
        }
    }

    /// The answer to a refused call that is one too many to be recorded by itself.
    pub(crate) fn unrecorded(&self, case: &Case, used_up: UsedUp, reason: &Reason) -> CallResult {
        let limited = self.reason(used_up);
        let why = format!("{}; this one was refused, too: {}", limited.message, reason.message);
        without_effect(&case.id, &case.tool, CallStatus::Refused, Reason { message: why, ..limited })
    }
}

/// A trace with what the limit had to say in the end.
pub(crate) fn with_limit(mut trace: Value, reason: &Reason) -> Result<Value, EngineError> {
    let step = Step::of("rate", "deny", reason.message.clone());
    if let Value::Array(steps) = &mut trace {
        steps.push(written("trace", &step)?);
    }
    Ok(trace)
}
