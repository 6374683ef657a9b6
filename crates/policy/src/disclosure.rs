//! How much of its tools an agent is told at once. Decides nothing about calls, and is no part of what names a policy.

use serde::Serialize;

/// When tools are disclosed step by step, and how many tokens each step may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DisclosureSettings {
    /// With fewer tools an agent is told all of them at once.
    pub min_tools: usize,
    /// What may be sent before anything is loaded: level 1 of every tool, and the tools that load others.
    pub l1_token_budget: usize,
    /// What the loaded tools of one agent and task may cost together.
    pub l2_token_budget: usize,
    /// Whether the oldest loaded tool gives way when there is no room.
    #[serde(rename = "auto_unload_on_budget_pressure")]
    pub auto_unload: bool,
    /// How full a context is when loaded tools give way, in per cent.
    pub unload_threshold_percent: u8,
    /// How large a context is, in tokens, where the client does not say.
    pub context_window_tokens: u64,
}

impl Default for DisclosureSettings {
    fn default() -> DisclosureSettings {
        DisclosureSettings {
            min_tools: 30,
            l1_token_budget: 3000,
            l2_token_budget: 15_000,
            auto_unload: true,
            unload_threshold_percent: 80,
            context_window_tokens: 200_000,
        }
    }
}
