//! What `lint` calls idle can be taken out, and nothing is decided otherwise.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use contract::Actions;
use policy::{
    CedarSchema, CedarTool, FindingKind, Kind, Member, Policy, Settings, ToolFacts, Verdict, decide, lint,
};
use proptest::prelude::*;

use super::cases::{Case, configuration};
use super::{config, policy_of};

/// The verdict, and how many people it takes.
fn answer(case: &Case, policy: &Policy) -> (u8, usize) {
    match decide(&case.call, &case.facts_under(policy), policy).verdict {
        Verdict::Allow(_) => (0, 0),
        Verdict::Ask(question) => (1, question.quorum),
        Verdict::Deny(_) => (2, 0),
    }
}

/// What the tools of the calls take. `path` and `amount` are of several kinds, as some calls have them.
static ARGUMENTS: LazyLock<Kind> = LazyLock::new(|| {
    let member = |kind| Member { kind, required: false };
    let several = || Kind::Unshown("of several kinds");
    let members = [("path", several()), ("force", Kind::Bool), ("amount", several())];
    Kind::Record(members.into_iter().map(|(name, kind)| (name.to_owned(), member(kind))).collect())
});

/// The same calls, where those of one name are of one tool.
fn of_one_registry(mut cases: Vec<Case>) -> Vec<Case> {
    let tools: Vec<ToolFacts> = cases.iter().map(|case| case.call.tool.clone()).collect();
    for case in &mut cases {
        let first = tools.iter().find(|tool| tool.name == case.call.tool.name);
        case.call.tool = first.unwrap().clone();
    }
    cases
}

/// Their tools, and all that calls of each are.
fn known(cases: &[Case]) -> CedarSchema {
    let mut tools: Vec<CedarTool> = Vec::new();
    for Case { call, .. } in cases {
        let (action, kind) = (call.facets.action.to_string(), (call.facets.safety, call.facets.egress));
        match tools.iter_mut().find(|tool| tool.facts.name == call.tool.name) {
            Some(tool) => {
                tool.actions.insert(action);
                tool.kinds.push(kind);
            }
            None => tools.push(CedarTool {
                facts: call.tool.clone(),
                actions: [action].into(),
                kinds: vec![kind],
                arguments: ARGUMENTS.clone(),
            }),
        }
    }
    let actions: BTreeSet<String> = Actions::default().iter().map(str::to_owned).collect();
    CedarSchema::of(tools, actions)
}

/// The settings without the rules that stand at these places.
fn without(settings: &Settings, places: &[&str]) -> Settings {
    let mut settings = settings.clone();
    settings.rules.retain(|rule| !places.contains(&rule.place.as_str()));
    settings.cedar.retain(|rule| !places.contains(&rule.place.as_str()));
    settings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..config() })]

    #[test]
    fn without_a_rule_that_is_idle_every_call_is_decided_as_before((cases, _) in configuration()) {
        let cases = of_one_registry(cases);
        let policy = &cases[0].policy;
        let settings = policy.settings();
        let found = lint(settings, &known(&cases));
        let idle: Vec<&str> = found.iter().filter(|found| found.kind.is_idle()).map(|found| found.place.as_str()).collect();
        let each = idle.iter().map(|place| vec![*place]);
        for places in each.chain([idle.clone()]) {
            let fewer = policy_of(&without(settings, &places));
            for case in &cases {
                prop_assert_eq!(answer(case, policy), answer(case, &fewer), "{:?}", found);
            }
        }
    }
}

/// If it found hardly anything, the above would mean little.
#[test]
fn every_kind_of_idle_rule_is_found_often() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut counts = [0_usize; 3];
    for _ in 0..600 {
        let (cases, _) = configuration().new_tree(&mut runner).unwrap().current();
        let cases = of_one_registry(cases);
        for found in lint(cases[0].policy.settings(), &known(&cases)) {
            match found.kind {
                FindingKind::Shadowed => counts[0] += 1,
                FindingKind::Unreachable => counts[1] += 1,
                FindingKind::NeverMatches => counts[2] += 1,
                FindingKind::AlwaysApplies
                | FindingKind::LetsUntoldBy
                | FindingKind::NoPrices
                | FindingKind::NoExamples
                | FindingKind::NoPositiveExample => {}
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
}
