//! What would let a call run: one change, found by deciding again, and never one that opens what stays shut.
#![expect(clippy::unwrap_used, reason = "names in tests are valid")]

use std::sync::Arc;

use contract::{AgentName, Autonomy, Category, EgressClass, Level, SafetyClass, Target, TrustLabel};
use policy::{
    Admitted, Agent, ApprovalRule, CedarRule, Change, Facets, Facts, Nearest, Policy, RuleEffect, Setting,
    Settings, ToolFacts, ToolGlob, nearest,
};
use serde_json::json;

use crate::given;

fn agent() -> AgentName {
    AgentName::parse("coder").unwrap()
}

fn call(tool: &str, category: Category, action: &str, safety: SafetyClass, egress: EgressClass) -> Admitted {
    let tool = ToolFacts { least: safety, egress, ..given::tool(tool, category, safety) };
    let facets = Facets { egress, ..given::facets(action, safety) };
    Admitted { agent: agent(), values: Arc::new(json!({})), ..given::call(tool, facets) }
}

fn delete() -> Admitted {
    call("fs.delete", Category::FileSystem, "code:delete", SafetyClass::Write, EgressClass::None)
}

fn get(host: &str) -> Admitted {
    let mut call =
        call("http.request", Category::Web, "web:read", SafetyClass::Network, EgressClass::ReadOnly);
    call.facets.hosts = vec![Target::parse(host).unwrap()];
    call
}

fn settings(agent_settings: Agent) -> Settings {
    Settings { agents: [(agent(), agent_settings)].into(), ..Settings::default() }
}

fn found(call: &Admitted, settings: Settings) -> Option<Nearest> {
    let facts = Facts { operators: 3, ..given::facts() };
    nearest(call, &facts, &Policy::of(settings).unwrap())
}

fn change(what: &str, place: Option<&str>, then: &'static str) -> Option<Change> {
    Some(Change { what: what.to_owned(), place: place.map(str::to_owned), then })
}

#[test]
fn a_call_that_may_run_has_nothing_nearest() {
    let read = call("fs.read", Category::FileSystem, "code:read", SafetyClass::Read, EgressClass::None);
    assert_eq!(found(&read, settings(Agent::default())), None);
}

#[test]
fn a_question_names_the_narrowest_rule_that_would_free_it_and_who_can_answer() {
    let nearest = found(&delete(), settings(Agent::default())).unwrap();
    let what = "add a rule to `approval.rules`: `{ tool: fs.delete, action: approve }`";
    assert_eq!(nearest, Nearest { change: change(what, None, "allow"), people: Some(1) });
}

#[test]
fn a_denied_tool_a_lock_and_a_level_are_named_with_their_lines() {
    let free = || Agent { autonomy: Autonomy::Full, ..Agent::default() };
    let mut denied = settings(Agent { denied: vec![ToolGlob::parse("fs.*").unwrap()], ..free() });
    denied.origins.insert(Setting::Denied(agent(), "fs.*".to_owned()), "toolgate.yaml:7");
    assert_eq!(
        found(&delete(), denied).unwrap().change,
        change("remove `fs.*` from `agents.coder.denied_tools`", Some("toolgate.yaml:7"), "allow")
    );
    let mut locked = settings(Agent { autonomy: Autonomy::Locked, ..Agent::default() });
    locked.origins.insert(Setting::Autonomy(agent()), "toolgate.yaml:4");
    assert_eq!(
        found(&delete(), locked).unwrap().change,
        change("set `agents.coder.autonomy` to `full`", Some("toolgate.yaml:4"), "allow")
    );
    let web = settings(Agent { level: Level::Sandboxed, ..free() });
    let nearest = found(&get("example.com:443"), web).unwrap();
    assert_eq!(nearest.change, change("set `agents.coder.level` to `elevated`", None, "allow"));
}

#[test]
fn a_rule_that_denies_is_the_line_to_change_and_two_of_them_are_no_single_change() {
    let deny = |place: &str| ApprovalRule::about(ToolGlob::parse("fs.*").unwrap(), RuleEffect::Deny, place);
    let free = Agent { autonomy: Autonomy::Full, ..Agent::default() };
    let one = Settings { rules: vec![deny("toolgate.yaml:9")], ..settings(free.clone()) };
    assert_eq!(
        found(&delete(), one).unwrap().change,
        change("remove or narrow the rule", Some("toolgate.yaml:9"), "allow")
    );
    let two =
        Settings { rules: vec![deny("toolgate.yaml:9"), deny("toolgate.yaml:10")], ..settings(free.clone()) };
    assert_eq!(found(&delete(), two), Some(Nearest::default()));
    let text = "forbid (principal, action, resource) when { context.arguments.missing == 1 };";
    let cedar = CedarRule::read(text, |line| format!("rules.cedar:{line}")).unwrap();
    assert_eq!(
        found(&delete(), Settings { cedar, ..settings(free) }).unwrap().change,
        change("remove or narrow the rule", Some("rules.cedar:1"), "allow")
    );
}

#[test]
fn a_host_that_is_on_no_list_is_added_to_the_list_in_force() {
    let nearest = found(&get("example.com:443"), settings(Agent::default())).unwrap();
    assert_eq!(nearest.change, change("add `example.com:443` to `egress.allow`", None, "allow"));
    assert_eq!(nearest.people, Some(1));
}

/// What stays shut is not offered to be opened, whoever asks.
#[test]
fn what_stays_shut_is_never_named_as_a_change() {
    assert_eq!(found(&get("169.254.169.254:80"), settings(Agent::default())), Some(Nearest::default()));
    for (safety, people) in [(SafetyClass::Financial, 1), (SafetyClass::Privileged, 2)] {
        let pay = call("pay", Category::Other, "budget:spend", safety, EgressClass::None);
        let elevated =
            settings(Agent { level: Level::Elevated, autonomy: Autonomy::Full, ..Agent::default() });
        assert_eq!(found(&pay, elevated), Some(Nearest { change: None, people: Some(people) }));
    }
    let mut untrusted = delete();
    untrusted.tool.trust = TrustLabel::Untrusted;
    let full = settings(Agent { autonomy: Autonomy::Full, ..Agent::default() });
    assert_eq!(found(&untrusted, full), Some(Nearest { change: None, people: Some(1) }));
}
