//! Calls: what was asked, what was decided, and who holds which claim.
//!
//! # Invariants
//! - A call and its ledger entries are recorded together, before anything happens.
//! - `planned` means that nothing has begun, `running` that the effect may have: see `owners`.
//! - A claim belongs to one call. It is given back when it is known that nothing happened, and else 24 hours after
//!   a known end.

use std::mem;

use contract::{
    AgentName, ApprovalId, CallId, CallStatus, Digest, Found, GateId, Operands, SafetyClass, TaskName,
    ToolName,
};
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};
use thiserror::Error;

use crate::approvals::ApprovalRow;
use crate::charging::{Charge, Reserved, Whose, reserved};
use crate::error::StoreError;
use crate::evidence::{Basis, prove_once};
use crate::join::count_open;
use crate::keys::Keys;
use crate::later::{Answers, Later};
use crate::ledger::List;
use crate::open::Store;
use crate::owners::{OnRecord, OwnGate, own_gate};
use crate::private::{Names, committed_authority, keep_asked, revealed_call};
use crate::questions::{About, NewEscalation, describe};
use crate::read::{digest, json as json_of, parsed, parsed_if_any};
use crate::reconcile::counts_as;
use crate::seals::{self, Seal};
use crate::spending::{Allowance, Kind, Spend, UsedUp, count_flood, end_flood};
use crate::standing::{is_usable, note_use};
use crate::unended::Unended;
use crate::wrapping::Secrets;
use crate::write::{Durable, Write};

/// How long a claim is kept.
pub const CLAIM_KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// The columns of a [`CallRow`]: the approval is the one that was asked for it.
macro_rules! select_calls {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.agent, c.task, c.tool, c.contract, c.request, c.arguments, c.arguments_json, c.policy, \
             c.purpose, c.trace, c.asked_at, c.planned_seq, c.status, c.settled_at, c.owner, c.decision, c.safety, \
             a.id AS approval, r.seq AS receipt_seq, x.found, k.wrapped, p.sealed, g.quoted, g.currency FROM calls c \
             LEFT JOIN approvals a ON a.call = c.id LEFT JOIN receipts r ON r.call = c.id \
             LEFT JOIN reconciliations x ON x.call = c.id LEFT JOIN call_keys k ON k.call = c.id \
             LEFT JOIN private p ON p.call = c.id AND p.kind = 'asked' \
             LEFT JOIN charges g ON g.call = c.id AND g.what = 'cost' ",
            $rest
        )
    };
}
pub(crate) use select_calls;

pub(crate) const BY_ID: &str = select_calls!("WHERE c.id = $1");
const KNOWN: &str = "SELECT id FROM calls WHERE id = $1";
// Few calls of an agent wait, and it may have made millions: an order that no index has keeps SQLite from going through all
// of them for the sake of theirs. Only the first is wanted; a limit would have SQLite make a table to sort them in, also if
// there is none.
pub(crate) const WAITING: &str = select_calls!(
    "WHERE c.status = 'waiting' AND k.same_request = $1 AND c.agent = $2 AND c.task IS NOT DISTINCT FROM $3 \
     AND c.tool = $4 AND ((a.state = 'pending' AND a.expires_at > $5) \
     OR (a.state = 'approved' AND a.usable_until > $5)) ORDER BY c.asked_at + 0, c.id"
);
const CLAIMED: &str = select_calls!("JOIN claims l ON l.call = c.id WHERE l.claim = $1");
const ADD: &str = "INSERT INTO calls (id, agent, task, tool, contract, request, arguments, arguments_json, policy, \
    purpose, trace, asked_at, planned_seq, status, owner, decision, safety) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
const CLAIM: &str = "INSERT INTO claims (claim, call, request, made_at) VALUES ($1, $2, $3, $4)";
const LAPSE: &str = "DELETE FROM claims WHERE claim = $1 AND made_at <= $2 AND EXISTS (SELECT 1 FROM calls \
    WHERE id = claims.call AND status IN ('completed', 'failed', 'refused', 'cancelled'))";
const ASK: &str = "INSERT INTO approvals (id, call, why, quorum, state, asked_at, expires_at) \
    VALUES ($1, $2, $3, $4, 'pending', $5, $6)";
const USE_APPROVAL: &str = "UPDATE approvals SET state = 'running' \
    WHERE id = $1 AND call = $2 AND state = 'approved' AND usable_until > $3 \
    AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = approvals.id) \
    AND quorum <= (SELECT count(*) FROM answers w JOIN operators o ON o.name = w.operator \
        WHERE w.approval = approvals.id AND w.verdict = 'approve' AND o.revoked_at IS NULL)";
const RUN: &str = "UPDATE calls SET status = 'running', owner = $2 WHERE id = $1 AND status = 'waiting'";
const RECEIPT: &str = "SELECT envelope FROM receipts WHERE call = $1";

/// A call that was decided and is about to be acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// The hash of its contract.
    pub contract: Digest,
    /// The digest of the canonical request.
    pub request: Digest,
    /// The digest of the canonical arguments.
    pub arguments: Digest,
    /// The canonical arguments.
    pub arguments_json: String,
    /// The hash of the policy that decided.
    pub policy: Digest,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// How the decision came about.
    pub trace: Value,
    /// How dangerous it is, by what its arguments would do.
    pub safety: SafetyClass,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// The idempotency key, scoped by the caller of this function.
    pub claim: Option<String>,
    /// What was decided.
    pub course: Course,
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// It runs. What only reads may begin at once; the rest waits for [`Store::begin_call`].
    Run {
        /// With this authority.
        authority: Value,
    },
    /// It runs at once, because people have said yes to such calls before.
    RunUnder {
        /// With this authority.
        authority: Value,
        /// Under this yes, as it was read when the call was decided by it.
        under: Box<ApprovalRow>,
    },
    /// People are asked first.
    Ask(NewApproval),
    /// It does not run. What it claims is not looked at: nothing was done, and nothing done before is told.
    Refuse,
}

/// A question to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// Why it is asked.
    pub why: Vec<String>,
    /// How many different people must approve.
    pub quorum: u32,
    /// When it is too late to answer, in milliseconds since 1970.
    pub expires_at: i64,
    /// The files that the call names, as they are now; nothing if nobody looked.
    pub seal: Option<Seal>,
    /// What it is about.
    pub about: Option<Box<About>>,
    /// Whom it reaches when nobody answers.
    pub escalation: Vec<NewEscalation>,
    /// How many questions of its agent may wait at once.
    pub most_open: u64,
}

/// What became of a call that was to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// It is recorded.
    New {
        /// The ledger entry that tells of it.
        seq: i64,
    },
    /// The same call was made before under this claim; nothing is recorded.
    Existing(Box<CallRow>),
    /// Another call was made under this claim; nothing is recorded.
    KeyConflict,
    /// The agent may not call so often; nothing is recorded but, if it was to be refused, that there was one more.
    UsedUp(UsedUp),
    /// Others have taken what was left of a budget; nothing is recorded.
    OverBudget,
    /// The yes under which it was to run is no longer good; nothing is recorded.
    NotCovered,
    /// So many questions of the agent wait already that no other is asked; nothing is recorded.
    TooManyQuestions {
        /// How many.
        open: u64,
    },
}

/// Why a call was not recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// There is one with that id.
    #[error("there is a call `{id}` already")]
    Exists {
        /// Which id.
        id: CallId,
    },
    /// What would be shown is not what would be bound.
    #[error("the digest of the arguments is not that of their text")]
    ArgumentsDiffer,
    /// What would be bound is not what would run.
    #[error("a sealed copy is missing, or is not what its digest says")]
    NotSealed,
    /// A question that nobody could answer.
    #[error("an approval needs at least one person, and time to answer")]
    Unanswerable,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A call as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// The hash of its contract.
    pub contract: Digest,
    /// The digest of the canonical request.
    pub request: Digest,
    /// The digest of the canonical arguments.
    pub arguments: Digest,
    /// The canonical arguments.
    pub arguments_json: String,
    /// Whether what it was asked and gave is gone for good.
    pub is_erased: bool,
    /// The hash of the policy that decided.
    pub policy: Digest,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// How the decision came about.
    pub trace: Value,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// The ledger entry that tells of its planning.
    pub planned_seq: i64,
    /// The gate that sees it through, once one does.
    pub owner: Option<GateId>,
    /// How dangerous it is.
    pub safety: SafetyClass,
    /// Where it is. One that was reconciled counts as what was found; one that was refused and is not settled yet counts as refused.
    pub status: CallStatus,
    /// When it was settled, if it was, in milliseconds since 1970.
    pub settled_at: Option<i64>,
    /// The question that was asked about it, if one was.
    pub approval: Option<ApprovalId>,
    /// The ledger entry that settles it, if it is settled.
    pub receipt_seq: Option<i64>,
    /// What people found out about it, if nobody knew at first.
    pub reconciled: Option<Found>,
    /// What it has reserved of budgets, until it has ended.
    pub reserved: Option<Reserved>,
}

impl Store {
    /// Records a call and what was decided about it, in one transaction; durable when it returns.
    pub async fn record_call(&self, call: NewCall) -> Result<Recorded, RecordError> {
        self.record_within(call, &[]).await
    }

    /// The same for an agent that may not call more often than this. One that people are asked about counts when it
    /// starts.
    pub async fn record_within(
        &self,
        call: NewCall,
        allowances: &[Allowance],
    ) -> Result<Recorded, RecordError> {
        self.record_charged(call, allowances, None, Durable::Now).await
    }

    /// The same for a call that takes something of budgets, if it runs: that is reserved with the record. Whether it is
    /// durable when this returns is for the caller to say.
    pub async fn record_charged(
        &self,
        call: NewCall,
        allowances: &[Allowance],
        charge: Option<&Charge>,
        durable: Durable,
    ) -> Result<Recorded, RecordError> {
        if let Course::Ask(question) = &call.course
            && (question.quorum == 0 || question.expires_at <= call.asked_at)
        {
            return Err(RecordError::Unanswerable);
        }
        if let Course::Ask(question) = &call.course
            && question.seal.as_ref().is_some_and(|seal| !seal.is_whole())
        {
            return Err(RecordError::NotSealed);
        }
        if call.course != Course::Refuse && Digest::of(call.arguments_json.as_bytes()) != call.arguments {
            return Err(RecordError::ArgumentsDiffer);
        }
        let claim = call.claim.as_ref().filter(|_| call.course != Course::Refuse);
        let claim = claim.map(|claim| self.keys().wrapping().lookup("claim", claim.as_bytes()));
        // All that it needs to know, in one breath; it is looked at in the same order as if it were asked one by one.
        let mut questions = Later::default();
        if let Some(claim) = &claim {
            ask_holder(&mut questions, claim, call.asked_at)?;
        }
        questions.keep(sqlx::query(KNOWN).bind(call.id.as_str()))?;
        let spend = spend_of(&call, allowances);
        if let Some(spend) = &spend {
            spend.ask(&mut questions)?;
        }
        let own = OwnGate::ask(self, &mut questions)?;
        let (mut write, mut answers) = self.write_asking(questions).await?;
        if claim.is_some()
            && let Some(holder) = hear_holder(&mut answers, self.keys())?
        {
            return Ok(match holder.request == call.request {
                true => Recorded::Existing(Box::new(holder)),
                false => Recorded::KeyConflict,
            });
        }
        if let Course::Ask(question) = &call.course {
            // ATTACK(buried-in-questions): many at once are counted one after the other.
            let open = count_open(write.connection().await?, &call.agent).await?;
            if open >= question.most_open {
                return Ok(Recorded::TooManyQuestions { open });
            }
        }
        if let Course::RunUnder { under, .. } = &call.course
            && !is_usable(&mut write, under, call.asked_at).await?
        {
            return Ok(Recorded::NotCovered);
        }
        if answers.row()?.is_some() {
            return Err(RecordError::Exists { id: call.id });
        }
        // INVARIANT(denied-takes-nothing)
        let charge = charge.filter(|_| matches!(call.course, Course::Run { .. } | Course::RunUnder { .. }));
        if let Some(charge) = charge
            && charge.exceeds(&mut write).await?
        {
            return Ok(Recorded::OverBudget);
        }
        if let Some(spend) = spend
            && let Some(used_up) = count(&mut write, &call, &spend, &mut answers).await?
        {
            write.commit().await?;
            return Ok(Recorded::UsedUp(used_up));
        }
        let own = own.hear(&mut answers)?;
        let (request, asked_at) = (call.request, call.asked_at);
        let unended = plan(&mut write, self.keys(), call, own).await?;
        let CallRow { id, agent, task, tool, planned_seq, status, .. } = &unended.call;
        // What has begun, and has nothing beside its row.
        let is_remembered = *status == CallStatus::Running && charge.is_none();
        let seq = *planned_seq;
        if let Some(charge) = charge {
            charge.reserve(&mut write, &Whose { call: id, agent, task: task.as_ref(), tool }).await?;
        }
        if let Some(claim) = claim {
            let make = sqlx::query(CLAIM).bind(claim).bind(id.as_str());
            let request = self.keys().wrapping().lookup("request", request.as_bytes());
            write.say(make.bind(request).bind(asked_at))?;
        }
        write.commit_until(durable).await?;
        if is_remembered {
            self.remembered_calls.remember(unended);
        }
        Ok(Recorded::New { seq })
    }

    /// Uses an approval, once: the call runs. False if it was used, is not given, or may no longer be used.
    pub async fn start_approved(
        &self,
        call: &CallId,
        approval: &ApprovalId,
        authority: Value,
        now: i64,
    ) -> Result<bool, StoreError> {
        let (Some(call), Some(approval)) = (self.call(call).await?, self.approval(approval).await?) else {
            return Ok(false);
        };
        let operands = self.operands(&approval.id).await?.map(|operands| operands.digest());
        let basis = Basis { call: &call, approval: &approval, operands };
        self.start_approved_within(basis, authority, now, &[]).await
    }

    /// The same for an agent that may not call more often than this: false also until its turn comes.
    pub async fn start_approved_within(
        &self,
        basis: Basis<'_>,
        authority: Value,
        now: i64,
        allowances: &[Allowance],
    ) -> Result<bool, StoreError> {
        self.start_approved_charged(basis, authority, now, allowances, None).await
    }

    /// The same for a call that takes something of budgets: false also if others have taken what was left.
    pub async fn start_approved_charged(
        &self,
        basis: Basis<'_>,
        authority: Value,
        now: i64,
        allowances: &[Allowance],
        charge: Option<&Charge>,
    ) -> Result<bool, StoreError> {
        let (call, approval) = (&basis.call.id, &basis.approval.id);
        let mut write = self.write().await?;
        let using = sqlx::query(USE_APPROVAL).bind(approval.as_str()).bind(call.as_str()).bind(now);
        if using.execute(write.connection().await?).await?.rows_affected() != 1 {
            return Ok(false);
        }
        let own = own_gate(&mut write, None, now).await?;
        let run = sqlx::query(RUN).bind(call.as_str()).bind(own.as_str());
        if run.execute(write.connection().await?).await?.rows_affected() != 1 {
            // The caller took it back; what was approved stays unused.
            return Ok(false);
        }
        Box::pin(prove_once(&mut write, &basis, now)).await?;
        let Some(row) = read_call(write.connection().await?, call).await? else { return Ok(false) };
        let spend = Spend { kind: Kind::Run, agent: &row.agent, tool: &row.tool, allowances, now };
        let mut questions = Later::default();
        spend.ask(&mut questions)?;
        let mut answers = write.ask(questions).await?;
        if spend.take(&mut write, &mut answers).await?.is_some() {
            return Ok(false);
        }
        if let Some(charge) = charge {
            if charge.exceeds(&mut write).await? {
                return Ok(false);
            }
            let whose = Whose { call, agent: &row.agent, task: row.task.as_ref(), tool: &row.tool };
            charge.reserve(&mut write, &whose).await?;
        }
        let authority = committed_authority(authority, &row.arguments);
        let body = json!({ "call": call, "approval": approval, "authority": authority });
        // The yes is used up: in the list of answers, so that it cannot be used again.
        write.append_to(List::Answers, now, "call.started", body).await?;
        write.commit().await?;
        Ok(true)
    }

    /// One call.
    pub async fn call(&self, id: &CallId) -> Result<Option<CallRow>, StoreError> {
        let query = sqlx::query(BY_ID).bind(id.as_str());
        let row = query.fetch_optional(&mut *self.read().await?).await?;
        row.as_ref().map(|row| revealed_call(row, self.keys())).transpose()
    }

    /// What a settled call gave. Nothing if it has no end yet, or is erased.
    pub async fn result(&self, id: &CallId) -> Result<Option<Value>, StoreError> {
        self.opened_result(id).await
    }

    /// Something that a call left behind, by its digest.
    pub async fn artifact(&self, id: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(content) = self.opened_artifact(id).await? else { return Ok(None) };
        // Found by its digest, so it has to have it.
        if Digest::of(&content) == *id {
            Ok(Some(content))
        } else {
            Err(StoreError::Unreadable { what: "artifact" })
        }
    }

    /// The signed receipt of a settled call: a DSSE envelope.
    pub async fn receipt(&self, id: &CallId) -> Result<Option<String>, StoreError> {
        let query = sqlx::query(RECEIPT).bind(id.as_str());
        let row = query.fetch_optional(&mut *self.read().await?).await?;
        Ok(row.map(|row| row.try_get("envelope")).transpose()?)
    }
}

/// What a call is counted as. One that people are asked about is not, yet.
fn spend_of<'a>(call: &'a NewCall, allowances: &'a [Allowance]) -> Option<Spend<'a>> {
    let kind = match call.course {
        Course::Run { .. } | Course::RunUnder { .. } => Kind::Run,
        Course::Refuse => Kind::Refuse,
        Course::Ask(_) => return None,
    };
    Some(Spend { kind, agent: &call.agent, tool: &call.tool, allowances, now: call.asked_at })
}

/// Counts a call. One too many that is refused is at least counted as such.
async fn count(
    write: &mut Write<'_>,
    call: &NewCall,
    spend: &Spend<'_>,
    answers: &mut Answers,
) -> Result<Option<UsedUp>, StoreError> {
    let used_up = spend.take(write, answers).await?;
    match (spend.kind, used_up) {
        (Kind::Refuse, Some(_)) => count_flood(write, call).await?,
        (Kind::Refuse, None) => end_flood(write, &call.agent, call.asked_at).await?,
        (Kind::Run, _) => {}
    }
    Ok(used_up)
}

/// Asks for the call that holds a claim, after claims that have had their time are let go.
pub(crate) fn ask_holder(questions: &mut Later, claim: &str, now: i64) -> Result<(), StoreError> {
    questions.keep(sqlx::query(LAPSE).bind(claim).bind(now.saturating_sub(CLAIM_KEPT_MS)))?;
    questions.keep(sqlx::query(CLAIMED).bind(claim))
}

/// What was answered to that.
pub(crate) fn hear_holder(answers: &mut Answers, keys: &Keys) -> Result<Option<CallRow>, StoreError> {
    answers.rows()?;
    answers.row()?.as_ref().map(|row| revealed_call(row, keys)).transpose()
}

/// Writes the call, and the ledger entries that tell of it.
pub(crate) async fn plan(
    write: &mut Write<'_>,
    keys: &Keys,
    mut call: NewCall,
    own: Option<OnRecord>,
) -> Result<Unended, StoreError> {
    let secrets = Secrets::new(call.request, call.arguments)?;
    let Names { request, arguments } = Names::committed(&secrets);
    let (decision, status) = match &call.course {
        // What only reads may be read again: nothing is gained by a second wait for the disk.
        Course::Run { .. } if call.safety == SafetyClass::Read => ("run", CallStatus::Running),
        Course::Run { .. } => ("run", CallStatus::Planned),
        // One moment decides whether it was under a yes that was taken back: it begins in it.
        Course::RunUnder { .. } => ("run", CallStatus::Running),
        Course::Ask(_) => ("ask", CallStatus::Waiting),
        Course::Refuse => ("refuse", CallStatus::Planned),
    };
    let owner = match status {
        CallStatus::Waiting => None,
        _ => Some(own_gate(write, own, call.asked_at).await?),
    };
    // Not copied: with the authority it is most of what is written.
    let trace = mem::take(&mut call.trace);
    let trace_text = trace.to_string();
    let planned = json!({
        "call": call.id,
        "agent": call.agent,
        "task": call.task,
        "tool": call.tool,
        "contract": call.contract,
        "request": request,
        "arguments": arguments,
        "policy": call.policy,
        "purpose": call.purpose,
        "claim": call.claim.as_ref().map(|claim| secrets.key.commit("claim", &Digest::of(claim.as_bytes()))),
        "decision": decision,
        "safety": call.safety,
        "gate": owner,
    });
    let seq = write.append(call.asked_at, "call.planned", with("trace", trace, planned)).await?;
    let add = sqlx::query(ADD)
        .bind(call.id.as_str())
        .bind(call.agent.as_str())
        .bind(call.task.as_ref().map(TaskName::as_str))
        .bind(call.tool.as_str())
        .bind(call.contract.to_string())
        .bind(request.to_string())
        .bind(arguments.to_string())
        // Sealed, and kept elsewhere.
        .bind("")
        .bind(call.policy.to_string())
        .bind(call.purpose.as_deref())
        .bind(trace_text)
        .bind(call.asked_at)
        .bind(seq)
        .bind(status.as_str())
        .bind(owner.as_ref().map(GateId::as_str))
        .bind(decision)
        .bind(call.safety.as_str());
    write.say(add)?;
    keep_asked(write, keys, &call.id, &secrets, &call.arguments_json)?;
    match mem::replace(&mut call.course, Course::Refuse) {
        Course::Run { .. } if status == CallStatus::Planned => {}
        Course::Run { authority } => {
            let authority = committed_authority(authority, &arguments);
            let body = with("authority", authority, json!({ "call": call.id }));
            write.append(call.asked_at, "call.started", body).await?;
        }
        Course::RunUnder { authority, under } => {
            note_use(write, &call, &under.id).await?;
            let authority = committed_authority(authority, &arguments);
            let body = with("authority", authority, json!({ "call": call.id, "approval": under.id }));
            write.append(call.asked_at, "call.started", body).await?;
        }
        Course::Ask(question) => ask(write, &call, &arguments, &question).await?,
        Course::Refuse => {}
    }
    // As `status_of` reads it.
    let status = if decision == "refuse" { CallStatus::Refused } else { status };
    Ok(Unended { call: row_of(call, Names { request, arguments }, status, owner, seq), secrets })
}

/// An object with one more member, which is not copied.
fn with(name: &str, member: Value, mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.insert(name.to_owned(), member);
    }
    object
}

/// The row of a call that was just written, but for its trace.
fn row_of(
    call: NewCall,
    names: Names,
    status: CallStatus,
    owner: Option<GateId>,
    planned_seq: i64,
) -> CallRow {
    let NewCall { id, agent, task, tool, contract, policy, purpose, safety, asked_at, .. } = call;
    CallRow {
        id,
        agent,
        task,
        tool,
        contract,
        request: names.request,
        arguments: names.arguments,
        arguments_json: String::new(),
        is_erased: false,
        policy,
        purpose,
        trace: Value::Null,
        asked_at,
        planned_seq,
        owner,
        safety,
        status,
        settled_at: None,
        approval: None,
        receipt_seq: None,
        reconciled: None,
        reserved: None,
    }
}

async fn ask(
    write: &mut Write<'_>,
    call: &NewCall,
    arguments: &Digest,
    question: &NewApproval,
) -> Result<(), StoreError> {
    let asking = sqlx::query(ASK)
        .bind(question.id.as_str())
        .bind(call.id.as_str())
        .bind(json!(question.why).to_string())
        .bind(i64::from(question.quorum))
        .bind(call.asked_at)
        .bind(question.expires_at);
    write.say(asking)?;
    if let Some(seal) = &question.seal {
        seals::keep(write, &question.id, seal).await?;
    }
    let operands = question.seal.as_ref().map(|seal| &seal.operands);
    if let Some(about) = &question.about {
        describe(write, &question.id, about, &question.escalation).await?;
    }
    let asked = json!({
        "approval": question.id,
        "call": call.id,
        "agent": call.agent,
        "tool": call.tool,
        "contract": call.contract,
        "arguments": arguments,
        "policy": call.policy,
        "why": question.why,
        "quorum": question.quorum,
        "expires_at": question.expires_at,
        "operands": operands,
        "operands_digest": operands.map(Operands::digest),
        "about": question.about,
    });
    write.append(call.asked_at, "approval.asked", asked).await?;
    Ok(())
}

/// Reads a call inside a transaction.
pub(crate) async fn read_call(
    connection: &mut AnyConnection,
    id: &CallId,
) -> Result<Option<CallRow>, StoreError> {
    let row = sqlx::query(BY_ID).bind(id.as_str()).fetch_optional(connection).await?;
    row.as_ref().map(call_row).transpose()
}

/// Where a call is. One that was refused and is not settled yet counts as refused, one that was reconciled as what was
/// found.
pub(crate) fn status_of(row: &AnyRow) -> Result<CallStatus, StoreError> {
    let decision: &str = row.try_get("decision")?;
    let reconciled = parsed_if_any(row, "found", Found::parse)?;
    let status = |text: &str| match (text, reconciled) {
        ("planned", _) if decision == "refuse" => Some(CallStatus::Refused),
        ("unknown", Some(found)) => Some(counts_as(found)),
        (other, _) => CallStatus::parse(other),
    };
    parsed(row, "status", status)
}

/// A call as its row has it: what is private of it is named by commitments.
pub(crate) fn call_row(row: &AnyRow) -> Result<CallRow, StoreError> {
    Ok(CallRow {
        id: parsed(row, "id", |text| CallId::parse(text).ok())?,
        agent: parsed(row, "agent", |text| AgentName::parse(text).ok())?,
        task: parsed_if_any(row, "task", |text| TaskName::parse(text).ok())?,
        tool: parsed(row, "tool", |text| ToolName::parse(text).ok())?,
        contract: digest(row, "contract")?,
        request: digest(row, "request")?,
        arguments: digest(row, "arguments")?,
        arguments_json: row.try_get("arguments_json")?,
        is_erased: false,
        policy: digest(row, "policy")?,
        purpose: row.try_get("purpose")?,
        trace: json_of(row, "trace")?,
        asked_at: row.try_get("asked_at")?,
        planned_seq: row.try_get("planned_seq")?,
        owner: parsed_if_any(row, "owner", |text| GateId::parse(text).ok())?,
        safety: parsed(row, "safety", SafetyClass::parse)?,
        status: status_of(row)?,
        settled_at: row.try_get("settled_at")?,
        approval: parsed_if_any(row, "approval", |text| ApprovalId::parse(text).ok())?,
        receipt_seq: row.try_get("receipt_seq")?,
        reconciled: parsed_if_any(row, "found", Found::parse)?,
        reserved: reserved(row)?,
    })
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;

    #[tokio::test]
    async fn a_call_is_compared_with_those_that_wait_and_not_with_all_that_were_made() {
        let home = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", home.path().join("store.db").display());
        let store = Store::open(&url, Keys::load_or_create(home.path()).unwrap()).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {WAITING}")));
        let explain = explain.bind("").bind("").bind("").bind("").bind(0_i64);
        let steps = explain.fetch_all(&mut *store.read().await.unwrap()).await.unwrap();
        let steps: Vec<String> = steps.iter().map(|step| step.try_get("detail").unwrap()).collect();
        assert!(steps.iter().any(|step| step.contains("INDEX calls_waiting")), "{steps:#?}");
    }
}
