//! Both spellings of every key are read alike, and the schema knows them all.

use std::collections::BTreeSet;

use contract::Schema;
use serde_json::Value;

use super::super::schema;
use super::loaded;

const EVERY_KEY: &str = include_str!("every_key.yaml");

#[test]
fn snake_case_and_camel_case_mean_the_same() {
    let camel: String = EVERY_KEY.lines().map(|line| camel_case_keys(line) + "\n").collect();
    assert_ne!(camel, EVERY_KEY);
    for key in keys_of(&schema()).iter().filter(|key| key.contains('_') && *key != "tool_name") {
        assert!(
            !camel.contains(&format!("{key}:")) || CATEGORIES.contains(&key.as_str()),
            "{key} is still there"
        );
    }
    let (snake, camel) = (loaded(EVERY_KEY), loaded(&camel));
    assert_eq!(snake.meaning, camel.meaning);
    assert_eq!(snake.warnings.len(), camel.warnings.len());
}

#[test]
fn the_sample_has_every_key_of_the_schema() {
    let is_other_spelling = |key: &&String| {
        key.contains(char::is_uppercase) || ["tool_name", "kubernetes", "shell", "fs"].contains(&key.as_str())
    };
    let keys = keys_of(&schema());
    let absent: Vec<&String> = keys
        .iter()
        .filter(|key| !is_other_spelling(key) && !EVERY_KEY.contains(&format!("{key}:")))
        .collect();
    assert_eq!(absent, Vec::<&String>::new());
    assert!(keys.contains("allowed_tools") && keys.contains("allowedTools") && keys.contains("toolName"));
}

#[test]
fn the_schema_accepts_what_is_read_and_refuses_what_is_not() {
    let schema = Schema::compile(&schema()).unwrap();
    let camel: String = EVERY_KEY.lines().map(|line| camel_case_keys(line) + "\n").collect();
    let examples = [
        EVERY_KEY,
        camel.as_str(),
        include_str!("../../commands/starter.yaml"),
        include_str!("../../../tests/examples/sandboxing.yaml"),
        include_str!("../../../tests/examples/system-tools.json"),
        include_str!("../../../tests/examples/tool_access.yaml"),
        include_str!("../../../tests/examples/trust-milestone.yaml"),
        include_str!("../../../tests/examples/trust-per-category.yaml"),
        include_str!("../../../tests/examples/trust-weighted.yaml"),
    ];
    for text in examples {
        let value: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(schema.problems(&value), Vec::<String>::new(), "{text}");
    }
    for text in ["agnets: {}", "agents: { a: { level: standrd } }", "tools: { bash: { timeout_ms: -1 } }"] {
        let value: Value = serde_saphyr::from_str(text).unwrap();
        assert_ne!(schema.problems(&value), Vec::<String>::new(), "{text}");
    }
}

/// Categories are values in the place of keys; they have one spelling.
const CATEGORIES: [&str; 3] = ["file_system", "code_execution", "version_control"];

/// A line with every key in it spelt the other way.
fn camel_case_keys(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for character in line.chars() {
        if character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_' {
            word.push(character);
            continue;
        }
        let is_category = line.contains("initial_levels: {") && word == "file_system";
        if character == ':' && word.contains('_') && !is_category {
            let mut parts = word.split('_');
            let first = parts.next().unwrap_or_default().to_owned();
            word = parts.fold(first, |joined, part| {
                let (head, tail) = part.split_at(1);
                joined + &head.to_ascii_uppercase() + tail
            });
        }
        out.push_str(&word);
        out.push(character);
        word.clear();
    }
    out + &word
}

/// Every key of the schema, at any depth.
fn keys_of(schema: &Value) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        keys.extend(properties.keys().cloned());
    }
    let inner = schema.as_object().into_iter().flat_map(|object| object.values());
    keys.extend(inner.flat_map(keys_of));
    keys
}
