//! What the HTTP surface needs of the gate behind it, and the words it says it in.
//!
//! The surface opens no store and no sandbox: it knows only this. The engine is the gate; tests put another one here.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use contract::{
    AgentName, ApprovalId, CallId, CallResult, CallStatus, Contract, Digest, EgressClass, Found, Operands,
    OperatorName, SafetyClass, Scope, TaskName, ToolName,
};
use engine::{
    Audience, Batch, Credential, Numbers, Offer, RefusedMessage, RefusedToken, Request, ShownBudget,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Role, Vote};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;
use super::entrance::Entrance;

/// An answer on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything that can be asked of a gate over HTTP.
pub trait Gate: Desk + Entrance {
    /// The time, in milliseconds since 1970.
    fn now(&self) -> i64;

    /// How long a waiting call blocks unless its caller says otherwise.
    fn patience(&self) -> Duration;

    /// Whether no call begins, since nobody can tell what the policy is.
    fn is_suspended(&self) -> bool;

    /// Whose credential it is.
    fn operator<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<Option<Person>, GateError>>;

    /// Takes a call to its answer, as `Engine::call` does.
    fn call(
        &self,
        request: Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, CallResult>;

    /// Takes many calls to their answers, as `Engine::call_all` does.
    fn call_all(
        &self,
        requests: Vec<Request>,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, Batch>;

    /// Joins a call that the agent made before. Nothing if there is none of that agent.
    fn status<'a>(
        &'a self,
        agent: &'a AgentName,
        id: &'a CallId,
        patience: Duration,
    ) -> Pending<'a, Result<Option<CallResult>, GateError>>;

    /// The last calls, newest first: of one agent, or of all; those before one, if one is given.
    fn calls<'a>(
        &'a self,
        of: Option<&'a AgentName>,
        most: u32,
        before: Option<&'a CallId>,
    ) -> Pending<'a, Result<Vec<CallSummary>, GateError>>;

    /// One call as it is on record. Sets nothing in motion.
    fn record<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<CallRecord>, GateError>>;

    /// Ends a call; where an operator does, the ledger has first who and by which way.
    fn cancel<'a>(
        &'a self,
        id: &'a CallId,
        by: Option<(&'a Credential, &'static str)>,
    ) -> Pending<'a, Result<Cancelled, GateError>>;

    /// The questions that wait, oldest first: those after one, if one is given, at most so many.
    fn questions<'a>(
        &'a self,
        after: Option<&'a (i64, ApprovalId)>,
        most: u32,
    ) -> Pending<'a, Result<Questions, GateError>>;

    /// Takes an operator's answer to a question.
    fn decide<'a>(
        &'a self,
        id: &'a ApprovalId,
        decision: Decision,
        credential: &'a Credential,
        via: &'static str,
    ) -> Pending<'a, Result<Answered, DecideError>>;

    /// Takes the answer of an operator whom a chat vouches for, to one call.
    fn decide_by_chat<'a>(
        &'a self,
        id: &'a ApprovalId,
        vote: Vote,
        reason: Option<String>,
        by: &'a OperatorName,
        via: &'a str,
    ) -> Pending<'a, Result<Answered, DecideError>>;

    /// Takes a signed message, which is remembered until then. Whether it is the first time.
    fn take_message<'a>(&'a self, message: &'a Digest, until: i64) -> Pending<'a, Result<bool, GateError>>;

    /// Says in the ledger that a message was not taken.
    fn tell_refused<'a>(&'a self, refused: RefusedMessage<'a>) -> Pending<'a, Result<(), GateError>>;

    /// Says in the ledger that a token let nobody in.
    fn tell_refused_token<'a>(&'a self, refused: RefusedToken<'a>) -> Pending<'a, Result<(), GateError>>;

    /// Takes an operator's word on a call whose outcome nobody knows. What it counts as now.
    fn reconcile<'a>(
        &'a self,
        id: &'a CallId,
        word: Word,
        credential: &'a Credential,
    ) -> Pending<'a, Result<CallResult, WordError>>;

    /// Every yes for more than one call that is good now, newest first.
    fn standing(&self) -> Pending<'_, Result<Vec<Stands>, GateError>>;

    /// Every budget, and what is left of it.
    fn budgets(&self) -> Pending<'_, Result<Vec<ShownBudget>, GateError>>;

    /// Takes a yes back.
    fn revoke<'a>(
        &'a self,
        id: &'a ApprovalId,
        reason: Option<String>,
        credential: &'a Credential,
    ) -> Pending<'a, Result<(), DecideError>>;

    /// The whole id of the question that begins so.
    fn find_question<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<ApprovalId, DecideError>>;

    /// The tools that an agent may know of.
    fn tools(&self, agent: &AgentName) -> Vec<Contract>;

    /// What would be decided of a call, and why.
    fn explain<'a>(&'a self, request: &'a Request, to: Audience) -> Pending<'a, Result<Value, GateError>>;

    /// What another configuration would have said of recorded calls. The ledger has it that they looked.
    fn simulate<'a>(
        &'a self,
        wish: Simulate,
        by: &'a OperatorName,
    ) -> Pending<'a, Result<Value, SimulateError>>;

    /// The ledger's newest checkpoint: a signed note.
    fn checkpoint(&self) -> Pending<'_, Result<String, GateError>>;

    /// The proof that an entry is in the ledger. Nothing if there is no such entry.
    fn proof(&self, seq: u64) -> Pending<'_, Result<Option<Value>, GateError>>;

    /// How many entries the ledger has.
    fn ledger_size(&self) -> Pending<'_, Result<u64, GateError>>;

    /// The ledger's entries from a place on, at most so many.
    fn events(&self, from: u64, most: u32) -> Pending<'_, Result<Vec<Event>, GateError>>;

    /// What has happened, in numbers.
    fn numbers(&self) -> Pending<'_, Result<Numbers, GateError>>;

    /// Answers those who wait for people that they still do, and lets nobody wait from now on. What runs goes on.
    fn leave(&self);

    /// Ends what still runs, and waits until it has ended.
    fn close(&self) -> Pending<'_, ()>;
}

/// Why the gate could not answer.
#[derive(Debug, Error)]
pub enum GateError {
    /// The store failed.
    #[error("cannot use the store")]
    Store(#[source] Box<dyn Error + Send + Sync>),
    /// The gate itself failed.
    #[error("the gate failed")]
    Internal(#[source] Box<dyn Error + Send + Sync>),
}

/// Why an answer was not taken.
#[derive(Debug, Error)]
pub enum DecideError {
    /// There is no such question.
    #[error("there is no such question")]
    Unknown,
    /// It has been answered before, or taken back.
    #[error("the question is no longer open: it is {state}")]
    Closed {
        /// What has become of it.
        state: String,
    },
    /// It came too late.
    #[error("the question has expired")]
    Expired,
    /// Not by them.
    #[error("{why}")]
    Forbidden {
        /// Why not.
        why: String,
    },
    /// Not so.
    #[error("{why}")]
    NotSo {
        /// Why not.
        why: String,
    },
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// A configuration that is not in force, and the calls it is tried on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// The text of the configuration.
    pub policy: String,
    /// Only calls asked since then, in milliseconds since 1970.
    #[serde(default)]
    pub since: Option<i64>,
    /// Only calls asked until then.
    #[serde(default)]
    pub until: Option<i64>,
    /// Only calls of this agent.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// Only calls of these tools, such as `git.*`.
    #[serde(default)]
    pub tool: Option<String>,
    /// How many calls of each group are named; 3 unless given.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Why a candidate was not tried.
#[derive(Debug, Error)]
pub enum SimulateError {
    /// What was asked for makes no sense.
    #[error("{why}")]
    NotSo {
        /// Why not.
        why: String,
    },
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Who.
    pub name: OperatorName,
    /// What they may do.
    pub role: Role,
}

/// A person's answer, and why.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Yes or no.
    #[serde(rename = "verdict")]
    pub vote: Vote,
    /// Why; whoever asked will read it.
    #[serde(default)]
    pub reason: Option<String>,
    /// How far a yes reaches.
    #[serde(default = "once")]
    pub scope: Scope,
    /// Until when one that reaches beyond this call is good, in milliseconds since 1970.
    #[serde(default)]
    pub until: Option<i64>,
    /// Questions that were shown as one with this, which are answered with it, for one call each.
    #[serde(default)]
    pub also: Vec<ApprovalId>,
}

fn once() -> Scope {
    Scope::Once
}

/// What a person has found out about a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Whether it happened.
    pub found: Found,
    /// How they know.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Why a person's word was not taken.
#[derive(Debug, Error)]
pub enum WordError {
    /// There is no such call.
    #[error("there is no such call")]
    Unknown,
    /// There is nothing to find out, or somebody has.
    #[error("{why}")]
    Known {
        /// What is known.
        why: String,
    },
    /// Not by them.
    #[error("{why}")]
    Forbidden {
        /// Why not.
        why: String,
    },
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// A question after an answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answered {
    /// Which question.
    pub approval_id: ApprovalId,
    /// Which call it is about.
    pub call_id: CallId,
    /// What has become of it: `approved`, `rejected`, or `pending` where more people must answer.
    pub state: String,
}

/// What became of the wish to end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is being ended.
    Ending,
    /// It had ended before.
    Ended,
    /// It cannot be ended from here.
    NotHere,
    /// Not by them.
    NotAllowed,
}

/// A question as people see it. What agents wrote has everything hidden made visible.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Question {
    /// By which it is answered.
    pub approval_id: ApprovalId,
    /// Which call it is about.
    pub call_id: CallId,
    /// Who asks.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool, by its true name.
    pub tool: ToolName,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// Why people are asked.
    pub why: Vec<String>,
    /// The exact arguments.
    pub shown_arguments: String,
    /// For commands: the words of the command.
    pub command: Option<Vec<String>>,
    /// What kind of action it is.
    pub action: Option<String>,
    /// How dangerous the tool is.
    pub safety: Option<SafetyClass>,
    /// What leaves the machine.
    pub egress: Option<EgressClass>,
    /// The files that it names, by their digests, and what may be something else by the time it runs.
    pub operands: Option<Operands>,
    /// The hash of the tool's contract.
    pub contract: Digest,
    /// The hash of the policy that asks.
    pub policy: Digest,
    /// Where it would run.
    pub workspace: Option<String>,
    /// What a yes can be given for, and what each covers.
    pub offers: Vec<Offer>,
    /// The same question again, for other tasks or under other keys.
    pub also: Vec<Also>,
    /// The operators who want it, and so do not answer.
    pub proposers: Vec<OperatorName>,
    /// Whom it has reached because nobody answered.
    pub escalated_to: Vec<OperatorName>,
    /// How many people must agree.
    pub quorum: u32,
    /// Who has agreed so far.
    pub approved_by: Vec<OperatorName>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it is too late, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A page of questions.
#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    /// They.
    pub questions: Vec<Question>,
    /// After which the next page begins: when it was asked, and its id. Nothing if this is the last.
    pub next: Option<(i64, ApprovalId)>,
    /// How many wait in all.
    pub waiting: u64,
}

/// The same question again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Also {
    /// By which it is answered.
    pub approval_id: ApprovalId,
    /// For which task.
    pub task: Option<TaskName>,
    /// When it is too late, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A yes for more than one call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Stands {
    /// By which it is taken back.
    pub approval_id: ApprovalId,
    /// For whom.
    pub agent: AgentName,
    /// For which tool.
    pub tool: ToolName,
    /// How far it reaches.
    pub scope: Scope,
    /// What it covers, in words.
    pub covers: String,
    /// The arguments that it was given to.
    pub shown_arguments: String,
    /// For commands: the words of the command.
    pub command: Option<Vec<String>>,
    /// Who gave it.
    pub granted_by: OperatorName,
    /// When, in milliseconds since 1970.
    pub granted_at: i64,
    /// Until when, in milliseconds since 1970.
    pub expires_at: i64,
    /// How many calls have run under it.
    pub uses: u64,
    /// Whether the policy has changed since, so that it covers nothing.
    pub other_policy: bool,
}

/// A call in a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallSummary {
    /// Which call.
    pub call_id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// For what, in the agent's words, with everything hidden made visible.
    pub purpose: Option<String>,
    /// Where it is.
    pub status: CallStatus,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it was settled, in milliseconds since 1970.
    pub settled_at: Option<i64>,
    /// By which its receipt is found.
    pub receipt: Option<String>,
}

/// A call with its answer so far.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallRecord {
    /// Its answer, as the call itself got it.
    #[serde(flatten)]
    pub result: CallResult,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// For what, in the agent's words, with everything hidden made visible.
    pub purpose: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
}

/// That something happened; what it was is asked for elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Event {
    /// Its place in the ledger.
    pub seq: u64,
    /// What kind of thing.
    pub kind: String,
    /// When, in milliseconds since 1970.
    pub time: i64,
    /// Which call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Which question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
}
