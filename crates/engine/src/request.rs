//! What a caller asks for, whichever way it came in.

use std::path::Path;

use contract::{AgentName, Canonical, Digest, Key, OperatorName, TaskName};
use serde_json::{Value, json};

use crate::error::EngineError;

/// One call, as it was asked for. The caller is authenticated; nothing else about it is known to be good.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// The tool, as it was named.
    pub tool: String,
    /// The arguments.
    pub arguments: Canonical,
    /// The caller's idempotency key.
    pub key: Option<Key>,
    /// What it is for, in the caller's words.
    pub purpose: Option<String>,
    /// The operator who makes the call for the agent, where one is known.
    pub proposer: Option<OperatorName>,
}

/// The longest purpose that is kept, in characters.
const MAX_PURPOSE: usize = 1000;

impl Request {
    /// What a call is for: what its caller says beside the arguments, else in them; no longer than people read.
    pub fn purpose_of(said: Option<&str>, arguments: &Canonical) -> Option<String> {
        let within = || arguments.value().get("purpose").and_then(Value::as_str);
        // Not every store can keep every character.
        let kept = |c: char| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c };
        said.or_else(within).map(|purpose| purpose.chars().take(MAX_PURPOSE).map(kept).collect())
    }

    /// What makes two requests the same: who, for what task, where, which tool, which arguments.
    pub(crate) fn digest(&self, workspace: &Path) -> Result<Digest, EngineError> {
        let whole = json!({
            "agent": self.agent,
            "task": self.task,
            // ATTACK(another-workspace): several gates share a store, and the same words mean other files elsewhere.
            "workspace": Digest::of(workspace.as_os_str().as_encoded_bytes()),
            "tool": self.tool,
            "arguments": self.arguments.value(),
        });
        Ok(Canonical::of(whole)?.digest())
    }
}
