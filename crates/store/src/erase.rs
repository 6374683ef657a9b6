//! Shows an operator what a call keeps private, and takes it away for good.
//!
//! # Invariants
//! - Erasing takes the key first; only a call with a known end is erased, and the ledger says by whom.
//! - Nothing that can still begin a call hangs on what is erased: no claim in its time, no yes for more calls.
//! - To read what the model was not shown is an act of an operator, and is in the ledger before it is answered.

use std::time::Instant;

use contract::{ApprovalId, CallId, CallStatus, OperatorName};
use serde_json::{Value, json};
use sqlx::Row;
use thiserror::Error;
use tokio::time::sleep;

use crate::calls::{CLAIM_KEPT_MS, read_call};
use crate::error::StoreError;
use crate::open::{BETWEEN_TRIES, Store};
use crate::operators::Role;
use crate::place::Database;
use crate::private::{Kind, secrets_of};
use crate::read::parsed;
use crate::write::Write;

const CLAIMED: &str = "SELECT max(made_at) AS made_at FROM claims WHERE call = $1";
const STANDS: &str = "SELECT s.approval FROM standing s JOIN approvals a ON a.id = s.approval \
    JOIN operators o ON o.name = s.granted_by WHERE a.call = $1 AND s.expires_at > $2 AND o.revoked_at IS NULL \
    AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval)";
const DROP_KEY: &str = "DELETE FROM call_keys WHERE call = $1";
const DROP_TEXT: &str = "DELETE FROM private WHERE call = $1";
const DROP_CLAIM: &str = "DELETE FROM claims WHERE call = $1";
const EMPTY_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Why a call was not erased.
#[derive(Debug, Error)]
pub enum EraseError {
    /// There is no such call.
    #[error("there is no call `{id}`")]
    Unknown {
        /// Which id.
        id: CallId,
    },
    /// It may still have its effect, or may have had it.
    #[error("the call is {}: only one with a known end is erased", status.as_str())]
    NotEnded {
        /// Where it is.
        status: CallStatus,
    },
    /// There is nothing left of it.
    #[error("the call `{id}` is erased already")]
    Erased {
        /// Which id.
        id: CallId,
    },
    /// Without it, the same call made again would have its effect again.
    #[error("the call was made under a key that is kept for 24 hours: without it, it could happen twice")]
    Claimed {
        /// Until when, in milliseconds since 1970.
        until: i64,
    },
    /// A yes for more than one call was given to it, and covers what it asked.
    #[error("the yes to it is good for more calls: take approval `{approval}` back first")]
    Stands {
        /// Which.
        approval: ApprovalId,
    },
    /// Not by them.
    #[error("`{by}` may not erase: that takes an admin")]
    NotAllowed {
        /// Who tried.
        by: OperatorName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why somebody was not shown what a call keeps private.
#[derive(Debug, Error)]
pub enum RevealError {
    /// Not to them.
    #[error("`{by}` may not see it: that takes an approver or an admin")]
    NotAllowed {
        /// Who tried.
        by: OperatorName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Everything that was kept of a call, for an operator's eyes.
#[derive(Clone, Debug, PartialEq)]
pub struct Revealed {
    /// The canonical arguments; nothing if they were too long to be kept.
    pub arguments: Option<String>,
    /// What the tool gave, before it was cleaned.
    pub raw: Option<Value>,
    /// The salt with which the digests in ledger and receipt were made, in hexadecimal digits.
    pub salt: String,
}

impl Store {
    /// Takes away for good what a call was asked and what it gave. Ledger and receipts stay, and verify.
    pub async fn erase(
        &self,
        id: &CallId,
        by: &OperatorName,
        reason: Option<&str>,
        now: i64,
    ) -> Result<(), EraseError> {
        let mut write = self.write().await?;
        if write.roster().await?.role_of(by) != Some(Role::Admin) {
            return Err(EraseError::NotAllowed { by: by.clone() });
        }
        let row = read_call(write.connection().await?, id).await?;
        let row = row.ok_or_else(|| EraseError::Unknown { id: id.clone() })?;
        if row.settled_at.is_none() || row.status == CallStatus::Unknown {
            return Err(EraseError::NotEnded { status: row.status });
        }
        if secrets_of(write.connection().await?, self.keys(), id).await?.is_none() {
            return Err(EraseError::Erased { id: id.clone() });
        }
        check_needed(&mut write, id, now).await?;
        for sql in [DROP_KEY, DROP_TEXT, DROP_CLAIM] {
            sqlx::query(sql)
                .bind(id.as_str())
                .execute(write.connection().await?)
                .await
                .map_err(StoreError::from)?;
        }
        let body = json!({ "call": id, "by": by, "reason": reason });
        write.append(now, "call.erased", body).await?;
        write.commit().await?;
        self.scrub().await?;
        Ok(())
    }

    /// Shows an operator what was kept of a call; the ledger has it first. Nothing if it is erased.
    pub async fn reveal(
        &self,
        id: &CallId,
        by: &OperatorName,
        now: i64,
    ) -> Result<Option<Revealed>, RevealError> {
        let mut write = self.write().await?;
        if !write.roster().await?.may_answer(by) {
            return Err(RevealError::NotAllowed { by: by.clone() });
        }
        let Some(secrets) = secrets_of(write.connection().await?, self.keys(), id).await? else {
            return Ok(None);
        };
        write.append(now, "call.read", json!({ "call": id, "by": by })).await?;
        write.commit().await?;
        let call = self.call(id).await?;
        Ok(Some(Revealed {
            arguments: call.map(|call| call.arguments_json).filter(|text| !text.is_empty()),
            raw: self.opened(id, Kind::Raw).await?,
            salt: crate::keys::hex(secrets.key.salt().as_ref()),
        }))
    }

    /// Sees to it that what was deleted is not left in the files of the database, as far as it can be.
    pub(crate) async fn scrub(&self) -> Result<(), StoreError> {
        if self.database != Database::Sqlite {
            return Ok(());
        }
        // Pages are overwritten as rows are deleted (`secure_delete`); what is left are their copies in the log. Whoever
        // reads at this moment keeps the log from being emptied; if they take too long, the next one to empty it does so.
        let begun = Instant::now();
        loop {
            let mut writer = self.writer.acquire().await?;
            let emptied = sqlx::query(EMPTY_LOG).fetch_one(&mut *writer).await?;
            if emptied.try_get::<i64, _>("busy")? == 0 || begun.elapsed() >= self.patience {
                return Ok(());
            }
            drop(writer);
            sleep(BETWEEN_TRIES).await;
        }
    }
}

/// ATTACK(erased-and-again): what could still begin a call by what is to be erased keeps it.
async fn check_needed(write: &mut Write<'_>, id: &CallId, now: i64) -> Result<(), EraseError> {
    let claimed = sqlx::query(CLAIMED).bind(id.as_str()).fetch_one(write.connection().await?).await;
    let made_at: Option<i64> = claimed.and_then(|row| row.try_get("made_at")).map_err(StoreError::from)?;
    let until = made_at.map(|made_at| made_at.saturating_add(CLAIM_KEPT_MS)).filter(|until| *until > now);
    if let Some(until) = until {
        return Err(EraseError::Claimed { until });
    }
    let stands =
        sqlx::query(STANDS).bind(id.as_str()).bind(now).fetch_optional(write.connection().await?).await;
    match stands.map_err(StoreError::from)? {
        Some(row) => {
            let approval = parsed(&row, "approval", |text| ApprovalId::parse(text).ok())?;
            Err(EraseError::Stands { approval })
        }
        None => Ok(()),
    }
}
