//! Policies on record: which were in force and when, and where a shadow would have said something else.
//!
//! Policies have no table: what the ledger tells of them is all there is.

use contract::{CallId, ToolName};
use serde_json::Value;

use crate::error::StoreError;
use crate::ledger::{LedgerEntry, entry_of};
use crate::open::Store;
use crate::read::{json, parsed};

const HISTORY: &str = "SELECT seq, time, kind, body, prev FROM ledger WHERE kind IN ('policy.in_force', 'policy.rejected') \
    ORDER BY seq DESC LIMIT $1";

/// The text is how a step of that layer begins or goes on, whatever its other keys are; the steps themselves are read after.
const SHADOWED: &str = "SELECT id, tool, trace FROM calls WHERE asked_at >= $1 \
    AND trace LIKE '%\"layer\":\"shadow\"%' ORDER BY asked_at DESC, id DESC LIMIT $2";

/// The layer of a trace that tells of a shadow.
const LAYER: &str = "shadow";

/// What the ledger is told of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyEvent {
    /// It decides from now on.
    InForce,
    /// It was to, and could not.
    Rejected,
    /// Somebody had recorded calls decided by it. Whoever chooses the rules learns what is in the calls.
    Tried,
}

/// A call of which a shadow would have made something else, or failed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadowed {
    /// Which call.
    pub call: CallId,
    /// Of which tool.
    pub tool: ToolName,
    /// What the shadow had to say, as the trace has it.
    pub step: Value,
}

impl Store {
    /// Tells the ledger of a policy, and returns the place of the entry.
    pub async fn record_policy(&self, event: PolicyEvent, body: Value, now: i64) -> Result<i64, StoreError> {
        let kind = match event {
            PolicyEvent::InForce => "policy.in_force",
            PolicyEvent::Rejected => "policy.rejected",
            PolicyEvent::Tried => "policy.tried",
        };
        let mut write = self.write().await?;
        let seq = write.append(now, kind, body).await?;
        write.commit().await?;
        Ok(seq)
    }

    /// What the ledger tells of policies, newest first.
    pub async fn policy_history(&self, limit: u32) -> Result<Vec<LedgerEntry>, StoreError> {
        let query = sqlx::query(HISTORY).bind(i64::from(limit));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| Ok(LedgerEntry::try_from(&entry_of(row)?)?)).collect()
    }

    /// The calls since a moment that a shadow had something to say about, newest first.
    pub async fn shadowed(&self, since: i64, limit: u32) -> Result<Vec<Shadowed>, StoreError> {
        let query = sqlx::query(SHADOWED).bind(since).bind(i64::from(limit));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        let mut shadowed = Vec::new();
        for row in &rows {
            let trace = json(row, "trace")?;
            let is_of_it = |step: &&Value| step.get("layer").and_then(Value::as_str) == Some(LAYER);
            let Some(step) = trace.as_array().into_iter().flatten().find(is_of_it) else { continue };
            shadowed.push(Shadowed {
                call: parsed(row, "id", |text| CallId::parse(text).ok())?,
                tool: parsed(row, "tool", |text| ToolName::parse(text).ok())?,
                step: step.clone(),
            });
        }
        Ok(shadowed)
    }
}
