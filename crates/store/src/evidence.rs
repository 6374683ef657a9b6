//! That people said what an approval claims, and said it of this very call: all of it as the signed ledger tells.
//!
//! Rows can be written by whoever reaches the database; the ledger is signed. So what whoever runs a call has read from
//! rows is compared with proved entries, in the transaction that begins the call. It is what they have read that is
//! compared, not what the rows say by then: rows can be put back.
//!
//! # Invariants
//! - An answer is recorded with its entry, in one transaction.
//! - What no entry tells of does not count, whatever the tables say; and what an entry has taken back or used up stays so,
//!   whichever rows are gone.

use std::collections::BTreeSet;

use contract::{ApprovalId, Digest, OperatorName, Scope};
use serde_json::{Value, json};

use crate::approvals::{ApprovalRow, USABLE_MS, Vote};
use crate::calls::CallRow;
use crate::error::StoreError;
use crate::ledger::{List, Told};
use crate::private::{Names, secrets_of};
use crate::records::Roster;
use crate::write::Write;

/// The kind of an entry that tells of an answer.
pub(crate) const ANSWERED: &str = "approval.answered";

const PLANNED: &str = "call.planned";
const ASKED: &str = "approval.asked";
const STARTED: &str = "call.started";
/// The kind of an entry that tells of an operator who has made a call that waits.
pub(crate) const JOINED: &str = "approval.joined";

const LINK: &str = "INSERT INTO answer_entries (seq, approval, operator) VALUES ($1, $2, $3)";

/// By what a call is about to run, as whoever runs it has read it.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// The call.
    pub call: &'a CallRow,
    /// The question that was answered.
    pub approval: &'a ApprovalRow,
    /// The digest of what the question bound, by what the call will get; nothing if it bound nothing.
    pub operands: Option<Digest>,
}

/// Ties an answer that was written to the entry that tells of it.
pub(crate) async fn link(
    write: &mut Write<'_>,
    approval: &ApprovalId,
    by: &OperatorName,
    seq: i64,
) -> Result<(), StoreError> {
    let link = sqlx::query(LINK).bind(seq).bind(approval.as_str()).bind(by.as_str());
    link.execute(write.connection().await?).await?;
    Ok(())
}

/// Checks that people said yes to a call, that it is the one that is about to run, and that it has not run yet.
pub(crate) async fn prove_once(write: &mut Write<'_>, basis: &Basis<'_>, now: i64) -> Result<(), StoreError> {
    let Basis { call, approval, operands } = *basis;
    let unproved = |what| StoreError::Unproved { approval: approval.id.clone(), what };
    let question = Question::read(write, approval).await?;
    // ATTACK(swapped-call): the call that runs is the one that people were asked about.
    let told = question.planned.body.get("safety") == Some(&json!(call.safety));
    if !told || call.id != approval.call || !is_same(call, approval) {
        return Err(unproved("the call is another"));
    }
    // ATTACK(swapped-seal): and so is what it gets.
    if question.asked.body.get("operands_digest") != Some(&json!(operands)) {
        return Err(unproved("the files are others"));
    }
    let said = Said::read(write, approval, &question).await?;
    if said.spent {
        return Err(unproved("the yes was used before"));
    }
    said.check(approval, &question)?;
    match said.decided_at() {
        Some(at) if at.saturating_add(USABLE_MS) > now => Ok(()),
        _ => Err(unproved("the yes is too old")),
    }
}

/// Checks that a yes reaches as far as it is said to, and still does.
pub(crate) async fn prove_standing(
    write: &mut Write<'_>,
    approval: &ApprovalRow,
    now: i64,
) -> Result<(), StoreError> {
    let unproved = |what| StoreError::Unproved { approval: approval.id.clone(), what };
    let Some(standing) = &approval.standing else { return Err(unproved("it is for one call")) };
    let question = Question::read(write, approval).await?;
    let said = Said::read(write, approval, &question).await?;
    said.check(approval, &question)?;
    let reach = (standing.scope, Some(standing.expires_at));
    let is_told = said.yes.iter().any(|yes| yes.by == standing.granted_by && yes.reach == Some(reach));
    if !is_told || standing.expires_at <= now {
        return Err(unproved("it does not reach that far"));
    }
    Ok(())
}

/// Whether a call is the one that a question is about, by what both rows say.
fn is_same(call: &CallRow, approval: &ApprovalRow) -> bool {
    call.planned_seq == approval.planned_seq
        && (&call.agent, &call.task, &call.tool, &call.purpose)
            == (&approval.agent, &approval.task, &approval.tool, &approval.purpose)
        && (call.contract, call.request, call.arguments, call.policy)
            == (approval.contract, approval.request, approval.arguments, approval.policy)
}

/// What was asked, as two proved entries tell.
struct Question {
    planned: Told,
    asked: Told,
}

impl Question {
    /// Reads it, and checks that a row says the same.
    async fn read(write: &mut Write<'_>, approval: &ApprovalRow) -> Result<Question, StoreError> {
        let unproved = |what| StoreError::Unproved { approval: approval.id.clone(), what };
        let mut records = write.records().await?;
        // Both are written in one transaction, one after the other.
        let planned = records.entry(approval.planned_seq).await?;
        let asked = records.entry(approval.planned_seq.saturating_add(1)).await?;
        let (Some(planned), Some(asked)) = (planned, asked) else {
            return Err(unproved("no signed entry tells of the question"));
        };
        let question = Question { planned, asked };
        if !question.is_about(approval) {
            return Err(unproved("the question is another"));
        }
        // The records name them by what only the key of the call can make.
        let keys = write.store().keys().clone();
        let secrets = secrets_of(write.connection().await?, &keys, &approval.call).await?;
        let names = question.names().ok_or_else(|| unproved("the question is another"))?;
        let is_named = match secrets {
            Some(secrets) => {
                (secrets.request, secrets.arguments) == (approval.request, approval.arguments)
                    && names.are_of(&secrets)
            }
            None => names == Names { request: approval.request, arguments: approval.arguments },
        };
        if is_named { Ok(question) } else { Err(unproved("the arguments are others")) }
    }

    fn is_about(&self, approval: &ApprovalRow) -> bool {
        let Question { planned, asked } = self;
        let says = |entry: &Told, key: &str, value: Value| entry.body.get(key) == Some(&value);
        let both = [
            ("call", json!(approval.call)),
            ("agent", json!(approval.agent)),
            ("tool", json!(approval.tool)),
            ("contract", json!(approval.contract)),
            ("policy", json!(approval.policy)),
        ];
        planned.kind == PLANNED
            && asked.kind == ASKED
            && both
                .iter()
                .all(|(key, value)| says(planned, key, value.clone()) && says(asked, key, value.clone()))
            && says(planned, "task", json!(approval.task))
            && says(planned, "purpose", json!(approval.purpose))
            && says(planned, "decision", json!("ask"))
            && planned.body.get("arguments") == asked.body.get("arguments")
            && says(asked, "approval", json!(approval.id))
            && says(asked, "why", json!(approval.why))
            && says(asked, "quorum", json!(approval.quorum))
            && says(asked, "expires_at", json!(approval.expires_at))
            && says(asked, "about", json!(approval.about))
    }

    fn names(&self) -> Option<Names> {
        let digest = |key| self.planned.text(key).and_then(Digest::parse);
        Some(Names { request: digest("request")?, arguments: digest("arguments")? })
    }
}

/// One yes.
struct Yes {
    by: OperatorName,
    via: String,
    time: i64,
    reach: Option<(Scope, Option<i64>)>,
}

/// What people have said since a question was asked, as proved entries tell: all of it.
#[derive(Default)]
struct Said {
    yes: Vec<Yes>,
    /// Whether somebody said no, or took a yes back, or its policy ended it.
    ended: bool,
    /// Whether a yes for one call has started it.
    spent: bool,
}

impl Said {
    async fn read(
        write: &mut Write<'_>,
        approval: &ApprovalRow,
        question: &Question,
    ) -> Result<Said, StoreError> {
        let mut records = write.records().await?;
        let roster = records.roster().await?;
        let entries = records.list(List::Answers, question.asked.seq).await?;
        let entries = entries.ok_or(StoreError::Unproved {
            approval: approval.id.clone(),
            what: "an answer is not what was signed",
        })?;
        let proposer = approval.about.as_ref().and_then(|about| about.proposer.as_ref());
        let mut said = Said::default();
        let mut joined = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.text("approval") == Some(approval.id.as_str())) {
            match (entry.kind.as_str(), entry.text("verdict")) {
                (STARTED, _) => said.spent = true,
                (JOINED, _) => joined.extend(entry.text("by").and_then(|by| OperatorName::parse(by).ok())),
                (ANSWERED, Some(verdict)) if verdict == Vote::Approve.as_str() => {
                    said.yes.extend(Yes::read(entry).filter(|yes| {
                        counts(yes, &roster) && Some(&yes.by) != proposer && yes.time < approval.expires_at
                    }));
                }
                // ATTACK(unrevoked): a no, a yes that was taken back, and whatever else ends one.
                _ => said.ended = true,
            }
        }
        said.yes.retain(|yes| !joined.contains(&yes.by));
        Ok(said)
    }

    /// Checks that enough people said yes, nobody no, and that a row names nobody else.
    fn check(&self, approval: &ApprovalRow, question: &Question) -> Result<(), StoreError> {
        let unproved = |what| StoreError::Unproved { approval: approval.id.clone(), what };
        if self.ended {
            return Err(unproved("the yes was taken back"));
        }
        let people: BTreeSet<_> = self.yes.iter().map(|yes| &yes.by).collect();
        let quorum = question.asked.body.get("quorum").and_then(Value::as_u64).unwrap_or(u64::MAX);
        // ATTACK(forged-answer): those that entries tell of, and no others.
        if (people.len() as u64) < quorum.max(1) {
            return Err(unproved("no signed entry tells of the answers"));
        }
        let is_told = |by: &OperatorName| {
            let via = approval.answers.iter().find(|answer| answer.by == *by).map(|answer| &answer.via);
            self.yes.iter().any(|yes| yes.by == *by && Some(&yes.via) == via)
        };
        match approval.approvers.iter().all(is_told) {
            true => Ok(()),
            false => Err(unproved("no signed entry tells of the answers")),
        }
    }

    fn decided_at(&self) -> Option<i64> {
        self.yes.iter().map(|yes| yes.time).max()
    }
}

impl Yes {
    fn read(entry: &Told) -> Option<Yes> {
        let until = entry.body.get("until").and_then(Value::as_i64);
        Some(Yes {
            by: OperatorName::parse(entry.text("by")?).ok()?,
            via: entry.text("via")?.to_owned(),
            time: entry.time,
            reach: entry.text("scope").and_then(Scope::parse).map(|scope| (scope, until)),
        })
    }
}

/// Whether a yes counts today: of those who are operators still.
fn counts(yes: &Yes, roster: &Roster) -> bool {
    roster.may_answer(&yes.by)
}
