//! One call from its request to its answer.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use clean::Findings;
use contract::{
    AgentName, CallId, CallResult, CallStatus, Code, Digest, Idempotency, Reason, RunFacts, SafetyClass,
    TaskName, ToolName, chain,
};
use policy::{Admitted, Grant, HookTime, Ruling, Settings, Verdict, may_see};
use serde_json::json;
use store::{
    ApprovalRow, CallRow, Course, Durable, Joined, NewApproval, NewCall, Outlook, RecordError, Recorded,
    Sameness, StoreError,
};
use tokio_util::sync::CancellationToken;
use tools::{Correlation, InForce, Owner, Ran, Surroundings, Tool};
use tracing::{Instrument, debug_span};

use crate::approve::{unproved, view_of};
use crate::batch::{caught, note_panic};
use crate::catalogue::{Catalogue, Listed};
use crate::crash::{is_seeded, reach};
use crate::disclosure::Discovery;
use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::rates::with_limit;
use crate::request::Request;
use crate::seen_through::{Caught, Fell, SeenThrough};
use crate::settle::{Case, End, lost, not_recorded, still_running, waiting};
use crate::shadow::with_shadow;
use crate::standing::Ruled;

/// How often a wait looks again: other processes may decide, and they can only tell through the store.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

impl Engine {
    /// Takes a call to its answer. One that waits for people is answered after `patience`, and goes on waiting.
    ///
    /// `cancel` ends the call if it runs; one that waits stays, to be joined by the same call.
    ///
    /// A call of `call_tool` is a call of the tool that it names.
    pub async fn call(&self, request: Request, patience: Duration, cancel: CancellationToken) -> CallResult {
        let (agent, task) = (request.agent.clone(), request.task.clone());
        // In boxes: these are large, and whoever calls has them on its stack.
        let result = match Discovery::named(&request.tool) {
            Some(discovery) => Box::pin(self.discover(discovery, request, patience, cancel)).await,
            None => Box::pin(self.call_itself(request, patience, cancel)).await,
        };
        self.note_sent(&agent, task.as_ref(), &result.content);
        result
    }

    /// Takes the call of a tool that is no discovery tool to its answer.
    pub(crate) async fn call_itself(
        &self,
        request: Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> CallResult {
        let tool = filed_under(&request.tool);
        // Fail closed: what cannot be named or recorded does not run.
        let id = match random_bytes() {
            Ok(bytes) => CallId::from_random(bytes),
            Err(error) => return not_recorded(&CallId::from_random([0; 16]), &tool, &error.to_string()),
        };
        // By these, and by nothing of what it says, it is found again in what operators are told.
        let span = tracing::info_span!(
            "call",
            request_id = %id,
            agent_id = %request.agent,
            task_id = request.task.as_ref().map(TaskName::as_str),
            session_id = self.session.as_deref(),
            %tool,
        );
        let (engine, request) = (self.anew(), Arc::new(request));
        let taken = Box::pin(engine.take(id.clone(), &tool, &request, patience, cancel));
        match taken.instrument(span).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(call = %id, %tool, error = chain(&error), "a call could not be recorded");
                not_recorded(&id, &tool, &error.to_string())
            }
        }
    }

    async fn take(
        &self,
        id: CallId,
        tool: &ToolName,
        request: &Arc<Request>,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Result<CallResult, EngineError> {
        let admitted = debug_span!("admit").in_scope(|| self.admit(id.clone(), request));
        let _in_hand = self.take_in_hand(&id);
        let case = self.case_of(id, tool, request)?;
        self.come_into_force(&request.agent).await?;
        let (case, admitted) = match admitted {
            Ok(admitted) => (&Case { safety: admitted.facets.safety, ..case }, admitted),
            Err(reason) => {
                let trace = self.shadow_of_refused(request, &reason).await?;
                return self.refuse(&case, request, reason, trace).await;
            }
        };
        reach("admitted");
        let store = &self.inner.store;
        let Outlook { waiting, operators, stances, .. } =
            self.look_ahead(case).instrument(debug_span!("look")).await?;
        // What operators have said since, at whichever gate, counts from this call on.
        if self.believe(stances).await {
            return Box::pin(self.anew().take(case.id.clone(), tool, request, patience, cancel)).await;
        }
        if let Some(row) = waiting {
            return self.join_waiting(row, case, request, patience, cancel).await;
        }
        let ruled = self.rule(request, &admitted, &operators).instrument(debug_span!("decide")).await?;
        let Ruled { ruling: Ruling { verdict, trace }, seal, standing, shadow } = ruled;
        let trace = with_shadow(written("trace", &trace)?, shadow);
        let (verdict, trace) = self.hear_in_turn(case, request, &admitted, verdict, trace).await?;
        reach("decided");
        match verdict {
            Verdict::Deny(reason) => self.refuse(case, request, reason, trace).await,
            Verdict::Ask(question) => {
                let question = match self.question(&admitted, request, question).await? {
                    Ok(question) => question,
                    Err(reason) => return self.refuse(case, request, reason, trace).await,
                };
                Box::pin(self.ask(case, request, question, trace, patience, cancel)).await
            }
            Verdict::Allow(grant) => {
                let claim = self.claim_of(request, case);
                let has_claim = claim.is_some();
                let in_force = match self.wait_in_force(seal, request, &cancel).await {
                    Ok(in_force) => in_force,
                    Err(reason) => return self.refuse(case, request, reason, trace).await,
                };
                let held = self.hold_in_force().await;
                // What hooks or a workspace kept waiting is decided by what is in force by now.
                if self.is_superseded(&request.tool) {
                    drop(held);
                    return Box::pin(self.anew().take(case.id.clone(), tool, request, patience, cancel))
                        .await;
                }
                let under = under(&grant, standing)?;
                let planned =
                    self.new_call(case, request, trace.clone(), claim, run_with(&grant, under.clone())?);
                let at = self.surroundings_of(&case.id, request, in_force);
                if is_seeded("acts_without_any_record") {
                    return Ok(self
                        .see_run(case.clone(), Arc::clone(request), grant, None, at, cancel)
                        .await);
                }
                let (limits, charge) = (self.limits_on_running(&case.tool), self.charge_of(&grant));
                let case = &Case { quote: grant.charge().map(|charge| charge.cost), ..case.clone() };
                // What may have been done before is not got ready for: it costs nobody anything to ask again.
                let at = if has_claim { at } else { self.get_ready(request, case, &grant, at) };
                let durable = self.durable(request, case, &grant);
                let recorded = store.record_charged(planned, &limits.allowances, charge.as_ref(), durable);
                let recorded = match recorded.instrument(debug_span!("record")).await {
                    Err(RecordError::Store(StoreError::Unproved { what, .. })) => {
                        return self.refuse(case, request, unproved(what), trace).await;
                    }
                    recorded => recorded?,
                };
                drop(held);
                self.note_used_up(case, &recorded);
                if matches!(recorded, Recorded::New { .. }) {
                    return Ok(self
                        .see_run(case.clone(), Arc::clone(request), grant, under, at, cancel)
                        .await);
                }
                // What is ready, or in force, is for nobody then.
                drop(at);
                match recorded {
                    Recorded::Existing(row) => self.join(*row, patience, cancel).await,
                    Recorded::KeyConflict => Ok(self.key_conflict(case, request).await?),
                    Recorded::UsedUp(used_up) => {
                        let reason = limits.reason(used_up);
                        let trace = with_limit(trace, &limits.step(used_up))?;
                        self.refuse(case, request, reason, trace).await
                    }
                    // The yes that covered it was taken back this moment, or others have taken what was left of a budget:
                    // it is decided anew, by what is true now.
                    Recorded::NotCovered | Recorded::OverBudget => {
                        Box::pin(self.anew().take(case.id.clone(), tool, request, patience, cancel)).await
                    }
                    // It runs already; and nobody was asked.
                    Recorded::New { .. } | Recorded::TooManyQuestions { .. } => Err(EngineError::Missing),
                }
            }
        }
    }

    /// What there is when a call comes in, after everything was done that is due.
    async fn look_ahead(&self, case: &Case) -> Result<Outlook, EngineError> {
        let Case { agent, task, tool, request, .. } = case;
        let same = Sameness { agent, task: task.as_ref(), tool, request: *request };
        let outlook = self.inner.store.outlook(same, self.now()).await?;
        if !outlook.is_anything_due {
            return Ok(outlook);
        }
        self.tend().await?;
        Ok(self.inner.store.outlook(same, self.now()).await?)
    }

    /// The same call, if it waits for people already.
    async fn same_that_waits(&self, case: &Case) -> Result<Option<CallRow>, EngineError> {
        let Case { agent, task, tool, request, .. } = case;
        Ok(self.inner.store.find_waiting(agent, task.as_ref(), tool, *request, self.now()).await?)
    }

    /// Finds the contract and checks the arguments against it.
    pub(crate) fn admit(&self, id: CallId, request: &Request) -> Result<Admitted, Reason> {
        self.refuse_if_suspended()?;
        admit(&self.catalogue(), &self.settings(), id, request, self.now())
    }

    pub(crate) async fn refuse(
        &self,
        case: &Case,
        request: &Request,
        reason: Reason,
        trace: serde_json::Value,
    ) -> Result<CallResult, EngineError> {
        let planned = self.new_call(case, request, trace, None, Course::Refuse);
        let limits = self.limits_on_refusing();
        // Nothing runs, and nobody hears of it before its end is on record.
        let recording = self.inner.store.record_charged(planned, &limits.allowances, None, Durable::WithNext);
        match Box::pin(recording).await? {
            Recorded::UsedUp(used_up) => Ok(limits.unrecorded(case, used_up, &reason)),
            _ => Ok(self.settle(case, End::Refused(reason), None).await),
        }
    }

    async fn key_conflict(&self, case: &Case, request: &Request) -> Result<CallResult, EngineError> {
        let reason = Reason::key_conflict("the key was used before, for another call")
            .with_hint("use a new key, or repeat the first call unchanged");
        self.refuse(case, request, reason, json!([])).await
    }

    async fn ask(
        &self,
        case: &Case,
        request: &Request,
        approval: NewApproval,
        trace: serde_json::Value,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Result<CallResult, EngineError> {
        // To look at files takes a while: the same may have been asked meanwhile, and the time is not the people's.
        if let Some(row) = self.same_that_waits(case).await? {
            return self.join_waiting(row, case, request, patience, cancel).await;
        }
        let looked = self.now().saturating_sub(case.asked_at).max(0);
        let expires_at = approval.expires_at.saturating_add(looked);
        let approval = NewApproval { expires_at, ..approval };
        let claim = self.claim_of(request, case);
        let planned = self.new_call(case, request, trace.clone(), claim, Course::Ask(approval));
        match self.inner.store.record_call(planned).await? {
            Recorded::New { .. } => match self.inner.store.call(&case.id).await? {
                Some(row) => self.join(row, patience, cancel).await,
                None => Err(EngineError::Missing),
            },
            Recorded::Existing(row) => self.join(*row, patience, cancel).await,
            Recorded::KeyConflict => self.key_conflict(case, request).await,
            // An agent cannot bury another's question, nor the people who answer.
            Recorded::TooManyQuestions { open } => {
                let why = format!("{open} calls of this agent wait for approval already");
                let reason = Reason::rate_limited(why).with_hint("wait until some of them are answered");
                self.refuse(case, request, reason, trace).await
            }
            // It counts when it starts, not when people are asked; and nothing covers what is asked.
            Recorded::UsedUp(_) | Recorded::NotCovered | Recorded::OverBudget => Err(EngineError::Missing),
        }
    }

    /// Joins an equal call that waits. From then on the key of this one stands for it, too: made again later, it does
    /// not run again.
    async fn join_waiting(
        &self,
        row: CallRow,
        case: &Case,
        request: &Request,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Result<CallResult, EngineError> {
        // Whoever makes a call wants it, whether or not somebody else has asked before.
        if let (Some(by), Some(question)) = (&request.proposer, &row.approval) {
            self.inner.store.join_question(question, by, self.now()).await?;
        }
        if let Some(claim) = self.claim_of(request, case) {
            match self.inner.store.join_call(&row.id, &claim, case.request, self.now()).await? {
                Joined::There(other) => return self.join(*other, patience, cancel).await,
                Joined::KeyConflict => return self.key_conflict(case, request).await,
                // Gone: it was refused this moment, and so is this one.
                Joined::Here | Joined::Gone => {}
            }
        }
        self.join(row, patience, cancel).await
    }

    /// Waits for a call that is on record, running it here if it may run and nobody else does.
    pub(crate) async fn join(
        &self,
        row: CallRow,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Result<CallResult, EngineError> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            // Each look sees what is in force by then: a yes is one fact among others. It has a whole call in it, which does not
            // lie on the stack of everybody who waits.
            if let Some(result) = Box::pin(self.anew().look(&row.id, &cancel)).await? {
                return Ok(result);
            }
            let goes = cancel.is_cancelled() || self.inner.leaving.is_cancelled();
            if goes || tokio::time::Instant::now() >= deadline {
                return self.still_waiting(&row.id).await;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = cancel.cancelled() => {}
                () = self.inner.leaving.cancelled() => {}
            }
        }
    }

    /// One look at a call on record: its answer if there is one, after running it if that is due.
    async fn look(&self, id: &CallId, cancel: &CancellationToken) -> Result<Option<CallResult>, EngineError> {
        self.tend().await?;
        let Some(row) = self.inner.store.call(id).await? else { return Ok(None) };
        if row.status.is_final() {
            return self.recorded(id).await;
        }
        if matches!(row.status, CallStatus::Planned | CallStatus::Running) {
            // Whoever ran it may be no more; then the next look finds its end.
            if !self.is_seen_through(&row.id) {
                self.recover_from(row.owner.as_ref()).await?;
            }
            return Ok(None);
        }
        self.run_if_approved(row, cancel).await
    }

    async fn still_waiting(&self, id: &CallId) -> Result<CallResult, EngineError> {
        let Some(row) = self.inner.store.call(id).await? else { return Err(EngineError::Missing) };
        let case = case_of_row(&row);
        match self.approval_of(&row).await? {
            Some(approval) if row.status == CallStatus::Waiting => Ok(waiting(&case, view_of(&approval))),
            _ => match self.recorded(id).await? {
                Some(result) => Ok(result),
                None => Ok(still_running(&case)),
            },
        }
    }

    /// The state of a call that an agent made before; one that has been approved meanwhile is run.
    pub async fn collect(
        &self,
        agent: &contract::AgentName,
        id: &CallId,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Result<Option<CallResult>, EngineError> {
        // An agent hears of its own calls only.
        let row = self.inner.store.call(id).await?.filter(|row| row.agent == *agent);
        match row {
            Some(row) => self.join(row, patience, cancel).await.map(Some),
            None => Ok(None),
        }
    }

    /// Ends a call that this process runs. False if it does not run here.
    pub fn cancel(&self, id: &CallId) -> bool {
        let token = self.owned().get(id).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Runs a call whose intent is on record, to its end. It is seen through even if the caller stops waiting. As long as
    /// somebody waits they poll it, so whoever waits does nothing else in between that takes long.
    pub(crate) async fn see_run(
        &self,
        case: Case,
        request: Arc<Request>,
        grant: Grant,
        approval: Option<ApprovalRow>,
        at: Surroundings,
        cancel: CancellationToken,
    ) -> CallResult {
        let engine = self.clone();
        let own = cancel.child_token();
        self.owned().insert(case.id.clone(), own.clone());
        let tracked = self.inner.tasks.token();
        let (id, tool) = (case.id.clone(), case.tool.clone());
        let seen_through = async move {
            let _tracked = tracked;
            let asked = approval.as_ref();
            let run = async {
                let end = match engine.begin(&case, &grant, asked).await {
                    Ok(()) => {
                        let ran = engine.run(&request, grant, at, own).await;
                        End::Ran(Box::new(engine.hear_after(&case, ran).await))
                    }
                    Err(reason) => End::NotRun(reason),
                };
                reach("ran");
                let result = engine.settle(&case, end, asked).await;
                reach("settled");
                result
            };
            let result = match Caught::new(run).await {
                Ok(result) => result,
                // A tool that panics has ended its own run, not the gate; what it had done by then nobody knows.
                Err(Fell) => {
                    note_panic();
                    // Whatever becomes of this: others may end what is not ended here.
                    engine.owned().remove(&case.id);
                    let reason = Reason::outcome_unknown("the tool's own code failed");
                    engine.settle(&case, End::Lost(reason), asked).await
                }
            };
            engine.owned().remove(&case.id);
            result
        };
        if self.caller.is_none() {
            return SeenThrough::new(seen_through).await;
        }
        // Whoever tells the caller something meanwhile may wait for it to be heard, and polls nothing else: no client's patience
        // is to keep a run from its end. A task is seen through by itself. A batch, which counts panics in its own tasks, has no
        // caller.
        tokio::spawn(seen_through).await.unwrap_or_else(|error| {
            let why = if error.is_panic() { "the gate's own code failed" } else { "the gate is ending" };
            lost(&id, &tool, Reason::outcome_unknown(why))
        })
    }

    /// Makes it durable that the effect may begin, unless it is already.
    async fn begin(&self, case: &Case, grant: &Grant, asked: Option<&ApprovalRow>) -> Result<(), Reason> {
        // What was approved began with its approval; what only reads began when it was recorded.
        if asked.is_some() || case.safety == SafetyClass::Read {
            return Ok(());
        }
        if is_seeded("acts_without_any_record") || is_seeded("acts_before_it_records_that_it_begins") {
            return Ok(());
        }
        let not_begun =
            |why: String| Reason::interrupted(format!("the call could not be begun, so nothing ran: {why}"));
        let authority = written("grant", grant.authority()).map_err(|error| not_begun(error.to_string()))?;
        let begun = self.inner.store.begin_call(&case.id, authority, self.now());
        match begun.instrument(debug_span!("begin")).await {
            Ok(true) => Ok(()),
            // ATTACK(effect-without-record): what is no longer ours to begin is not run.
            Ok(false) => Err(not_begun("it has been ended already".to_owned())),
            Err(error) => {
                tracing::error!(call = %case.id, tool = %case.tool, error = chain(&error), "a call could not be begun");
                Err(not_begun(error.to_string()))
            }
        }
    }

    /// When the record of a call that nobody was asked about has to be on the disk.
    fn durable(&self, request: &Request, case: &Case, grant: &Grant) -> Durable {
        let catalogue = self.catalogue();
        let listed = catalogue.find(&request.tool);
        let is_unnoticed = || listed.is_some_and(|listed| listed.tool.is_unnoticed(grant));
        match case.safety {
            // ATTACK(effect-without-record): a yes that was given before is used up here.
            _ if grant.authority().approval.is_some() => Durable::Now,
            // A hook hears what it gave, and may tell others.
            SafetyClass::Read if self.is_heard(HookTime::After, &case.tool) => Durable::Now,
            SafetyClass::Read if caught(is_unnoticed).is_ok_and(|unnoticed| unnoticed) => Durable::WithNext,
            SafetyClass::Read => Durable::Now,
            // Nothing has begun before `begin` has recorded it.
            _ => Durable::WithNext,
        }
    }

    /// Where a call is run, with what was bound for it.
    pub(crate) fn surroundings_of(
        &self,
        call: &CallId,
        request: &Request,
        in_force: Option<InForce>,
    ) -> Surroundings {
        let owner = Owner { agent: request.agent.clone(), task: request.task.clone() };
        let session = self.session.as_deref().map(str::to_owned);
        let correlation = Correlation { request: call.clone(), session };
        let at = self.inner.surroundings.for_owner(owner).for_call(correlation);
        let at = match &self.caller {
            Some(caller) => at.with_caller(Arc::clone(caller)),
            None => at,
        };
        match in_force {
            Some(in_force) => at.with_operands(in_force),
            None => at,
        }
    }

    /// Has a sandbox made ready while the call is recorded. Its first question is sent when the record is on the disk.
    fn get_ready(&self, request: &Request, case: &Case, grant: &Grant, at: Surroundings) -> Surroundings {
        // Who calls too often is refused by the record, and shall not have sandboxes made.
        if self.used_up().contains(&(case.agent.clone(), case.tool.clone())) {
            return at;
        }
        let catalogue = self.catalogue();
        let tool = catalogue.find(&request.tool).map(|listed| &listed.tool);
        let get_ready = || tool.and_then(|tool| tool.get_ready(grant, &request.arguments, &at));
        match caught(get_ready) {
            Ok(Some(ready)) => at.with_ready(ready),
            Ok(None) | Err(_) => at,
        }
    }

    /// Remembers whose latest call of a tool was one too many.
    fn note_used_up(&self, case: &Case, recorded: &Recorded) {
        let of_call = (case.agent.clone(), case.tool.clone());
        match recorded {
            Recorded::UsedUp(_) => drop(self.used_up().insert(of_call)),
            Recorded::New { .. } => drop(self.used_up().remove(&of_call)),
            _ => {}
        }
    }

    fn used_up(&self) -> MutexGuard<'_, HashSet<(AgentName, ToolName)>> {
        self.inner.used_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, request: &Request, grant: Grant, at: Surroundings, cancel: CancellationToken) -> Ran {
        let catalogue = self.catalogue();
        let Some(listed) = catalogue.find(&request.tool) else {
            return failed(Reason::unknown_tool("the tool is gone"));
        };
        let tool = &listed.tool;
        let limits = grant.authority().limits.named();
        let running = tool.run(grant, &request.arguments, &at, cancel.clone());
        let mut ran = running.instrument(debug_span!("run")).await;
        ran.facts.limits = limits;
        match &ran.failure {
            None => {
                let problems = tool.contract().output().problems(&ran.output.structured);
                match problems.into_iter().next() {
                    None => ran,
                    // What does not fit is withheld, all of it.
                    Some(problem) => {
                        let why = format!("the tool's answer does not fit its schema: {problem}");
                        Ran { facts: ran.facts, ..failed(Reason::bad_output(why)) }
                    }
                }
            }
            // Only whoever holds the token takes a call back.
            Some(reason) if reason.code == Code::Cancelled && !cancel.is_cancelled() => {
                Ran { failure: Some(Reason::tool_failed(reason.message.clone())), ..ran }
            }
            Some(_) => ran,
        }
    }

    /// The question about a call, if one was asked.
    pub(crate) async fn approval_of(&self, row: &CallRow) -> Result<Option<ApprovalRow>, EngineError> {
        match &row.approval {
            Some(id) => Ok(self.inner.store.approval(id).await?),
            None => Ok(None),
        }
    }

    pub(crate) async fn approval_of_call(&self, id: &CallId) -> Result<Option<ApprovalRow>, EngineError> {
        match self.inner.store.call(id).await? {
            Some(row) => self.approval_of(&row).await,
            None => Ok(None),
        }
    }

    pub(crate) fn claim_of(&self, request: &Request, case: &Case) -> Option<String> {
        let idempotency = self.catalogue().find(&request.tool)?.tool.contract().definition().idempotency;
        let scoped = |key: &str| format!("{}/{}/{key}", case.agent, case.tool);
        match (idempotency, &request.key) {
            (Idempotency::None, _) | (Idempotency::Optional, None) => None,
            (_, Some(key)) => Some(scoped(&format!("key:{key}"))),
            // ATTACK(proposed-again): the same payment proposed again is the same payment.
            (Idempotency::Required, None) => Some(scoped(&format!("same:{}", case.request))),
        }
    }

    pub(crate) fn case_of(
        &self,
        id: CallId,
        tool: &ToolName,
        request: &Request,
    ) -> Result<Case, EngineError> {
        let catalogue = self.catalogue();
        let listed = catalogue.find(&request.tool);
        Ok(Case {
            id,
            agent: request.agent.clone(),
            task: request.task.clone(),
            purpose: request.purpose.clone(),
            tool: tool.clone(),
            contract: listed.map_or_else(|| Digest::of(b""), |listed| listed.facts.hash),
            request: request.digest(self.workspace_of(&request.agent))?,
            arguments: request.arguments.digest(),
            policy: self.policy().hash(),
            // Of what is not understood the worst is assumed.
            safety: SafetyClass::Privileged,
            quote: None,
            asked_at: self.now(),
        })
    }

    fn new_call(
        &self,
        case: &Case,
        request: &Request,
        trace: serde_json::Value,
        claim: Option<String>,
        course: Course,
    ) -> NewCall {
        NewCall {
            id: case.id.clone(),
            agent: case.agent.clone(),
            task: case.task.clone(),
            tool: case.tool.clone(),
            contract: case.contract,
            request: case.request,
            arguments: case.arguments,
            arguments_json: match course {
                Course::Refuse if size_of(request) > self.settings().max_arguments => String::new(),
                _ => request.arguments.text().to_owned(),
            },
            policy: case.policy,
            purpose: case.purpose.clone(),
            trace,
            safety: case.safety,
            asked_at: case.asked_at,
            claim,
            course,
        }
    }
}

/// Finds the contract among these tools, and checks the arguments against it under these settings.
pub(crate) fn admit(
    catalogue: &Catalogue,
    settings: &Settings,
    id: CallId,
    request: &Request,
    asked_at: i64,
) -> Result<Admitted, Reason> {
    let unknown = || {
        let reason = Reason::unknown_tool(format!("there is no tool `{}`", printable(&request.tool)));
        match catalogue.nearest(&request.tool, &request.agent, settings) {
            Some(near) => {
                reason.with_hint(format!("did you mean `{near}`? `toolgate tools list` shows all there are"))
            }
            None => reason.with_hint("`toolgate tools list` shows those there are"),
        }
    };
    // What is not for an agent is not there for it.
    let listed = catalogue.find(&request.tool).filter(|listed| listed.tool.is_for(&request.agent));
    let listed = listed.ok_or_else(unknown)?;
    // Whoever may not use a tool learns nothing of it, not even its schema.
    if let Some(agent) = settings.agents.get(&request.agent) {
        may_see(agent, &listed.facts, settings)
            .map_err(|reason| policy::hinted(reason, &request.agent, listed.tool.contract().name()))?;
    }
    understand(listed, settings, id, request, asked_at)
}

/// The call as it would be if the agent may use the tool.
pub(crate) fn understand(
    listed: &Listed,
    settings: &Settings,
    id: CallId,
    request: &Request,
    asked_at: i64,
) -> Result<Admitted, Reason> {
    let contract = listed.tool.contract();
    check_size(listed.tool.as_ref(), request, settings)?;
    let problems = contract.input().problems(request.arguments.value());
    if !problems.is_empty() {
        let why = format!("the arguments do not fit: {}", problems.join("; "));
        return Err(Reason::bad_arguments(why).with_hint("the tool's input schema says what it takes"));
    }
    if request.key.is_some() && contract.definition().idempotency == Idempotency::None {
        let why = format!("`{}` takes no key: each call of it is a new one", contract.name());
        return Err(Reason::bad_request(why));
    }
    let arguments = request.arguments.value();
    // Before anything is decided, so that nobody is asked about what is not there for the agent.
    caught(|| listed.tool.check_for(&request.agent, arguments))??;
    let facets = listed.lowered(caught(|| listed.tool.facets(arguments, settings))??);
    Ok(Admitted {
        call: id,
        agent: request.agent.clone(),
        task: request.task.clone(),
        tool: listed.facts.clone(),
        facets,
        arguments: request.arguments.digest(),
        operands: None,
        values: Arc::new(request.arguments.value().clone()),
        asked_at,
    })
}

/// Refuses arguments that are longer than they may be, before anybody reads them.
fn check_size(tool: &dyn Tool, request: &Request, settings: &Settings) -> Result<(), Reason> {
    refuse_longer(request, settings.max_arguments.max(tool.most_arguments(settings).unwrap_or(0)))
}

pub(crate) fn refuse_longer(request: &Request, most: u64) -> Result<(), Reason> {
    if size_of(request) <= most {
        return Ok(());
    }
    let why = format!("the arguments have {} bytes, and {most} at most are taken", size_of(request));
    Err(Reason::too_large(why).with_hint("write what is large to a file, and name the file"))
}

fn size_of(request: &Request) -> u64 {
    request.arguments.text().len() as u64
}

/// A run, under the earlier yes that its grant names, if it names one.
fn run_with(grant: &Grant, under: Option<ApprovalRow>) -> Result<Course, EngineError> {
    let authority = written("grant", grant.authority())?;
    Ok(match under {
        None => Course::Run { authority },
        Some(under) => Course::RunUnder { authority, under: Box::new(under) },
    })
}

/// The earlier yes that a grant names, if it names one, as it was read when the call was decided by it.
fn under(grant: &Grant, standing: Vec<ApprovalRow>) -> Result<Option<ApprovalRow>, EngineError> {
    let Some(id) = &grant.authority().approval else { return Ok(None) };
    standing.into_iter().find(|row| row.id == *id).map(Some).ok_or(EngineError::Missing)
}

pub(crate) fn failed(reason: Reason) -> Ran {
    Ran {
        output: contract::Output::default(),
        findings: Findings::default(),
        facts: RunFacts::default(),
        failure: Some(reason),
    }
}

pub(crate) fn case_of_row(row: &CallRow) -> Case {
    Case {
        id: row.id.clone(),
        agent: row.agent.clone(),
        task: row.task.clone(),
        purpose: row.purpose.clone(),
        tool: row.tool.clone(),
        contract: row.contract,
        request: row.request,
        arguments: row.arguments,
        policy: row.policy,
        safety: row.safety,
        // What it has reserved is on record.
        quote: None,
        asked_at: row.asked_at,
    }
}

/// The name that a call is filed under, whatever its caller has called the tool.
pub(crate) fn filed_under(tool: &str) -> ToolName {
    ToolName::parse(tool).unwrap_or_else(|_| unnamed())
}

/// What a call is filed under whose tool has no possible name.
#[expect(clippy::expect_used, reason = "the name is a constant, and a test reads it")]
fn unnamed() -> ToolName {
    ToolName::parse("unnamed").expect("a plain word is a tool name")
}

fn printable(name: &str) -> String {
    contract::show_hidden(&name.chars().take(128).collect::<String>())
}

pub(crate) fn random_bytes() -> Result<[u8; 16], EngineError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(EngineError::Random)?;
    Ok(bytes)
}
