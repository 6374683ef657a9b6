//! Columns back into the words of `contract`.

use contract::Digest;
use serde_json::Value;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;

/// A text column, parsed; what does not parse was not written by this code.
pub(crate) fn parsed<T>(
    row: &AnyRow,
    column: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, StoreError> {
    let text: &str = row.try_get(column)?;
    parse(text).ok_or(StoreError::Unreadable { what: column })
}

/// The same for one that may be empty.
pub(crate) fn parsed_if_any<T>(
    row: &AnyRow,
    column: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| parse(text).ok_or(StoreError::Unreadable { what: column })).transpose()
}

pub(crate) fn digest(row: &AnyRow, column: &'static str) -> Result<Digest, StoreError> {
    parsed(row, column, Digest::parse)
}

pub(crate) fn digest_if_any(row: &AnyRow, column: &'static str) -> Result<Option<Digest>, StoreError> {
    parsed_if_any(row, column, Digest::parse)
}

pub(crate) fn json(row: &AnyRow, column: &'static str) -> Result<Value, StoreError> {
    parsed(row, column, |text| serde_json::from_str(text).ok())
}

/// A count, which no negative number is.
pub(crate) fn number(row: &AnyRow, column: &'static str) -> Result<u32, StoreError> {
    let number: i64 = row.try_get(column)?;
    u32::try_from(number).map_err(|_| StoreError::Unreadable { what: column })
}

/// Yes or no, which both databases keep as 1 or 0.
pub(crate) fn flag(row: &AnyRow, column: &'static str) -> Result<bool, StoreError> {
    match row.try_get(column)? {
        0i64 => Ok(false),
        1 => Ok(true),
        _ => Err(StoreError::Unreadable { what: column }),
    }
}
