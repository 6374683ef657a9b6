//! The end of a call: what is signed, kept and answered.

use contract::{
    ApprovalView, Approved, Approver, Artifact, CallId, CallResult, CallStatus, Code, Digest, Reason,
    ReceiptBody, RunFacts, Scope, ToolName, chain,
};
use serde_json::{Value, json};
use store::{AnswerRow, ApprovalRow, Receipt, SettleError, Settlement, StoreError, Vote};
use tools::Ran;
use tracing::{Instrument, debug_span};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::money::reported;
use clean::{Findings, MAX_CONTENT, clean_text, clean_value};

/// The longest message or hint of a tool's own, and the longest name of something it left, in bytes.
const MAX_REASON: usize = 4096;
const MAX_NAME: usize = 256;

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
    pub(crate) policy: Digest,
    pub(crate) safety: contract::SafetyClass,
    /// The most that it can cost, if it counts for anything.
    pub(crate) quote: Option<contract::Amount>,
    pub(crate) asked_at: i64,
}

/// How a call ended.
pub(crate) enum End {
    /// Nothing ran.
    Refused(Reason),
    /// It was to run, and certainly did nothing.
    NotRun(Reason),
    /// It ran.
    Ran(Box<Ran>),
    /// It began, and nobody knows how far it came.
    Lost(Reason),
}

impl Engine {
    /// Signs, records and answers. If that fails, the caller hears that the outcome is not on record.
    pub(crate) async fn settle(&self, case: &Case, end: End, approval: Option<&ApprovalRow>) -> CallResult {
        let settled = Box::pin(self.try_settle(case, end, approval)).await;
        self.told(case, settled).await
    }

    /// Refuses a call that waits. Nothing if somebody else has begun it meanwhile: its end is theirs.
    pub(crate) async fn refuse_waiting(
        &self,
        case: &Case,
        reason: Reason,
        approval: Option<&ApprovalRow>,
    ) -> Option<CallResult> {
        match Box::pin(self.try_settle(case, End::Refused(reason), approval)).await {
            // A no that comes when it runs neither ends it nor is an answer to it.
            Err(SettleError::NoSuchWay { from: CallStatus::Running, .. }) => None,
            settled => Some(self.told(case, settled).await),
        }
    }

    /// What is answered, whether or not the end is on record.
    async fn told(&self, case: &Case, settled: Result<CallResult, SettleError>) -> CallResult {
        match settled {
            Ok(result) => result,
            // Somebody else was faster: theirs is on record, so theirs is the answer.
            Err(SettleError::Settled { .. }) => match self.recorded(&case.id).await {
                Ok(Some(recorded)) => recorded,
                _ => unsettled(case, "another process settled it"),
            },
            Err(error) => {
                tracing::error!(call = %case.id, tool = %case.tool, agent = %case.agent, error = chain(&error),
                    "a call could not be settled");
                unsettled(case, &error.to_string())
            }
        }
    }

    /// The same; what the store does not take is kept, to be handed in again.
    pub(crate) async fn try_settle(
        &self,
        case: &Case,
        end: End,
        approval: Option<&ApprovalRow>,
    ) -> Result<CallResult, SettleError> {
        let now = self.now();
        let reported = match &end {
            End::Ran(ran) => reported(&ran.output.structured),
            End::Refused(_) | End::NotRun(_) | End::Lost(_) => None,
        };
        let Concluded { mut result, facts, artifacts, raw } =
            debug_span!("clean").in_scope(|| conclude(case, end));
        let cost = self.cost_of(case, result.status, facts.as_ref(), reported);
        let operands = match approval {
            Some(approval) => self.inner.store.operands(&approval.id).await?,
            None => None,
        };
        let body = ReceiptBody {
            // From here on digests are commitments under the call's own key.
            version: 2,
            call_id: case.id.clone(),
            agent: case.agent.clone(),
            task: case.task.clone(),
            purpose: case.purpose.clone(),
            tool: case.tool.clone(),
            contract: case.contract,
            request: case.request,
            arguments: case.arguments,
            policy: case.policy,
            approval: approval.and_then(approved),
            operands,
            status: result.status,
            reason: result.reason.clone(),
            run: facts,
            cost,
            asked_at: case.asked_at,
            settled_at: now,
            reconciled: None,
        };
        result.receipt = Some(Receipt::id_of(&case.id));
        result.cost = body.cost.clone().filter(|cost| !cost.currency.is_empty());
        let Ok(recorded) = serde_json::to_string(&result) else {
            return Ok(unsettled(case, "it cannot be written down"));
        };
        let settlement = Settlement {
            call: case.id.clone(),
            status: result.status,
            body,
            result: recorded,
            raw,
            artifacts,
            now,
        };
        let settled = self.inner.store.settle(&settlement);
        match settled.instrument(debug_span!("settle")).await {
            Ok(_) => Ok(result),
            Err(error) => {
                if let SettleError::Store(_) = error {
                    self.unsettled().insert(case.id.clone(), settlement);
                }
                Err(error)
            }
        }
    }

    /// The answer that is on record for a call.
    pub(crate) async fn recorded(&self, call: &CallId) -> Result<Option<CallResult>, EngineError> {
        let value = self.inner.store.result(call).await?;
        let read =
            |value| serde_json::from_value(value).map_err(|_| StoreError::Unreadable { what: "result" });
        if let Some(result) = value.map(read).transpose()? {
            return Ok(Some(result));
        }
        // One that has ended and gives nothing was erased.
        let row = self.inner.store.call(call).await?.filter(|row| row.settled_at.is_some());
        Ok(row.map(|row| erased(&row.id, &row.tool, row.status)))
    }
}

/// An end, put in order: what is answered, what is signed, what is kept.
struct Concluded {
    result: CallResult,
    facts: Option<RunFacts>,
    artifacts: Vec<(String, Vec<u8>)>,
    /// What the tool gave, where cleaning has changed it.
    raw: Option<Value>,
}

fn conclude(case: &Case, end: End) -> Concluded {
    let ran = match end {
        End::Refused(reason) => {
            let result = without_effect(&case.id, &case.tool, CallStatus::Refused, reason);
            return Concluded { result, facts: None, artifacts: Vec::new(), raw: None };
        }
        End::NotRun(reason) => {
            let said = clean_text(&reason.message, MAX_CONTENT).text;
            let result = CallResult {
                content: said,
                ..without_effect(&case.id, &case.tool, CallStatus::Failed, reason)
            };
            return Concluded { result, facts: None, artifacts: Vec::new(), raw: None };
        }
        End::Lost(reason) => {
            let result = lost(&case.id, &case.tool, reason);
            return Concluded { result, facts: None, artifacts: Vec::new(), raw: None };
        }
        End::Ran(ran) => *ran,
    };
    // INVARIANT(clean-before-answer): from here on nothing of the tool's own text is passed on as it was.
    let content = clean_text(&ran.output.content, MAX_CONTENT);
    let content_changed = content.text != ran.output.content;
    let mut shown = ran.findings.clone();
    shown.absorb(content.findings.clone());
    // Values, reasons and names say again what the text says: what is in several of them was found once.
    let mut again = Findings::default();
    let failure = ran.failure.map(|reason| clean_reason(reason, &mut again));
    let mut text = content.text;
    if content.cut {
        text.push_str("\n… cut here; see the artifacts for the whole");
    }
    let mut in_value = Findings::default();
    let given = ran.output.structured;
    let structured = (!given.is_null()).then(|| clean_value(given.clone(), &mut in_value));
    let artifacts = ran.output.artifacts;
    let listed: Vec<Artifact> = artifacts.iter().map(|listed| list(listed, &mut again)).collect();
    let status = match &failure {
        None => CallStatus::Completed,
        Some(reason) if reason.code == Code::Cancelled => CallStatus::Cancelled,
        Some(reason) if reason.code == Code::OutcomeUnknown => CallStatus::Unknown,
        Some(_) => CallStatus::Failed,
    };
    if let (true, Some(reason)) = (text.is_empty(), &failure) {
        text.clone_from(&reason.message);
    }
    text.push_str(&note(&shown));
    let mut findings = content.findings;
    findings.agree(in_value);
    findings.agree(again);
    findings.absorb(ran.findings);
    let cleaning = findings.summary();
    let result = CallResult {
        is_error: ran.output.is_error || failure.is_some(),
        structured,
        artifacts: listed,
        cleaning: (!cleaning.is_empty()).then(|| cleaning.clone()),
        reason: failure,
        ..answer(&case.id, &case.tool, status, text)
    };
    let changed = content_changed || result.structured.as_ref().is_some_and(|cleaned| *cleaned != given);
    let raw = changed.then(|| json!({ "content": ran.output.content, "structured": given }));
    Concluded { result, facts: Some(RunFacts { cleaning, ..ran.facts }), artifacts, raw }
}

fn list((name, bytes): &(String, Vec<u8>), findings: &mut Findings) -> Artifact {
    let name = clean_text(name, MAX_NAME);
    findings.absorb(name.findings);
    Artifact { name: name.text, digest: Digest::of(bytes), bytes: bytes.len() as u64 }
}

/// What a model is told about its text: only that something in it is masked, and as what.
fn note(findings: &Findings) -> String {
    let (count, rules) = findings.masked();
    match count {
        0 => String::new(),
        1 => format!("\n… 1 string is masked here ({})", rules.join(", ")),
        _ => format!("\n… {count} strings are masked here ({})", rules.join(", ")),
    }
}

/// What a tool's own code says of its failure is its text, like all it says; and no longer than people read.
fn clean_reason(reason: Reason, findings: &mut Findings) -> Reason {
    let mut clean = |text: String| {
        let cleaned = clean_text(&text, MAX_REASON);
        findings.absorb(cleaned.findings);
        cleaned.text
    };
    Reason { message: clean(reason.message), hint: reason.hint.map(clean), ..reason }
}

/// The answer to a call, as far as every answer goes. All others begin with it.
fn answer(call: &CallId, tool: &ToolName, status: CallStatus, content: String) -> CallResult {
    CallResult {
        call_id: call.clone(),
        tool: tool.clone(),
        status,
        content,
        is_error: false,
        structured: None,
        artifacts: Vec::new(),
        cleaning: None,
        reason: None,
        approval: None,
        cost: None,
        receipt: None,
    }
}

/// An answer that is a reason.
pub(crate) fn without_effect(
    call: &CallId,
    tool: &ToolName,
    status: CallStatus,
    reason: Reason,
) -> CallResult {
    // Refusals quote what they refuse, and that is the agent's.
    let reason = clean_reason(reason, &mut Findings::default());
    let hint = reason.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let content = format!("refused ({}): {}{hint}", reason.code, reason.message);
    let content = clean_text(&content, MAX_CONTENT).text;
    CallResult { is_error: true, reason: Some(reason), ..answer(call, tool, status, content) }
}

/// An answer for a call of which nothing is kept any more.
fn erased(call: &CallId, tool: &ToolName, status: CallStatus) -> CallResult {
    answer(call, tool, status, "what this call gave was erased".to_owned())
}

/// An answer for a call that waits for people.
pub(crate) fn waiting(case: &Case, view: ApprovalView) -> CallResult {
    let content = format!(
        "waiting for approval: {}\ncall {} · approval {}\nNothing has run yet. Make the same call again to join it, \
         or ask `call_status` for it; do not look for another way. If people say no, `call_status` says why, and the same \
         call would ask them once more: do not make it.",
        view.why, case.id, view.id
    );
    CallResult { approval: Some(view), ..answer(&case.id, &case.tool, CallStatus::Waiting, content) }
}

/// An answer for a call that has begun and has no end yet.
pub(crate) fn still_running(case: &Case) -> CallResult {
    answer(&case.id, &case.tool, CallStatus::Running, format!("call {} still runs", case.id))
}

/// An answer for a call that could not be recorded, and so did not run.
pub(crate) fn not_recorded(call: &CallId, tool: &ToolName, why: &str) -> CallResult {
    let reason = Reason::internal(format!("the call could not be recorded, so nothing ran: {why}"));
    without_effect(call, tool, CallStatus::Failed, reason)
}

/// An answer for a call that may have happened: it began, and its end is not on record.
pub(crate) fn lost(call: &CallId, tool: &ToolName, reason: Reason) -> CallResult {
    let content =
        format!("unknown: {}; it may have happened, and is not tried again by itself", reason.message);
    CallResult { content, ..without_effect(call, tool, CallStatus::Unknown, reason) }
}

/// The same where the store does not have it.
fn unsettled(case: &Case, why: &str) -> CallResult {
    let reason = Reason::outcome_unknown(format!("the outcome of the call is not on record: {why}"));
    lost(&case.id, &case.tool, reason)
}

/// Everybody whose yes let the call run.
pub(crate) fn approved(row: &ApprovalRow) -> Option<Approved> {
    let approves = |answer: &&AnswerRow| answer.vote == Vote::Approve;
    let by: Vec<Approver> = row
        .answers
        .iter()
        .filter(approves)
        .map(|answer| Approver { name: answer.by.clone(), at: answer.at, via: answer.via.clone() })
        .collect();
    let scope = row.standing.as_ref().map_or(Scope::Once, |standing| standing.scope);
    (!by.is_empty()).then(|| Approved { id: row.id.clone(), scope, by })
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, Output, SafetyClass};
    use serde_json::json;

    use super::*;

    fn case() -> Case {
        let digest = Digest::of(b"");
        Case {
            id: CallId::from_random([0; 16]),
            agent: AgentName::parse("a").unwrap(),
            task: None,
            purpose: None,
            tool: ToolName::parse("shell").unwrap(),
            contract: digest,
            request: digest,
            arguments: digest,
            policy: digest,
            safety: SafetyClass::Read,
            quote: None,
            asked_at: 0,
        }
    }

    #[test]
    fn what_text_and_values_both_say_is_counted_once() {
        let dirty = ["key AKIA", "Z7QW3MNBV5XCLKJ2 \u{1b}[1m\n"].concat();
        let output = Output {
            content: dirty.clone(),
            structured: json!({ "stdout": dirty, "stderr": "\u{200b}" }),
            ..Output::default()
        };
        // Somewhere else it was cut, and a credential taken out there.
        let findings = clean::excerpt(dirty.as_bytes(), 0..12).findings;
        let ran = Ran { output, findings, facts: RunFacts::default(), failure: None };
        let Concluded { result, facts, .. } = conclude(&case(), End::Ran(Box::new(ran)));
        let cleaning = result.cleaning.unwrap();
        let counted = |rule: &str| cleaning.rules.get(rule).copied();
        assert_eq!((cleaning.masked, cleaning.removed), (2, 2));
        assert_eq!(counted("secret/aws-access-key"), Some(2));
        assert_eq!((counted("escape/colour"), counted("invisible/zero-width")), (Some(1), Some(1)));
        assert!(result.content.ends_with("\n… 2 strings are masked here (aws-access-key)"));
        assert_eq!(facts.unwrap().cleaning, cleaning);
    }
}
