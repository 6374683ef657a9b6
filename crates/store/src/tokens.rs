//! The tokens by which agents are known to a gate. Of a token only its digest is kept, and the signed ledger tells whose
//! it is: there is no table of them.
//!
//! # Invariants
//! - An agent has one token or none. When another was issued, or it was revoked, the old one is nobody's.

use contract::{AgentName, Digest};
use serde_json::json;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;
use crate::operators::{By, Role};

/// An agent's token, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentToken {
    /// Whose it is.
    pub agent: AgentName,
    /// Its digest.
    pub digest: Digest,
    /// Since when it is good, in milliseconds since 1970.
    pub issued_at: i64,
}

/// Why a token was neither issued nor revoked.
#[derive(Debug, Error)]
pub enum TokenError {
    /// Only an admin does that.
    #[error("`{by}` is not an admin")]
    NotAdmin {
        /// Who tried.
        by: contract::OperatorName,
    },
    /// There is one, and it was not to be replaced.
    #[error("agent `{agent}` has a token already; it was shown when it was made, and is not kept")]
    Taken {
        /// Which agent.
        agent: AgentName,
    },
    /// There is none.
    #[error("agent `{agent}` has no token")]
    None {
        /// Which agent.
        agent: AgentName,
    },
    /// There are no random bytes for one.
    #[error("the system gives no random bytes")]
    Random,
    /// The token is somebody's.
    #[error("the token belongs to somebody else")]
    Known,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a token may take the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It may.
    Yes,
    /// Only where there is none.
    No,
}

impl Store {
    /// Issues a token. When this has returned, one before it is nobody's.
    pub async fn issue_token(
        &self,
        agent: &AgentName,
        digest: Digest,
        replace: Replace,
        by: By<'_>,
        now: i64,
    ) -> Result<(), TokenError> {
        let mut write = self.write().await?;
        let roster = write.roster().await?;
        if let By::Operator(by) = by
            && roster.role_of(by) != Some(Role::Admin)
        {
            return Err(TokenError::NotAdmin { by: by.clone() });
        }
        if replace == Replace::No && roster.token_of(agent).is_some() {
            return Err(TokenError::Taken { agent: agent.clone() });
        }
        let is_somebodys = roster.all().any(|operator| operator.credential == digest);
        if is_somebodys || roster.agent_of(&digest).is_some() {
            return Err(TokenError::Known);
        }
        let body = json!({ "agent": agent, "token": digest, "by": by.name() });
        write.append(now, "agent.token", body).await?;
        Ok(write.commit().await?)
    }

    /// Revokes an agent's token. When this has returned, it is nobody's.
    pub async fn revoke_token(&self, agent: &AgentName, by: By<'_>, now: i64) -> Result<(), TokenError> {
        let mut write = self.write().await?;
        let roster = write.roster().await?;
        if let By::Operator(by) = by
            && roster.role_of(by) != Some(Role::Admin)
        {
            return Err(TokenError::NotAdmin { by: by.clone() });
        }
        if roster.token_of(agent).is_none() {
            return Err(TokenError::None { agent: agent.clone() });
        }
        write.append(now, "agent.token_revoked", json!({ "agent": agent, "by": by.name() })).await?;
        Ok(write.commit().await?)
    }

    /// Whose token has this digest.
    pub async fn agent_of_token(&self, digest: &Digest) -> Result<Option<AgentName>, StoreError> {
        // ATTACK(revoked-token): by what the signed ledger tells now, whichever process told it.
        Ok(self.roster().await?.agent_of(digest).cloned())
    }

    /// An agent's token, as far as it is kept.
    pub async fn token_of(&self, agent: &AgentName) -> Result<Option<AgentToken>, StoreError> {
        Ok(self.roster().await?.token_of(agent).cloned())
    }
}
