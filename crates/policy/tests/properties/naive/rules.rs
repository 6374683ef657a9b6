//! About which calls an approval rule speaks.

use contract::Amount;
use policy::{Admitted, Amounts, ApprovalRule, ArgumentPath, Pattern, RuleEffect, Settings};
use serde_json::Value;

/// The rules that speak about a call, in order: every one is asked.
pub(crate) fn heard<'a>(
    call: &'a Admitted,
    settings: &'a Settings,
) -> impl Iterator<Item = &'a ApprovalRule> {
    let reading = |rule: &ApprovalRule| match rule.effect {
        RuleEffect::Approve => Reading::Narrow,
        RuleEffect::Budget(_) | RuleEffect::Prompt | RuleEffect::Deny => Reading::Wide,
    };
    let of_tool = settings.rules.iter().filter(|rule| rule.tool.matches(&call.tool.name));
    of_tool.filter(move |rule| speaks(rule, &call.values, reading(rule)))
}

/// How a condition is read that a text may fit or not, or that cannot be told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As rules that approve are: by the text itself, and what cannot be told is none.
    Narrow,
    /// As rules that ask or deny are: by all that it may mean, and what cannot be told counts.
    Wide,
}

/// Whether every condition holds.
pub(super) fn speaks(rule: &ApprovalRule, arguments: &Value, reading: Reading) -> bool {
    let untold = reading == Reading::Wide;
    let of_arguments =
        rule.when.arguments.iter().all(|(path, pattern)| match (pattern, arguments.get(path.to_string())) {
            (Pattern::Text(pattern), Some(Value::String(text))) if reading == Reading::Narrow => {
                is_like(pattern.as_str(), text)
            }
            (Pattern::Text(pattern), Some(Value::String(text))) => {
                let other = text.strip_prefix("/work/").map_or(format!("/work/{text}"), str::to_owned);
                let readings = [format!("{text}/"), format!("{other}/"), text.clone(), other];
                readings.iter().any(|text| is_like(&pattern.as_str().to_lowercase(), &text.to_lowercase()))
            }
            (Pattern::Exactly(Value::Bool(wanted)), Some(Value::Bool(found))) => wanted == found,
            _ => untold,
        });
    let of_amount = rule.when.amount.as_ref().is_none_or(|limit| {
        amount_at(&limit.argument, arguments).map_or(untold, |amount| match limit.amounts {
            Amounts::Over(most) => amount > most,
            Amounts::UpTo(most) => amount <= most,
        })
    });
    of_arguments && of_amount
}

/// The amount, if it is a plain number.
pub(super) fn amount_at(argument: &ArgumentPath, arguments: &Value) -> Option<Amount> {
    arguments.get(argument.to_string())?.as_f64().map(|number| Amount::parse(number).unwrap())
}

/// `*` is any text, `?` any character.
fn is_like(pattern: &str, text: &str) -> bool {
    let (mut wanted, mut found) = (pattern.chars(), text.chars());
    match (wanted.next(), found.next()) {
        (None, first) => first.is_none(),
        (Some('*'), first) => {
            is_like(wanted.as_str(), text) || (first.is_some() && is_like(pattern, found.as_str()))
        }
        (Some(one), Some(other)) => (one == '?' || one == other) && is_like(wanted.as_str(), found.as_str()),
        (Some(_), None) => false,
    }
}
