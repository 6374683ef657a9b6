//! Opens a store: finds the file, brings its schema up to date, and checks whose it is.
//!
//! # Invariants
//! - A store is opened whole or not at all; a schema that this program does not know is left alone.
//! - A store belongs to one signing key, from its first opening on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Row, Sqlite, SqliteConnection, SqlitePool, Transaction};
use thiserror::Error;

use crate::durable::Disk;
use crate::error::{StoreError, sqlite_code};
use crate::file::place;
use crate::keys::Keys;
use crate::ledger::Tail;

/// How long a statement waits for another process.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that only read. One more writes.
const READERS: u32 = 4;

/// The schema, step by step. A step that was released is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/sqlite/0001_store.sql")];

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)";
const VERSION: &str = "SELECT coalesce(max(version), 0) AS version FROM schema_version";
const SET_VERSION: &str = "INSERT INTO schema_version (version) VALUES ($1)";
const OTHER_TABLES: &str = "SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
const OUR_TABLES: &str =
    "SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'";
const KEY: &str = "SELECT public_key FROM gate";
const SET_KEY: &str = "INSERT INTO gate (one, public_key) VALUES (1, $1)";

/// A gate's memory. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Store {
    /// One connection: writers queue here in turn, instead of racing for the file's lock.
    pub(crate) writer: SqlitePool,
    readers: SqlitePool,
    keys: Keys,
    /// Where the ledger ended when this process last wrote.
    pub(crate) tail: Arc<Mutex<Option<Tail>>>,
    pub(crate) disk: Arc<Disk>,
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another kind of database.
    #[error("`{url}` is not a store: give `sqlite:PATH`")]
    UnsupportedUrl {
        /// What was given.
        url: String,
    },
    /// The file cannot be made there.
    #[error("cannot create `{}`: its folder is missing or cannot be written to", path.display())]
    Folder {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("cannot open `{}`", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nothing can be written to the file or beside it.
    #[error("`{}` or its folder is read-only, and a gate that cannot record cannot work", path.display())]
    ReadOnly {
        /// Which file.
        path: PathBuf,
    },
    /// Another process holds it.
    #[error("`{}` is locked by another process", path.display())]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// It is something else.
    #[error("`{}` is not a store of Toolgate", path.display())]
    NotAStore {
        /// Which file.
        path: PathBuf,
    },
    /// A newer program made it.
    #[error("`{}` has schema {found}, and this program knows {known}: use a newer one", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
    /// It was made with another key.
    #[error("`{}` belongs to the key `{expected}`, not `{found}`", path.display())]
    OtherKey {
        /// Which file.
        path: PathBuf,
        /// The key it was made with.
        expected: String,
        /// The key it was opened with.
        found: String,
    },
    /// Anything else that the database says.
    #[error("cannot open the store `{}`", path.display())]
    Store {
        /// Which file.
        path: PathBuf,
        /// What it says.
        source: StoreError,
    },
}

impl Store {
    /// Opens a store, and makes it if it is not there.
    pub async fn open(url: &str, keys: Keys) -> Result<Store, OpenError> {
        Store::open_within(url, keys, PATIENCE).await
    }

    /// Opens a store, and waits only so long for others who hold it.
    pub(crate) async fn open_within(url: &str, keys: Keys, patience: Duration) -> Result<Store, OpenError> {
        let path = path_of(url)?;
        touch(&path)?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .busy_timeout(patience)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What is committed survives a power cut: `Disk` sees to it, for many at once.
            .synchronous(SqliteSynchronous::Normal);
        let explain = |error: sqlx::Error| explain(&path, error);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(patience.saturating_mul(6))
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.clone())
            .await
            .map_err(explain)?;
        let mut connection = writer.acquire().await.map_err(explain)?;
        prepare(&mut connection, &path, &keys).await?;
        drop(connection);
        let disk = Arc::new(Disk::under(&path));
        disk.wait().await.map_err(|source| OpenError::Store { path: path.clone(), source })?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(patience.saturating_mul(6))
            .test_before_acquire(false)
            .connect_lazy_with(options.pragma("query_only", "ON"));
        Ok(Store { writer, readers, keys, tail: Arc::default(), disk })
    }

    /// The keys it signs with.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Closes it: what other clones still do fails from now on.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(crate) async fn read(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        Ok(self.readers.acquire().await?)
    }

    /// A view that stays the same, however much others write.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.readers.begin().await?)
    }
}

fn path_of(url: &str) -> Result<PathBuf, OpenError> {
    let unsupported = || OpenError::UnsupportedUrl { url: url.to_owned() };
    let path = url.strip_prefix("sqlite:").ok_or_else(unsupported)?;
    let path = path.strip_prefix("//").unwrap_or(path);
    // Memory is forgotten; the rest would be read as options by SQLite, not as a name.
    if path.is_empty() || path.starts_with(':') || path.starts_with("file:") || path.contains('\0') {
        return Err(unsupported());
    }
    Ok(PathBuf::from(path))
}

/// Makes the file, for its owner alone; SQLite gives the files beside it the same permissions.
///
/// One that is there is looked at, never opened: to close it would let go of every lock that SQLite holds on it for
/// another store of this process.
fn touch(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    match fs::metadata(path) {
        // Also for root, who could write it all the same: somebody has protected it.
        Ok(metadata) if metadata.is_file() && metadata.permissions().readonly() => {
            Err(OpenError::ReadOnly { path: path.to_owned() })
        }
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(OpenError::NotAStore { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => place(path, &[], 0o600)
            .map(drop)
            .map_err(|source| OpenError::Folder { path: path.to_owned(), source }),
        Err(error) => Err(failed(error)),
    }
}

/// Brings the schema up to date, and checks the key. One transaction: of several that start at once, one does it.
async fn prepare(connection: &mut SqliteConnection, path: &Path, keys: &Keys) -> Result<(), OpenError> {
    let explain = |error: sqlx::Error| explain(path, error);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(explain)?;
    let count = async |transaction: &mut SqliteConnection, sql| -> Result<i64, sqlx::Error> {
        sqlx::query(sql).fetch_one(transaction).await?.try_get("tables")
    };
    let others = count(&mut transaction, OTHER_TABLES).await.map_err(explain)?;
    let ours = count(&mut transaction, OUR_TABLES).await.map_err(explain)?;
    if others > 0 && ours == 0 {
        return Err(OpenError::NotAStore { path: path.to_owned() });
    }
    sqlx::query(VERSIONS).execute(&mut *transaction).await.map_err(explain)?;
    let row = sqlx::query(VERSION).fetch_one(&mut *transaction).await.map_err(explain)?;
    let found: i64 = row.try_get("version").map_err(explain)?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    for (version, migration) in (1..).zip(MIGRATIONS) {
        if version > found {
            sqlx::raw_sql(migration).execute(&mut *transaction).await.map_err(explain)?;
            sqlx::query(SET_VERSION).bind(version).execute(&mut *transaction).await.map_err(explain)?;
        }
    }
    let key = keys.public().to_string();
    match sqlx::query(KEY).fetch_optional(&mut *transaction).await.map_err(explain)? {
        None => {
            sqlx::query(SET_KEY).bind(key).execute(&mut *transaction).await.map_err(explain)?;
        }
        Some(row) => {
            let expected: String = row.try_get("public_key").map_err(explain)?;
            if expected != key {
                return Err(OpenError::OtherKey { path: path.to_owned(), expected, found: key });
            }
        }
    }
    transaction.commit().await.map_err(explain)
}

fn explain(path: &Path, error: sqlx::Error) -> OpenError {
    let path = path.to_owned();
    match sqlite_code(&error) {
        Some(5 | 6) => OpenError::Locked { path },
        // Cannot open: the file is there, so it is the ones beside it that cannot be made.
        Some(8 | 14) => OpenError::ReadOnly { path },
        Some(26) => OpenError::NotAStore { path },
        _ => OpenError::Store { path, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, CallId, Digest, ToolName};
    use serde_json::json;
    use sqlx::Executor;

    use super::*;
    use crate::calls::{Course, NewCall, RecordError};

    fn home() -> (tempfile::TempDir, Keys, String) {
        let home = tempfile::tempdir().unwrap();
        let keys = Keys::load_or_create(home.path()).unwrap();
        let url = format!("sqlite:{}", home.path().join("store.db").display());
        (home, keys, url)
    }

    fn call(number: u64) -> NewCall {
        NewCall {
            id: CallId::from_random(u128::from(number).to_be_bytes()),
            agent: AgentName::parse("a").unwrap(),
            task: None,
            tool: ToolName::parse("t").unwrap(),
            contract: Digest::of(b""),
            request: Digest::of(b""),
            arguments: Digest::of("x".repeat(1000).as_bytes()),
            arguments_json: "x".repeat(1000),
            policy: Digest::of(b""),
            purpose: None,
            trace: json!([]),
            asked_at: 1,
            claim: None,
            course: Course::Run { authority: json!({}) },
        }
    }

    #[tokio::test]
    async fn a_store_that_another_process_holds_is_locked() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys.clone()).await.unwrap();
        let mut holder = store.writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
        holder.execute("DELETE FROM claims").await.unwrap();
        let error = Store::open_within(&url, keys.clone(), Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(error, OpenError::Locked { .. }), "{error}");
        holder.rollback().await.unwrap();

        let other = Store::open_within(&url, keys, Duration::from_millis(20)).await.unwrap();
        let holder = store.writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let error = other.record_call(call(1)).await.unwrap_err();
        assert!(matches!(error, RecordError::Store(StoreError::Locked(_))), "{error}");
        assert_eq!(other.calls(9, None).await.unwrap(), [], "reading goes on");
        holder.rollback().await.unwrap();
        other.record_call(call(1)).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_counts_as_recorded_only_when_the_disk_has_it() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys).await.unwrap();
        let before = store.disk.tickets();
        store.record_call(call(0)).await.unwrap();
        assert_eq!(store.disk.tickets(), before + 1);
        store.disk.fail();
        let error = store.record_call(call(1)).await.unwrap_err();
        assert!(matches!(error, RecordError::Store(StoreError::NotDurable { .. })), "{error}");
        assert_eq!(store.calls(9, None).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_full_disk_stops_the_call_and_loses_nothing() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys).await.unwrap();
        store.record_call(call(0)).await.unwrap();
        // To SQLite a file that may not grow is a disk without room.
        store.writer.execute("PRAGMA max_page_count = 120").await.unwrap();
        let mut recorded = 1;
        let error = loop {
            match store.record_call(call(recorded)).await {
                Ok(_) => recorded += 1,
                Err(error) => break error,
            }
            assert!(recorded < 10_000, "it never fills");
        };
        assert!(matches!(error, RecordError::Store(StoreError::Full(_))), "{error}");
        assert_eq!(store.calls(100_000, None).await.unwrap().len() as u64, recorded);
        assert_eq!(store.verify(None).await.unwrap().entries, 1 + 2 * recorded);
        store.writer.execute("PRAGMA max_page_count = 100000").await.unwrap();
        store.record_call(call(recorded)).await.unwrap();
        assert_eq!(store.verify(None).await.unwrap().entries, 3 + 2 * recorded);
    }
}
