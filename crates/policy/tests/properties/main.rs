//! What holds of every verdict, whatever is asked and configured.
//!
//! The seed is fixed: a run is the same everywhere, and one that fails, fails again.
#![expect(clippy::unwrap_used, reason = "names in a table of tests are valid")]
#![expect(clippy::indexing_slicing, reason = "tables of tests are as long as they are")]

mod cases;
mod naive;

use std::collections::BTreeMap;
use std::time::Duration;

use cases::{Case, case, category, glob, rule, rules};
use contract::{Autonomy, EgressClass, HostPattern};
use policy::{Admitted, Facts, Policy, RuleEffect, Settings, Verdict, decide};
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

fn verdict(call: &Admitted, facts: &Facts, settings: &Settings) -> Verdict {
    decide(call, facts, &Policy::of(settings.clone()).unwrap()).verdict
}

/// 0 is allow, 1 is ask, 2 is deny.
fn rank(call: &Admitted, facts: &Facts, settings: &Settings) -> u8 {
    match verdict(call, facts, settings) {
        Verdict::Allow(_) => 0,
        Verdict::Ask(_) => 1,
        Verdict::Deny(_) => 2,
    }
}

/// The same facts, with what people said to the old settings said to the new: so that it is not the change as such that
/// narrows.
fn renewed(facts: &Facts, old: &Settings, new: &Settings) -> Facts {
    let mut facts = facts.clone();
    if let Some(consent) = facts.consent.as_mut().filter(|consent| consent.policy == old.hash().unwrap()) {
        consent.policy = new.hash().unwrap();
    }
    facts
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
                settings
                    .agents
                    .values_mut()
                    .for_each(|agent| agent.seniority = Some(policy::Seniority::Junior));
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
                settings.agents.values_mut().for_each(|agent| agent.role = Some(name.clone()));
            }),
        ),
        (
            "denied actions",
            with(&|settings| {
                settings
                    .agents
                    .values_mut()
                    .for_each(|agent| agent.denied_actions = agent.auto_approve.clone());
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
                settings.egress.by_tool.clear();
                settings.egress.by_category = [(category, Vec::new())].into();
                settings.egress.allow = Some(Vec::new());
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

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_short_evaluator_written_apart_comes_to_the_same_verdict(case in case()) {
        let Case { call, facts, settings } = case;
        prop_assert_eq!(rank(&call, &facts, &settings), naive::rank(&call, &facts, &settings));
    }

    #[test]
    fn the_trace_names_every_rule_that_speaks_in_order_and_no_other(case in case()) {
        let Case { call, facts, settings } = case;
        let trace = decide(&call, &facts, &Policy::of(settings.clone()).unwrap()).trace;
        let gets_to_rules = trace.iter().any(|step| step.layer == "autonomy" && step.says != "deny");
        let named = trace.iter().filter(|step| step.layer == "rule");
        let named: Vec<&str> = named.filter_map(|step| step.why.split(": ").next()).collect();
        prop_assert_eq!(named, if gets_to_rules { heard_until_a_deny(&call, &settings) } else { Vec::new() });
    }

    #[test]
    fn adding_a_deny_never_widens(case in case(), glob in glob(), category in category()) {
        let Case { call, facts, settings } = case;
        let before = rank(&call, &facts, &settings);
        for (what, stricter) in stricter(&settings, &glob, category) {
            prop_assert!(rank(&call, &renewed(&facts, &settings, &stricter), &stricter) >= before, "{}", what);
        }
    }

    #[test]
    fn fewer_people_and_no_network_never_widen(case in case()) {
        let Case { call, facts, settings } = case;
        let before = rank(&call, &facts, &settings);
        for fewer in [
            Facts { consent: None, ..facts.clone() },
            Facts { operators: facts.operators.saturating_sub(1), ..facts.clone() },
            Facts { egress: false, ..facts.clone() },
        ] {
            prop_assert!(rank(&call, &fewer, &settings) >= before);
        }
    }

    #[test]
    fn a_grant_never_exceeds_its_contract_nor_what_was_asked(case in case()) {
        let Case { call, facts, settings } = case;
        if let Verdict::Allow(grant) = verdict(&call, &facts, &settings) {
            let authority = grant.authority();
            prop_assert!(call.facets.safety <= call.tool.safety && call.facets.egress <= call.tool.egress);
            prop_assert_eq!(&authority.tool, &call.tool.name);
            prop_assert_eq!((authority.contract, authority.arguments), (call.tool.hash, call.arguments));
            prop_assert_eq!((authority.access, authority.profile), (call.facets.access, call.facets.profile));
            prop_assert_eq!(authority.limits, call.tool.limits);
            prop_assert_eq!(&authority.workspace, &facts.workspace);
            prop_assert!(authority.hosts.iter().all(|reach| naive::may_be_granted(reach, &call, &settings)));
            prop_assert!(authority.hosts.iter().all(|reach| !settings.egress.block.contains(&reach.host)));
            prop_assert!(authority.hosts.is_empty() || call.tool.egress > EgressClass::None);
            let longest = facts.now + i64::try_from((call.tool.limits.timeout + Duration::from_secs(60)).as_millis()).unwrap();
            prop_assert!(authority.expires_at <= longest);
            let free = matches!(verdict(&call, &Facts { consent: None, ..facts.clone() }, &settings), Verdict::Allow(_));
            prop_assert_eq!(authority.approval.is_some(), !free, "a grant names an approval if it took one");
        }
    }

    #[test]
    fn the_order_of_rules_and_lists_and_the_source_they_come_from_are_irrelevant(
        case in case(),
        other in rules(),
        places in proptest::collection::vec(any::<proptest::sample::Index>(), 16),
    ) {
        let Case { call, facts, settings } = case;
        let one = settings.rules.clone();
        let merged = |first: &[policy::ApprovalRule], second: &[policy::ApprovalRule]| {
            Settings { rules: [first, second].concat(), ..settings.clone() }
        };
        let (forth, back) = (merged(&one, &other), merged(&other, &one));
        let before = rank(&call, &renewed(&facts, &settings, &forth), &forth);
        prop_assert_eq!(before, rank(&call, &renewed(&facts, &settings, &back), &back));

        let mut shuffled = forth.clone();
        let mut swaps = places.iter();
        shuffle(&mut shuffled.rules, &mut swaps);
        shuffle(&mut shuffled.disabled, &mut swaps);
        for agent in shuffled.agents.values_mut() {
            shuffle(&mut agent.allowed, &mut swaps);
            shuffle(&mut agent.denied, &mut swaps);
        }
        prop_assert_eq!(before, rank(&call, &renewed(&facts, &settings, &shuffled), &shuffled));
    }

    #[test]
    fn the_strictest_rule_wins(case in case(), more in rules()) {
        let Case { call, facts, settings } = case;
        let (waiving, demanding): (Vec<_>, Vec<_>) =
            settings.rules.iter().cloned().chain(more).partition(|rule| rule.effect == RuleEffect::Approve);
        let with = |rules: Vec<policy::ApprovalRule>| {
            let changed = Settings { rules, ..settings.clone() };
            rank(&call, &renewed(&facts, &settings, &changed), &changed)
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
        let Case { call, facts, settings } = case().new_tree(&mut runner).unwrap().current();
        *counts.entry(rank(&call, &facts, &settings)).or_default() += 1;
    }
    assert!(counts.len() == 3 && counts.values().all(|count| *count > 50), "{counts:?}");
}

/// Nor would what is said about rules, if they spoke seldom, always, or never together.
#[test]
fn rules_speak_and_are_silent_and_deny_often_among_the_cases() {
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts = [0_usize; 4];
    for _ in 0..1_024 {
        let Case { call, settings, .. } = case().new_tree(&mut runner).unwrap().current();
        let heard = heard_until_a_deny(&call, &settings).len();
        let of_tool = settings.rules.iter().filter(|rule| rule.tool.matches(&call.tool.name)).count();
        let denies = naive::heard(&call, &settings).any(|rule| rule.effect == RuleEffect::Deny);
        let kinds = [heard > 1, heard < of_tool, of_tool < settings.rules.len(), denies];
        for (count, is_so) in counts.iter_mut().zip(kinds) {
            *count += usize::from(is_so);
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
