//! Ends a call that runs, for an operator.

use contract::CallId;
use store::StopError;
use thiserror::Error;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::operator::Credential;

/// Why a call was not ended.
#[derive(Debug, Error)]
pub enum StopRefused {
    /// Whoever wants it is no operator.
    #[error("only an operator can end a call of others, and this credential is nobody's")]
    NotAnOperator,
    /// They may not.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Ends a call that this process runs; the ledger says first who ends it. False if it does not run here.
    pub async fn stop(&self, id: &CallId, credential: &Credential, via: &str) -> Result<bool, StopRefused> {
        let operator = self.operator_of(credential).await?.ok_or(StopRefused::NotAnOperator)?;
        if !self.owned().contains_key(id) {
            return Ok(false);
        }
        self.inner.store.record_stop(id, &operator.name, via, self.now()).await?;
        // It may have ended by itself meanwhile; its receipt tells which.
        Ok(self.cancel(id))
    }
}
