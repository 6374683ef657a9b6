//! Which rules can be about a call, found without evaluating each of them.
//!
//! Knows the names in their scopes alone: `resource == Tool::"x"`, `action == Action::"y"`, `action in …`.
//!
//! # Invariants
//! - Every rule whose scope fits a call is found for it, in the order in which the rules stand.

use std::collections::HashMap;

use contract::{Action, ToolName};

use super::read::CedarRule;

/// Rules by what their scopes name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CedarIndex {
    by_tool: HashMap<String, Vec<usize>>,
    /// By actions, and by categories of actions.
    by_action: HashMap<String, Vec<usize>>,
    /// Those whose scopes name neither.
    always: Vec<usize>,
}

impl CedarIndex {
    pub(crate) fn of(rules: &[CedarRule]) -> CedarIndex {
        let mut index = CedarIndex::default();
        for (place, rule) in rules.iter().enumerate() {
            let (by, names) = match (rule.tool(), rule.actions()) {
                (Some(tool), _) => (&mut index.by_tool, vec![tool]),
                (None, Some(actions)) => (&mut index.by_action, actions),
                (None, None) => {
                    index.always.push(place);
                    continue;
                }
            };
            names.into_iter().for_each(|name| by.entry(name).or_default().push(place));
        }
        index
    }

    /// Where the rules stand that can be about a call of this tool that is this action.
    pub(crate) fn about(&self, tool: &ToolName, action: &Action) -> Vec<usize> {
        let found = [
            self.by_tool.get(tool.as_str()),
            self.by_action.get(action.as_str()),
            self.by_action.get(action.category()),
            Some(&self.always),
        ];
        let mut places: Vec<usize> = found.into_iter().flatten().flatten().copied().collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}
