//! The keys `prices` and `budgets`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::{OverWord, PerWord, PeriodWord};

/// What calls cost.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Prices {
    /// The one currency of all prices and of all budgets in money, in capital letters. Must be given.
    pub(crate) currency: Given<String>,
    /// For each tool or pattern over tools: what a call costs. Of several that fit, the dearest holds for each unit.
    /// Default: nothing has a price.
    pub(crate) tools: Given<BTreeMap<At<String>, PriceFile>>,
}

/// What one call costs. Amounts are exact to a millionth; what is finer is rounded up.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PriceFile {
    /// A call by itself. Default: 0.
    pub(crate) call: Given<f64>,
    /// Each second that it takes. Default: 0.
    #[serde(alias = "wallSecond")]
    pub(crate) wall_second: Given<f64>,
    /// Each second of a processor. Default: 0.
    #[serde(alias = "cpuSecond")]
    pub(crate) cpu_second: Given<f64>,
    /// Each gigabyte (a thousand million bytes) that it sends. Default: 0.
    #[serde(alias = "gigabyteOut")]
    pub(crate) gigabyte_out: Given<f64>,
}

/// How much some calls may spend in a period.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BudgetFile {
    /// Calls of which tools, all of them together: `web.*`. Default: of all.
    #[serde(alias = "tool")]
    #[schemars(extend("x-spellings" = ["tool"]))]
    pub(crate) tools: Given<String>,
    /// Calls of which agent. Default: of all.
    pub(crate) agent: Given<String>,
    /// Calls for which task. Default: for all, and for none.
    pub(crate) task: Given<String>,
    /// Who has one of its own: each `agent`, each `task` of each agent, or `all` share one. Callers name tasks
    /// themselves, so beside a budget per task there should be another. Default: `all`.
    pub(crate) per: Given<PerWord>,
    /// How much money, by `prices`. This or `calls` must be given.
    pub(crate) limit: Given<f64>,
    /// How many calls.
    pub(crate) calls: Given<u64>,
    /// How often it begins anew: each day, each Monday, or on the first of each month, at midnight UTC. Must be given.
    pub(crate) period: Given<PeriodWord>,
    /// What becomes of calls beyond it: people are asked, or they are denied until it begins anew. Default: `deny`.
    pub(crate) over: Given<OverWord>,
}
