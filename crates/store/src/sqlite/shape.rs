//! What `sqlx::Any` wants to see of a driver before it takes it, although it then asks for everything in words of its own:
//! types that have no value, so that nothing of them can be used.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use log::LevelFilter;
use sqlx::any::AnyConnectOptions;
use sqlx::error::BoxDynError;
use sqlx::{
    Arguments, Column, ColumnIndex, ConnectOptions, Connection, Database, Either, Error, Row, SqlStr,
    Statement, Transaction, Type, TypeInfo, Value, ValueRef,
};
use sqlx_core::Url;
use sqlx_core::any::AnyConnectionBackend;
use sqlx_core::connection::LogSettings;
use sqlx_core::encode::Encode;
use sqlx_core::percent_encoding::percent_decode_str;
use sqlx_core::transaction::TransactionManager;

use super::connection::{FileConnection, FileOptions};

/// How long a connection waits for others, unless its URL says otherwise.
const USUAL_PATIENCE: Duration = Duration::from_secs(5);

/// SQLite, in the thread of whoever asks.
#[derive(Debug)]
pub(super) struct File;

impl Database for File {
    type Connection = FileConnection;
    type TransactionManager = Transactions;
    type Row = Never;
    type QueryResult = Nothing;
    type Column = Never;
    type TypeInfo = Never;
    type Value = Never;
    type ValueRef<'r> = Never;
    type Arguments = Nothing;
    type ArgumentBuffer = Nothing;
    type Statement = Never;

    const NAME: &'static str = "SQLite";
    const URL_SCHEMES: &'static [&'static str] = &["sqlite"];
}

impl<'a> TryFrom<&'a AnyConnectOptions> for FileOptions {
    type Error = Error;

    fn try_from(options: &'a AnyConnectOptions) -> Result<FileOptions, Error> {
        let mut of_url = FileOptions::from_url(&options.database_url)?;
        of_url.logged = options.log_settings.clone();
        Ok(of_url)
    }
}

impl FromStr for FileOptions {
    type Err = Error;

    fn from_str(url: &str) -> Result<FileOptions, Error> {
        FileOptions::from_url(&url.parse().map_err(|error| Error::Configuration(Box::new(error)))?)
    }
}

impl ConnectOptions for FileOptions {
    type Connection = FileConnection;

    /// `sqlite:PATH?patience=MILLISECONDS`, with what is special in the path escaped.
    fn from_url(url: &Url) -> Result<FileOptions, Error> {
        let path = percent_decode_str(url.path())
            .decode_utf8()
            .map_err(|error| Error::Configuration(error.into()))?;
        let patience =
            url.query_pairs().find(|(key, _)| key == "patience").and_then(|(_, wait)| wait.parse().ok());
        let patience = patience.map_or(USUAL_PATIENCE, Duration::from_millis);
        Ok(FileOptions { path: path.into_owned().into(), patience, logged: LogSettings::default() })
    }

    async fn connect(&self) -> Result<FileConnection, Error> {
        FileConnection::open(self)
    }

    fn log_statements(mut self, level: LevelFilter) -> FileOptions {
        self.logged.log_statements(level);
        self
    }

    fn log_slow_statements(mut self, level: LevelFilter, duration: Duration) -> FileOptions {
        self.logged.log_slow_statements(level, duration);
        self
    }
}

impl Connection for FileConnection {
    type Database = File;
    type Options = FileOptions;

    fn close(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        AnyConnectionBackend::close(Box::new(self))
    }

    fn close_hard(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        AnyConnectionBackend::close(Box::new(self))
    }

    async fn ping(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn begin(&mut self) -> impl Future<Output = Result<Transaction<'_, File>, Error>> + Send + '_ {
        Transaction::begin(self, None)
    }

    fn shrink_buffers(&mut self) {}

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn should_flush(&self) -> bool {
        false
    }
}

/// Begins and ends transactions.
pub(super) struct Transactions;

impl TransactionManager for Transactions {
    type Database = File;

    fn begin(
        connection: &mut FileConnection,
        statement: Option<SqlStr>,
    ) -> impl Future<Output = Result<(), Error>> + Send + '_ {
        AnyConnectionBackend::begin(connection, statement)
    }

    fn commit(connection: &mut FileConnection) -> impl Future<Output = Result<(), Error>> + Send + '_ {
        AnyConnectionBackend::commit(connection)
    }

    fn rollback(connection: &mut FileConnection) -> impl Future<Output = Result<(), Error>> + Send + '_ {
        AnyConnectionBackend::rollback(connection)
    }

    fn start_rollback(connection: &mut FileConnection) {
        connection.roll_back_now();
    }

    fn get_transaction_depth(connection: &FileConnection) -> usize {
        usize::from(connection.is_in_transaction())
    }
}

/// There is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Never {}

/// There is one, and it says nothing.
#[derive(Debug, Default)]
pub(super) struct Nothing;

impl Extend<Nothing> for Nothing {
    fn extend<T: IntoIterator<Item = Nothing>>(&mut self, _: T) {}
}

impl Arguments for Nothing {
    type Database = File;

    fn reserve(&mut self, _: usize, _: usize) {}

    fn add<'t, T>(&mut self, _: T) -> Result<(), BoxDynError>
    where
        T: Encode<'t, File> + Type<File>,
    {
        Err("arguments are those of `Any`".into())
    }

    fn len(&self) -> usize {
        0
    }
}

sqlx_core::impl_into_arguments_for_arguments!(Nothing);

impl Row for Never {
    type Database = File;

    fn columns(&self) -> &[Never] {
        match *self {}
    }

    fn try_get_raw<I: ColumnIndex<Never>>(&self, _: I) -> Result<Never, Error> {
        match *self {}
    }
}

impl Column for Never {
    type Database = File;

    fn ordinal(&self) -> usize {
        match *self {}
    }

    fn name(&self) -> &str {
        match *self {}
    }

    fn type_info(&self) -> &Never {
        match *self {}
    }
}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl TypeInfo for Never {
    fn is_null(&self) -> bool {
        match *self {}
    }

    fn name(&self) -> &str {
        match *self {}
    }
}

impl Value for Never {
    type Database = File;

    fn as_ref(&self) -> Never {
        match *self {}
    }

    fn type_info(&self) -> Cow<'_, Never> {
        match *self {}
    }

    fn is_null(&self) -> bool {
        match *self {}
    }
}

impl ValueRef<'_> for Never {
    type Database = File;

    fn to_owned(&self) -> Never {
        match *self {}
    }

    fn type_info(&self) -> Cow<'_, Never> {
        match *self {}
    }

    fn is_null(&self) -> bool {
        match *self {}
    }
}

impl Statement for Never {
    type Database = File;

    fn into_sql(self) -> SqlStr {
        match self {}
    }

    fn sql(&self) -> &SqlStr {
        match *self {}
    }

    fn parameters(&self) -> Option<Either<&[Never], usize>> {
        match *self {}
    }

    fn columns(&self) -> &[Never] {
        match *self {}
    }

    sqlx_core::impl_statement_query!(Nothing);
}
