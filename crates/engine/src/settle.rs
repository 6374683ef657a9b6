//! The end of a call: what is signed, kept and answered.

use contract::{
    ApprovalView, Approved, Artifact, CallId, CallResult, CallStatus, Digest, Reason, ReceiptBody, RunFacts,
    ToolName,
};
use store::{ApprovalRow, SettleError, Settlement};
use tools::Ran;

use crate::clean::{MAX_CONTENT, clean_text, clean_value};
use crate::engine::Engine;
use crate::trouble::{Trouble, written};

/// Everything about a call that its receipt repeats.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) id: CallId,
    pub(crate) agent: contract::AgentName,
    pub(crate) task: Option<contract::TaskName>,
    pub(crate) purpose: Option<String>,
    pub(crate) tool: ToolName,
    pub(crate) contract: Digest,
    pub(crate) request: Digest,
    pub(crate) arguments: Digest,
    pub(crate) asked_at: i64,
}

/// How a call ended.
pub(crate) enum End {
    /// Nothing ran.
    Refused(Reason),
    /// It ran.
    Ran(Box<Ran>),
}

impl Engine {
    /// Signs, records and answers. If that fails, the caller hears that the outcome is not on record.
    pub(crate) async fn settle(&self, case: &Case, end: End, approval: Option<&ApprovalRow>) -> CallResult {
        let now = self.now();
        let Concluded { mut result, facts, artifacts } = conclude(case, end);
        let body = ReceiptBody {
            version: 1,
            call_id: case.id.clone(),
            agent: case.agent.clone(),
            task: case.task.clone(),
            purpose: case.purpose.clone(),
            tool: case.tool.clone(),
            contract: case.contract,
            request: case.request,
            arguments: case.arguments,
            policy: self.inner.policy.hash(),
            approval: approval.and_then(approved),
            status: result.status,
            reason: result.reason.clone(),
            run: facts,
            asked_at: case.asked_at,
            settled_at: now,
        };
        result.receipt = Some(format!("r-{}", case.id));
        let Ok(recorded) = written("result", &result) else {
            return unrecorded(case, "its outcome could not be written down");
        };
        let settlement = Settlement {
            call: case.id.clone(),
            status: result.status,
            body,
            result: recorded,
            artifacts,
            now,
        };
        match self.inner.store.settle(settlement).await {
            Ok(_) => result,
            // Somebody else was faster: theirs is on record, so theirs is the answer.
            Err(SettleError::Settled { .. }) => match self.recorded(&case.id).await {
                Ok(Some(recorded)) => recorded,
                _ => unrecorded(case, "it was settled by another process"),
            },
            Err(_) => unrecorded(case, "its outcome could not be recorded"),
        }
    }

    /// The answer that is on record for a call.
    pub(crate) async fn recorded(&self, call: &CallId) -> Result<Option<CallResult>, Trouble> {
        let value = self.inner.store.result(call).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()))
    }
}

/// An end, put in order: what is answered, what is signed, what is kept.
struct Concluded {
    result: CallResult,
    facts: Option<RunFacts>,
    artifacts: Vec<(String, Vec<u8>)>,
}

fn conclude(case: &Case, end: End) -> Concluded {
    let ran = match end {
        End::Refused(reason) => {
            let result = without_effect(case, CallStatus::Refused, reason);
            return Concluded { result, facts: None, artifacts: Vec::new() };
        }
        End::Ran(ran) => *ran,
    };
    // INVARIANT(clean-before-answer): from here on nothing of the tool's own text is passed on as it was.
    let content = clean_text(&ran.output.content, MAX_CONTENT);
    let mut text = content.text;
    if content.cut {
        text.push_str("\n… cut here; see the artifacts for the whole");
    }
    let artifacts = ran.output.artifacts;
    let listed = artifacts.iter().map(|(name, bytes)| Artifact {
        name: name.clone(),
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
    });
    let status = match &ran.failure {
        None => CallStatus::Completed,
        Some(reason) if reason.code == "cancelled" => CallStatus::Cancelled,
        Some(_) => CallStatus::Failed,
    };
    if let (true, Some(reason)) = (text.is_empty(), &ran.failure) {
        text = clean_text(&reason.message, MAX_CONTENT).text;
    }
    let structured = (!ran.output.structured.is_null()).then(|| clean_value(ran.output.structured));
    let result = CallResult {
        call_id: case.id.clone(),
        tool: case.tool.clone(),
        status,
        content: text,
        is_error: ran.output.is_error || ran.failure.is_some(),
        structured,
        artifacts: listed.collect(),
        reason: ran.failure,
        approval: None,
        receipt: None,
    };
    Concluded { result, facts: Some(ran.facts), artifacts }
}

/// An answer for a call that did nothing.
pub(crate) fn without_effect(case: &Case, status: CallStatus, reason: Reason) -> CallResult {
    let hint = reason.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    CallResult {
        call_id: case.id.clone(),
        tool: case.tool.clone(),
        status,
        content: clean_text(&format!("refused ({}): {}{hint}", reason.code, reason.message), MAX_CONTENT)
            .text,
        is_error: true,
        structured: None,
        artifacts: Vec::new(),
        reason: Some(reason),
        approval: None,
        receipt: None,
    }
}

/// An answer for a call that waits for people.
pub(crate) fn waiting(case: &Case, view: ApprovalView) -> CallResult {
    let content = format!(
        "waiting for approval: {}\ncall {} · approval {}\nNothing has run yet. Make the same call again to join it, \
         or ask `call_status` for it; do not look for another way.",
        view.why, case.id, view.id
    );
    CallResult {
        call_id: case.id.clone(),
        tool: case.tool.clone(),
        status: CallStatus::Waiting,
        content,
        is_error: false,
        structured: None,
        artifacts: Vec::new(),
        reason: None,
        approval: Some(view),
        receipt: None,
    }
}

/// An answer where the store failed: whatever happened, there is no receipt for it.
pub(crate) fn unrecorded(case: &Case, why: &str) -> CallResult {
    let reason = Reason::internal(format!("the call cannot be completed: {why}"))
        .with_hint("look at the gate's own messages; nothing is retried by itself");
    without_effect(case, CallStatus::Unknown, reason)
}

fn approved(row: &ApprovalRow) -> Option<Approved> {
    let last = row.answers.last()?;
    Some(Approved { id: row.id.clone(), by: last.by.clone(), at: last.at, via: last.via.clone() })
}
