//! Presets, roles and seniority: what an agent's own keys change of its preset, and which names are refused.

use std::collections::BTreeSet;

use contract::{Actions, AgentName, Autonomy, Level};
use policy::{Agent, Git, Network, Overrides, Preset, Seniority, Terminal, ToolGlob};

use super::{load, loaded};

fn agent(text: &str) -> Agent {
    let settings = loaded(text).meaning.settings;
    settings.agents[&AgentName::parse("a").unwrap()].clone()
}

fn refusal(text: &str) -> String {
    load("toolgate.yaml", text.as_bytes()).unwrap_err()
}

#[test]
fn a_preset_alone_is_what_the_preset_is() {
    for preset in Preset::ALL {
        assert_eq!(agent(&format!("agents: {{ a: {{ preset: {} }} }}", preset.as_str())), preset.agent());
    }
    assert_eq!(Preset::Coder.agent(), Agent::default(), "the agent of the first ten minutes");
}

#[test]
fn an_agents_own_keys_take_the_place_of_its_presets_and_restrictions_add_up() {
    let own = agent(
        "agents: { a: { preset: reviewer, level: sandboxed, autonomy: full, allowed_tools: [shell], denied_tools: [git.log], \
         auto_approve: [exec:build], human_approval: [exec:inspect], denied_actions: [code:read], \
         overrides: { terminal: none, git: full, requires_approval: [vcs] } } }",
    );
    let reviewer = Preset::Reviewer.agent();
    let actions = |text: &str| Actions::default().expand(text).unwrap().into_iter();
    let globs = |texts: &[&str]| texts.iter().map(|text| ToolGlob::parse(text).unwrap()).collect::<Vec<_>>();
    let expected = Agent {
        level: Level::Sandboxed,
        autonomy: Autonomy::Full,
        allowed: globs(&["shell"]),
        denied: globs(&["git.log"]),
        auto_approve: actions("exec:build").collect(),
        human_approval: actions("exec:inspect")
            .chain(actions("exec:build"))
            .chain(actions("test:run"))
            .collect(),
        denied_actions: reviewer.denied_actions.iter().cloned().chain(actions("code:read")).collect(),
        overrides: Overrides {
            network: Some(Network::None),
            terminal: Some(Terminal::None),
            git: Some(Git::Full),
            requires_approval: Some(actions("vcs").collect()),
            ..Overrides::default()
        },
        ..Agent::default()
    };
    assert_eq!(own, expected);
    assert_eq!(
        agent("agents: { a: { preset: locked, allowed_tools: [] } }").allowed,
        Vec::new(),
        "an empty list is none"
    );
    let waived = agent("agents: { a: { preset: reviewer, auto_approve: [] } }");
    assert_eq!(waived.auto_approve, BTreeSet::new());
}

#[test]
fn a_preset_is_no_agent_until_one_has_it() {
    let agents = loaded("{}").meaning.settings.agents;
    assert_eq!(agents.keys().map(AgentName::as_str).collect::<Vec<_>>(), ["default"]);
}

#[test]
fn a_role_and_a_seniority_are_what_the_file_says() {
    let text = "roles: { tester: { categories: [git], tools: [shell], deniedTools: [git.push] } }\n\
        agents: { a: { role: tester, seniority: mid } }";
    let settings = loaded(text).meaning.settings;
    let agent = &settings.agents[&AgentName::parse("a").unwrap()];
    assert_eq!(agent.role.as_ref().map(|role| role.as_str()), Some("tester"));
    assert_eq!(agent.seniority, Some(Seniority::Mid));
    let shown = serde_json::to_value(&settings.roles).unwrap();
    let expected = serde_json::json!({
        "tester": { "categories": ["version_control"], "tools": ["shell"], "denied": ["git.push"] }
    });
    assert_eq!(shown, expected);
}

#[test]
fn names_that_there_are_not_are_refused_with_their_line_and_the_nearest() {
    for (text, expected) in [
        (
            "agents:\n  a: { preset: codr }",
            "2:16: unknown word `codr`; there is `coder`, `researcher`, `reviewer` and `locked`, did you mean `coder`?",
        ),
        (
            "agents:\n  a: { seniority: juniour }",
            "2:19: unknown word `juniour`; there is `junior`, `mid`, `senior` and `lead`, did you mean `junior`?",
        ),
        (
            "roles: { tester: { tools: [shell] } }\nagents:\n  a: { role: testr }",
            "3:14: there is no role `testr`, did you mean `tester`?",
        ),
        ("agents:\n  a: { role: tester }", "2:14: there is no role `tester`; there is nothing"),
        (
            "agents: { a: { denied_actions: [code:wirte] } }",
            "1:33: there is no action `code:wirte`, did you mean `code:write`?",
        ),
        ("roles: { tester: { tools: [shel] } }", "1:28: there is no tool `shel`, did you mean `shell`?"),
        (
            "roles: { tester: { categories: [gti] } }",
            "1:33: unknown word `gti`; there is `file_system`, `code_execution`, `version_control`, `git`, `web`, `database`, \
             `terminal`, `design`, `communication`, `analytics`, `deployment`, `memory`, `mcp` and `other`, did you mean `git`?",
        ),
        ("roles: { tester: { toolz: [shell] } }", "1:20: unknown key `toolz`, did you mean `tools`?"),
        (
            "roles: { tester: {} }",
            "1:10: role `tester` names neither `categories` nor `tools`, and would see nothing; if that is meant, write `tools: []`",
        ),
        (
            "actions: [team:announc]\nagents: { a: { human_approval: [team:announce] } }",
            "2:33: there is no action `team:announce`, did you mean `team:announc`?",
        ),
        (
            "actions: [announce]",
            "1:11: `announce` is not an action of the form `category:action`, in lower case letters and `_`",
        ),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
    assert_eq!(
        agent("actions: [team:announce]\nagents: { a: { human_approval: [team] } }").human_approval.len(),
        1,
        "an action that was registered is one"
    );
}

#[test]
fn a_rule_in_cedar_sees_role_and_seniority_and_those_who_have_none() {
    let text = |expect: &str, agent: &str| {
        format!(
            "roles: {{ tester: {{ categories: [file_system] }} }}\npolicy:\n  rules:\n    - cedar: >-\n        \
             forbid (principal, action, resource == Tool::\"fs.write\") when {{ principal.role == \"tester\" && \
             principal.seniority == \"junior\" && principal.level == \"restricted\" && principal.autonomy == \"supervised\" }};\n      \
             examples:\n        - {{ {agent} tool: fs.write, arguments: {{ path: a, content: b }}, expect: {expect} }}\n"
        )
    };
    loaded(&text("forbid", "agent: { role: tester, seniority: junior },"));
    loaded(&text("nothing", "agent: { role: tester },"));
    loaded(&text("nothing", ""));
    assert!(
        refusal(&text("nothing", "agent: { role: testr },"))
            .contains("there is no role `testr`, did you mean `tester`?")
    );
}
