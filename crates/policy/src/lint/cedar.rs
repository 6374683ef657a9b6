//! Rules in Cedar.

use super::{Finding, FindingKind, is_used, why_unused};
use crate::cedar::{CedarEffect, CedarRule, CedarSchema, lets_by};
use crate::settings::Settings;

pub(super) fn findings(settings: &Settings, known: &CedarSchema) -> Vec<Finding> {
    let mut checks = known.checks();
    let rules = settings.cedar.iter().enumerate();
    let found = rules.flat_map(|(place, rule)| {
        let idle = unused(rule, settings, known)
            .or_else(|| {
                let why = checks.check(rule, "").never_matches?;
                let advice = "look at the names in it: arguments, categories and actions are compared as they are written";
                Some((FindingKind::NeverMatches, why, advice.to_owned()))
            })
            .or_else(|| shadowed(place, rule, settings));
        let found = [idle, silent_where_untold(rule), without_prices(rule, settings)];
        let name = rule.id.as_ref().map_or_else(|| "a rule in Cedar".to_owned(), |id| format!("`{id}`"));
        let finding = move |(kind, why, advice): Found| Finding {
            kind,
            place: rule.place.clone(),
            rule: name.clone(),
            why,
            advice,
        };
        found.into_iter().flatten().map(finding)
    });
    found.collect()
}

type Found = (FindingKind, String, String);

fn unused(rule: &CedarRule, settings: &Settings, known: &CedarSchema) -> Option<Found> {
    let name = rule.tool()?;
    let tool = known.tools().iter().find(|tool| tool.facts.name.as_str() == name)?;
    let agent = rule.agent();
    let meant = settings
        .agents
        .iter()
        .filter(|(known, _)| agent.as_deref().is_none_or(|name| name == known.as_str()));
    if is_used(&tool.facts, settings, meant.map(|(_, agent)| agent)) {
        return None;
    }
    let who = match &agent {
        Some(agent) => format!("agent `{agent}` may not use `{name}`"),
        None => why_unused(&tool.facts, settings),
    };
    let why = format!("{who}, and calls of it are refused before rules are heard");
    Some((FindingKind::Unreachable, why, "remove the rule, or let an agent use the tool".to_owned()))
}

/// Who hides what a call does would be past the rule.
fn silent_where_untold(rule: &CedarRule) -> Option<Found> {
    let name = lets_by(&rule.conditions())?;
    let why = format!(
        "it says nothing about calls of which `context.{name}` cannot be told, since `context has {name}` is false for them"
    );
    let advice = format!(
        "leave `context has {name}` out, and what cannot be told is denied; or write `if context has {name} then … else true`"
    );
    Some((FindingKind::LetsUntoldBy, why, advice))
}

fn without_prices(rule: &CedarRule, settings: &Settings) -> Option<Found> {
    let name = ["cost", "spend"].into_iter().find(|name| rule.looks_at(name))?;
    settings.prices.tools.is_empty().then(|| {
        let why = format!("it looks at `context.{name}`, and without `prices` every call costs nothing");
        (FindingKind::NoPrices, why, "say under `prices` what calls cost, or remove the rule".to_owned())
    })
}

fn shadowed(place: usize, rule: &CedarRule, settings: &Settings) -> Option<Found> {
    let others = settings.cedar.iter().enumerate().filter(|(other, _)| *other != place);
    let mut stricter = others.filter(|(other, by)| covers(by, rule) && (*other < place || !covers(rule, by)));
    let (_, by) = stricter.next()?;
    let why = format!("{} says at least as much about everything that it is about", by.place);
    Some((FindingKind::Shadowed, why, format!("remove it, or narrow the rule at {}", by.place)))
}

/// Whether a call is decided alike with the one rule, and with or without the other. A rule that fails denies: one that only
/// asks stands in for another only if it fails whenever that one does.
fn covers(by: &CedarRule, rule: &CedarRule) -> bool {
    let same = by.conditions() == rule.conditions();
    let (at_least, is_wider) = match (by.effect, rule.effect) {
        (CedarEffect::Forbid, _) => (true, same || by.conditions().is_empty()),
        (CedarEffect::Ask { people }, CedarEffect::Ask { people: fewer }) => (people >= fewer, same),
        (CedarEffect::Ask { .. }, CedarEffect::Forbid) => (false, false),
    };
    at_least && is_wider && by.scope_covers(rule)
}
