//! What a call left behind, for the agent that made it.

use clean::clean_text;
use contract::{AgentName, CallId};

use crate::engine::Engine;
use crate::error::EngineError;

/// The most of an artifact that a model is shown at once, in bytes.
const MAX_SHOWN: usize = 1 << 20;

/// An artifact as a model may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownArtifact {
    /// Its text, cleaned.
    Text(String),
    /// It is no text, and nothing else can be cleaned.
    NotText,
}

impl Engine {
    /// An artifact of a call, by its name. Nothing if there is none, or if the call is another agent's.
    pub async fn artifact_for(
        &self,
        agent: &AgentName,
        call: &CallId,
        name: &str,
    ) -> Result<Option<ShownArtifact>, EngineError> {
        // DECISION(0014): what is handed out is cleaned.
        Ok(self.raw_artifact_for(agent, call, name).await?.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => {
                let cleaned = clean_text(&text, MAX_SHOWN);
                let cut = if cleaned.cut { "\n… cut here" } else { "" };
                ShownArtifact::Text(cleaned.text + cut)
            }
            Err(_) => ShownArtifact::NotText,
        }))
    }

    /// The same as it is. Only for what nobody reads as text.
    pub async fn raw_artifact_for(
        &self,
        agent: &AgentName,
        call: &CallId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let store = self.store();
        // ATTACK(artifact-of-another): digests alone would show whatever anybody's call has left.
        let row = store.call(call).await?.filter(|row| row.agent == *agent && row.status.is_final());
        let Some(row) = row else { return Ok(None) };
        let Some(result) = self.recorded(&row.id).await? else { return Ok(None) };
        let Some(artifact) = result.artifacts.iter().find(|artifact| artifact.name == name) else {
            return Ok(None);
        };
        Ok(store.artifact(&artifact.digest).await?)
    }
}
