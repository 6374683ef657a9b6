//! Rules in Cedar: what they forbid, whom they have asked, and that none of them can be got around by failing.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "names and rules in tests are valid, and what is not is the failure"
)]

use std::sync::Arc;

use contract::{
    AgentName, Autonomy, Category, Code, EgressClass, Level, Profile, SafetyClass, Target, TaskName,
};
use policy::{
    Admitted, Agent, ArgumentTypes, CedarRule, CedarSays, Circumstances, Command, Facts, Named, Policy,
    Reads, Ruling, Settings, Verdict, cedar_says, decide,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::given;

fn rules(text: &str) -> Vec<CedarRule> {
    CedarRule::read(text, |line| format!("rules.cedar:{line}"))
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn agent() -> AgentName {
    AgentName::parse("coder").unwrap()
}

fn call(tool: &str, action: &str, arguments: Value) -> Admitted {
    let tool = given::tool(tool, Category::FileSystem, SafetyClass::Write);
    let facets = given::facets(action, SafetyClass::Write);
    Admitted { agent: agent(), values: Arc::new(arguments), ..given::call(tool, facets) }
}

fn write(arguments: Value) -> Admitted {
    call("fs.write", "code:write", arguments)
}

fn settings(text: &str) -> Settings {
    let agent_settings = Agent { autonomy: Autonomy::Full, ..Agent::default() };
    Settings { agents: [(agent(), agent_settings)].into(), cedar: rules(text), ..Settings::default() }
}

fn ruled(text: &str, call: &Admitted) -> Ruling {
    let facts = Facts { now: 0, operators: 3, ..given::facts() };
    decide(call, &facts, &Policy::of(settings(text)).unwrap())
}

fn denied(text: &str, call: &Admitted) -> (Code, String) {
    match ruled(text, call).verdict {
        Verdict::Deny(reason) => {
            assert!(reason.hint.unwrap().contains("policy"));
            (reason.code, reason.message)
        }
        other => panic!("{other:?}"),
    }
}

fn says(text: &str, call: &Admitted) -> CedarSays {
    cedar_says(&rules(text)[0], call, &Agent::default(), &Circumstances::default(), &ArgumentTypes::default())
}

#[test]
fn a_forbid_that_matches_denies_and_says_where_it_stands_and_why() {
    let text = "\n@id(\"no-infra\") @why(\"infra is not for agents\")\nforbid (principal, action, resource == Tool::\"fs.write\")\n\
                when { context.arguments.path like \"infra/*\" };";
    let (code, message) = denied(text, &write(json!({ "path": "infra/a" })));
    assert_eq!(code, Code::DeniedByRule);
    assert_eq!(message, "rules.cedar:2 `no-infra`: infra is not for agents (forbids)");
    let ruling = ruled(text, &write(json!({ "path": "src/a" })));
    assert_eq!(ruling.verdict.as_str(), "allow");
    let step = ruling.trace.iter().find(|step| step.layer == "cedar").unwrap();
    assert_eq!((step.says, step.why.as_str()), ("-", "the one rule is not about the call"));
    assert!(
        ruled(text, &call("fs.read", "code:read", json!({}))).trace.iter().all(|step| step.layer != "cedar")
    );
}

#[test]
fn a_rule_that_asks_adds_a_question_and_people() {
    let text = "@effect(\"ask\") @people(\"2\") @why(\"two pairs of eyes\") forbid (principal, action == Action::\"code:write\", resource);";
    let Verdict::Ask(question) = ruled(text, &write(json!({}))).verdict else { panic!("not asked") };
    assert_eq!(question.quorum, 2);
    assert_eq!(question.why, ["rules.cedar:1: two pairs of eyes (asks 2 people)"]);
    // What forbids wins, wherever it stands.
    let both = format!("{text}\nforbid (principal, action, resource);");
    assert_eq!(denied(&both, &write(json!({}))).1, "rules.cedar:2 (forbids)");
}

#[test]
fn a_rule_that_fails_denies_whatever_its_effect() {
    let call = write(json!({ "amount": "many" }));
    for (condition, told) in [
        ("context.arguments.missing == 1", "missing"),
        ("context.arguments.amount > 100", "expected long"),
        ("context.task == \"x\"", "task"),
        ("9223372036854775807 + 1 > 0", "overflow"),
    ] {
        for effect in ["", "@effect(\"ask\")"] {
            let text = format!("{effect} forbid (principal, action, resource) when {{ {condition} }};");
            let (code, message) = denied(&text, &call);
            assert_eq!(code, Code::RuleFailed, "{message}");
            assert!(message.starts_with("rules.cedar:1 (cannot be evaluated"), "{message}");
            assert!(message.contains(told), "{message}");
        }
    }
    let guarded = "forbid (principal, action, resource) when { context.arguments has missing && context.arguments.missing == 1 };";
    assert_eq!(ruled(guarded, &call).verdict.as_str(), "allow");
}

#[test]
fn a_value_that_cannot_be_shown_is_no_way_around_a_rule_that_reads_it() {
    let text = "forbid (principal, action, resource == Tool::\"fs.write\") when { context.arguments has amount && context.arguments.amount > 100 };";
    for odd in [json!(1e300), json!(u64::MAX), json!([1, "x"]), json!(1.000_001), json!({ "a": [null] })] {
        let (code, message) = denied(text, &write(json!({ "amount": odd })));
        assert_eq!(code, Code::RuleFailed, "{odd}: {message}");
    }
    // It concerns that argument, and those calls, alone.
    assert_eq!(says(text, &write(json!({ "amount": 5, "other": 1e300 }))), CedarSays::Nothing);
    assert_eq!(says(text, &call("fs.read", "code:read", json!({ "amount": 1e300 }))), CedarSays::Nothing);
    assert_eq!(says(text, &write(json!({ "amount": null }))), CedarSays::Nothing);
    assert_eq!(says(text, &write(json!({ "amount": 101.0 }))), CedarSays::Matches);
    let whole = "forbid (principal, action, resource) when { context.arguments == {\"a\": 1} };";
    assert!(matches!(says(whole, &write(json!({ "b": 1e300 }))), CedarSays::Fails(_)));
}

#[test]
fn rules_see_the_agent_the_action_the_tool_and_the_moment() {
    let mut seen = write(json!({ "list": ["a", "b"], "deep": { "er": { "x": true } }, "price": 12.5 }));
    seen.task = Some(TaskName::parse("t-1").unwrap());
    seen.facets.hosts = vec![Target::parse("example.com:443").unwrap()];
    seen.facets.commands = vec![Command { starts: vec!["/usr/bin/git".to_owned()], ..Command::named("env") }];
    for condition in [
        "principal == Agent::\"coder\"",
        "principal.level == \"standard\" && principal.autonomy == \"semi\"",
        "action in Action::\"code\"",
        "action == Action::\"code:write\"",
        "resource == Tool::\"fs.write\"",
        "resource.category == \"file_system\" && resource.safety == \"write\"",
        "resource.egress == \"none\" && resource.trust == \"internal\"",
        "context.arguments.list.contains(\"b\")",
        "context.arguments.deep.er.x",
        "context.arguments.price.greaterThan(decimal(\"12.4\"))",
        "context.task == \"t-1\"",
        "context.hosts.contains(\"example.com\")",
        "context.commands.contains(\"git\") && context.commands.contains(\"env\")",
        "context.hour == 0 && context.weekday == \"thursday\"",
    ] {
        let text = format!("forbid (principal, action, resource) when {{ {condition} }};");
        assert_eq!(says(&text, &seen), CedarSays::Matches, "{condition}");
    }
    let elevated = Agent { level: Level::Elevated, ..Agent::default() };
    let text = "forbid (principal, action, resource) when { principal.level == \"elevated\" };";
    assert_eq!(
        cedar_says(&rules(text)[0], &seen, &elevated, &Circumstances::default(), &ArgumentTypes::default()),
        CedarSays::Matches
    );
}

#[test]
fn what_cannot_be_told_of_a_call_is_not_there_and_a_rule_that_needs_it_fails() {
    let hosts = "forbid (principal, action, resource) when { context.hosts.contains(\"evil.example\") };";
    let commands = "forbid (principal, action, resource) when { context.commands.contains(\"curl\") };";
    let mut told = write(json!({}));
    assert_eq!((says(hosts, &told), says(commands, &told)), (CedarSays::Nothing, CedarSays::Nothing));
    told.facets.commands = vec![Command { untold: Some("starts a shell"), ..Command::named("sh") }];
    assert!(matches!(says(commands, &told), CedarSays::Fails(_)));
    told.facets.profile = Some(Profile::Networked);
    assert!(matches!(says(hosts, &told), CedarSays::Fails(_)));
    told.facets.profile = None;
    told.facets.egress = EgressClass::Write;
    assert!(matches!(says(hosts, &told), CedarSays::Fails(_)));
}

#[test]
fn the_hint_about_what_cannot_be_told_does_not_advise_to_let_it_by() {
    let hint_of = |text: &str, call: &Admitted| match ruled(text, call).verdict {
        Verdict::Deny(reason) => reason.hint.unwrap(),
        other => panic!("{other:?}"),
    };
    let mut untold = write(json!({}));
    untold.facets.commands = vec![Command { untold: Some("starts a shell"), ..Command::named("sh") }];
    let commands = "forbid (principal, action, resource) when { context.commands.contains(\"rm\") };";
    let hint = hint_of(commands, &untold);
    assert!(hint.contains("write `if context has commands then … else true`"), "{hint}");
    assert!(!hint.contains("asks whether there is something to look at"), "{hint}");
    // An argument of the same name is another thing, and there `has` is right.
    let argument = "forbid (principal, action, resource) when { context.arguments.commands == \"rm\" };";
    assert!(hint_of(argument, &untold).contains("`has` asks whether"), "{}", hint_of(argument, &untold));
    let strict = "forbid (principal, action, resource) when { if context has commands then context.commands.contains(\"rm\") else true };";
    assert_eq!(denied(strict, &untold).0, Code::DeniedByRule);
}

#[test]
fn what_there_is_not_is_refused_with_its_place() {
    let refused = |text: &str| -> Vec<String> {
        let problems = CedarRule::read(text, |line| line.to_string()).unwrap_err();
        problems
            .iter()
            .map(|problem| format!("{}:{}: {}", problem.line, problem.column, problem.message))
            .collect()
    };
    let when =
        |condition: &str| refused(&format!("\nforbid (principal, action, resource) when {{ {condition} }};"));
    assert_eq!(
        when("principal.levl == \"x\""),
        [
            "2:45: `principal` has no attribute `levl`; there is `level`, `autonomy`, `role`, `seniority`, did you mean `level`?"
        ]
    );
    assert!(when("context has argumnts")[0].starts_with("2:45: `context` has no attribute `argumnts`"));
    assert!(when("action.x == 1")[0].contains("`action` has no attribute `x`; there is none"));
    assert!(when("principal is User")[0].contains("there is no entity type `User`"));
    assert!(when("principal == User::\"x\"")[0].contains("there is no entity type `User`"));
    assert!(refused("forbid (principal is X, action, resource);")[0].contains("entity type `X`"));
    assert!(refused("permit (principal, action, resource);")[0].contains("`permit` changes nothing"));
    assert!(
        refused("@efect(\"ask\") forbid (principal, action, resource);")[0]
            .contains("unknown annotation `@efect`")
    );
    assert!(
        refused("@effect(\"allow\") forbid (principal, action, resource);")[0]
            .contains("unknown effect `allow`")
    );
    assert!(refused("@people(\"2\") forbid (principal, action, resource);")[0].contains("means nothing"));
    assert!(
        refused("@effect(\"ask\") @people(\"0\") forbid (principal, action, resource);")[0]
            .contains("from 1 to 20")
    );
    assert!(
        refused("@why(\"a\\u{202e}b\") forbid (principal, action, resource);")[0].contains("cannot be seen")
    );
    assert!(refused("forbid (principal == ?principal, action, resource);")[0].contains("slots"));
    let broken = refused("forbid (principal, action, resource)\nwhen { context.arguments. };");
    assert!(broken[0].starts_with("2:"), "{broken:?}");
}

#[test]
fn a_rule_says_what_it_names_and_which_arguments_it_reads() {
    let rule = &rules(
        "forbid (principal == Agent::\"a\", action in [Action::\"vcs\"], resource == Tool::\"git.push\")\n\
         when { context.arguments has remote && context.arguments.remote.url like \"*evil*\" };",
    )[0];
    let named = [Named::Agent("a".into()), Named::Action("vcs".into()), Named::Tool("git.push".into())];
    assert_eq!(rule.names(), named);
    assert_eq!(rule.reads(), &Reads::Names(["remote".to_owned()].into()));
    assert_eq!(rule.tool().as_deref(), Some("git.push"));
    for all in ["context == context", "{\"x\": context.arguments} has x", "context.arguments == {}"] {
        let rule = &rules(&format!("forbid (principal, action, resource) when {{ {all} }};"))[0];
        assert_eq!(rule.reads(), &Reads::All, "{all}");
    }
}

#[test]
fn the_text_of_a_rule_is_a_part_of_what_names_the_settings() {
    let hash = |text: &str| settings(text).hash().unwrap();
    let (one, other) = (
        "forbid (principal, action, resource) when { 1 > 2 };",
        "forbid (principal, action, resource) when { 2 > 1 };",
    );
    assert_eq!(hash(one), hash(one));
    assert_ne!(hash(one), hash(other));
    assert_ne!(hash(one), hash(""));
}

const TOOLS: [&str; 3] = ["fs.write", "fs.read", "git.push"];
const ACTIONS: [&str; 4] = ["code:write", "code:read", "vcs:push", "vcs:read"];
const SCOPES: [&str; 6] = [
    "action",
    "action == Action::\"code:write\"",
    "action == Action::\"vcs\"",
    "action in Action::\"vcs\"",
    "action in [Action::\"code\", Action::\"vcs:push\", Action::\"vcs\"]",
    "action in [Action::\"code:read\"]",
];
const RESOURCES: [&str; 6] = [
    "resource",
    "resource is Tool",
    "resource == Tool::\"fs.write\"",
    "resource in Tool::\"git.push\"",
    "resource is Tool in Tool::\"fs.read\"",
    "resource == Tool::\"nowhere\"",
];
const CONDITIONS: [&str; 4] = [
    "",
    "when { context.arguments.x == 1 }",
    "when { context.arguments has x }",
    "unless { action in Action::\"code\" }",
];

proptest! {
    /// Every rule is asked, and what the strictest of them says is what is decided.
    #[test]
    fn the_index_finds_what_a_look_at_every_rule_finds(
        scopes in prop::collection::vec((select(&SCOPES[..]), select(&RESOURCES[..]), select(&CONDITIONS[..]), any::<bool>()), 0..8),
        tool in select(&TOOLS[..]),
        action in select(&ACTIONS[..]),
        names in subsequence(vec!["x", "y"], 0..=2),
    ) {
        let texts = scopes.iter().map(|(action, resource, condition, asks)| {
            let effect = if *asks { "@effect(\"ask\")" } else { "" };
            format!("{effect} forbid (principal, {action}, {resource}) {condition};\n")
        });
        let text: String = texts.collect();
        let arguments: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
        let call = call(tool, action, Value::Object(arguments));
        let mut expected = Vec::new();
        let agent = Agent { autonomy: Autonomy::Full, ..Agent::default() };
        for (rule, (.., asks)) in rules(&text).iter().zip(&scopes) {
            match cedar_says(rule, &call, &agent, &Circumstances::default(), &ArgumentTypes::default()) {
                CedarSays::Nothing => {}
                CedarSays::Matches if *asks => expected.push(("ask", rule.place.clone())),
                CedarSays::Matches | CedarSays::Fails(_) => {
                    expected.push(("deny", rule.place.clone()));
                    break;
                }
            }
        }
        let trace = ruled(&text, &call).trace;
        let heard = trace.iter().filter(|step| step.layer == "cedar" && step.says != "-");
        let heard: Vec<(&str, String)> =
            heard.map(|step| (step.says, step.why.split([' ', '(']).next().unwrap().to_owned())).collect();
        prop_assert_eq!(heard, expected);
    }
}
