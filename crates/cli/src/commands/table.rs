//! A configuration for people: names as they stand in the file, values, and where these come from, in three columns that a
//! terminal has room for.
//!
//! Programs get the tree as it is.

use serde_json::{Map, Value};

use super::origin::name_in_the_file;

/// How wide a value gets before it goes on in the next line.
const WIDEST_VALUE: usize = 32;
/// And how wide at the least, where names are long.
const NARROWEST_VALUE: usize = 20;
/// What is left to a name and a value before `toolgate.yaml:100`, in 80 columns with two between each.
const BEFORE_SOURCE: usize = 59;

/// One line; a heading has neither value nor source.
struct Row {
    indent: usize,
    name: String,
    value: String,
    source: Option<String>,
}

/// The tree in which each value stands beside where it comes from, as text.
pub(super) fn as_text(tree: &Value) -> String {
    let mut named = Map::new();
    rename(tree, &mut Vec::new(), &mut named);
    let rows_in = |width| {
        let mut rows = Vec::new();
        collect_rows(&named, 0, width, &mut rows);
        rows
    };
    let rows: Vec<Row> = rows_in(WIDEST_VALUE);
    let names = rows.iter().filter(|row| row.source.is_some());
    let names = names.map(|row| row.indent + row.name.chars().count()).max().unwrap_or(0);
    let values = BEFORE_SOURCE.saturating_sub(names).clamp(NARROWEST_VALUE, WIDEST_VALUE);
    let rows = if values == WIDEST_VALUE { rows } else { rows_in(values) };
    let mut text = String::new();
    for Row { indent, name, value, source } in &rows {
        let name = format!("{:indent$}{name}", "");
        let line = match source {
            None => name,
            Some(source) => format!("{name:<names$}  {value:<values$}  {source}"),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Puts each value where the file has it.
fn rename<'a>(tree: &'a Value, path: &mut Vec<&'a str>, named: &mut Map<String, Value>) {
    for (name, below) in tree.as_object().into_iter().flatten() {
        path.push(name);
        let is_in_ms = path.first() == Some(&"asking_ms");
        match name_in_the_file(path) {
            Some(key) => {
                let key: Vec<&str> = key.split('.').collect();
                insert(named, &key, if is_in_ms { in_seconds(below) } else { below.clone() });
            }
            None if leaf(below).is_some() => insert(named, path, below.clone()),
            None => rename(below, path, named),
        }
        path.pop();
    }
}

fn insert(named: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            named.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let below = named.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                insert(below, rest, value);
            }
        }
    }
}

/// Times as the file has them.
fn in_seconds(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(whole) if whole % 1000 == 0 => (whole / 1000).into(),
            _ => number.as_f64().map(|milliseconds| milliseconds / 1000.0).into(),
        },
        Value::Array(items) => items.iter().map(in_seconds).collect(),
        Value::Object(entries) => {
            let named =
                |name: &str| if name == "after" { "after_seconds".to_owned() } else { name.to_owned() };
            entries.iter().map(|(name, value)| (named(name), in_seconds(value))).collect()
        }
        other => other.clone(),
    }
}

/// A value and its source, if it is no heading.
fn leaf(tree: &Value) -> Option<(&Value, &str)> {
    Some((tree.get("value")?, tree.get("source")?.as_str()?))
}

fn collect_rows(tree: &Map<String, Value>, indent: usize, width: usize, rows: &mut Vec<Row>) {
    for (name, below) in tree {
        let Some((value, source)) = leaf(below) else {
            rows.push(Row { indent, name: name.clone(), value: String::new(), source: None });
            collect_rows(below.as_object().unwrap_or(&Map::new()), indent + 2, width, rows);
            continue;
        };
        let (values, sources): (Vec<String>, Vec<&str>) =
            (lines_of(value, width), source.split(", ").collect());
        for place in 0..values.len().max(sources.len()) {
            let name = if place == 0 { name.clone() } else { String::new() };
            let value = values.get(place).cloned().unwrap_or_default();
            let source = sources.get(place).copied().unwrap_or_default().to_owned();
            rows.push(Row { indent, name, value, source: Some(source) });
        }
    }
}

/// A value in as many lines as it takes: words of a list beside each other, anything else on a line of its own.
fn lines_of(value: &Value, width: usize) -> Vec<String> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().flat_map(|item| lines_of(item, width)).collect()
        }
        Value::Object(entries) if !entries.is_empty() => match rule_in_cedar(entries) {
            Some(rule) => filled(&rule, " ", width),
            None => filled(&plain(value), ", ", width),
        },
        value => filled(&plain(value), " ", width),
    }
}

/// A text in lines that fit, which end where it has this. What does not fit by itself is not broken: it may be a path, and
/// is to be copied whole.
fn filled(text: &str, between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in text.split_inclusive(between) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + piece.trim_end().chars().count() <= width => {
                line.push_str(piece);
            }
            Some(_) => lines.push(format!("  {piece}")),
            None => lines.push(piece.to_owned()),
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => contract::show_hidden(text),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(entries) if entries.is_empty() => "none".to_owned(),
        Value::Object(entries) => {
            let mut parts = Vec::new();
            collect_parts(entries, "", &mut parts);
            contract::show_hidden(&parts.join(", "))
        }
        other => contract::show_hidden(&other.to_string()),
    }
}

/// A rule by where it stands, where its text can be read.
fn rule_in_cedar(rule: &Map<String, Value>) -> Option<String> {
    let of = |key: &str| rule.get(key).and_then(Value::as_str);
    let (place, _) = (of("place")?, of("text")?);
    let says = match rule.get("effect")?.pointer("/ask/people").and_then(Value::as_u64) {
        None => "forbids".to_owned(),
        Some(1) => "asks".to_owned(),
        Some(people) => format!("asks {people} people"),
    };
    let id = of("id").map(|id| format!(" `{id}`")).unwrap_or_default();
    Some(contract::show_hidden(&format!("{place}{id} {says}")))
}

/// What is set, as `key value`. What is not set is left out; an empty list is set, and means none.
fn collect_parts(entries: &Map<String, Value>, path: &str, parts: &mut Vec<String>) {
    for (name, value) in entries {
        match value {
            Value::Null => {}
            Value::Object(below) => collect_parts(below, &format!("{path}{name}."), parts),
            value => parts.push(format!("{path}{name} {}", plain(value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from(source: &str, value: Value) -> Value {
        json!({ "value": value, "source": source })
    }

    #[test]
    fn names_and_units_are_those_of_the_file() {
        let tree = json!({
            "ask_for_seconds": from("default", json!(300)),
            "asking_ms": {
                "wait_for": from("toolgate.yaml:8", json!(20000)),
                "escalation": from("default", json!([{ "after": 30000, "to": ["lead"] }])),
            },
            "files": { "max_bytes": from("default", json!(1)) },
        });
        let expected = "\
approval
  timeout_seconds  300                               default
  wait_seconds     20                                toolgate.yaml:8
  escalation       after_seconds 30, to lead         default
tools
  filesystem
    max_file_size  1                                 default
";
        assert_eq!(as_text(&tree), expected);
    }

    #[test]
    fn a_rule_in_cedar_is_named_and_what_is_long_goes_on_below() {
        let rule = |id: Value, effect: Value| json!({ "place": "toolgate.yaml:9", "id": id, "effect": effect, "text": "forbid (\u{2026});\n" });
        let ask = json!({ "ask": { "people": 2 } });
        let tree = json!({
            "cedar": from("toolgate.yaml:8, toolgate.yaml:30", json!([rule(json!("main"), json!("forbid")), rule(Value::Null, ask)])),
            "prices": { "currency": from("default", json!("")) },
            "rules": from("toolgate.yaml:3", json!([{ "tool": "browser.*", "allow": [], "amount": null, "place": "toolgate.yaml:4" }])),
        });
        let expected = "\
policy
  rules     toolgate.yaml:9 `main` forbids    toolgate.yaml:8
            toolgate.yaml:9 asks 2 people     toolgate.yaml:30
prices
  currency  -                                 default
approval
  rules     tool browser.*, allow none,       toolgate.yaml:3
              place toolgate.yaml:4
";
        assert_eq!(as_text(&tree), expected);
    }
}
