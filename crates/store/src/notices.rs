//! Who is told that a question waits: by which channel, once, by whichever gate comes first, and what came of it.
//!
//! # Invariants
//! - A notice belongs to whoever claimed it until its time is over; then somebody else tries.
//! - A question that no longer waits is told to nobody.
//! - What was sent and what was given up is in the ledger.

use contract::ApprovalId;
use serde_json::json;
use sqlx::Row;

use crate::error::StoreError;
use crate::open::Store;
use crate::read::parsed;

/// Step 0 is that it was asked; the steps of an escalation follow from 1 on.
const IS_NEW: &str = "SELECT 1 FROM approvals a WHERE a.state = 'pending' AND CAST($2 AS BIGINT) <= 0 AND NOT EXISTS \
    (SELECT 1 FROM notices n WHERE n.approval = a.id AND n.step = 0 AND n.channel = $1) \
    UNION ALL SELECT 1 FROM escalations e JOIN approvals a ON a.id = e.approval WHERE a.state = 'pending' \
    AND e.reached_at IS NOT NULL AND e.step + 1 >= CAST($2 AS BIGINT) AND NOT EXISTS \
    (SELECT 1 FROM notices n WHERE n.approval = e.approval AND n.step = e.step + 1 AND n.channel = $1) LIMIT 1";
const IS_OPEN: &str =
    "SELECT 1 FROM notices n WHERE n.channel = $1 AND n.ended_at IS NULL AND n.next_at <= $2 LIMIT 1";
const ADD_ASKED: &str = "INSERT INTO notices (approval, step, channel, attempts, next_at) \
    SELECT a.id, 0, CAST($1 AS TEXT), 0, CAST($3 AS BIGINT) FROM approvals a \
    WHERE a.state = 'pending' AND CAST($2 AS BIGINT) <= 0 AND NOT EXISTS \
    (SELECT 1 FROM notices n WHERE n.approval = a.id AND n.step = 0 AND n.channel = CAST($1 AS TEXT))";
const ADD_REACHED: &str = "INSERT INTO notices (approval, step, channel, attempts, next_at) \
    SELECT e.approval, e.step + 1, CAST($1 AS TEXT), 0, CAST($3 AS BIGINT) FROM escalations e \
    JOIN approvals a ON a.id = e.approval WHERE a.state = 'pending' AND e.reached_at IS NOT NULL \
    AND e.step + 1 >= CAST($2 AS BIGINT) AND NOT EXISTS \
    (SELECT 1 FROM notices n WHERE n.approval = e.approval AND n.step = e.step + 1 AND n.channel = CAST($1 AS TEXT))";
const MOOT: &str = "UPDATE notices SET ended_at = $2, outcome = 'moot' WHERE channel = $1 AND ended_at IS NULL \
    AND approval IN (SELECT a.id FROM approvals a WHERE a.state <> 'pending')";
const DUE: &str = "SELECT n.approval, n.step, n.attempts FROM notices n JOIN approvals a ON a.id = n.approval \
    WHERE n.channel = $1 AND n.ended_at IS NULL AND n.next_at <= $2 ORDER BY a.asked_at, n.approval, n.step LIMIT $3";
const CLAIM: &str = "UPDATE notices SET attempts = attempts + 1, next_at = $4 \
    WHERE approval = $1 AND step = $2 AND channel = $3 AND ended_at IS NULL";
const AGAIN: &str = "UPDATE notices SET next_at = $4 \
    WHERE approval = $1 AND step = $2 AND channel = $3 AND ended_at IS NULL";
const END: &str = "UPDATE notices SET ended_at = $4, outcome = $5 \
    WHERE approval = $1 AND step = $2 AND channel = $3 AND ended_at IS NULL";
const LAST_SENT: &str = "SELECT max(ended_at) AS at FROM notices WHERE channel = $1 AND outcome = 'sent'";

/// Somebody to be told of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// Of which.
    pub approval: ApprovalId,
    /// That it was asked (0), or which step of its escalation it has reached, from 1 on.
    pub step: i64,
    /// How often it was tried, this time included.
    pub attempts: i64,
}

/// Which notices are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noticed<'a> {
    /// Of which channel.
    pub channel: &'a str,
    /// From which step of a question on it is told: 0 is at once.
    pub from_step: i64,
    /// How many at most.
    pub most: u32,
}

/// How a notice ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was taken.
    Sent,
    /// It was given up, for this.
    Failed(String),
}

impl Store {
    /// Claims what a channel is to be told of, until then. Questions that no longer wait are struck.
    pub async fn claim_notices(
        &self,
        wanted: Noticed<'_>,
        now: i64,
        until: i64,
    ) -> Result<Vec<DueNotice>, StoreError> {
        let Noticed { channel, from_step, most } = wanted;
        let is_new = sqlx::query(IS_NEW).bind(channel).bind(from_step);
        let is_new = is_new.fetch_optional(&mut *self.read().await?).await?.is_some();
        let is_open = sqlx::query(IS_OPEN).bind(channel).bind(now);
        // Most of the time there is none, and then nothing is written.
        if !is_new && is_open.fetch_optional(&mut *self.read().await?).await?.is_none() {
            return Ok(Vec::new());
        }
        let mut write = self.write().await?;
        sqlx::query(MOOT).bind(channel).bind(now).execute(write.connection().await?).await?;
        for add in [ADD_ASKED, ADD_REACHED] {
            let add = sqlx::query(add).bind(channel).bind(from_step).bind(now);
            add.execute(write.connection().await?).await?;
        }
        let due = sqlx::query(DUE).bind(channel).bind(now).bind(i64::from(most));
        let mut claimed = Vec::new();
        for row in &due.fetch_all(write.connection().await?).await? {
            let attempts: i64 = row.try_get("attempts")?;
            let approval = parsed(row, "approval", |text| ApprovalId::parse(text).ok())?;
            let notice = DueNotice { approval, step: row.try_get("step")?, attempts: attempts + 1 };
            let claim = sqlx::query(CLAIM).bind(notice.approval.as_str()).bind(notice.step).bind(channel);
            claim.bind(until).execute(write.connection().await?).await?;
            claimed.push(notice);
        }
        write.commit().await?;
        Ok(claimed)
    }

    /// Has notices tried again, not before then.
    pub async fn retry_notices(
        &self,
        channel: &str,
        notices: &[DueNotice],
        next_at: i64,
    ) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        for notice in notices {
            let again = sqlx::query(AGAIN).bind(notice.approval.as_str()).bind(notice.step).bind(channel);
            again.bind(next_at).execute(write.connection().await?).await?;
        }
        write.commit().await
    }

    /// Ends notices, and says so in the ledger.
    pub async fn end_notices(
        &self,
        channel: &str,
        notices: &[DueNotice],
        outcome: &Outcome,
        now: i64,
    ) -> Result<(), StoreError> {
        let (word, kind, why) = match outcome {
            Outcome::Sent => ("sent", "notice.sent", None),
            Outcome::Failed(why) => ("failed", "notice.failed", Some(why)),
        };
        let mut write = self.write().await?;
        for notice in notices {
            let end = sqlx::query(END).bind(notice.approval.as_str()).bind(notice.step).bind(channel);
            end.bind(now).bind(word).execute(write.connection().await?).await?;
        }
        let approvals: Vec<&str> = notices.iter().map(|notice| notice.approval.as_str()).collect();
        let attempts = notices.iter().map(|notice| notice.attempts).max().unwrap_or_default();
        let body = json!({ "channel": channel, "approvals": approvals, "attempts": attempts, "why": why });
        write.append(now, kind, body).await?;
        write.commit().await
    }

    /// When a channel was told something last, in milliseconds since 1970.
    pub async fn last_notice(&self, channel: &str) -> Result<Option<i64>, StoreError> {
        let asked = sqlx::query(LAST_SENT).bind(channel).fetch_one(&mut *self.read().await?).await?;
        Ok(asked.try_get("at")?)
    }
}
