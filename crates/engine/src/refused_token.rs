//! Tokens that let nobody in, for the record.

use serde_json::json;
use store::EventError;

use crate::engine::Engine;
use crate::error::EngineError;

/// A token that let nobody in. Nothing of the token itself is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedToken<'a> {
    /// At which door.
    pub door: &'a str,
    /// Why, as a stable word.
    pub code: &'static str,
    /// Why, in words of ours.
    pub why: &'a str,
    /// How many were refused before it that are not on record.
    pub unrecorded: u64,
}

impl Engine {
    /// Says in the ledger that a token let nobody in.
    pub async fn tell_refused_token(&self, refused: RefusedToken<'_>) -> Result<(), EngineError> {
        let RefusedToken { door, code, why, unrecorded } = refused;
        let body = json!({ "door": door, "code": code, "why": why, "unrecorded": unrecorded });
        match self.inner.store.record_event("token.refused", body, self.now()).await {
            Ok(_) => Ok(()),
            Err(EventError::Store(error)) => Err(error.into()),
            Err(EventError::Kind { .. }) => Err(EngineError::Missing),
        }
    }
}
