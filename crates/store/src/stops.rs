//! Calls that operators end while they run. What becomes of one, its receipt tells; who ended it stands here.

use contract::{CallId, OperatorName};
use serde_json::json;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;

/// Why an operator does not end a call.
#[derive(Debug, Error)]
pub enum StopError {
    /// They only look.
    #[error("`{by}` may not end calls")]
    NotAllowed {
        /// Who tried.
        by: OperatorName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Tells the ledger that an operator ends a call. It is told before the call is.
    pub async fn record_stop(
        &self,
        call: &CallId,
        by: &OperatorName,
        via: &str,
        now: i64,
    ) -> Result<(), StopError> {
        let mut write = self.write().await?;
        if !write.roster().await?.may_answer(by) {
            return Err(StopError::NotAllowed { by: by.clone() });
        }
        write.append(now, "call.stopped", json!({ "call": call, "by": by, "via": via })).await?;
        Ok(write.commit().await?)
    }
}
