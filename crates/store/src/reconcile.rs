//! What people find out about a call whose outcome nobody knew: on record once, with who found it and how.
//!
//! The call itself stays `unknown` in its row, which is settled once; what was found stands beside it, with a second
//! receipt, and is what the call counts as from then on.

use contract::{CallId, CallStatus, Canonical, Found, OperatorName, ReceiptBody};
use serde_json::{Value, json};
use sqlx::Row;
use thiserror::Error;

use crate::calls::{CallRow, read_call};
use crate::error::StoreError;
use crate::ledger::{RECONCILED, sign_receipt};
use crate::open::Store;
use crate::private::{Kind as Private, Names, committed, keep, secrets_of};
use crate::settle::{Receipt, check_receipt};

const RECORD: &str = "INSERT INTO reconciliations (call, found, operator, reason, made_at, seq, envelope, result) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const RELEASE: &str = "DELETE FROM claims WHERE call = $1";
const ENVELOPE: &str = "SELECT envelope FROM reconciliations WHERE call = $1";

/// What was found out about a call.
#[derive(Clone, Debug)]
pub struct Reconciliation {
    /// Which call.
    pub call: CallId,
    /// What its second receipt says; it names who found what.
    pub body: ReceiptBody,
    /// What whoever makes the same call again gets.
    pub result: Value,
    /// When, in milliseconds since 1970.
    pub now: i64,
}

/// Why what was found was not recorded.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// There is no such call.
    #[error("there is no call `{id}`")]
    Unknown {
        /// Which id.
        id: CallId,
    },
    /// There is nothing to find out.
    #[error("the outcome of the call `{id}` is known: it is {}", status.as_str())]
    Known {
        /// Which call.
        id: CallId,
        /// Where it is.
        status: CallStatus,
    },
    /// Somebody has found out before.
    #[error("the call `{id}` is reconciled already: {}", found.as_str())]
    Reconciled {
        /// Which call.
        id: CallId,
        /// What was found.
        found: Found,
    },
    /// Not by them.
    #[error("`{by}` may not reconcile: that takes an approver or an admin")]
    NotAllowed {
        /// Who tried.
        by: OperatorName,
    },
    /// The receipt is about something else.
    #[error("the receipt does not fit the call: its {what} differs")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Records what a person has found out about a call whose outcome nobody knew. Once.
    ///
    /// If it did not happen, its claim is given back; if it did, the claim stays, and the same call again is told so.
    pub async fn reconcile(&self, reconciliation: Reconciliation) -> Result<Receipt, ReconcileError> {
        let Reconciliation { call: id, body, result, now } = reconciliation;
        let word = body.reconciled.clone().ok_or(ReconcileError::Mismatch { what: "found" })?;
        let mut write = self.write().await?;
        let call = read_call(write.connection().await?, &id).await?;
        let call = call.ok_or_else(|| ReconcileError::Unknown { id: id.clone() })?;
        check_unknown(&call)?;
        if !write.roster().await?.may_answer(&word.by) {
            return Err(ReconcileError::NotAllowed { by: word.by });
        }
        let status = counts_as(word.found);
        // Only what has a known end is erased.
        let secrets = secrets_of(write.connection().await?, self.keys(), &id).await?;
        let secrets = secrets.ok_or(StoreError::Unreadable { what: "key of a call" })?;
        let body = committed(body, &secrets, &Names::of(&call));
        check_receipt(&call, status, &body).map_err(|what| ReconcileError::Mismatch { what })?;
        let statement = Canonical::of(json!(body)).map_err(StoreError::from)?;
        let envelope = sign_receipt(statement.text(), self.keys());
        let seq = write.append_canonical(now, RECONCILED, &statement).await?;
        let record = sqlx::query(RECORD)
            .bind(id.as_str())
            .bind(word.found.as_str())
            .bind(word.by.as_str())
            .bind(word.reason)
            .bind(now)
            .bind(seq)
            .bind(envelope)
            // Sealed, and kept elsewhere.
            .bind("");
        record.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let whole = result.to_string();
        keep(&mut write, &id, &secrets.key, Private::Found, "", whole.as_bytes(), None)?;
        if word.found == Found::DidNot {
            let release = sqlx::query(RELEASE).bind(id.as_str());
            release.execute(write.connection().await?).await.map_err(StoreError::from)?;
        }
        write.commit().await?;
        Ok(Receipt { id: Receipt::id_of(&id), seq })
    }

    /// The second receipt of a call that was reconciled: a DSSE envelope.
    pub async fn second_receipt(&self, id: &CallId) -> Result<Option<String>, StoreError> {
        let query = sqlx::query(ENVELOPE).bind(id.as_str());
        let row = query.fetch_optional(&mut *self.read().await?).await?;
        Ok(row.map(|row| row.try_get("envelope")).transpose()?)
    }
}

/// What a call counts as once somebody has found out.
pub(crate) fn counts_as(found: Found) -> CallStatus {
    match found {
        Found::Happened => CallStatus::Completed,
        Found::DidNot => CallStatus::Failed,
    }
}

fn check_unknown(call: &CallRow) -> Result<(), ReconcileError> {
    if let Some(found) = call.reconciled {
        return Err(ReconcileError::Reconciled { id: call.id.clone(), found });
    }
    match call.status {
        CallStatus::Unknown => Ok(()),
        status => Err(ReconcileError::Known { id: call.id.clone(), status }),
    }
}
