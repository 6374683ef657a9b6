//! Questions to people, and their answers.
//!
//! # Invariants
//! - Only what is pending is answered, by people who may, each once; unanswered never means yes.
//! - An approval is given when as many different people have approved as it asks for.

use contract::{AgentName, ApprovalId, CallId, Digest, OperatorName, Scope, TaskName, ToolName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};
use thiserror::Error;

use crate::error::StoreError;
use crate::evidence::{ANSWERED, link};
use crate::keys::Keys;
use crate::open::Store;
use crate::private::{Asked, asked};
use crate::questions::{About, about, reached};
use crate::read::{digest, number, parsed, parsed_if_any};
use crate::standing::{NewStanding, RevocationRow, StandingRow, grant, revocation_row, standing_row};

/// How long an approval may be used after it was given.
pub(crate) const USABLE_MS: i64 = 60 * 60 * 1000;

/// The fewest digits by which an approval is found.
const SHORTEST_PREFIX: usize = 4;

/// The longest arguments that a list carries along, in bytes as they are sealed; the question alone has them whole.
macro_rules! longest_in_lists {
    () => {
        "16384"
    };
}

macro_rules! select_approvals {
    ($rest:literal) => {
        select_approvals!($rest, "2147483647")
    };
    ($rest:literal, $longest:expr) => {
        concat!(
            "SELECT a.id, a.call, a.why, a.quorum, a.state, a.asked_at, a.expires_at, a.decided_at, a.usable_until, \
             a.reason, c.planned_seq, c.agent, c.task, c.tool, c.contract, c.request, c.arguments, c.policy, c.purpose, \
             k.wrapped, CASE WHEN length(p.sealed) <= ",
            $longest,
            " THEN p.sealed END AS sealed, q.workspace, q.place, q.action, q.safety, q.egress, q.profile, q.content, \
             q.proposer, \
             s.scope, s.granted_by, s.granted_at, s.expires_at AS stands_until, \
             (SELECT count(*) FROM standing_uses u WHERE u.approval = a.id) AS uses, \
             r.operator AS revoked_by, r.reason AS revoked_because, r.revoked_at, \
             (SELECT count(*) FROM escalations e WHERE e.approval = a.id AND e.reached_at IS NOT NULL) AS escalated \
             FROM approvals a JOIN calls c ON c.id = a.call LEFT JOIN call_keys k ON k.call = c.id \
             LEFT JOIN private p ON p.call = c.id AND p.kind = 'asked' LEFT JOIN questions q ON q.approval = a.id \
             LEFT JOIN standing s ON s.approval = a.id LEFT JOIN revocations r ON r.approval = a.id ",
            $rest
        )
    };
}

const BY_ID: &str = select_approvals!("WHERE a.id = $1");
const PENDING: &str =
    select_approvals!("WHERE a.state = 'pending' ORDER BY a.asked_at, a.id LIMIT $1", longest_in_lists!());
const PENDING_AFTER: &str = select_approvals!(
    "WHERE a.state = 'pending' AND (a.asked_at, a.id) > ($2, $3) ORDER BY a.asked_at, a.id LIMIT $1",
    longest_in_lists!()
);
const HOW_MANY_WAIT: &str = "SELECT COUNT(*) AS open FROM approvals WHERE state = 'pending'";
const ALL: &str = select_approvals!("ORDER BY a.asked_at DESC, a.id DESC LIMIT $1", longest_in_lists!());
const BY_PREFIX: &str = select_approvals!("WHERE a.id >= $1 AND a.id < $2 ORDER BY a.id LIMIT 2");
const LATE: &str = select_approvals!(
    "WHERE a.state = 'pending' AND a.expires_at <= $1 ORDER BY a.expires_at, a.id LIMIT 100",
    longest_in_lists!()
);
const ANY_LATE: &str = "SELECT 1 FROM approvals WHERE state = 'pending' AND expires_at <= $1 LIMIT 1";
const STANDING: &str = select_approvals!(
    "JOIN operators o ON o.name = s.granted_by WHERE s.expires_at > $1 AND r.approval IS NULL \
     AND o.revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM standing_ends d WHERE d.approval = a.id) ORDER BY s.granted_at DESC, a.id"
);
const STANDING_OF: &str = select_approvals!(
    "JOIN operators o ON o.name = s.granted_by WHERE s.expires_at > $1 AND r.approval IS NULL \
     AND o.revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM standing_ends d WHERE d.approval = a.id) \
     AND c.agent = $2 ORDER BY s.granted_at DESC, a.id"
);
const ANSWERS: &str = "SELECT w.operator, w.verdict, w.via, w.reason, w.answered_at, o.revoked_at AS left_at \
    FROM answers w JOIN operators o ON o.name = w.operator WHERE w.approval = $1 \
    ORDER BY w.answered_at, w.operator";
const ANSWER: &str = "INSERT INTO answers (approval, operator, verdict, via, reason, answered_at) \
    VALUES ($1, $2, $3, $4, $5, $6)";
const DECIDE: &str = "UPDATE approvals SET state = $2, decided_at = $3, usable_until = $4, reason = $5 \
    WHERE id = $1 AND state = 'pending'";

/// Where a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// It waits for an answer.
    Pending,
    /// Yes; the call has not run yet.
    Approved,
    /// Yes; the call runs.
    Running,
    /// Yes; the call went well.
    Completed,
    /// Yes; the call did not go well.
    Failed,
    /// No.
    Rejected,
    /// Nobody answered in time.
    Expired,
    /// Nobody needs to know any more.
    Cancelled,
}

impl ApprovalState {
    /// The name used on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Approved => "approved",
            ApprovalState::Running => "running",
            ApprovalState::Completed => "completed",
            ApprovalState::Failed => "failed",
            ApprovalState::Rejected => "rejected",
            ApprovalState::Expired => "expired",
            ApprovalState::Cancelled => "cancelled",
        }
    }

    /// Reads the name used on the wire and in the store.
    pub fn parse(text: &str) -> Option<ApprovalState> {
        use ApprovalState::{Approved, Cancelled, Completed, Expired, Failed, Pending, Rejected, Running};
        [Pending, Approved, Running, Completed, Failed, Rejected, Expired, Cancelled]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// Which questions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalFilter {
    /// Those that wait for an answer.
    Pending,
    /// All there ever were.
    All,
}

/// A question with everything that it binds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalRow {
    /// Its id.
    pub id: ApprovalId,
    /// The call it is about.
    pub call: CallId,
    /// Who asked for the call.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// The hash of its contract.
    pub contract: Digest,
    /// The digest of the canonical request.
    pub request: Digest,
    /// The digest of the canonical arguments.
    pub arguments: Digest,
    /// The canonical arguments; nothing in a list, if they are long, nor where they are erased.
    pub arguments_json: Option<String>,
    /// The hash of the policy that asked.
    pub policy: Digest,
    /// For what, in the agent's words.
    pub purpose: Option<String>,
    /// Why it is asked.
    pub why: Vec<String>,
    /// How many different people must approve.
    pub quorum: u32,
    /// What people have answered so far, oldest first.
    pub answers: Vec<AnswerRow>,
    /// Who has approved so far, oldest first: those who are operators still.
    pub approvers: Vec<OperatorName>,
    /// Where it is.
    pub state: ApprovalState,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it is too late to answer, in milliseconds since 1970.
    pub expires_at: i64,
    /// When it was decided, if it was, in milliseconds since 1970.
    pub decided_at: Option<i64>,
    /// Until when an approval may be used, in milliseconds since 1970.
    pub usable_until: Option<i64>,
    /// Why it was decided so, in the words of the one who decided.
    pub reason: Option<String>,
    /// What it is about, as it was when it was asked; nothing in records of earlier versions.
    pub about: Option<About>,
    /// Whom it has reached because nobody answered.
    pub escalated_to: Vec<OperatorName>,
    /// How far the yes reaches, if it reaches beyond this call.
    pub standing: Option<StandingRow>,
    /// By whom the yes was taken back, if it was.
    pub revoked: Option<RevocationRow>,
    /// The ledger entry that tells of the call; the one after it tells of the question.
    #[serde(skip)]
    pub planned_seq: i64,
}

/// What one person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerRow {
    /// Who.
    pub by: OperatorName,
    /// What.
    #[serde(rename = "verdict")]
    pub vote: Vote,
    /// By which way.
    pub via: String,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Whether they are no operator any more; then it does not count.
    pub has_left: bool,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Vote {
    /// Yes.
    Approve,
    /// No.
    #[serde(alias = "deny")]
    Reject,
}

impl Vote {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Vote::Approve => "approve",
            Vote::Reject => "reject",
        }
    }

    fn parse(text: &str) -> Option<Vote> {
        [Vote::Approve, Vote::Reject].into_iter().find(|vote| vote.as_str() == text)
    }
}

/// An answer of one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub vote: Vote,
    /// Who says so: an operator that was added, who is an approver or an admin.
    pub by: OperatorName,
    /// By which way.
    pub via: String,
    /// Why, in their words.
    pub reason: Option<String>,
    /// How far a yes reaches beyond this call, if it does.
    pub standing: Option<NewStanding>,
    /// When, in milliseconds since 1970.
    pub now: i64,
}

/// Why an answer does not count.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// There is no such question.
    #[error("there is no approval `{id}`")]
    Unknown {
        /// Which id.
        id: ApprovalId,
    },
    /// It has been answered.
    #[error("the approval is {} already", state.as_str())]
    Decided {
        /// Where it is.
        state: ApprovalState,
    },
    /// It is too late.
    #[error("the approval has expired")]
    Expired,
    /// This person has answered.
    #[error("`{by}` has answered already: another person must")]
    SameOperator {
        /// Who.
        by: OperatorName,
    },
    /// This person may not answer.
    #[error("`{by}` is not an operator who may answer")]
    NotAllowed {
        /// Who.
        by: OperatorName,
    },
    /// This person wants the call.
    #[error("`{by}` proposed the call: somebody else must answer")]
    Proposer {
        /// Who.
        by: OperatorName,
    },
    /// This person was not there when it was asked.
    #[error(
        "`{by}` was made an operator, or given another credential, after this was asked: somebody who was there must say yes, or the call be made again"
    )]
    TooNew {
        /// Who.
        by: OperatorName,
    },
    /// A yes to this reaches one call, and no further.
    #[error("{why}, so it cannot be approved for that long")]
    OnceOnly {
        /// Why.
        why: &'static str,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a question was not taken back.
#[derive(Debug, Error)]
pub enum CancelError {
    /// There is no such question.
    #[error("there is no approval `{id}`")]
    Unknown {
        /// Which id.
        id: ApprovalId,
    },
    /// It has been answered.
    #[error("the approval is {} already", state.as_str())]
    Decided {
        /// Where it is.
        state: ApprovalState,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a question is not found.
#[derive(Debug, Error)]
pub enum FindError {
    /// Too few digits, or something else.
    #[error("`{prefix}` is not an approval: give at least {SHORTEST_PREFIX} hexadecimal digits of its id")]
    NotAPrefix {
        /// What was given.
        prefix: String,
    },
    /// There is none.
    #[error("no approval begins with `{prefix}`")]
    None {
        /// What was given.
        prefix: String,
    },
    /// There are several.
    #[error("several approvals begin with `{prefix}`: give more digits")]
    Ambiguous {
        /// What was given.
        prefix: String,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Questions: those that wait oldest first, so that new ones push nobody out of sight; all newest first.
    pub async fn approvals(
        &self,
        filter: ApprovalFilter,
        limit: u32,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let mut read = self.snapshot().await?;
        let sql = match filter {
            ApprovalFilter::Pending => PENDING,
            ApprovalFilter::All => ALL,
        };
        let rows = sqlx::query(sql).bind(i64::from(limit)).fetch_all(&mut *read).await?;
        whole(&mut read, self.keys(), rows).await
    }

    /// Questions that wait, oldest first, after one of which it is known when it was asked; and how many wait in all.
    pub async fn pending_after(
        &self,
        after: Option<(i64, &ApprovalId)>,
        limit: u32,
    ) -> Result<(Vec<ApprovalRow>, u64), StoreError> {
        let mut read = self.snapshot().await?;
        let query = match after {
            None => sqlx::query(PENDING).bind(i64::from(limit)),
            Some((asked_at, id)) => {
                sqlx::query(PENDING_AFTER).bind(i64::from(limit)).bind(asked_at).bind(id.as_str())
            }
        };
        let rows = query.fetch_all(&mut *read).await?;
        let open: i64 = sqlx::query(HOW_MANY_WAIT).fetch_one(&mut *read).await?.try_get("open")?;
        let rows = whole(&mut read, self.keys(), rows).await?;
        Ok((rows, u64::try_from(open).unwrap_or_default()))
    }

    /// One question.
    pub async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRow>, StoreError> {
        read_approval(&mut *self.snapshot().await?, self.keys(), id).await
    }

    /// The one question whose id begins so.
    pub async fn find_approval(&self, prefix: &str) -> Result<ApprovalRow, FindError> {
        let shown = || prefix.chars().take(64).collect::<String>();
        let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        if !(SHORTEST_PREFIX..=32).contains(&prefix.len()) || !prefix.chars().all(is_hex) {
            return Err(FindError::NotAPrefix { prefix: shown() });
        }
        let mut read = self.snapshot().await?;
        // Every id that begins so sorts before the prefix followed by a `g`.
        let query = sqlx::query(BY_PREFIX).bind(prefix).bind(format!("{prefix}g"));
        let rows = query.fetch_all(&mut *read).await.map_err(StoreError::from)?;
        let mut found = whole(&mut read, self.keys(), rows).await?;
        match (found.pop(), found.pop()) {
            (Some(row), None) => Ok(row),
            (None, _) => Err(FindError::None { prefix: shown() }),
            (Some(_), Some(_)) => Err(FindError::Ambiguous { prefix: shown() }),
        }
    }

    /// Records one person's answer. One no decides; a yes does when enough people have said it.
    pub async fn answer(&self, id: &ApprovalId, answer: Answer) -> Result<ApprovalRow, AnswerError> {
        let mut write = self.write().await?;
        let row = read_approval(write.connection().await?, self.keys(), id).await?;
        let row = row.ok_or_else(|| AnswerError::Unknown { id: id.clone() })?;
        if row.state != ApprovalState::Pending {
            return Err(AnswerError::Decided { state: row.state });
        }
        if row.expires_at <= answer.now {
            return Err(AnswerError::Expired);
        }
        if !write.roster().await?.may_answer(&answer.by) {
            return Err(AnswerError::NotAllowed { by: answer.by });
        }
        // ATTACK(proposer-approves)
        if row.about.as_ref().is_some_and(|about| about.proposer.as_ref() == Some(&answer.by)) {
            return Err(AnswerError::Proposer { by: answer.by });
        }
        // ATTACK(joined-proposer): whoever has made the same call since wants it, too.
        if write.records().await?.joined(row.planned_seq).await?.contains(&(id.clone(), answer.by.clone())) {
            return Err(AnswerError::Proposer { by: answer.by });
        }
        // ATTACK(hired-for-the-answer): one person is not as many as they can add.
        if answer.vote == Vote::Approve
            && !write.roster().await?.was_there_before(&answer.by, row.planned_seq)
        {
            return Err(AnswerError::TooNew { by: answer.by });
        }
        if answer.standing.is_some() && answer.vote == Vote::Approve {
            can_stand(&row)?;
        }
        if row.answers.iter().any(|earlier| earlier.by == answer.by) {
            return Err(AnswerError::SameOperator { by: answer.by });
        }
        let approved = row.approvers.len() + 1 >= usize::try_from(row.quorum).unwrap_or(usize::MAX);
        let state = match answer.vote {
            Vote::Reject => ApprovalState::Rejected,
            Vote::Approve if approved => ApprovalState::Approved,
            Vote::Approve => ApprovalState::Pending,
        };
        let query = sqlx::query(ANSWER)
            .bind(id.as_str())
            .bind(answer.by.as_str())
            .bind(answer.vote.as_str())
            .bind(&answer.via)
            .bind(answer.reason.as_deref())
            .bind(answer.now);
        query.execute(write.connection().await?).await.map_err(StoreError::from)?;
        if state != ApprovalState::Pending {
            let usable = (state == ApprovalState::Approved).then(|| answer.now.saturating_add(USABLE_MS));
            decide(write.connection().await?, id, state, answer.now, usable, answer.reason.as_deref())
                .await?;
        }
        let standing = answer.standing.filter(|_| state == ApprovalState::Approved);
        if let Some(standing) = &standing {
            grant(&mut write, id, &answer.by, standing, answer.now).await?;
        }
        let body = json!({
            "approval": id,
            "call": row.call,
            "verdict": answer.vote,
            "by": answer.by,
            "via": answer.via,
            "reason": answer.reason,
            "state": state,
            "scope": standing.as_ref().map_or(Scope::Once, |standing| standing.scope),
            "until": standing.as_ref().map(|standing| standing.expires_at),
        });
        let seq = write.append(answer.now, ANSWERED, body).await?;
        link(&mut write, id, &answer.by, seq).await?;
        write.commit().await?;
        self.approval(id).await?.ok_or_else(|| AnswerError::Unknown { id: id.clone() })
    }

    /// Ends questions that nobody has answered in time, and returns them: a hundred at once, as long as there are any.
    pub async fn expire(&self, now: i64) -> Result<Vec<ApprovalRow>, StoreError> {
        // Most of the time there is none, and then nothing is written.
        if sqlx::query(ANY_LATE).bind(now).fetch_optional(&mut *self.read().await?).await?.is_none() {
            return Ok(Vec::new());
        }
        let mut write = self.write().await?;
        let rows = sqlx::query(LATE).bind(now).fetch_all(write.connection().await?).await?;
        let mut late = whole(write.connection().await?, self.keys(), rows).await?;
        for row in &mut late {
            decide(write.connection().await?, &row.id, ApprovalState::Expired, now, None, None).await?;
            let body = json!({ "approval": row.id, "call": row.call });
            write.append(now, "approval.expired", body).await?;
            row.state = ApprovalState::Expired;
            row.decided_at = Some(now);
        }
        write.commit().await?;
        Ok(late)
    }

    /// Takes a question back.
    pub async fn cancel(&self, id: &ApprovalId, now: i64) -> Result<ApprovalRow, CancelError> {
        let mut write = self.write().await?;
        let row = read_approval(write.connection().await?, self.keys(), id).await?;
        let row = row.ok_or_else(|| CancelError::Unknown { id: id.clone() })?;
        if row.state != ApprovalState::Pending {
            return Err(CancelError::Decided { state: row.state });
        }
        decide(write.connection().await?, id, ApprovalState::Cancelled, now, None, None).await?;
        write.append(now, "approval.cancelled", json!({ "approval": id, "call": row.call })).await?;
        write.commit().await?;
        Ok(ApprovalRow { state: ApprovalState::Cancelled, decided_at: Some(now), ..row })
    }
}

async fn decide(
    connection: &mut AnyConnection,
    id: &ApprovalId,
    state: ApprovalState,
    now: i64,
    usable_until: Option<i64>,
    reason: Option<&str>,
) -> Result<(), StoreError> {
    let decide = sqlx::query(DECIDE).bind(id.as_str()).bind(state.as_str()).bind(now);
    decide.bind(usable_until).bind(reason).execute(connection).await?;
    Ok(())
}

/// Whether a yes may reach beyond the call that it answers.
fn can_stand(row: &ApprovalRow) -> Result<(), AnswerError> {
    let why = match &row.about {
        None => "it was asked by an earlier version",
        Some(about) if about.safety.is_grave() => "it spends money, or can change what guards",
        Some(_) if row.quorum > 1 => "it takes several people",
        Some(_) => return Ok(()),
    };
    Err(AnswerError::OnceOnly { why })
}

/// Every yes for more than one call that is good at this time.
pub(crate) async fn standing_rows(
    connection: &mut AnyConnection,
    keys: &Keys,
    agent: Option<&AgentName>,
    now: i64,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let query = match agent {
        None => sqlx::query(STANDING).bind(now),
        Some(agent) => sqlx::query(STANDING_OF).bind(now).bind(agent.as_str()),
    };
    let rows = query.fetch_all(&mut *connection).await?;
    whole(connection, keys, rows).await
}

pub(crate) async fn read_approval(
    connection: &mut AnyConnection,
    keys: &Keys,
    id: &ApprovalId,
) -> Result<Option<ApprovalRow>, StoreError> {
    let row = sqlx::query(BY_ID).bind(id.as_str()).fetch_optional(&mut *connection).await?;
    Ok(whole(connection, keys, row.into_iter().collect()).await?.pop())
}

/// Rows with the answers that belong to them.
async fn whole(
    connection: &mut AnyConnection,
    keys: &Keys,
    rows: Vec<AnyRow>,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let mut approvals = Vec::new();
    for row in &rows {
        let mut approval = approval_row(row, keys)?;
        let answers = sqlx::query(ANSWERS).bind(approval.id.as_str()).fetch_all(&mut *connection).await?;
        approval.answers = answers.iter().map(answer_row).collect::<Result<_, _>>()?;
        let approves = |answer: &&AnswerRow| answer.vote == Vote::Approve && !answer.has_left;
        approval.approvers =
            approval.answers.iter().filter(approves).map(|answer| answer.by.clone()).collect();
        if row.try_get::<i64, _>("escalated")? > 0 {
            approval.escalated_to = reached(&mut *connection, &approval.id).await?;
        }
        approvals.push(approval);
    }
    Ok(approvals)
}

fn answer_row(row: &AnyRow) -> Result<AnswerRow, StoreError> {
    Ok(AnswerRow {
        by: parsed(row, "operator", |text| OperatorName::parse(text).ok())?,
        vote: parsed(row, "verdict", Vote::parse)?,
        via: row.try_get("via")?,
        reason: row.try_get("reason")?,
        at: row.try_get("answered_at")?,
        has_left: row.try_get::<Option<i64>, _>("left_at")?.is_some(),
    })
}

fn approval_row(row: &AnyRow, keys: &Keys) -> Result<ApprovalRow, StoreError> {
    let call = parsed(row, "call", |text| CallId::parse(text).ok())?;
    let Asked { names, arguments_json } = asked(row, keys, &call)?;
    Ok(ApprovalRow {
        id: parsed(row, "id", |text| ApprovalId::parse(text).ok())?,
        call,
        agent: parsed(row, "agent", |text| AgentName::parse(text).ok())?,
        task: parsed_if_any(row, "task", |text| TaskName::parse(text).ok())?,
        tool: parsed(row, "tool", |text| ToolName::parse(text).ok())?,
        contract: digest(row, "contract")?,
        request: names.request,
        arguments: names.arguments,
        arguments_json,
        policy: digest(row, "policy")?,
        purpose: row.try_get("purpose")?,
        why: parsed(row, "why", |text| serde_json::from_str(text).ok())?,
        quorum: number(row, "quorum")?,
        answers: Vec::new(),
        approvers: Vec::new(),
        state: parsed(row, "state", ApprovalState::parse)?,
        asked_at: row.try_get("asked_at")?,
        expires_at: row.try_get("expires_at")?,
        decided_at: row.try_get("decided_at")?,
        usable_until: row.try_get("usable_until")?,
        reason: row.try_get("reason")?,
        about: about(row)?,
        escalated_to: Vec::new(),
        standing: standing_row(row)?,
        revoked: revocation_row(row)?,
        planned_seq: row.try_get("planned_seq")?,
    })
}
