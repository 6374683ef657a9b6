//! What calls may spend: which budgets a call counts against, and what becomes of it beyond them.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

use std::sync::Arc;

use contract::{
    Actions, AgentName, Amount, ApprovalId, Category, Code, Digest, EgressClass, Measure, OfTask,
    OperatorName, Profile, SafetyClass, Scope, Tally, TaskName,
};
use policy::{
    Admitted, Agent, AmountLimit, Amounts, ApprovalRule, ArgumentPath, Budget, BudgetLimit, CedarRule,
    Conditions, Consent, Facets, Facts, Over, Per, Period, Policy, Price, PriceSettings, RuleBudget,
    RuleEffect, Ruling, Settings, Standing, ToolGlob, ToolPrice, Verdict, accounts, decide,
};
use serde_json::{Value, json};

use crate::given::{self, agent};

/// 2026-11-18, a Wednesday, at noon.
const NOON: i64 = 1_795_003_200_000;

fn amount(number: f64) -> Amount {
    Amount::parse(number).unwrap()
}

fn with(budgets: Vec<Budget>) -> Settings {
    let price = Price { call: amount(0.25), ..Price::default() };
    let prices = PriceSettings {
        currency: "USD".to_owned(),
        tools: vec![ToolPrice { tools: ToolGlob::parse("shell").unwrap(), price }],
    };
    Settings { prices, budgets, ..given::settings(Agent::default()) }
}

fn budget(limit: BudgetLimit, over: Over) -> Budget {
    Budget {
        tools: ToolGlob::parse("*").unwrap(),
        agent: None,
        task: None,
        per: Per::All,
        limit,
        period: Period::Daily,
        over,
        place: "toolgate.yaml:7".to_owned(),
    }
}

fn rule(limit: BudgetLimit, by: Option<&str>) -> ApprovalRule {
    let effect = RuleEffect::Budget(RuleBudget { limit, period: Period::Weekly });
    let amount = by.map(|path| AmountLimit {
        argument: ArgumentPath::parse(path).unwrap(),
        amounts: Amounts::UpTo(Amount::MOST),
    });
    let when = Conditions { amount, ..Conditions::default() };
    ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse("shell").unwrap(), effect, "toolgate.yaml:3") }
}

fn ruled(rule: ApprovalRule) -> Settings {
    Settings { rules: vec![rule], ..with(Vec::new()) }
}

fn facts(tallies: &[(u64, u64)]) -> Facts {
    let tallies = tallies.iter().map(|(spent, reserved)| Tally { spent: *spent, reserved: *reserved });
    Facts { now: NOON, tallies: tallies.collect(), ..given::facts() }
}

/// A command that changes something in its sandbox: asked for by default. `free` ones are not.
fn call(action: &str, values: Value) -> Admitted {
    let tool = given::tool("shell", Category::Terminal, SafetyClass::Privileged);
    let facets = Facets { profile: Some(Profile::Mutate), ..given::facets(action, SafetyClass::Write) };
    Admitted {
        task: Some(TaskName::parse("nightly").unwrap()),
        arguments: Digest::of(values.to_string().as_bytes()),
        values: Arc::new(values),
        ..given::call(tool, facets)
    }
}

/// A yes to such calls, for more than one of them.
fn standing(call: &Admitted, settings: &Settings, why: Vec<String>) -> Standing {
    Standing {
        approval: ApprovalId::from_random([8; 16]),
        scope: Scope::Type,
        by: vec![OperatorName::parse("me").unwrap()],
        agent: agent(),
        task: None,
        contract: call.tool.hash,
        action: "exec:mutate".to_owned(),
        profile: Some(Profile::Mutate),
        arguments: call.arguments,
        content: None,
        place: Digest::of(b"/work/project"),
        policy: settings.hash().unwrap(),
        why,
        expires_at: NOON + 1000,
    }
}

fn free() -> Admitted {
    call("exec:build", json!({}))
}

fn decided(call: &Admitted, facts: &Facts, settings: &Settings) -> Ruling {
    decide(call, facts, &Policy::of(settings.clone()).unwrap())
}

fn verdict(settings: &Settings, tallies: &[(u64, u64)]) -> &'static str {
    decided(&free(), &facts(tallies), settings).verdict.as_str()
}

#[test]
fn a_call_runs_as_long_as_enough_is_left_for_the_most_that_it_can_cost() {
    let a_dollar = with(vec![budget(BudgetLimit::Amount(amount(1.0)), Over::Deny)]);
    for (tally, expected) in [((0, 0), "allow"), ((750_000, 0), "allow"), ((500_000, 250_000), "allow")] {
        assert_eq!(verdict(&a_dollar, &[tally]), expected, "{tally:?}");
    }
    for tally in [(750_001, 0), (500_000, 250_001), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
        assert_eq!(verdict(&a_dollar, &[tally]), "deny", "{tally:?}");
    }
    let two_calls = with(vec![budget(BudgetLimit::Calls(2), Over::Deny)]);
    assert_eq!((verdict(&two_calls, &[(1, 0)]), verdict(&two_calls, &[(1, 1)])), ("allow", "deny"));
    assert_eq!(verdict(&with(vec![budget(BudgetLimit::Calls(0), Over::Deny)]), &[(0, 0)]), "deny");
}

#[test]
fn a_budget_of_which_nobody_says_what_was_spent_has_nothing_left() {
    let settings =
        with(vec![budget(BudgetLimit::Calls(9), Over::Deny), budget(BudgetLimit::Calls(9), Over::Ask)]);
    assert_eq!(verdict(&settings, &[]), "deny");
    assert_eq!(verdict(&settings, &[(0, 0)]), "ask");
    assert_eq!(verdict(&settings, &[(0, 0), (0, 0)]), "allow");
}

#[test]
fn a_refusal_says_which_budget_what_is_left_and_when_to_come_again() {
    let settings = with(vec![budget(BudgetLimit::Amount(amount(1.0)), Over::Deny)]);
    let Verdict::Deny(reason) = decided(&free(), &facts(&[(900_000, 0)]), &settings).verdict else {
        panic!("it is denied");
    };
    assert_eq!(reason.code, Code::OverBudget);
    assert_eq!(reason.retry_after_ms, Some(12 * 3_600_000));
    let said = "toolgate.yaml:7: `*`, 1 USD daily: 0.9 USD spent, 0.1 USD left until 2026-11-19, and this takes 0.25 USD";
    assert_eq!(reason.message, said);
    assert!(reason.hint.unwrap().contains("toolgate budgets"));
}

#[test]
fn the_strictest_of_several_budgets_wins_and_the_trace_names_each() {
    let settings = with(vec![
        budget(BudgetLimit::Calls(9), Over::Deny),
        budget(BudgetLimit::Calls(1), Over::Ask),
        budget(BudgetLimit::Calls(0), Over::Deny),
    ]);
    assert_eq!(verdict(&settings, &[(1, 0), (1, 0), (1, 0)]), "deny");
    let ruling = decided(&free(), &facts(&[(1, 0), (1, 0), (1, 0)]), &settings);
    let says: Vec<&str> =
        ruling.trace.iter().filter(|step| step.layer == "budget").map(|step| step.says).collect();
    assert_eq!(says, ["allow", "ask", "deny"]);
}

#[test]
fn a_budget_is_about_its_own_agent_task_and_tools() {
    let named = |name| TaskName::parse(name).ok();
    let nothing = || budget(BudgetLimit::Calls(0), Over::Deny);
    let is_about = |budget| verdict(&with(vec![budget]), &[(0, 0)]) == "deny";
    assert!(is_about(Budget { agent: Some(agent()), task: named("nightly"), ..nothing() }));
    assert!(!is_about(Budget { agent: AgentName::parse("other").ok(), ..nothing() }));
    assert!(!is_about(Budget { task: named("other"), ..nothing() }));
    assert!(!is_about(Budget { tools: ToolGlob::parse("fs.*").unwrap(), ..nothing() }));
    let counted = |per| {
        let settings = with(vec![Budget { per, ..nothing() }]);
        let pot = accounts(&free(), &facts(&[]), &Policy::of(settings).unwrap()).remove(0).pot;
        assert_eq!((pot.measure, pot.since), (Measure::Calls, NOON / 86_400_000));
        (pot.agent, pot.task)
    };
    let nightly = || OfTask::Named(TaskName::parse("nightly").unwrap());
    assert_eq!(counted(Per::All), (None, OfTask::Any));
    assert_eq!(counted(Per::Agent), (Some(agent()), OfTask::Any));
    assert_eq!(counted(Per::Task), (Some(agent()), nightly()));
}

#[test]
fn a_rule_with_a_budget_approves_what_can_be_waived_until_it_is_spent_and_then_asks() {
    let asked = call("exec:mutate", json!({}));
    let settings = ruled(rule(BudgetLimit::Calls(2), None));
    let of =
        |call: &Admitted, tallies: &[(u64, u64)]| decided(call, &facts(tallies), &settings).verdict.as_str();
    assert_eq!((of(&asked, &[(1, 0)]), of(&asked, &[(2, 0)])), ("allow", "ask"));
    // What is free anyway is counted, too.
    assert_eq!((of(&free(), &[(1, 0)]), of(&free(), &[(2, 0)])), ("allow", "ask"));
    // What cannot be waived is not, however much is left.
    let mut paying = asked.clone();
    paying.facets.safety = SafetyClass::Financial;
    assert_eq!(of(&paying, &[(0, 0)]), "ask");
    let mut outside = asked;
    (outside.facets.egress, outside.tool.egress) = (EgressClass::ReadOnly, EgressClass::ReadOnly);
    assert_ne!(of(&outside, &[(0, 0)]), "allow");
}

#[test]
fn a_rule_counts_the_amount_that_it_names_and_asks_where_it_cannot() {
    let settings = ruled(rule(BudgetLimit::Amount(amount(100.0)), Some("amount")));
    let of = |values: Value, spent: u64| {
        decided(&call("exec:mutate", values), &facts(&[(spent, 0)]), &settings).verdict.as_str()
    };
    assert_eq!(of(json!({ "amount": 100 }), 0), "allow");
    assert_eq!(of(json!({ "amount": 0.000_001 }), 100_000_000), "ask");
    assert_eq!(of(json!({ "amount": 60 }), 40_000_000), "allow");
    assert_eq!(of(json!({ "amount": 60 }), 40_000_001), "ask");
    for odd in [
        json!({}),
        json!({ "Amount": 1 }),
        json!({ "amount ": 1 }),
        json!({ "amount": "1" }),
        json!({ "amount": "NaN" }),
        json!({ "amount": -1 }),
        json!({ "amount": 1e300 }),
        json!({ "amount": 1, "amount_cents": 1 }),
        json!({ "payment": { "amount": 1 } }),
    ] {
        assert_eq!(of(odd.clone(), 0), "ask", "{odd}");
    }
}

#[test]
fn an_amount_that_cannot_be_told_spends_and_exceeds() {
    let ruled = ruled(rule(BudgetLimit::Amount(amount(100.0)), Some("amount")));
    let hidden = call("exec:mutate", json!({ "Amount": 1 }));
    let Verdict::Ask(question) = decided(&hidden, &facts(&[]), &ruled).verdict else {
        panic!("it is asked");
    };
    assert!(question.why[0].starts_with("`exec:mutate`") && policy::asks_to_exceed(&question.why[1]));
    // Whoever may do neither is not let off by hiding how much it is.
    for action in ["budget:spend", "budget:exceed"] {
        let denied_actions = [Actions::default().parse(action).unwrap()].into();
        let agents = [(agent(), Agent { denied_actions, ..Agent::default() })].into();
        let settings = Settings { agents, ..ruled.clone() };
        let Verdict::Deny(reason) = decided(&hidden, &facts(&[]), &settings).verdict else {
            panic!("{action} is denied");
        };
        assert_eq!(reason.code, Code::DeniedByList, "{action}");
    }
    // No yes that was given for more than one call covers what cannot be counted.
    let standing = standing(&hidden, &ruled, question.why);
    let covered = Facts { standing: vec![standing], ..facts(&[]) };
    assert_eq!(decided(&hidden, &covered, &ruled).verdict.as_str(), "ask");
}

#[test]
fn what_costs_something_raises_spend_and_what_exceeds_raises_exceed() {
    let listed = |action| [Actions::default().parse(action).unwrap()].into();
    let mut settings = with(vec![budget(BudgetLimit::Calls(5), Over::Ask)]);
    settings.agents =
        [(agent(), Agent { human_approval: listed("budget:spend"), ..Agent::default() })].into();
    assert_eq!(verdict(&settings, &[(0, 0)]), "ask");
    settings.prices = PriceSettings::default();
    assert_eq!(verdict(&settings, &[(0, 0)]), "allow");
    settings.agents =
        [(agent(), Agent { human_approval: listed("budget:exceed"), ..Agent::default() })].into();
    assert_eq!(verdict(&settings, &[(0, 0)]), "allow");
    let Verdict::Ask(question) = decided(&free(), &facts(&[(5, 0)]), &settings).verdict else {
        panic!("it is asked");
    };
    assert!(question.why.contains(&"the agent must ask for `budget:exceed`".to_owned()), "{question:?}");
    // No list of what need not be asked makes a budget larger.
    settings.agents = [(agent(), Agent { auto_approve: listed("budget:exceed"), ..Agent::default() })].into();
    assert_eq!(verdict(&settings, &[(5, 0)]), "ask");
}

#[test]
fn a_yes_reaches_beyond_a_budget_only_if_that_was_asked() {
    let settings = with(vec![budget(BudgetLimit::Calls(5), Over::Ask)]);
    let asked = call("exec:mutate", json!({}));
    let question = |tallies: &[(u64, u64)]| match decided(&asked, &facts(tallies), &settings).verdict {
        Verdict::Ask(question) => question.why,
        other => panic!("{other:?}"),
    };
    let answered = |why: Vec<String>, tallies: &[(u64, u64)]| {
        let consent = Consent {
            approval: ApprovalId::from_random([7; 16]),
            by: vec![OperatorName::parse("me").unwrap()],
            agent: agent(),
            contract: asked.tool.hash,
            arguments: asked.arguments,
            operands: None,
            policy: settings.hash().unwrap(),
            why,
            expires_at: NOON + 1000,
        };
        decided(&asked, &Facts { consent: Some(consent), ..facts(tallies) }, &settings).verdict
    };
    let (within, beyond) = (question(&[(4, 0)]), question(&[(5, 0)]));
    assert_eq!(answered(within.clone(), &[(4, 0)]).as_str(), "allow");
    assert_eq!(answered(within, &[(5, 0)]).as_str(), "ask");
    // What was spent meanwhile makes no difference to those who know that it is beyond.
    let Verdict::Allow(grant) = answered(beyond, &[(6, 0)]) else { panic!("it is allowed") };
    let against = &grant.charge().unwrap().against[0];
    assert_eq!((against.account.take, against.most), (1, None));

    let standing = standing(&asked, &settings, question(&[(5, 0)]));
    let under = |tallies: &[(u64, u64)]| {
        let facts = Facts { standing: vec![standing.clone()], ..facts(tallies) };
        decided(&asked, &facts, &settings).verdict.as_str()
    };
    assert_eq!((under(&[(4, 0)]), under(&[(5, 0)])), ("allow", "ask"));
}

#[test]
fn a_grant_says_what_the_call_counts_for() {
    let mut settings = ruled(rule(BudgetLimit::Amount(amount(100.0)), Some("amount")));
    settings.budgets = vec![budget(BudgetLimit::Amount(amount(1.0)), Over::Deny)];
    let call = call("exec:mutate", json!({ "amount": 12.5 }));
    let Verdict::Allow(grant) = decided(&call, &facts(&[(0, 0), (0, 0)]), &settings).verdict else {
        panic!("it is allowed");
    };
    let charge = grant.charge().unwrap();
    assert_eq!((charge.cost, charge.currency.as_str()), (amount(0.25), "USD"));
    assert_eq!(charge.arguments, [("amount".to_owned(), amount(12.5))].into());
    let takes: Vec<(u64, Option<u64>)> =
        charge.against.iter().map(|against| (against.account.take, against.most)).collect();
    assert_eq!(takes, [(12_500_000, Some(100_000_000)), (250_000, Some(1_000_000))]);
}

#[test]
fn a_call_that_sends_nothing_is_quoted_for_nothing_sent() {
    let price = Price { gigabyte_out: amount(1.0), ..Price::default() };
    let prices = PriceSettings {
        currency: "USD".to_owned(),
        tools: vec![ToolPrice { tools: ToolGlob::parse("shell").unwrap(), price }],
    };
    let settings = Settings { prices, ..with(Vec::new()) };
    let Verdict::Allow(grant) = decided(&free(), &facts(&[]), &settings).verdict else {
        panic!("it is allowed")
    };
    assert_eq!(grant.charge().unwrap().cost, Amount::ZERO);
}

#[test]
fn without_prices_and_budgets_nothing_is_counted() {
    let settings = Settings { prices: PriceSettings::default(), ..with(Vec::new()) };
    let Verdict::Allow(grant) = decided(&free(), &facts(&[]), &settings).verdict else {
        panic!("it is allowed")
    };
    assert_eq!(grant.charge(), None);
}

#[test]
fn rules_see_what_a_call_can_cost_and_what_its_agent_has_spent() {
    let text = r#"forbid (principal, action, resource) when {
        context.cost.greaterThan(decimal("0.2")) && context.spend.week.greaterThan(decimal("10.0")) };"#;
    let cedar = CedarRule::read(text, |line| format!("toolgate.yaml:{line}")).unwrap();
    let settings = Settings { cedar, ..with(Vec::new()) };
    let after = |week| [(0, 0), week, (99_000_000, 0)];
    for (week, expected) in
        [((10_000_000, 0), "allow"), ((10_000_001, 0), "deny"), ((9_000_000, 2_000_000), "deny")]
    {
        assert_eq!(verdict(&settings, &after(week)), expected, "{week:?}");
    }
    assert_eq!(verdict(&settings, &[]), "deny", "nobody has said what was spent");
    let Verdict::Allow(grant) = decided(&free(), &facts(&after((0, 0))), &settings).verdict else {
        panic!("it is allowed");
    };
    assert_eq!(grant.charge().unwrap().against, [], "what is shown is no budget");

    // Budgets are told first.
    let both = Settings { budgets: vec![budget(BudgetLimit::Calls(5), Over::Deny)], ..settings };
    assert_eq!(verdict(&both, &[(4, 0), (0, 0), (0, 0), (0, 0)]), "allow");
    assert_eq!(verdict(&both, &[(5, 0), (0, 0), (0, 0), (0, 0)]), "deny");
    assert_eq!(verdict(&both, &[(4, 0), (0, 0), (11_000_000, 0), (0, 0)]), "deny");
    // Where no rule asks, nobody has to say.
    let silent = Settings { cedar: Vec::new(), ..both };
    assert_eq!(accounts(&free(), &facts(&[]), &Policy::of(silent).unwrap()).len(), 1);
}

#[test]
fn a_rule_that_looks_at_what_was_spent_in_a_roundabout_way_is_told_it() {
    for condition in
        ["(if true then context else context) has spend", "{ x: context }.x has spend", "context has spend"]
    {
        let text = format!("forbid (principal, action, resource) when {{ {condition} }};");
        let cedar = CedarRule::read(&text, |line| format!("toolgate.yaml:{line}")).unwrap();
        let settings = Settings { cedar, ..with(Vec::new()) };
        assert_eq!(verdict(&settings, &[(0, 0); 3]), "deny", "{condition}");
    }
}
