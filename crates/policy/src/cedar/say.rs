//! What Cedar says is wrong with a rule, in our words where we have some. None of its inner names is among them.

use super::untold::UNTOLD;

/// What is said of an argument that there is not.
pub(super) const NO_ARGUMENT: &str = "there is no argument `";

/// What the parser says about a place in a text.
pub(super) fn of_parser(message: &str, text: &str, offset: usize) -> String {
    let (before, after) = text.split_at_checked(offset).unwrap_or((text, ""));
    if let Some(word) = message.strip_prefix("invalid policy effect: ") {
        return format!("a rule begins with `forbid`, not with `{word}`");
    }
    if let Some(literal) = message.strip_prefix("expected an entity uid").and_then(found_literal) {
        return a_text_names_nothing(type_before(before), literal);
    }
    if let Some(advice) = message.starts_with("unexpected token").then(|| decimal_at(before, after)).flatten()
    {
        return advice;
    }
    match message {
        "'=' is not a valid operator in Cedar" => "`=` compares nothing: write `==`".to_owned(),
        other => other.to_owned(),
    }
}

/// What is said where a text stands for an agent, an action or a tool.
pub(super) fn a_text_names_nothing(entity_type: &str, quoted: &str) -> String {
    format!("a text alone names nothing: write `{entity_type}::{quoted}`")
}

fn found_literal(message: &str) -> Option<&str> {
    message.split_once("found literal `")?.1.strip_suffix('`')
}

/// The type of what the scope is about where a text ends.
fn type_before(text: &str) -> &'static str {
    let types = [("principal", "Agent"), ("action", "Action"), ("resource", "Tool")];
    let last = types.into_iter().max_by_key(|(variable, _)| text.rfind(variable));
    last.map_or("Tool", |(_, entity_type)| entity_type)
}

/// What to write for a number with a point, if a text breaks off behind the point of one.
fn decimal_at(before: &str, after: &str) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let whole = before.strip_suffix('.')?;
    let start = whole.trim_end_matches(is_digit);
    let digits = after.split(|c| !is_digit(c)).next().filter(|digits| !digits.is_empty())?;
    let number =
        format!("decimal(\"{}.{digits}\")", whole.get(start.len()..).filter(|whole| !whole.is_empty())?);
    let compared = start.trim_end();
    let operators =
        [(">=", "greaterThanOrEqual"), ("<=", "lessThanOrEqual"), (">", "greaterThan"), ("<", "lessThan")];
    let comparison = operators.into_iter().find_map(|(operator, method)| {
        let left = compared.strip_suffix(operator)?.trim_end();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
        let name = left.get(left.trim_end_matches(is_name).len()..).filter(|name| !name.is_empty())?;
        Some(format!("{name}.{method}({number})"))
    });
    Some(format!("a number with a point is a decimal: write `{}`", comparison.unwrap_or(number)))
}

/// What the validator says, with its advice.
pub(super) fn of_validator(message: &str, help: Option<String>) -> String {
    let said = without_policy(message);
    let named = |before: &str| {
        let rest = said.strip_prefix(before)?;
        rest.split('`').next().map(str::to_owned)
    };
    if let Some(name) = named("attribute `arguments.") {
        return format!("{NO_ARGUMENT}{name}`");
    }
    if let Some(name) = named("unable to guarantee safety of access to optional attribute `") {
        return need_not_be_there(&name);
    }
    let help = help.map(|help| plain(without_policy(&help)));
    let said = match named("attribute `") {
        Some(name) if said.contains("` in context for ") => format!("there is no `context.{name}`"),
        _ => plain(said),
    };
    let is_decimal = said.ends_with("expected Long but saw decimal");
    let help = help
        .or(is_decimal
            .then(|| "decimals are compared like this: `.greaterThan(decimal(\"0.5\"))`".to_owned()));
    match help {
        Some(help) => format!("{said} ({help})"),
        None => said,
    }
}

fn need_not_be_there(name: &str) -> String {
    let (of, name) = match name.rsplit_once('.') {
        Some((of, name)) => (format!("context.{of}"), name),
        // With `has &&` what cannot be told would go by.
        None if UNTOLD.contains(&name) => {
            return format!(
                "`context.{name}` may not be there: write `if context has {name} then … else true`"
            );
        }
        None => ("context".to_owned(), name),
    };
    format!("`{of}.{name}` need not be there: ask first, with `{of} has {name}`")
}

/// Every rule is a policy of its own to Cedar, under a name that nobody has given it.
fn without_policy(message: &str) -> &str {
    let said = message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, "));
    said.map_or(message, |(_, said)| said)
}

/// The same without the names of types that no rule can have.
fn plain(message: &str) -> String {
    let types = [
        ("Set<__cedar::internal::AnyEntity>", "a set of agents, actions or tools"),
        ("Set<__cedar::internal::Any>", "a set"),
        ("__cedar::internal::AnyEntity", "an agent, an action or a tool"),
        ("__cedar::internal::", ""),
    ];
    types.into_iter().fold(message.to_owned(), |message, (inner, ours)| message.replace(inner, ours))
}
