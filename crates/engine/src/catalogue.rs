//! The tools there are, and who may see which.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, Category, Contract, ToolName, ToolStatus, nearest};
use policy::{GrantLimits, Settings, Sight, ToolFacts};
use store::ToolRow;
use thiserror::Error;
use tools::Tool;

use crate::disclosure::Discovery;

/// Why a set of tools is not a catalogue.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// A name stands twice.
    #[error("there are two tools named `{name}`")]
    Duplicate {
        /// The name.
        name: ToolName,
    },
    /// Two names look the same.
    #[error("the tool names `{first}` and `{second}` look the same")]
    LookAlike {
        /// The one that came first.
        first: ToolName,
        /// The other.
        second: ToolName,
    },
    /// The gate itself has a tool of that name.
    #[error("a tool is named `{name}`, which is or looks like `{taken}`, a name of the gate's own")]
    Taken {
        /// The name.
        name: ToolName,
        /// The gate's own.
        taken: &'static str,
    },
}

/// One tool with what the registry says of it.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) facts: ToolFacts,
}

/// What operators have set in the registry about a tool. It makes a tool stricter than its contract, and never less:
/// whoever writes the table has no key.
pub(crate) struct SetByOperators {
    pub(crate) status: ToolStatus,
    pub(crate) requires_approval: bool,
}

impl Listed {
    pub(crate) fn of(
        tool: Arc<dyn Tool>,
        set: SetByOperators,
        timeouts: &BTreeMap<Category, Duration>,
    ) -> Listed {
        let contract = tool.contract();
        let definition = contract.definition();
        let facts = ToolFacts {
            name: contract.name().clone(),
            hash: contract.hash(),
            category: definition.category,
            safety: definition.safety,
            least: tool.least_safety(),
            egress: definition.egress,
            status: set.status,
            trust: contract.trust(),
            requires_approval: set.requires_approval || ToolRow::of(contract).requires_approval,
            limits: limits_of(contract, timeouts),
        };
        Listed { tool, facts }
    }
}

/// All tools, by name.
#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    listed: BTreeMap<ToolName, Listed>,
}

impl Catalogue {
    /// Puts tools together; two that could be taken for each other are refused.
    pub(crate) fn new(tools: Vec<Listed>) -> Result<Catalogue, CatalogueError> {
        let mut looks: BTreeMap<String, ToolName> = BTreeMap::new();
        let mut catalogue = Catalogue::default();
        for listed in tools {
            let name = listed.tool.contract().name().clone();
            if catalogue.listed.contains_key(&name) {
                return Err(CatalogueError::Duplicate { name });
            }
            // ATTACK(tool-named-call-tool): whoever has that name would hear what is meant for all others.
            if let Some(taken) = Discovery::takes(&name.look()) {
                return Err(CatalogueError::Taken { name, taken });
            }
            // ATTACK(look-alike-tool)
            if let Some(first) = looks.insert(name.look(), name.clone()) {
                return Err(CatalogueError::LookAlike { first, second: name });
            }
            catalogue.listed.insert(name, listed);
        }
        Ok(catalogue)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Listed> {
        self.listed.get(&ToolName::parse(name).ok()?)
    }

    /// The contracts that an agent may know of.
    pub(crate) fn visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<&Contract> {
        let Some(agent) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(agent, settings);
        let visible = self.listed.values().filter(|listed| sight.sees(&listed.facts));
        visible.map(|listed| listed.tool.contract()).collect()
    }

    /// The tools that an agent may know of.
    pub(crate) fn tools_visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<Arc<dyn Tool>> {
        let Some(agent) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(agent, settings);
        let visible = self.listed.values().filter(|listed| sight.sees(&listed.facts));
        visible.map(|listed| Arc::clone(&listed.tool)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.listed.len()
    }

    /// What an agent may have meant, among the tools it may know of.
    pub(crate) fn nearest(&self, name: &str, agent: &AgentName, settings: &Settings) -> Option<String> {
        let visible = self.visible_to(agent, settings);
        nearest(name, visible.iter().map(|contract| contract.name().as_str())).map(str::to_owned)
    }
}

/// The most that a call of a tool may use.
fn limits_of(contract: &Contract, timeouts: &BTreeMap<Category, Duration>) -> GrantLimits {
    let own = contract.timeout();
    let timeout = timeouts.get(&contract.definition().category).map_or(own, |most| own.min(*most));
    GrantLimits { timeout, ..GrantLimits::default() }
}
