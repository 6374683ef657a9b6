//! What would have to be different for a call to run: the nearest single change of the configuration, found by deciding again
//! with it, and who could say yes as things are.
//!
//! Changes nothing itself.
//!
//! # Invariants
//! - No change is named that would not turn the verdict into the one that is told with it.
//! - No change is named that opens what stays shut: special addresses, what a contract does not say, and the people that a class
//!   of calls needs.

use contract::{AgentName, Autonomy, Level, Reach};
use serde::Serialize;

use crate::decide::decide;
use crate::facts::{Admitted, Command, Facts, base_name};
use crate::level::{Git, Network, Overrides, Terminal};
use crate::origins::{Dimension, Setting};
use crate::rule::{ApprovalRule, RuleEffect};
use crate::settings::{Agent, Policy, Settings, ToolGlob};
use crate::verdict::{Step, Verdict};

/// What is nearest to a call that may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Nearest {
    /// The one change that would do, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// How many different people could say yes to it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<usize>,
}

/// One change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What to do.
    pub what: String,
    /// The line that it is about, `FILE:LINE`; nothing where a line has to be added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What would be decided then: `allow`, or `ask` where that is the nearest.
    pub then: &'static str,
}

/// A change that may help, and how the settings are with it.
struct Candidate<'a> {
    what: String,
    place: Option<String>,
    apply: Box<dyn Fn(&mut Settings) + 'a>,
}

/// What is nearest to a call that is asked about or denied; nothing for one that may run.
pub fn nearest(call: &Admitted, facts: &Facts, policy: &Policy) -> Option<Nearest> {
    // A yes is to the settings that it was given under.
    let facts = Facts { consent: None, standing: Vec::new(), ..facts.clone() };
    let ruling = decide(call, &facts, policy);
    let people = match &ruling.verdict {
        Verdict::Allow(_) => return None,
        Verdict::Ask(question) => Some(question.quorum),
        Verdict::Deny(_) => None,
    };
    let said = ruling.verdict.as_str();
    let deciding: Vec<&Step> = ruling.trace.iter().filter(|step| step.says == said).collect();
    let mut second = None;
    for Candidate { what, place, apply } in candidates(call, policy.settings(), &deciding) {
        let mut settings = policy.settings().clone();
        apply(&mut settings);
        let Ok(changed) = Policy::of(settings) else { continue };
        match decide(call, &facts, &changed).verdict {
            Verdict::Allow(_) => {
                return Some(Nearest { change: Some(Change { what, place, then: "allow" }), people });
            }
            Verdict::Ask(_) if people.is_none() && second.is_none() => {
                second = Some(Change { what, place, then: "ask" });
            }
            Verdict::Ask(_) | Verdict::Deny(_) => {}
        }
    }
    Some(Nearest { change: second, people })
}

/// What could help against these says, the narrowest first.
fn candidates<'a>(call: &'a Admitted, settings: &'a Settings, deciding: &[&Step]) -> Vec<Candidate<'a>> {
    let Some(agent) = settings.agents.get(&call.agent) else { return Vec::new() };
    let mut found = Vec::new();
    for step in deciding {
        match step.layer {
            "permission" => permissions(call, settings, agent, &mut found),
            "level" => dimensions(call, settings, agent, &mut found),
            "hosts" => hosts(call, settings, &mut found),
            "shell" => commands(call, settings, &mut found),
            "files" => files(settings, &mut found),
            "action" | "agent" => questions(call, settings, agent, &mut found),
            "autonomy" => autonomy(call, settings, &mut found),
            "rule" => rules(settings, step, &mut found),
            "cedar" => cedar(settings, step, &mut found),
            // Addresses, contracts, classes and the registry are not to be loosened. Whoever has set a role, a seniority or a
            // budget meant it to hold whatever else is said.
            _ => {}
        }
    }
    found
}

fn key(agent: &AgentName, key: &str) -> String {
    format!("`agents.{agent}.{key}`")
}

fn change_agent<'a>(call: &'a Admitted, change: impl Fn(&mut Agent) + 'a) -> Box<dyn Fn(&mut Settings) + 'a> {
    Box::new(move |settings| {
        if let Some(agent) = settings.agents.get_mut(&call.agent) {
            change(agent);
        }
    })
}

fn permissions<'a>(
    call: &'a Admitted,
    settings: &'a Settings,
    agent: &'a Agent,
    found: &mut Vec<Candidate<'a>>,
) {
    let (name, tool) = (&call.agent, &call.tool.name);
    for glob in agent.denied.iter().filter(|glob| glob.matches(tool)) {
        let setting = Setting::Denied(name.clone(), glob.as_str().to_owned());
        found.push(Candidate {
            what: format!("remove `{}` from {}", glob.as_str(), key(name, "denied_tools")),
            place: settings.origins.of(&setting).map(str::to_owned),
            apply: change_agent(call, move |agent| agent.denied.retain(|denied| denied != glob)),
        });
    }
    for glob in settings.disabled.iter().filter(|glob| glob.matches(tool)) {
        found.push(Candidate {
            what: format!("switch `{}` on under `tools`", glob.as_str()),
            place: settings.origin_of_off(tool).map(str::to_owned),
            apply: Box::new(move |settings| settings.disabled.retain(|disabled| disabled != glob)),
        });
    }
    if let Ok(glob) = ToolGlob::parse(tool.as_str()) {
        found.push(Candidate {
            what: format!("add `{tool}` to {}", key(name, "allowed_tools")),
            place: None,
            apply: change_agent(call, move |agent| agent.allowed.push(glob.clone())),
        });
    }
    levels(call, settings, agent, found);
}

fn levels<'a>(call: &'a Admitted, settings: &'a Settings, agent: &'a Agent, found: &mut Vec<Candidate<'a>>) {
    let ladder = [Level::Sandboxed, Level::Restricted, Level::Standard, Level::Elevated];
    for level in ladder.into_iter().filter(|level| *level > agent.level || agent.level == Level::Custom) {
        found.push(Candidate {
            what: format!("set {} to `{level}`", key(&call.agent, "level")),
            place: settings.origins.of(&Setting::Level(call.agent.clone())).map(str::to_owned),
            apply: change_agent(call, move |agent| agent.level = level),
        });
    }
}

fn dimensions<'a>(
    call: &'a Admitted,
    settings: &'a Settings,
    agent: &'a Agent,
    found: &mut Vec<Candidate<'a>>,
) {
    type Loosen = fn(&mut Overrides);
    let changes: [(Dimension, &str, Loosen); 7] = [
        (Dimension::Terminal, "terminal: restricted_commands", |of| {
            of.terminal = Some(Terminal::RestrictedCommands)
        }),
        (Dimension::Deployment, "deployment: true", |of| of.deployment = Some(true)),
        (Dimension::Git, "git: read_and_branch", |of| of.git = Some(Git::ReadAndBranch)),
        (Dimension::Git, "git: full", |of| of.git = Some(Git::Full)),
        (Dimension::Network, "network: allowlist_only", |of| of.network = Some(Network::AllowlistOnly)),
        (Dimension::Network, "network: open", |of| of.network = Some(Network::Open)),
        (Dimension::RequiresApproval, "requires_approval: []", |of| of.requires_approval = Some([].into())),
    ];
    for (dimension, text, loosen) in changes {
        found.push(Candidate {
            what: format!("set `{text}` in {}", key(&call.agent, "overrides")),
            place: settings.origin_of(&call.agent, agent, dimension).map(str::to_owned),
            apply: change_agent(call, move |agent| loosen(&mut agent.overrides)),
        });
    }
    levels(call, settings, agent, found);
}

fn hosts<'a>(call: &'a Admitted, settings: &'a Settings, found: &mut Vec<Candidate<'a>>) {
    let named: Vec<Reach> = call.facets.hosts.iter().cloned().map(Reach::from).collect();
    let shown: Vec<String> = named.iter().map(|reach| format!("`{reach}`")).collect();
    let category = call.tool.category;
    let own = settings
        .egress
        .by_tool
        .iter()
        .find(|places| places.tool.matches(&call.tool.name) && places.allow.is_some());
    let (list, setting) = match own {
        Some(places) => (
            format!("`allowed_domains` of `{}`", places.tool.as_str()),
            Setting::HostsOfTool(places.tool.as_str().to_owned()),
        ),
        None if settings.egress.by_category.contains_key(&category) => {
            (format!("`egress.overrides.{category}`"), Setting::HostsOfCategory(category))
        }
        None => ("`egress.allow`".to_owned(), Setting::Hosts),
    };
    if !named.is_empty() {
        found.push(Candidate {
            what: format!("add {} to {list}", shown.join(", ")),
            place: settings.origins.of(&setting).map(str::to_owned),
            apply: Box::new(move |settings| {
                let egress = &mut settings.egress;
                let of_tool = egress
                    .by_tool
                    .iter_mut()
                    .find(|places| places.tool.matches(&call.tool.name) && places.allow.is_some());
                let list = match of_tool.and_then(|places| places.allow.as_mut()) {
                    Some(list) => list,
                    None => match egress.by_category.get_mut(&category) {
                        Some(list) => list,
                        None => egress.allow.get_or_insert_with(Vec::new),
                    },
                };
                list.extend(named.iter().cloned());
            }),
        });
    }
    let blocking = call.facets.hosts.iter().find_map(|target| {
        let mut patterns = settings.egress.block.iter();
        patterns.find(|pattern| pattern.covers(&target.host))
    });
    if let Some(pattern) = blocking {
        found.push(Candidate {
            what: format!("remove `{pattern}` from `egress.block`"),
            place: settings.origins.of(&Setting::Blocked(pattern.to_string())).map(str::to_owned),
            apply: Box::new(move |settings| settings.egress.block.retain(|blocked| blocked != pattern)),
        });
    }
}

fn commands<'a>(call: &'a Admitted, settings: &'a Settings, found: &mut Vec<Candidate<'a>>) {
    for command in &call.facets.commands {
        for program in command.programs() {
            for name in
                [base_name(program), program].into_iter().filter(|name| settings.shell.denied.contains(*name))
            {
                found.push(Candidate {
                    what: format!("remove `{name}` from `tools.bash.denied_commands`"),
                    place: settings.origins.of(&Setting::DeniedCommand(name.to_owned())).map(str::to_owned),
                    apply: Box::new(move |settings| settings.shell.denied.retain(|denied| denied != name)),
                });
            }
        }
    }
    if settings.shell.allowed.is_some() {
        let programs = || call.facets.commands.iter().flat_map(Command::programs);
        let names: Vec<String> = programs().map(|name| format!("`{name}`")).collect();
        found.push(Candidate {
            what: format!("add {} to `tools.bash.allowed_commands`", names.join(", ")),
            place: settings.origins.of(&Setting::AllowedCommands).map(str::to_owned),
            apply: Box::new(move |settings| {
                settings.shell.allowed.get_or_insert_default().extend(programs().map(str::to_owned));
            }),
        });
    } else if let Some(agent) = settings.agents.get(&call.agent) {
        found.push(Candidate {
            what: format!("set `terminal: full` in {}", key(&call.agent, "overrides")),
            place: settings.origin_of(&call.agent, agent, Dimension::Terminal).map(str::to_owned),
            apply: change_agent(call, |agent| agent.overrides.terminal = Some(Terminal::Full)),
        });
    }
}

fn files<'a>(settings: &'a Settings, found: &mut Vec<Candidate<'a>>) {
    found.push(Candidate {
        what: "set `tools.filesystem.read_only` to `false`".to_owned(),
        place: settings.origins.of(&Setting::ReadOnly).map(str::to_owned),
        apply: Box::new(|settings| settings.files.read_only = false),
    });
    found.push(Candidate {
        what: "set `tools.filesystem.delete` to `true`".to_owned(),
        place: settings.origins.of(&Setting::Delete).map(str::to_owned),
        apply: Box::new(|settings| settings.files.delete = true),
    });
}

/// What need not be asked. Classes that people decide about are never freed by a setting.
fn questions<'a>(
    call: &'a Admitted,
    settings: &'a Settings,
    agent: &'a Agent,
    found: &mut Vec<Candidate<'a>>,
) {
    let (name, action) = (&call.agent, &call.facets.action);
    if call.facets.safety.is_grave() {
        return;
    }
    if agent.human_approval.contains(action) {
        found.push(Candidate {
            what: format!("remove `{action}` from {}", key(name, "human_approval")),
            place: settings.origins.of(&Setting::HumanApproval(name.clone())).map(str::to_owned),
            apply: change_agent(call, move |agent| agent.human_approval.retain(|asked| asked != action)),
        });
    }
    if let Ok(glob) = ToolGlob::parse(call.tool.name.as_str()) {
        found.push(Candidate {
            what: format!(
                "add a rule to `approval.rules`: `{{ tool: {}, action: approve }}`",
                call.tool.name
            ),
            place: None,
            apply: Box::new(move |settings| {
                settings.rules.push(ApprovalRule::about(glob.clone(), RuleEffect::Approve, "new"));
            }),
        });
    }
    found.push(Candidate {
        what: format!("add `{action}` to {}", key(name, "auto_approve")),
        place: settings.origins.of(&Setting::AutoApprove(name.clone())).map(str::to_owned),
        apply: change_agent(call, move |agent| agent.auto_approve.extend([action.clone()])),
    });
}

fn autonomy<'a>(call: &'a Admitted, settings: &'a Settings, found: &mut Vec<Candidate<'a>>) {
    for autonomy in [Autonomy::Semi, Autonomy::Full] {
        found.push(Candidate {
            what: format!("set {} to `{autonomy}`", key(&call.agent, "autonomy")),
            place: settings.origins.of(&Setting::Autonomy(call.agent.clone())).map(str::to_owned),
            apply: change_agent(call, move |agent| agent.autonomy = autonomy),
        });
    }
}

fn rules<'a>(settings: &'a Settings, step: &Step, found: &mut Vec<Candidate<'a>>) {
    let place = step.place.clone().unwrap_or_default();
    let is_it = move |rule: &ApprovalRule| rule.place == place && rule.effect != RuleEffect::Approve;
    if settings.rules.iter().any(&is_it) {
        found.push(Candidate {
            what: "remove or narrow the rule".to_owned(),
            place: step.place.clone(),
            apply: Box::new(move |settings| settings.rules.retain(|rule| !is_it(rule))),
        });
    }
}

fn cedar<'a>(settings: &'a Settings, step: &Step, found: &mut Vec<Candidate<'a>>) {
    let place = step.place.clone().unwrap_or_default();
    if settings.cedar.iter().any(|rule| rule.place == place) {
        found.push(Candidate {
            what: "remove or narrow the rule".to_owned(),
            place: step.place.clone(),
            apply: Box::new(move |settings| settings.cedar.retain(|rule| rule.place != place)),
        });
    }
}
