//! What a question is about, as it was when it was asked, and whom it reaches when nobody answers.

use contract::{ApprovalId, Digest, EgressClass, OperatorName, Profile, SafetyClass};
use serde::Serialize;
use serde_json::json;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::open::Store;
use crate::read::{digest_if_any, parsed, parsed_if_any};
use crate::write::Write;

const DESCRIBE: &str = "INSERT INTO questions (approval, workspace, place, action, safety, egress, profile, content, \
    proposer) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const PLAN: &str = "INSERT INTO escalations (approval, step, due_at, operators) VALUES ($1, $2, $3, $4)";
const DUE: &str = "SELECT e.approval, e.step, e.operators, a.call FROM escalations e \
    JOIN approvals a ON a.id = e.approval WHERE e.reached_at IS NULL AND e.due_at <= $1 AND a.state = 'pending' \
    ORDER BY e.due_at, e.approval, e.step";
pub(crate) const ANYTHING_DUE: &str = "SELECT a.id FROM approvals a WHERE a.state = 'pending' AND (a.expires_at <= $1 \
    OR EXISTS (SELECT 1 FROM escalations e WHERE e.approval = a.id AND e.reached_at IS NULL AND e.due_at <= $1)) LIMIT 1";
const REACH: &str =
    "UPDATE escalations SET reached_at = $3 WHERE approval = $1 AND step = $2 AND reached_at IS NULL";
const REACHED: &str = "SELECT operators FROM escalations WHERE approval = $1 AND reached_at IS NOT NULL \
    ORDER BY step";

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// Where the call would run, as people read it.
    pub workspace: String,
    /// The digest of that path.
    pub place: Digest,
    /// What kind of action it is.
    pub action: String,
    /// How dangerous it is.
    pub safety: SafetyClass,
    /// What would leave the machine.
    pub egress: EgressClass,
    /// For commands: what kind of command.
    pub profile: Option<Profile>,
    /// The digest of the files that its arguments name; nothing if that could not be told.
    pub content: Option<Digest>,
    /// The operator who proposed the call, if one is known.
    pub proposer: Option<OperatorName>,
}

/// A step that an unanswered question takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEscalation {
    /// When, in milliseconds since 1970.
    pub due_at: i64,
    /// To whom.
    pub to: Vec<OperatorName>,
}

const WAITING: &str =
    "SELECT count(*) AS waiting, min(asked_at) AS oldest FROM approvals WHERE state = 'pending'";

impl Store {
    /// How many questions wait, and since when the oldest does, in milliseconds since 1970.
    pub async fn count_waiting(&self) -> Result<(i64, Option<i64>), StoreError> {
        let row = sqlx::query(WAITING).fetch_one(&mut *self.read().await?).await?;
        Ok((row.try_get("waiting")?, row.try_get("oldest")?))
    }

    /// Whether a question is late, or a step is due: one look, where nearly always there is none.
    pub async fn is_anything_due(&self, now: i64) -> Result<bool, StoreError> {
        let found = sqlx::query(ANYTHING_DUE).bind(now).fetch_optional(&mut *self.read().await?).await?;
        Ok(found.is_some())
    }

    /// Takes every step that is due, and says so in the ledger.
    pub async fn escalate(&self, now: i64) -> Result<usize, StoreError> {
        // Most of the time there is none, and then nothing is written.
        if sqlx::query(DUE).bind(now).fetch_optional(&mut *self.read().await?).await?.is_none() {
            return Ok(0);
        }
        let mut write = self.write().await?;
        let due = sqlx::query(DUE).bind(now).fetch_all(write.connection().await?).await?;
        for row in &due {
            let approval: String = row.try_get("approval")?;
            let step: i64 = row.try_get("step")?;
            let call: String = row.try_get("call")?;
            let to = names(row)?;
            let reach = sqlx::query(REACH).bind(&approval).bind(step).bind(now);
            reach.execute(write.connection().await?).await?;
            let body = json!({ "approval": approval, "call": call, "step": step, "to": to });
            write.append(now, "approval.escalated", body).await?;
        }
        write.commit().await?;
        Ok(due.len())
    }
}

/// Writes what a question is about, in the transaction that asks it.
pub(crate) async fn describe(
    write: &mut Write<'_>,
    approval: &ApprovalId,
    about: &About,
    escalation: &[NewEscalation],
) -> Result<(), StoreError> {
    sqlx::query(DESCRIBE)
        .bind(approval.as_str())
        .bind(&about.workspace)
        .bind(about.place.to_string())
        .bind(&about.action)
        .bind(about.safety.as_str())
        .bind(about.egress.as_str())
        .bind(about.profile.map(Profile::as_str))
        .bind(about.content.map(|content| content.to_string()))
        .bind(about.proposer.as_ref().map(OperatorName::as_str))
        .execute(write.connection().await?)
        .await?;
    for (step, escalation) in (0_i64..).zip(escalation) {
        let plan = sqlx::query(PLAN).bind(approval.as_str()).bind(step).bind(escalation.due_at);
        plan.bind(json!(escalation.to).to_string()).execute(write.connection().await?).await?;
    }
    Ok(())
}

/// Whom a question has reached by its steps, each once.
pub(crate) async fn reached(
    connection: &mut sqlx::AnyConnection,
    approval: &ApprovalId,
) -> Result<Vec<OperatorName>, StoreError> {
    let rows = sqlx::query(REACHED).bind(approval.as_str()).fetch_all(connection).await?;
    let mut all = Vec::new();
    for row in &rows {
        for name in names(row)? {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Ok(all)
}

/// What a question is about, where that was recorded.
pub(crate) fn about(row: &AnyRow) -> Result<Option<About>, StoreError> {
    let Some(workspace) = row.try_get::<Option<String>, _>("workspace")? else { return Ok(None) };
    Ok(Some(About {
        workspace,
        place: parsed(row, "place", Digest::parse)?,
        action: row.try_get("action")?,
        safety: parsed(row, "safety", SafetyClass::parse)?,
        egress: parsed(row, "egress", EgressClass::parse)?,
        profile: parsed_if_any(row, "profile", Profile::parse)?,
        content: digest_if_any(row, "content")?,
        proposer: parsed_if_any(row, "proposer", |text| OperatorName::parse(text).ok())?,
    }))
}

fn names(row: &AnyRow) -> Result<Vec<OperatorName>, StoreError> {
    parsed(row, "operators", |text| serde_json::from_str(text).ok())
}
