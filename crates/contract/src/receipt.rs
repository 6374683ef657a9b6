//! What a receipt says: everything that was decided, enforced and observed of one call.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::amount::Cost;
use crate::canonical::Digest;
use crate::class::Scope;
use crate::cleaning::Cleaning;
use crate::id::{AgentName, ApprovalId, CallId, OperatorName, TaskName, ToolName};
use crate::operand::Operands;
use crate::reason::Reason;
use crate::result::CallStatus;

/// The statement that is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptBody {
    /// The form of this statement.
    pub version: u32,
    /// Which call.
    pub call_id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// For what purpose, in the agent's words.
    pub purpose: Option<String>,
    /// Which tool.
    pub tool: ToolName,
    /// The hash of its contract.
    pub contract: Digest,
    /// The digest of the canonical request: agent, task, workspace, tool and arguments.
    pub request: Digest,
    /// The digest of the canonical arguments.
    pub arguments: Digest,
    /// The hash of the policy that decided.
    pub policy: Digest,
    /// Who approved it, if people were asked.
    pub approval: Option<Approved>,
    /// The files that the question bound, and what it did not, if people were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<Operands>,
    /// How it ended.
    pub status: CallStatus,
    /// Why, if not well.
    pub reason: Option<Reason>,
    /// What ran, and behind which walls; nothing if nothing ran.
    pub run: Option<RunFacts>,
    /// What it cost, where this gate has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// When the request was admitted, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it was settled, in milliseconds since 1970.
    pub settled_at: i64,
    /// Who found out what became of it, if nobody knew at first. Then this is the second receipt of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<Reconciled>,
}

/// What a person has found out about a call whose outcome was not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciled {
    /// What they found.
    pub found: Found,
    /// Who.
    pub by: OperatorName,
    /// How they know, in their words.
    pub reason: Option<String>,
}

/// Whether something happened after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// It did.
    Happened,
    /// It did not.
    DidNot,
}

impl Found {
    /// The name used on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Found::Happened => "happened",
            Found::DidNot => "did_not",
        }
    }

    /// Reads the name used on the wire and in the store.
    pub fn parse(text: &str) -> Option<Found> {
        [Found::Happened, Found::DidNot].into_iter().find(|found| found.as_str() == text)
    }
}

/// An approval, as the receipt names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// Which question.
    pub id: ApprovalId,
    /// How far the yes reaches; one that reaches further than this call was given to an earlier one.
    pub scope: Scope,
    /// Everybody who answered, in the order of their answers.
    pub by: Vec<Approver>,
}

/// One person's answer, as the receipt names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approver {
    /// Who.
    pub name: OperatorName,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// By which way.
    pub via: String,
}

/// What was really enforced and observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Which backend held it.
    pub backend: String,
    /// One entry per control: how far it was enforced.
    pub enforced: BTreeMap<String, Enforced>,
    /// How much it was granted at most, by resource: bytes, milliseconds, thousandths of a processor, processes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// The exit code, if it had one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The digest of the whole output, before cleaning.
    pub output: Option<Digest>,
    /// What cleaning found in it.
    #[serde(default, skip_serializing_if = "Cleaning::is_empty")]
    pub cleaning: Cleaning,
    /// The digest of the binary that worked inside.
    pub worker: Option<Digest>,
    /// Files changed, by path, with what happened to them.
    pub files_changed: BTreeMap<String, String>,
    /// Whether that list is all.
    pub files_changed_complete: bool,
    /// Bytes sent and received, by host.
    pub bytes_per_host: BTreeMap<String, (u64, u64)>,
    /// Whom it tried to reach, and what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// How many more there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_attempts: u64,
    /// What hooks have remarked, by the name of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remarks: BTreeMap<String, Vec<String>>,
    /// How long it took, in microseconds.
    pub wall_micros: u64,
    /// Processor time, in microseconds.
    pub cpu_micros: u64,
    /// Whether it took more than that, and nobody knows how much.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cpu_incomplete: bool,
    /// The most memory it had, in bytes.
    pub peak_memory: u64,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A place that a call tried to reach, by one way, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// `host:port` as it was asked for, or the host alone for a question about a name.
    pub place: String,
    /// `dns`, `tcp`, `tls`, `http`, `connect` or `socks`.
    pub way: String,
    /// Why it was not let through, as a stable word; nothing if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// How often.
    pub times: u64,
}

/// How far a control was enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// `enforced`, `partly` or `absent`.
    pub level: String,
    /// By what, or why not.
    pub how: String,
}
