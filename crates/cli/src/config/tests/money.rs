//! What prices and budgets mean, and what is said about those that mean nothing.

use contract::{AgentName, Amount, TaskName};
use policy::{
    AmountLimit, Amounts, ArgumentPath, Budget, BudgetLimit, Over, Per, Period, Price, PriceSettings,
    RuleBudget, RuleEffect, ToolGlob, ToolPrice,
};

use super::{load, loaded};

fn amount(number: f64) -> Amount {
    Amount::parse(number).unwrap()
}

fn glob(text: &str) -> ToolGlob {
    ToolGlob::parse(text).unwrap()
}

#[test]
fn prices_and_budgets_are_what_the_file_says_to_the_millionth() {
    let settings = loaded(
        "prices: { currency: USD, tools: { 'http.*': { call: 0.07 }, bash: { wallSecond: 0.0002, cpu_second: 0.0005 } } }\n\
         budgets:\n  \
           - { tools: http.*, limit: 1.1, period: weekly }\n  \
           - { agent: default, task: nightly, per: task, calls: 3, period: monthly, over: ask }\n",
    )
    .meaning
    .settings;
    let priced = |tools, price| ToolPrice { tools: glob(tools), price };
    let expected = PriceSettings {
        currency: "USD".to_owned(),
        tools: vec![
            priced(
                "shell",
                Price { wall_second: amount(0.0002), cpu_second: amount(0.0005), ..Price::default() },
            ),
            priced("http.*", Price { call: Amount::of_millionths(70_000), ..Price::default() }),
        ],
    };
    assert_eq!(settings.prices, expected);
    let shared = Budget {
        tools: glob("http.*"),
        agent: None,
        task: None,
        per: Per::All,
        limit: BudgetLimit::Amount(Amount::of_millionths(1_100_000)),
        period: Period::Weekly,
        over: Over::Deny,
        place: "toolgate.yaml:3".to_owned(),
    };
    let nightly = Budget {
        tools: glob("*"),
        agent: AgentName::parse("default").ok(),
        task: TaskName::parse("nightly").ok(),
        per: Per::Task,
        limit: BudgetLimit::Calls(3),
        period: Period::Monthly,
        over: Over::Ask,
        place: "toolgate.yaml:4".to_owned(),
    };
    assert_eq!(settings.budgets, [shared, nightly]);
}

#[test]
fn a_rule_counts_calls_or_the_amounts_that_it_names() {
    let rules = loaded(
        "approval:\n  rules:\n    \
           - { tool: shell, action: budget, budget_limit: 20 }\n    \
           - { tool: pay, action: budget, budgetLimit: 2.5, budgetPeriod: monthly, amount: { argument: amount } }\n    \
           - { tool: pay, action: budget, budget_limit: 2.5, amount: { argument: amount, upTo: 1 } }\n",
    )
    .meaning
    .settings
    .rules;
    let effects: Vec<RuleEffect> = rules.iter().map(|rule| rule.effect).collect();
    let of = |limit, period| RuleEffect::Budget(RuleBudget { limit, period });
    let expected = [
        of(BudgetLimit::Calls(20), Period::Daily),
        of(BudgetLimit::Amount(amount(2.5)), Period::Monthly),
        of(BudgetLimit::Amount(amount(2.5)), Period::Daily),
    ];
    assert_eq!(effects, expected);
    let by = |most| {
        Some(AmountLimit { argument: ArgumentPath::parse("amount").unwrap(), amounts: Amounts::UpTo(most) })
    };
    let amounts: Vec<Option<AmountLimit>> = rules.iter().map(|rule| rule.when.amount.clone()).collect();
    assert_eq!(amounts, [None, by(Amount::MOST), by(amount(1.0))]);
}

#[test]
fn what_could_not_be_counted_is_refused() {
    for (text, problem) in [
        ("budgets: [{ calls: 1 }]", "1:11: `period` is missing in this budget"),
        ("budgets: [{ period: daily }]", "1:11: `limit` or `calls` is missing in this budget"),
        (
            "budgets: [{ limit: 1, period: daily }]",
            "1:11: a budget with a `limit` needs `prices`: without any, nothing is spent",
        ),
        (
            "budgets: [{ limit: 1, calls: 1, period: daily }]",
            "1:20: a budget has a `limit` or `calls`, not both: write two",
        ),
        (
            "budgets: [{ agent: defalt, calls: 1, period: daily }]",
            "1:20: there is no agent `defalt`, did you mean `default`?",
        ),
        (
            "budgets: [{ calls: 1, period: hourly }]",
            "1:31: unknown word `hourly`; there is `daily`, `weekly` and `monthly`",
        ),
        (
            "prices: { tools: { shell: { call: 1 } } }",
            "1:9: `currency` is missing: in which one are these prices?",
        ),
        ("prices: { currency: usd }", "1:21: `usd` is not a currency, such as `USD`"),
        (
            "prices: { currency: USD, tools: { shel: { call: 1 } } }",
            "1:35: there is no tool `shel`, did you mean `shell`?",
        ),
        (
            "prices: { currency: USD, tools: { shell: { call: -1 } } }",
            "1:50: -1 is not an amount from 0 to 9000000000",
        ),
        (
            "approval: { rules: [{ tool: shell, action: budget, budget_limit: 0.5 }] }",
            "1:66: `budget_limit` is `0.5`: without an `amount` it counts whole calls",
        ),
    ] {
        assert_eq!(load("toolgate.yaml", text.as_bytes()).err().as_deref(), Some(problem), "{text}");
    }
}

#[test]
fn a_budget_in_money_for_what_costs_nothing_is_remarked_on() {
    let text = "{ prices: { currency: USD, tools: { shell: { call: 1 } } }, budgets: [{ tools: fs.*, limit: 1, period: daily }] }";
    let warnings = loaded(text).warnings;
    assert_eq!(
        warnings,
        ["/etc/toolgate/toolgate.yaml:1:71: no built-in tool that `fs.*` means has a price"]
    );
}
