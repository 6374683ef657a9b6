//! Writes to a store past everything: for tests of what comes of it.

use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use crate::error::StoreError;
use crate::open::{OpenError, PATIENCE};
use crate::place::{Database, Place};
use crate::sqlite;

const SQLITE_RULES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'";
const POSTGRES_TABLES: &str =
    "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema()";

/// Runs statements as someone with a prompt of the database would, who takes its rules away first and puts them back.
pub async fn meddle(url: &str, statements: &[String]) -> Result<(), OpenError> {
    let place = Place::parse(url)?;
    let failed =
        |error: sqlx::Error| OpenError::Store { place: place.to_string(), source: StoreError::from(error) };
    sqlite::install();
    let mut connection =
        sqlx::AnyConnection::connect_with(&place.options(PATIENCE)?).await.map_err(failed)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    match place.database() {
        Database::Sqlite => {
            before.push("PRAGMA foreign_keys = OFF".to_owned());
            for row in connection.fetch_all(SQLITE_RULES).await.map_err(failed)? {
                let name: String = row.try_get("name").map_err(failed)?;
                before.push(format!("DROP TRIGGER {name}"));
                after.push(row.try_get("sql").map_err(failed)?);
            }
        }
        Database::Postgres => {
            for row in connection.fetch_all(POSTGRES_TABLES).await.map_err(failed)? {
                let table: String = row.try_get("name").map_err(failed)?;
                before.push(format!("ALTER TABLE {table} DISABLE TRIGGER ALL"));
                after.push(format!("ALTER TABLE {table} ENABLE TRIGGER ALL"));
            }
        }
    }
    for sql in before.iter().chain(statements).chain(&after) {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut connection).await.map_err(failed)?;
    }
    connection.close().await.map_err(failed)
}
