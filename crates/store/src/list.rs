//! Calls as lists show them: a line each, whatever was in their arguments and results.

use contract::{AgentName, CallId, CallStatus, TaskName, ToolName};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::calls::status_of;
use crate::error::StoreError;
use crate::open::Store;
use crate::read::{parsed, parsed_if_any};

macro_rules! select_lines {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.agent, c.task, c.tool, c.purpose, c.asked_at, c.status, c.settled_at, \
             c.decision, x.found, r.seq AS receipt_seq FROM calls c LEFT JOIN receipts r ON r.call = c.id \
             LEFT JOIN reconciliations x ON x.call = c.id ",
            $rest,
            " ORDER BY c.asked_at DESC, c.id DESC LIMIT $1"
        )
    };
}

const LATEST: &str = select_lines!("");
const LATEST_BEFORE: &str =
    select_lines!("WHERE (c.asked_at, c.id) < (SELECT b.asked_at, b.id FROM calls b WHERE b.id = $2)");
const LATEST_OF: &str = select_lines!("WHERE c.agent = $2");
const LATEST_OF_BEFORE: &str = select_lines!(
    "WHERE c.agent = $2 AND (c.asked_at, c.id) < \
     (SELECT b.asked_at, b.id FROM calls b WHERE b.id = $3 AND b.agent = $2)"
);

/// A call in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLine {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// Where it is. One that was refused and is not settled yet counts as refused.
    pub status: CallStatus,
    /// When it was settled, if it was, in milliseconds since 1970.
    pub settled_at: Option<i64>,
    /// The ledger entry that settles it, if it is settled.
    pub receipt_seq: Option<i64>,
}

impl Store {
    /// The latest calls, newest first; those before a given one, if one is given.
    pub async fn calls(&self, limit: u32, before: Option<&CallId>) -> Result<Vec<CallLine>, StoreError> {
        let query = match before {
            None => sqlx::query(LATEST).bind(i64::from(limit)),
            Some(id) => sqlx::query(LATEST_BEFORE).bind(i64::from(limit)).bind(id.as_str()),
        };
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(line).collect()
    }

    /// The latest calls of one agent, newest first; those before a given one of its own, if one is given.
    pub async fn calls_of(
        &self,
        agent: &AgentName,
        limit: u32,
        before: Option<&CallId>,
    ) -> Result<Vec<CallLine>, StoreError> {
        let query = match before {
            None => sqlx::query(LATEST_OF).bind(i64::from(limit)).bind(agent.as_str()),
            // ATTACK(call-of-another): when a call of another was asked is not told by where a page begins.
            Some(id) => {
                sqlx::query(LATEST_OF_BEFORE).bind(i64::from(limit)).bind(agent.as_str()).bind(id.as_str())
            }
        };
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(line).collect()
    }
}

fn line(row: &AnyRow) -> Result<CallLine, StoreError> {
    Ok(CallLine {
        id: parsed(row, "id", |text| CallId::parse(text).ok())?,
        agent: parsed(row, "agent", |text| AgentName::parse(text).ok())?,
        task: parsed_if_any(row, "task", |text| TaskName::parse(text).ok())?,
        tool: parsed(row, "tool", |text| ToolName::parse(text).ok())?,
        purpose: row.try_get("purpose")?,
        asked_at: row.try_get("asked_at")?,
        status: status_of(row)?,
        settled_at: row.try_get("settled_at")?,
        receipt_seq: row.try_get("receipt_seq")?,
    })
}
