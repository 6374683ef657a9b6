//! Which names a rule uses: a slip in one would make it a rule about nothing.

use std::collections::BTreeSet;

use cedar_policy::Policy;
use serde_json::Value;

use super::words::Odd;

/// What a rule can ask of each thing that it sees. docs/guide/policies.md says what they mean.
const ATTRIBUTES: [(&str, &[&str]); 3] = [
    ("principal", &["level", "autonomy", "role", "seniority"]),
    ("resource", &["category", "safety", "egress", "trust"]),
    ("context", &["arguments", "task", "hosts", "commands", "hour", "weekday", "cost", "spend"]),
];

const TYPES: [&str; 3] = ["Agent", "Action", "Tool"];

/// Something that a rule names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// An agent.
    Agent(String),
    /// An action, or a category of actions.
    Action(String),
    /// A tool.
    Tool(String),
}

/// Which arguments of a call a rule reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Those of these names.
    Names(BTreeSet<String>),
    /// It looks at all of them together.
    All,
}

impl Reads {
    /// Whether it looks at one.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Reads::Names(names) => names.contains(name),
            Reads::All => true,
        }
    }
}

/// Everything that a rule names, of the types there are.
pub(super) fn entities_of(policy: &Policy) -> Vec<Named> {
    let named = policy.entity_literals().into_iter().filter_map(|uid| {
        let id = uid.id().unescaped().to_owned();
        match uid.type_name().to_string().as_str() {
            "Agent" => Some(Named::Agent(id)),
            "Action" => Some(Named::Action(id)),
            "Tool" => Some(Named::Tool(id)),
            _ => None,
        }
    });
    let named: BTreeSet<Named> = named.collect();
    named.into_iter().collect()
}

/// What a rule names that there is not, from the tree of its text.
pub(super) fn check(tree: &Value) -> Vec<Odd> {
    let mut problems = BTreeSet::new();
    check_below(tree, &mut problems);
    problems.into_iter().collect()
}

fn check_below(tree: &Value, problems: &mut BTreeSet<Odd>) {
    match tree {
        Value::Object(members) => {
            for (key, value) in members {
                match key.as_str() {
                    "." | "has" => check_attribute(key, value, problems),
                    "type" | "entity_type" => check_type(value, problems),
                    _ => {}
                }
                check_below(value, problems);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_below(item, problems)),
        _ => {}
    }
}

fn check_attribute(operator: &str, access: &Value, problems: &mut BTreeSet<Odd>) {
    let of = access.get("left").and_then(variable);
    let attribute = access.get("attr").and_then(Value::as_str);
    let (Some(of), Some(attribute)) = (of, attribute) else { return };
    let known = ATTRIBUTES.iter().find(|(name, _)| *name == of).map_or(&[][..], |(_, known)| *known);
    if !known.contains(&attribute) {
        let written =
            if operator == "has" { format!("{of} has {attribute}") } else { format!("{of}.{attribute}") };
        let why = unknown(&format!("`{of}` has no attribute"), attribute, known);
        problems.insert(Odd { written, why });
    }
}

fn check_type(name: &Value, problems: &mut BTreeSet<Odd>) {
    if let Some(name) = name.as_str().filter(|name| !TYPES.contains(name)) {
        problems
            .insert(Odd { written: name.to_owned(), why: unknown("there is no entity type", name, &TYPES) });
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    let near = contract::nearest(name, known.iter().copied());
    let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
    format!("{what} `{}`; there is {listed}{near}", name.escape_debug())
}

/// Which arguments a rule reads, from the tree of its text. What is not plainly one of them is all of them.
pub(super) fn reads_of(tree: &Value) -> Reads {
    let mut names = BTreeSet::new();
    match collect_reads(tree, &mut names) {
        true => Reads::Names(names),
        false => Reads::All,
    }
}

/// Whether all that is read below has a name.
fn collect_reads(tree: &Value, names: &mut BTreeSet<String>) -> bool {
    if variable(tree) == Some("context") {
        return false;
    }
    match tree {
        Value::Object(members) => members.iter().all(|(key, value)| match access(key, value) {
            Some((left, name)) if is_arguments(left) => {
                names.insert(name.to_owned());
                true
            }
            // Whether there are arguments at all says nothing about them: there always are.
            Some((left, "arguments")) if variable(left) == Some("context") => key == "has",
            Some((left, _)) if variable(left) == Some("context") => true,
            Some((left, _)) => collect_reads(left, names),
            None => collect_reads(value, names),
        }),
        Value::Array(items) => items.iter().all(|item| collect_reads(item, names)),
        _ => true,
    }
}

/// Whether a rule asks for something of the context by its name, from the tree of its text.
pub(super) fn reads_context(tree: &Value, wanted: &str) -> bool {
    // The whole of it, by whatever way: it may be asked for anything.
    if variable(tree) == Some("context") {
        return true;
    }
    match tree {
        Value::Object(members) => members.iter().any(|(key, value)| match access(key, value) {
            Some((left, name)) if variable(left) == Some("context") => name == wanted,
            _ => reads_context(value, wanted),
        }),
        Value::Array(items) => items.iter().any(|item| reads_context(item, wanted)),
        _ => false,
    }
}

/// What is asked for which attribute.
fn access<'a>(key: &str, value: &'a Value) -> Option<(&'a Value, &'a str)> {
    if key != "." && key != "has" {
        return None;
    }
    Some((value.get("left")?, value.get("attr")?.as_str()?))
}

fn is_arguments(tree: &Value) -> bool {
    let accessed = tree.get(".").and_then(|value| access(".", value));
    accessed.is_some_and(|(left, name)| variable(left) == Some("context") && name == "arguments")
}

fn variable(tree: &Value) -> Option<&str> {
    tree.get("Var").and_then(Value::as_str)
}
