//! That people said what an approval claims: each answer has an entry of the ledger, and the entry says the same.
//!
//! Rows can be written by whoever reaches the database; the ledger is signed. So an approval is used only if the ledger
//! tells of the answers that it counts.
//!
//! # Invariants
//! - An answer is recorded with its entry, in one transaction.
//! - What no entry tells of does not count, whatever the tables say.

use std::collections::HashMap;

use contract::{ApprovalId, OperatorName};
use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::approvals::Vote;
use crate::error::StoreError;
use crate::read::number;
use crate::write::Write;

/// The kind of an entry that tells of an answer.
pub(crate) const ANSWERED: &str = "approval.answered";

const LINK: &str = "INSERT INTO answer_entries (seq, approval, operator) VALUES ($1, $2, $3)";
const QUORUM: &str = "SELECT quorum FROM approvals WHERE id = $1";
const TOLD: &str = "SELECT w.approval, w.operator, w.verdict, l.kind, l.body FROM answers w \
    LEFT JOIN answer_entries e ON e.approval = w.approval AND e.operator = w.operator \
    LEFT JOIN ledger l ON l.seq = e.seq WHERE w.approval >= $1 AND w.approval <= $2";
/// Approvals that claim to have been given, page by page.
const GIVEN: &str = "SELECT id, quorum FROM approvals \
    WHERE state IN ('approved', 'running', 'completed', 'failed') AND id > $1 ORDER BY id LIMIT $2";

/// Ties an answer that was written to the entry that tells of it.
pub(crate) async fn link(
    write: &mut Write<'_>,
    approval: &ApprovalId,
    by: &OperatorName,
    seq: i64,
) -> Result<(), StoreError> {
    let link = sqlx::query(LINK).bind(seq).bind(approval.as_str()).bind(by.as_str());
    link.execute(write.connection()).await?;
    Ok(())
}

/// Whether the ledger tells of as many people who approved as an approval asks for.
pub(crate) async fn is_proved(
    connection: &mut AnyConnection,
    approval: &ApprovalId,
) -> Result<bool, StoreError> {
    let row = sqlx::query(QUORUM).bind(approval.as_str()).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(false) };
    let told = told(connection, approval.as_str(), approval.as_str()).await?;
    Ok(told.get(approval.as_str()).copied().unwrap_or_default() >= number(&row, "quorum")?)
}

/// The first approval that claims more than the ledger tells. A page at a time.
pub(crate) async fn first_unproved(
    connection: &mut AnyConnection,
    page: i64,
) -> Result<Option<String>, StoreError> {
    let mut after = String::new();
    loop {
        let rows = sqlx::query(GIVEN).bind(&after).bind(page).fetch_all(&mut *connection).await?;
        let ids = rows.iter().map(|row| row.try_get::<String, _>("id")).collect::<Result<Vec<_>, _>>()?;
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(None) };
        let told = told(connection, first, last).await?;
        for (row, id) in rows.iter().zip(&ids) {
            if told.get(id).copied().unwrap_or_default() < number(row, "quorum")? {
                return Ok(Some(id.clone()));
            }
        }
        after.clone_from(last);
    }
}

/// How many people approved, by approval, as far as entries tell of it.
async fn told(
    connection: &mut AnyConnection,
    first: &str,
    last: &str,
) -> Result<HashMap<String, u32>, StoreError> {
    let mut told = HashMap::new();
    for row in sqlx::query(TOLD).bind(first).bind(last).fetch_all(connection).await? {
        if approves(&row)? {
            *told.entry(row.try_get("approval")?).or_default() += 1;
        }
    }
    Ok(told)
}

/// Whether an entry tells of just this yes.
fn approves(row: &AnyRow) -> Result<bool, StoreError> {
    let text = |column| row.try_get::<Option<&str>, _>(column);
    let (approval, operator, verdict) = (text("approval")?, text("operator")?, text("verdict")?);
    let (Some(ANSWERED), Some(body)) = (text("kind")?, text("body")?) else { return Ok(false) };
    let Ok(body) = serde_json::from_str::<Value>(body) else { return Ok(false) };
    let says = |key: &str| body.get(key).and_then(Value::as_str);
    Ok(verdict == Some(Vote::Approve.as_str())
        && (says("approval"), says("by"), says("verdict")) == (approval, operator, verdict))
}
