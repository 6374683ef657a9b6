//! What budgets have to say in a hearing, and what a call that may run counts for.
//!
//! Beyond a budget `budget:exceed` is raised, and for whatever costs something `budget:spend`: who must ask for these, asks.
//!
//! # Invariants
//! - Beyond a budget nothing runs that people were not asked about in these very words, and no earlier yes covers it.
//! - Where nobody can tell what a call takes of a budget, it goes beyond it.

use std::collections::BTreeMap;

use contract::{Action, Amount, Measure, Reason, Tally};

use crate::budget::{Account, Against, Charge, Over, Source, quote};
use crate::cedar::Spend;
use crate::decide::Hearing;
use crate::level::Constraints;
use crate::origins::Setting;
use crate::rule::{ApprovalRule, Fit, RuleEffect};
use crate::settings::Agent;

const SPEND: &str = "budget:spend";
const EXCEED: &str = "budget:exceed";

/// The budgets that a call counts against, and what was spent of them.
#[derive(Default)]
pub(crate) struct Books {
    entries: Vec<Entry>,
    /// The questions about budgets of rules of which nobody can tell what the call takes, as they were heard.
    untold: Vec<String>,
}

#[derive(Clone)]
struct Entry {
    account: Account,
    /// Nothing if nobody has said.
    tally: Option<Tally>,
}

impl Books {
    pub(crate) fn of(accounts: Vec<Account>, tallies: &[Tally]) -> Books {
        let told = tallies.iter().copied().map(Some).chain(std::iter::repeat(None));
        let entries = accounts.into_iter().zip(told).map(|(account, tally)| Entry { account, tally });
        Books { entries: entries.collect(), untold: Vec::new() }
    }

    /// What the agent has spent, if rules were to be shown that and somebody has said.
    pub(crate) fn spend(&self) -> Option<Spend> {
        let mut shown = self.entries.iter().filter(|entry| entry.account.source == Source::Shown);
        let mut next = || Some(Amount::of_millionths(shown.next()?.tally?.taken()));
        Some(Spend { day: next()?, week: next()?, month: next()? })
    }

    /// Those that a call counts against.
    fn counting(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.account.source != Source::Shown)
    }

    /// Whether a rule, by its position, counts the call and has enough left for it.
    pub(crate) fn is_within(&self, position: usize) -> bool {
        self.of_rule(position).is_some_and(|entry| !entry.is_exceeded())
    }

    pub(crate) fn has_exceeded(&self) -> bool {
        !self.untold.is_empty() || self.entries.iter().any(Entry::is_exceeded)
    }

    /// Whether a question with these words was about every budget that is exceeded.
    pub(crate) fn is_asked_in(&self, why: &[String], currency: &str) -> bool {
        let mut exceeded = self.entries.iter().filter(|entry| entry.is_exceeded());
        exceeded.all(|entry| why.iter().any(|words| words.starts_with(&entry.mark(currency))))
            && self.untold.iter().all(|question| why.contains(question))
    }

    fn of_rule(&self, position: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.account.source == Source::Rule(position))
    }
}

/// Whether a reason for asking is that a budget would be exceeded.
pub fn asks_to_exceed(why: &str) -> bool {
    why.strip_prefix('`').is_some_and(|rest| rest.starts_with(EXCEED))
}

impl Entry {
    fn is_exceeded(&self) -> bool {
        self.account.is_exceeded(self.tally)
    }

    /// How every question about it begins.
    fn mark(&self, currency: &str) -> String {
        format!("`{EXCEED}`: {}: ", self.account.described(currency))
    }

    fn question(&self, currency: &str) -> String {
        format!("`{EXCEED}`: {}", self.account.position(self.tally, currency))
    }
}

impl Hearing<'_> {
    /// A rule that is a budget, and is about the call.
    pub(crate) fn hear_rule_budget(&mut self, position: usize, rule: &ApprovalRule, what: &str) {
        let place = Some(rule.place.as_str());
        let currency = self.settings.prices.currency.clone();
        match self.books.of_rule(position).cloned() {
            // ATTACK(hidden-amount-of-a-budget): what hides how much it takes is not within what is left.
            None => {
                let question = format!("`{EXCEED}`: {what}: what it takes of the budget cannot be told");
                self.books.untold.push(question.clone());
                self.ask_at(place, "budget", question);
            }
            Some(entry) if entry.is_exceeded() => self.ask_at(place, "budget", entry.question(&currency)),
            Some(entry) => {
                let position = entry.account.position(entry.tally, &currency);
                self.say_at(place, "rule", "-", format!("{position}; it approves what can be waived"));
            }
        }
    }

    /// The budgets that are no rules, and what is raised.
    pub(crate) fn hear_budgets(&mut self, agent: &Agent, constraints: &Constraints) -> Result<(), Reason> {
        let currency = self.settings.prices.currency.clone();
        let cost = quote(self.call, self.settings).unwrap_or(Amount::ZERO);
        if cost > Amount::ZERO {
            let (settings, tool) = (self.settings, &self.call.tool.name);
            let mut named = settings.prices.tools.iter().filter(|priced| priced.tools.matches(tool));
            let place = named
                .find_map(|priced| settings.origins.of(&Setting::Price(priced.tools.as_str().to_owned())));
            self.say_at(place, "price", "-", format!("it costs {cost} {currency} at most"));
        }
        if cost > Amount::ZERO || self.has_counted_amounts() {
            self.raise(SPEND, agent, constraints)?;
        }
        if self.books.has_exceeded() {
            self.raise(EXCEED, agent, constraints)?;
        }
        let budgets: Vec<Entry> = self
            .books
            .entries
            .iter()
            .filter(|entry| entry.account.source == Source::Budget)
            .cloned()
            .collect();
        for entry in budgets {
            let account = &entry.account;
            let position = account.position(entry.tally, &currency);
            let place = Some(account.place.as_str());
            match (entry.is_exceeded(), account.over) {
                (false, _) => self.say_at(place, "budget", "allow", position),
                (true, Over::Ask) => self.ask_at(place, "budget", entry.question(&currency)),
                (true, Over::Deny) => {
                    let wait = account.resets_at.saturating_sub(self.facts.now);
                    let takes = account.told(account.take, &currency);
                    let reason = Reason::over_budget(format!("{position}, and this takes {takes}"));
                    return self.deny_at(
                        place,
                        "budget",
                        reason.retry_after(u64::try_from(wait).unwrap_or(0)),
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether the call has an amount that a rule counts, or would if it could tell how much it is.
    fn has_counted_amounts(&self) -> bool {
        let counts =
            |rule: &&ApprovalRule| matches!(rule.effect, RuleEffect::Budget(_)) && rule.when.amount.is_some();
        self.rules.iter().copied().filter(counts).any(|rule| self.fit(rule) != Fit::None)
    }

    /// What is said of an action that the call is besides its own.
    fn raise(&mut self, action: &str, agent: &Agent, constraints: &Constraints) -> Result<(), Reason> {
        let is_it = |listed: &Action| listed.as_str() == action;
        // ATTACK(denied-action)
        if agent.denied_actions.iter().any(is_it) {
            let place = self.settings.origins.of(&Setting::DeniedActions(self.call.agent.clone()));
            let why = format!("the agent's list of denied actions has `{action}`");
            return self.deny_at(place, "agent", Reason::denied_by_list(why));
        }
        if agent.human_approval.iter().any(is_it) {
            let place = self.settings.origins.of(&Setting::HumanApproval(self.call.agent.clone()));
            self.ask_at(place, "agent", format!("the agent must ask for `{action}`"));
        }
        if constraints.requires_approval.iter().any(is_it) {
            let place = self.settings.origin_of_approval(&self.call.agent, agent, action);
            self.ask_at(place, "level", format!("the agent's level requires approval for `{action}`"));
        }
        Ok(())
    }

    /// What the call counts for, if it has a price or a budget is about it.
    pub(crate) fn charge(&self) -> Option<Charge> {
        let quoted = quote(self.call, self.settings);
        if quoted.is_none() && self.books.counting().next().is_none() {
            return None;
        }
        let mut arguments = BTreeMap::new();
        for Entry { account, .. } in self.books.counting() {
            if let Measure::Argument(path) = &account.pot.measure {
                arguments.insert(path.clone(), Amount::of_millionths(account.take));
            }
        }
        let against = self.books.counting().map(|entry| Against {
            account: entry.account.clone(),
            // Whoever gets this far beyond a budget was asked, and allowed it.
            most: (!entry.is_exceeded()).then(|| entry.account.limit.most()),
        });
        Some(Charge {
            cost: quoted.unwrap_or(Amount::ZERO),
            currency: self.settings.prices.currency.clone(),
            arguments,
            against: against.collect(),
        })
    }
}
