//! One past call: what was decided of it then, what came of it, and what would be decided of it now.
//!
//! Runs nothing and records nothing. What it was asked is told as lists tell it; to read all of it is an act of an operator.

use contract::{ApprovalId, CallId, Digest, OperatorName, Reason};
use policy::{Answer, Side, Step, Word, answer, with_place};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{ApprovalRow, ApprovalState, FindCallError, Opened, StoreError};
use thiserror::Error;

use crate::court::Court;
use crate::engine::Engine;
use crate::list::{ListedCall, listed};
use crate::past::{Candidate, PastError, past_call};

/// A past call, then and now.
#[derive(Debug, Serialize)]
pub struct Replay {
    /// Which call, and what came of it.
    #[serde(flatten)]
    pub call: ListedCall,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// What the policy of its time said.
    pub then: Then,
    /// What people were asked about it, if they were.
    pub approval: Option<Asked>,
    /// Why it did not run, or did not end well, if so.
    pub reason: Option<Reason>,
    /// What has become of its tool since.
    pub tool_since: ToolSince,
    /// What is said of it now; nothing if what it was asked is gone.
    pub now: Option<Now>,
}

/// What was decided of a call.
#[derive(Debug, Serialize)]
pub struct Then {
    /// In one word, before people, hooks and limits were heard.
    pub says: Word,
    /// Each layer that had a say, in order.
    pub trace: Vec<Said>,
    /// The policy that decided.
    pub policy: Digest,
}

/// One layer's say, as it was recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    /// Which layer.
    pub layer: String,
    /// `allow`, `ask`, `deny`, or `-`.
    pub says: String,
    /// In its own words.
    pub why: String,
    /// The line of the configuration that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Said {
    /// Its words, with the line that they come from where they do not name it.
    pub fn told(&self) -> String {
        with_place(&self.why, self.place.as_deref())
    }
}

/// A question about a call, and what was answered.
#[derive(Debug, Serialize)]
pub struct Asked {
    /// Which question.
    pub approval: ApprovalId,
    /// What became of it.
    pub state: ApprovalState,
    /// Who said yes.
    pub approved_by: Vec<OperatorName>,
}

/// What has become of a tool since a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSince {
    /// It has the same contract.
    Same,
    /// Its contract is another.
    Changed,
    /// There is none of that name any more, or there was none then.
    Gone,
}

/// What is said of a past call now.
#[derive(Debug, Serialize)]
pub struct Now {
    /// What decides.
    #[serde(flatten)]
    pub answer: Answer,
    /// Each layer that has a say, in order.
    pub trace: Vec<Step>,
    /// The policy that decides.
    pub policy: Digest,
}

/// Why a past call cannot be shown.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// There is no such call.
    #[error(transparent)]
    Find(#[from] FindCallError),
    /// The tables have something else than what was recorded.
    #[error("the call `{id}` is not as it was recorded")]
    Altered {
        /// Which call.
        id: CallId,
    },
    /// It cannot be decided again.
    #[error(transparent)]
    Past(#[from] PastError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// The past call whose id begins with `prefix`, decided again by the policy in force, or by a candidate.
    pub async fn replay(&self, prefix: &str, candidate: Option<Candidate>) -> Result<Replay, ReplayError> {
        let store = &self.inner.store;
        let id = store.find_call(prefix).await?;
        let altered = || ReplayError::Altered { id: id.clone() };
        let (past, told) = store.past_call(&id).await?.ok_or_else(altered)?;
        if matches!(past, Opened::Altered { .. }) {
            return Err(altered());
        }
        let row = store.call(&id).await?.ok_or_else(altered)?;
        let approval = match &row.approval {
            Some(approval) => store.approval(approval).await?.map(asked),
            None => None,
        };
        let operators = store.operators().await?;
        let court = match candidate {
            Some(candidate) => Court::of(candidate, self, &operators)?,
            None => Court::in_force(self, &operators),
        };
        // What the table says beside it is not looked at: it is not signed.
        let field = |key: &str| told.get(key).cloned().unwrap_or_default();
        let trace: Vec<Said> = serde_json::from_value(field("trace")).unwrap_or_default();
        let was_refused = field("decision") == "refuse";
        let steps = trace.iter().map(|said| (said.layer.as_str(), said.says.as_str()));
        let says = Word::recorded(steps, was_refused);
        let known = court.catalogue.find(row.tool.as_str()).map(|listed| listed.facts.hash);
        let tool_since = match known {
            Some(hash) if hash == row.contract => ToolSince::Same,
            Some(_) => ToolSince::Changed,
            None => ToolSince::Gone,
        };
        let now = match past {
            Opened::Whole(past) => {
                let call = past_call(&past);
                let tried = court.hear(&call, &Court::request(*past));
                let (answer, trace) = answer(&Side { policy: &court.policy, tried: &tried });
                Some(Now { answer, trace, policy: court.policy.hash() })
            }
            Opened::Erased { .. } | Opened::NotKept { .. } | Opened::Altered { .. } => None,
        };
        let result = store.result(&id).await?;
        let reason = result.and_then(|result| reason_of(&result));
        let (purpose, policy) = (field("purpose").as_str().map(str::to_owned), row.policy);
        let then = Then { says, trace, policy };
        Ok(Replay { call: listed(row), purpose, then, approval, reason, tool_since, now })
    }
}

fn asked(row: ApprovalRow) -> Asked {
    Asked { approval: row.id, state: row.state, approved_by: row.approvers }
}

fn reason_of(result: &Value) -> Option<Reason> {
    serde_json::from_value(result.get("reason")?.clone()).ok()
}
