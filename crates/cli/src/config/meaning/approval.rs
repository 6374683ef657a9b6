//! Who is asked, about what, for how long.

use std::collections::BTreeMap;

use contract::{Amount, OperatorName, SafetyClass, show_hidden};
use policy::{
    AmountLimit, Amounts, ApprovalRule, ArgumentPath, Asking, Conditions, Escalation, Pattern, RuleEffect,
    Settings, TextPattern,
};
use serde_json::json;

use super::Reader;
use crate::config::at::{At, Given};
use crate::config::file::{AmountFile, File, PatternFile, RuleFile};
use crate::config::problem::shown;
use crate::config::word::RuleAction;

/// Thirty days: no question waits longer, and no yes is good for longer.
const MOST_SECONDS: u64 = 30 * 24 * 60 * 60;
/// An hour: no caller waits longer.
const MOST_WAIT_SECONDS: u64 = 60 * 60;
/// More people than any house has for one call.
const MOST_PEOPLE: u64 = 20;

impl Reader {
    pub(super) fn rules(&mut self, tree: &File) -> Vec<ApprovalRule> {
        let rules = tree.approval.get().and_then(|approval| approval.rules.get());
        rules.into_iter().flatten().filter_map(|rule| self.rule(rule)).collect()
    }

    fn rule(&mut self, rule: &At<RuleFile>) -> Option<ApprovalRule> {
        let RuleFile { tool, action, arguments, amount, quorum, .. } = &rule.value;
        let (Some(tool), Some(action)) = (tool.at(), action.at()) else {
            let missing = if tool.at().is_none() { "tool" } else { "action" };
            self.refuse(rule.place, format!("`{missing}` is missing in this rule"));
            return None;
        };
        let effect = match action.value.0 {
            RuleAction::Approve => RuleEffect::Approve,
            RuleAction::Deny => RuleEffect::Deny,
            RuleAction::Prompt => RuleEffect::Prompt,
            RuleAction::Budget => RuleEffect::Budget(self.rule_budget(rule)?),
        };
        self.check_no_budget(rule);
        let when = Conditions {
            arguments: self.argument_patterns(arguments),
            amount: amount.at().and_then(|amount| self.amount_limit(amount, effect)),
        };
        let people = self.amount("quorum", quorum, MOST_PEOPLE).unwrap_or(1);
        if let Some(at) = quorum.at().filter(|_| effect != RuleEffect::Prompt) {
            self.refuse(
                at.place,
                format!("`quorum` means nothing to a rule that says `{}`", action.value.as_str()),
            );
        }
        let place = format!("{}:{}", self.file, rule.place.line);
        let quorum = usize::try_from(people).unwrap_or(usize::MAX);
        self.pattern(tool).map(|tool| ApprovalRule { tool, when, effect, quorum, place })
    }

    fn check_no_budget(&mut self, rule: &At<RuleFile>) {
        let RuleFile { action, budget_limit, budget_period, .. } = &rule.value;
        let Some(action) = action.get().filter(|action| action.0 != RuleAction::Budget) else { return };
        let places = [budget_limit.at().map(|at| at.place), budget_period.at().map(|at| at.place)];
        if let Some(place) = places.into_iter().flatten().next() {
            let message = format!("a budget means nothing to a rule that says `{}`", action.as_str());
            self.refuse(place, message);
        }
    }

    fn argument_patterns(
        &mut self,
        given: &Given<BTreeMap<At<String>, PatternFile>>,
    ) -> BTreeMap<ArgumentPath, Pattern> {
        let mut patterns = BTreeMap::new();
        for (name, pattern) in given.get().into_iter().flatten() {
            let Some(path) = self.argument_path(name) else { continue };
            let pattern = match pattern {
                PatternFile::Text(text) => Pattern::Text(TextPattern::of(text)),
                PatternFile::Number(number) => Pattern::Exactly(json!(number)),
                PatternFile::Bool(value) => Pattern::Exactly(json!(value)),
            };
            patterns.insert(path, pattern);
        }
        patterns
    }

    fn argument_path(&mut self, name: &At<String>) -> Option<ArgumentPath> {
        let path = ArgumentPath::parse(&name.value);
        path.map_err(|error| self.refuse(name.place, show_hidden(&error.to_string()))).ok()
    }

    fn amount_limit(&mut self, amount: &At<AmountFile>, effect: RuleEffect) -> Option<AmountLimit> {
        let AmountFile { argument, over, up_to } = &amount.value;
        let Some(argument) = argument.at() else {
            self.refuse(amount.place, "`argument` is missing: which argument is the amount?");
            return None;
        };
        let argument = self.argument_path(argument)?;
        // A rule that frees speaks of small amounts, one that asks or denies of large ones.
        let (wanted, name, other) = match effect {
            RuleEffect::Budget(_) if over.at().is_none() && up_to.at().is_none() => {
                return Some(AmountLimit { argument, amounts: Amounts::UpTo(Amount::MOST) });
            }
            RuleEffect::Approve | RuleEffect::Budget(_) => (up_to, "up_to", over),
            RuleEffect::Prompt | RuleEffect::Deny => (over, "over", up_to),
        };
        if let Some(at) = other.at() {
            self.refuse(at.place, format!("this rule takes `{name}`: a rule that approves is about amounts `up_to`, the others about those `over`"));
            return None;
        }
        let Some(limit) = wanted.at() else {
            self.refuse(amount.place, format!("`{name}` is missing: from which amount on?"));
            return None;
        };
        let read = Amount::parse(limit.value).map_err(|error| self.refuse(limit.place, error.to_string()));
        let limit = read.ok()?;
        let amounts = match effect {
            RuleEffect::Approve | RuleEffect::Budget(_) => Amounts::UpTo(limit),
            RuleEffect::Prompt | RuleEffect::Deny => Amounts::Over(limit),
        };
        Some(AmountLimit { argument, amounts })
    }

    pub(super) fn ask_for(&mut self, tree: &File) -> i64 {
        let given = tree.approval.get().map(|approval| &approval.timeout_seconds);
        let time = given.and_then(|given| self.milliseconds("timeout_seconds", given, MOST_SECONDS));
        time.unwrap_or(Settings::default().ask_for)
    }

    pub(super) fn asking(&mut self, tree: &File) -> Asking {
        let built_in = Asking::default();
        let Some(approval) = tree.approval.get() else { return built_in };
        let classes = approval.timeout_seconds_by_class.get().map(|of| {
            [
                (SafetyClass::Read, "read", &of.read),
                (SafetyClass::Write, "write", &of.write),
                (SafetyClass::Network, "network", &of.network),
                (SafetyClass::Financial, "financial", &of.financial),
                (SafetyClass::Privileged, "privileged", &of.privileged),
            ]
        });
        let deny_after = classes
            .into_iter()
            .flatten()
            .filter_map(|(class, name, given)| Some((class, self.milliseconds(name, given, MOST_SECONDS)?)))
            .collect();
        let wait = self.milliseconds("wait_seconds", &approval.wait_seconds, MOST_WAIT_SECONDS);
        let standing =
            self.milliseconds("standing_max_seconds", &approval.standing_max_seconds, MOST_SECONDS);
        Asking {
            wait_for: wait.unwrap_or(built_in.wait_for),
            deny_after,
            escalation: self.escalation(tree),
            longest_standing: standing.unwrap_or(built_in.longest_standing),
        }
    }

    fn escalation(&mut self, tree: &File) -> Vec<Escalation> {
        let steps = tree.approval.get().and_then(|approval| approval.escalation.get());
        let mut read: Vec<Escalation> = Vec::new();
        for step in steps.into_iter().flatten() {
            let (after, to) = (&step.value.after_seconds, &step.value.to);
            if after.at().is_none() || to.get().is_none_or(Vec::is_empty) {
                let missing = if after.at().is_none() { "after_seconds" } else { "to" };
                self.refuse(step.place, format!("`{missing}` is missing in this step"));
                continue;
            }
            let Some(after) = self.milliseconds("after_seconds", after, MOST_SECONDS) else { continue };
            if read.last().is_some_and(|before| before.after >= after) {
                self.refuse(step.place, "each step comes later than the one before");
            }
            let to = to.get().into_iter().flatten().filter_map(|name| self.operator(name)).collect();
            read.push(Escalation { after, to });
        }
        read
    }

    pub(super) fn operator(&mut self, name: &At<String>) -> Option<OperatorName> {
        let read = OperatorName::parse(&name.value);
        let refuse = |error: contract::IdError| {
            let why = show_hidden(&error.to_string());
            self.refuse(name.place, format!("`{}`: {why}", shown(&name.value)));
        };
        read.map_err(refuse).ok()
    }

    fn milliseconds(&mut self, name: &str, given: &Given<u64>, most: u64) -> Option<i64> {
        let seconds = self.amount(name, given, most)?;
        i64::try_from(seconds.checked_mul(1000)?).ok()
    }
}
