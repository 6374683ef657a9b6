//! Carries operators over from a ledger of an earlier version, once, when a store is opened.
//!
//! Earlier versions told who was added and removed, not by which credential. Of those who the signed ledger tells are
//! operators, the credential that the table has at that moment is believed, once, and told from then on.

use std::collections::HashMap;

use contract::{Digest, OperatorName};
use serde_json::json;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::ledger::has_lists;
use crate::open::Store;
use crate::operators::Role;
use crate::read::{digest, parsed};
use crate::write::Write;

const HEAD: &str = "SELECT note FROM head";
const ABOUT_PEOPLE: &str = "SELECT seq FROM ledger WHERE kind LIKE 'operator.%' ORDER BY seq";
const ROWS: &str =
    "SELECT name, role, credential, added_at, revoked_at FROM operators ORDER BY added_at, name";
const LATEST: &str = "SELECT time FROM ledger ORDER BY seq DESC LIMIT 1";

/// Whether the ledger was last written by a version that told less of operators.
pub(crate) async fn is_of_earlier_version(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let head = sqlx::query(HEAD).fetch_optional(connection).await?;
    Ok(head.map(|row| row.try_get::<String, _>("note")).transpose()?.is_some_and(|note| !has_lists(&note)))
}

impl Store {
    /// Tells of every operator anew.
    pub(crate) async fn carry_operators(&self) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        // Another process may have been faster; and only what is signed says so.
        if !write.records().await?.tail.is_earlier() {
            return Ok(());
        }
        let told = told_people(&mut write).await?;
        let now = sqlx::query(LATEST).fetch_one(write.connection().await?).await?.try_get("time")?;
        for row in sqlx::query(ROWS).fetch_all(write.connection().await?).await? {
            let name: OperatorName = parsed(&row, "name", |text| OperatorName::parse(text).ok())?;
            let role: Role = parsed(&row, "role", Role::parse)?;
            let credential: Digest = digest(&row, "credential")?;
            let added_at: i64 = row.try_get("added_at")?;
            let removed_at: Option<i64> = row.try_get("revoked_at")?;
            if told.get(&name) != Some(&(role, removed_at.is_some())) {
                continue;
            }
            let body = json!({ "operator": name, "role": role, "credential": credential, "added_at": added_at,
                "removed_at": removed_at });
            write.append(now, "operator.carried", body).await?;
        }
        write.commit().await
    }
}

/// Who is an operator by what earlier entries tell: in which role, and whether not any more.
async fn told_people(write: &mut Write<'_>) -> Result<HashMap<OperatorName, (Role, bool)>, StoreError> {
    let mut people = HashMap::new();
    for row in sqlx::query(ABOUT_PEOPLE).fetch_all(write.connection().await?).await? {
        let entry = write.records().await?.entry(row.try_get("seq")?).await?.ok_or(StoreError::Unsigned)?;
        let name = entry.text("operator").and_then(|name| OperatorName::parse(name).ok());
        let name = name.ok_or(StoreError::Unreadable { what: "entry about an operator" })?;
        match (entry.kind.as_str(), entry.text("role").and_then(Role::parse)) {
            ("operator.added", Some(role)) => {
                people.insert(name, (role, false));
            }
            ("operator.removed", _) => {
                if let Some((_, removed)) = people.get_mut(&name) {
                    *removed = true;
                }
            }
            _ => {}
        }
    }
    Ok(people)
}
