//! Arguments, rows and errors, from the words of rusqlite into those of `sqlx::Any` and back.

use std::borrow::Cow;
use std::error;
use std::fmt;
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Rows, Statement, ffi};
use sqlx::any::{AnyArguments, AnyQueryResult, AnyRow, AnyTypeInfo, AnyTypeInfoKind, AnyValue};
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::{Either, Error};
use sqlx_core::any::{AnyColumn, AnyValueKind};
use sqlx_core::ext::ustr::UStr;

/// Gives a statement its arguments. To SQLite `$1` is a name and no number.
pub(super) fn bind(statement: &mut Statement<'_>, arguments: &AnyArguments) -> Result<(), Error> {
    for index in 1..=statement.parameter_count() {
        let number =
            statement.parameter_name(index).and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let argument = number.and_then(|number| arguments.values.0.get(number.checked_sub(1)?));
        let argument = argument.ok_or_else(|| Error::Encode("a parameter has no argument".into()))?;
        statement.raw_bind_parameter(index, Argument(argument)).map_err(told)?;
    }
    Ok(())
}

struct Argument<'a>(&'a AnyValueKind);

impl ToSql for Argument<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            AnyValueKind::Null(_) => ValueRef::Null,
            AnyValueKind::Bool(yes) => ValueRef::Integer(i64::from(*yes)),
            AnyValueKind::SmallInt(number) => ValueRef::Integer(i64::from(*number)),
            AnyValueKind::Integer(number) => ValueRef::Integer(i64::from(*number)),
            AnyValueKind::BigInt(number) => ValueRef::Integer(*number),
            AnyValueKind::Real(number) => ValueRef::Real(f64::from(*number)),
            AnyValueKind::Double(number) => ValueRef::Real(*number),
            AnyValueKind::Text(text) => ValueRef::Text(text.as_bytes()),
            AnyValueKind::TextSlice(text) => ValueRef::Text(text.as_bytes()),
            AnyValueKind::Blob(bytes) => ValueRef::Blob(bytes),
            _ => return Err(rusqlite::Error::ToSqlConversionFailure("a value of another kind".into())),
        }))
    }
}

/// Runs a statement, and reads so many of its rows at most. Says whether there were no more. If it fails, none of them is kept.
pub(super) fn read(
    rows: Rows<'_>,
    most: usize,
    columns_of: impl FnMut(&Statement<'_>) -> Columns,
    answer: &mut Vec<Either<AnyQueryResult, AnyRow>>,
) -> Result<bool, Error> {
    let before = answer.len();
    read_rows(rows, most, columns_of, answer).inspect_err(|_| answer.truncate(before))
}

fn read_rows(
    mut rows: Rows<'_>,
    most: usize,
    mut columns_of: impl FnMut(&Statement<'_>) -> Columns,
    answer: &mut Vec<Either<AnyQueryResult, AnyRow>>,
) -> Result<bool, Error> {
    let mut columns = None;
    for _ in 0..most {
        let Some(row) = rows.next().map_err(told)? else { return Ok(true) };
        let known = columns.get_or_insert_with(|| columns_of(row.as_ref()));
        let (column_names, columns) = known.as_ref();
        let values = (0..columns.len()).map(|index| {
            let kind = kind_of(row.get_ref(index).map_err(told)?)
                .map_err(|source| Error::ColumnDecode { index: index.to_string(), source })?;
            Ok(AnyValue { kind })
        });
        let values = values.collect::<Result<Vec<AnyValue>, Error>>()?;
        let (column_names, columns) = (Arc::clone(column_names), columns.clone());
        answer.push(Either::Right(AnyRow { column_names, columns, values }));
    }
    Ok(false)
}

/// What a row is made of: where each name stands, and all of them in their order.
pub(super) type Columns = Arc<(Arc<sqlx_core::HashMap<UStr, usize>>, Vec<AnyColumn>)>;

pub(super) fn columns_of(statement: &Statement<'_>) -> Columns {
    // What kind of value it is, each value says of itself.
    let type_info = AnyTypeInfo { kind: AnyTypeInfoKind::Null };
    let column = |(ordinal, name)| AnyColumn { ordinal, name: UStr::new(name), type_info: type_info.clone() };
    let columns: Vec<AnyColumn> = statement.column_names().into_iter().enumerate().map(column).collect();
    let names = columns.iter().map(|column| (column.name.clone(), column.ordinal)).collect();
    Arc::new((Arc::new(names), columns))
}

fn kind_of(value: ValueRef<'_>) -> Result<AnyValueKind, Box<dyn error::Error + Send + Sync>> {
    Ok(match value {
        ValueRef::Null => AnyValueKind::Null(AnyTypeInfoKind::Null),
        ValueRef::Integer(number) => AnyValueKind::BigInt(number),
        ValueRef::Real(number) => AnyValueKind::Double(number),
        ValueRef::Text(text) => AnyValueKind::Text(Arc::new(str::from_utf8(text)?.to_owned())),
        ValueRef::Blob(bytes) => AnyValueKind::Blob(Arc::new(bytes.to_vec())),
    })
}

/// What SQLite says is wrong.
#[derive(Debug)]
struct FileError {
    /// Its extended result code.
    code: i32,
    message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "(code: {}) {}", self.code, self.message)
    }
}

impl error::Error for FileError {}

impl DatabaseError for FileError {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}

/// Whether others hold the file, so that it may go well the next time. A view of the past that can no longer be written to
/// stays so.
pub(super) fn is_locked(error: &Error) -> bool {
    let code =
        error.as_database_error().and_then(DatabaseError::code).and_then(|code| code.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == ffi::SQLITE_BUSY && code != ffi::SQLITE_BUSY_SNAPSHOT)
}

/// What went wrong, in the words of sqlx.
pub(super) fn told(error: rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            let message = message.unwrap_or_else(|| failure.to_string());
            Error::Database(Box::new(FileError { code: failure.extended_code, message }))
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            Error::Database(Box::new(FileError { code: error.extended_code, message: msg }))
        }
        other => Error::AnyDriverError(Box::new(other)),
    }
}
