//! What answers look like. Handlers answer with these, and the OpenAPI document is made from them, so that neither can
//! say something else than the other. Of what the console looks over ([`Looked`]), of simulations and of proofs they say no
//! more than that these are objects.

use contract::{
    ApprovalId, CallId, CallResult, Category, CostTier, Digest, EgressClass, Example, Finding, Idempotency,
    OperatorName, SafetyClass, ToolName, TrustLabel,
};
use engine::ShownBudget;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use store::Role;

use super::gate::{Answered, CallSummary, Question, Stands};

/// A page of calls, newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct Calls {
    pub(super) calls: Vec<CallSummary>,
    /// Give it as `cursor` to get those before these; nothing if there are none.
    pub(super) next: Option<CallId>,
}

/// Answers to many calls.
#[derive(Serialize, JsonSchema)]
pub(super) struct Results {
    /// One for each call, in their order.
    pub(super) results: Vec<CallResult>,
    /// In which of them code panicked, by their place. What such a call has done is unknown.
    pub(super) panicked: Vec<usize>,
}

/// A call that is being ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ending {
    pub(super) call_id: CallId,
    /// `ending`.
    pub(super) status: &'static str,
}

/// A page of questions that wait, oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct Approvals {
    /// The gate's time, in milliseconds since 1970.
    pub(super) now: i64,
    pub(super) approvals: Vec<Question>,
    /// How many wait in all, on this page and others; those that are shown as one count each.
    pub(super) waiting: u64,
    /// Give it as `cursor` to get those after these; nothing if there are none.
    pub(super) next: Option<String>,
}

/// A question after an answer to it, and those that were answered with it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Decided {
    #[serde(flatten)]
    pub(super) answered: Answered,
    /// What became of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<DecidedToo>,
}

/// A question that was answered with another.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum DecidedToo {
    /// It was.
    Answered(Answered),
    /// It was not.
    Not {
        approval_id: ApprovalId,
        /// Why not.
        error: String,
    },
}

/// Questions that were answered in the words of a chat.
#[derive(Serialize, JsonSchema)]
pub(super) struct AllAnswered {
    pub(super) answered: Vec<Answered>,
}

/// Every yes for more than one call.
#[derive(Serialize, JsonSchema)]
pub(super) struct Standing {
    /// The gate's time, in milliseconds since 1970.
    pub(super) now: i64,
    pub(super) standing: Vec<Stands>,
}

/// A yes that was taken back.
#[derive(Serialize, JsonSchema)]
pub(super) struct Revoked {
    pub(super) approval_id: ApprovalId,
    /// `revoked`.
    pub(super) state: &'static str,
}

/// Every budget.
#[derive(Serialize, JsonSchema)]
pub(super) struct Budgets {
    /// The gate's time, in milliseconds since 1970.
    pub(super) now: i64,
    pub(super) budgets: Vec<ShownBudget>,
}

/// Tools that an agent may know of.
#[derive(Serialize, JsonSchema)]
pub(super) struct Tools {
    pub(super) tools: Vec<Tool>,
}

/// A tool in short.
#[derive(Serialize, JsonSchema)]
pub(super) struct Tool {
    pub(super) name: ToolName,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) category: Category,
    pub(super) safety: SafetyClass,
    pub(super) egress: EgressClass,
    pub(super) cost: CostTier,
    /// The hash of its contract.
    pub(super) hash: Digest,
    /// Where it comes from, and who has looked at it.
    pub(super) trust: TrustLabel,
    /// What its description hides.
    pub(super) findings: Vec<Finding>,
}

/// A tool with all that its contract says.
#[derive(Serialize, JsonSchema)]
pub(super) struct WholeTool {
    #[serde(flatten)]
    pub(super) tool: Tool,
    /// Which kind of action a call of it is.
    pub(super) action: String,
    pub(super) idempotency: Idempotency,
    /// The JSON Schema of its arguments.
    pub(super) input: Value,
    /// The JSON Schema of what it gives.
    pub(super) output: Value,
    pub(super) examples: Vec<Example>,
    pub(super) failure_modes: Vec<String>,
    pub(super) timeout_seconds: u64,
}

/// A decision and its trace: `verdict`, `reason`, `question`, `authority`, `trace`, `policy`.
pub(super) type Explained = Map<String, Value>;
/// What another configuration would have said.
pub(super) type Simulated = Map<String, Value>;
/// An entry of the ledger, and the hashes that lead from it to a signed head.
pub(super) type Proof = Map<String, Value>;

/// What the console shows; its pages read it, and it may grow.
pub(super) type Looked = Map<String, Value>;

/// Who is signed in.
#[derive(Serialize, JsonSchema)]
pub(super) struct Me {
    pub(super) operator: OperatorName,
    pub(super) role: Role,
}

/// A new link to the page.
#[derive(Serialize, JsonSchema)]
pub(super) struct SignInLink {
    /// It opens one session, within ten minutes.
    pub(super) sign_in_url: String,
}

/// Whether calls can begin.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    Degraded,
}

/// That the gate answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    pub(super) status: State,
}

/// Whether calls can be taken.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ready {
    pub(super) status: Readiness,
}

/// What stands in the way, if anything does.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Readiness {
    Ready,
    Suspended,
    NoStore,
}

/// What `/mcp` is, as RFC 9728 has it.
#[derive(Serialize, JsonSchema)]
pub(super) struct ProtectedResource {
    pub(super) resource: String,
    pub(super) resource_name: &'static str,
    pub(super) bearer_methods_supported: [&'static str; 1],
    /// Whose tokens are taken besides the gate's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authorization_servers: Option<Vec<String>>,
    /// What such a token has to be good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scopes_supported: Option<Vec<String>>,
}
