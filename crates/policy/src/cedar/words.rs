//! Texts and numbers in a rule that nothing a call shows is ever equal to: a day with a capital, a level that there is not, a
//! program with its directory.
//!
//! # Invariants
//! - What is called odd is never what a call shows, so that a comparison with it has one answer for every call.

use std::cell::RefCell;
use std::collections::BTreeSet;

use contract::{Autonomy, Category, EgressClass, Host, Level, SafetyClass, TrustLabel, nearest, show_hidden};
use serde_json::Value;

use super::say::a_text_names_nothing;
use super::sight::WEEKDAYS;
use super::tree::{any_node, attribute_of, literals, path_of};
use crate::facts::base_name;
use crate::role::Seniority;

/// What is found about a part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Odd {
    /// As it stands in the rule, with its quotes if it has some; empty for all of it.
    pub(super) written: String,
    /// What is wrong with it.
    pub(super) why: String,
}

/// The operators that compare with one value, or with those of a set.
const COMPARING: [&str; 5] = ["==", "!=", "contains", "containsAny", "containsAll"];

/// Texts that stand where an agent, an action or a tool is compared: none ever is a text.
pub(super) fn texts_for_names(conditions: &Value) -> Vec<Odd> {
    let found = RefCell::new(Vec::new());
    any_node(conditions, &|operator, value| {
        let is_comparing = COMPARING.contains(&operator) || operator == "in";
        for (side, other) in [("left", "right"), ("right", "left")].into_iter().filter(|_| is_comparing) {
            let variable = value.get(side).and_then(|tree| tree.get("Var")).and_then(Value::as_str);
            let Some(entity_type) = variable.and_then(type_of) else { continue };
            let texts = value.get(other).map(literals).unwrap_or_default();
            found.borrow_mut().extend(texts.into_iter().map(|text| {
                let why = a_text_names_nothing(entity_type, &show_hidden(&quoted(text)));
                Odd { written: quoted(text), why }
            }));
        }
        false
    });
    found.into_inner()
}

fn type_of(variable: &str) -> Option<&'static str> {
    match variable {
        "principal" => Some("Agent"),
        "action" => Some("Action"),
        "resource" => Some("Tool"),
        _ => None,
    }
}

/// Comparisons that have one answer for every call.
pub(super) fn odd_words(conditions: &Value, roles: Option<&BTreeSet<String>>) -> Vec<Odd> {
    let found = RefCell::new(Vec::new());
    any_node(conditions, &|operator, value| {
        for (of, attribute, other) in compared(operator, value) {
            let whys = literals(other).into_iter().filter_map(|text| {
                let why = odd_word(of, attribute, text, roles)?;
                Some(Odd { written: quoted(text), why })
            });
            found.borrow_mut().extend(whys);
            if (of, attribute) == ("context", "hour") {
                found.borrow_mut().extend(odd_hour(operator, value));
            }
        }
        false
    });
    found.into_inner()
}

/// What is right, and probably not meant: patterns and whole commands that are compared as they are.
pub(super) fn doubtful_words(conditions: &Value) -> Vec<String> {
    let found = RefCell::new(Vec::new());
    any_node(conditions, &|operator, value| {
        let is_comparing = COMPARING.contains(&operator);
        for (side, other) in [("left", "right"), ("right", "left")].into_iter().filter(|_| is_comparing) {
            let Some(access) = value.get(side).and_then(|tree| tree.get(".")) else { continue };
            let is_set = side == "left" && operator.starts_with("contains");
            let texts = value.get(other).map(literals).unwrap_or_default();
            let whys = texts.into_iter().filter_map(|text| doubtful_word(access, operator, is_set, text));
            found.borrow_mut().extend(whys);
        }
        false
    });
    found.into_inner()
}

fn doubtful_word(access: &Value, operator: &str, is_set: bool, text: &str) -> Option<String> {
    let shown = show_hidden(text);
    let is_commands = attribute_of(access) == Some(("context", "commands"));
    if text.contains('*') && (path_of(access).is_some() || is_commands) {
        let way = if is_set { "there is no pattern over a set" } else { "`like` makes it a pattern" };
        return Some(format!("`*` in `{shown}` is a plain `*` under `{operator}`: {way}"));
    }
    (is_commands && text.contains(char::is_whitespace)).then(|| {
        format!("`{shown}` has a space, and `context.commands` holds programs without their arguments")
    })
}

/// What is compared with what: an attribute of something that rules see, and the other side.
fn compared<'a>(operator: &str, value: &'a Value) -> Vec<(&'a str, &'a str, &'a Value)> {
    let is_comparing = COMPARING.contains(&operator) || is_order(operator);
    let sides = [("left", "right"), ("right", "left")].into_iter().filter(|_| is_comparing);
    let compared = sides.filter_map(|(side, other)| {
        let (of, attribute) = attribute_of(value.get(side)?.get(".")?)?;
        Some((of, attribute, value.get(other)?))
    });
    compared.collect()
}

fn is_order(operator: &str) -> bool {
    ["<", "<=", ">", ">="].contains(&operator)
}

/// Why nothing ever is this text.
fn odd_word(of: &str, attribute: &str, text: &str, roles: Option<&BTreeSet<String>>) -> Option<String> {
    match (of, attribute) {
        ("context", "hosts") => odd_host(text),
        ("context", "commands") => odd_command(text),
        _ => {
            let words = words_of(of, attribute, roles)?;
            (!words.contains(&text)).then(|| never(&format!("{of}.{attribute}"), text, &words))
        }
    }
}

/// Everything that an attribute can be, where that is known. An agent without a role or seniority has an empty text there.
fn words_of<'a>(of: &str, attribute: &str, roles: Option<&'a BTreeSet<String>>) -> Option<Vec<&'a str>> {
    let words = match (of, attribute) {
        ("context", "weekday") => WEEKDAYS.to_vec(),
        ("principal", "level") => Level::ALL.iter().map(|word| word.as_str()).collect(),
        ("principal", "autonomy") => Autonomy::ALL.iter().map(|word| word.as_str()).collect(),
        ("principal", "seniority") => Seniority::ALL.iter().map(|word| word.as_str()).chain([""]).collect(),
        ("principal", "role") => roles?.iter().map(String::as_str).chain([""]).collect(),
        ("resource", "category") => Category::ALL.iter().map(|word| word.as_str()).collect(),
        ("resource", "safety") => SafetyClass::ALL.iter().map(|word| word.as_str()).collect(),
        ("resource", "egress") => EgressClass::ALL.iter().map(|word| word.as_str()).collect(),
        ("resource", "trust") => TrustLabel::ALL.iter().map(|word| word.as_str()).collect(),
        _ => return None,
    };
    Some(words)
}

fn never(what: &str, text: &str, words: &[&str]) -> String {
    let named: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    let near = nearest(&text.to_lowercase(), named.iter().copied());
    let told = match (near, named.as_slice()) {
        (Some(near), _) => format!(", did you mean `{near}`?"),
        (None, []) => "; there is none".to_owned(),
        (None, named) => format!("; there is `{}`", named.join("`, `")),
    };
    format!("`{what}` is never `{}`{told}", show_hidden(text))
}

/// Hosts that no call names, since they are spelt otherwise.
///
/// ATTACK(cedar-look-alikes): calls have one spelling of each, and a rule with another would be a rule about nothing.
fn odd_host(text: &str) -> Option<String> {
    let shown = show_hidden(text);
    match Host::parse(text).map(|host| host.to_string()) {
        Ok(host) if host == text => None,
        Ok(host) => {
            Some(format!("no call names the host `{shown}`: hosts have one spelling, did you mean `{host}`?"))
        }
        Err(_) => Some(format!(
            "`{shown}` is no host, and no call names it; hosts stand there without a port or a pattern"
        )),
    }
}

/// Programs stand there by the last part of their names.
fn odd_command(text: &str) -> Option<String> {
    let base = base_name(text);
    (base != text).then(|| {
        let near =
            if base.is_empty() { String::new() } else { format!(", did you mean `{}`?", show_hidden(base)) };
        format!(
            "`context.commands` never holds `{}`: programs stand there without their directories{near}",
            show_hidden(text)
        )
    })
}

/// An hour that there is not. To go up to 24 is plain speech, and right.
fn odd_hour(operator: &str, value: &Value) -> Option<Odd> {
    const HOURS: std::ops::Range<i64> = 0..24;
    let side = |name: &str| value.get(name);
    let is_left =
        side("left").and_then(|tree| tree.get(".")).and_then(attribute_of) == Some(("context", "hour"));
    let number = number(side(if is_left { "right" } else { "left" })?)?;
    let holds = |hour: i64| {
        let (left, right) = if is_left { (hour, number) } else { (number, hour) };
        match operator {
            "==" => left == right,
            "!=" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }
    };
    let (is_never, is_always) = (!HOURS.clone().any(holds), HOURS.clone().all(holds));
    let is_bound = is_order(operator) && (HOURS.start..=HOURS.end).contains(&number);
    (is_never || (is_always && !is_bound)).then(|| {
        let answer = if is_never { "false" } else { "true" };
        Odd {
            written: number.to_string(),
            why: format!("`context.hour` is 0 to 23, and compared with `{number}` by `{operator}` this is always {answer}"),
        }
    })
}

fn number(tree: &Value) -> Option<i64> {
    match tree.get("neg") {
        Some(negated) => number(negated.get("arg")?)?.checked_neg(),
        None => tree.get("Value")?.as_i64(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
