//! On which line each key of a file stands, so that people can be told where a value comes from.
//!
//! Knows no key's meaning: it follows the tree that was typed, and names its branches in our spelling.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::at::At;

/// Names of other systems, and of two keys that have two names, each with the part of the tree where it is one.
const OTHER_NAMES: [(&str, &str, &str); 6] = [
    ("tools", "shell", "bash"),
    ("tools", "fs", "filesystem"),
    ("tools", "file_system", "filesystem"),
    ("sandboxing", "kubernetes", "k8s"),
    ("sandboxing.overrides", "git", "version_control"),
    ("egress.overrides", "git", "version_control"),
];

/// Below these stand names that people give, which have one spelling.
const NAMED_BY_PEOPLE: [&str; 5] =
    ["agents", "roles", "policy.rate_limits", "policy.resource_limits", "tools.http.headers.add"];

/// The line of every key, by its path: `agents.coder.level`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written(BTreeMap<String, u64>);

impl Written {
    /// Where the keys of a tree stand.
    pub(super) fn of(tree: &Branch) -> Written {
        let mut lines = BTreeMap::new();
        collect(tree, "", &mut lines);
        Written(lines)
    }

    /// The line of a key, if it was given.
    pub(crate) fn line(&self, key: &str) -> Option<u64> {
        self.0.get(key).copied()
    }
}

fn collect(branch: &Branch, path: &str, lines: &mut BTreeMap<String, u64>) {
    for (key, below) in &branch.0 {
        let name = if NAMED_BY_PEOPLE.contains(&path) { key.value.clone() } else { ours(path, &key.value) };
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        collect(below, &path, lines);
        lines.insert(path, key.place.line);
    }
}

/// A key in our spelling.
fn ours(path: &str, key: &str) -> String {
    let mut snake = String::new();
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    let other = OTHER_NAMES.iter().find(|(within, name, _)| *within == path && *name == snake);
    other.map_or(snake, |(_, _, name)| (*name).to_owned())
}

/// Keys and what is below them. What is no key has none below it.
#[derive(Debug, Default)]
pub(super) struct Branch(Vec<(At<String>, Branch)>);

impl<'de> Deserialize<'de> for Branch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Branch, D::Error> {
        deserializer.deserialize_any(BranchVisitor)
    }
}

struct BranchVisitor;

impl<'de> Visitor<'de> for BranchVisitor {
    type Value = Branch;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Branch, A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = map.next_entry()? {
            keys.push(key);
        }
        Ok(Branch(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Branch, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Branch::default())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_none<E: Error>(self) -> Result<Branch, E> {
        Ok(Branch::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Branch, D::Error> {
        Branch::deserialize(deserializer)
    }
}
