//! Calls that are made again while the first waits: one question, one effect, whatever key each came with.

use std::collections::BTreeSet;

use contract::{AgentName, ApprovalId, CallId, Digest, OperatorName};
use serde_json::json;
use sqlx::{AnyConnection, Row};

use crate::approvals::{ApprovalState, read_approval};
use crate::calls::{CallRow, ask_holder, hear_holder};
use crate::error::StoreError;
use crate::evidence::JOINED;
use crate::later::Later;
use crate::ledger::List;
use crate::open::Store;
use crate::private::secrets_of;
use crate::records::Records;

const CLAIM: &str = "INSERT INTO claims (claim, call, request, made_at) \
    SELECT $1, id, $4, $3 FROM calls WHERE id = $2 AND status NOT IN ('refused', 'cancelled')";
const OPEN: &str = "SELECT count(*) AS open FROM calls c JOIN approvals a ON a.call = c.id \
    WHERE c.agent = $1 AND c.status = 'waiting' AND a.state = 'pending'";

/// What became of a key that was to join a call that waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Joined {
    /// From now on the key stands for that call.
    Here,
    /// It stands for another call already, which is the same.
    There(Box<CallRow>),
    /// It stands for a call that is not the same.
    KeyConflict,
    /// The call has ended, and nothing was done.
    Gone,
}

impl Store {
    /// Lets a key stand for a call that waits or waited, as if the call had been made with it.
    pub async fn join_call(
        &self,
        call: &CallId,
        claim: &str,
        request: Digest,
        now: i64,
    ) -> Result<Joined, StoreError> {
        let wrapping = self.keys().wrapping();
        let named = wrapping.lookup("claim", claim.as_bytes());
        let mut questions = Later::default();
        ask_holder(&mut questions, &named, now)?;
        let (mut write, mut answers) = self.write_asking(questions).await?;
        if let Some(row) = hear_holder(&mut answers, self.keys())? {
            return Ok(match row {
                row if row.request != request => Joined::KeyConflict,
                row if row.id == *call => Joined::Here,
                row => Joined::There(Box::new(row)),
            });
        }
        let claiming = sqlx::query(CLAIM).bind(named).bind(call.as_str()).bind(now);
        let claiming = claiming.bind(wrapping.lookup("request", request.as_bytes()));
        if claiming.execute(write.connection().await?).await?.rows_affected() == 0 {
            return Ok(Joined::Gone);
        }
        let secrets = secrets_of(write.connection().await?, self.keys(), call).await?;
        let committed = secrets.map(|secrets| secrets.key.commit("claim", &Digest::of(claim.as_bytes())));
        let body = json!({ "call": call, "claim": committed });
        write.append(now, "call.joined", body).await?;
        write.commit().await?;
        Ok(Joined::Here)
    }

    /// Notes that an operator has made a call that waits, and so does not answer the question about it. Who has answered it
    /// before has only come to see what became of it.
    pub async fn join_question(
        &self,
        id: &ApprovalId,
        by: &OperatorName,
        now: i64,
    ) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        let Some(row) = read_approval(write.connection().await?, self.keys(), id).await? else {
            return Ok(());
        };
        let proposed = row.about.as_ref().is_some_and(|about| about.proposer.as_ref() == Some(by));
        let answered = row.answers.iter().any(|answer| answer.by == *by);
        if row.state != ApprovalState::Pending || proposed || answered {
            return Ok(());
        }
        if write.records().await?.joined(row.planned_seq).await?.contains(&(id.clone(), by.clone())) {
            return Ok(());
        }
        write.append(now, JOINED, json!({ "approval": id, "call": row.call, "by": by })).await?;
        write.commit().await
    }

    /// The operators who have made calls that waited, after an entry, each with the question.
    pub async fn joined_after(&self, seq: i64) -> Result<BTreeSet<(ApprovalId, OperatorName)>, StoreError> {
        self.with_records(async |mut records| records.joined(seq).await).await
    }

    /// How many questions of an agent wait for an answer.
    pub async fn open_questions(&self, agent: &AgentName) -> Result<u64, StoreError> {
        count_open(&mut *self.read().await?, agent).await
    }
}

pub(crate) async fn count_open(connection: &mut AnyConnection, agent: &AgentName) -> Result<u64, StoreError> {
    let row = sqlx::query(OPEN).bind(agent.as_str()).fetch_one(connection).await?;
    Ok(u64::try_from(row.try_get::<i64, _>("open")?).unwrap_or_default())
}

impl Records<'_> {
    /// The operators who have made calls that waited, after an entry, each with the question.
    pub(crate) async fn joined(
        &mut self,
        seq: i64,
    ) -> Result<BTreeSet<(ApprovalId, OperatorName)>, StoreError> {
        let entries = self.list(List::Answers, seq).await?.ok_or(StoreError::Unsigned)?;
        let joined = entries.iter().filter(|entry| entry.kind == JOINED).filter_map(|entry| {
            let approval = ApprovalId::parse(entry.text("approval")?).ok()?;
            Some((approval, OperatorName::parse(entry.text("by")?).ok()?))
        });
        Ok(joined.collect())
    }
}
