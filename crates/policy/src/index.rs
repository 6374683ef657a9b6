//! Which rules can be about a tool, found without asking each of them.
//!
//! Knows names alone: about which calls of a tool a rule speaks is up to its conditions.
//!
//! # Invariants
//! - Every rule whose pattern fits a tool's name is found for it, and no other, in the order in which the rules stand.

use std::collections::{BTreeMap, HashMap};

use contract::ToolName;

use crate::rule::ApprovalRule;
use crate::settings::ToolGlob;

/// Rules by the tools that they are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleIndex {
    /// Patterns by the text with which every name begins that they fit, and those by their length.
    by_beginning: BTreeMap<usize, HashMap<String, Vec<Indexed>>>,
}

/// One pattern, and where the rules stand that have it.
#[derive(Clone, Debug)]
struct Indexed {
    tool: ToolGlob,
    places: Vec<usize>,
}

impl RuleIndex {
    pub(crate) fn of(rules: &[ApprovalRule]) -> RuleIndex {
        let mut by_pattern: HashMap<&str, Indexed> = HashMap::new();
        for (place, rule) in rules.iter().enumerate() {
            let unseen = || Indexed { tool: rule.tool.clone(), places: Vec::new() };
            by_pattern.entry(rule.tool.as_str()).or_insert_with(unseen).places.push(place);
        }
        let mut index = RuleIndex::default();
        for indexed in by_pattern.into_values() {
            let beginning = indexed.tool.beginning().to_owned();
            let as_long = index.by_beginning.entry(beginning.len()).or_default();
            as_long.entry(beginning).or_default().push(indexed);
        }
        index
    }

    /// Where the rules stand that are about a tool.
    pub(crate) fn about(&self, tool: &ToolName) -> Vec<usize> {
        let name = tool.as_str();
        // INVARIANT(no-rule-is-lost): a pattern fits no name that does not begin as the pattern does.
        let begun = self
            .by_beginning
            .range(..=name.len())
            .filter_map(|(length, patterns)| patterns.get(name.get(..*length)?));
        let fitting = begun.flatten().filter(|indexed| indexed.tool.matches(tool));
        let mut places: Vec<usize> = fitting.flat_map(|indexed| indexed.places.iter().copied()).collect();
        places.sort_unstable();
        places
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::rule::RuleEffect;

    const PIECES: [&str; 15] =
        ["f", "fs", ".", "read", "*", "**", "?", "[fg]", "[!f]", "{fs,git}", "{,s}", "-", "_", "1", "r*d"];
    const NAMES: [&str; 9] =
        ["f", "fs", "fs.read", "fs.reads", "git.push", "g", "gs.read", "fs_1", "f-1.read"];

    fn rules(patterns: &[String]) -> Vec<ApprovalRule> {
        let globs = patterns.iter().filter_map(|text| ToolGlob::parse(text).ok());
        globs.map(|glob| ApprovalRule::about(glob, RuleEffect::Deny, "x:1")).collect()
    }

    proptest! {
        #[test]
        fn the_rules_about_a_tool_are_those_whose_patterns_fit_in_their_order(
            patterns in prop::collection::vec(prop::collection::vec(select(&PIECES[..]), 1..5), 0..12),
        ) {
            let patterns: Vec<String> = patterns.into_iter().map(|pieces| pieces.concat()).collect();
            let rules = rules(&patterns);
            let index = RuleIndex::of(&rules);
            for name in NAMES {
                let name = ToolName::parse(name).unwrap();
                let asked = rules.iter().enumerate().filter(|(_, rule)| rule.tool.matches(&name));
                let asked: Vec<usize> = asked.map(|(place, _)| place).collect();
                prop_assert_eq!(index.about(&name), asked, "{:?} {:?}", name, patterns);
            }
        }
    }

    #[test]
    fn a_rule_about_every_tool_stands_among_the_others_where_it_was_written() {
        let patterns = ["fs.read", "*", "shell", "fs.*", "*", "{fs,git}.*", "fs.read"].map(str::to_owned);
        let about = |name| RuleIndex::of(&rules(&patterns)).about(&ToolName::parse(name).unwrap());
        assert_eq!(about("fs.read"), [0, 1, 3, 4, 5, 6]);
        assert_eq!(about("fs.write"), [1, 3, 4, 5]);
        assert_eq!(about("shell"), [1, 2, 4]);
        assert_eq!(about("other"), [1, 4]);
    }
}
