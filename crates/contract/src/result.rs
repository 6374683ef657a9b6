//! What a caller gets back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::amount::Cost;
use crate::canonical::Digest;
use crate::cleaning::Cleaning;
use crate::id::{ApprovalId, CallId, ToolName};
use crate::reason::Reason;

/// Where a call is. No other way leads between these than the store permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It is on record, and nothing of it has begun.
    Planned,
    /// It waits for people.
    Waiting,
    /// It runs.
    Running,
    /// It ran, and went well.
    Completed,
    /// It ran, or tried to, and failed.
    Failed,
    /// It was refused; nothing ran.
    Refused,
    /// The caller took it back, or went away.
    Cancelled,
    /// It may have happened: the gate ended in the middle of it.
    Unknown,
}

impl CallStatus {
    /// The name used on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            CallStatus::Planned => "planned",
            CallStatus::Waiting => "waiting",
            CallStatus::Running => "running",
            CallStatus::Completed => "completed",
            CallStatus::Failed => "failed",
            CallStatus::Refused => "refused",
            CallStatus::Cancelled => "cancelled",
            CallStatus::Unknown => "unknown",
        }
    }

    /// Reads the name used on the wire and in the store.
    pub fn parse(text: &str) -> Option<CallStatus> {
        use CallStatus::{Cancelled, Completed, Failed, Planned, Refused, Running, Unknown, Waiting};
        [Planned, Waiting, Running, Completed, Failed, Refused, Cancelled, Unknown]
            .into_iter()
            .find(|status| status.as_str() == text)
    }

    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        !matches!(self, CallStatus::Planned | CallStatus::Waiting | CallStatus::Running)
    }
}

/// What a tool gave, before it is cleaned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// For the model.
    pub content: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// For programs; fits the output schema.
    pub structured: Value,
    /// What is too large for the model, by name.
    pub artifacts: Vec<(String, Vec<u8>)>,
}

/// Something kept for whoever wants the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What it is.
    pub name: String,
    /// Its digest, by which it is found.
    pub digest: Digest,
    /// How large it is.
    pub bytes: u64,
}

/// A question that waits for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// By which it is answered.
    pub id: ApprovalId,
    /// Why it is asked.
    pub why: String,
    /// When it is too late, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A call's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallResult {
    /// Which call.
    pub call_id: CallId,
    /// Which tool, by its true name.
    pub tool: ToolName,
    /// Where it is.
    pub status: CallStatus,
    /// For the model; cleaned.
    pub content: String,
    /// Whether it failed or was refused.
    pub is_error: bool,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// What is too large for the model.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What cleaning found in what the tool gave: numbers and names, for whoever watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaning: Option<Cleaning>,
    /// Why it did not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The question it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    /// What it cost, where the gate has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The name of its receipt: `r-` and its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}
