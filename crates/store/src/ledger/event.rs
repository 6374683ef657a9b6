//! Events that have no rows of their own: what a backend proved at start, say.

use serde_json::Value;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;

/// Kinds that the store itself writes, each together with the rows it tells of.
const RESERVED: [&str; 8] =
    ["agent.", "approval.", "call.", "gate.", "notice.", "operator.", "policy.", "tool."];

/// Why an event was not recorded.
#[derive(Debug, Error)]
pub enum EventError {
    /// Only the store itself tells of such things.
    #[error("`{kind}` is not a kind of event that can be told: it has another form, or belongs to the store")]
    Kind {
        /// Which kind.
        kind: String,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Appends an event to the ledger, and returns its place. Its kind has the form `backend.proved`.
    pub async fn record_event(&self, kind: &str, body: Value, now: i64) -> Result<i64, EventError> {
        let is_word =
            |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let has_form = kind.split_once('.').is_some_and(|(who, what)| is_word(who) && is_word(what));
        let reserved = RESERVED.iter().any(|prefix| kind.starts_with(prefix));
        if !has_form || reserved {
            return Err(EventError::Kind { kind: kind.chars().take(64).collect() });
        }
        let mut write = self.write().await?;
        let seq = write.append(now, kind, body).await?;
        write.commit().await?;
        Ok(seq)
    }
}
