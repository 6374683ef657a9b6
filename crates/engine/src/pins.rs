//! What operators say of tools that come from somewhere: that they have looked at one, how dangerous it is, that it is off.

use contract::{Contract, Digest, EgressClass, SafetyClass, SourceName, ToolName, ToolStatus, TrustLabel};
use policy::ToolFacts;
use serde_json::Value;
use store::{Pin, StanceError};
use thiserror::Error;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::operator::Credential;

/// A tool as it is listed, whoever may see it.
#[derive(Clone, Debug)]
pub struct ListedTool {
    /// What it promises.
    pub contract: Contract,
    /// What the registry and operators say of it.
    pub facts: ToolFacts,
    /// Where it comes from; nothing for our own.
    pub source: Option<SourceName>,
    /// The definition that was pinned last, if one was.
    pub pinned: Option<Digest>,
}

/// How dangerous an operator says that the calls of a tool are; what is left out is as its definition says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// How dangerous.
    pub safety: Option<SafetyClass>,
    /// What leaves the machine.
    pub egress: Option<EgressClass>,
}

/// Two versions of what the author of a tool wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions {
    /// The one that was pinned, or seen first if none was.
    pub before: (Digest, Value),
    /// The one that was seen last.
    pub now: (Digest, Value),
}

/// As much of a hash as says which definition is meant, in characters.
const SHORTEST_HASH: usize = 8;

/// Why nothing was said of a tool.
#[derive(Debug, Error)]
pub enum PinError {
    /// Whoever asks is no operator.
    #[error("this takes an admin's credential, and this one is nobody's")]
    NotAnOperator,
    /// There is no such tool.
    #[error("there is no tool `{name}` that comes from somewhere")]
    Unknown {
        /// Which name.
        name: ToolName,
    },
    /// It is not what whoever pins it has looked at.
    #[error(
        "`{name}` has the hash {hash} by now, which does not begin like yours, or yours has fewer than {SHORTEST_HASH} characters"
    )]
    Another {
        /// Which tool.
        name: ToolName,
        /// The hash of what is offered.
        hash: Digest,
    },
    /// It would be believed to be more dangerous than it says.
    #[error("`{name}` is `{of}` at most, and cannot be raised: disable it instead")]
    Raised {
        /// Which tool.
        name: ToolName,
        /// What its definition says.
        of: String,
    },
    /// The store did not take it.
    #[error(transparent)]
    Stance(#[from] StanceError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Every tool that is listed, by name, whoever may see it.
    pub fn all_tools(&self) -> Vec<ListedTool> {
        let catalogue = self.catalogue();
        let shown = |listed: &crate::catalogue::Listed| ListedTool {
            contract: listed.contract(),
            facts: listed.facts.clone(),
            source: listed.source.clone(),
            pinned: catalogue.stances.of(&listed.facts.name).pin.map(|pin| pin.hash),
        };
        catalogue.all().map(shown).collect()
    }

    /// The same, with what has been said of tools by other gates of this store since.
    pub async fn all_tools_anew(&self) -> Result<Vec<ListedTool>, EngineError> {
        self.believe(self.inner.store.stances().await?).await;
        Ok(self.all_tools())
    }

    /// Pins the definition of a tool whose hash begins like this, if it is what is offered now. Its calls are of these classes
    /// from then on; any other definition of it is suspended.
    pub async fn pin_tool(
        &self,
        name: &ToolName,
        seen: &str,
        lowering: Lowering,
        by: &Credential,
    ) -> Result<Pin, PinError> {
        let operator = self.operator_of(by).await?.ok_or(PinError::NotAnOperator)?;
        let catalogue = self.catalogue();
        let listed = catalogue.find(name.as_str()).filter(|listed| listed.source.is_some());
        let definition = match listed {
            Some(listed) => listed.tool.contract().definition(),
            None => return Err(PinError::Unknown { name: name.clone() }),
        };
        let hash = listed.map(|listed| listed.tool.contract().hash());
        let hash = hash.ok_or_else(|| PinError::Unknown { name: name.clone() })?;
        // ATTACK(pinned-unseen): what somebody has looked at is pinned, and not what was put in its place since.
        if seen.len() < SHORTEST_HASH || !hash.to_string().starts_with(seen) {
            return Err(PinError::Another { name: name.clone(), hash });
        }
        let safety = lowering.safety.unwrap_or(definition.safety);
        let egress = lowering.egress.unwrap_or(definition.egress);
        if safety > definition.safety || egress > definition.egress {
            let of = format!("{} · egress {}", definition.safety, definition.egress);
            return Err(PinError::Raised { name: name.clone(), of });
        }
        let pin = Pin { hash, safety, egress, by: operator.name, at: self.now() };
        self.inner.store.pin_tool(name, &pin).await?;
        self.believe_anew().await?;
        Ok(pin)
    }

    /// Switches a tool that comes from somewhere off, or on again.
    pub async fn switch_tool(
        &self,
        name: &ToolName,
        status: ToolStatus,
        by: &Credential,
    ) -> Result<(), PinError> {
        let operator = self.operator_of(by).await?.ok_or(PinError::NotAnOperator)?;
        let catalogue = self.catalogue();
        if catalogue.find(name.as_str()).is_none_or(|listed| listed.source.is_none()) {
            return Err(PinError::Unknown { name: name.clone() });
        }
        self.inner.store.switch_tool(name, status, &operator.name, self.now()).await?;
        self.believe_anew().await
    }

    /// What the author of a tool wrote when it was pinned, and what they wrote last.
    pub async fn versions_of(&self, name: &ToolName) -> Result<Option<Versions>, EngineError> {
        let versions = self.inner.store.tool_versions(name).await?;
        let pinned = self.inner.store.stances().await?.of(name).pin.map(|pin| pin.hash);
        let original = |value: &Value| value.pointer("/origin/original").unwrap_or(value).clone();
        let find = |hash: Digest| versions.iter().find(|version| version.0 == hash);
        // What is listed is what was seen last; the order in the store is that of first sight.
        let listed = self.catalogue().find(name.as_str()).map(|listed| listed.tool.contract().hash());
        let before = pinned.and_then(find).or(versions.first());
        let now = listed.and_then(find).or(versions.last());
        Ok(before.zip(now).map(|(before, now)| Versions {
            before: (before.0, original(&before.1)),
            now: (now.0, original(&now.1)),
        }))
    }

    async fn believe_anew(&self) -> Result<(), PinError> {
        let stances = self.inner.store.stances().await.map_err(EngineError::from)?;
        self.believe(stances).await;
        Ok(())
    }
}

impl ListedTool {
    /// Whether somebody has to look at it before it is used again.
    pub fn is_suspended(&self) -> bool {
        self.facts.status == ToolStatus::Suspended
    }

    /// Whether an operator has looked at it as it is.
    pub fn is_pinned(&self) -> bool {
        self.facts.trust == TrustLabel::Pinned
    }
}
