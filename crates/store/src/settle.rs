//! The end of a call: its final status, its receipt, and what it left behind, in one transaction.

use contract::{Amount, CallId, CallStatus, Canonical, Code, Cost, Digest, GateId, ReceiptBody, SafetyClass};
use serde_json::{Value, json};
use thiserror::Error;

use crate::calls::{BY_ID, CallRow};
use crate::charging::{Outcome, Reserved, count};
use crate::error::StoreError;
use crate::keys::Keys;
use crate::later::Later;
use crate::ledger::{SETTLED, sign_receipt};
use crate::open::Store;
use crate::owners::is_of_another;
use crate::private::{Kind as Private, Names, call_and_secrets, committed, keep};
use crate::seals;
use crate::unended::Unended;
use crate::wrapping::CallKey;
use crate::write::Write;

const SETTLE: &str = "UPDATE calls SET status = $2, settled_at = $3 WHERE id = $1";
const RUNS_AS_LEFT: &str = "SELECT 1 FROM calls WHERE id = $1 AND status = 'running' AND owner = $2";
const FILE: &str = "INSERT INTO receipts (call, seq, envelope) VALUES ($1, $2, $3)";
const END_APPROVAL: &str = "UPDATE approvals SET state = $2 WHERE call = $1 AND state = 'running'";
const WITHDRAW: &str =
    "UPDATE approvals SET state = 'cancelled', decided_at = $2 WHERE call = $1 AND state = 'pending'";
const RELEASE: &str = "DELETE FROM claims WHERE call = $1";

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Which call.
    pub call: CallId,
    /// How it ended.
    pub status: CallStatus,
    /// What its receipt says.
    pub body: ReceiptBody,
    /// What the caller gets, as JSON.
    pub result: String,
    /// What the tool gave before it was cleaned, where that differs.
    pub raw: Option<Value>,
    /// What is too large for that, by name.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// When, in milliseconds since 1970.
    pub now: i64,
}

/// A receipt that was filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// By which it is found: `r-` and the call's id.
    pub id: String,
    /// The ledger entry that it is the receipt of.
    pub seq: i64,
}

/// Why a call was not settled.
#[derive(Debug, Error)]
pub enum SettleError {
    /// There is no such call.
    #[error("there is no call `{id}`")]
    Unknown {
        /// Which id.
        id: CallId,
    },
    /// It is settled.
    #[error("the call `{id}` is settled already, as {}", status.as_str())]
    Settled {
        /// Which call.
        id: CallId,
        /// How it ended.
        status: CallStatus,
    },
    /// It cannot end this way from where it is.
    #[error("a call that is {} cannot end as {}", from.as_str(), to.as_str())]
    NoSuchWay {
        /// Where it is.
        from: CallStatus,
        /// How it was to end.
        to: CallStatus,
    },
    /// Another gate sees it through.
    #[error("the call `{id}` belongs to another gate, which lives")]
    NotOurs {
        /// Which call.
        id: CallId,
    },
    /// The receipt is about something else.
    #[error("the receipt does not fit the call: its {what} differs")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// Two of a name.
    #[error("two artifacts are called `{name}`")]
    DuplicateArtifact {
        /// Which name.
        name: String,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Receipt {
    /// The id of a call's receipt.
    pub fn id_of(call: &CallId) -> String {
        format!("r-{call}")
    }
}

impl Store {
    /// Ends a call: signs and files its receipt, and keeps what it gave. Once.
    pub async fn settle(&self, settlement: &Settlement) -> Result<Receipt, SettleError> {
        let mut names: Vec<&str> = settlement.artifacts.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[one, next]| one == next) {
            return Err(SettleError::DuplicateArtifact { name: (*name).to_owned() });
        }
        let id = &settlement.call;
        let mut write = self.write().await?;
        let unended = match self.remembered_calls.take(id) {
            Some(unended) if runs_as_left(&mut write, &unended.call).await? => unended,
            _ => read(&mut write, id).await?,
        };
        let seq = end(&mut write, unended, settlement).await?;
        write.commit().await?;
        Ok(Receipt { id: Receipt::id_of(id), seq })
    }
}

/// Whether the row of a call is as this gate has left it. Else it says what has become of the call.
async fn runs_as_left(write: &mut Write<'_>, call: &CallRow) -> Result<bool, StoreError> {
    let mut questions = Later::default();
    let runs = sqlx::query(RUNS_AS_LEFT).bind(call.id.as_str());
    questions.keep(runs.bind(call.owner.as_ref().map(GateId::as_str)))?;
    Ok(write.ask(questions).await?.row()?.is_some())
}

/// What there is of a call, in a transaction.
async fn read(write: &mut Write<'_>, id: &CallId) -> Result<Unended, SettleError> {
    let keys = write.store().keys().clone();
    let mut questions = Later::default();
    questions.keep(sqlx::query(BY_ID).bind(id.as_str()))?;
    let row = write.ask(questions).await?.row()?.ok_or_else(|| SettleError::Unknown { id: id.clone() })?;
    let (call, secrets) = call_and_secrets(&row, &keys, id)?;
    // Before its key is looked at: only what has ended is erased.
    if call.settled_at.is_some() {
        return Err(SettleError::Settled { id: call.id, status: call.status });
    }
    let secrets = secrets.ok_or(StoreError::Unreadable { what: "key of a call" })?;
    Ok(Unended { call, secrets })
}

/// Ends a call that has no end yet, within a transaction; returns the place of the entry that tells of it.
pub(crate) async fn end(
    write: &mut Write<'_>,
    Unended { call, secrets }: Unended,
    settlement: &Settlement,
) -> Result<i64, SettleError> {
    let Settlement { call: id, status, body, result, raw, artifacts, now } = settlement;
    let (status, now) = (*status, *now);
    let keys = write.store().keys().clone();
    check_way(&call, status)?;
    // ATTACK(living-owner): a look at the wrong moment ends nobody's call.
    if is_of_another(write, &call).await? {
        return Err(SettleError::NotOurs { id: id.clone() });
    }
    let body = committed(body.clone(), &secrets, &Names::of(&call));
    let body = ReceiptBody { cost: cost_of(&call, body.cost), ..body };
    check_receipt(&call, status, &body).map_err(|what| SettleError::Mismatch { what })?;
    let statement = Canonical::of(json!(body)).map_err(StoreError::from)?;
    let envelope = sign_receipt(statement.text(), &keys);
    let key = &secrets.key;
    let released = has_done_nothing(&call, &body);
    let taken = call.reserved.as_ref().map(|_| outcome_of(&call, body.cost.as_ref()));
    let seq = write.append_canonical(now, SETTLED, &statement).await?;
    write.say(sqlx::query(FILE).bind(id.as_str()).bind(seq).bind(envelope))?;
    keep(write, id, key, Private::Result, "", result.as_bytes(), None)?;
    if let Some(raw) = raw {
        keep(write, id, key, Private::Raw, "", raw.to_string().as_bytes(), None)?;
    }
    keep_artifacts(write, &keys, id, key, artifacts)?;
    write.say(sqlx::query(SETTLE).bind(id.as_str()).bind(status.as_str()).bind(now))?;
    end_approval(write, &call, status, now).await?;
    if let Some(approval) = &call.approval {
        seals::let_go(write, approval).await?;
    }
    if let Some(outcome) = taken {
        count(write, id, outcome)?;
    }
    if released {
        // Nothing has happened, so the same call may be made again.
        write.say(sqlx::query(RELEASE).bind(id.as_str()))?;
    }
    Ok(seq)
}

fn check_way(call: &CallRow, to: CallStatus) -> Result<(), SettleError> {
    use CallStatus::{Cancelled, Completed, Failed, Planned, Refused, Running, Unknown, Waiting};
    match (call.status, to) {
        (Refused, Refused)
        | (Planned, Failed | Cancelled)
        | (Waiting, Refused | Cancelled)
        | (Running, Completed | Failed | Cancelled | Unknown) => Ok(()),
        (from, to) => Err(SettleError::NoSuchWay { from, to }),
    }
}

/// Whether a call that ends has certainly had no effect.
fn has_done_nothing(call: &CallRow, body: &ReceiptBody) -> bool {
    let was_interrupted = body.reason.as_ref().is_some_and(|reason| reason.code == Code::Interrupted);
    call.status != CallStatus::Running || (call.safety == SafetyClass::Read && was_interrupted)
}

/// What a receipt says of the cost: what was reserved is known here, also of the calls of gates that are no more.
fn cost_of(call: &CallRow, said: Option<Cost>) -> Option<Cost> {
    let Some(Reserved { quoted, currency }) = &call.reserved else { return None };
    let Cost { currency, quoted, measured, reported } = said.unwrap_or_else(|| Cost {
        currency: currency.clone(),
        quoted: Amount::of_millionths(*quoted),
        measured: None,
        reported: None,
    });
    let measured = if call.status == CallStatus::Running { measured } else { Some(Amount::ZERO) };
    (!currency.is_empty()).then_some(Cost { currency, quoted, measured, reported })
}

/// What becomes of what a call has reserved. One that only reads and was interrupted has used what it used.
fn outcome_of(call: &CallRow, cost: Option<&Cost>) -> Outcome {
    match cost.and_then(|cost| cost.measured) {
        _ if call.status != CallStatus::Running => Outcome::Released,
        Some(measured) => Outcome::Measured(measured.millionths()),
        None => Outcome::Unknown,
    }
}

/// Whether a receipt is of this call; else what differs.
pub(crate) fn check_receipt(
    call: &CallRow,
    status: CallStatus,
    body: &ReceiptBody,
) -> Result<(), &'static str> {
    let differs = [
        ("call", body.call_id != call.id),
        ("status", body.status != status),
        ("agent", body.agent != call.agent),
        ("task", body.task != call.task),
        ("tool", body.tool != call.tool),
        ("contract", body.contract != call.contract),
        ("request", body.request != call.request),
        ("arguments", body.arguments != call.arguments),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(what),
        None => Ok(()),
    }
}

fn keep_artifacts(
    write: &mut Write<'_>,
    keys: &Keys,
    call: &CallId,
    key: &CallKey,
    artifacts: &[(String, Vec<u8>)],
) -> Result<(), StoreError> {
    for (name, content) in artifacts {
        let lookup = keys.wrapping().lookup("artifact", Digest::of(content).as_bytes());
        keep(write, call, key, Private::Artifact, name, content, Some(lookup))?;
    }
    Ok(())
}

async fn end_approval(
    write: &mut Write<'_>,
    call: &CallRow,
    status: CallStatus,
    now: i64,
) -> Result<(), StoreError> {
    let Some(approval) = &call.approval else { return Ok(()) };
    let state = if status == CallStatus::Completed { "completed" } else { "failed" };
    write.say(sqlx::query(END_APPROVAL).bind(call.id.as_str()).bind(state))?;
    let withdraw = sqlx::query(WITHDRAW).bind(call.id.as_str()).bind(now);
    if withdraw.execute(write.connection().await?).await?.rows_affected() > 0 {
        write.append(now, "approval.cancelled", json!({ "approval": approval, "call": call.id })).await?;
    }
    Ok(())
}
