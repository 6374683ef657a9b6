//! The tools there are, where they come from, and who may see which.
//!
//! A catalogue never changes: another takes its place. So a call goes on with the one that it was admitted with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, Category, Contract, SourceName, ToolName, ToolStatus, nearest};
use policy::{GrantLimits, Settings, Sight, ToolFacts};
use store::ToolRow;
use thiserror::Error;
use tools::Tool;

use crate::disclosure::Discovery;

/// Why a set of tools is not a catalogue, or a tool has no place in one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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
pub(crate) struct Listed {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) facts: ToolFacts,
    /// Nothing for our own.
    pub(crate) source: Option<SourceName>,
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
        Listed { tool, facts, source: None }
    }

    pub(crate) fn from_source(self, source: &SourceName) -> Listed {
        Listed { source: Some(source.clone()), ..self }
    }

    /// Its contract, under the label that it has by now.
    pub(crate) fn contract(&self) -> Contract {
        self.tool.contract().labelled(self.facts.trust)
    }
}

/// All tools, by name.
#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    listed: BTreeMap<ToolName, Arc<Listed>>,
    looks: BTreeMap<String, ToolName>,
    /// Every tool that the store has ever had: what was spent with one that is gone is spent.
    pub(crate) registered: Arc<BTreeSet<ToolName>>,
}

impl Catalogue {
    /// Puts tools together; two that could be taken for each other are refused.
    pub(crate) fn new(tools: Vec<Listed>) -> Result<Catalogue, CatalogueError> {
        let mut catalogue = Catalogue::default();
        for listed in tools {
            let name = listed.tool.contract().name().clone();
            catalogue.reserve(&name)?;
            catalogue.listed.insert(name, Arc::new(listed));
        }
        Ok(catalogue)
    }

    /// Takes a name, unless it is taken or could be taken for one that is.
    pub(crate) fn reserve(&mut self, name: &ToolName) -> Result<(), CatalogueError> {
        let look = name.look();
        // ATTACK(tool-named-call-tool): whoever has that name would hear what is meant for all others.
        if let Some(taken) = Discovery::takes(&look) {
            return Err(CatalogueError::Taken { name: name.clone(), taken });
        }
        match self.looks.get(&look) {
            // ATTACK(shadowed-tool)
            Some(first) if first == name => Err(CatalogueError::Duplicate { name: name.clone() }),
            // ATTACK(look-alike-tool)
            Some(first) => Err(CatalogueError::LookAlike { first: first.clone(), second: name.clone() }),
            None => {
                self.looks.insert(look, name.clone());
                Ok(())
            }
        }
    }

    /// The same without what comes from a source.
    pub(crate) fn without(&self, source: &SourceName) -> Catalogue {
        let kept = self.listed.iter().filter(|(_, listed)| listed.source.as_ref() != Some(source));
        let listed: BTreeMap<_, _> = kept.map(|(name, listed)| (name.clone(), Arc::clone(listed))).collect();
        let looks = listed.keys().map(|name| (name.look(), name.clone())).collect();
        Catalogue { listed, looks, registered: Arc::clone(&self.registered) }
    }

    /// Puts in a tool whose name was taken for it.
    pub(crate) fn put(&mut self, listed: Listed) {
        self.listed.insert(listed.tool.contract().name().clone(), Arc::new(listed));
    }

    /// The same with all from somewhere that another one has.
    pub(crate) fn with_imports_of(mut self, other: &Catalogue) -> Catalogue {
        for (name, listed) in other.listed.iter().filter(|(_, listed)| listed.source.is_some()) {
            if self.reserve(name).is_ok() {
                self.listed.insert(name.clone(), Arc::clone(listed));
            }
        }
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Listed> {
        self.listed.get(&ToolName::parse(name).ok()?).map(AsRef::as_ref)
    }

    /// Whether another one lists the same under this name.
    pub(crate) fn lists_as(&self, other: &Catalogue, name: &str) -> bool {
        match (self.find(name), other.find(name)) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Those of one source.
    pub(crate) fn of_source(&self, source: &SourceName) -> impl Iterator<Item = &Listed> {
        let listed = self.listed.values().map(AsRef::as_ref);
        listed.filter(move |listed| listed.source.as_ref() == Some(source))
    }

    /// The contracts that an agent may know of.
    pub(crate) fn visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<Contract> {
        let Some(agent) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(agent, settings);
        let visible = self.listed.values().filter(|listed| sight.sees(&listed.facts));
        visible.map(|listed| listed.contract()).collect()
    }

    /// The tools that an agent may know of.
    pub(crate) fn tools_visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<Arc<Listed>> {
        let Some(agent) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(agent, settings);
        self.listed.values().filter(|listed| sight.sees(&listed.facts)).map(Arc::clone).collect()
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
