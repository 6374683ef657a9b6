//! What the configuration says of those who come in by other ways than a browser or an agent's token: chats, and whoever
//! counts what happens.

use contract::{Digest, OperatorName};
use zeroize::Zeroizing;

use super::gate::Pending;

/// A chat that brings answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChatWay {
    /// Slash commands, signed as Slack signs them.
    Slack,
    /// JSON, signed with a secret that both sides have.
    Webhook,
}

impl ChatWay {
    /// How it is recorded that an answer came so.
    pub fn as_str(self) -> &'static str {
        match self {
            ChatWay::Slack => "slack",
            ChatWay::Webhook => "webhook",
        }
    }
}

/// The secret that a chat signs with.
pub type ChatKey = Zeroizing<Vec<u8>>;

/// What is configured now. It may be something else the next time.
pub trait Elsewhere: Send + Sync {
    /// What a chat signs with. Nothing if it is not configured, or its secret cannot be had.
    fn key(&self, way: ChatWay) -> Pending<'_, Option<ChatKey>>;

    /// Who somebody of a chat is, within the team that the chat names.
    fn operator_of(&self, way: ChatWay, team: &str, user: &str) -> Option<OperatorName>;

    /// Whether a token is good for looking at numbers.
    fn may_count(&self, token: Digest) -> bool;
}

/// Nothing of that.
pub struct NobodyElsewhere;

impl Elsewhere for NobodyElsewhere {
    fn key(&self, _: ChatWay) -> Pending<'_, Option<ChatKey>> {
        Box::pin(async { None })
    }

    fn operator_of(&self, _: ChatWay, _: &str, _: &str) -> Option<OperatorName> {
        None
    }

    fn may_count(&self, _: Digest) -> bool {
        false
    }
}
