//! What a call costs and which budgets it goes beyond, by docs/guide/budgets.md and decision 0023.

use contract::EgressClass::None as Stays;
use contract::{Amount, Profile, Tally};
use policy::{Admitted, ApprovalRule, BudgetLimit, Facts, Over, Price, RuleBudget, RuleEffect, Settings};

use super::rules::{Reading, amount_at, speaks};

/// All that budgets have to do with one call.
pub(super) struct Spending<'a> {
    cost: u128,
    counted: Vec<Counted<'a>>,
    /// Rules that may be about the call, and of which nobody can tell what it takes.
    untold: Vec<&'a ApprovalRule>,
}

/// One budget that a call counts against.
struct Counted<'a> {
    place: &'a str,
    /// The rule that it belongs to, if it is one.
    rule: Option<&'a ApprovalRule>,
    over: Over,
    is_exceeded: bool,
}

impl<'a> Spending<'a> {
    pub(super) fn of(call: &Admitted, facts: &Facts, settings: &'a Settings) -> Spending<'a> {
        let cost = cost(call, settings);
        // In the order of the configuration, rules first. What nobody has told is spent.
        let mut tallies = facts.tallies.iter().copied();
        let mut is_exceeded = |takes: u128, limit: BudgetLimit| {
            let limit = match limit {
                BudgetLimit::Calls(calls) => u128::from(calls),
                BudgetLimit::Amount(amount) => u128::from(amount.millionths()),
            };
            let Tally { spent, reserved } = tallies.next().unwrap_or(Tally { spent: u64::MAX, reserved: 0 });
            takes > 0 && u128::from(spent) + u128::from(reserved) + takes > limit
        };
        let (mut counted, mut untold) = (Vec::new(), Vec::new());
        for rule in settings.rules.iter().filter(|rule| rule.tool.matches(&call.tool.name)) {
            let RuleEffect::Budget(RuleBudget { limit, .. }) = rule.effect else { continue };
            if speaks(rule, &call.values, Reading::Narrow) {
                let amount =
                    rule.when.amount.as_ref().map(|of| amount_at(&of.argument, &call.values).unwrap());
                let takes = amount.map_or(1, |amount| u128::from(amount.millionths()));
                let is_exceeded = is_exceeded(takes, limit);
                counted.push(Counted { place: &rule.place, rule: Some(rule), over: Over::Ask, is_exceeded });
            } else if speaks(rule, &call.values, Reading::Wide) {
                untold.push(rule);
            }
        }
        for budget in &settings.budgets {
            let is_about = budget.tools.matches(&call.tool.name)
                && budget.agent.as_ref().is_none_or(|agent| *agent == call.agent)
                && budget.task.as_ref().is_none_or(|task| call.task.as_ref() == Some(task));
            if is_about {
                let takes = if matches!(budget.limit, BudgetLimit::Calls(_)) { 1 } else { cost };
                let is_exceeded = is_exceeded(takes, budget.limit);
                counted.push(Counted { place: &budget.place, rule: None, over: budget.over, is_exceeded });
            }
        }
        Spending { cost, counted, untold }
    }

    /// `budget:spend` for whatever costs something, `budget:exceed` for whatever goes beyond a budget. An amount that cannot
    /// be told counts as too much.
    pub(super) fn raised(&self) -> impl Iterator<Item = &'static str> {
        let counted = self.counted.iter().filter_map(|counted| counted.rule);
        let spends = self.cost > 0
            || counted.chain(self.untold.iter().copied()).any(|rule| rule.when.amount.is_some());
        let raised = [(spends, "budget:spend"), (self.is_beyond(), "budget:exceed")];
        raised.into_iter().filter(|(is_raised, _)| *is_raised).map(|(_, action)| action)
    }

    /// Whether it goes beyond a budget, for all that is known.
    pub(super) fn is_beyond(&self) -> bool {
        !self.untold.is_empty() || self.counted.iter().any(|counted| counted.is_exceeded)
    }

    /// Whether that is refused.
    pub(super) fn is_denied(&self) -> bool {
        self.counted.iter().any(|counted| counted.is_exceeded && counted.over == Over::Deny)
    }

    /// Whether a rule says what `approve` says: within its budget.
    pub(super) fn frees(&self) -> bool {
        self.counted.iter().any(|counted| counted.rule.is_some() && !counted.is_exceeded)
    }

    /// Whether people were asked about each budget that it goes beyond, by its place.
    pub(super) fn is_asked_in(&self, why: &[String]) -> bool {
        let exceeded = self.counted.iter().filter(|counted| counted.is_exceeded).map(|counted| counted.place);
        exceeded.chain(self.untold.iter().map(|rule| rule.place.as_str())).all(|place| {
            let place = format!("{place}: ");
            why.iter().any(|words| words.starts_with("`budget:exceed`") && words.contains(&place))
        })
    }
}

/// Whether a rule frees what can be freed: it approves, or has enough left.
pub(crate) fn frees(rule: &ApprovalRule, call: &Admitted, facts: &Facts, settings: &Settings) -> bool {
    rule.effect == RuleEffect::Approve
        || Spending::of(call, facts, settings)
            .counted
            .iter()
            .any(|counted| counted.rule == Some(rule) && !counted.is_exceeded)
}

/// How long a call may take, in milliseconds: the shortest of its contract's and those that are configured.
pub(crate) fn longest(call: &Admitted, settings: &Settings) -> u128 {
    let lower = settings.resources.iter().filter(|of| of.tools.matches(&call.tool.name));
    let lower = lower.filter_map(|of| of.most.duration_ms).map(u128::from);
    lower.chain([call.tool.limits.timeout.as_millis()]).min().unwrap()
}

/// How much of a processor it may have, in thousandths.
pub(crate) fn processors(call: &Admitted, settings: &Settings) -> u32 {
    let lower = settings.resources.iter().filter(|of| of.tools.matches(&call.tool.name));
    lower.filter_map(|of| of.most.cpu_millis).chain([call.tool.limits.cpu_millis]).min().unwrap()
}

/// The most that a call can cost, in millionths: for the longest that it may take, the most of a processor that it may have, and
/// the most that it may send. The dearest price holds for each unit, and what is finer than a millionth is rounded up.
fn cost(call: &Admitted, settings: &Settings) -> u128 {
    let dearest = |unit: fn(&Price) -> Amount| {
        let fitting = settings.prices.tools.iter().filter(|priced| priced.tools.matches(&call.tool.name));
        fitting.map(|priced| u128::from(unit(&priced.price).millionths())).max().unwrap_or(0)
    };
    let sends = call.facets.egress > Stays || call.facets.profile == Some(Profile::Networked);
    let bytes = if sends { u128::from(settings.egress.limits.bytes) } else { 0 };
    let (milliseconds, processors) = (longest(call, settings), u128::from(processors(call, settings)));
    dearest(|price| price.call)
        + (dearest(|price| price.wall_second) * milliseconds).div_ceil(1_000)
        + (dearest(|price| price.cpu_second) * milliseconds * processors).div_ceil(1_000_000)
        + (dearest(|price| price.gigabyte_out) * bytes).div_ceil(1_000_000_000)
}
