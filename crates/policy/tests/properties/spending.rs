//! Prices, budgets and what was spent of them, at random.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use contract::{AgentName, Amount, Tally, TaskName};
use policy::{
    Account, Admitted, Amounts, Budget, BudgetLimit, Conditions, Facts, Over, Per, Period, Policy, Price,
    PriceSettings, Resources, RuleBudget, RuleEffect, ToolPrice, ToolResources, accounts,
};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::cases::{agent_name, glob, rarely};

/// What was spent of every budget there may be, so that one that is added or moved brings its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    seed: u64,
    /// Whether nobody says it of the last one that a call counts against.
    is_untold: bool,
}

/// With the limits below, some calls just fit and some just do not.
const CALLS: [u64; 6] = [0, 0, 1, 2, 3, 5];
const MILLIONTHS: [u64; 7] = [0, 0, 250_000, 750_000, 750_001, 50_000_000, 100_000_000];

impl Spent {
    /// What a decision about a call is told that is told all.
    pub(crate) fn known(self, call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<Tally> {
        accounts(call, facts, policy).iter().map(|account| self.of(account)).collect()
    }

    /// What one is told.
    pub(crate) fn told(self, call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<Tally> {
        let mut tallies = self.known(call, facts, policy);
        if self.is_untold {
            tallies.pop();
        }
        tallies
    }

    fn of(self, account: &Account) -> Tally {
        let mut hasher = DefaultHasher::new();
        (self.seed, &account.place, account.tools.as_str()).hash(&mut hasher);
        let drawn = usize::try_from(hasher.finish() % 42).unwrap();
        let taken = match account.limit {
            BudgetLimit::Calls(_) => CALLS[drawn % CALLS.len()],
            BudgetLimit::Amount(_) => MILLIONTHS[drawn % MILLIONTHS.len()],
        };
        Tally { spent: taken - taken / 2, reserved: taken / 2 }
    }
}

pub(crate) fn spent() -> impl Strategy<Value = Spent> {
    (any::<u64>(), prop::bool::weighted(0.1)).prop_map(|(seed, is_untold)| Spent { seed, is_untold })
}

pub(crate) fn task() -> TaskName {
    TaskName::parse("nightly").unwrap()
}

pub(crate) fn prices() -> impl Strategy<Value = PriceSettings> {
    let amount = |number: f64| Amount::parse(number).unwrap();
    let call = rarely(&[amount(0.25), Amount::ZERO], &[amount(0.5)]);
    let second = weighted(0.2, select(vec![amount(0.01), amount(0.000_003)]));
    let cpu_second = weighted(0.2, select(vec![amount(0.001), amount(0.000_007)]));
    let gigabyte_out = weighted(0.2, Just(amount(0.9)));
    let price =
        (call, second, cpu_second, gigabyte_out).prop_map(|(call, wall_second, cpu_second, gigabyte_out)| {
            Price {
                call,
                wall_second: wall_second.unwrap_or_default(),
                cpu_second: cpu_second.unwrap_or_default(),
                gigabyte_out: gigabyte_out.unwrap_or_default(),
            }
        });
    let priced = (glob(), price).prop_map(|(tools, price)| ToolPrice { tools, price });
    weighted(0.5, vec(priced, 1..4)).prop_map(|tools| match tools {
        Some(tools) => PriceSettings { currency: "USD".to_owned(), tools },
        None => PriceSettings::default(),
    })
}

/// Each stands on a line of its own, away from those of rules.
pub(crate) fn budgets() -> impl Strategy<Value = Vec<Budget>> {
    let agent = weighted(0.3, rarely(&[agent_name()], &[AgentName::parse("other").unwrap()]));
    let whose = (agent, weighted(0.2, Just(task())), select(vec![Per::All, Per::All, Per::Agent, Per::Task]));
    let over = select(vec![Over::Ask, Over::Deny]);
    let limit = any::<bool>().prop_flat_map(limit);
    let budget = (glob(), whose, limit, period(), over).prop_map(
        |(tools, (agent, task, per), limit, period, over)| Budget {
            tools,
            agent,
            task,
            per,
            limit,
            period,
            over,
            place: String::new(),
        },
    );
    weighted(0.4, vec(budget, 1..4)).prop_map(|budgets| {
        let placed = |(number, budget)| Budget { place: format!("toolgate.yaml:{}", 500 + number), ..budget };
        budgets.unwrap_or_default().into_iter().enumerate().map(placed).collect()
    })
}

/// What a rule says that is a budget: calls, or the amounts that it is about.
pub(crate) fn as_budget(
    when: Conditions,
    calls: u64,
    amount: Amount,
    period: Period,
) -> (Conditions, RuleEffect) {
    let limit = if when.amount.is_some() { BudgetLimit::Amount(amount) } else { BudgetLimit::Calls(calls) };
    let amount = when.amount.map(|mut limit| {
        // That it is about larger ones cannot be written.
        if let Amounts::Over(most) = limit.amounts {
            limit.amounts = Amounts::UpTo(most);
        }
        limit
    });
    (Conditions { amount, ..when }, RuleEffect::Budget(RuleBudget { limit, period }))
}

/// How many calls, how much, and how often anew, for [`as_budget`].
pub(crate) fn rule_budget() -> impl Strategy<Value = (u64, Amount, Period)> {
    let amount = select(vec![0.0, 50.0, 100.0, 150.0]).prop_map(|number| Amount::parse(number).unwrap());
    (rarely(&[2, 6], &[0, 1]), amount, period())
}

fn limit(is_money: bool) -> BoxedStrategy<BudgetLimit> {
    let amount = |number: f64| BudgetLimit::Amount(Amount::parse(number).unwrap());
    match is_money {
        true => rarely(&[amount(1.0), amount(5.0), amount(101.0)], &[amount(0.0), amount(0.25)]).boxed(),
        false => rarely(&[2, 6], &[0, 1]).prop_map(BudgetLimit::Calls).boxed(),
    }
}

fn period() -> impl Strategy<Value = Period> {
    select(vec![Period::Daily, Period::Weekly, Period::Monthly])
}

/// How much less some calls may use than their contracts say, which makes them cheaper.
pub(crate) fn resources() -> impl Strategy<Value = Vec<ToolResources>> {
    let most = (weighted(0.7, 1..700_000_u64), weighted(0.5, 100..5_000_u32))
        .prop_map(|(duration_ms, cpu_millis)| Resources { duration_ms, cpu_millis, ..Resources::default() });
    let of_tools = (glob(), most).prop_map(|(tools, most)| ToolResources { tools, most });
    weighted(0.2, vec(of_tools, 1..3)).prop_map(Option::unwrap_or_default)
}
