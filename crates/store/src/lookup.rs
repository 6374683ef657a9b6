//! Finding things by what people type: the beginning of an id.

use contract::CallId;
use sqlx::Row;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;

/// The fewest digits by which a call is found.
const SHORTEST_PREFIX: usize = 4;

const CALLS_BY_PREFIX: &str = "SELECT id FROM calls WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2";

/// Why no call was found.
#[derive(Debug, Error)]
pub enum FindCallError {
    /// It cannot be the beginning of an id.
    #[error("`{prefix}` is not the beginning of a call id: at least {SHORTEST_PREFIX} hexadecimal digits")]
    NotAPrefix {
        /// What was given.
        prefix: String,
    },
    /// No call begins so.
    #[error("there is no call `{prefix}`")]
    None {
        /// What was given.
        prefix: String,
    },
    /// Several calls begin so.
    #[error("several calls begin with `{prefix}`")]
    Ambiguous {
        /// What was given.
        prefix: String,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// The one call whose id begins so.
    pub async fn find_call(&self, prefix: &str) -> Result<CallId, FindCallError> {
        let shown = || prefix.chars().take(64).collect::<String>();
        let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        if !(SHORTEST_PREFIX..=32).contains(&prefix.len()) || !prefix.chars().all(is_hex) {
            return Err(FindCallError::NotAPrefix { prefix: shown() });
        }
        // Every id that begins so sorts before the prefix followed by a `g`.
        let query = sqlx::query(CALLS_BY_PREFIX).bind(prefix).bind(format!("{prefix}g"));
        let rows = query.fetch_all(&mut *self.read().await?).await.map_err(StoreError::from)?;
        let id = match rows.as_slice() {
            [row] => row.try_get::<&str, _>("id").map_err(StoreError::from)?,
            [] => return Err(FindCallError::None { prefix: shown() }),
            _ => return Err(FindCallError::Ambiguous { prefix: shown() }),
        };
        CallId::parse(id).map_err(|_| StoreError::Unreadable { what: "call id" }.into())
    }
}
