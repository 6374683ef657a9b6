//! Opens a store: finds it, brings its schema up to date, and checks whose it is.
//!
//! # Invariants
//! - A store is opened whole or not at all; a schema that this program does not know is left alone.
//! - A store belongs to one signing key, from its first opening on.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};
use thiserror::Error;
use tokio::time::sleep;

use crate::carrying::is_of_earlier_version;
use crate::durable::Disk;
use crate::error::{Says, StoreError};
use crate::faults::Faults;
use crate::keys::{Keys, KeysError};
use crate::later::{Answers, Later};
use crate::ledger::Tail;
use crate::life::Life;
use crate::migrations::{self, Stop};
use crate::place::{Database, Place, Purpose};
use crate::pool::{Lent, Pool, View};
use crate::records::Proved;
use crate::sealing::has_plain_text;
use crate::sqlite;
use crate::unended::RememberedCalls;

/// How long a statement waits for another process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long one who found a new store locked leaves it to the other.
pub(crate) const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Connections that only read. One more writes.
const READERS: u32 = 4;

/// Begins a view of a file.
const VIEW: &str = "BEGIN";

const KEY: &str = "SELECT public_key FROM gate";
const WRAPPING: &str = "SELECT id FROM wrapping";
const SET_WRAPPING: &str = "INSERT INTO wrapping (one, id) VALUES (1, $1)";
const SET_KEY: &str = "INSERT INTO gate (one, public_key) VALUES (1, $1)";

/// A gate's memory. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Database,
    /// One connection: writers queue here in turn, instead of racing for the database's lock.
    pub(crate) writer: Pool,
    /// Whose turn it is to write. Apart from the pool, so that to wait for others is not to wait for a server.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    pub(crate) patience: Duration,
    readers: Pool,
    keys: Keys,
    /// Where the ledger ended when this process last wrote.
    pub(crate) tail: Arc<Mutex<Option<Tail>>>,
    /// What it has proved of the ledger.
    pub(crate) proved: Arc<Proved>,
    pub(crate) remembered_calls: Arc<RememberedCalls>,
    /// The disk under a file; a server sees to its own.
    pub(crate) disk: Option<Arc<Disk>>,
    life: Arc<Life>,
    pub(crate) faults: Arc<Faults>,
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another kind of database.
    #[error("`{url}` is not a store: give `sqlite:PATH` or `postgres://USER@HOST/DATABASE`")]
    UnsupportedUrl {
        /// What was given, without a password.
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
    /// The server does not answer.
    #[error("cannot reach the database server of `{place}`")]
    Unreachable {
        /// Which server and database.
        place: String,
        /// What was found instead.
        source: StoreError,
    },
    /// The server lets nobody in by that name.
    #[error("the database server refuses the user or the password for `{place}`")]
    SignIn {
        /// Which server and database.
        place: String,
    },
    /// The server has no such database.
    #[error("the database server has no database for `{place}`: make one")]
    NoDatabase {
        /// Which server and database.
        place: String,
    },
    /// Nothing can be written to the file or beside it.
    #[error("`{place}` or its folder is read-only, and a gate that cannot record cannot work")]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// The role has too few rights.
    #[error(
        "the role may not write in `{place}`, and a gate that cannot record cannot work: it has to own the database"
    )]
    NoRights {
        /// Which server and database.
        place: String,
    },
    /// Another process holds it.
    #[error("`{place}` is locked by another process")]
    Locked {
        /// Where.
        place: String,
    },
    /// It is something else.
    #[error("`{place}` is not a store of Toolgate")]
    NotAStore {
        /// Where.
        place: String,
    },
    /// A newer program made it.
    #[error("`{place}` has schema {found}, and this program knows {known}: use a newer one")]
    Newer {
        /// Where.
        place: String,
        /// Its schema.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
    /// It was made with another key.
    #[error("`{place}` belongs to the key `{expected}`, not `{found}`")]
    OtherKey {
        /// Where.
        place: String,
        /// The key it was made with.
        expected: String,
        /// The key it was opened with.
        found: String,
    },
    /// What it keeps private was sealed with another key.
    #[error(
        "what `{place}` keeps private was sealed with another wrapping key than this one: put the old `wrapping.key` back"
    )]
    OtherWrappingKey {
        /// Where.
        place: String,
    },
    /// The key that seals what it keeps private cannot be used.
    #[error("cannot use the wrapping key")]
    Wrapping(#[from] KeysError),
    /// Anything else that the database says.
    #[error("cannot open the store `{place}`")]
    Store {
        /// Where.
        place: String,
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
        let place = Place::parse(url)?.made()?;
        let options = place.options(patience)?;
        let (keys, Earlier { plain_text, people }) = prepared(&place, &options, keys, patience).await?;
        let disk = match &place {
            Place::File(path) => {
                let disk = Arc::new(Disk::under(path));
                disk.wait().await.map_err(|source| OpenError::Store { place: place.to_string(), source })?;
                Some(disk)
            }
            Place::Server { .. } => None,
        };
        let pool = |purpose, connections| Pool::of(&place, &options, purpose, connections, patience);
        let store = Store {
            database: place.database(),
            writer: pool(Purpose::Write, 1),
            turn: Arc::default(),
            patience,
            readers: pool(Purpose::Read, READERS),
            keys,
            tail: Arc::default(),
            proved: Arc::default(),
            remembered_calls: Arc::default(),
            disk,
            life: Arc::new(Life::of(&place, options, patience)),
            faults: Arc::default(),
        };
        let failed = |source| OpenError::Store { place: place.to_string(), source };
        if people {
            store.carry_operators().await.map_err(failed)?;
        }
        if plain_text {
            store.seal_plain_text().await.map_err(failed)?;
        }
        Ok(store)
    }

    /// The keys it signs with.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Closes it: what other clones still do fails from now on.
    pub async fn close(&self) {
        if let Some(disk) = &self.disk {
            disk.close().await;
        }
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    pub(crate) async fn read(&self) -> Result<Lent, StoreError> {
        self.faults.check()?;
        self.readers.acquire().await.map_err(|error| self.not_reached(error))
    }

    /// Asks several things, in a file at one moment and with one lock.
    ///
    /// The connection that writes is asked if it is free: what this gate has written last is asked for most, and every
    /// other connection would have to read it from the file again.
    pub(crate) async fn look(&self, questions: Later) -> Result<Answers, StoreError> {
        let mut lent = match self.writer.acquire_free().await.map_err(|error| self.not_reached(error))? {
            Some(writer) => {
                self.faults.check()?;
                writer
            }
            None => self.read().await?,
        };
        match self.database {
            Database::Sqlite if !questions.is_one() => {
                questions.ask(&mut *View::begin(lent, VIEW).await?).await
            }
            Database::Sqlite | Database::Postgres => questions.ask(&mut lent).await,
        }
    }

    /// No connection in time: others hold the file, or the server is not there.
    pub(crate) fn not_reached(&self, error: sqlx::Error) -> StoreError {
        match (self.database, error) {
            (Database::Postgres, error @ sqlx::Error::PoolTimedOut) => StoreError::Unreachable(error),
            (_, error) => error.into(),
        }
    }

    /// A view that stays the same, however much others write.
    pub(crate) async fn snapshot(&self) -> Result<View, StoreError> {
        self.faults.check()?;
        let begin = match self.database {
            Database::Sqlite => VIEW,
            Database::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        self.readers.view(begin).await.map_err(|error| self.not_reached(error))
    }
}

/// What takes away what it should keep, for those who return to an older program, and for tests.
pub mod danger {
    use super::*;
    use crate::calls::{NewCall, plan};
    pub use crate::ledger::{Retold, retold};
    pub use crate::meddle::meddle;
    use crate::settle::{SettleError, Settlement, end};
    pub use crate::sqlite::install as install_drivers;

    /// Makes one operation of a store fail: the one that has `after` others before it from now on.
    pub fn fail_at(store: &Store, after: u32) {
        store.faults.set(i64::from(after));
    }

    /// Whether that failure is still to come. It is taken back.
    pub fn spare(store: &Store) -> bool {
        let spared = store.faults.is_due();
        store.faults.set(-1);
        spared
    }

    /// Takes the schema of a store back to a version; what only the newer one remembers is gone. 0 removes all.
    pub async fn revert(url: &str, version: i64) -> Result<(), OpenError> {
        let place = Place::parse(url)?.made()?;
        let mut connection = connect(&place, &place.options(PATIENCE)?, PATIENCE).await?;
        let explain = |error: sqlx::Error| explain(&place, error);
        let mut write = connection.begin_with(migrations::begin(place.database())).await.map_err(explain)?;
        migrations::down(&mut write, place.database(), version)
            .await
            .map_err(|stop| stopped(&place, stop))?;
        write.commit().await.map_err(explain)
    }

    /// Opens a store, and waits only so long for others who hold it, or for a server that says nothing.
    pub async fn open_impatiently(url: &str, keys: Keys, patience: Duration) -> Result<Store, OpenError> {
        Store::open_within(url, keys, patience).await
    }

    /// Records calls and their ends, all in one transaction, so that the disk is waited for once: for measuring what is done
    /// with many. Each is what `record_call` and `settle` would have written; claims, allowances and approvals are not.
    pub async fn record_many(store: &Store, calls: Vec<(NewCall, Settlement)>) -> Result<(), SettleError> {
        let mut write = store.write().await?;
        for (call, settlement) in calls {
            let unended = plan(&mut write, store.keys(), call, None).await?;
            end(&mut write, unended, &settlement).await?;
        }
        Ok(write.commit().await?)
    }

    /// Appends so many events that tell of nothing, a thousand in one transaction: for measuring how a ledger grows.
    pub async fn append_many(store: &Store, count: u64, now: i64) -> Result<(), StoreError> {
        let mut left = count;
        while left > 0 {
            let mut write = store.write().await?;
            for _ in 0..left.min(1000) {
                let body =
                    serde_json::json!({ "left": left, "what": "an event of a common length, about so" });
                write.append(now, "bench.event", body).await?;
            }
            write.commit().await?;
            left -= left.min(1000);
        }
        Ok(())
    }
}

/// One connection outside of any pool: what is wrong with it is told at once.
async fn connect(
    place: &Place,
    options: &AnyConnectOptions,
    patience: Duration,
) -> Result<AnyConnection, OpenError> {
    sqlite::install();
    let settings = place.settings(Purpose::Write, patience);
    let connected = tokio::time::timeout(patience.saturating_mul(6), async {
        let mut connection = AnyConnection::connect_with(options).await?;
        sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut connection).await?;
        Ok(connection)
    });
    connected.await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(|error| explain(place, error))
}

/// Connects and brings the schema up to date.
///
/// SQLite does not wait for others, whatever it is told, while one of several who open a new file at once makes it
/// one that many can use: then it is tried again.
async fn prepared(
    place: &Place,
    options: &AnyConnectOptions,
    keys: Keys,
    patience: Duration,
) -> Result<(Keys, Earlier), OpenError> {
    let begun = Instant::now();
    loop {
        let tried = async {
            let mut connection = connect(place, options, patience).await?;
            let prepared = prepare(&mut connection, place, keys.clone()).await;
            // It has done its work; the pools make their own.
            let _ = connection.close().await;
            prepared
        };
        match tried.await {
            Err(OpenError::Locked { .. }) if begun.elapsed() < patience => sleep(BETWEEN_TRIES).await,
            ended => return ended,
        }
    }
}

/// What earlier versions have left to be done.
struct Earlier {
    /// Calls are to be sealed.
    plain_text: bool,
    /// The ledger is to tell of the operators anew.
    people: bool,
}

/// Brings the schema up to date, and checks the keys. One transaction: of several that start at once, one does it.
///
/// Returns the keys as they are kept, and what earlier versions have left to be done.
async fn prepare(
    connection: &mut AnyConnection,
    place: &Place,
    keys: Keys,
) -> Result<(Keys, Earlier), OpenError> {
    let explain = |error: sqlx::Error| explain(place, error);
    let mut transaction =
        connection.begin_with(migrations::begin(place.database())).await.map_err(explain)?;
    migrations::up(&mut transaction, place.database()).await.map_err(|stop| stopped(place, stop))?;
    let key = keys.public().to_string();
    match sqlx::query(KEY).fetch_optional(&mut *transaction).await.map_err(explain)? {
        None => {
            sqlx::query(SET_KEY).bind(key).execute(&mut *transaction).await.map_err(explain)?;
        }
        Some(row) => {
            let expected: String = row.try_get("public_key").map_err(explain)?;
            if expected != key {
                return Err(OpenError::OtherKey { place: place.to_string(), expected, found: key });
            }
        }
    }
    let known = sqlx::query(WRAPPING).fetch_optional(&mut *transaction).await.map_err(explain)?;
    let keys = match known {
        None => {
            // On disk first: a store whose key is nowhere would be lost.
            let keys = keys.for_a_new_store()?;
            let id = keys.wrapping().id();
            sqlx::query(SET_WRAPPING).bind(id).execute(&mut *transaction).await.map_err(explain)?;
            keys
        }
        Some(row) => {
            let keys = keys.for_a_store()?;
            if row.try_get::<String, _>("id").map_err(explain)? != keys.wrapping().id() {
                return Err(OpenError::OtherWrappingKey { place: place.to_string() });
            }
            keys
        }
    };
    let plain_text = has_plain_text(&mut transaction).await.map_err(explain)?;
    let people = is_of_earlier_version(&mut transaction).await.map_err(explain)?;
    transaction.commit().await.map_err(explain)?;
    Ok((keys, Earlier { plain_text, people }))
}

fn stopped(place: &Place, stop: Stop) -> OpenError {
    match stop {
        Stop::NotAStore => OpenError::NotAStore { place: place.to_string() },
        Stop::Newer { found } => {
            OpenError::Newer { place: place.to_string(), found, known: migrations::newest() }
        }
        Stop::Failed(error) => explain(place, error),
    }
}

fn explain(place: &Place, error: sqlx::Error) -> OpenError {
    let says = Says::of(&error);
    let place = place.to_string();
    match says {
        Says::Locked => OpenError::Locked { place },
        // Cannot open: the file is there, so it is the ones beside it that cannot be made.
        Says::ReadOnly | Says::CannotOpen => OpenError::ReadOnly { place },
        Says::NoRights => OpenError::NoRights { place },
        Says::NotADatabase => OpenError::NotAStore { place },
        Says::SignIn => OpenError::SignIn { place },
        Says::NoDatabase => OpenError::NoDatabase { place },
        Says::Unreachable => OpenError::Unreachable { place, source: error.into() },
        _ => OpenError::Store { place, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, CallId, Digest, SafetyClass, ToolName};
    use serde_json::json;
    use sqlx::Executor;

    use super::*;
    use crate::calls::{Course, NewCall, RecordError};
    use crate::write::Durable;

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
            safety: SafetyClass::Read,
            asked_at: 1,
            claim: None,
            course: Course::Run { authority: json!({}) },
        }
    }

    #[tokio::test]
    async fn a_store_that_another_process_holds_is_locked() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys.clone()).await.unwrap();
        let mut holder = store.writer.view("BEGIN IMMEDIATE").await.unwrap();
        holder.execute("DELETE FROM claims").await.unwrap();
        let error = Store::open_within(&url, keys.clone(), Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(error, OpenError::Locked { .. }), "{error}");
        drop(holder);

        let other = Store::open_within(&url, keys, Duration::from_millis(20)).await.unwrap();
        let holder = store.writer.view("BEGIN IMMEDIATE").await.unwrap();
        let error = other.record_call(call(1)).await.unwrap_err();
        assert!(matches!(error, RecordError::Store(StoreError::Locked(_))), "{error}");
        assert_eq!(other.calls(9, None).await.unwrap(), [], "reading goes on");
        drop(holder);
        other.record_call(call(1)).await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_is_opened_through_a_link_is_the_same_store() {
        let (home, keys, url) = home();
        let store = Store::open(&url, keys.clone()).await.unwrap();
        let folder = home.path().join("elsewhere");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(home.path().join("store.db"), folder.join("link.db")).unwrap();
        let linked = format!("sqlite:{}", folder.join("link.db").display());
        let other = Store::open(&linked, keys).await.unwrap();
        let own = other.life().own().await.unwrap();
        // Beside the file itself, where the first one looks for those who live, and where the log is synced.
        assert!(store.is_alive(&own).await.unwrap());
        let names = std::fs::read_dir(&folder).unwrap().collect::<Vec<_>>();
        assert_eq!(names.len(), 1, "nothing lies beside the link");
    }

    #[tokio::test]
    async fn a_record_that_may_wait_is_waited_for_with_the_next_one() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys).await.unwrap();
        let disk = store.disk.clone().unwrap();
        let before = disk.tickets();
        store.record_charged(call(0), &[], None, Durable::WithNext).await.unwrap();
        assert_eq!(disk.tickets(), before);
        // It is recorded all the same, for every process.
        assert_eq!(store.calls(9, None).await.unwrap().len(), 1);
        // Its ticket is drawn after both commits, so that a sync covers both.
        store.record_charged(call(1), &[], None, Durable::Now).await.unwrap();
        assert_eq!(disk.tickets(), before + 1);
    }

    #[tokio::test]
    async fn a_call_counts_as_recorded_only_when_the_disk_has_it() {
        let (_home, keys, url) = home();
        let store = Store::open(&url, keys).await.unwrap();
        let disk = store.disk.clone().unwrap();
        let before = disk.tickets();
        store.record_call(call(0)).await.unwrap();
        assert_eq!(disk.tickets(), before + 1);
        disk.fail();
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
        let limit = |pages: u32| sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA max_page_count = {pages}")));
        limit(120).execute(&mut *store.writer.acquire().await.unwrap()).await.unwrap();
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
        limit(100_000).execute(&mut *store.writer.acquire().await.unwrap()).await.unwrap();
        store.record_call(call(recorded)).await.unwrap();
        assert_eq!(store.verify(None).await.unwrap().entries, 3 + 2 * recorded);
    }
}
