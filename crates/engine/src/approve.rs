//! Questions to people: who waits, what they are asked, and what their answer sets in motion.

use contract::{
    Action, ApprovalView, CallId, CallResult, Canonical, Digest, EgressClass, Reason, SafetyClass,
};
use policy::{Consent, Ruling, Verdict, decide};
use serde::Serialize;
use store::{AnswerError, ApprovalFilter, ApprovalRow, ApprovalState, CallRow, FindError};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::call::case_of_row;
use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::operator::Credential;
use crate::request::Request;
use crate::settle::End;

/// How many questions are shown at once.
const MOST_SHOWN: u32 = 200;

/// A question, as people see it.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// The question itself.
    #[serde(flatten)]
    pub approval: ApprovalRow,
    /// The exact arguments, with everything hidden made visible.
    pub shown_arguments: String,
    /// For commands: the words of the command.
    pub command: Option<Vec<String>>,
    /// What the call would do, as it was decided; nothing if the tool is no longer the one that was asked about.
    pub action: Option<Action>,
    /// How dangerous that is.
    pub safety: Option<SafetyClass>,
    /// What would leave the machine.
    pub egress: Option<EgressClass>,
}

/// Why an answer was not taken.
#[derive(Debug, Error)]
pub enum AnswerRefused {
    /// Whoever answers is no operator.
    #[error("only an operator can decide, and this credential is nobody's")]
    NotAnOperator,
    /// The question is not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be answered, or not by them.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// The questions that wait.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, EngineError> {
        self.expire_old().await?;
        let rows = self.inner.store.approvals(ApprovalFilter::Pending, MOST_SHOWN).await?;
        Ok(rows.into_iter().map(|row| self.shown(row)).collect())
    }

    /// Takes an operator's answer to the question whose id begins with `prefix`.
    pub async fn answer(
        &self,
        prefix: &str,
        vote: store::Vote,
        reason: Option<String>,
        credential: &Credential,
        via: &str,
    ) -> Result<ApprovalRow, AnswerRefused> {
        let operator =
            self.inner.store.operator_by_credential(&credential.digest()).await.map_err(EngineError::from)?;
        let operator = operator.ok_or(AnswerRefused::NotAnOperator)?;
        self.expire_old().await?;
        let row = self.inner.store.find_approval(prefix).await?;
        let answer = store::Answer { vote, by: operator.name, via: via.to_owned(), reason, now: self.now() };
        let row = self.inner.store.answer(&row.id, answer).await?;
        if row.state == ApprovalState::Rejected {
            self.settle_rejected(&row).await?;
        }
        Ok(row)
    }

    /// Runs a waiting call if people have said yes and nobody else runs it.
    pub(crate) async fn run_if_approved(
        &self,
        row: CallRow,
        cancel: &CancellationToken,
    ) -> Result<Option<CallResult>, EngineError> {
        let Some(approval) = self.approval_of(&row).await? else { return Ok(None) };
        match approval.state {
            ApprovalState::Approved => {}
            ApprovalState::Rejected => return self.settle_rejected(&approval).await.map(Some),
            _ => return Ok(None),
        }
        let case = case_of_row(&row);
        let refuse =
            |reason| async { Ok(Some(self.settle(&case, End::Refused(reason), Some(&approval)).await)) };
        let Some(request) = request_of(&row) else {
            return refuse(Reason::internal("the recorded arguments cannot be read")).await;
        };
        // It was approved for another workspace than this gate has; the gate that has it runs it.
        if request.digest(self.workspace_of(&row.agent))? != row.request {
            return Ok(None);
        }
        // ATTACK(changed-while-waiting): the yes is one fact among others, and today's policy decides again.
        let admitted = match self.admit(row.id.clone(), &request) {
            Ok(admitted) => admitted,
            Err(reason) => return refuse(reason).await,
        };
        let facts = self.facts(&row.agent, Some(consent_of(&approval))).await?;
        let Ruling { verdict, .. } = decide(&admitted, &facts, &self.inner.policy);
        let grant = match verdict {
            Verdict::Allow(grant) => grant,
            Verdict::Deny(reason) => return refuse(reason).await,
            Verdict::Ask(_) => {
                let reason =
                    Reason::expired("the approval no longer fits: tool or policy have changed since")
                        .with_hint("make the call again to ask anew");
                return refuse(reason).await;
            }
        };
        let authority = written("grant", grant.authority())?;
        if !self.inner.store.start_approved(&row.id, &approval.id, authority, self.now()).await? {
            return Ok(None);
        }
        Ok(Some(self.see_run(case, request, grant, Some(approval), cancel.clone()).await))
    }

    /// Questions past their time are closed, and so are the calls that waited for them.
    pub(crate) async fn expire_old(&self) -> Result<(), EngineError> {
        for row in self.inner.store.expire(self.now()).await? {
            let reason =
                Reason::expired("nobody answered in time").with_hint("make the call again to ask anew");
            self.settle_unanswered(&row, reason).await?;
        }
        Ok(())
    }

    async fn settle_rejected(&self, row: &ApprovalRow) -> Result<CallResult, EngineError> {
        let who = row.answers.last().map(|answer| answer.by.to_string()).unwrap_or_default();
        let why = row.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.settle_unanswered(row, Reason::rejected(format!("`{who}` said no{why}"))).await
    }

    async fn settle_unanswered(&self, row: &ApprovalRow, reason: Reason) -> Result<CallResult, EngineError> {
        let call = self.inner.store.call(&row.call).await?.ok_or(EngineError::Missing)?;
        Ok(self.settle(&case_of_row(&call), End::Refused(reason), Some(row)).await)
    }

    /// A question with what people need to see of it.
    fn shown(&self, approval: ApprovalRow) -> Waiting {
        let arguments = Canonical::parse(&approval.arguments_json).ok();
        let value = arguments.as_ref().map(|arguments| arguments.value().clone()).unwrap_or_default();
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| approval.arguments_json.clone());
        let same_tool = self
            .inner
            .catalogue
            .find(approval.tool.as_str())
            .filter(|listed| listed.facts.hash == approval.contract);
        let facets = same_tool.and_then(|listed| listed.tool.facets(&value).ok());
        Waiting {
            shown_arguments: contract::show_hidden(&pretty),
            command: command_of(&value),
            action: facets.as_ref().map(|facets| facets.action.clone()),
            safety: facets.as_ref().map(|facets| facets.safety),
            egress: facets.as_ref().map(|facets| facets.egress),
            approval,
        }
    }

    /// The question that a call waits for.
    pub async fn question_of(&self, call: &CallId) -> Result<Option<Waiting>, EngineError> {
        Ok(self.approval_of_call(call).await?.map(|row| self.shown(row)))
    }
}

pub(crate) fn view_of(row: &ApprovalRow) -> ApprovalView {
    ApprovalView { id: row.id.clone(), why: row.why.join("; "), expires_at: row.expires_at }
}

fn consent_of(row: &ApprovalRow) -> Consent {
    Consent {
        approval: row.id.clone(),
        by: row.approvers.clone(),
        agent: row.agent.clone(),
        contract: row.contract,
        arguments: row.arguments,
        policy: row.policy,
        expires_at: row.usable_until.unwrap_or(row.expires_at),
    }
}

fn request_of(row: &CallRow) -> Option<Request> {
    let arguments = Canonical::parse(&row.arguments_json).ok()?;
    // What runs is what was asked about, or nothing.
    let unchanged: Digest = arguments.digest();
    (unchanged == row.arguments).then(|| Request {
        agent: row.agent.clone(),
        task: row.task.clone(),
        tool: row.tool.to_string(),
        arguments,
        key: None,
        purpose: row.purpose.clone(),
    })
}

fn command_of(arguments: &serde_json::Value) -> Option<Vec<String>> {
    // ATTACK(shown-in-part): further stages, variables and directories decide what happens, too.
    let told_elsewhere = ["command", "args", "profile", "purpose", "timeout"];
    if !arguments.as_object()?.keys().all(|key| told_elsewhere.contains(&key.as_str())) {
        return None;
    }
    let text = |value: &serde_json::Value| value.as_str().map(contract::show_hidden);
    let mut words = vec![text(arguments.get("command")?)?];
    words.extend(
        arguments.get("args").and_then(|args| args.as_array()).into_iter().flatten().filter_map(text),
    );
    Some(words)
}
