//! Seals what calls of earlier versions have left in the clear, once, when a store is opened.
//!
//! What the ledger and the receipts say of those calls stays as it was signed: they are named by plain digests, for good.
//!
//! # Invariants
//! - A call is sealed and loses its plain text in one transaction; whoever is killed in between has sealed fewer calls.

use contract::{CallId, Digest};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::open::Store;
use crate::private::{Kind, keep, keep_asked};
use crate::read::{digest, parsed};
use crate::wrapping::Secrets;
use crate::write::Write;

/// How many calls are sealed in one transaction.
const AT_A_TIME: i64 = 200;

/// Calls that have not ended, and have no key.
macro_rules! open_calls {
    ($select:literal, $state:literal, $limit:literal) => {
        concat!(
            $select,
            " FROM calls c WHERE ",
            $state,
            " AND NOT EXISTS (SELECT 1 FROM call_keys k WHERE k.call = c.id) LIMIT ",
            $limit
        )
    };
}

const ANY: &str = "SELECT 1 FROM calls WHERE arguments_json <> '' OR result IS NOT NULL LIMIT 1";
// One for each state that has an index: what is not settled yet is little, and the rest may be millions.
const ANY_WAITING: &str = open_calls!("SELECT 1", "c.status = 'waiting'", "1");
const ANY_UNDER_WAY: &str = open_calls!("SELECT 1", "c.status IN ('planned', 'running')", "1");
const IN_THE_CLEAR: &str = "SELECT id, request, arguments, arguments_json, result FROM calls \
    WHERE arguments_json <> '' OR result IS NOT NULL LIMIT $1";
const WAITING: &str = open_calls!(
    "SELECT c.id, c.request, c.arguments, c.arguments_json, c.result",
    "c.status = 'waiting'",
    "$1"
);
const UNDER_WAY: &str = open_calls!(
    "SELECT c.id, c.request, c.arguments, c.arguments_json, c.result",
    "c.status IN ('planned', 'running')",
    "$1"
);
const CLAIMS: &str = "SELECT claim FROM claims WHERE call = $1";
const NAME_CLAIM: &str = "UPDATE claims SET claim = $2, request = $3 WHERE claim = $1";
const FOUND: &str = "SELECT result FROM reconciliations WHERE call = $1";
const CLEAR_FOUND: &str = "UPDATE reconciliations SET result = '' WHERE call = $1";
const LEFT: &str = "SELECT x.name, a.content FROM call_artifacts x JOIN artifacts a ON a.digest = x.digest \
    WHERE x.call = $1";
const CLEAR_LEFT: &str = "DELETE FROM call_artifacts WHERE call = $1";
const CLEAR_CONTENTS: &str = "DELETE FROM artifacts \
    WHERE NOT EXISTS (SELECT 1 FROM call_artifacts x WHERE x.digest = artifacts.digest)";
const CLEAR: &str = "UPDATE calls SET arguments_json = '', result = NULL WHERE id = $1";

/// Whether there are calls of earlier versions that are not sealed yet.
pub(crate) async fn has_plain_text(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    for sql in [ANY, ANY_WAITING, ANY_UNDER_WAY] {
        if sqlx::query(sql).fetch_optional(&mut *connection).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Store {
    /// Seals every call that is not, some at a time, so that others who wait for the store get their turn.
    pub(crate) async fn seal_plain_text(&self) -> Result<(), StoreError> {
        loop {
            let mut write = self.write().await?;
            let mut rows = Vec::new();
            for sql in [IN_THE_CLEAR, WAITING, UNDER_WAY] {
                if rows.is_empty() {
                    rows = sqlx::query(sql).bind(AT_A_TIME).fetch_all(write.connection().await?).await?;
                }
            }
            if rows.is_empty() {
                sqlx::query(CLEAR_CONTENTS).execute(write.connection().await?).await?;
                write.commit().await?;
                return self.scrub().await;
            }
            for row in &rows {
                self.seal_call(&mut write, row).await?;
            }
            write.commit().await?;
        }
    }

    async fn seal_call(&self, write: &mut Write<'_>, row: &AnyRow) -> Result<(), StoreError> {
        let id = parsed(row, "id", |text| CallId::parse(text).ok())?;
        let secrets = Secrets::new(digest(row, "request")?, digest(row, "arguments")?)?;
        let wrapping = self.keys().wrapping();
        // Before there is a key: from then on a claim is never changed.
        for claim in sqlx::query(CLAIMS).bind(id.as_str()).fetch_all(write.connection().await?).await? {
            let claim: String = claim.try_get("claim")?;
            let name = sqlx::query(NAME_CLAIM).bind(&claim).bind(wrapping.lookup("claim", claim.as_bytes()));
            let name = name.bind(wrapping.lookup("request", secrets.request.as_bytes()));
            name.execute(write.connection().await?).await?;
        }
        keep_asked(write, self.keys(), &id, &secrets, row.try_get("arguments_json")?)?;
        if let Some(result) = row.try_get::<Option<&str>, _>("result")? {
            keep(write, &id, &secrets.key, Kind::Result, "", result.as_bytes(), None)?;
        }
        let found = sqlx::query(FOUND).bind(id.as_str()).fetch_optional(write.connection().await?).await?;
        if let Some(found) = found {
            let result: &str = found.try_get("result")?;
            keep(write, &id, &secrets.key, Kind::Found, "", result.as_bytes(), None)?;
            sqlx::query(CLEAR_FOUND).bind(id.as_str()).execute(write.connection().await?).await?;
        }
        for left in sqlx::query(LEFT).bind(id.as_str()).fetch_all(write.connection().await?).await? {
            let content: Vec<u8> = left.try_get("content")?;
            let lookup = wrapping.lookup("artifact", Digest::of(&content).as_bytes());
            let name: &str = left.try_get("name")?;
            keep(write, &id, &secrets.key, Kind::Artifact, name, &content, Some(lookup))?;
        }
        for sql in [CLEAR_LEFT, CLEAR] {
            sqlx::query(sql).bind(id.as_str()).execute(write.connection().await?).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::keys::Keys;

    #[tokio::test]
    async fn an_opened_store_looks_at_calls_that_have_not_ended_and_not_at_all_that_were_made() {
        let home = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", home.path().join("store.db").display());
        let store = Store::open(&url, Keys::load_or_create(home.path()).unwrap()).await.unwrap();
        for (sql, index) in [
            (ANY, "calls_in_the_clear"),
            (ANY_WAITING, "calls_waiting"),
            (ANY_UNDER_WAY, "calls_under_way"),
            (IN_THE_CLEAR, "calls_in_the_clear"),
            (WAITING, "calls_waiting"),
            (UNDER_WAY, "calls_under_way"),
        ] {
            let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
            let explain = if sql.contains("$1") { explain.bind(1_i64) } else { explain };
            let steps = explain.fetch_all(&mut *store.read().await.unwrap()).await.unwrap();
            let steps: Vec<String> = steps.iter().map(|step| step.try_get("detail").unwrap()).collect();
            assert!(steps.iter().any(|step| step.contains(index)), "{sql}: {steps:#?}");
        }
    }
}
