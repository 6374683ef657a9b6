//! Roles, seniority and denied actions: what each hides or holds down, and which layer says so.
#![expect(clippy::panic, clippy::unwrap_used, reason = "names in tests are valid")]

use contract::{Actions, Autonomy, Category, Level, RoleName, SafetyClass};
use policy::{
    Agent, Constraints, Git, Network, Overrides, Policy, Preset, Role, Ruling, Seniority, Setting, Settings,
    Terminal, ToolFacts, ToolGlob, Verdict, decide, may_see,
};

use crate::given;

fn role(categories: &[Category], tools: &[&str], denied: &[&str]) -> Role {
    let globs = |texts: &[&str]| texts.iter().map(|text| ToolGlob::parse(text).unwrap()).collect();
    Role { categories: categories.iter().copied().collect(), tools: globs(tools), denied: globs(denied) }
}

fn settings(agent: Agent) -> Settings {
    let name = |text| RoleName::parse(text).unwrap();
    Settings {
        roles: [
            (name("tester"), role(&[Category::FileSystem], &["git.status"], &["fs.delete"])),
            (name("nobody"), role(&[], &[], &[])),
        ]
        .into(),
        ..given::settings(agent)
    }
}

/// One whose calls are all of one class.
fn tool(name: &str, category: Category, safety: SafetyClass) -> ToolFacts {
    ToolFacts { least: safety, ..given::tool(name, category, safety) }
}

fn ruling(agent: Agent, tool: ToolFacts, action: &str) -> Ruling {
    ruling_under(settings(agent), tool, action)
}

fn ruling_under(settings: Settings, tool: ToolFacts, action: &str) -> Ruling {
    let facets = given::facets(action, tool.safety);
    decide(&given::call(tool, facets), &given::facts(), &Policy::of(settings).unwrap())
}

/// The layer that refuses, and the code of the reason.
fn refused(ruling: &Ruling) -> (&'static str, &'static str) {
    let Verdict::Deny(reason) = &ruling.verdict else { panic!("{:?}", ruling.verdict) };
    let layer = ruling.trace.iter().find(|step| step.says == "deny").unwrap().layer;
    (layer, reason.code.as_str())
}

fn with_role(name: &str) -> Agent {
    Agent { role: Some(RoleName::parse(name).unwrap()), ..Agent::default() }
}

#[test]
fn an_agent_sees_what_its_role_includes_of_what_it_would_see_without() {
    let read = || tool("fs.read", Category::FileSystem, SafetyClass::Read);
    let sees = |agent: &Agent, tool: &ToolFacts| may_see(agent, tool, &settings(agent.clone())).is_ok();
    let tester = with_role("tester");
    assert!(sees(&tester, &read()));
    assert!(sees(&tester, &tool("git.status", Category::VersionControl, SafetyClass::Read)));
    assert!(!sees(&tester, &tool("git.log", Category::VersionControl, SafetyClass::Read)));
    assert!(!sees(&tester, &tool("fs.delete", Category::FileSystem, SafetyClass::Write)));
    assert!(!sees(&with_role("nobody"), &read()));
    assert!(!sees(&with_role("unheard-of"), &read()), "a role that there is not includes nothing");
    // A role shows nothing that the agent does not have, and its own list nothing that the role does not include.
    let low = Agent { level: Level::Custom, ..tester.clone() };
    assert!(!sees(&low, &read()));
    let named = Agent { allowed: vec![ToolGlob::parse("*").unwrap()], ..tester };
    assert!(!sees(&named, &tool("git.log", Category::VersionControl, SafetyClass::Read)));
}

#[test]
fn the_role_has_a_layer_of_its_own_in_the_trace() {
    let log = tool("git.log", Category::VersionControl, SafetyClass::Read);
    assert_eq!(refused(&ruling(with_role("tester"), log, "vcs:read")), ("role", "not_in_role"));
    let read = tool("fs.read", Category::FileSystem, SafetyClass::Read);
    let seen = ruling(with_role("tester"), read, "code:read");
    assert!(matches!(seen.verdict, Verdict::Allow(_)));
    let said: Vec<&str> =
        seen.trace.iter().filter(|step| step.layer == "role").map(|step| step.why.as_str()).collect();
    assert_eq!(said, ["role `tester` includes `fs.read`"]);
}

#[test]
fn seniority_holds_down_level_overrides_and_autonomy() {
    let overrides = Overrides {
        network: Some(Network::Open),
        git: Some(Git::Full),
        terminal: Some(Terminal::Full),
        deployment: Some(true),
        ..Overrides::default()
    };
    let elevated = Agent { level: Level::Elevated, autonomy: Autonomy::Full, overrides, ..Agent::default() };
    let held = |seniority| {
        let agent = Agent { seniority: Some(seniority), ..elevated.clone() };
        (agent.level_in_force(), agent.autonomy_in_force(), settings(agent.clone()).constraints_of(&agent))
    };
    let at = |level, autonomy| (level, autonomy, Constraints::of(level));
    assert_eq!(held(Seniority::Junior), at(Level::Restricted, Autonomy::Supervised));
    assert_eq!(held(Seniority::Mid), at(Level::Standard, Autonomy::Semi));
    assert_eq!(held(Seniority::Senior), at(Level::Standard, Autonomy::Full));
    assert_eq!(held(Seniority::Lead), at(Level::Elevated, Autonomy::Full));
    // It gives nothing: what an agent was not given a lead does not have.
    let locked = Agent { seniority: Some(Seniority::Lead), ..Preset::Locked.agent() };
    assert_eq!(locked.autonomy_in_force(), Autonomy::Locked);
    assert_eq!(
        settings(locked.clone()).constraints_of(&locked),
        settings(Preset::Locked.agent()).constraints_of(&Preset::Locked.agent())
    );
}

#[test]
fn a_junior_is_asked_about_every_change_and_the_trace_says_why() {
    let write = || tool("fs.write", Category::FileSystem, SafetyClass::Write);
    let free = ruling(Agent::default(), write(), "code:write");
    assert!(matches!(free.verdict, Verdict::Allow(_)), "else it is free");
    let junior = Agent { seniority: Some(Seniority::Junior), ..Agent::default() };
    let asked = ruling(junior, write(), "code:write");
    assert!(matches!(asked.verdict, Verdict::Ask(_)));
    let said = asked.trace.iter().find(|step| step.layer == "seniority").unwrap();
    assert_eq!(said.why, "`junior` goes no further than level `restricted` and autonomy `supervised`");
}

#[test]
fn what_seniority_holds_down_names_the_line_of_the_seniority() {
    let name = given::agent();
    let junior = Agent { seniority: Some(Seniority::Junior), ..Agent::default() };
    let mut settings = settings(junior);
    for (line, setting) in [Setting::Level, Setting::Autonomy, Setting::Seniority].into_iter().enumerate() {
        settings.origins.insert(setting(name.clone()), format!("toolgate.yaml:{}", line + 1));
    }
    let place_of = |layer: &str, tool, action| {
        let trace = ruling_under(settings.clone(), tool, action).trace;
        trace.into_iter().find(|step| step.layer == layer).unwrap().place.unwrap()
    };
    let write = || tool("fs.write", Category::FileSystem, SafetyClass::Write);
    let shell = || tool("shell", Category::Terminal, SafetyClass::Write);
    assert_eq!(place_of("autonomy", write(), "code:write"), "toolgate.yaml:3");
    assert_eq!(place_of("level", write(), "code:write"), "toolgate.yaml:3");
    assert_eq!(place_of("permission", shell(), "exec:build"), "toolgate.yaml:3");
    assert_eq!(place_of("permission", write(), "code:write"), "toolgate.yaml:1", "its level has that");
}

#[test]
fn an_action_that_is_denied_is_denied_with_every_tool_and_whatever_waives_questions() {
    let denied = |agent: Agent| Agent {
        denied_actions: [Actions::default().parse("code:write").unwrap()].into(),
        ..agent
    };
    let write = || tool("fs.write", Category::FileSystem, SafetyClass::Write);
    for agent in [
        Agent::default(),
        Agent { autonomy: Autonomy::Full, ..Agent::default() },
        Agent { auto_approve: Actions::default().all().collect(), ..Agent::default() },
    ] {
        assert_eq!(refused(&ruling(denied(agent), write(), "code:write")), ("agent", "denied_by_list"));
    }
    let other = ruling(denied(Agent::default()), write(), "code:create");
    assert!(matches!(other.verdict, Verdict::Allow(_)));
}

#[test]
fn a_locked_agent_does_not_even_see_what_only_changes_things() {
    let locked = Agent { autonomy: Autonomy::Locked, ..Agent::default() };
    let write = tool("fs.write", Category::FileSystem, SafetyClass::Write);
    let sees = |tool: &ToolFacts| may_see(&locked, tool, &settings(locked.clone())).is_ok();
    assert!(!sees(&write));
    assert!(sees(&ToolFacts { least: SafetyClass::Read, ..write.clone() }), "some of its calls only look");
    assert_eq!(refused(&ruling(locked.clone(), write, "code:write")), ("autonomy", "locked"));
}
