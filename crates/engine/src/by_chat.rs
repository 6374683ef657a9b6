//! Answers that a chat has brought, signed by the chat, from a person whom the configuration knows.
//!
//! Nobody has shown a credential: that it was this person is the chat's word, and the chat's account may be open on a desk
//! that nobody sits at. So a yes by this way is never enough where money or the guard itself is at stake
//! ([decision 0034](../../../docs/decisions/0034-answers-from-elsewhere.md)); a no always counts.

use contract::{ApprovalId, Digest, OperatorName};
use serde_json::json;
use store::{ApprovalRow, EventError, Vote};

use crate::approve::{AnswerRefused, Reply};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::standing::Reach;

/// A message of a chat that was not taken, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedMessage<'a> {
    /// By which way it came.
    pub way: &'a str,
    /// Why, as a stable word.
    pub why: &'static str,
    /// Whom the chat names, if that is believed and can be shown.
    pub user: Option<&'a str>,
    /// How many were refused before it that are not on record.
    pub unrecorded: u64,
}

/// Ways by which messages of chats come; by any other, an operator has brought the answer.
const CHATS: [&str; 2] = ["slack", "webhook"];

impl Engine {
    /// Takes the answer of an operator whom a chat vouches for, to one call.
    pub async fn answer_by_chat(
        &self,
        id: &ApprovalId,
        vote: Vote,
        reason: Option<String>,
        by: &OperatorName,
        via: &str,
    ) -> Result<ApprovalRow, AnswerRefused> {
        self.tend().await?;
        let row = self.inner.store.find_approval(id.as_str()).await?;
        // ATTACK(chat-approves-privileged): what is not known to be less counts as that.
        let is_grave = row.about.as_ref().is_none_or(|about| about.safety.is_grave());
        if vote == Vote::Approve && is_grave {
            return Err(AnswerRefused::NeedsPresence);
        }
        self.take_answer(row, Reply { vote, reason, reach: Reach::ONCE }, by.clone(), via).await
    }

    /// Takes a signed message. Whether it is the first time, at any gate of this store.
    pub async fn take_message(&self, message: &Digest, until: i64) -> Result<bool, EngineError> {
        Ok(self.inner.store.take_delivery(message, until, self.now()).await?)
    }

    /// Says in the ledger that a message was not taken.
    pub async fn tell_refused_message(&self, refused: RefusedMessage<'_>) -> Result<(), EngineError> {
        let RefusedMessage { way, why, user, unrecorded } = refused;
        let body = json!({ "way": way, "why": why, "user": user, "unrecorded": unrecorded });
        let kind = if CHATS.contains(&way) { "chat.refused" } else { "answer.refused" };
        match self.inner.store.record_event(kind, body, self.now()).await {
            Ok(_) => Ok(()),
            Err(EventError::Store(error)) => Err(error.into()),
            Err(EventError::Kind { .. }) => Err(EngineError::Missing),
        }
    }
}
