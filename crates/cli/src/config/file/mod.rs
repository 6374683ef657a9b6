//! What a person may write: the whole tree of `toolgate.yaml`, key by key.
//!
//! Knows the form only: which keys there are and what kind of value each has. What they mean, and whether they agree
//! with each other, is [`super::meaning`]'s. Every key can be written `like_this` or `likeThis`.

mod agents;
mod approval;
mod egress;
mod hook;
mod mcp;
mod money;
mod oauth;
mod rules;
mod sandboxing;
mod telling;
mod tls;
mod tools;
mod trust;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use agents::{AgentFile, RoleFile};
pub(crate) use approval::{AmountFile, Approval, ChatFile, EmailFile, NotifyFile, PatternFile, RuleFile};
pub(crate) use egress::{CredentialFile, Egress, EgressLimitsFile, VaultFile};
pub(crate) use hook::HookFile;
pub(crate) use mcp::{Mcp, ServerFile};
pub(crate) use money::{BudgetFile, PriceFile, Prices};
pub(crate) use oauth::{AccessFile, SignInFile};
pub(crate) use rules::{CedarRuleFile, RuleExampleFile};
pub(crate) use sandboxing::{NativeLifecycle, Sandboxing};
pub(crate) use telling::{Metrics, Telemetry};
pub(crate) use tls::Tls;
pub(crate) use tools::{Bash, Filesystem, Http, Tools};
pub(crate) use trust::{Criterion, Steps, Threshold, Trust, Weights};

use super::at::{At, Given};
use super::word::{
    CategoryWord, CodeExecutionWord, FileSystemWord, GitWord, NetworkWord, OnBadReloadWord, TerminalWord,
};

/// The configuration of Toolgate. Every key is optional; what is left out has the default that its description names.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    /// The agents there are, by name. Default: one, `default`, at level `standard` with autonomy `semi`; it is there
    /// also beside others, unless it is defined.
    pub(crate) agents: Given<BTreeMap<At<String>, AgentFile>>,
    /// Roles that agents have, by name: what an agent with the role sees, of what it would see without. Default: none.
    pub(crate) roles: Given<BTreeMap<At<String>, RoleFile>>,
    /// Actions of your own, as `category:action`, such as `payments:refund`. Default: none.
    pub(crate) actions: Given<Vec<At<String>>>,
    /// What the access levels mean.
    #[serde(alias = "toolAccess")]
    pub(crate) tool_access: Given<ToolAccess>,
    /// What runs the calls.
    pub(crate) sandboxing: Given<Sandboxing>,
    /// How agents earn higher levels. Default: they do not.
    pub(crate) trust: Given<Trust>,
    /// Settings of the built-in tools.
    pub(crate) tools: Given<Tools>,
    /// Who is asked, and how long a question waits.
    pub(crate) approval: Given<Approval>,
    /// Rules in Cedar, and limits on how often tools are called and on how much a call may use.
    pub(crate) policy: Given<PolicyFile>,
    /// Programs of yours that are heard before a call runs and after it has, in this order: they can have people asked,
    /// deny, remark and withhold. docs/hooks.md says how. Default: none.
    pub(crate) hooks: Given<Vec<At<HookFile>>>,
    /// Other people's MCP servers, whose tools agents get through this gate.
    pub(crate) mcp: Given<Mcp>,
    /// What calls may reach, and how.
    pub(crate) egress: Given<Egress>,
    /// What calls cost, by what this gate measures of them. Default: nothing.
    pub(crate) prices: Given<Prices>,
    /// How much may be spent; a call counts against each that is about it. docs/guide/budgets.md says how. Default: no
    /// limit.
    pub(crate) budgets: Given<Vec<At<BudgetFile>>>,
    /// Where records are kept: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, or `env:NAME` for what a variable names. A
    /// password comes from `PGPASSWORD`, from the file of `PGPASSFILE`, or with `env:NAME`; not from here. Default: in
    /// the state folder, `TOOLGATE_HOME`.
    pub(crate) store: Given<String>,
    /// Numbers for Prometheus, at `/metrics`.
    pub(crate) metrics: Given<Metrics>,
    /// Traces, numbers and events for OpenTelemetry. Default: none.
    pub(crate) telemetry: Given<Telemetry>,
    /// The address and port of `toolgate up`; elsewhere than on loopback with a certificate and a name under `tls` only.
    /// Default: `127.0.0.1:7433`.
    pub(crate) listen: Given<String>,
    /// The certificate by which `toolgate up` is known, and the names that it answers to. Default: none, and it speaks in the
    /// clear on loopback.
    pub(crate) tls: Given<Tls>,
}

/// What the access levels mean.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolAccess {
    /// Changes to the levels; what is left out stays as it is built in.
    pub(crate) levels: Given<Levels>,
}

/// The access levels.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Levels {
    /// An isolated workspace.
    pub(crate) sandboxed: Given<LevelFile>,
    /// And limited access to the outside.
    pub(crate) restricted: Given<LevelFile>,
    /// Normal development.
    pub(crate) standard: Given<LevelFile>,
    /// Everything.
    pub(crate) elevated: Given<LevelFile>,
    /// What the agent's own `overrides` and lists name, and nothing else.
    pub(crate) custom: Given<LevelFile>,
}

/// One level, or one agent's changes to its own.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LevelFile {
    /// For people. Default: none.
    pub(crate) description: Given<String>,
    /// Which tools it includes. Default: as the level has it.
    pub(crate) categories: Given<Vec<CategoryWord>>,
    /// Where files may be touched. Default: as the level has it.
    #[serde(alias = "fileSystem")]
    pub(crate) file_system: Given<FileSystemWord>,
    /// Where code may run. Default: `containerized`, which is behind proved walls, whatever is said.
    #[serde(alias = "codeExecution")]
    pub(crate) code_execution: Given<CodeExecutionWord>,
    /// Whom a call may reach. Default: as the level has it.
    pub(crate) network: Given<NetworkWord>,
    /// What may be done to repositories. Default: as the level has it.
    pub(crate) git: Given<GitWord>,
    /// Which commands may be run. Default: as the level has it.
    pub(crate) terminal: Given<TerminalWord>,
    /// Whether software may go live. Default: as the level has it.
    pub(crate) deployment: Given<bool>,
    /// Actions that people must approve; `database_write` is `db:mutate` and `db:admin`. Default: as the level has it.
    #[serde(alias = "requiresApproval")]
    pub(crate) requires_approval: Given<Vec<At<String>>>,
}

/// Rules in Cedar, and limits on how often tools are called and on how much a call may use.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicyFile {
    /// Rules in Cedar, each with examples; docs/guide/policies.md says how. They only restrict: a rule forbids a call, or
    /// has people asked about it. Default: none.
    pub(crate) rules: Given<Vec<At<CedarRuleFile>>>,
    /// Files of such rules; a relative path begins at this file. They belong to you or root, and not everybody can write
    /// them. Default: none.
    pub(crate) files: Given<Vec<At<String>>>,
    /// For each tool or pattern over tools: how often one agent may call them, all of them together. Default: none.
    #[serde(alias = "rateLimits")]
    pub(crate) rate_limits: Given<BTreeMap<At<String>, RateLimit>>,
    /// How often one agent may call at all. Default: 6000 in 60000 milliseconds.
    #[serde(alias = "agentRateLimit")]
    pub(crate) agent_rate_limit: Given<RateLimit>,
    /// How many refused calls of one agent are recorded; those over it are answered, and counted. Default: 1000 in 60000
    /// milliseconds.
    #[serde(alias = "refusedRateLimit")]
    pub(crate) refused_rate_limit: Given<RateLimit>,
    /// For each tool or pattern over tools: how much one call may use. It only lowers what the tool has. Default: none.
    #[serde(alias = "resourceLimits")]
    pub(crate) resource_limits: Given<BTreeMap<At<String>, ResourceLimit>>,
    /// The longest arguments of a call, such as `1m`; tools that write files take as much as their files may have.
    /// Default: 1048576.
    #[serde(alias = "maxArguments")]
    pub(crate) max_arguments: Given<String>,
    /// What becomes of calls when this file, or one that it names, changes while a gate runs and cannot come into force:
    /// `refuse` lets none begin until it can, `keep` goes on with the last policy that could. Default: `refuse`.
    #[serde(alias = "onBadReload")]
    pub(crate) on_bad_reload: Given<OnBadReloadWord>,
    /// A second, whole configuration that is decided beside this one, and only recorded: `toolgate policy shadow` shows where
    /// it would have said something else. A relative path begins at this file. Default: none.
    pub(crate) shadow: Given<String>,
}

/// How often tools may be called.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RateLimit {
    /// This many calls at most …
    #[serde(alias = "maxCalls")]
    pub(crate) max_calls: Given<u64>,
    /// … in this many milliseconds, 31 days at most.
    #[serde(alias = "windowMs")]
    pub(crate) window_ms: Given<u64>,
}

/// How much one call may use. What is left out is as the tool has it.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResourceLimit {
    /// How long it may take, in milliseconds.
    #[serde(alias = "durationMs")]
    pub(crate) duration_ms: Given<u64>,
    /// Memory, such as `512m`.
    pub(crate) memory: Given<String>,
    /// Processors, such as `"1.5"`.
    pub(crate) cpu: Given<String>,
    /// Processes and threads at once.
    pub(crate) processes: Given<u32>,
    /// What it may add to the disk, such as `1g`.
    pub(crate) disk: Given<String>,
    /// Output that is kept of it, such as `1m`.
    pub(crate) output: Given<String>,
}
