//! Compares the tables with what the ledger tells, a page at a time, and names the first row that says something else.

use std::collections::BTreeSet;

use contract::{Digest, Operands};
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::story::Story;
use super::verify::{Fault, VerifyError};
use crate::error::StoreError;
use crate::operators::Role;
use crate::read::{digest, digest_if_any, number, parsed};

const CALLS: &str = "SELECT c.id, c.agent, c.task, c.tool, c.contract, c.request, c.arguments, c.policy, c.purpose, \
    c.decision, c.safety, l.seq, l.kind, l.body FROM calls c JOIN ledger l ON l.seq = c.planned_seq WHERE c.id > $1 \
    ORDER BY c.id LIMIT $2";
const APPROVALS: &str = "SELECT a.id, a.call, a.quorum, a.state, a.expires_at, s.operands, s.digest, t.scope, \
    t.expires_at AS until, r.approval AS revoked, e.approval AS ended FROM approvals a LEFT JOIN seals s ON s.approval = a.id \
    LEFT JOIN standing t ON t.approval = a.id LEFT JOIN revocations r ON r.approval = a.id \
    LEFT JOIN standing_ends e ON e.approval = a.id WHERE a.id > $1 \
    ORDER BY a.id LIMIT $2";
const ANSWERS: &str =
    "SELECT approval, operator, verdict, via FROM answers WHERE approval >= $1 AND approval <= $2";
const OPERATORS: &str = "SELECT name, role, credential, revoked_at FROM operators ORDER BY name";

/// Compares everything that decides what runs.
pub(crate) async fn compare(
    connection: &mut AnyConnection,
    story: &Story,
    page: i64,
) -> Result<(), VerifyError> {
    operators(connection, story).await?;
    calls(connection, page).await?;
    approvals(connection, story, page).await
}

async fn operators(connection: &mut AnyConnection, story: &Story) -> Result<(), VerifyError> {
    let mut found = BTreeSet::new();
    for row in sqlx::query(OPERATORS).fetch_all(connection).await.map_err(StoreError::from)? {
        let name: String = text(&row, "name")?;
        let role = parsed(&row, "role", Role::parse)?;
        let removed = row.try_get::<Option<i64>, _>("revoked_at").map_err(StoreError::from)?.is_some();
        let credential = digest(&row, "credential")?;
        if !story.people.get(&name).is_some_and(|person| person.is(role, &credential, removed)) {
            return Err(VerifyError::broken(None, Fault::Stranger { operator: name }));
        }
        found.insert(name);
    }
    match story.people.keys().find(|name| !found.contains(*name)) {
        Some(name) => Err(differs(None, format!("operator `{name}`"))),
        None => Ok(()),
    }
}

async fn calls(connection: &mut AnyConnection, page: i64) -> Result<(), VerifyError> {
    let mut after = String::new();
    loop {
        let rows = sqlx::query(CALLS).bind(&after).bind(page).fetch_all(&mut *connection).await;
        let rows = rows.map_err(StoreError::from)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = text(last, "id")?;
        for row in &rows {
            let body: Value = serde_json::from_str(&text(row, "body")?).unwrap_or_default();
            let seq: i64 = row.try_get("seq").map_err(StoreError::from)?;
            let is_told =
                text(row, "kind")? == "call.planned" && body.get("call") == Some(&json!(text(row, "id")?));
            let optional = |column| -> Result<Value, StoreError> {
                Ok(json!(row.try_get::<Option<String>, _>(column)?))
            };
            let mut same = is_told;
            for key in ["agent", "task", "tool", "contract", "request", "arguments", "policy", "purpose"] {
                same &= body.get(key).unwrap_or(&Value::Null) == &optional(key)?;
            }
            // Earlier versions told less.
            for key in ["decision", "safety"] {
                let told = body.get(key);
                same &= match told {
                    Some(told) => *told == optional(key)?,
                    None => true,
                };
            }
            if !same {
                return Err(differs(Some(seq), format!("call {}", text(row, "id")?)));
            }
        }
    }
}

async fn approvals(connection: &mut AnyConnection, story: &Story, page: i64) -> Result<(), VerifyError> {
    let mut after = String::new();
    loop {
        let rows = sqlx::query(APPROVALS).bind(&after).bind(page).fetch_all(&mut *connection).await;
        let rows = rows.map_err(StoreError::from)?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        after = text(last, "id")?;
        for row in &rows {
            approval(row, story)?;
        }
        let answers = sqlx::query(ANSWERS).bind(text(first, "id")?).bind(&after);
        for row in answers.fetch_all(&mut *connection).await.map_err(StoreError::from)? {
            let approval: String = text(&row, "approval")?;
            let answer = (text(&row, "operator")?, text(&row, "verdict")?, text(&row, "via")?);
            if !story.questions.get(&approval).is_some_and(|question| question.answers.contains(&answer)) {
                return Err(VerifyError::broken(None, Fault::Unproved { approval }));
            }
        }
    }
}

fn approval(row: &AnyRow, story: &Story) -> Result<(), VerifyError> {
    let id: String = text(row, "id")?;
    let row_differs = || differs(None, format!("approval {id}"));
    let Some(told) = story.questions.get(&id) else { return Err(row_differs()) };
    let until: Option<i64> = row.try_get("until").map_err(StoreError::from)?;
    let reach =
        row.try_get::<Option<String>, _>("scope").map_err(StoreError::from)?.map(|scope| (scope, until));
    let has = |column: &str| -> Result<bool, StoreError> {
        Ok(row.try_get::<Option<String>, _>(column)?.is_some())
    };
    let expires_at: i64 = row.try_get("expires_at").map_err(StoreError::from)?;
    let same = told.call == json!(text(row, "call")?)
        && told.quorum == u64::from(number(row, "quorum")?)
        && told.expires_at == json!(expires_at)
        && told.reach == reach
        && (told.revoked, told.ended) == (has("revoked")?, has("ended")?)
        && is_bound(row, told.operands.as_ref())?;
    if !same {
        return Err(row_differs());
    }
    let given = ["approved", "running", "completed", "failed"].contains(&text(row, "state")?.as_str());
    if given && told.approvers() < told.quorum {
        return Err(VerifyError::broken(None, Fault::Unproved { approval: id }));
    }
    Ok(())
}

/// Whether what a seal holds is what was told.
fn is_bound(row: &AnyRow, told: Option<&Value>) -> Result<bool, StoreError> {
    let Some(told) = told else { return Ok(true) };
    let sealed: Option<Digest> = digest_if_any(row, "digest")?;
    let operands: Option<String> = row.try_get("operands")?;
    let operands = operands.map(|text| serde_json::from_str::<Operands>(&text).ok());
    let held = operands.map(|operands| operands.map(|operands| operands.digest()));
    Ok(*told == json!(sealed) && held.is_none_or(|held| held == sealed))
}

fn differs(seq: Option<i64>, what: String) -> VerifyError {
    VerifyError::broken(seq, Fault::Differs { what })
}

fn text(row: &AnyRow, column: &str) -> Result<String, StoreError> {
    Ok(row.try_get(column)?)
}
