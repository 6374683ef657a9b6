//! Servers of others whose tools are offered as ours, as they are configured. It starts none.
//!
//! # Invariants
//! - What is not listed for a server it does not get: no host, no folder, no variable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use contract::{AgentName, Reach};
use serde::Serialize;

use crate::grant::WorkspaceAccess;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpstreamSettings {
    /// How it is talked to.
    pub way: UpstreamWay,
    /// Places that it may reach while it answers a call.
    pub allow: Vec<Reach>,
    /// Folders that it may read.
    pub read: Vec<PathBuf>,
    /// Folders that it may change.
    pub write: Vec<PathBuf>,
    /// What it may do in the workspace of the agent that it serves.
    pub workspace: WorkspaceAccess,
    /// Variables that it gets, besides those that every sandbox has.
    pub variables: BTreeMap<String, String>,
    /// Those of its tools that are taken, by its own names; all where there is no list.
    pub enable: Option<BTreeSet<String>>,
    /// Those that are not, whatever the list above says.
    pub disable: BTreeSet<String>,
    /// How long one call may take, in milliseconds.
    pub timeout_ms: u64,
    /// What its tools are called here.
    pub prefix: NamePrefix,
    /// The agents that its tools are for; all whose level or lists include them, where there is no list.
    pub agents: Option<BTreeSet<AgentName>>,
    /// What of it is passed on to clients besides its tools.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub passes: BTreeSet<Passed>,
    /// Which era of the protocol is spoken with it.
    #[serde(skip_serializing_if = "Era::is_usual")]
    pub era: Era,
}

impl UpstreamSettings {
    /// How long one call may take where nobody says, in milliseconds.
    pub const USUAL_TIMEOUT_MS: u64 = 30_000;

    /// A server that gets nothing and has nothing passed on, as one is of which only this is said.
    pub fn of(way: UpstreamWay) -> UpstreamSettings {
        UpstreamSettings {
            way,
            allow: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            workspace: WorkspaceAccess::None,
            variables: BTreeMap::new(),
            enable: None,
            disable: BTreeSet::new(),
            timeout_ms: UpstreamSettings::USUAL_TIMEOUT_MS,
            prefix: NamePrefix::default(),
            agents: None,
            passes: BTreeSet::new(),
            era: Era::default(),
        }
    }
}

/// What of a server can be passed on to a client besides its tools. None of it is, unless somebody says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Passed {
    /// What it has to be read.
    Resources,
    /// What it would have people say to their model.
    Prompts,
    /// Pictures, sounds and texts as they are, beside the text of an answer.
    Media,
    /// What it tells of its work.
    Logging,
    /// Questions to the person who sits at the client.
    Elicitation,
    /// Questions to the client's model.
    Sampling,
    /// The question which folders the client works in.
    Roots,
}

/// Which era of the protocol is spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Both sides introduce themselves once: revisions up to 2025-11-25.
    #[default]
    Sessions,
    /// Each message says all that is needed to understand it: revision 2026-07-28.
    Stateless,
}

impl Era {
    fn is_usual(&self) -> bool {
        *self == Era::default()
    }
}

/// How a server is talked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamWay {
    /// It is a program, started behind walls and talked to over its standard input and output.
    Command(Vec<String>),
    /// It is somewhere else, and asked over HTTP at this address.
    Url(String),
}

/// What the tools of a server are called here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NamePrefix {
    /// `mcp_SERVER_TOOL`.
    #[default]
    Always,
    /// As the server calls them, where nothing else has the name.
    Auto,
}
