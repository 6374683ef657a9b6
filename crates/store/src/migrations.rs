//! The schema, step by step, for both databases.
//!
//! To add a step: write `migrations/{sqlite,postgres}/NNNN_name.sql` and `NNNN_name.down.sql`, and its name in [`STEPS`].
//! Rules that must never be broken belong there: `RAISE(ABORT, '…')` in SQLite, `refuse('…')` in PostgreSQL, with the
//! same message; functions of PostgreSQL say `SET search_path FROM CURRENT`, and each table that only grows refuses
//! `TRUNCATE` too.
//!
//! Queries are the same text for both: `$1`, no functions of one database, `BIGINT` (0 and 1 for yes and no), `TEXT` and
//! `BYTEA`/`BLOB` columns only. `sum()` is cast to `BIGINT`.
//!
//! # Invariants
//! - A step that was released is never changed.
//! - All steps that are missing are taken in one transaction, or none.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::place::Database;

/// One step of the schema, there and back.
struct Step {
    /// The number that its name begins with: the version that it leads to.
    number: i64,
    sqlite: Ways,
    postgres: Ways,
}

struct Ways {
    up: &'static str,
    down: &'static str,
}

macro_rules! step {
    ($name:literal) => {
        Step {
            number: number_of($name),
            sqlite: Ways {
                up: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
                down: include_str!(concat!("../migrations/sqlite/", $name, ".down.sql")),
            },
            postgres: Ways {
                up: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
                down: include_str!(concat!("../migrations/postgres/", $name, ".down.sql")),
            },
        }
    };
}

const STEPS: &[Step] = &[
    step!("0001_store"),
    step!("0002_owners"),
    step!("0003_approvals"),
    step!("0004_seals"),
    step!("0005_limits"),
    step!("0006_private"),
    step!("0007_endings"),
    step!("0008_floods"),
    step!("0009_money"),
    step!("0010_sources"),
    step!("0012_presence"),
    step!("0013_answers"),
    step!("0014_sign_ins"),
    step!("0015_versions"),
    step!("0016_pages"),
];

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)";
const TAKEN: &str = "SELECT version FROM schema_version ORDER BY version";
const SET_VERSION: &str = "INSERT INTO schema_version (version) VALUES ($1)";
const UNSET_VERSION: &str = "DELETE FROM schema_version WHERE version = $1";

/// Functions that a step makes keep this path: see `SET search_path FROM CURRENT` in the steps.
const PATH: &str = "SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)";

/// Of several that start at once one brings the schema up to date, and the others wait.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('toolgate ' || current_schema(), 0))";

const SQLITE_TABLES: &str = "SELECT count(*) AS tables, count(*) FILTER (WHERE name = 'schema_version') AS ours \
    FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
const POSTGRES_TABLES: &str = "SELECT count(*) AS tables, \
    count(*) FILTER (WHERE tablename = 'schema_version') AS ours \
    FROM pg_catalog.pg_tables WHERE schemaname = current_schema()";

/// The newest schema that this program knows.
pub(crate) fn newest() -> i64 {
    STEPS.iter().map(|step| step.number).max().unwrap_or_default()
}

/// The number that a step's name begins with.
const fn number_of(name: &str) -> i64 {
    match name.as_bytes() {
        [a, b, c, d, b'_', ..] => {
            (*a - b'0') as i64 * 1000
                + (*b - b'0') as i64 * 100
                + (*c - b'0') as i64 * 10
                + (*d - b'0') as i64
        }
        _ => 0,
    }
}

/// Why a schema is not brought up to date.
pub(crate) enum Stop {
    /// The tables are somebody else's.
    NotAStore,
    /// A newer program made it.
    Newer {
        found: i64,
    },
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Stop {
        Stop::Failed(error)
    }
}

/// The statement with which a transaction begins that writes.
pub(crate) fn begin(database: Database) -> &'static str {
    match database {
        // The lock is taken at once: what is read stays true.
        Database::Sqlite => "BEGIN IMMEDIATE",
        // Each statement sees what others have committed before it, so after the lock nothing is stale.
        Database::Postgres => "BEGIN ISOLATION LEVEL READ COMMITTED",
    }
}

/// Takes the steps that are missing, in their order. Only in a transaction that writes.
pub(crate) async fn up(connection: &mut AnyConnection, database: Database) -> Result<(), Stop> {
    let taken = taken(connection, database).await?;
    for step in STEPS.iter().filter(|step| !taken.contains(&step.number)) {
        run(connection, step.ways(database).up).await?;
        sqlx::query(SET_VERSION).bind(step.number).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Takes steps back, down to a version. Only in a transaction that writes.
pub(crate) async fn down(connection: &mut AnyConnection, database: Database, to: i64) -> Result<(), Stop> {
    let taken = taken(connection, database).await?;
    for step in STEPS.iter().rev().filter(|step| step.number > to && taken.contains(&step.number)) {
        run(connection, step.ways(database).down).await?;
        sqlx::query(UNSET_VERSION).bind(step.number).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The steps that were taken, by their numbers; none if the schema is empty.
async fn taken(connection: &mut AnyConnection, database: Database) -> Result<Vec<i64>, Stop> {
    let tables = match database {
        Database::Sqlite => SQLITE_TABLES,
        Database::Postgres => {
            sqlx::query(LOCK).execute(&mut *connection).await?;
            sqlx::query(PATH).execute(&mut *connection).await?;
            POSTGRES_TABLES
        }
    };
    let row = sqlx::query(tables).fetch_one(&mut *connection).await?;
    if row.try_get::<i64, _>("tables")? > 0 && row.try_get::<i64, _>("ours")? == 0 {
        return Err(Stop::NotAStore);
    }
    run(connection, VERSIONS).await?;
    let rows = sqlx::query(TAKEN).fetch_all(connection).await?;
    let taken = rows.iter().map(|row| row.try_get("version")).collect::<Result<Vec<i64>, _>>()?;
    match taken.iter().rev().find(|number| STEPS.iter().all(|step| step.number != **number)) {
        Some(found) => Err(Stop::Newer { found: *found }),
        None => Ok(taken),
    }
}

async fn run(connection: &mut AnyConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}

impl Step {
    fn ways(&self, database: Database) -> &Ways {
        match database {
            Database::Sqlite => &self.sqlite,
            Database::Postgres => &self.postgres,
        }
    }
}
