//! What the HTTP surface asks about those who come in by other ways.

use contract::{Digest, OperatorName};
use server::{ChatKey, ChatWay, Elsewhere, Pending};
use zeroize::Zeroizing;

use super::Live;
use crate::config::{Chat, Telling};

/// Characters that the token of whoever counts has at least.
const SHORTEST_TOKEN: usize = 32;

impl Elsewhere for Live {
    fn key(&self, way: ChatWay) -> Pending<'_, Option<ChatKey>> {
        Box::pin(async move {
            let telling = self.telling();
            let source = self.source(&chat(&telling, way)?.secret)?;
            // An empty key signs as well as any other.
            self.egress.own_secret(&source).await.filter(|key| key.len() >= 8)
        })
    }

    fn operator_of(&self, way: ChatWay, team: &str, user: &str) -> Option<OperatorName> {
        let telling = self.telling();
        let chat = chat(&telling, way).filter(|chat| chat.team == team)?;
        chat.users.get(user).cloned()
    }

    fn may_count(&self, token: Digest) -> bool {
        let telling = self.telling();
        let known = telling.counter.as_ref().and_then(|source| match source {
            policy::SecretSource::Variable(name) => crate::config::secret_in(name).map(Zeroizing::new),
            policy::SecretSource::File(path) => std::fs::read_to_string(path).ok().map(Zeroizing::new),
            policy::SecretSource::Vault { .. }
            | policy::SecretSource::Keyring(_)
            | policy::SecretSource::SignIn(_) => None,
        });
        // Digests are compared: how long that takes says nothing of the token.
        known.is_some_and(|known| {
            let known = known.trim();
            known.len() >= SHORTEST_TOKEN && Digest::of(known.as_bytes()) == token
        })
    }
}

fn chat(telling: &Telling, way: ChatWay) -> Option<&Chat> {
    match way {
        ChatWay::Slack => telling.slack.as_ref(),
        ChatWay::Webhook => telling.webhook.as_ref(),
    }
}
