//! What keeps the engine from doing its work. A refusal is no error: it is an answer.

use contract::CanonicalError;
use serde::Serialize;
use serde_json::Value;
use store::{RecordError, SettleError, StoreError};
use thiserror::Error;

/// Why the engine could not do its work.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call could not be recorded, and so did not run.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A call could not be settled.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// Something cannot be written down, and so did not happen.
    #[error("a {what} cannot be written down")]
    Unwritable {
        /// What.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A request has no canonical form, so nothing can name it.
    #[error("the request has no canonical form")]
    Nameless(#[from] CanonicalError),
    /// There are no random bytes for an id.
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
    /// The store has lost what it had.
    #[error("the store no longer has the call")]
    Missing,
}

/// A value as it is recorded.
pub(crate) fn written(what: &'static str, value: &impl Serialize) -> Result<Value, EngineError> {
    serde_json::to_value(value).map_err(|source| EngineError::Unwritable { what, source })
}
