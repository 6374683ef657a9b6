//! Columns back into the words of `contract`.

use contract::Digest;
use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::error::StoreError;

/// A text column, parsed; what does not parse was not written by this code.
pub(crate) fn parsed<T>(
    row: &SqliteRow,
    column: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, StoreError> {
    let text: &str = row.try_get(column)?;
    parse(text).ok_or(StoreError::Unreadable { what: column })
}

/// The same for one that may be empty.
pub(crate) fn parsed_if_any<T>(
    row: &SqliteRow,
    column: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| parse(text).ok_or(StoreError::Unreadable { what: column })).transpose()
}

pub(crate) fn digest(row: &SqliteRow, column: &'static str) -> Result<Digest, StoreError> {
    parsed(row, column, Digest::parse)
}

pub(crate) fn json(row: &SqliteRow, column: &'static str) -> Result<Value, StoreError> {
    parsed(row, column, |text| serde_json::from_str(text).ok())
}
