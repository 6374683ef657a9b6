//! What people look over: how many calls there were lately, whom they reached, and what was told of one of them.
//!
//! # Invariants
//! - No look reads more rows than it is told to, however long the ledger is; what was not looked at is told.
//! - Nothing is written, and nothing that is sealed is opened.

use std::collections::BTreeSet;

use contract::{CallId, CallStatus};
use sqlx::Row;

use crate::approvals::ApprovalState;
use crate::calls::status_of;
use crate::error::StoreError;
use crate::ledger::{LedgerEntry, entry_of};
use crate::open::Store;
use crate::read::{parsed, parsed_if_any};

/// How many entries on each side of a known one are looked at for others about the same call.
const AROUND: i64 = 64;
/// As many calls of its agent as are looked at for some like a given one.
const MOST_LOOKED_AT: i64 = 2000;
/// As many rows of what was spent as are added up.
const MOST_SPENT: i64 = 20_000;

const PULSES: &str = "SELECT c.asked_at, c.settled_at, c.status, c.decision, x.found FROM calls c \
    LEFT JOIN reconciliations x ON x.call = c.id WHERE c.asked_at >= $1 \
    ORDER BY c.asked_at DESC, c.id DESC LIMIT $2";
const SETTLED: &str = "SELECT l.seq, l.time, l.kind, l.body, l.prev FROM receipts r JOIN ledger l ON l.seq = r.seq \
    WHERE r.seq < $1 ORDER BY r.seq DESC LIMIT $2";
const SPENT: &str =
    "SELECT day, spent FROM spending WHERE what = 'cost' AND day >= $1 ORDER BY day DESC LIMIT $2";
const KNOWN: &str = "SELECT c.planned_seq, r.seq AS receipt_seq, x.seq AS found_seq, a.id AS approval FROM calls c \
    LEFT JOIN receipts r ON r.call = c.id LEFT JOIN reconciliations x ON x.call = c.id \
    LEFT JOIN approvals a ON a.call = c.id WHERE c.id = $1";
const ANSWERS: &str = "SELECT seq FROM answer_entries WHERE approval = $1 ORDER BY seq LIMIT 16";
const BETWEEN: &str =
    "SELECT seq, time, kind, body, prev FROM ledger WHERE seq >= $1 AND seq <= $2 ORDER BY seq";
const SIMILAR: &str = "SELECT c.id, c.asked_at, c.settled_at, c.status, c.decision, x.found, a.state, \
    CAST(CASE WHEN k.same_arguments = o.same_arguments THEN 1 ELSE 0 END AS BIGINT) AS same FROM \
    (SELECT i.id FROM calls i WHERE i.agent = (SELECT agent FROM calls WHERE id = $1) \
        ORDER BY i.asked_at DESC, i.id DESC LIMIT $2) recent \
    JOIN calls c ON c.id = recent.id JOIN calls own ON own.id = $1 AND own.tool = c.tool \
    LEFT JOIN reconciliations x ON x.call = c.id LEFT JOIN approvals a ON a.call = c.id \
    LEFT JOIN call_keys k ON k.call = c.id LEFT JOIN call_keys o ON o.call = own.id \
    WHERE c.id <> $1 ORDER BY c.asked_at DESC, c.id DESC LIMIT $3";

/// One call, as far as it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it was settled, in milliseconds since 1970.
    pub settled_at: Option<i64>,
    /// Where it is.
    pub status: CallStatus,
    /// Whether people were asked.
    pub was_asked: bool,
}

/// What the ledger tells of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Chapter {
    /// The entries, in their order.
    pub entries: Vec<LedgerEntry>,
    /// Whether there may be more, where nobody looked.
    pub is_partial: bool,
}

/// A call that is like another: of the same agent, with the same tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Similar {
    /// Which call.
    pub id: CallId,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// Where it is.
    pub status: CallStatus,
    /// What people said, if they were asked.
    pub question: Option<ApprovalState>,
    /// Whether it had the same arguments, to the letter.
    pub is_same: bool,
}

impl Store {
    /// The calls since a time, newest first, at most so many.
    pub async fn pulses(&self, since: i64, most: u32) -> Result<Vec<Pulse>, StoreError> {
        let query = sqlx::query(PULSES).bind(since).bind(i64::from(most));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter()
            .map(|row| {
                Ok(Pulse {
                    asked_at: row.try_get("asked_at")?,
                    settled_at: row.try_get("settled_at")?,
                    status: status_of(row)?,
                    was_asked: row.try_get::<&str, _>("decision")? == "ask",
                })
            })
            .collect()
    }

    /// The entries that settle calls, newest first, before a place in the ledger, at most so many.
    pub async fn settled_before(&self, before: i64, most: u32) -> Result<Vec<LedgerEntry>, StoreError> {
        let query = sqlx::query(SETTLED).bind(before).bind(i64::from(most));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| Ok(LedgerEntry::try_from(&entry_of(row)?)?)).collect()
    }

    /// What calls have cost since a day, in millionths, by the day since 1970, newest first.
    pub async fn spent_since(&self, day: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        let query = sqlx::query(SPENT).bind(day).bind(MOST_SPENT);
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        let mut days: Vec<(i64, u64)> = Vec::new();
        for row in &rows {
            let (day, spent): (i64, i64) = (row.try_get("day")?, row.try_get("spent")?);
            let spent = u64::try_from(spent).unwrap_or_default();
            match days.last_mut() {
                Some((last, sum)) if *last == day => *sum = sum.saturating_add(spent),
                _ => days.push((day, spent)),
            }
        }
        Ok(days)
    }

    /// What the ledger tells of a call: around where it was planned, answered, settled and reconciled. Nothing if there is no
    /// such call.
    pub async fn chapter(&self, id: &CallId) -> Result<Option<Chapter>, StoreError> {
        let mut read = self.read().await?;
        let known = sqlx::query(KNOWN).bind(id.as_str()).fetch_optional(&mut *read).await?;
        let Some(known) = known else { return Ok(None) };
        let planned: i64 = known.try_get("planned_seq")?;
        let receipt: Option<i64> = known.try_get("receipt_seq")?;
        let found: Option<i64> = known.try_get("found_seq")?;
        let approval: Option<String> = known.try_get("approval")?;
        let mut places = BTreeSet::from([planned]);
        if let Some(approval) = &approval {
            let rows = sqlx::query(ANSWERS).bind(approval).fetch_all(&mut *read).await?;
            for row in &rows {
                places.insert(row.try_get("seq")?);
            }
        }
        let last = found.or(receipt);
        let mut looks: Vec<(i64, i64)> =
            places.iter().map(|seq| (*seq, seq.saturating_add(AROUND))).collect();
        looks.extend([receipt, found].into_iter().flatten().map(|seq| (seq.saturating_sub(AROUND), seq)));
        let looks = joined(looks, planned, last.unwrap_or(i64::MAX));
        // One that has not ended may have been told of again since.
        let is_partial = looks.len() > 1 || last.is_none();
        let mut entries = Vec::new();
        for (from, to) in looks {
            let rows = sqlx::query(BETWEEN).bind(from).bind(to).fetch_all(&mut *read).await?;
            for row in &rows {
                let body: &str = row.try_get("body")?;
                if body.contains(id.as_str())
                    || approval.as_ref().is_some_and(|approval| body.contains(approval))
                {
                    entries.push(LedgerEntry::try_from(&entry_of(row)?)?);
                }
            }
        }
        Ok(Some(Chapter { entries, is_partial }))
    }

    /// Earlier and later calls of the same agent with the same tool, newest first, among its latest ones.
    pub async fn similar(&self, id: &CallId, most: u32) -> Result<Vec<Similar>, StoreError> {
        let query = sqlx::query(SIMILAR).bind(id.as_str()).bind(MOST_LOOKED_AT).bind(i64::from(most));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter()
            .map(|row| {
                Ok(Similar {
                    id: parsed(row, "id", |text| CallId::parse(text).ok())?,
                    asked_at: row.try_get("asked_at")?,
                    status: status_of(row)?,
                    question: parsed_if_any(row, "state", ApprovalState::parse)?,
                    is_same: row.try_get::<i64, _>("same")? == 1,
                })
            })
            .collect()
    }
}

/// Spans in order, those that touch as one, within bounds.
fn joined(mut spans: Vec<(i64, i64)>, first: i64, last: i64) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans.into_iter().map(|(from, to)| (from.max(first), to.min(last))) {
        match joined.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
            _ => joined.push((from, to)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_are_looked_at_once_and_none_beyond_the_ends() {
        assert_eq!(joined(vec![(10, 74), (20, 84), (936, 1000)], 10, 1000), [(10, 84), (936, 1000)]);
        assert_eq!(joined(vec![(10, 74), (0, 40)], 10, 40), [(10, 40)]);
        assert_eq!(joined(vec![(10, 74), (75, 80)], 10, 80), [(10, 80)]);
    }
}
