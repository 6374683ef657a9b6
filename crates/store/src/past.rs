//! Every call there ever was, a page at a time, for those who decide them again.
//!
//! A page is read quickly and opened by whoever has the time for it. A row of a call is not believed by itself: it has to say
//! what the ledger entry says that told of its planning, and what is sealed of it has to be what both name.
//!
//! # Invariants
//! - Nothing is written, and no page is kept.
//! - What the tables have is what was recorded, or it is told that it is not.

use std::borrow::Cow;

use contract::{AgentName, CallId, Canonical, Digest, TaskName, ToolName};
use serde::Deserialize;
use serde_json::Value;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::keys::Keys;
use crate::open::Store;
use crate::private::{Asked, asked};
use crate::read::{parsed, parsed_if_any};

const LAST: &str = "SELECT max(planned_seq) AS last FROM calls";
const COUNT: &str = "SELECT count(*) AS calls FROM calls WHERE planned_seq <= $1 AND asked_at >= $2 \
    AND asked_at <= $3 AND (agent = $4 OR $4 = '')";
macro_rules! select_past {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.agent, c.task, c.tool, c.contract, c.request, c.arguments, c.policy, c.asked_at, \
             c.planned_seq, c.decision, l.time AS told_at, l.kind, l.body, k.wrapped, p.sealed FROM calls c \
             JOIN ledger l ON l.seq = c.planned_seq LEFT JOIN call_keys k ON k.call = c.id \
             LEFT JOIN private p ON p.call = c.id AND p.kind = 'asked' AND p.name = '' ",
            $rest
        )
    };
}

const PAGE: &str = select_past!(
    "WHERE c.planned_seq > $1 AND c.planned_seq <= $2 AND c.asked_at >= $3 AND c.asked_at <= $4 \
     AND (c.agent = $5 OR $5 = '') ORDER BY c.planned_seq LIMIT $6"
);
const ONE: &str = select_past!("WHERE c.id = $1");

/// Which past calls are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Asked no earlier than this, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Asked no later than this.
    pub until: Option<i64>,
    /// Asked by this agent.
    pub agent: Option<AgentName>,
}

impl Span {
    fn since(&self) -> i64 {
        self.since.unwrap_or(i64::MIN)
    }

    fn until(&self) -> i64 {
        self.until.unwrap_or(i64::MAX)
    }

    fn agent(&self) -> &str {
        self.agent.as_ref().map_or("", AgentName::as_str)
    }
}

/// Past calls as they lie in the tables, in the ledger's order.
pub struct PastPage {
    rows: Vec<AnyRow>,
    /// The place after which the next page begins; nothing if this is the last one.
    pub next: Option<i64>,
}

/// A past call, as far as it can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// All of it.
    Whole(Box<PastRow>),
    /// What it was asked is erased.
    Erased {
        /// Which call.
        id: CallId,
    },
    /// It was refused because its arguments were too long, and those were not kept.
    NotKept {
        /// Which call.
        id: CallId,
    },
    /// The tables do not have what was recorded.
    Altered {
        /// What the tables call it.
        id: String,
    },
}

/// A past call as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRow {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// What it was asked.
    pub arguments: Canonical,
    /// When, in milliseconds since 1970.
    pub asked_at: i64,
    /// Whether it was refused at once.
    pub was_refused: bool,
    /// Each layer that had a say then, and what it said.
    pub said: Vec<(String, String)>,
}

impl Store {
    /// Where the ledger tells of the newest call. Nothing if there is none.
    pub async fn last_planned(&self) -> Result<Option<i64>, StoreError> {
        let row = sqlx::query(LAST).fetch_one(&mut *self.read().await?).await?;
        Ok(row.try_get("last")?)
    }

    /// How many calls of a span there are up to a place in the ledger.
    pub async fn count_past(&self, span: &Span, through: i64) -> Result<u64, StoreError> {
        let query = sqlx::query(COUNT).bind(through).bind(span.since()).bind(span.until());
        let row = query.bind(span.agent()).fetch_one(&mut *self.read().await?).await?;
        Ok(u64::try_from(row.try_get::<i64, _>("calls")?).unwrap_or_default())
    }

    /// One past call, and all that the ledger tells of its planning, which this gate's key has signed. Nothing if there is no
    /// such call.
    pub async fn past_call(&self, id: &CallId) -> Result<Option<(Opened, Value)>, StoreError> {
        let row = sqlx::query(ONE).bind(id.as_str()).fetch_optional(&mut *self.read().await?).await?;
        let Some(row) = row else { return Ok(None) };
        let signed = self.signed_entry(row.try_get("planned_seq")?).await?.map(|told| told.body);
        let body: Option<Value> = serde_json::from_str(row.try_get("body")?).ok();
        Ok(Some(match signed {
            Some(signed) if body.as_ref() == Some(&signed) => (opened(&row, self.keys()), signed),
            _ => (Opened::Altered { id: id.to_string() }, Value::Null),
        }))
    }

    /// The calls of a span after one place in the ledger and up to another, at most so many.
    pub async fn past(
        &self,
        span: &Span,
        after: i64,
        through: i64,
        most: u32,
    ) -> Result<PastPage, StoreError> {
        let query = sqlx::query(PAGE).bind(after).bind(through).bind(span.since()).bind(span.until());
        let query = query.bind(span.agent()).bind(i64::from(most));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        let is_full = u32::try_from(rows.len()).unwrap_or(u32::MAX) >= most;
        let last = rows.last().map(|row| row.try_get("planned_seq")).transpose()?;
        Ok(PastPage { rows, next: last.filter(|_| is_full) })
    }
}

impl PastPage {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its calls, each opened when its turn comes; those of other tools than `wanted` are passed over.
    pub fn opened<'a>(
        &'a self,
        keys: &'a Keys,
        wanted: impl Fn(&ToolName) -> bool + 'a,
    ) -> impl Iterator<Item = Opened> + 'a {
        self.rows.iter().filter_map(move |row| {
            let tool = row.try_get("tool").ok().and_then(|tool: &str| ToolName::parse(tool).ok());
            // What has no possible name of a tool is no reason to look away.
            let is_wanted = tool.as_ref().is_none_or(&wanted);
            is_wanted.then(|| opened(row, keys))
        })
    }
}

fn opened(row: &AnyRow, keys: &Keys) -> Opened {
    let id: &str = row.try_get("id").unwrap_or_default();
    whole(row, keys).unwrap_or_else(|_| Opened::Altered { id: id.chars().take(64).collect() })
}

fn whole(row: &AnyRow, keys: &Keys) -> Result<Opened, StoreError> {
    let altered = || StoreError::Unreadable { what: "past call" };
    let id = parsed(row, "id", |text| CallId::parse(text).ok())?;
    let body: &str = row.try_get("body")?;
    let planned: Planned<'_> = serde_json::from_str(body).map_err(|_| altered())?;
    if !planned.tells_of(row)? {
        return Err(altered());
    }
    let Asked { names, arguments_json } = asked(row, keys, &id)?;
    let has_key = row.try_get::<Option<&[u8]>, _>("wrapped")?.is_some();
    let text = match arguments_json {
        Some(text) => text,
        None if has_key => return Err(altered()),
        None => return Ok(Opened::Erased { id }),
    };
    let was_refused = planned.decision == "refuse";
    if text.is_empty() && was_refused {
        return Ok(Opened::NotKept { id });
    }
    if Digest::of(text.as_bytes()) != names.arguments {
        return Err(altered());
    }
    Ok(Opened::Whole(Box::new(PastRow {
        id,
        agent: parsed(row, "agent", |text| AgentName::parse(text).ok())?,
        task: parsed_if_any(row, "task", |text| TaskName::parse(text).ok())?,
        tool: parsed(row, "tool", |text| ToolName::parse(text).ok())?,
        arguments: Canonical::parse(&text).map_err(|_| altered())?,
        asked_at: row.try_get("asked_at")?,
        was_refused,
        said: planned.trace.into_iter().map(|step| (step.layer.into(), step.says.into())).collect(),
    })))
}

/// What a ledger entry tells of a call, as far as it is compared.
#[derive(Deserialize)]
struct Planned<'a> {
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    agent: Cow<'a, str>,
    #[serde(borrow)]
    task: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    contract: Cow<'a, str>,
    #[serde(borrow)]
    request: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Cow<'a, str>,
    #[serde(borrow)]
    policy: Cow<'a, str>,
    /// Nothing in entries of earlier versions.
    #[serde(borrow, default)]
    decision: Cow<'a, str>,
    #[serde(borrow, default)]
    trace: Vec<Said<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    layer: Cow<'a, str>,
    #[serde(borrow, default)]
    says: Cow<'a, str>,
}

impl Planned<'_> {
    /// ATTACK(past-rewritten): a row that says something else than was signed is no past call.
    fn tells_of(&self, row: &AnyRow) -> Result<bool, StoreError> {
        let is = |column: &str, told: &str| Ok::<bool, StoreError>(row.try_get::<&str, _>(column)? == told);
        let task: Option<&str> = row.try_get("task")?;
        let (asked_at, told_at): (i64, i64) = (row.try_get("asked_at")?, row.try_get("told_at")?);
        Ok(is("kind", "call.planned")?
            && is("id", &self.call)?
            && is("agent", &self.agent)?
            && is("tool", &self.tool)?
            && is("contract", &self.contract)?
            && is("request", &self.request)?
            && is("arguments", &self.arguments)?
            && is("policy", &self.policy)?
            && (self.decision.is_empty() || is("decision", &self.decision)?)
            && task == self.task.as_deref()
            && asked_at == told_at)
    }
}
