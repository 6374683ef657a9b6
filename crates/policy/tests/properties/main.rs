//! What holds of every verdict, whatever is asked and configured.
//!
//! The seed is fixed: a run is the same everywhere, and one that fails, fails again.
#![expect(clippy::unwrap_used, reason = "names in a table of tests are valid")]
#![expect(clippy::indexing_slicing, reason = "tables of tests are as long as they are")]

mod cases;
mod idle;
mod lines;
mod naive;
mod spending;

use std::collections::BTreeMap;
use std::time::Duration;

use cases::{Case, case, category, configuration, glob, rule, rules};
use contract::{Autonomy, EgressClass, HostPattern, Tally};
use policy::{Admitted, Facts, GrantLimits, Policy, RuleEffect, Settings, Verdict, decide};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(70),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn policy_of(settings: &Settings) -> Policy {
    Policy::of(settings.clone()).unwrap()
}

/// 0 is allow, 1 is ask, 2 is deny.
fn rank(call: &Admitted, facts: &Facts, policy: &Policy) -> u8 {
    match decide(call, facts, policy).verdict {
        Verdict::Allow(_) => 0,
        Verdict::Ask(_) => 1,
        Verdict::Deny(_) => 2,
    }
}

/// Everything that a person can write to be stricter, each alone.
fn stricter(
    settings: &Settings,
    glob: &policy::ToolGlob,
    category: contract::Category,
) -> Vec<(&'static str, Settings)> {
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut changed = settings.clone();
        change(&mut changed);
        changed
    };
    vec![
        (
            "a denied tool",
            with(&|settings| settings.agents.values_mut().for_each(|agent| agent.denied.push(glob.clone()))),
        ),
        (
            "an allowed tool less",
            with(&|settings| settings.agents.values_mut().for_each(|agent| drop(agent.allowed.pop()))),
        ),
        (
            "a rule that denies",
            with(&|settings| settings.rules.insert(0, rule(glob.clone(), RuleEffect::Deny))),
        ),
        ("a rule that asks", with(&|settings| settings.rules.push(rule(glob.clone(), RuleEffect::Prompt)))),
        (
            "a rule less that approves",
            with(&|settings| settings.rules.retain(|rule| rule.effect != RuleEffect::Approve)),
        ),
        ("a tool switched off", with(&|settings| settings.disabled.push(glob.clone()))),
        (
            "a category without a backend",
            with(&|settings| drop(settings.unavailable.insert(category, "none".to_owned()))),
        ),
        ("a denied command", with(&|settings| settings.shell.denied.extend(["rm".to_owned()]))),
        (
            "an allowed command less",
            with(&|settings| {
                settings.shell.allowed.iter_mut().for_each(|allowed| drop(allowed.pop_first()));
            }),
        ),
        ("files read-only", with(&|settings| settings.files.read_only = true)),
        ("deleting switched off", with(&|settings| settings.files.delete = false)),
        (
            "a locked agent",
            with(&|settings| {
                settings.agents.values_mut().for_each(|agent| agent.autonomy = Autonomy::Locked);
            }),
        ),
        (
            "a seniority",
            with(&|settings| {
                settings.agents.values_mut().for_each(|agent| {
                    agent.seniority.get_or_insert(policy::Seniority::Junior);
                });
            }),
        ),
        (
            "a role",
            with(&|settings| {
                let name = contract::RoleName::parse("role").unwrap();
                let role = policy::Role {
                    categories: [category].into(),
                    tools: vec![glob.clone()],
                    denied: Vec::new(),
                };
                settings.roles.insert(name.clone(), role);
                settings.agents.values_mut().for_each(|agent| {
                    agent.role.get_or_insert(name.clone());
                });
            }),
        ),
        (
            "a role that includes less",
            with(&|settings| settings.roles.values_mut().for_each(|role| role.denied.push(glob.clone()))),
        ),
        (
            "denied actions",
            with(&|settings| {
                settings
                    .agents
                    .values_mut()
                    .for_each(|agent| agent.denied_actions.extend(agent.auto_approve.clone()));
            }),
        ),
        ("no agent", with(&|settings| settings.agents.clear())),
        (
            "a blocked host",
            with(&|settings| settings.egress.block.push(HostPattern::parse("example.com").unwrap())),
        ),
        (
            "nobody to reach",
            with(&|settings| {
                // A list that is taken away may have been the narrower one.
                settings.egress.by_tool.iter_mut().for_each(|places| places.allow = Some(Vec::new()));
                settings.egress.by_category.values_mut().for_each(Vec::clear);
                settings.egress.by_category.insert(category, Vec::new());
                settings.egress.allow = Some(Vec::new());
            }),
        ),
        (
            "a budget",
            with(&|settings| {
                settings.budgets.push(policy::Budget {
                    tools: glob.clone(),
                    agent: None,
                    task: None,
                    per: policy::Per::All,
                    limit: policy::BudgetLimit::Calls(2),
                    period: policy::Period::Daily,
                    over: policy::Over::Ask,
                    place: "toolgate.yaml:600".to_owned(),
                });
            }),
        ),
        (
            "nothing to spend",
            with(&|settings| {
                settings.budgets.iter_mut().for_each(|budget| budget.limit = policy::BudgetLimit::Calls(0));
            }),
        ),
        (
            "more to ask for",
            with(&|settings| {
                settings
                    .agents
                    .values_mut()
                    .for_each(|agent| agent.human_approval.extend(agent.auto_approve.clone()));
            }),
        ),
    ]
}

/// 0 is allow, 1 is ask, 2 is deny; why, if it is denied; and how many people it takes, if it is asked.
fn decided(call: &Admitted, facts: &Facts, policy: &Policy) -> naive::Decided {
    match decide(call, facts, policy).verdict {
        Verdict::Allow(_) => naive::Decided { rank: 0, code: None, quorum: None },
        Verdict::Ask(question) => naive::Decided { rank: 1, code: None, quorum: Some(question.quorum) },
        Verdict::Deny(reason) => naive::Decided { rank: 2, code: Some(reason.code), quorum: None },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..config() })]

    #[test]
    fn an_evaluator_written_apart_comes_to_the_same_verdict_code_and_quorum((cases, rules) in configuration()) {
        for Case { call, facts, policy, .. } in &cases {
            prop_assert_eq!(decided(call, facts, policy), naive::decided(call, facts, policy.settings(), &rules));
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_short_evaluator_written_apart_comes_to_the_same_verdict(case in case()) {
        let Case { call, facts, policy, .. } = case;
        prop_assert_eq!(rank(&call, &facts, &policy), naive::rank(&call, &facts, policy.settings()));
    }

    #[test]
    fn the_trace_names_every_rule_that_speaks_in_order_and_no_other(case in case()) {
        let Case { call, facts, policy, .. } = case;
        let (settings, trace) = (policy.settings(), decide(&call, &facts, &policy).trace);
        let gets_to_rules = trace.iter().any(|step| step.layer == "autonomy" && step.says != "deny");
        // Beyond its budget a rule speaks in the layer of those.
        let is_of_a_rule = |place: &&str| settings.rules.iter().any(|rule| rule.place == *place);
        let named = trace.iter().filter(|step| matches!(step.layer, "rule" | "budget"));
        let named: Vec<&str> = named.filter_map(|step| step.place.as_deref()).filter(is_of_a_rule).collect();
        prop_assert_eq!(named, if gets_to_rules { heard_until_a_deny(&call, settings) } else { Vec::new() });
    }

    #[test]
    fn adding_a_deny_never_widens(case in case(), glob in glob(), category in category()) {
        let Case { call, policy, .. } = &case;
        let before = rank(call, &case.facts_under(policy), policy);
        for (what, stricter) in stricter(policy.settings(), &glob, category) {
            let stricter = policy_of(&stricter);
            prop_assert!(rank(call, &case.facts_under(&stricter), &stricter) >= before, "{}", what);
        }
    }

    #[test]
    fn fewer_people_no_network_and_less_money_never_widen(case in case()) {
        let Case { call, facts, policy, .. } = case;
        let before = rank(&call, &facts, &policy);
        for fewer in [
            Facts { consent: None, ..facts.clone() },
            Facts { operators: facts.operators.saturating_sub(1), ..facts.clone() },
            Facts { egress: false, ..facts.clone() },
            Facts { tallies: Vec::new(), ..facts.clone() },
            Facts { tallies: facts.tallies.iter().map(|tally| Tally { spent: tally.spent + 1, ..*tally }).collect(), ..facts.clone() },
        ] {
            prop_assert!(rank(&call, &fewer, &policy) >= before);
        }
    }

    #[test]
    fn a_grant_never_exceeds_its_contract_nor_what_was_asked(case in case()) {
        let Case { call, facts, policy, .. } = case;
        let settings = policy.settings();
        if let Verdict::Allow(grant) = decide(&call, &facts, &policy).verdict {
            let authority = grant.authority();
            prop_assert!(call.facets.safety <= call.tool.safety && call.facets.egress <= call.tool.egress);
            prop_assert_eq!(&authority.tool, &call.tool.name);
            prop_assert_eq!((authority.contract, authority.arguments), (call.tool.hash, call.arguments));
            prop_assert_eq!((authority.access, authority.profile), (call.facets.access, call.facets.profile));
            let timeout = Duration::from_millis(u64::try_from(naive::longest(&call, settings)).unwrap());
            let cpu_millis = naive::processors(&call, settings);
            prop_assert_eq!(authority.limits, GrantLimits { timeout, cpu_millis, ..call.tool.limits });
            prop_assert_eq!(&authority.workspace, &facts.workspace);
            prop_assert!(authority.hosts.iter().all(|reach| naive::may_be_granted(reach, &call, settings)));
            prop_assert!(authority.hosts.iter().all(|reach| !settings.egress.block.contains(&reach.host)));
            prop_assert!(authority.hosts.is_empty() || call.tool.egress > EgressClass::None);
            let longest = facts.now + i64::try_from((call.tool.limits.timeout + Duration::from_secs(60)).as_millis()).unwrap();
            prop_assert!(authority.expires_at <= longest);
            let free = rank(&call, &Facts { consent: None, ..facts.clone() }, &policy) == 0;
            prop_assert_eq!(authority.approval.is_some(), !free, "a grant names an approval if it took one");
        }
    }

    #[test]
    fn the_order_of_rules_and_lists_and_the_source_they_come_from_are_irrelevant(
        case in case(),
        other in rules(),
        places in proptest::collection::vec(any::<proptest::sample::Index>(), 16),
    ) {
        let (call, settings) = (&case.call, case.policy.settings());
        let decided = |settings: &Settings| {
            let policy = policy_of(settings);
            rank(call, &case.facts_under(&policy), &policy)
        };
        let one = settings.rules.clone();
        let merged = |first: &[policy::ApprovalRule], second: &[policy::ApprovalRule]| {
            Settings { rules: [first, second].concat(), ..settings.clone() }
        };
        let (forth, back) = (merged(&one, &other), merged(&other, &one));
        let before = decided(&forth);
        prop_assert_eq!(before, decided(&back));

        let mut shuffled = forth.clone();
        let mut swaps = places.iter();
        shuffle(&mut shuffled.rules, &mut swaps);
        shuffle(&mut shuffled.disabled, &mut swaps);
        shuffle(&mut shuffled.budgets, &mut swaps);
        for agent in shuffled.agents.values_mut() {
            shuffle(&mut agent.allowed, &mut swaps);
            shuffle(&mut agent.denied, &mut swaps);
        }
        prop_assert_eq!(before, decided(&shuffled));
    }

    #[test]
    fn the_strictest_rule_wins(case in case(), more in rules()) {
        let (call, settings) = (&case.call, case.policy.settings());
        let all = Settings { rules: [settings.rules.clone(), more].concat(), ..settings.clone() };
        let facts = case.facts_under(&policy_of(&all));
        let (waiving, demanding): (Vec<_>, Vec<_>) =
            all.rules.iter().cloned().partition(|rule| naive::frees(rule, call, &facts, &all));
        let with = |rules: Vec<policy::ApprovalRule>| {
            let changed = policy_of(&Settings { rules, ..settings.clone() });
            rank(call, &case.facts_under(&changed), &changed)
        };
        let alone = demanding.iter().map(|rule| with([waiving.clone(), vec![rule.clone()]].concat()));
        let strictest = alone.chain([with(waiving.clone())]).max().unwrap();
        prop_assert_eq!(with([waiving, demanding].concat()), strictest);
    }
}

fn shuffle<'a, T>(list: &mut [T], places: &mut impl Iterator<Item = &'a proptest::sample::Index>) {
    for place in 1..list.len() {
        if let Some(other) = places.next() {
            list.swap(place, other.index(place + 1));
        }
    }
}

/// Where the rules stand that are heard: whoever is denied is told no more.
fn heard_until_a_deny<'a>(call: &'a Admitted, settings: &'a Settings) -> Vec<&'a str> {
    let mut denied = false;
    let heard = naive::heard(call, settings)
        .take_while(|rule| !std::mem::replace(&mut denied, rule.effect == RuleEffect::Deny));
    heard.map(|rule| rule.place.as_str()).collect()
}

/// If what is drawn hardly ever came to a verdict other than a refusal, none of the above would mean much.
#[test]
fn every_verdict_is_common_among_the_cases() {
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for _ in 0..1_024 {
        let Case { call, facts, policy, .. } = case().new_tree(&mut runner).unwrap().current();
        *counts.entry(rank(&call, &facts, &policy)).or_default() += 1;
    }
    assert!(counts.len() == 3 && counts.values().all(|count| *count > 50), "{counts:?}");
}

/// Nor would the codes and the people, if rules in Cedar seldom had a say.
#[test]
fn rules_in_cedar_forbid_fail_and_ask_often_among_the_configurations() {
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts = [0_usize; 4];
    for _ in 0..1_200 {
        let (cases, _) = configuration().new_tree(&mut runner).unwrap().current();
        for Case { call, facts, policy, .. } in &cases {
            let ruling = decide(call, facts, policy);
            let of_cedar = |says| ruling.trace.iter().any(|step| step.layer == "cedar" && step.says == says);
            let failed =
                matches!(&ruling.verdict, Verdict::Deny(reason) if reason.code == contract::Code::RuleFailed);
            let many = matches!(&ruling.verdict, Verdict::Ask(question) if question.quorum == 3);
            let kinds = [of_cedar("deny") && !failed, failed, of_cedar("ask"), many];
            for (count, is_so) in counts.iter_mut().zip(kinds) {
                *count += usize::from(is_so);
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

/// Nor would what is said about rules, if they spoke seldom, always, or never together.
#[test]
fn rules_speak_and_are_silent_and_deny_often_among_the_cases() {
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts = [0_usize; 4];
    for _ in 0..1_280 {
        let Case { call, policy, .. } = case().new_tree(&mut runner).unwrap().current();
        let settings = policy.settings();
        let heard = heard_until_a_deny(&call, settings).len();
        let of_tool = settings.rules.iter().filter(|rule| rule.tool.matches(&call.tool.name)).count();
        let denies = naive::heard(&call, settings).any(|rule| rule.effect == RuleEffect::Deny);
        let kinds = [heard > 1, heard < of_tool, of_tool < settings.rules.len(), denies];
        for (count, is_so) in counts.iter_mut().zip(kinds) {
            *count += usize::from(is_so);
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

/// Nor would what is said about standing and money, if either seldom decided anything.
#[test]
fn roles_seniority_lists_of_actions_and_budgets_decide_often_among_the_configurations() {
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..1_200 {
        let (cases, _) = configuration().new_tree(&mut runner).unwrap().current();
        for Case { call, facts, policy, .. } in &cases {
            let ruling = decide(call, facts, policy);
            let is_said = |layer, says, words: &str| {
                let mut steps = ruling.trace.iter();
                steps.any(|step| step.layer == layer && step.says == says && step.why.contains(words))
            };
            let kinds = [
                ("not in its role", is_said("role", "deny", "")),
                ("held down by its seniority", is_said("seniority", "-", "")),
                ("may not do it", is_said("agent", "deny", "")),
                ("does not see what only changes", is_said("autonomy", "deny", "nothing but change")),
                ("costs something", is_said("price", "-", "")),
                ("asks before it spends", is_said("agent", "ask", "budget:spend")),
                ("may not spend", is_said("agent", "deny", "budget:spend")),
                ("may not exceed", is_said("agent", "deny", "budget:exceed")),
                ("over its budget", is_said("budget", "deny", "")),
                ("asks beyond its budget", is_said("budget", "ask", "left")),
                ("nobody can tell what it takes", is_said("budget", "ask", "cannot be told")),
                ("within the budget of a rule", is_said("rule", "-", "left until")),
            ];
            for (kind, is_so) in kinds {
                *counts.entry(kind).or_default() += usize::from(is_so);
            }
        }
    }
    assert!(counts.values().all(|count| *count > 4), "{counts:?}");
}
