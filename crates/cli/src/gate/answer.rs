//! `toolgate approve`, `deny`, `revoke`, `answer`: people decide.

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use contract::Scope;
use engine::{AnswerRefused, Credential, Reach, Reply, RevokeRefused, Said};
use serde_json::json;
use store::{AnswerError, ApprovalRow, ApprovalState, Vote};

use super::ledger::time;
use super::open::{Gate, Opened};
use super::person::Person;
use super::{CODE_DONE, Trouble};
use crate::amount;
use crate::talk;

const AFTER_APPROVE: &str = "\
Scopes:
  once    this very call
  task    the same call again, with the same arguments, for the same task
  agent   the same call again, with the same arguments, by the same agent
  type    every call of that tool and that kind of action by the same agent, whatever its arguments
All but `once` end at --until (8 hours at most, unless it is configured otherwise), when the tool, the policy or a file
that the call names changes, and with `toolgate revoke ID`. What spends money, can change what guards, or takes several
people is approved once.";

/// Approve calls that wait
#[derive(Args)]
#[command(after_help = AFTER_APPROVE)]
pub(crate) struct ApproveArguments {
    /// The approval's id, or enough of its beginning; several are answered one by one
    #[arg(required = true)]
    id: Vec<String>,

    /// For how much; see below
    #[arg(long, value_name = "SCOPE", default_value = "once")]
    scope: ScopeWord,

    /// Until when, as a time (2026-11-15T18:00:00Z) or from now on (30m, 2h)
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Deny calls that wait
#[derive(Args)]
pub(crate) struct DenyArguments {
    /// The approval's id, or enough of its beginning; several are answered one by one
    #[arg(required = true)]
    id: Vec<String>,

    /// Why; the agent is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Take an approval back: when this returns, nothing begins with it any more
#[derive(Args)]
pub(crate) struct RevokeArguments {
    /// The approval's id, or enough of its beginning
    id: String,

    /// Why; the ledger keeps it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Answer in the words of a chat: `/approve ID` or `/deny ID reason`
#[derive(Args)]
pub(crate) struct AnswerArguments {
    /// The text
    text: String,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScopeWord {
    Once,
    Task,
    Agent,
    Type,
}

pub(crate) async fn approve(arguments: ApproveArguments) -> Result<i32, Trouble> {
    let ApproveArguments { id, scope, until, person, gate } = arguments;
    let opened = gate.open_for_people().await?;
    let until = until.map(|text| moment(&text, opened.engine.now())).transpose()?;
    let reply = Reply { vote: Vote::Approve, reason: None, reach: Reach { scope: scope.into(), until } };
    let credential = person.credential(&opened).await?;
    decide(&opened, &id, &reply, &credential, "cli", gate.json).await
}

pub(crate) async fn deny(arguments: DenyArguments) -> Result<i32, Trouble> {
    let DenyArguments { id, reason, person, gate } = arguments;
    let opened = gate.open_for_people().await?;
    let reply = Reply { vote: Vote::Reject, reason, reach: Reach::ONCE };
    let credential = person.credential(&opened).await?;
    decide(&opened, &id, &reply, &credential, "cli", gate.json).await
}

pub(crate) async fn answer(arguments: AnswerArguments) -> Result<i32, Trouble> {
    let AnswerArguments { text, person, gate } = arguments;
    let (ids, vote, reason) = match Said::parse(&text)? {
        Said::Approve { ids } => (ids, Vote::Approve, None),
        Said::Deny { id, reason } => (vec![id], Vote::Reject, reason),
    };
    let opened = gate.open_for_people().await?;
    let credential = person.credential(&opened).await?;
    decide(&opened, &ids, &Reply { vote, reason, reach: Reach::ONCE }, &credential, "chat", gate.json).await
}

async fn decide(
    opened: &Opened,
    ids: &[String],
    reply: &Reply,
    credential: &Credential,
    via: &str,
    json: bool,
) -> Result<i32, Trouble> {
    let mut rows = Vec::new();
    for id in ids {
        let answered = opened.engine.reply(id.trim_end_matches('…'), reply.clone(), credential, via).await;
        let row = answered.map_err(explain)?;
        if !json {
            tell(&row, reply.vote);
        }
        rows.push(row);
    }
    match rows.as_slice() {
        [row] if json => talk::json(row),
        rows if json => talk::json(&rows),
        rows if rows.iter().any(|row| row.state == ApprovalState::Approved) => {
            talk::hint("it runs as soon as its caller waits for it, or makes the same call again");
        }
        _ => {}
    }
    Ok(CODE_DONE)
}

fn tell(row: &ApprovalRow, vote: Vote) {
    let state = match row.state {
        ApprovalState::Pending if vote == Vote::Approve => {
            format!("approved by {} of {}, so it waits for others", row.approvers.len(), row.quorum)
        }
        state => state.as_str().to_owned(),
    };
    talk::say(&format!("{state}: `{}` of agent `{}`", row.tool, row.agent));
    if let Some(standing) = &row.standing {
        talk::say(&format!("  scope    {} until {}", standing.scope, time(standing.expires_at)));
        talk::say(&format!("  revoke   toolgate revoke {}", row.id.short()));
    }
}

pub(crate) async fn revoke(arguments: RevokeArguments) -> Result<i32, Trouble> {
    let RevokeArguments { id, reason, person, gate } = arguments;
    let opened = gate.open_for_people().await?;
    let credential = person.credential(&opened).await?;
    let revoked = opened.engine.revoke(id.trim_end_matches('…'), reason, &credential).await;
    let row = revoked.map_err(|error| match error {
        RevokeRefused::NotAnOperator | RevokeRefused::Revoke(_) => Trouble::refused(error.into()),
        error => Trouble::from(error).with_hint("`toolgate approvals --standing` shows what stands"),
    })?;
    if gate.json {
        talk::data(&json!({ "id": row.id, "state": "revoked" }).to_string());
    } else {
        talk::say(&format!("revoked: `{}` of agent `{}`", row.tool, row.agent));
    }
    Ok(CODE_DONE)
}

fn explain(error: AnswerRefused) -> Trouble {
    let hint = match &error {
        AnswerRefused::Answer(AnswerError::Expired) => Some("the agent can make the call again"),
        AnswerRefused::Answer(AnswerError::Proposer { .. } | AnswerError::SameOperator { .. }) => {
            Some("another operator answers with --key-file, or with TOOLGATE_OPERATOR_KEY")
        }
        AnswerRefused::NotShown => Some("`toolgate approvals` shows those that come first"),
        AnswerRefused::Find(_) => Some("`toolgate approvals` shows what waits"),
        _ => None,
    };
    let trouble = match error {
        AnswerRefused::NotAnOperator | AnswerRefused::NotShown | AnswerRefused::Answer(_) => {
            Trouble::refused(error.into())
        }
        error => Trouble::from(error),
    };
    match hint {
        Some(hint) => trouble.with_hint(hint),
        None => trouble,
    }
}

/// A time, or so long from now on.
fn moment(text: &str, now: i64) -> Result<i64, Trouble> {
    if let Some(lasting) = amount::lasting(text) {
        let lasting = i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX);
        return Ok(now.saturating_add(lasting));
    }
    let moment = chrono::DateTime::parse_from_rfc3339(text);
    moment.map(|moment| moment.timestamp_millis()).map_err(|_| {
        let error =
            anyhow!("`{text}` is neither a time such as 2026-11-15T18:00:00Z nor so long as 30m or 2h");
        Trouble::from(error)
    })
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Scope {
        match word {
            ScopeWord::Once => Scope::Once,
            ScopeWord::Task => Scope::Task,
            ScopeWord::Agent => Scope::Agent,
            ScopeWord::Type => Scope::Type,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_people_write_it() {
        let read = |text| moment(text, 1_000).ok();
        assert_eq!(read("30m"), Some(1_801_000));
        assert_eq!(read("1970-01-01T00:01:00Z"), Some(60_000));
        assert_eq!(read("1970-01-01T01:01:00+01:00"), Some(60_000));
        for text in ["", "soon", "18:00", "-1h", "2026-13-01T00:00:00Z"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
