//! How much of their tools agents are told at once.

use policy::DisclosureSettings;

use super::Reader;
use crate::config::at::Given;
use crate::config::file::File;

/// Less cannot be kept: the tools that find and load others cost about as much.
const LEAST_LEVEL_ONE: u64 = 1500;
/// With less, tools with a few arguments could not be loaded.
const LEAST_LEVEL_TWO: u64 = 1000;
const LEAST_WINDOW: u64 = 1000;
/// More than any context holds.
const MOST_TOKENS: u64 = 100_000_000;

impl Reader {
    pub(super) fn disclosure(&mut self, tree: &File) -> DisclosureSettings {
        let usual = DisclosureSettings::default();
        let Some(given) = tree.tools.get().and_then(|tools| tools.disclosure.get()) else { return usual };
        let min_tools = self.within("min_tools", &given.min_tools, 0, MOST_TOKENS);
        let level_one = self.within("l1_token_budget", &given.l1_token_budget, LEAST_LEVEL_ONE, MOST_TOKENS);
        let level_two = self.within("l2_token_budget", &given.l2_token_budget, LEAST_LEVEL_TWO, MOST_TOKENS);
        let threshold = self.within("unload_threshold_percent", &given.unload_threshold_percent, 1, 100);
        let window =
            self.within("context_window_tokens", &given.context_window_tokens, LEAST_WINDOW, MOST_TOKENS);
        let number =
            |given: Option<u64>, usual: usize| given.and_then(|n| usize::try_from(n).ok()).unwrap_or(usual);
        DisclosureSettings {
            min_tools: number(min_tools, usual.min_tools),
            l1_token_budget: number(level_one, usual.l1_token_budget),
            l2_token_budget: number(level_two, usual.l2_token_budget),
            auto_unload: given.auto_unload_on_budget_pressure.get().copied().unwrap_or(usual.auto_unload),
            unload_threshold_percent: threshold
                .and_then(|percent| u8::try_from(percent).ok())
                .unwrap_or(usual.unload_threshold_percent),
            context_window_tokens: window.unwrap_or(usual.context_window_tokens),
        }
    }

    fn within(&mut self, name: &str, given: &Given<u64>, least: u64, most: u64) -> Option<u64> {
        let at = given.at()?;
        if (least..=most).contains(&at.value) {
            return Some(at.value);
        }
        self.refuse(at.place, format!("`{name}` is `{}`, not from {least} to {most}", at.value));
        None
    }
}
