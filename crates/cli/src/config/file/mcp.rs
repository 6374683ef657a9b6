//! The keys under `mcp`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::oauth::{AccessFile, SignInFile};
use crate::config::at::{At, Given};
use crate::config::word::{EraWord, PassedWord, PrefixWord, WorkspaceWord};

/// Other people's MCP servers.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    /// Servers whose tools agents get as `mcp_NAME_TOOL`, by name: small letters, digits and `-`. An agent sees them if its
    /// categories include `mcp`, or its `allowed_tools` name them. docs/guide/mcp-servers.md says how. Default: none.
    pub(crate) servers: Given<BTreeMap<At<String>, ServerFile>>,
    /// Tokens of an issuer that let agents in over HTTP at `/mcp`, besides the gate's own. Default: none.
    pub(crate) oauth: Given<AccessFile>,
}

/// One server: a `command` that is started behind walls, or a `url` that is asked.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerFile {
    /// The program and its arguments. It is found as commands are in a sandbox: system software, and toolchains of the home of
    /// whoever runs the gate. Default: none; then there is a `url`.
    pub(crate) command: Given<Vec<At<String>>>,
    /// Where it is asked, over HTTP. Default: none; then there is a `command`.
    pub(crate) url: Given<String>,
    /// What it is shown of the gate. Default: nothing.
    pub(crate) auth: Given<ServerAuth>,
    /// Variables that the program gets, and no others. Values stand here; secrets do not, and names of such are refused: a
    /// credential of `egress.credentials` is added on the way out. Default: none.
    pub(crate) env: Given<BTreeMap<At<String>, String>>,
    /// Places that the program may reach while it answers a call, as in `egress.allow`. Default: none.
    pub(crate) allow: Given<Vec<At<String>>>,
    /// Folders that the program may read; a relative path begins at this file. Default: none.
    pub(crate) ro: Given<Vec<At<String>>>,
    /// Folders that the program may change. Default: none.
    pub(crate) rw: Given<Vec<At<String>>>,
    /// What the program may do in the workspace of the agent that it serves; it begins there then. One that may write is
    /// started for each call. Default: `none`.
    pub(crate) workspace: Given<WorkspaceWord>,
    /// Which of its tools are taken. Default: all.
    pub(crate) tools: Given<ServerTools>,
    /// How long a call may take, 600000 at most. Default: 30000.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Given<u64>,
    /// Whether its tools are always called `mcp_NAME_TOOL`, or `TOOL` where nothing else is called so. Default: `always`.
    pub(crate) prefix: Given<PrefixWord>,
    /// The agents that its tools are for. Default: all that may see them.
    pub(crate) agents: Given<Vec<At<String>>>,
    /// What of the program is passed on to clients besides its tools. What it says there cannot be looked at beforehand, and
    /// what it asks there is asked of the agent's side. docs/guide/mcp-servers.md says what each means. Default: nothing.
    #[serde(alias = "passOn")]
    pub(crate) pass_on: Given<Vec<PassedWord>>,
    /// The newest revision that is spoken with the program: `2026-07-28` has no sessions, and a server has to be meant for it.
    /// Default: `2025-11-25`, and whichever older one the server has.
    pub(crate) revision: Given<EraWord>,
}

/// What a server is shown of the gate.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerAuth {
    /// Where the token is to be had that is sent as `Authorization: Bearer`: `env:NAME`, `file:PATH`, `vault:PATH#FIELD` or
    /// `keyring:NAME`. Default: none.
    pub(crate) bearer: Given<String>,
    /// How the gate signs in, in the place of a token that is had already. Default: it does not.
    pub(crate) oauth: Given<SignInFile>,
}

/// Which of a server's tools are taken, by its own names.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerTools {
    /// These and no others. Default: all.
    pub(crate) enable: Given<Vec<At<String>>>,
    /// All but these. Default: none.
    pub(crate) disable: Given<Vec<At<String>>>,
}
