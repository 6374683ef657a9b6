//! The tools there are, where they come from, and who may see which.
//!
//! A catalogue never changes: another takes its place. So a call goes on with the one that it was admitted with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use contract::{
    AgentName, Category, Contract, Finding, SourceName, ToolName, ToolStatus, TrustLabel, nearest,
};
use policy::{Facets, GrantLimits, Settings, Sight, ToolFacts};
use serde_json::Value;
use store::{Pin, Stance, Stances, ToolRow, label_of};
use thiserror::Error;
use tools::Tool;

use crate::disclosure::{CALL_STATUS, DISCOVERY_NAMES, Discovery};

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
    set: SetByOperators,
    /// What is suspicious about it beside others.
    noticed: Vec<Finding>,
}

/// What the table of tools says of one. It makes a tool stricter than its contract, and never less: whoever writes the table
/// has no key.
#[derive(Clone, Copy)]
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
        Listed { tool, facts, source: None, set, noticed: Vec::new() }
    }

    /// The same for one from somewhere, as far as operators have said that it is believed.
    pub(crate) fn brought_by(mut self, source: &SourceName, stance: &Stance) -> Listed {
        self.source = Some(source.clone());
        self.believe(stance);
        self
    }

    /// Its contract, under the label that it has by now.
    pub(crate) fn contract(&self) -> Contract {
        let contract = self.tool.contract().labelled(self.facts.trust);
        if self.noticed.is_empty() { contract } else { contract.with_findings(self.noticed.clone()) }
    }

    /// The same by what operators have said since.
    fn again(&self, stance: &Stance) -> Listed {
        let mut again = Listed {
            tool: Arc::clone(&self.tool),
            facts: self.facts.clone(),
            source: self.source.clone(),
            set: self.set,
            noticed: self.noticed.clone(),
        };
        again.believe(stance);
        again
    }

    /// Only what comes from somewhere is believed or not. Of what nobody has looked at the worst is supposed, and what is not as
    /// somebody has seen it is suspended.
    fn believe(&mut self, stance: &Stance) {
        let contract = self.tool.contract();
        let definition = contract.definition();
        let pin = stance.pin.as_ref().filter(|pin| pin.hash == contract.hash() && !stance.is_suspended);
        // ATTACK(rug-pull)
        let is_another = stance.is_suspended || (stance.pin.is_some() && pin.is_none());
        self.facts.status = match self.set.status {
            _ if stance.is_disabled => ToolStatus::Disabled,
            _ if is_another => ToolStatus::Suspended,
            // A row that is behind what operators have said since.
            ToolStatus::Suspended if pin.is_some() => ToolStatus::Active,
            status => status,
        };
        let own = if contract.findings().is_empty() { TrustLabel::Imported } else { TrustLabel::Untrusted };
        self.facts.trust = label_of(stance, &contract.hash(), own);
        // INVARIANT(lowered-by-a-pin): by an operator's word about this very definition, and by nothing else.
        self.facts.safety = pin.map_or(definition.safety, |pin| pin.safety.min(definition.safety));
        self.facts.egress = pin.map_or(definition.egress, |pin| pin.egress.min(definition.egress));
        self.facts.least = self.facts.safety;
        self.facts.requires_approval = pin.is_none_or(Pin::asks);
    }

    /// What a call does, by what operators have said of its tool.
    pub(crate) fn lowered(&self, facets: Facets) -> Facets {
        match self.source {
            None => facets,
            Some(_) => Facets {
                safety: facets.safety.min(self.facts.safety),
                egress: facets.egress.min(self.facts.egress),
                ..facets
            },
        }
    }

    /// Looks for the names of tools that are not its source's in what its author wrote.
    // ATTACK(speaks-of-a-neighbour)
    pub(crate) fn notice(&mut self, others: &Names) {
        let Some(origin) = &self.tool.contract().definition().origin else { return };
        let mut named = BTreeSet::new();
        others.find_in(&origin.original, &mut named);
        // What it calls itself is no word about another.
        let own = origin.original.get("name").and_then(Value::as_str).map(|own| spelt(&own.to_lowercase()));
        let named = named.into_iter().filter(|name| Some(spelt(name.as_str())) != own).take(MOST_NOTICED);
        self.noticed = named.map(|name| Finding::NamesAnother { tool: name.to_string() }).collect();
    }
}

/// As many other tools as are told that one speaks of.
const MOST_NOTICED: usize = 8;
/// A shorter name is a word of any text.
const SHORTEST_NOTICED: usize = 6;
/// As many parts as a name has that is looked for.
const MOST_PARTS: usize = 8;

/// Names of tools, to be found in texts as models are told them and as people write them: `fs.write`, `fs_write`, `fs-write`.
pub(crate) struct Names(HashMap<String, ToolName>);

/// A name in the one spelling that is looked for.
fn spelt(name: &str) -> String {
    name.replace(['.', '-'], "_")
}

impl Names {
    fn find_in<'a>(&'a self, value: &Value, named: &mut BTreeSet<&'a ToolName>) {
        match value {
            Value::String(text) => self.find_in_text(text, named),
            Value::Array(items) => items.iter().for_each(|item| self.find_in(item, named)),
            Value::Object(members) => members.iter().for_each(|(key, inner)| {
                self.find_in_text(key, named);
                self.find_in(inner, named);
            }),
            _ => {}
        }
    }

    /// A name is found where it is not a part of a longer word.
    fn find_in_text<'a>(&'a self, text: &str, named: &mut BTreeSet<&'a ToolName>) {
        let text = text.to_lowercase();
        for run in text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '-')) {
            let parts: Vec<&str> = run.split(['.', '-']).filter(|part| !part.is_empty()).collect();
            for first in 0..parts.len() {
                let mut name = String::new();
                for part in parts.iter().skip(first).take(MOST_PARTS) {
                    if !name.is_empty() {
                        name.push('_');
                    }
                    name.push_str(part);
                    named.extend(self.0.get(&name));
                }
            }
        }
    }
}

/// Whether a name is none that a tool from somewhere could have: the ways in have it for themselves.
pub(crate) fn is_reserved(name: &ToolName) -> bool {
    let name = name.as_str();
    name == CALL_STATUS || DISCOVERY_NAMES.contains(&name)
}

/// All tools, by name.
#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    listed: BTreeMap<ToolName, Arc<Listed>>,
    looks: BTreeMap<String, ToolName>,
    /// Every tool that the store has ever had: what was spent with one that is gone is spent.
    pub(crate) registered: Arc<BTreeSet<ToolName>>,
    /// What operators had said of tools when it was made.
    pub(crate) stances: Arc<Stances>,
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

    /// The names of all, to be found in texts.
    pub(crate) fn names(&self) -> Names {
        let names = self.listed.keys().filter(|name| name.as_str().len() >= SHORTEST_NOTICED);
        Names(names.map(|name| (spelt(name.as_str()), name.clone())).collect())
    }

    /// Whether a tool of a source could have a name: what has it, or looks like it, is its own.
    pub(crate) fn is_free_for(&self, source: &SourceName, name: &ToolName) -> bool {
        let is_own = |taken: &ToolName| {
            self.listed.get(taken).is_some_and(|listed| listed.source.as_ref() == Some(source))
        };
        self.looks.get(&name.look()).is_none_or(is_own) && !is_reserved(name)
    }

    /// The same by what operators have said since.
    pub(crate) fn believing(&self, stances: &Arc<Stances>) -> Catalogue {
        let again = |(name, listed): (&ToolName, &Arc<Listed>)| {
            let changed = listed.source.is_some() && self.stances.of(name) != stances.of(name);
            let listed = if changed { Arc::new(listed.again(&stances.of(name))) } else { Arc::clone(listed) };
            (name.clone(), listed)
        };
        Catalogue {
            listed: self.listed.iter().map(again).collect(),
            stances: Arc::clone(stances),
            ..self.clone()
        }
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
        Catalogue { listed, looks, ..self.clone() }
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

    /// All of them, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Listed> {
        self.listed.values().map(AsRef::as_ref)
    }

    /// The contracts that an agent may know of.
    pub(crate) fn visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<Contract> {
        let Some(known) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(known, settings);
        let sees = |listed: &&Arc<Listed>| sight.sees(&listed.facts) && listed.tool.is_for(agent);
        let visible = self.listed.values().filter(sees);
        visible.map(|listed| listed.contract()).collect()
    }

    /// The tools that an agent may know of.
    pub(crate) fn tools_visible_to(&self, agent: &AgentName, settings: &Settings) -> Vec<Arc<Listed>> {
        let Some(known) = settings.agents.get(agent) else { return Vec::new() };
        let sight = Sight::of(known, settings);
        // ATTACK(server-of-others-found): what is not for an agent is not there for it.
        let sees = |listed: &&Arc<Listed>| sight.sees(&listed.facts) && listed.tool.is_for(agent);
        self.listed.values().filter(sees).map(Arc::clone).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_found_in_a_text_however_its_name_is_spelt() {
        let of = |name: &str| (spelt(name), ToolName::parse(name).unwrap());
        let names = Names([of("fs.write"), of("mcp_files_read-all"), of("list_tools")].into());
        let found = |value: Value| {
            let mut named = BTreeSet::new();
            names.find_in(&value, &mut named);
            named.into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for text in
            ["use fs.write.", "FS_WRITE", "\nfs-write\n", "x.fs.write", "`fs_write`", "fs.write-first"]
        {
            assert_eq!(found(json!({ "description": text })), ["fs.write"], "{text}");
        }
        assert_eq!(found(json!({ "enum": ["a", { "mcp_files_read_all": 1 }] })), ["mcp_files_read-all"]);
        for text in ["fs.writer", "dfs_write", "fs write", "write", "mcp_files_read"] {
            assert_eq!(found(json!(text)), Vec::<String>::new(), "{text}");
        }
    }
}
