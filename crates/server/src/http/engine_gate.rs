//! The engine as the gate behind the HTTP surface. It translates; it decides nothing.

use std::error::Error;
use std::time::Duration;

use contract::{
    AgentName, ApprovalId, CallId, CallResult, CallStatus, Contract, Digest, OperatorName, show_hidden,
};
use engine::{
    AT_ONCE, AnswerRefused, Audience, Batch, Credential, Engine, Folded, Numbers, Past, PastError, Reach,
    ReconcileRefused, RefusedMessage, RefusedToken, Reply, Request, RevokeRefused, ShownBudget, Standing,
    StopRefused, Waiting, WaitingPage,
};
use serde_json::{Value, json};
use store::{
    AnswerError, ApprovalRow, CallLine, CallRow, FindCallError, FindError, LedgerEntry, PolicyEvent,
    ProofError, Receipt, ReconcileError, RevokeError, Span, StopError, StoreError, Vote,
};
use tokio_util::sync::CancellationToken;

use super::gate::{
    Also, Answered, CallRecord, CallSummary, Cancelled, DecideError, Decision, Event, Gate, GateError,
    Pending, Person, Question, Questions, Simulate, SimulateError, Stands, Word, WordError,
};

/// How many calls a candidate is tried on at most; `stopped_at` says where to go on.
const MOST_SIMULATED: u64 = 100_000;
/// For how long at most.
const LONGEST_SIMULATION: Duration = Duration::from_secs(20);
/// How many calls of a group are named at most.
const MOST_EXAMPLES: usize = 100;

impl Gate for Engine {
    fn now(&self) -> i64 {
        Engine::now(self)
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.settings().asking.wait_for).unwrap_or_default())
    }

    fn is_suspended(&self) -> bool {
        Engine::is_suspended(self)
    }

    fn operator<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<Option<Person>, GateError>> {
        Box::pin(async move {
            let known = self.operator_of(credential).await.map_err(trouble)?;
            Ok(known.map(|operator| Person { name: operator.name, role: operator.role }))
        })
    }

    fn call(
        &self,
        request: Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, CallResult> {
        Box::pin(Engine::call(self, request, patience, cancel))
    }

    fn call_all(
        &self,
        requests: Vec<Request>,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Pending<'_, Batch> {
        Box::pin(Engine::call_all(self, requests, AT_ONCE, patience, cancel))
    }

    fn status<'a>(
        &'a self,
        agent: &'a AgentName,
        id: &'a CallId,
        patience: Duration,
    ) -> Pending<'a, Result<Option<CallResult>, GateError>> {
        Box::pin(
            async move { self.collect(agent, id, patience, CancellationToken::new()).await.map_err(trouble) },
        )
    }

    fn calls<'a>(
        &'a self,
        of: Option<&'a AgentName>,
        most: u32,
        before: Option<&'a CallId>,
    ) -> Pending<'a, Result<Vec<CallSummary>, GateError>> {
        Box::pin(async move { latest_calls(self, of, most, before).await.map_err(trouble) })
    }

    fn record<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<CallRecord>, GateError>> {
        Box::pin(async move { record_of(self, id).await })
    }

    fn cancel<'a>(
        &'a self,
        id: &'a CallId,
        by: Option<(&'a Credential, &'static str)>,
    ) -> Pending<'a, Result<Cancelled, GateError>> {
        Box::pin(async move {
            let ends = match by {
                None => Engine::cancel(self, id),
                Some((credential, via)) => match self.stop(id, credential, via).await {
                    Ok(ends) => ends,
                    Err(StopRefused::NotAnOperator | StopRefused::Stop(StopError::NotAllowed { .. })) => {
                        return Ok(Cancelled::NotAllowed);
                    }
                    Err(error) => return Err(trouble(error)),
                },
            };
            if ends {
                return Ok(Cancelled::Ending);
            }
            let row = self.store().call(id).await.map_err(trouble)?;
            let has_ended = row.is_none_or(|row| row.status.is_final());
            Ok(if has_ended { Cancelled::Ended } else { Cancelled::NotHere })
        })
    }

    fn questions<'a>(
        &'a self,
        after: Option<&'a (i64, ApprovalId)>,
        most: u32,
    ) -> Pending<'a, Result<Questions, GateError>> {
        Box::pin(async move {
            let WaitingPage { waiting, next, open } =
                self.waiting_after(after, most).await.map_err(trouble)?;
            let questions = waiting.into_iter().map(question).collect();
            Ok(Questions { questions, next, waiting: open })
        })
    }

    fn decide<'a>(
        &'a self,
        id: &'a ApprovalId,
        decision: Decision,
        credential: &'a Credential,
        via: &'static str,
    ) -> Pending<'a, Result<Answered, DecideError>> {
        Box::pin(async move {
            let reach = Reach { scope: decision.scope, until: decision.until };
            let reply = Reply { vote: decision.vote, reason: decision.reason, reach };
            let row = self.reply(id.as_str(), reply, credential, via).await.map_err(refused)?;
            Ok(answered(row))
        })
    }

    fn decide_by_chat<'a>(
        &'a self,
        id: &'a ApprovalId,
        vote: Vote,
        reason: Option<String>,
        by: &'a OperatorName,
        via: &'a str,
    ) -> Pending<'a, Result<Answered, DecideError>> {
        Box::pin(async move {
            let row = self.answer_by_chat(id, vote, reason, by, via).await.map_err(refused)?;
            Ok(answered(row))
        })
    }

    fn take_message<'a>(&'a self, message: &'a Digest, until: i64) -> Pending<'a, Result<bool, GateError>> {
        Box::pin(async move { Engine::take_message(self, message, until).await.map_err(trouble) })
    }

    fn tell_refused<'a>(&'a self, refused: RefusedMessage<'a>) -> Pending<'a, Result<(), GateError>> {
        Box::pin(async move { self.tell_refused_message(refused).await.map_err(trouble) })
    }

    fn tell_refused_token<'a>(&'a self, refused: RefusedToken<'a>) -> Pending<'a, Result<(), GateError>> {
        Box::pin(async move { Engine::tell_refused_token(self, refused).await.map_err(trouble) })
    }

    fn reconcile<'a>(
        &'a self,
        id: &'a CallId,
        word: Word,
        credential: &'a Credential,
    ) -> Pending<'a, Result<CallResult, WordError>> {
        Box::pin(async move {
            let said = Engine::reconcile(self, id.as_str(), word.found, word.reason, credential).await;
            said.map_err(word_refused)
        })
    }

    fn standing(&self) -> Pending<'_, Result<Vec<Stands>, GateError>> {
        Box::pin(async move {
            let rows = Engine::standing(self).await.map_err(trouble)?;
            Ok(rows.into_iter().filter_map(stands).collect())
        })
    }

    fn budgets(&self) -> Pending<'_, Result<Vec<ShownBudget>, GateError>> {
        Box::pin(async move { Engine::budgets(self).await.map_err(trouble) })
    }

    fn revoke<'a>(
        &'a self,
        id: &'a ApprovalId,
        reason: Option<String>,
        credential: &'a Credential,
    ) -> Pending<'a, Result<(), DecideError>> {
        Box::pin(async move {
            Engine::revoke(self, id.as_str(), reason, credential).await.map(drop).map_err(not_revoked)
        })
    }

    fn find_question<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<ApprovalId, DecideError>> {
        Box::pin(async move {
            match self.store().find_approval(prefix).await {
                Ok(row) => Ok(row.id),
                Err(FindError::Store(error)) => Err(DecideError::Gate(trouble(error))),
                Err(error @ FindError::Ambiguous { .. }) => {
                    Err(DecideError::NotSo { why: error.to_string() })
                }
                Err(_) => Err(DecideError::Unknown),
            }
        })
    }

    fn tools(&self, agent: &AgentName) -> Vec<Contract> {
        self.tools_for(agent)
    }

    fn explain<'a>(&'a self, request: &'a Request, to: Audience) -> Pending<'a, Result<Value, GateError>> {
        Box::pin(async move {
            let explanation = Engine::explain(self, request, to).await.map_err(trouble)?;
            serde_json::to_value(explanation).map_err(internal)
        })
    }

    fn simulate<'a>(
        &'a self,
        wish: Simulate,
        by: &'a OperatorName,
    ) -> Pending<'a, Result<Value, SimulateError>> {
        Box::pin(async move {
            let not_so = |why: String| SimulateError::NotSo { why };
            let Simulate { policy, since, until, agent, tool, limit } = wish;
            let about = json!({
                "by": by, "via": "http", "text": Digest::of(policy.as_bytes()),
                "since": since, "until": until, "agent": agent, "tool": tool,
            });
            // Beside the calls: a long configuration takes a while to be understood.
            let engine = self.clone();
            let candidate = tokio::task::spawn_blocking(move || engine.read_candidate(&policy)).await;
            let candidate = candidate.map_err(internal)?.map_err(not_so)?;
            let past = Past {
                span: Span { since, until, agent },
                tool: tool.as_deref().map(Past::tools).transpose().map_err(not_so)?,
                examples: limit.unwrap_or(3).min(MOST_EXAMPLES),
                most_calls: Some(MOST_SIMULATED),
                longest: Some(LONGEST_SIMULATION),
            };
            // Rule by rule, a candidate tells what is in the arguments of others.
            self.store()
                .record_policy(PolicyEvent::Tried, about, Engine::now(self))
                .await
                .map_err(trouble)?;
            let simulated = Engine::simulate(self, candidate, &past, |_, _| ()).await;
            let simulated = simulated.map_err(|error| match error {
                PastError::Settings(_) | PastError::Catalogue(_) => not_so(error.to_string()),
                PastError::Store(_) | PastError::Broken => SimulateError::Gate(trouble(error)),
            })?;
            Ok(serde_json::to_value(simulated).map_err(internal)?)
        })
    }

    fn checkpoint(&self) -> Pending<'_, Result<String, GateError>> {
        Box::pin(async move { self.store().checkpoint(Engine::now(self)).await.map_err(trouble) })
    }

    fn proof(&self, seq: u64) -> Pending<'_, Result<Option<Value>, GateError>> {
        Box::pin(async move {
            let Ok(seq) = i64::try_from(seq) else { return Ok(None) };
            match self.store().prove(seq).await {
                Ok(proof) => serde_json::to_value(proof).map(Some).map_err(internal),
                Err(ProofError::OutOfRange { .. }) => Ok(None),
                Err(error) => Err(trouble(error)),
            }
        })
    }

    fn ledger_size(&self) -> Pending<'_, Result<u64, GateError>> {
        Box::pin(async move { self.store().ledger_size().await.map_err(trouble) })
    }

    fn events(&self, from: u64, most: u32) -> Pending<'_, Result<Vec<Event>, GateError>> {
        Box::pin(async move {
            let after = i64::try_from(from).unwrap_or(i64::MAX).saturating_sub(1);
            let entries = self.store().latest_event(after).await.map_err(trouble)?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            Ok(entries.iter().take(most).map(event).collect())
        })
    }

    fn numbers(&self) -> Pending<'_, Result<Numbers, GateError>> {
        Box::pin(async move { Engine::numbers(self).await.map_err(trouble) })
    }

    fn leave(&self) {
        Engine::leave(self);
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(Engine::close(self))
    }
}

async fn latest_calls(
    engine: &Engine,
    of: Option<&AgentName>,
    most: u32,
    before: Option<&CallId>,
) -> Result<Vec<CallSummary>, StoreError> {
    let rows = match of {
        Some(agent) => engine.store().calls_of(agent, most, before).await?,
        None => engine.store().calls(most, before).await?,
    };
    Ok(rows.into_iter().map(summary).collect())
}

fn summary(row: CallLine) -> CallSummary {
    CallSummary {
        receipt: row.receipt_seq.map(|_| Receipt::id_of(&row.id)),
        call_id: row.id,
        agent: row.agent,
        task: row.task,
        tool: row.tool,
        purpose: row.purpose.as_deref().map(show_hidden),
        status: row.status,
        asked_at: row.asked_at,
        settled_at: row.settled_at,
    }
}

async fn record_of(engine: &Engine, id: &CallId) -> Result<Option<CallRecord>, GateError> {
    let Some(row) = engine.store().call(id).await.map_err(trouble)? else { return Ok(None) };
    let result = match engine.store().result(id).await.map_err(trouble)? {
        Some(value) => serde_json::from_value(value).map_err(trouble)?,
        None => unfinished(engine, &row).await?,
    };
    Ok(Some(CallRecord {
        result,
        agent: row.agent,
        task: row.task,
        purpose: row.purpose.as_deref().map(show_hidden),
        asked_at: row.asked_at,
    }))
}

/// What is known of a call that has no answer yet, or no longer.
async fn unfinished(engine: &Engine, row: &CallRow) -> Result<CallResult, GateError> {
    let approval =
        engine.question_of(&row.id).await.map_err(trouble)?.map(|waiting| contract::ApprovalView {
            why: waiting.approval.why.join("; "),
            id: waiting.approval.id,
            expires_at: waiting.approval.expires_at,
        });
    // One that has ended and gives nothing was erased.
    let content = if row.status.is_final() { "what this call gave was erased" } else { "" };
    Ok(CallResult {
        call_id: row.id.clone(),
        tool: row.tool.clone(),
        status: row.status,
        content: content.to_owned(),
        is_error: false,
        structured: None,
        artifacts: Vec::new(),
        cleaning: None,
        reason: None,
        approval: approval.filter(|_| row.status == CallStatus::Waiting),
        cost: None,
        receipt: None,
    })
}

fn question(waiting: Waiting) -> Question {
    let row = waiting.approval;
    Question {
        approval_id: row.id,
        call_id: row.call,
        agent: row.agent,
        task: row.task,
        tool: row.tool,
        purpose: row.purpose.as_deref().map(show_hidden),
        why: row.why.iter().map(|why| show_hidden(why)).collect(),
        shown_arguments: waiting.shown_arguments,
        command: waiting.command,
        action: waiting.action.map(|action| action.to_string()),
        safety: waiting.safety,
        egress: waiting.egress,
        operands: waiting.operands,
        contract: row.contract,
        policy: row.policy,
        workspace: row.about.as_ref().map(|about| about.workspace.clone()),
        offers: waiting.offers,
        also: waiting.folded.into_iter().map(also).collect(),
        proposers: waiting.proposers.into_iter().collect(),
        escalated_to: row.escalated_to,
        quorum: row.quorum,
        approved_by: row.approvers,
        asked_at: row.asked_at,
        expires_at: row.expires_at,
    }
}

fn also(folded: Folded) -> Also {
    Also { approval_id: folded.id, task: folded.task, expires_at: folded.expires_at }
}

fn stands(shown: Standing) -> Option<Stands> {
    let Standing { approval: row, covers, shown_arguments, command, other_policy } = shown;
    let standing = row.standing?;
    Some(Stands {
        approval_id: row.id,
        agent: row.agent,
        tool: row.tool,
        scope: standing.scope,
        covers,
        shown_arguments,
        command,
        granted_by: standing.granted_by,
        granted_at: standing.granted_at,
        expires_at: standing.expires_at,
        uses: standing.uses,
        other_policy,
    })
}

/// What an entry says to whom it concerns, and nothing of what is in it.
fn event(entry: &LedgerEntry) -> Event {
    let text = |key: &str| entry.body.get(key).and_then(Value::as_str);
    Event {
        seq: u64::try_from(entry.seq).unwrap_or_default(),
        kind: entry.kind.clone(),
        time: entry.time,
        call_id: text("call").or_else(|| text("call_id")).and_then(|id| CallId::parse(id).ok()),
        approval_id: text("approval").and_then(|id| ApprovalId::parse(id).ok()),
    }
}

fn answered(row: ApprovalRow) -> Answered {
    Answered { approval_id: row.id, call_id: row.call, state: row.state.as_str().to_owned() }
}

fn refused(error: AnswerRefused) -> DecideError {
    match error {
        AnswerRefused::NotAnOperator | AnswerRefused::NotInClient | AnswerRefused::NeedsPresence => {
            DecideError::Forbidden { why: error.to_string() }
        }
        AnswerRefused::Find(FindError::Store(error)) => DecideError::Gate(trouble(error)),
        AnswerRefused::Find(_) => DecideError::Unknown,
        AnswerRefused::Answer(AnswerError::Unknown { .. }) => DecideError::Unknown,
        AnswerRefused::Answer(AnswerError::Expired) => DecideError::Expired,
        AnswerRefused::Answer(AnswerError::Decided { state }) => match state {
            store::ApprovalState::Expired => DecideError::Expired,
            state => DecideError::Closed { state: state.as_str().to_owned() },
        },
        AnswerRefused::Answer(
            error @ (AnswerError::SameOperator { .. }
            | AnswerError::NotAllowed { .. }
            | AnswerError::TooNew { .. }
            | AnswerError::Proposer { .. }),
        ) => DecideError::Forbidden { why: error.to_string() },
        AnswerRefused::Answer(error @ AnswerError::OnceOnly { .. }) => {
            DecideError::NotSo { why: error.to_string() }
        }
        AnswerRefused::NoTime | AnswerRefused::NotShown | AnswerRefused::Until { .. } => {
            DecideError::NotSo { why: error.to_string() }
        }
        AnswerRefused::Answer(AnswerError::Store(error)) => DecideError::Gate(trouble(error)),
        AnswerRefused::Engine(error) => DecideError::Gate(trouble(error)),
    }
}

fn word_refused(error: ReconcileRefused) -> WordError {
    let why = error.to_string();
    match error {
        ReconcileRefused::NotAnOperator | ReconcileRefused::Reconcile(ReconcileError::NotAllowed { .. }) => {
            WordError::Forbidden { why }
        }
        ReconcileRefused::Find(FindCallError::Store(error)) => WordError::Gate(trouble(error)),
        ReconcileRefused::Find(_) | ReconcileRefused::Reconcile(ReconcileError::Unknown { .. }) => {
            WordError::Unknown
        }
        ReconcileRefused::Reconcile(ReconcileError::Known { .. } | ReconcileError::Reconciled { .. }) => {
            WordError::Known { why }
        }
        ReconcileRefused::Reconcile(error) => WordError::Gate(trouble(error)),
        ReconcileRefused::Engine(error) => WordError::Gate(trouble(error)),
    }
}

fn not_revoked(error: RevokeRefused) -> DecideError {
    match error {
        RevokeRefused::NotAnOperator | RevokeRefused::Revoke(RevokeError::NotAllowed { .. }) => {
            DecideError::Forbidden { why: error.to_string() }
        }
        RevokeRefused::Find(FindError::Store(error)) | RevokeRefused::Revoke(RevokeError::Store(error)) => {
            DecideError::Gate(trouble(error))
        }
        RevokeRefused::Find(_) | RevokeRefused::Revoke(RevokeError::Unknown { .. }) => DecideError::Unknown,
        RevokeRefused::Revoke(RevokeError::Revoked { .. }) => {
            DecideError::Closed { state: "taken back".to_owned() }
        }
        RevokeRefused::Revoke(RevokeError::Nothing { state }) => {
            DecideError::Closed { state: state.as_str().to_owned() }
        }
        RevokeRefused::Engine(error) => DecideError::Gate(trouble(error)),
    }
}

/// The store failed, or the engine because of it.
pub(super) fn trouble(error: impl Error + Send + Sync + 'static) -> GateError {
    GateError::Store(Box::new(error))
}

/// The gate failed by itself.
fn internal(error: impl Error + Send + Sync + 'static) -> GateError {
    GateError::Internal(Box::new(error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_names_ids_and_nothing_else_of_its_entry() {
        let call = CallId::from_random([1; 16]);
        let approval = ApprovalId::from_random([2; 16]);
        let entry =
            |body: Value| LedgerEntry { seq: 7, time: 5, kind: "k".into(), prev: String::new(), body };
        let planned = event(&entry(json!({ "call": call, "approval": approval, "purpose": "secret" })));
        let expected = Event {
            seq: 7,
            kind: "k".into(),
            time: 5,
            call_id: Some(call.clone()),
            approval_id: Some(approval),
        };
        assert_eq!(planned, expected);
        let settled = event(&entry(json!({ "call_id": call, "approval": { "id": "x" } })));
        assert_eq!(settled, Event { approval_id: None, ..expected });
    }
}
