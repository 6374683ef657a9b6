//! The schema of what rules see, made from the contracts of tools.
//!
//! Cedar has one type for the context of an action, and the arguments of tools differ. So there is one schema for each tool,
//! and one for editors, in which everything that any tool takes may be there.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{Schema, SchemaFragment};
use contract::{EgressClass, SafetyClass};
use serde_json::{Map, Value, json};

use super::types::{Kind, Member, UNSHOWN};
use crate::facts::ToolFacts;

/// What rules see of agents and tools.
pub(super) const PRINCIPAL: [&str; 4] = ["level", "autonomy", "role", "seniority"];
pub(super) const RESOURCE: [&str; 4] = ["category", "safety", "egress", "trust"];

/// What rules see of a call besides its arguments, and whether it is there for every call. What is added here is to be shown
/// in `sight`, too.
const CONTEXT: [(&str, Shape, bool); 5] = [
    ("hour", Shape::Long, true),
    ("weekday", Shape::String, true),
    ("task", Shape::String, false),
    ("hosts", Shape::Strings, false),
    ("commands", Shape::Strings, false),
];

#[derive(Clone, Copy)]
enum Shape {
    Long,
    String,
    Strings,
}

/// One tool, as far as rules see it.
#[derive(Clone, Debug)]
pub struct CedarTool {
    /// As it is registered.
    pub facts: ToolFacts,
    /// What calls of it can be.
    pub actions: BTreeSet<String>,
    /// How dangerous its calls can be, and what leaves the machine.
    pub kinds: Vec<(SafetyClass, EgressClass)>,
    /// What it takes.
    pub arguments: Kind,
}

impl CedarTool {
    /// Whether no call of it can have an argument of this name.
    pub(crate) fn surely_lacks(&self, name: &str) -> bool {
        matches!(&self.arguments, Kind::Record(members) if !members.contains_key(name))
    }
}

/// Which of the schemas: for one kind of arguments, and calls that are these actions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant<'a> {
    pub(super) arguments: Kind,
    /// What calls can be.
    pub(super) applying: BTreeSet<&'a str>,
    /// What is taken as there for every call, though it may not be.
    pub(super) presumed: Vec<&'static str>,
}

impl Variant<'_> {
    /// The schema, with every action there is.
    pub(super) fn schema(&self, actions: &BTreeSet<String>) -> Result<Schema, String> {
        Schema::from_json_value(self.to_json(actions)).map_err(|error| error.to_string())
    }

    fn to_json(&self, actions: &BTreeSet<String>) -> Value {
        let mut context = BTreeMap::from([(
            "arguments".to_owned(),
            Member { kind: self.arguments.clone(), required: true },
        )]);
        context.extend(CONTEXT.map(|(name, shape, required)| {
            let kind = match shape {
                Shape::Long => Kind::Long,
                Shape::String => Kind::String,
                Shape::Strings => Kind::Set(Box::new(Kind::String)),
            };
            (name.to_owned(), Member { kind, required: required || self.presumed.contains(&name) })
        }));
        let applies = json!({
            "principalTypes": ["Agent"],
            "resourceTypes": ["Tool"],
            "context": Kind::Record(context).to_schema(),
        });
        let mut declared = Map::new();
        for action in actions {
            let category = action.split(':').next().unwrap_or_default();
            declared.entry(category.to_owned()).or_insert(json!({}));
            let member_of = json!([{ "id": category }]);
            let entry = match self.applying.contains(action.as_str()) {
                true => json!({ "memberOf": member_of, "appliesTo": applies }),
                false => json!({ "memberOf": member_of }),
            };
            declared.insert(action.clone(), entry);
        }
        let texts = |names: &[&str]| {
            let members =
                names.iter().map(|name| ((*name).to_owned(), Member { kind: Kind::String, required: true }));
            json!({ "shape": Kind::Record(members.collect()).to_schema() })
        };
        let types = json!({ "Agent": texts(&PRINCIPAL), "Tool": texts(&RESOURCE), UNSHOWN: {} });
        json!({ "": { "entityTypes": types, "actions": declared } })
    }
}

/// The schema for editors: that of one tool, or of all of them together.
pub(super) fn for_editors(
    arguments: &Kind,
    applying: BTreeSet<&str>,
    actions: &BTreeSet<String>,
) -> (Value, Result<String, String>) {
    let json = Variant { arguments: arguments.clone(), applying, presumed: Vec::new() }.to_json(actions);
    let text = SchemaFragment::from_json_value(json.clone())
        .map_err(|error| error.to_string())
        .and_then(|schema| schema.to_cedarschema().map_err(|error| error.to_string()));
    (json, text)
}

/// What calls of any of the tools may take. What two of them take as different things is of several kinds.
pub(super) fn together<'a>(tools: impl Iterator<Item = &'a CedarTool>) -> Kind {
    let mut members: BTreeMap<String, Member> = BTreeMap::new();
    for tool in tools {
        let Kind::Record(own) = &tool.arguments else { continue };
        for (name, member) in own {
            let kind = match members.get(name) {
                Some(other) if other.kind != member.kind => Kind::Unshown("of several kinds"),
                _ => member.kind.clone(),
            };
            members.insert(name.clone(), Member { kind, required: false });
        }
    }
    Kind::Record(members)
}
