//! Approval rules.

use contract::TrustLabel;

use super::{Finding, FindingKind, can_be_waived, is_used, why_unused};
use crate::cedar::{CedarSchema, CedarTool};
use crate::decide::is_free;
use crate::rule::{ApprovalRule, RuleEffect};
use crate::settings::Settings;

pub(super) fn findings(settings: &Settings, known: &CedarSchema) -> Vec<Finding> {
    let rules = settings.rules.iter().enumerate();
    rules.filter_map(|(place, rule)| find(place, rule, settings, known)).collect()
}

fn find(place: usize, rule: &ApprovalRule, settings: &Settings, known: &CedarSchema) -> Option<Finding> {
    let about_tools = || {
        never_matches(rule, known)
            .or_else(|| unused(rule, settings, known))
            .or_else(|| waives_nothing(rule, known))
    };
    // Of tools that are imported, or registered from files, nothing is known here.
    let is_known = !rule.tool.may_mean_imported() && meant(rule, known).next().is_some();
    let (kind, why, advice) = is_known
        .then(about_tools)
        .flatten()
        .or_else(|| shadowed(place, rule, settings))
        .or_else(|| is_known.then(|| always_applies(rule, known)).flatten())?;
    let place = rule.place.clone();
    Some(Finding { kind, place, rule: format!("`{}`{}", rule.tool.as_str(), rule.when), why, advice })
}

type Found = (FindingKind, String, String);

fn meant<'a>(rule: &'a ApprovalRule, known: &'a CedarSchema) -> impl Iterator<Item = &'a CedarTool> {
    known.tools().iter().filter(|tool| rule.tool.matches(&tool.facts.name))
}

fn never_matches(rule: &ApprovalRule, known: &CedarSchema) -> Option<Found> {
    // What is not given cannot be told, and a rule that approves is silent where something cannot be told.
    let lacking = missing(rule, known).filter(|_| rule.effect == RuleEffect::Approve)?;
    let why = format!("no tool that it is about has the argument `{lacking}`, so it frees nothing");
    Some((FindingKind::NeverMatches, why, "correct the name of the argument, or remove the rule".to_owned()))
}

/// An argument that none of the tools has.
fn missing(rule: &ApprovalRule, known: &CedarSchema) -> Option<String> {
    let amount = rule.when.amount.as_ref().map(|limit| &limit.argument);
    let mut paths = rule.when.arguments.keys().chain(amount);
    paths.find(|path| meant(rule, known).all(|tool| tool.surely_lacks(path.first()))).map(ToString::to_string)
}

fn always_applies(rule: &ApprovalRule, known: &CedarSchema) -> Option<Found> {
    if rule.effect == RuleEffect::Approve {
        return None;
    }
    let lacking = missing(rule, known)?;
    let why = format!(
        "no tool that it is about has the argument `{lacking}`; what cannot be told counts as meant, so the rule is not narrowed by it"
    );
    Some((FindingKind::AlwaysApplies, why, "correct the name of the argument, or leave it out".to_owned()))
}

fn unused(rule: &ApprovalRule, settings: &Settings, known: &CedarSchema) -> Option<Found> {
    let first = meant(rule, known).next()?;
    if meant(rule, known).any(|tool| is_used(&tool.facts, settings, settings.agents.values())) {
        return None;
    }
    let why =
        format!("{}, and calls of it are refused before rules are heard", why_unused(&first.facts, settings));
    Some((FindingKind::Unreachable, why, "remove the rule, or let an agent use the tool".to_owned()))
}

/// What a rule that approves can free: what is asked by default, and stays in the sandbox.
fn waives_nothing(rule: &ApprovalRule, known: &CedarSchema) -> Option<Found> {
    if rule.effect != RuleEffect::Approve {
        return None;
    }
    let could_waive = |tool: &CedarTool| {
        let asks = tool.actions.iter().any(|action| !is_free(action));
        let is_ours = tool.facts.trust == TrustLabel::Internal;
        is_ours && asks && tool.kinds.iter().any(|(safety, egress)| can_be_waived(*safety, *egress))
    };
    if meant(rule, known).any(could_waive) {
        return None;
    }
    let why = "a rule that approves frees what is asked by default and stays in the sandbox, and none of the tools that it is about does that";
    let advice = "remove the rule; for what reaches out, `egress.allow` lists hosts and `auto_approve` of an agent names actions";
    Some((FindingKind::Unreachable, why.to_owned(), advice.to_owned()))
}

fn shadowed(place: usize, rule: &ApprovalRule, settings: &Settings) -> Option<Found> {
    let others = settings.rules.iter().enumerate().filter(|(other, _)| *other != place);
    // Of two that say the same, the one that comes later is too many.
    let mut stricter = others.filter(|(other, by)| covers(by, rule) && (*other < place || !covers(rule, by)));
    let (_, by) = stricter.next()?;
    let why = format!("{} says at least as much about everything that it is about", by.place);
    Some((FindingKind::Shadowed, why, format!("remove it, or narrow the rule at {}", by.place)))
}

/// Whether a call is decided alike with the one rule, and with or without the other.
fn covers(by: &ApprovalRule, rule: &ApprovalRule) -> bool {
    use RuleEffect::{Approve, Budget, Deny, Prompt};
    let at_least = match (by.effect, rule.effect) {
        (Deny, _) | (Prompt | Approve, Approve) => true,
        (Prompt, Prompt) => by.quorum >= rule.quorum,
        // What a budget says depends on what was spent.
        (Budget(_), _) | (Prompt | Approve, Deny | Budget(_)) | (Approve, Prompt) => false,
    };
    let is_wider = by.when == Default::default()
        // Rules that approve read a text more narrowly than others, and amounts the other way about.
        || (by.when == rule.when && (by.effect == rule.effect || rule.when.amount.is_none()));
    at_least && is_wider && by.tool.covers(&rule.tool)
}
