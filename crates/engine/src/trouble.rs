//! What keeps the engine from doing its work. A refusal is no trouble: it is an answer.

use store::{RecordError, StoreError};
use thiserror::Error;

/// Why the engine could not do its work.
#[derive(Debug, Error)]
pub enum Trouble {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call could not be recorded, and so did not run.
    #[error("the call could not be recorded")]
    Record(#[from] RecordError),
    /// There are no random bytes for an id.
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
    /// The store has lost what it had.
    #[error("the store no longer has the call")]
    Missing,
}
