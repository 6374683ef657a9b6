//! One connection: what it is asked is answered before the question returns.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, OpenFlags, Statement};
use sqlx::any::{AnyArguments, AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::{Either, Error, SqlStr};
use sqlx_core::any::AnyConnectionBackend;
use sqlx_core::connection::LogSettings;
use sqlx_core::logger::QueryLogger;
use tokio::time::sleep;

use super::values::{Columns, bind, columns_of, is_locked, read, told};

/// As many statements as all that a gate does often, and a few more.
const MOST_PREPARED: usize = 100;

/// How long whoever finds the file locked waits before the next try: at first, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a statement is answered: its rows, then how many it has changed.
type Answer = Vec<Either<AnyQueryResult, AnyRow>>;

/// One connection to a file.
#[derive(Debug)]
pub(super) struct FileConnection {
    connection: Connection,
    /// How long it waits for others who hold the file.
    patience: Duration,
    logged: LogSettings,
    /// What the rows of statements are made of.
    columns: HashMap<SqlStr, Columns>,
}

/// How a connection to a file is made.
#[derive(Clone, Debug)]
pub(super) struct FileOptions {
    pub(super) path: PathBuf,
    pub(super) patience: Duration,
    pub(super) logged: LogSettings,
}

impl FileConnection {
    /// Opens a file that is there.
    pub(super) fn open(options: &FileOptions) -> Result<FileConnection, Error> {
        let FileOptions { path, patience, logged } = options.clone();
        let connection = connect(&path).map_err(told)?;
        Ok(FileConnection { connection, patience, logged, columns: HashMap::new() })
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Ends a transaction that nobody has committed.
    pub(super) fn roll_back_now(&mut self) {
        if self.is_in_transaction() {
            // Whatever is wrong with it is found by whoever begins the next one.
            let _ =
                self.connection.prepare_cached("ROLLBACK").and_then(|mut statement| statement.execute([]));
        }
    }

    /// Runs one statement with arguments, or a text of many without; waits as long as others hold the file.
    pub(super) async fn run(
        &mut self,
        sql: SqlStr,
        arguments: Option<AnyArguments>,
        most_rows: usize,
    ) -> Result<Answer, Error> {
        let mut logger = QueryLogger::new(sql, self.logged.clone());
        let (begun, mut pause) = (Instant::now(), SHORTEST_PAUSE);
        let mut answer = Answer::new();
        loop {
            let sql = logger.sql();
            let done = match &arguments {
                Some(arguments) => self.run_one(sql, arguments, most_rows, &mut answer),
                None => self.run_all(sql.as_str(), &mut answer),
            };
            match done {
                // It has read nothing yet, or nothing of it is kept: what has not ended can be done anew.
                Err(error) if is_locked(&error) && begun.elapsed() < self.patience => {
                    sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    log(&mut logger, &answer);
                    return Ok(answer);
                }
            }
        }
    }

    /// One statement, which stays prepared.
    fn run_one(
        &mut self,
        sql: &SqlStr,
        arguments: &AnyArguments,
        most_rows: usize,
        answer: &mut Answer,
    ) -> Result<(), Error> {
        let mut statement = self.connection.prepare_cached(sql.as_str()).map_err(told)?;
        bind(&mut statement, arguments)?;
        let changes = !statement.readonly();
        let columns = |statement: &Statement<'_>| known(&mut self.columns, sql, statement);
        let ended = read(statement.raw_query(), most_rows, columns, answer)?;
        if ended {
            answer.push(Either::Left(changed(&self.connection, changes)));
        }
        Ok(())
    }

    /// Goes on after the statements that have ended, of which the answer tells. They are prepared once more to be skipped; a
    /// text with one that cannot be (`CREATE TABLE`) holds the file from its beginning, and never waits in the middle.
    fn run_all(&self, sql: &str, answer: &mut Answer) -> Result<(), Error> {
        let ended = answer.iter().filter(|part| part.is_left()).count();
        let mut statements = Batch::new(&self.connection, sql).skip(ended);
        while let Some(mut statement) = statements.next().map_err(told)? {
            let changes = !statement.readonly();
            read(statement.raw_query(), usize::MAX, columns_of, answer)?;
            answer.push(Either::Left(changed(&self.connection, changes)));
        }
        Ok(())
    }

    async fn run_for_nothing(&mut self, sql: SqlStr) -> Result<(), Error> {
        self.run(sql, Some(AnyArguments::default()), usize::MAX).await.map(drop)
    }
}

fn changed(connection: &Connection, is_change: bool) -> AnyQueryResult {
    let rows_affected = if is_change { connection.changes() } else { 0 };
    AnyQueryResult { rows_affected, last_insert_id: None }
}

/// The columns of a statement, remembered by its text where that names them.
fn known(columns: &mut HashMap<SqlStr, Columns>, sql: &SqlStr, statement: &Statement<'_>) -> Columns {
    if let Some(known) = columns.get(sql) {
        return Arc::clone(known);
    }
    let new = columns_of(statement);
    if !sql.as_str().contains('*') {
        // Some texts are made for one question; those that are asked often are soon known again.
        if columns.len() >= MOST_PREPARED {
            columns.clear();
        }
        columns.insert(sql.clone(), Arc::clone(&new));
    }
    new
}

/// Opens a file that is there.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Whoever has it in hand is the only one: no lock within the process is needed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(MOST_PREPARED);
    Ok(connection)
}

/// Says in the log what was asked, as the drivers of sqlx do.
fn log(logger: &mut QueryLogger, answer: &Answer) {
    for part in answer {
        match part {
            Either::Left(result) => logger.increase_rows_affected(result.rows_affected()),
            Either::Right(_) => logger.increment_rows_returned(),
        }
    }
}

impl AnyConnectionBackend for FileConnection {
    fn name(&self) -> &str {
        "SQLite"
    }

    /// The last one to close writes everything into the file itself, which takes a while.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        async move {
            let close = move || self.connection.close().map_err(|(_, error)| told(error));
            tokio::task::spawn_blocking(close).await.map_err(|_| Error::WorkerCrashed)?
        }
        .boxed()
    }

    fn close_hard(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        self.close()
    }

    fn ping(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        ready(Ok(())).boxed()
    }

    fn begin(&mut self, statement: Option<SqlStr>) -> BoxFuture<'_, Result<(), Error>> {
        let statement = statement.unwrap_or(SqlStr::from_static("BEGIN"));
        match self.is_in_transaction() {
            // None here is made of others.
            true => ready(Err(Error::InvalidSavePointStatement)).boxed(),
            false => self.run_for_nothing(statement).boxed(),
        }
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        self.run_for_nothing(SqlStr::from_static("COMMIT")).boxed()
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        self.run_for_nothing(SqlStr::from_static("ROLLBACK")).boxed()
    }

    fn start_rollback(&mut self) {
        self.roll_back_now();
    }

    fn get_transaction_depth(&self) -> usize {
        usize::from(self.is_in_transaction())
    }

    fn shrink_buffers(&mut self) {}

    fn flush(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        ready(Ok(())).boxed()
    }

    fn should_flush(&self) -> bool {
        false
    }

    fn fetch_many(
        &mut self,
        query: SqlStr,
        _persistent: bool,
        arguments: Option<AnyArguments>,
    ) -> BoxStream<'_, Result<Either<AnyQueryResult, AnyRow>, Error>> {
        let answering = self.run(query, arguments, usize::MAX).map(|answered| match answered {
            Ok(answer) => stream::iter(answer).map(Ok).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        answering.flatten_stream().boxed()
    }

    fn fetch_optional(
        &mut self,
        query: SqlStr,
        _persistent: bool,
        arguments: Option<AnyArguments>,
    ) -> BoxFuture<'_, Result<Option<AnyRow>, Error>> {
        let answering =
            self.run(query, arguments, 1).map(|answered| Ok(answered?.into_iter().find_map(Either::right)));
        answering.boxed()
    }

    fn prepare_with<'c, 'q: 'c>(
        &'c mut self,
        _sql: SqlStr,
        _parameters: &[AnyTypeInfo],
    ) -> BoxFuture<'c, Result<AnyStatement, Error>> {
        // Each statement stays prepared by itself.
        ready(Err(Error::AnyDriverError("statements are not prepared by hand".into()))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AnyConnection, Connection as _};

    use super::*;
    use crate::sqlite::install;

    #[tokio::test]
    async fn whoever_finds_a_file_locked_waits_and_keeps_no_thread() {
        install();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.db");
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("CREATE TABLE a (b INTEGER); BEGIN IMMEDIATE").unwrap();
        let url = |patience: u32| format!("sqlite:{}?patience={patience}", path.display());
        let mut other = AnyConnection::connect(&url(20)).await.unwrap();
        let error = sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap_err();
        assert!(is_locked(&error), "{error}");

        let mut other = AnyConnection::connect(&url(60_000)).await.unwrap();
        let waiting = tokio::spawn(async move {
            let changed = sqlx::query("INSERT INTO a VALUES ($1)").bind(7_i64).execute(&mut other).await;
            changed.unwrap().rows_affected()
        });
        // There is one thread for both: if the other one slept in it, this would never come to an end.
        sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        holder.execute_batch("COMMIT").unwrap();
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_text_waits_where_it_finds_the_file_locked_and_does_nothing_twice() {
        install();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.db");
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("CREATE TABLE a (b INTEGER); BEGIN IMMEDIATE").unwrap();
        let url = format!("sqlite:{}?patience=60000", path.display());
        let mut other = AnyConnection::connect(&url).await.unwrap();
        let waiting = tokio::spawn(async move {
            sqlx::raw_sql("CREATE TEMP TABLE own (c INTEGER)").execute(&mut other).await.unwrap();
            let text =
                "INSERT INTO own VALUES (1); INSERT INTO a SELECT c FROM own; INSERT INTO a VALUES (2)";
            let changed = sqlx::raw_sql(text).execute(&mut other).await;
            changed.unwrap().rows_affected()
        });
        sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        holder.execute_batch("COMMIT").unwrap();
        assert_eq!(waiting.await.unwrap(), 3);
        let all = "SELECT group_concat(b) FROM a";
        let all: String = holder.query_row(all, [], |row| row.get(0)).unwrap();
        assert_eq!(all, "1,2");
    }

    #[tokio::test]
    async fn a_parameter_without_an_argument_is_refused() {
        install();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.db");
        Connection::open(&path).unwrap();
        let mut connection = AnyConnection::connect(&format!("sqlite:{}", path.display())).await.unwrap();
        let refused = sqlx::query("SELECT $1, $2").bind(1_i64).fetch_all(&mut connection).await;
        let error = refused.err().unwrap();
        assert!(matches!(error, Error::Encode(_)), "{error}");
        // By their numbers, in whatever order they stand.
        let row =
            sqlx::query("SELECT $2 AS b, $1 AS a").bind(1_i64).bind("x").fetch_one(&mut connection).await;
        let row = row.unwrap();
        assert_eq!((sqlx::Row::get::<i64, _>(&row, "a"), sqlx::Row::get::<&str, _>(&row, "b")), (1, "x"));
    }
}
