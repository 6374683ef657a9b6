//! Who must be asked, how long, how many, and which earlier yes is enough.
#![expect(clippy::unwrap_used, reason = "names in a table of tests are valid")]

use std::sync::Arc;

use contract::{
    AgentName, Amount, ApprovalId, Category, Code, Digest, OperatorName, Profile, SafetyClass, Scope,
    TaskName,
};
use policy::{
    Admitted, Agent, AmountLimit, Amounts, ApprovalRule, ArgumentPath, Conditions, Facets, Facts, Policy,
    RuleEffect, Ruling, Settings, Standing, ToolGlob, Verdict, decide,
};
use serde_json::{Value, json};

use crate::given::{self, agent, facts};

fn settings() -> Settings {
    given::settings(Agent::default())
}

fn operators(names: &[&str]) -> Vec<OperatorName> {
    names.iter().map(|name| OperatorName::parse(name).unwrap()).collect()
}

/// A command that changes something: asked for by default.
fn call(safety: SafetyClass, values: Value) -> Admitted {
    let tool = given::tool("shell", Category::Terminal, SafetyClass::Privileged);
    let facets = Facets { profile: Some(Profile::Mutate), ..given::facets("exec:mutate", safety) };
    Admitted {
        task: Some(TaskName::parse("t1").unwrap()),
        arguments: Digest::of(values.to_string().as_bytes()),
        values: Arc::new(values),
        ..given::call(tool, facets)
    }
}

fn decided(call: &Admitted, facts: &Facts, settings: &Settings) -> Ruling {
    decide(call, facts, &Policy::of(settings.clone()).unwrap())
}

fn standing(call: &Admitted, scope: Scope) -> Standing {
    Standing {
        approval: ApprovalId::from_random([7; 16]),
        scope,
        by: operators(&["me"]),
        agent: agent(),
        task: call.task.clone(),
        contract: call.tool.hash,
        action: "exec:mutate".to_owned(),
        profile: Some(Profile::Mutate),
        arguments: call.arguments,
        content: Some(Digest::of(b"files")),
        place: Digest::of(b"/work/project"),
        policy: settings().hash().unwrap(),
        why: vec!["`exec:mutate` is asked for by default".to_owned()],
        expires_at: 2_000,
    }
}

/// The verdict with one earlier yes.
fn under(standing: Standing, call: &Admitted, settings: &Settings) -> &'static str {
    let facts = Facts { standing: vec![standing], ..facts() };
    decided(call, &facts, settings).verdict.as_str()
}

#[test]
fn an_earlier_yes_covers_what_its_scope_says_and_names_itself() {
    let asked = call(SafetyClass::Write, json!({ "command": "rm", "args": ["x"] }));
    let other = call(SafetyClass::Write, json!({ "command": "rm", "args": ["y"] }));
    let mut elsewhere = asked.clone();
    elsewhere.task = Some(TaskName::parse("t2").unwrap());
    let mut nowhere = asked.clone();
    nowhere.task = None;
    let table = [
        (Scope::Once, ["ask", "ask", "ask", "ask"]),
        (Scope::Task, ["allow", "ask", "ask", "ask"]),
        (Scope::Agent, ["allow", "ask", "allow", "allow"]),
        (Scope::Type, ["allow", "allow", "allow", "allow"]),
    ];
    for (scope, expected) in table {
        let verdicts = [&asked, &other, &elsewhere, &nowhere]
            .map(|call| under(standing(&asked, scope), call, &settings()));
        assert_eq!(verdicts, expected, "{scope}");
    }
    // One that was asked for no task is good for no task, and that includes none.
    assert_eq!(under(standing(&nowhere, Scope::Task), &nowhere, &settings()), "ask");

    let facts = Facts { standing: vec![standing(&asked, Scope::Agent)], ..facts() };
    let ruling = decided(&asked, &facts, &settings());
    let Verdict::Allow(grant) = ruling.verdict else { panic!("it is covered") };
    assert_eq!(grant.authority().approval, Some(ApprovalId::from_random([7; 16])));
    let last = ruling.trace.last().unwrap();
    assert_eq!((last.layer, last.says), ("standing", "allow"));
    assert_eq!(last.why, "approval 07070707 by me covers it, for its agent");
}

#[test]
fn an_earlier_yes_ends_with_whatever_it_was_given_for() {
    let asked = call(SafetyClass::Write, json!({ "command": "rm" }));
    let good = || standing(&asked, Scope::Type);
    let other = Digest::of(b"other");
    let changes: [(&str, Standing); 9] = [
        ("time", Standing { expires_at: 1_000, ..good() }),
        ("agent", Standing { agent: AgentName::parse("other").unwrap(), ..good() }),
        ("tool", Standing { contract: other, ..good() }),
        ("policy", Standing { policy: other, ..good() }),
        ("workspace", Standing { place: other, ..good() }),
        ("action", Standing { action: "exec:build".to_owned(), ..good() }),
        ("profile", Standing { profile: Some(Profile::Build), ..good() }),
        ("reason", Standing { why: vec!["something else".to_owned()], ..good() }),
        ("people", Standing { by: Vec::new(), ..good() }),
    ];
    assert_eq!(under(good(), &asked, &settings()), "allow");
    for (what, changed) in changes {
        assert_eq!(under(changed, &asked, &settings()), "ask", "{what}");
    }
}

#[test]
fn an_earlier_yes_to_a_file_ends_when_the_file_changes() {
    let asked = call(SafetyClass::Write, json!({ "command": "sh", "args": ["deploy.sh"] }));
    for scope in [Scope::Task, Scope::Agent] {
        let facts = |content| Facts { standing: vec![standing(&asked, scope)], content, ..given::facts() };
        let verdict = |content| decided(&asked, &facts(content), &settings()).verdict.as_str();
        assert_eq!(verdict(Some(Digest::of(b"files"))), "allow");
        assert_eq!(verdict(Some(Digest::of(b"changed"))), "ask");
        assert_eq!(verdict(None), "ask");
        let unknown = Facts {
            standing: vec![Standing { content: None, ..standing(&asked, scope) }],
            content: None,
            ..given::facts()
        };
        assert_eq!(decided(&asked, &unknown, &settings()).verdict.as_str(), "ask");
    }
}

#[test]
fn no_earlier_yes_covers_money_or_what_guards() {
    for safety in [SafetyClass::Financial, SafetyClass::Privileged] {
        let asked = call(safety, json!({}));
        let class = format!("`{safety}` calls are always approved by people");
        let mut wide = standing(&asked, Scope::Type);
        wide.why.push(class);
        wide.by = operators(&["me", "you"]);
        assert_eq!(under(wide, &asked, &settings()), "ask", "{safety}");
    }
}

#[test]
fn an_earlier_yes_never_lifts_a_no() {
    let asked = call(SafetyClass::Write, json!({}));
    let deny = ApprovalRule::about(ToolGlob::parse("shell").unwrap(), RuleEffect::Deny, "f:1");
    let settings = Settings { rules: vec![deny], ..settings() };
    let good = Standing { policy: settings.hash().unwrap(), ..standing(&asked, Scope::Type) };
    assert_eq!(under(good, &asked, &settings), "deny");
}

#[test]
fn a_rule_can_ask_more_people_and_never_fewer_than_the_class() {
    let rule = |quorum| ApprovalRule {
        quorum,
        ..ApprovalRule::about(ToolGlob::parse("shell").unwrap(), RuleEffect::Prompt, "f:1")
    };
    let quorum = |safety, quorum| {
        let settings = Settings { rules: vec![rule(quorum)], ..settings() };
        let facts = Facts { operators: 3, ..facts() };
        match decided(&call(safety, json!({})), &facts, &settings).verdict {
            Verdict::Ask(question) => question.quorum,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(quorum(SafetyClass::Write, 1), 1);
    assert_eq!(quorum(SafetyClass::Write, 3), 3);
    assert_eq!(quorum(SafetyClass::Financial, 1), 1);
    assert_eq!(quorum(SafetyClass::Privileged, 1), 2);
    assert_eq!(quorum(SafetyClass::Privileged, 3), 3);
}

#[test]
fn what_too_few_people_could_approve_is_not_asked() {
    let rule = ApprovalRule {
        quorum: 3,
        ..ApprovalRule::about(ToolGlob::parse("shell").unwrap(), RuleEffect::Prompt, "f:1")
    };
    let three = Settings { rules: vec![rule], ..settings() };
    for (settings, operators) in [(&three, 2), (&settings(), 0)] {
        let facts = Facts { operators, ..facts() };
        let ruling = decided(&call(SafetyClass::Write, json!({})), &facts, settings);
        assert!(matches!(ruling.verdict, Verdict::Deny(reason) if reason.code == Code::NoOperator));
    }
}

#[test]
fn how_long_a_question_waits_depends_on_its_class() {
    let mut settings = settings();
    settings.asking.deny_after = [(SafetyClass::Financial, 900_000), (SafetyClass::Privileged, 50)].into();
    let waits_until = |safety| match decided(&call(safety, json!({})), &facts(), &settings).verdict {
        Verdict::Ask(question) => question.expires_at,
        other => panic!("{other:?}"),
    };
    assert_eq!(waits_until(SafetyClass::Write), 301_000);
    assert_eq!(waits_until(SafetyClass::Financial), 901_000);
    assert_eq!(waits_until(SafetyClass::Privileged), 1_050);
}

#[test]
fn a_rule_about_amounts_is_not_skipped_by_an_amount_that_cannot_be_read() {
    let argument = ArgumentPath::parse("amount").unwrap();
    let rule = |effect, amounts| ApprovalRule {
        when: Conditions {
            amount: Some(AmountLimit { argument: argument.clone(), amounts }),
            ..Conditions::default()
        },
        ..ApprovalRule::about(ToolGlob::parse("shell").unwrap(), effect, "f:1")
    };
    let (ten, hundred) = (Amount::parse(10.0).unwrap(), Amount::parse(100.0).unwrap());
    let settings = Settings {
        rules: vec![
            rule(RuleEffect::Approve, Amounts::UpTo(ten)),
            rule(RuleEffect::Prompt, Amounts::Over(ten)),
            rule(RuleEffect::Deny, Amounts::Over(hundred)),
        ],
        ..settings()
    };
    let verdict = |values| decided(&call(SafetyClass::Write, values), &facts(), &settings).verdict.as_str();
    assert_eq!(verdict(json!({ "amount": 10 })), "allow");
    assert_eq!(verdict(json!({ "amount": 11 })), "ask");
    assert_eq!(verdict(json!({ "amount": 101 })), "deny");
    for odd in [json!({}), json!({ "amount": "1" }), json!({ "Amount": 1 }), json!({ "amount": -1 })] {
        assert_eq!(verdict(odd.clone()), "deny", "{odd}");
    }
}
