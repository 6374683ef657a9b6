//! Looks into the tree of a rule's text, as Cedar writes it in JSON.

use serde_json::{Value, json};

/// Whether one of the nodes below, by its key and what it holds, is what is looked for.
pub(super) fn any_node(tree: &Value, is_it: &dyn Fn(&str, &Value) -> bool) -> bool {
    match tree {
        Value::Object(members) => {
            members.iter().any(|(key, value)| is_it(key, value) || any_node(value, is_it))
        }
        Value::Array(items) => items.iter().any(|item| any_node(item, is_it)),
        _ => false,
    }
}

pub(super) fn has_key(tree: &Value, wanted: &str) -> bool {
    any_node(tree, &|key, _| key == wanted)
}

pub(super) fn mentions(tree: &Value, variable: &str) -> bool {
    any_node(tree, &|key, value| key == "Var" && value == variable)
}

fn is_context(tree: Option<&Value>) -> bool {
    tree.and_then(|tree| tree.get("Var")) == Some(&json!("context"))
}

/// What an access asks for, and of which of the things that rules see.
pub(super) fn attribute_of(access: &Value) -> Option<(&str, &str)> {
    Some((access.get("left")?.get("Var")?.as_str()?, access.get("attr")?.as_str()?))
}

/// Whether it asks with `has` for something of the context.
pub(super) fn asks_for(tree: &Value, name: &str) -> bool {
    any_node(tree, &|key, value| key == "has" && attribute_of(value) == Some(("context", name)))
}

pub(super) fn reads(tree: &Value, name: &str) -> bool {
    any_node(tree, &|key, value| matches!(key, "." | "has") && path_of(value) == Some(vec![name]))
}

/// The way to what is asked for, from `context.arguments` on.
pub(super) fn path_of(access: &Value) -> Option<Vec<&str>> {
    let (left, name) = (access.get("left")?, access.get("attr")?.as_str()?);
    let before = left.get(".")?;
    if is_context(before.get("left")) {
        return (before.get("attr")? == "arguments").then(|| vec![name]);
    }
    let mut path = path_of(before)?;
    path.push(name);
    Some(path)
}

/// The texts that are written there: one, or those of a set.
pub(super) fn literals(tree: &Value) -> Vec<&str> {
    match tree {
        Value::Object(members) => match (members.get("Value"), members.get("Set")) {
            (Some(Value::String(text)), _) => vec![text],
            (_, Some(Value::Array(items))) => items.iter().flat_map(literals).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
