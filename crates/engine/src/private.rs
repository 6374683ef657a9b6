//! What calls keep private: shown to operators, and erased by them.

use contract::CallId;
use serde::Serialize;
use serde_json::Value;
use store::{EraseError, FindCallError, RevealError};
use thiserror::Error;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::operator::Credential;

/// What was kept of a call, for an operator's eyes. The text is hostile until it is shown with care.
#[derive(Debug, Serialize)]
pub struct Reading {
    /// Which call.
    pub call_id: CallId,
    /// The canonical arguments; nothing if they were too long to be kept.
    pub arguments: Option<String>,
    /// What the tool gave before it was cleaned; nothing if cleaning changed nothing.
    pub raw: Option<Value>,
    /// What the call was answered.
    pub result: Option<Value>,
    /// With this, the commitments in ledger and receipt can be checked.
    pub salt: String,
}

/// Why an operator was not shown a call, or did not erase it.
#[derive(Debug, Error)]
pub enum PrivateRefused {
    /// Whoever asks is no operator.
    #[error("only an operator can do this, and this credential is nobody's")]
    NotAnOperator,
    /// They may not see it.
    #[error(transparent)]
    Reveal(#[from] RevealError),
    /// There is no such call.
    #[error(transparent)]
    Find(#[from] FindCallError),
    /// It cannot be erased.
    #[error(transparent)]
    Erase(#[from] EraseError),
    /// Nothing is left of it.
    #[error("the call `{id}` is erased")]
    Erased {
        /// Which call.
        id: CallId,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Takes away for good what the call was asked and gave whose id begins with `prefix`.
    pub async fn erase(
        &self,
        prefix: &str,
        reason: Option<&str>,
        credential: &Credential,
    ) -> Result<CallId, PrivateRefused> {
        let by = self.operator_of(credential).await?.ok_or(PrivateRefused::NotAnOperator)?.name;
        let id = self.inner.store.find_call(prefix).await?;
        self.inner.store.erase(&id, &by, reason, self.now()).await?;
        Ok(id)
    }

    /// Shows an operator what was kept of the call whose id begins with `prefix`. The ledger has it that they looked.
    pub async fn read_private(
        &self,
        prefix: &str,
        credential: &Credential,
    ) -> Result<Reading, PrivateRefused> {
        let by = self.operator_of(credential).await?.ok_or(PrivateRefused::NotAnOperator)?.name;
        let store = &self.inner.store;
        let id = store.find_call(prefix).await?;
        let Some(revealed) = store.reveal(&id, &by, self.now()).await? else {
            return Err(PrivateRefused::Erased { id });
        };
        let result = store.result(&id).await.map_err(EngineError::from)?;
        let store::Revealed { arguments, raw, salt } = revealed;
        Ok(Reading { call_id: id, arguments, raw, result, salt })
    }
}
