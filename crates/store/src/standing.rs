//! A yes for more than one call, and a yes that is taken back.
//!
//! # Invariants
//! - What was taken back stays so: once [`Store::revoke`] has returned, no gate starts a call with that yes.
//! - What has ended with its policy stays so, also if that policy comes back.
//! - A use is recorded with the call it starts, or the call does not start.

use contract::{AgentName, ApprovalId, Digest, OperatorName, Scope};
use serde::Serialize;
use serde_json::json;
use sqlx::Row;
use sqlx::any::AnyRow;
use thiserror::Error;

use crate::approvals::{ApprovalRow, ApprovalState, read_approval, standing_rows};
use crate::calls::NewCall;
use crate::error::StoreError;
use crate::evidence::prove_standing;
use crate::open::Store;
use crate::read::{parsed, parsed_if_any};
use crate::write::Write;

const GRANT: &str = "INSERT INTO standing (approval, scope, granted_by, granted_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5)";
const REVOKE: &str =
    "INSERT INTO revocations (approval, operator, reason, revoked_at) VALUES ($1, $2, $3, $4)";
const USABLE: &str = "SELECT 1 FROM standing s JOIN operators o ON o.name = s.granted_by \
    WHERE s.approval = $1 AND s.expires_at > $2 AND o.revoked_at IS NULL \
    AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval) \
    AND NOT EXISTS (SELECT 1 FROM standing_ends d WHERE d.approval = s.approval)";
const OF_OTHERS: &str = "SELECT s.approval, a.call FROM standing s JOIN approvals a ON a.id = s.approval \
    JOIN calls c ON c.id = a.call JOIN questions q ON q.approval = s.approval \
    WHERE q.place = $1 AND c.policy <> $2 AND s.expires_at > $3 \
    AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval) \
    AND NOT EXISTS (SELECT 1 FROM standing_ends d WHERE d.approval = s.approval) ORDER BY s.approval";
const END: &str = "INSERT INTO standing_ends (approval, policy, ended_at) VALUES ($1, $2, $3)";
const USE: &str = "INSERT INTO standing_uses (call, approval, used_at) VALUES ($1, $2, $3)";

/// How far a yes is to reach beyond the call that it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStanding {
    /// How far.
    pub scope: Scope,
    /// Until when, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A yes for more than one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandingRow {
    /// How far it reaches.
    pub scope: Scope,
    /// Who said so.
    pub granted_by: OperatorName,
    /// When, in milliseconds since 1970.
    pub granted_at: i64,
    /// Until when, in milliseconds since 1970.
    pub expires_at: i64,
    /// How many calls have run under it.
    pub uses: u64,
}

/// A yes that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RevocationRow {
    /// Who took it back.
    pub by: OperatorName,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// A yes to be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Who takes it back: an operator who may answer.
    pub by: OperatorName,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When, in milliseconds since 1970.
    pub now: i64,
}

/// Why a yes was not taken back.
#[derive(Debug, Error)]
pub enum RevokeError {
    /// There is no such question.
    #[error("there is no approval `{id}`")]
    Unknown {
        /// Which id.
        id: ApprovalId,
    },
    /// There is nothing left to take back.
    #[error("there is nothing to take back: the approval is {}, for one call", state.as_str())]
    Nothing {
        /// Where it is.
        state: ApprovalState,
    },
    /// It was taken back before.
    #[error("`{by}` has taken it back already")]
    Revoked {
        /// Who.
        by: OperatorName,
    },
    /// This person may not.
    #[error("`{by}` is not an operator who may take a yes back")]
    NotAllowed {
        /// Who.
        by: OperatorName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Every yes for more than one call that has not expired or been taken back, newest first: of one agent, or of all.
    pub async fn standing(
        &self,
        agent: Option<&AgentName>,
        now: i64,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let roster = self.roster().await?;
        let mut read = self.snapshot().await?;
        let mut rows = standing_rows(&mut read, self.keys(), agent, now).await?;
        // Of what was said before people were on record as they are now, nothing can be proved: it is asked anew.
        rows.retain(|row| roster.began().is_some_and(|began| row.planned_seq > began));
        Ok(rows)
    }

    /// Ends every yes for more than one call that was given in a workspace under another policy than the one by which
    /// calls are decided there now. Returns how many.
    pub async fn end_standing_of_others(
        &self,
        place: Digest,
        policy: Digest,
        now: i64,
    ) -> Result<usize, StoreError> {
        let others = || sqlx::query(OF_OTHERS).bind(place.to_string()).bind(policy.to_string()).bind(now);
        // Most of the time there is none, and then nothing is written.
        if others().fetch_optional(&mut *self.read().await?).await?.is_none() {
            return Ok(0);
        }
        let mut write = self.write().await?;
        let rows = others().fetch_all(write.connection().await?).await?;
        for row in &rows {
            let (approval, call): (String, String) = (row.try_get("approval")?, row.try_get("call")?);
            let end = sqlx::query(END).bind(&approval).bind(policy.to_string()).bind(now);
            end.execute(write.connection().await?).await?;
            let body = json!({ "approval": approval, "call": call, "policy": policy });
            write.append(now, "approval.ended", body).await?;
        }
        write.commit().await?;
        Ok(rows.len())
    }

    /// Takes a yes back. When this has returned, nothing begins with it any more.
    pub async fn revoke(&self, id: &ApprovalId, revocation: Revocation) -> Result<ApprovalRow, RevokeError> {
        let Revocation { by, reason, now } = revocation;
        let mut write = self.write().await?;
        let row = read_approval(write.connection().await?, self.keys(), id).await?;
        let row = row.ok_or_else(|| RevokeError::Unknown { id: id.clone() })?;
        if let Some(earlier) = row.revoked {
            return Err(RevokeError::Revoked { by: earlier.by });
        }
        if row.state != ApprovalState::Approved && row.standing.is_none() {
            return Err(RevokeError::Nothing { state: row.state });
        }
        if !write.roster().await?.may_answer(&by) {
            return Err(RevokeError::NotAllowed { by });
        }
        let revoke =
            sqlx::query(REVOKE).bind(id.as_str()).bind(by.as_str()).bind(reason.as_deref()).bind(now);
        revoke.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let body = json!({ "approval": id, "call": row.call, "by": by, "reason": reason });
        write.append(now, "approval.revoked", body).await?;
        let row = read_approval(write.connection().await?, self.keys(), id).await?;
        write.commit().await?;
        row.ok_or_else(|| RevokeError::Unknown { id: id.clone() })
    }
}

/// Makes a yes reach further, in the transaction that answers.
pub(crate) async fn grant(
    write: &mut Write<'_>,
    approval: &ApprovalId,
    by: &OperatorName,
    standing: &NewStanding,
    now: i64,
) -> Result<(), StoreError> {
    sqlx::query(GRANT)
        .bind(approval.as_str())
        .bind(standing.scope.as_str())
        .bind(by.as_str())
        .bind(now)
        .bind(standing.expires_at)
        .execute(write.connection().await?)
        .await?;
    Ok(())
}

/// Whether a yes still reaches a call that is about to be recorded.
pub(crate) async fn is_usable(
    write: &mut Write<'_>,
    under: &ApprovalRow,
    now: i64,
) -> Result<bool, StoreError> {
    let query = sqlx::query(USABLE).bind(under.id.as_str()).bind(now);
    if query.fetch_optional(write.connection().await?).await?.is_none() {
        return Ok(false);
    }
    Box::pin(prove_standing(write, under, now)).await?;
    Ok(true)
}

/// Records that a call begins under an earlier yes, in the transaction that begins it.
pub(crate) async fn note_use(
    write: &mut Write<'_>,
    call: &NewCall,
    approval: &ApprovalId,
) -> Result<(), StoreError> {
    // ATTACK(revoked-while-calling): the database looks again, under its own lock.
    let note = sqlx::query(USE).bind(call.id.as_str()).bind(approval.as_str()).bind(call.asked_at);
    note.execute(write.connection().await?).await?;
    let body = json!({ "approval": approval, "call": call.id, "agent": call.agent, "tool": call.tool });
    write.append(call.asked_at, "approval.used", body).await?;
    Ok(())
}

pub(crate) fn standing_row(row: &AnyRow) -> Result<Option<StandingRow>, StoreError> {
    let Some(scope) = parsed_if_any(row, "scope", Scope::parse)? else { return Ok(None) };
    let uses: i64 = row.try_get("uses")?;
    Ok(Some(StandingRow {
        scope,
        granted_by: parsed(row, "granted_by", |text| OperatorName::parse(text).ok())?,
        granted_at: row.try_get("granted_at")?,
        expires_at: row.try_get("stands_until")?,
        uses: u64::try_from(uses).unwrap_or_default(),
    }))
}

pub(crate) fn revocation_row(row: &AnyRow) -> Result<Option<RevocationRow>, StoreError> {
    let by = parsed_if_any(row, "revoked_by", |text| OperatorName::parse(text).ok())?;
    let Some(by) = by else { return Ok(None) };
    Ok(Some(RevocationRow { by, reason: row.try_get("revoked_because")?, at: row.try_get("revoked_at")? }))
}
