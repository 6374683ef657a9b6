//! What an agent has loaded for a task, and what it costs.
//!
//! Pure arithmetic: who asks, and what tools there are, is known elsewhere.
//!
//! # Invariants
//! - What is loaded never costs more than its budget.
//! - What gives way is the oldest, and never the one just loaded.

use std::collections::VecDeque;

use contract::{Digest, ToolName};
use policy::DisclosureSettings;

/// The tools of one agent and task that are loaded, in the order of loading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loaded {
    tools: VecDeque<OneLoaded>,
    /// About as many tokens as were sent for this task.
    sent: u64,
    /// How full the client says that its context is.
    reported: Option<Context>,
}

/// One tool, in the version that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OneLoaded {
    pub(super) name: ToolName,
    pub(super) hash: Digest,
    pub(super) tokens: usize,
}

/// How full a context is, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// How much of it is in use.
    pub used: u64,
    /// How large it is.
    pub window: u64,
}

/// Why a tool cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Not even alone.
    TooLarge,
    /// Not beside those that are loaded, which do not give way.
    Full {
        /// What those cost.
        in_use: usize,
    },
}

impl Loaded {
    /// Loads a tool. Those that had to give way are returned, the oldest first.
    pub(super) fn load(
        &mut self,
        tool: OneLoaded,
        settings: &DisclosureSettings,
    ) -> Result<Vec<ToolName>, NoRoom> {
        let budget = settings.l2_token_budget;
        if tool.tokens > budget {
            return Err(NoRoom::TooLarge);
        }
        let others = |one: &&OneLoaded| one.name != tool.name;
        let in_use: usize = self.tools.iter().filter(others).map(|one| one.tokens).sum();
        if in_use.saturating_add(tool.tokens) > budget && !settings.auto_unload {
            return Err(NoRoom::Full { in_use });
        }
        self.tools.retain(|one| one.name != tool.name);
        self.sent = self.sent.saturating_add(tool.tokens as u64);
        self.tools.push_back(tool);
        let mut gone = Vec::new();
        while self.tokens() > budget {
            gone.extend(self.unload_oldest());
        }
        gone.extend(self.give_way(settings));
        Ok(gone)
    }

    /// Notes what was sent, and what the client says of its context; returns what has to give way for it.
    pub(super) fn note(
        &mut self,
        sent: u64,
        reported: Option<Context>,
        settings: &DisclosureSettings,
    ) -> Vec<ToolName> {
        self.sent = self.sent.saturating_add(sent);
        if let Some(reported) = reported {
            self.reported = Some(reported);
            self.sent = 0;
        }
        // No context holds more than its window: the client has left out what was before.
        if self.estimated(settings).used > settings.context_window_tokens {
            self.reported = None;
            self.sent = self.tokens() as u64;
        }
        self.give_way(settings)
    }

    /// Forgets tools that are no longer there, or no longer the same. Those are returned.
    pub(super) fn keep(&mut self, is_same: impl Fn(&OneLoaded) -> bool) -> Vec<ToolName> {
        let gone = self.tools.iter().filter(|one| !is_same(one)).map(|one| one.name.clone()).collect();
        self.tools.retain(is_same);
        gone
    }

    pub(super) fn has(&self, name: &ToolName) -> bool {
        self.tools.iter().any(|one| one.name == *name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|one| &one.name)
    }

    pub(super) fn tokens(&self) -> usize {
        self.tools.iter().map(|one| one.tokens).sum()
    }

    /// How full the context is: as reported, and what was sent since.
    fn estimated(&self, settings: &DisclosureSettings) -> Context {
        let Context { used, window } =
            self.reported.unwrap_or(Context { used: 0, window: settings.context_window_tokens });
        Context { used: used.saturating_add(self.sent), window }
    }

    /// Unloads the oldest until the context is less full than the threshold, or one is left: the one just loaded.
    fn give_way(&mut self, settings: &DisclosureSettings) -> Vec<ToolName> {
        let mut gone = Vec::new();
        if !settings.auto_unload {
            return gone;
        }
        let Context { used, window } = self.estimated(settings);
        let most = window.saturating_mul(u64::from(settings.unload_threshold_percent)) / 100;
        let mut freed = 0_u64;
        while self.tools.len() > 1 && used.saturating_sub(freed) >= most {
            freed = freed.saturating_add(self.tools.front().map_or(0, |one| one.tokens as u64));
            gone.extend(self.unload_oldest());
        }
        gone
    }

    fn unload_oldest(&mut self) -> Option<ToolName> {
        self.tools.pop_front().map(|one| one.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DisclosureSettings {
        DisclosureSettings {
            l2_token_budget: 100,
            context_window_tokens: 1000,
            ..DisclosureSettings::default()
        }
    }

    fn tool(name: &str, tokens: usize) -> OneLoaded {
        OneLoaded { name: ToolName::parse(name).unwrap(), hash: Digest::of(name.as_bytes()), tokens }
    }

    fn names(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
        names.into_iter().map(|name| name.as_ref().to_owned()).collect()
    }

    fn loaded(tools: &[(&str, usize)]) -> Loaded {
        let mut loaded = Loaded::default();
        for (name, tokens) in tools {
            loaded.load(tool(name, *tokens), &settings()).unwrap();
        }
        loaded
    }

    fn has(loaded: &Loaded) -> Vec<String> {
        names(loaded.names().map(ToolName::as_str))
    }

    #[test]
    fn the_oldest_gives_way_and_the_one_just_loaded_stays() {
        let mut all = loaded(&[("a", 40), ("b", 40)]);
        let gone = all.load(tool("c", 90), &settings()).unwrap();
        assert_eq!(names(gone.iter().map(ToolName::as_str)), ["a", "b"]);
        assert_eq!((has(&all), all.tokens()), (names(["c"]), 90));
    }

    #[test]
    fn what_is_loaded_again_is_the_newest_and_counts_once() {
        let mut all = loaded(&[("a", 40), ("b", 40), ("a", 40)]);
        assert_eq!((has(&all), all.tokens()), (names(["b", "a"]), 80));
        all.load(tool("c", 40), &settings()).unwrap();
        assert_eq!(has(&all), ["a", "c"]);
    }

    #[test]
    fn without_unloading_a_full_budget_refuses_and_nothing_changes() {
        let kept = DisclosureSettings { auto_unload: false, ..settings() };
        let mut all = loaded(&[("a", 60)]);
        let before = all.clone();
        assert_eq!(all.load(tool("b", 41), &kept), Err(NoRoom::Full { in_use: 60 }));
        assert_eq!(all.load(tool("b", 101), &kept), Err(NoRoom::TooLarge));
        assert_eq!(all, before);
        assert_eq!(all.load(tool("b", 40), &kept), Ok(Vec::new()));
        assert_eq!(all.note(0, Some(Context { used: 999, window: 1000 }), &kept), Vec::<ToolName>::new());
    }

    #[test]
    fn a_context_that_fills_up_makes_the_oldest_give_way_until_it_is_below_the_threshold() {
        let mut all = loaded(&[("a", 30), ("b", 30), ("c", 30)]);
        assert_eq!(
            all.note(0, Some(Context { used: 799, window: 1000 }), &settings()),
            Vec::<ToolName>::new()
        );
        let gone = all.note(0, Some(Context { used: 829, window: 1000 }), &settings());
        assert_eq!(names(gone.iter().map(ToolName::as_str)), ["a"]);
        let gone = all.note(0, Some(Context { used: 1000, window: 1000 }), &settings());
        assert_eq!(names(gone.iter().map(ToolName::as_str)), ["b"]);
        assert_eq!(has(&all), ["c"], "the one just loaded stays however full it is");
    }

    #[test]
    fn without_a_report_what_was_sent_is_what_counts_and_it_starts_anew_beyond_the_window() {
        let mut all = loaded(&[("a", 30), ("b", 30)]);
        assert_eq!(all.note(700, None, &settings()), Vec::<ToolName>::new());
        assert_eq!(all.note(40, None, &settings()).len(), 1, "800 of 1000");
        assert_eq!(all.note(900, None, &settings()), Vec::<ToolName>::new());
        assert_eq!(all.sent, 30, "what is loaded is all that is certainly there");
    }

    #[test]
    fn what_has_changed_is_not_loaded_any_more() {
        let mut all = loaded(&[("a", 30), ("b", 30)]);
        let gone = all.keep(|one| one.name.as_str() != "a");
        assert_eq!(names(gone.iter().map(ToolName::as_str)), ["a"]);
        assert_eq!(has(&all), ["b"]);
    }
}
