//! How often agents have called: counted in the transaction that records the call, for all gates on one store.
//!
//! It knows no configuration: the limits are handed in with every call.
//!
//! # Invariants
//! - What is counted and what it is counted for are one transaction, under the one write lock: any number of calls at
//!   once stays within every limit.
//! - A limit that changes counts what was before it: nothing is kept per limit, so no reload and no restart clears it.
//! - A clock that is set back neither empties a window nor holds it shut: what was counted moves back with it.

use contract::{AgentName, Digest, OnTheClock, Rate, ToolName};
use serde_json::json;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};

use crate::calls::NewCall;
use crate::error::StoreError;
use crate::later::{Answers, Later};
use crate::open::Store;
use crate::write::Write;

/// How long it is known what was spent, however short the windows, in milliseconds.
const KEPT_MS: i64 = 60 * 60 * 1000;
/// What is older is forgotten with each so-many-th call.
const FORGET_EVERY: i64 = 8;

const NEWEST: &str =
    "SELECT number, at FROM spent WHERE agent = $1 AND kind = $2 ORDER BY number DESC LIMIT 1";
const NUMBERED: &str = "SELECT at FROM spent WHERE agent = $1 AND kind = $2 AND number = \
    (SELECT max(number) FROM spent WHERE agent = $1 AND kind = $2) - $3";
const MOVE_BACK: &str = "UPDATE spent SET at = at - $3 WHERE agent = $1 AND kind = $2";
const ADD: &str = "INSERT INTO spent (agent, kind, number, tool, at) VALUES ($1, $2, $3, $4, $5)";
// What is no longer needed goes by itself, and no call has to wait for long: twice as many go as have come.
const FORGET: &str = "DELETE FROM spent WHERE agent = $1 AND kind = $2 AND at <= $3 AND number < \
    (SELECT min(number) FROM spent WHERE agent = $1 AND kind = $2) + $4";
const CLAIMED: &str = "SELECT call FROM claims WHERE claim = $1";
const FLOOD: &str = "SELECT since, unrecorded, digest FROM floods WHERE agent = $1";
const BEGIN_FLOOD: &str = "INSERT INTO floods (agent, since, unrecorded, digest) VALUES ($1, $2, 1, $3)";
const GO_ON: &str = "UPDATE floods SET unrecorded = unrecorded + 1, digest = $2 WHERE agent = $1";
const END_FLOOD: &str = "DELETE FROM floods WHERE agent = $1";

/// How often an agent may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Calls of which tools are counted; nothing means of all.
    pub tools: Option<Vec<ToolName>>,
    /// How many, in how much time.
    pub rate: Rate,
}

/// An allowance of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// Which of those that were handed in.
    pub which: usize,
    /// How long until something is, in milliseconds.
    pub wait_ms: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Refuse,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Run => "run",
            Kind::Refuse => "refuse",
        }
    }
}

/// One call, about to be counted.
pub(crate) struct Spend<'a> {
    pub(crate) kind: Kind,
    pub(crate) agent: &'a AgentName,
    pub(crate) tool: &'a ToolName,
    pub(crate) allowances: &'a [Allowance],
    pub(crate) now: i64,
}

impl Spend<'_> {
    /// What has to be asked before it can be counted: see [`Spend::take`].
    pub(crate) fn ask(&self, questions: &mut Later) -> Result<(), StoreError> {
        // Without a limit there is nothing to count for.
        if self.allowances.is_empty() {
            return Ok(());
        }
        questions.keep(self.of_agent(NEWEST))?;
        for allowance in self.allowances.iter().filter(|allowance| allowance.tools.is_none()) {
            questions.keep(self.numbered(allowance))?;
        }
        Ok(())
    }

    /// Counts the call by what was answered, unless an allowance is used up: then it counts nothing, and says which keeps
    /// it waiting longest.
    pub(crate) async fn take(
        &self,
        write: &mut Write<'_>,
        answers: &mut Answers,
    ) -> Result<Option<UsedUp>, StoreError> {
        if self.allowances.is_empty() {
            return Ok(None);
        }
        let newest = newest(answers.row()?)?;
        let mut numbered = Vec::new();
        for allowance in self.allowances {
            numbered.push(match allowance.tools {
                None => Some(at(answers.row()?)?),
                Some(_) => None,
            });
        }
        let now = match OnTheClock::after(newest.map(|(_, at)| at), self.now) {
            OnTheClock::At(now) => now,
            OnTheClock::SetBack(by) => {
                self.of_agent(MOVE_BACK).bind(by).execute(write.connection().await?).await?;
                // What was answered is no longer so.
                numbered.clear();
                self.now
            }
        };
        let mut counted = Vec::new();
        for (which, allowance) in self.allowances.iter().enumerate() {
            counted.push(match numbered.get(which).copied().flatten() {
                Some(answered) => answered,
                None => self.counted(write.connection().await?, allowance, now).await?,
            });
        }
        let longest = self.longest(&counted, now);
        if longest.is_none() {
            let number = newest.map_or(0, |(number, _)| number);
            self.add(write, number.saturating_add(1), now)?;
        }
        Ok(longest)
    }

    /// What would be said if the call were counted now.
    async fn look(&self, connection: &mut AnyConnection) -> Result<Option<UsedUp>, StoreError> {
        let newest = newest(self.of_agent(NEWEST).fetch_optional(&mut *connection).await?)?;
        let now = match OnTheClock::after(newest.map(|(_, at)| at), self.now) {
            OnTheClock::At(now) => now,
            // Nothing is moved: where it stands, this is the time.
            OnTheClock::SetBack(by) => self.now.saturating_add(by),
        };
        let mut counted = Vec::new();
        for allowance in self.allowances {
            counted.push(self.counted(connection, allowance, now).await?);
        }
        Ok(self.longest(&counted, now))
    }

    /// The allowance that is used up for longest, by when the call was that decides each of them.
    fn longest(&self, counted: &[Option<i64>], now: i64) -> Option<UsedUp> {
        let mut longest: Option<UsedUp> = None;
        for (which, (allowance, counted)) in self.allowances.iter().zip(counted).enumerate() {
            if let Some(wait_ms) = allowance.rate.wait(*counted, now)
                && longest.is_none_or(|other| other.wait_ms < wait_ms)
            {
                longest = Some(UsedUp { which, wait_ms });
            }
        }
        longest
    }

    fn of_agent(&self, sql: &'static str) -> Query<'static, Any, AnyArguments> {
        sqlx::query(sql).bind(self.agent.to_string()).bind(self.kind.as_str())
    }

    /// The call that has `max_calls - 1` counted ones after it, of whatever tool.
    fn numbered(&self, allowance: &Allowance) -> Query<'static, Any, AnyArguments> {
        self.of_agent(NUMBERED).bind(back(allowance))
    }

    /// When the call was that has `max_calls - 1` counted ones after it.
    async fn counted(
        &self,
        connection: &mut AnyConnection,
        allowance: &Allowance,
        now: i64,
    ) -> Result<Option<i64>, StoreError> {
        let row = match &allowance.tools {
            None => self.numbered(allowance).fetch_optional(connection).await?,
            Some(tools) => {
                let window = i64::try_from(allowance.rate.window_ms).unwrap_or(i64::MAX);
                let query = sqlx::query(AssertSqlSafe(of_tools(tools.len())));
                let query = query.bind(self.agent.as_str()).bind(self.kind.as_str());
                let query = query.bind(now.saturating_sub(window)).bind(back(allowance));
                let query = tools.iter().fold(query, |query, tool| query.bind(tool.as_str()));
                query.fetch_optional(connection).await?
            }
        };
        at(row)
    }

    fn add(&self, write: &mut Write<'_>, number: i64, now: i64) -> Result<(), StoreError> {
        let (agent, kind) = (self.agent.as_str(), self.kind.as_str());
        let add = sqlx::query(ADD).bind(agent).bind(kind).bind(number).bind(self.tool.as_str()).bind(now);
        write.say(add)?;
        if number % FORGET_EVERY != 0 {
            return Ok(());
        }
        let windows = self.allowances.iter().map(|allowance| allowance.rate.window_ms);
        let longest = i64::try_from(windows.max().unwrap_or(0)).unwrap_or(i64::MAX).max(KEPT_MS);
        let before = now.saturating_sub(longest);
        write.say(sqlx::query(FORGET).bind(agent).bind(kind).bind(before).bind(2 * FORGET_EVERY))
    }
}

impl Store {
    /// Which allowance keeps a call from running at this moment. Nothing is counted: only the transaction that records a
    /// call, or starts it, says that it may run.
    ///
    /// One whose claim is held already is the same call made again, and needs no allowance.
    pub async fn used_up(
        &self,
        agent: &AgentName,
        tool: &ToolName,
        claim: Option<&str>,
        allowances: &[Allowance],
        now: i64,
    ) -> Result<Option<UsedUp>, StoreError> {
        let mut read = self.read().await?;
        if let Some(claim) = claim {
            let claim = self.keys().wrapping().lookup("claim", claim.as_bytes());
            if sqlx::query(CLAIMED).bind(claim).fetch_optional(&mut *read).await?.is_some() {
                return Ok(None);
            }
        }
        Spend { kind: Kind::Run, agent, tool, allowances, now }.look(&mut read).await
    }
}

fn newest(row: Option<AnyRow>) -> Result<Option<(i64, i64)>, StoreError> {
    row.map(|row| Ok((row.try_get("number")?, row.try_get("at")?))).transpose()
}

fn at(row: Option<AnyRow>) -> Result<Option<i64>, StoreError> {
    Ok(row.map(|row| row.try_get("at")).transpose()?)
}

/// How many calls before the newest the one was that decides an allowance.
fn back(allowance: &Allowance) -> i64 {
    i64::try_from(allowance.rate.max_calls).unwrap_or(i64::MAX).saturating_sub(1)
}

/// The statement that looks at calls of so many tools. Nothing of a caller's is in its text.
fn of_tools(count: usize) -> String {
    let places: Vec<String> = (5..5 + count).map(|place| format!("${place}")).collect();
    // In no tool at all nothing was called.
    let places = if places.is_empty() { "NULL".to_owned() } else { places.join(", ") };
    format!(
        "SELECT at FROM spent WHERE agent = $1 AND kind = $2 AND at > $3 AND tool IN ({places}) \
         ORDER BY at DESC LIMIT 1 OFFSET $4"
    )
}

/// Counts a refused call that is one too many to be recorded; the first of them begins a flood.
///
/// Its id and its request go into one digest with those before: whoever has what was asked and answered can show later
/// that it was this, and nobody can show something else.
pub(crate) async fn count_flood(write: &mut Write<'_>, call: &NewCall) -> Result<(), StoreError> {
    let (agent, now) = (&call.agent, call.asked_at);
    let flood = sqlx::query(FLOOD).bind(agent.as_str()).fetch_optional(write.connection().await?).await?;
    let before: String = flood.as_ref().map(|row| row.try_get("digest")).transpose()?.unwrap_or_default();
    let digest = Digest::of(format!("{before}\n{}\n{}", call.id, call.request).as_bytes()).to_string();
    if flood.is_some() {
        let go_on = sqlx::query(GO_ON).bind(agent.as_str()).bind(digest);
        go_on.execute(write.connection().await?).await?;
        return Ok(());
    }
    let begin = sqlx::query(BEGIN_FLOOD).bind(agent.as_str()).bind(now).bind(digest);
    begin.execute(write.connection().await?).await?;
    write.append(now, "agent.flooding", json!({ "agent": agent })).await?;
    Ok(())
}

/// Says in the ledger how many calls of a flood were not recorded, and by their digest which, when it is over.
pub(crate) async fn end_flood(write: &mut Write<'_>, agent: &AgentName, now: i64) -> Result<(), StoreError> {
    let row = sqlx::query(FLOOD).bind(agent.as_str()).fetch_optional(write.connection().await?).await?;
    let Some(row) = row else { return Ok(()) };
    let (since, unrecorded): (i64, i64) = (row.try_get("since")?, row.try_get("unrecorded")?);
    sqlx::query(END_FLOOD).bind(agent.as_str()).execute(write.connection().await?).await?;
    let digest: String = row.try_get("digest")?;
    let body = json!({ "agent": agent, "since": since, "calls_not_recorded": unrecorded, "digest": digest });
    write.append(now, "agent.flood_over", body).await?;
    Ok(())
}
