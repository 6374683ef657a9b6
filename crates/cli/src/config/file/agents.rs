//! The keys under `agents` and `roles`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LevelFile;
use crate::config::at::{At, Given};
use crate::config::word::{AutonomyWord, CategoryWord, LevelWord, PresetWord, SeniorityWord};

/// One agent.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentFile {
    /// What it has that nothing else here gives it; docs/configuration.md says what each is, docs/reference/verdicts.md what it
    /// comes to. Default: none.
    pub(crate) preset: Given<PresetWord>,
    /// How much of the world it may touch. Default: that of its `preset`, else `standard`, or with `trust` the level where
    /// trust begins.
    pub(crate) level: Given<LevelWord>,
    /// How often it has to ask. Default: that of its `preset`, else `semi`.
    pub(crate) autonomy: Given<AutonomyWord>,
    /// Tools it may use whatever its level includes, such as `mcp_files_*`. The constraints of the level hold. Default: those
    /// of its `preset`, else none.
    #[serde(alias = "allowedTools")]
    pub(crate) allowed_tools: Given<Vec<At<String>>>,
    /// Tools it may not use whatever else is said, such as `deploy.*`. They add to those of its `preset`. Default: none.
    #[serde(alias = "deniedTools")]
    pub(crate) denied_tools: Given<Vec<At<String>>>,
    /// Actions it need not ask for, where asking can be waived: `exec:mutate`, or a whole category such as `vcs`. Default:
    /// those of its `preset`, else none.
    #[serde(alias = "autoApprove")]
    pub(crate) auto_approve: Given<Vec<At<String>>>,
    /// Actions it must ask for. They add to those of its `preset`. Default: none.
    #[serde(alias = "humanApproval")]
    pub(crate) human_approval: Given<Vec<At<String>>>,
    /// Actions it may not take, with whatever tool. They add to those of its `preset`. Default: none.
    #[serde(alias = "deniedActions")]
    pub(crate) denied_actions: Given<Vec<At<String>>>,
    /// Changes to its level, for this agent alone. Each takes the place of what its `preset` says, but for
    /// `requires_approval`, which adds to it.
    pub(crate) overrides: Given<LevelFile>,
    /// Its role, one of `roles`: it sees nothing that the role does not include. Default: none.
    pub(crate) role: Given<String>,
    /// How far it goes at most: `junior` to level `restricted` and autonomy `supervised`, `mid` to `standard` and `semi`,
    /// `senior` to `standard` and `full`, `lead` to `elevated` and `full`. It only narrows. Default: as far as it was given.
    pub(crate) seniority: Given<SeniorityWord>,
    /// The operator on whose behalf it works, who therefore approves nothing of it. Default: nobody in particular.
    pub(crate) operator: Given<String>,
    /// The operator who sits at its MCP client: whoever answers a question there answers as them, and the receipt says so. Never
    /// about what is `financial` or `privileged`. Default: nobody; questions are answered elsewhere.
    pub(crate) elicitation: Given<String>,
    /// The directory it works in; a relative one begins at this file. Default: the current directory of the caller.
    pub(crate) workspace: Given<String>,
}

/// What agents with a role see. One of `categories` and `tools` must be given.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RoleFile {
    /// For people.
    pub(crate) description: Given<String>,
    /// The tools of these categories. Default: none.
    pub(crate) categories: Given<Vec<CategoryWord>>,
    /// These tools besides, such as `git.*`. Default: none.
    pub(crate) tools: Given<Vec<At<String>>>,
    /// None of these, whatever else is said. Default: none.
    #[serde(alias = "deniedTools")]
    pub(crate) denied_tools: Given<Vec<At<String>>>,
}
