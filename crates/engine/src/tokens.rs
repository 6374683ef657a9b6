//! The tokens by which agents are known: issued, revoked, and looked up. What they are is told once, and kept as a digest.

use contract::{AgentName, Digest};
use store::{By, Replace, TokenError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::operator::Credential;

impl Engine {
    /// The agent whose token has this digest, as long as it is configured.
    pub async fn agent_of_token(&self, digest: &Digest) -> Result<Option<AgentName>, EngineError> {
        let agent = self.inner.store.agent_of_token(digest).await?;
        Ok(agent.filter(|agent| self.settings().agents.contains_key(agent)))
    }

    /// Issues a token for an agent by the owner of this gate.
    pub async fn issue_token(&self, agent: &AgentName, replace: Replace) -> Result<Credential, TokenError> {
        self.issue(agent, replace, By::Owner).await
    }

    /// Revokes an agent's token by the owner of this gate.
    pub async fn revoke_token(&self, agent: &AgentName) -> Result<(), TokenError> {
        self.inner.store.revoke_token(agent, By::Owner, self.now()).await
    }

    /// Issues another token by an operator. Nothing if there is no such agent, or whoever asks is nobody.
    pub async fn rotate_token_by(
        &self,
        agent: &AgentName,
        by: &Credential,
    ) -> Result<Option<Credential>, TokenError> {
        let operator = self.operator_of(by).await.map_err(of_store)?;
        let Some(operator) = operator.filter(|_| self.settings().agents.contains_key(agent)) else {
            return Ok(None);
        };
        self.issue(agent, Replace::Yes, By::Operator(&operator.name)).await.map(Some)
    }

    /// Revokes an agent's token by an operator.
    pub async fn revoke_token_by(&self, agent: &AgentName, by: &Credential) -> Result<(), TokenError> {
        let operator = self.operator_of(by).await.map_err(of_store)?;
        let Some(operator) = operator else { return Err(TokenError::None { agent: agent.clone() }) };
        self.inner.store.revoke_token(agent, By::Operator(&operator.name), self.now()).await
    }

    /// Takes over a token that an earlier version kept in a file, for an agent that has none yet.
    pub async fn take_over_token(&self, agent: &AgentName, token: &Credential) -> Result<(), TokenError> {
        let store = &self.inner.store;
        match store.issue_token(agent, token.digest(), Replace::No, By::Owner, self.now()).await {
            Ok(()) | Err(TokenError::Taken { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn issue(&self, agent: &AgentName, replace: Replace, by: By<'_>) -> Result<Credential, TokenError> {
        let token = Credential::random().map_err(|_| TokenError::Random)?;
        self.inner.store.issue_token(agent, token.digest(), replace, by, self.now()).await?;
        Ok(token)
    }
}

fn of_store(error: EngineError) -> TokenError {
    match error {
        EngineError::Store(error) => TokenError::Store(error),
        _ => TokenError::Random,
    }
}
