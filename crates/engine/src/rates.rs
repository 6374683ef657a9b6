//! How often agents call: which limits hold for a call, and what is answered when one is used up.
//!
//! It counts nothing: the store does, in the transaction that records the call.

use contract::{CallResult, CallStatus, Reason, ToolName};
use policy::{Counted, Setting, Step};
use serde_json::Value;
use store::{Allowance, UsedUp};

use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::settle::{Case, without_effect};

/// The limits that hold for one call.
pub(crate) struct Limits {
    counted: Vec<Counted>,
    /// Where the one on the agent as a whole stands.
    of_agent: Option<String>,
    pub(crate) allowances: Vec<Allowance>,
}

impl Engine {
    /// Those for a call that runs.
    pub(crate) fn limits_on_running(&self, tool: &ToolName) -> Limits {
        let settings = self.settings();
        let of_agent = settings.origins.of(&Setting::AgentRate).map(str::to_owned);
        let limits = Limits::of(settings.rates.counted(tool, self.catalogue().registered.iter()));
        Limits { of_agent, ..limits }
    }

    /// Those for a call that is refused.
    pub(crate) fn limits_on_refusing(&self) -> Limits {
        Limits::of(vec![self.settings().rates.counted_refused()])
    }
}

impl Limits {
    fn of(counted: Vec<Counted>) -> Limits {
        let allowance = |limit: &Counted| Allowance { tools: limit.tools.clone(), rate: limit.rate };
        Limits { allowances: counted.iter().map(allowance).collect(), of_agent: None, counted }
    }

    /// What the limit that is used up has to say, and where it stands.
    pub(crate) fn step(&self, used_up: UsedUp) -> Step {
        let place = self.counted.get(used_up.which).and_then(|limit| limit.place.clone());
        let place = place.or_else(|| self.of_agent.clone());
        Step { place, ..Step::of("rate", "deny", self.reason(used_up).message) }
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
pub(crate) fn with_limit(mut trace: Value, step: &Step) -> Result<Value, EngineError> {
    if let Value::Array(steps) = &mut trace {
        steps.push(written("trace", step)?);
    }
    Ok(trace)
}
