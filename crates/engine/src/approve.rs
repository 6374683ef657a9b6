//! Questions to people: who waits, what they are asked, and what their answer sets in motion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::{
    Action, AgentName, ApprovalId, ApprovalView, CallId, CallResult, Canonical, Digest, EgressClass,
    NotBound, Operand, Operands, OperatorName, Reason, SafetyClass, TaskName,
};
use policy::{Admitted, Consent, Ruling, Verdict, decide};
use serde::Serialize;
use serde_json::json;
use store::{AnswerError, ApprovalRow, ApprovalState, Basis, CallRow, FindError, StoreError};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::call::case_of_row;
use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::operator::Credential;
use crate::request::Request;
use crate::seal::{Bound, NotInForce};
use crate::settle::Case;
use crate::standing::{Offer, Reach, action_of, offers};
use crate::turns::Approved;

/// How many questions are shown at once.
const MOST_SHOWN: u32 = 200;

/// What every list has whole, in bytes.
const LONG: usize = 16 << 10;

/// From how many bytes of one agent's long arguments on its others are not shown.
const MOST_LONG: usize = 1 << 20;

/// What stands there instead. It is no JSON, so that it cannot be taken for arguments.
const NOT_SHOWN: &str = "(too long to be shown beside other long ones: answer those first)";

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
    /// The files that it names, by their digests, and what may be something else by the time it runs.
    pub operands: Option<Operands>,
    /// What a yes can be given for, and what each covers.
    pub offers: Vec<Offer>,
    /// The operators who want it, and so do not answer.
    pub proposers: BTreeSet<OperatorName>,
    /// The same question again, for other tasks or under other keys, oldest first. Each is answered by its own id.
    pub folded: Vec<Folded>,
}

/// A page of questions.
#[derive(Clone, Debug)]
pub struct WaitingPage {
    /// They, oldest first; those that are the same to people are one.
    pub waiting: Vec<Waiting>,
    /// After which the next page begins; nothing if this is the last.
    pub next: Option<(i64, ApprovalId)>,
    /// How many questions wait in all.
    pub open: u64,
}

/// The same question again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// By which it is answered.
    pub id: ApprovalId,
    /// Which call it is about.
    pub call: CallId,
    /// For which task.
    pub task: Option<TaskName>,
    /// When it is too late to answer, in milliseconds since 1970.
    pub expires_at: i64,
}

/// What an operator answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Yes or no.
    pub vote: store::Vote,
    /// Why, in their words.
    pub reason: Option<String>,
    /// How far a yes reaches.
    pub reach: Reach,
}

/// Why an answer was not taken.
#[derive(Debug, Error)]
pub enum AnswerRefused {
    /// Whoever answers is no operator.
    #[error("only an operator can decide, and this credential is nobody's")]
    NotAnOperator,
    /// The agent's own client may not bring an answer to this.
    #[error("the client of this agent may not answer that")]
    NotInClient,
    /// Nobody has shown that they are there.
    #[error(
        "a yes to what spends money or can change what guards takes the operator's own presence: on the page, or with their credential"
    )]
    NeedsPresence,
    /// The question is not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be answered, or not by them.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Nobody can have seen what it is about.
    #[error(
        "its arguments are too long to be shown beside other long ones of the same agent: answer those first"
    )]
    NotShown,
    /// One call needs no time.
    #[error("a yes to one call has no time of its own: the scope `task`, `agent` or `type` has one")]
    NoTime,
    /// No yes is good for so long, or it would be over already.
    #[error("that is in the past, or more than {minutes} minutes away")]
    Until {
        /// How long it can be.
        minutes: i64,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// The oldest questions that wait; those that are the same to people are one.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, EngineError> {
        Ok(self.waiting_after(None, MOST_SHOWN).await?.waiting)
    }

    /// The questions that wait after a page of them, oldest first.
    pub async fn waiting_after(
        &self,
        after: Option<&(i64, ApprovalId)>,
        most: u32,
    ) -> Result<WaitingPage, EngineError> {
        self.tend().await?;
        let most = most.clamp(1, MOST_SHOWN);
        let after = after.map(|(asked_at, id)| (*asked_at, id));
        // One more than is shown says whether there are more.
        let (mut rows, open) = self.inner.store.pending_after(after, most + 1).await?;
        let more = rows.len() > most as usize;
        rows.truncate(most as usize);
        let next = rows.last().filter(|_| more).map(|last| (last.asked_at, last.id.clone()));
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut length: BTreeMap<AgentName, usize> = BTreeMap::new();
        for row in rows {
            if let Some(shown) = waiting.iter_mut().find(|shown| is_same(&shown.approval, &row)) {
                shown.folded.push(folded(row));
                continue;
            }
            // The list has no long arguments. The oldest ones get them; the others when those are answered.
            // One agent's do not take the place of another's.
            let length = length.entry(row.agent.clone()).or_default();
            let long = if row.arguments_json.is_none() && *length < MOST_LONG {
                self.inner.store.approval(&row.id).await?
            } else {
                None
            };
            *length += long.as_ref().and_then(|row| row.arguments_json.as_ref()).map_or(0, String::len);
            waiting.push(self.shown(long.unwrap_or(row)).await?);
        }
        self.name_joiners(&mut waiting).await?;
        Ok(WaitingPage { waiting, next, open })
    }

    /// Whether whoever looks at what waits sees a question with all of its arguments.
    async fn is_shown(&self, row: &ApprovalRow) -> Result<bool, EngineError> {
        let length = row.arguments_json.as_ref().map_or(usize::MAX, String::len);
        if length <= LONG {
            return Ok(true);
        }
        let is_it = |shown: &Waiting| {
            shown.approval.id == row.id || shown.folded.iter().any(|folded| folded.id == row.id)
        };
        let waiting = self.waiting().await?;
        // What no longer waits is refused for that.
        Ok(row.state != ApprovalState::Pending
            || waiting.iter().any(|shown| is_it(shown) && shown.approval.arguments_json.is_some()))
    }

    /// Takes an operator's answer, for one call, to the question whose id begins with `prefix`.
    pub async fn answer(
        &self,
        prefix: &str,
        vote: store::Vote,
        reason: Option<String>,
        credential: &Credential,
        via: &str,
    ) -> Result<ApprovalRow, AnswerRefused> {
        self.reply(prefix, Reply { vote, reason, reach: Reach::ONCE }, credential, via).await
    }

    /// Takes an operator's answer to the question whose id begins with `prefix`, and to no other.
    pub async fn reply(
        &self,
        prefix: &str,
        reply: Reply,
        credential: &Credential,
        via: &str,
    ) -> Result<ApprovalRow, AnswerRefused> {
        let operator = self.operator_of(credential).await?.ok_or(AnswerRefused::NotAnOperator)?;
        self.tend().await?;
        let row = self.inner.store.find_approval(prefix).await?;
        self.take_answer(row, reply, operator.name, via).await
    }

    /// Takes the answer of somebody who is known.
    pub(crate) async fn take_answer(
        &self,
        row: ApprovalRow,
        reply: Reply,
        by: OperatorName,
        via: &str,
    ) -> Result<ApprovalRow, AnswerRefused> {
        let Reply { vote, reason, reach } = reply;
        // ATTACK(two-proposers): neither whoever made the call nor the one for whom its agent works.
        if self.proposers_about(&row).contains(&by) {
            return Err(AnswerError::Proposer { by }.into());
        }
        // ATTACK(approved-unseen): what no list shows whole is approved by nobody.
        if vote == store::Vote::Approve && !self.is_shown(&row).await? {
            return Err(AnswerRefused::NotShown);
        }
        let now = self.now();
        let standing = match vote {
            store::Vote::Approve => self.standing_by(&row, reach, now)?,
            store::Vote::Reject => None,
        };
        let via = via.to_owned();
        let answer = store::Answer { vote, by, via, reason, standing, now };
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
            ApprovalState::Approved if approval.revoked.is_some() => {
                return self.settle_revoked(&approval).await;
            }
            ApprovalState::Approved => {}
            ApprovalState::Rejected => return self.settle_rejected(&approval).await,
            _ => return Ok(None),
        }
        // While nobody can tell what the policy is, what was approved waits.
        if self.is_suspended() {
            return Ok(None);
        }
        let policy = self.policy();
        let case = Case { policy: policy.hash(), ..case_of_row(&row) };
        let refuse = |reason| async { Ok(self.refuse_waiting(&case, reason, Some(&approval)).await) };
        let Some(mut request) = request_of(&row) else {
            return refuse(Reason::internal("the recorded arguments cannot be read")).await;
        };
        request.proposer = approval.about.as_ref().and_then(|about| about.proposer.clone());
        // It was approved for another workspace than this gate has; the gate that has it runs it.
        if request.digest(self.workspace_of(&row.agent))? != row.request {
            return Ok(None);
        }
        // ATTACK(changed-while-waiting): the yes is one fact among others, and today's policy decides again.
        let bound = self.bound(&approval.id).await?;
        let operands = bound.as_ref().map(Bound::given);
        let admitted = match self.admit(row.id.clone(), &request) {
            Ok(admitted) => Admitted { operands, ..admitted },
            Err(reason) => return refuse(reason).await,
        };
        let proposers = self.proposers_about(&approval);
        let mut consent = Consent { operands: bound.as_ref().map(Bound::shown), ..consent_of(&approval) };
        consent.by.retain(|name| !proposers.contains(name));
        let operators = self.inner.store.operators().await?;
        let mut facts = self.facts(&request, Some(consent), &operators);
        self.tell_spent(&admitted, &mut facts).await?;
        let Ruling { verdict, .. } = decide(&admitted, &facts, &policy);
        let grant = match verdict {
            Verdict::Allow(grant) => grant,
            Verdict::Deny(reason) => return refuse(reason).await,
            Verdict::Ask(_) => {
                let why =
                    "the approval no longer fits: people, tool, policy or what was spent have changed since";
                return refuse(Reason::expired(why).with_hint("make the call again to ask anew")).await;
            }
        };
        // Hooks hear of it when it can begin, and not each time that somebody looks.
        let turn = match self.turn_of_approved(&row).await? {
            Approved::Unheard => None,
            Approved::Now(turn) => Some(turn),
            Approved::NotYet => return Ok(None),
        };
        // Before the approval is used: one that has to wait for its workspace is not used up by waiting.
        let in_force = match self.put_in_force(bound, &request) {
            Ok(in_force) => in_force,
            Err(NotInForce::Busy) => return Ok(None),
            Err(NotInForce::Refused(reason)) => return refuse(reason).await,
        };
        // What a hook had asked about is answered; one that denies today is heard today.
        let allowed = Verdict::Allow(grant);
        let grant = match self.hear_before(&request, &admitted, allowed, json!([])).await?.0 {
            Verdict::Allow(grant) => grant,
            Verdict::Deny(reason) => return refuse(reason).await,
            Verdict::Ask(_) => match decide(&admitted, &facts, &policy).verdict {
                Verdict::Allow(grant) => grant,
                _ => return Ok(None),
            },
        };
        let authority = written("grant", grant.authority())?;
        let (allowances, charge) = (self.limits_on_running(&row.tool).allowances, self.charge_of(&grant));
        let case = Case { quote: grant.charge().map(|charge| charge.cost), ..case.clone() };
        let held = self.hold_in_force().await;
        if self.is_superseded(&request.tool) {
            return Ok(None);
        }
        let store = &self.inner.store;
        let _in_hand = self.take_in_hand(&row.id);
        // What people have approved is not refused for coming too often: it waits for its turn.
        let basis = Basis { call: &row, approval: &approval, operands };
        let started =
            store.start_approved_charged(basis, authority, self.now(), &allowances, charge.as_ref());
        let started = started.await;
        drop(held);
        match started {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // The receipt names nobody: what the store says of the answers is not to be repeated under a signature.
            Err(StoreError::Unproved { what, .. }) => {
                return Ok(self.refuse_waiting(&case, unproved(what), None).await);
            }
            Err(error) => return Err(error.into()),
        }
        // Those that hear of what it gave need a place, too.
        drop(turn);
        let at = self.surroundings_of(&row.id, &request, in_force);
        Ok(Some(self.see_run(case, Arc::new(request), grant, Some(approval), at, cancel.clone()).await))
    }

    /// Sees to what time does: questions past it are closed, with the calls that waited for them; others go on to the
    /// next people.
    pub async fn tend(&self) -> Result<(), EngineError> {
        let now = self.now();
        if !self.inner.store.is_anything_due(now).await? {
            return Ok(());
        }
        for row in self.inner.store.expire(now).await? {
            let reason =
                Reason::expired("nobody answered in time").with_hint("make the call again to ask anew");
            self.settle_unanswered(&row, reason).await?;
        }
        self.inner.store.escalate(now).await?;
        Ok(())
    }

    pub(crate) async fn settle_revoked(&self, row: &ApprovalRow) -> Result<Option<CallResult>, EngineError> {
        let who = row.revoked.as_ref().map(|revoked| revoked.by.to_string()).unwrap_or_default();
        let why = row.revoked.as_ref().and_then(|revoked| revoked.reason.as_deref());
        let why = why.map(|reason| format!(": {reason}")).unwrap_or_default();
        self.settle_unanswered(row, Reason::rejected(format!("`{who}` took the yes back{why}"))).await
    }

    async fn settle_rejected(&self, row: &ApprovalRow) -> Result<Option<CallResult>, EngineError> {
        let who = row.answers.last().map(|answer| answer.by.to_string()).unwrap_or_default();
        let why = row.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.settle_unanswered(row, Reason::rejected(format!("`{who}` said no{why}"))).await
    }

    async fn settle_unanswered(
        &self,
        row: &ApprovalRow,
        reason: Reason,
    ) -> Result<Option<CallResult>, EngineError> {
        let call = self.inner.store.call(&row.call).await?.ok_or(EngineError::Missing)?;
        Ok(self.refuse_waiting(&case_of_row(&call), reason, Some(row)).await)
    }

    /// A question with what people need to see of it.
    pub(crate) async fn shown(&self, approval: ApprovalRow) -> Result<Waiting, EngineError> {
        let operands = self.inner.store.operands(&approval.id).await?.map(shown_operands);
        let (shown_arguments, command) = shown_call(&approval);
        let about = approval.about.as_ref();
        Ok(Waiting {
            shown_arguments,
            command,
            action: about.and_then(action_of),
            safety: about.map(|about| about.safety),
            egress: about.map(|about| about.egress),
            operands,
            offers: offers(&approval),
            proposers: self.proposers_about(&approval),
            folded: Vec::new(),
            approval,
        })
    }

    /// Names those among the proposers, too, who have made the same call since it was asked about.
    pub(crate) async fn name_joiners(&self, waiting: &mut [Waiting]) -> Result<(), EngineError> {
        let Some(first) = waiting.iter().map(|waiting| waiting.approval.planned_seq).min() else {
            return Ok(());
        };
        let joined = match self.inner.store.joined_after(first).await {
            // Nobody answers then; what waits is shown all the same.
            Err(StoreError::Unsigned) => return Ok(()),
            joined => joined?,
        };
        for (approval, by) in joined {
            let about = waiting.iter_mut().filter(|waiting| waiting.approval.id == approval);
            about.for_each(|waiting| waiting.proposers.extend([by.clone()]));
        }
        Ok(())
    }

    /// The question that a call waits for.
    pub async fn question_of(&self, call: &CallId) -> Result<Option<Waiting>, EngineError> {
        match self.approval_of_call(call).await? {
            Some(row) => self.shown(row).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Names of files are the agent's words, too.
fn shown_operands(operands: Operands) -> Operands {
    let show = |text: String| contract::show_hidden(&text);
    let bound = operands.bound.into_iter();
    let bound = bound.map(|file| Operand { named: show(file.named), path: show(file.path), ..file });
    let not_bound = operands.not_bound.into_iter();
    let not_bound = not_bound.map(|thing| NotBound { what: show(thing.what), why: show(thing.why) });
    let absent = operands.absent.into_iter().map(show).collect();
    Operands { bound: bound.collect(), absent, not_bound: not_bound.collect(), unseen: operands.unseen }
}

/// The exact arguments of a call, and the words of its command, with everything hidden made visible.
pub(crate) fn shown_call(approval: &ApprovalRow) -> (String, Option<Vec<String>>) {
    let text = approval.arguments_json.as_deref().unwrap_or(NOT_SHOWN);
    let arguments = Canonical::parse(text).ok();
    let value = arguments.as_ref().map(|arguments| arguments.value().clone()).unwrap_or_default();
    let pretty = match arguments {
        Some(_) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned()),
        None => text.to_owned(),
    };
    (contract::show_hidden(&pretty), command_of(&value))
}

/// Whether two questions are one to people: they would read the same, and mean the same.
fn is_same(one: &ApprovalRow, other: &ApprovalRow) -> bool {
    match (&one.about, &other.about) {
        // Who has answered is part of what people see.
        (Some(first), Some(second)) => {
            // ATTACK(folded-unseen): what nobody has looked at whole is like nothing else.
            first.content.is_some()
                && first == second
                && (&one.agent, &one.tool, &one.contract, &one.policy, &one.purpose)
                    == (&other.agent, &other.tool, &other.contract, &other.policy, &other.purpose)
                && (&one.arguments, &one.why, one.quorum, &one.approvers)
                    == (&other.arguments, &other.why, other.quorum, &other.approvers)
        }
        _ => false,
    }
}

fn folded(row: ApprovalRow) -> Folded {
    Folded { id: row.id, call: row.call, task: row.task, expires_at: row.expires_at }
}

/// Why nothing runs by an approval of which the signed ledger tells something else, or nothing.
pub(crate) fn unproved(what: &str) -> Reason {
    let why = format!("the signed ledger does not tell of the approval as the store has it: {what}");
    Reason::unproved(why).with_hint("an operator should look at it with `toolgate ledger verify`")
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
        operands: None,
        policy: row.policy,
        why: row.why.clone(),
        expires_at: row.usable_until.unwrap_or(row.expires_at),
    }
}

pub(crate) fn request_of(row: &CallRow) -> Option<Request> {
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
        proposer: None,
    })
}

pub(crate) fn command_of(arguments: &serde_json::Value) -> Option<Vec<String>> {
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
