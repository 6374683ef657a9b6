//! The keys of rules in Cedar, under `policy`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::at::{At, Given};
use crate::config::word::{AutonomyWord, ExpectWord, LevelWord, SeniorityWord};

/// One rule in Cedar.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CedarRuleFile {
    /// Its text: one `forbid (…) when {…};`, with `@effect("ask")` for one that asks. Must be given.
    pub(crate) cedar: Given<String>,
    /// Its name, where the text has no `@id`. Default: none.
    pub(crate) id: Given<String>,
    /// Calls, and what the rule says about them. They are checked whenever this file is read. Default: none.
    pub(crate) examples: Given<Vec<At<RuleExampleFile>>>,
}

/// A call, and what a rule says about it.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleExampleFile {
    /// Who calls. Default: an agent at level `standard` with autonomy `semi`.
    pub(crate) agent: Given<ExampleAgentFile>,
    /// Which built-in tool. Must be given.
    pub(crate) tool: Given<String>,
    /// With which arguments. Default: none.
    pub(crate) arguments: Given<Map<String, Value>>,
    /// The task that the call belongs to. Default: none.
    pub(crate) task: Given<String>,
    /// When, such as `2026-01-31T18:30:00Z`. Default: noon of a Monday.
    pub(crate) at: Given<String>,
    /// What the agent has spent already: today, this week and this month. Default: 0.
    pub(crate) spent: Given<f64>,
    /// What the rule says. Must be given.
    pub(crate) expect: Given<ExpectWord>,
}

/// Who calls in an example.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExampleAgentFile {
    /// Its name. Default: `default`.
    pub(crate) name: Given<String>,
    /// Its level. Default: `standard`.
    pub(crate) level: Given<LevelWord>,
    /// Its autonomy. Default: `semi`.
    pub(crate) autonomy: Given<AutonomyWord>,
    /// Its role, one of `roles`. Default: none.
    pub(crate) role: Given<String>,
    /// Its seniority. Default: none.
    pub(crate) seniority: Given<SeniorityWord>,
}
