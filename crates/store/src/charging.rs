//! What calls take of budgets: reserved in the transaction that lets a call run, counted in the one that settles it.
//!
//! It knows no configuration: the budgets are handed in with every call, and nothing is kept per budget, so no reload and
//! no restart clears what was spent.
//!
//! # Invariants
//! - What is reserved and what it is reserved for are one transaction, under the one write lock: any number of calls at
//!   once stays within every budget.
//! - What is reserved stays reserved until its call has ended, however long that takes and whoever ends it.
//! - What did not begin gives back all that it had reserved; what may have happened counts as all of it.
//! - Days only go on: with a clock that was set back, calls count for the day that it was.

use std::collections::BTreeMap;

use contract::{AgentName, CallId, Measure, OfTask, Pot, Tally, TaskName, ToolName};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};

use crate::error::StoreError;
use crate::open::Store;
use crate::read::{parsed, parsed_if_any};
use crate::write::Write;

const LATEST: &str = "SELECT CAST(coalesce(max(day), 0) AS BIGINT) AS day FROM spending WHERE what = 'calls'";
const RESERVE: &str = "INSERT INTO charges (call, what, day, agent, task, tool, currency, quoted) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const COUNT: &str =
    "UPDATE charges SET counted = CASE WHEN what = 'cost' THEN $2 ELSE quoted END WHERE call = $1";
const COUNT_ALL: &str = "UPDATE charges SET counted = quoted WHERE call = $1";
const RELEASE: &str = "UPDATE charges SET counted = 0 WHERE call = $1";
const FORGET: &str = "DELETE FROM charges WHERE call = $1 AND counted IS NOT NULL";
const TASKS: &str = "SELECT DISTINCT agent, nullif(task, '') AS task FROM spending WHERE what = 'calls' AND day >= $1 \
    ORDER BY agent, task LIMIT $2";

/// What a call that runs counts for, and what it has to stay within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The most that it can cost, in millionths.
    pub cost: u64,
    /// In which currency; empty where there are no prices.
    pub currency: String,
    /// Amounts of its arguments that are counted, in millionths, by where they stand.
    pub arguments: BTreeMap<String, u64>,
    /// On which day, in days since 1970.
    pub day: i64,
    /// What it has to stay within.
    pub within: Vec<Within>,
}

/// A limit on what is added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// What is added up.
    pub pot: Pot,
    /// How much the call adds.
    pub take: u64,
    /// How much there may be.
    pub most: u64,
}

/// What a call that has not ended has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The most that it can cost, in millionths.
    pub quoted: u64,
    /// In which currency; empty where there are no prices.
    pub currency: String,
}

/// Whose call it is.
pub(crate) struct Whose<'a> {
    pub(crate) call: &'a CallId,
    pub(crate) agent: &'a AgentName,
    pub(crate) task: Option<&'a TaskName>,
    pub(crate) tool: &'a ToolName,
}

impl Charge {
    /// Whether one of the limits is exceeded.
    pub(crate) async fn exceeds(&self, write: &mut Write<'_>) -> Result<bool, StoreError> {
        for within in &self.within {
            let tally = tally(write.connection().await?, &within.pot).await?;
            if within.take > 0 && tally.taken().saturating_add(within.take) > within.most {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reserves it for a call that is on record.
    pub(crate) async fn reserve(&self, write: &mut Write<'_>, whose: &Whose<'_>) -> Result<(), StoreError> {
        // ATTACK(clock-set-back-for-a-new-period)
        let latest = sqlx::query(LATEST).fetch_one(write.connection().await?).await?;
        let day = self.day.max(latest.try_get("day")?);
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|(path, amount)| (Measure::Argument(path.clone()), *amount));
        for (measure, quoted) in
            [(Measure::Calls, 1), (Measure::Cost, self.cost)].into_iter().chain(arguments)
        {
            let reserve = sqlx::query(RESERVE)
                .bind(whose.call.as_str())
                .bind(measure.to_string())
                .bind(day)
                .bind(whose.agent.as_str())
                .bind(whose.task.map_or("", TaskName::as_str))
                .bind(whose.tool.as_str())
                .bind(self.currency.as_str())
                .bind(to_stored(quoted));
            write.say(reserve)?;
        }
        Ok(())
    }
}

/// What becomes of what was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing began.
    Released,
    /// It cost so much, in millionths.
    Measured(u64),
    /// Nobody knows.
    Unknown,
}

/// Counts what a call has reserved, and forgets how much that was for this one.
pub(crate) fn count(write: &mut Write<'_>, call: &CallId, outcome: Outcome) -> Result<(), StoreError> {
    write.say(match outcome {
        Outcome::Released => sqlx::query(RELEASE).bind(call.as_str()),
        Outcome::Measured(cost) => sqlx::query(COUNT).bind(call.as_str()).bind(to_stored(cost)),
        Outcome::Unknown => sqlx::query(COUNT_ALL).bind(call.as_str()),
    })?;
    write.say(sqlx::query(FORGET).bind(call.as_str()))
}

impl Store {
    /// What was added up, for each of these. Only the transaction that lets a call run says that enough is left.
    pub async fn tallies(&self, pots: &[Pot]) -> Result<Vec<Tally>, StoreError> {
        let mut tallies = Vec::new();
        if pots.is_empty() {
            return Ok(tallies);
        }
        let mut read = self.read().await?;
        for pot in pots {
            tallies.push(tally(&mut read, pot).await?);
        }
        Ok(tallies)
    }

    /// Whose calls were counted since a day, and for which tasks.
    pub async fn tasks_since(
        &self,
        day: i64,
        limit: u32,
    ) -> Result<Vec<(AgentName, Option<TaskName>)>, StoreError> {
        let query = sqlx::query(TASKS).bind(day).bind(i64::from(limit));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        let read = |row: &AnyRow| {
            let agent = parsed(row, "agent", |text| AgentName::parse(text).ok())?;
            Ok((agent, parsed_if_any(row, "task", |text| TaskName::parse(text).ok())?))
        };
        rows.iter().map(read).collect()
    }
}

async fn tally(connection: &mut AnyConnection, pot: &Pot) -> Result<Tally, StoreError> {
    // In no tool at all nothing was spent.
    if pot.tools.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Tally::default());
    }
    let (sql, texts) = summing(pot);
    let query = sqlx::query(AssertSqlSafe(sql)).bind(pot.since);
    let query = texts.into_iter().fold(query, |query: Query<'_, Any, AnyArguments>, text| query.bind(text));
    let row = query.fetch_one(connection).await?;
    Ok(Tally { spent: number(&row, "spent")?, reserved: number(&row, "reserved")? })
}

/// The statement that adds up, and its texts from the second place on. Nothing of a caller's is in its own text.
fn summing(pot: &Pot) -> (String, Vec<String>) {
    let mut sql = "SELECT CAST(coalesce(sum(spent), 0) AS BIGINT) AS spent, \
        CAST(coalesce(sum(reserved), 0) AS BIGINT) AS reserved FROM spending WHERE day >= $1 AND what = $2"
        .to_owned();
    let mut texts = vec![pot.measure.to_string()];
    let mut place = |text: String| {
        texts.push(text);
        format!("${}", texts.len() + 1)
    };
    if let Some(agent) = &pot.agent {
        sql = format!("{sql} AND agent = {}", place(agent.to_string()));
    }
    match &pot.task {
        OfTask::Any => {}
        OfTask::Unnamed => sql.push_str(" AND task = ''"),
        OfTask::Named(task) => sql = format!("{sql} AND task = {}", place(task.to_string())),
    }
    if let Some(tools) = &pot.tools {
        let places: Vec<String> = tools.iter().map(|tool| place(tool.to_string())).collect();
        sql = format!("{sql} AND tool IN ({})", places.join(", "));
    }
    (sql, texts)
}

fn number(row: &AnyRow, column: &'static str) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| StoreError::Unreadable { what: "sum" })
}

pub(crate) fn to_stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a row of a call says that it has reserved.
pub(crate) fn reserved(row: &AnyRow) -> Result<Option<Reserved>, StoreError> {
    let Some(quoted) = row.try_get::<Option<i64>, _>("quoted")? else { return Ok(None) };
    let quoted = u64::try_from(quoted).map_err(|_| StoreError::Unreadable { what: "charge" })?;
    Ok(Some(Reserved { quoted, currency: row.try_get("currency")? }))
}
