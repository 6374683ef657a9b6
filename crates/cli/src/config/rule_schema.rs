//! What rules in Cedar are checked against: the tools that are known when a configuration is read.
//!
//! Tools that are imported later are not among them: rules about those are checked by name alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::{Actions, EgressClass, SafetyClass, ToolStatus};
use policy::{ArgumentTypes, CedarSchema, CedarTool, GrantLimits, Kind, Settings, ToolFacts};
use store::ToolRow;
use tools::Tool;

/// The tools there are, and what rules see of them.
pub(crate) struct KnownTools {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) schema: CedarSchema,
}

impl KnownTools {
    /// Those that are built in. None, if they cannot be made: then no rule can be checked, and the gate does not start either.
    pub(crate) fn of(settings: &Settings, custom_actions: &[String]) -> KnownTools {
        let tools = tools::built_in(settings).unwrap_or_default();
        let known = tools.iter().map(|tool| CedarTool {
            facts: facts_of(&**tool),
            actions: tool.actions().into_iter().map(str::to_owned).collect(),
            kinds: kinds_of(&**tool),
            arguments: Kind::of_schema(tool.contract().input().definition()),
        });
        let roles = settings.roles.keys().map(ToString::to_string).collect();
        let schema = CedarSchema::of(known.collect(), every_action(custom_actions)).with_roles(roles);
        KnownTools { tools, schema }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.contract().name().as_str() == name)
    }

    /// What rules are shown of their arguments.
    pub(crate) fn argument_types(&self) -> ArgumentTypes {
        let contracts = self.tools.iter().map(|tool| tool.contract());
        ArgumentTypes::of(contracts.map(|contract| (contract.name(), contract.input().definition())))
    }
}

fn kinds_of(tool: &dyn Tool) -> Vec<(SafetyClass, EgressClass)> {
    let definition = tool.contract().definition();
    let kinds = tool.kinds();
    match kinds.is_empty() {
        true => vec![(definition.safety, definition.egress)],
        false => kinds.iter().map(|kind| (kind.safety, kind.egress)).collect(),
    }
}

fn every_action(custom: &[String]) -> BTreeSet<String> {
    let mut actions = Actions::default();
    custom.iter().for_each(|action| drop(actions.register(action)));
    actions.iter().map(str::to_owned).collect()
}

/// A tool as a registry has it that nobody has changed.
pub(crate) fn facts_of(tool: &dyn Tool) -> ToolFacts {
    let contract = tool.contract();
    let definition = contract.definition();
    ToolFacts {
        name: contract.name().clone(),
        hash: contract.hash(),
        category: definition.category,
        safety: definition.safety,
        least: tool.least_safety(),
        egress: definition.egress,
        status: ToolStatus::Active,
        trust: contract.trust(),
        requires_approval: ToolRow::of(contract).requires_approval,
        limits: GrantLimits::default(),
    }
}
