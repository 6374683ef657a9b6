//! Every say that the configuration is behind names the line of it.

use std::collections::BTreeMap;

use contract::{Autonomy, Category};
use policy::{Admitted, Agent, Dimension, Network, Overrides, Policy, Setting, Settings, Step, decide};
use proptest::prelude::*;

use super::cases::{Case, agent_name, configuration};
use super::{config, naive};

/// The settings with a line of its own for everything in them, and what stands on which line.
fn located(settings: &Settings) -> (Settings, BTreeMap<String, Setting>) {
    let mut all = Vec::new();
    for (name, agent) in &settings.agents {
        all.extend([
            Setting::Level(name.clone()),
            Setting::Autonomy(name.clone()),
            Setting::AutoApprove(name.clone()),
            Setting::HumanApproval(name.clone()),
            Setting::DeniedActions(name.clone()),
        ]);
        all.extend(agent.seniority.map(|_| Setting::Seniority(name.clone())));
        all.extend(agent.role.clone().map(Setting::Role));
        all.extend(agent.allowed.iter().map(|glob| Setting::Allowed(name.clone(), glob.as_str().to_owned())));
        all.extend(agent.denied.iter().map(|glob| Setting::Denied(name.clone(), glob.as_str().to_owned())));
        let given = given(&agent.overrides).into_iter();
        all.extend(given.map(|dimension| Setting::Override(name.clone(), dimension)));
    }
    for (level, overrides) in &settings.levels {
        all.extend(given(overrides).into_iter().map(|dimension| Setting::LevelMeans(*level, dimension)));
    }
    all.extend(settings.disabled.iter().map(|glob| Setting::Disabled(glob.as_str().to_owned())));
    all.extend(settings.unavailable.keys().copied().map(Setting::Backend));
    all.extend(settings.shell.allowed.as_ref().map(|_| Setting::AllowedCommands));
    all.extend(settings.shell.denied.iter().cloned().map(Setting::DeniedCommand));
    all.extend(settings.files.read_only.then_some(Setting::ReadOnly));
    all.extend((!settings.files.delete).then_some(Setting::Delete));
    let egress = &settings.egress;
    all.extend(egress.allow.as_ref().map(|_| Setting::Hosts));
    all.extend(egress.by_category.keys().copied().map(Setting::HostsOfCategory));
    let lists = egress.by_tool.iter().filter(|places| places.allow.is_some());
    all.extend(lists.map(|places| Setting::HostsOfTool(places.tool.as_str().to_owned())));
    let blocked = egress.block.iter().chain(egress.by_tool.iter().flat_map(|places| &places.block));
    all.extend(blocked.map(|pattern| Setting::Blocked(pattern.to_string())));

    let (mut settings, mut lines) = (settings.clone(), BTreeMap::new());
    for (number, setting) in all.into_iter().enumerate() {
        let place = format!("toolgate.yaml:{}", 1_000 + number);
        settings.origins.insert(setting.clone(), place.clone());
        lines.insert(place, setting);
    }
    // What is given twice stands where it is given last.
    lines.retain(|place, setting| settings.origins.of(setting) == Some(place));
    (settings, lines)
}

fn given(overrides: &Overrides) -> Vec<Dimension> {
    let given = [
        (overrides.categories.is_some(), Dimension::Categories),
        (overrides.network.is_some(), Dimension::Network),
        (overrides.git.is_some(), Dimension::Git),
        (overrides.terminal.is_some(), Dimension::Terminal),
        (overrides.deployment.is_some(), Dimension::Deployment),
        (overrides.requires_approval.is_some(), Dimension::RequiresApproval),
    ];
    given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, dimension)| dimension).collect()
}

/// Whether somebody has written down what the step rests on.
fn is_configured(step: &Step, call: &Admitted, settings: &Settings) -> bool {
    match step.layer {
        "permission" => !step.why.contains(" is disabled") && !step.why.contains(" is suspended"),
        "level" | "agent" | "files" | "rule" | "budget" | "role" | "seniority" => {
            settings.agents.contains_key(&agent_name())
        }
        "autonomy" => step.says != "-",
        "cedar" => step.says != "-",
        "shell" => step.why != "not listed",
        "action" => step.says == "allow" && !step.why.contains("free by default"),
        "hosts" => {
            let agent = &settings.agents[&agent_name()];
            let egress = &settings.egress;
            let of_tool =
                egress.by_tool.iter().any(|of| of.tool.matches(&call.tool.name) && of.allow.is_some());
            step.why.contains("blocked")
                || egress.allow.is_some()
                || of_tool
                || egress.by_category.contains_key(&call.tool.category)
                || settings.constraints_of(agent).network == Network::Open
        }
        _ => false,
    }
}

/// Whether a step says what it does because the agent is held down by its seniority, and would not without.
fn is_held_down(step: &Step, call: &Admitted, settings: &Settings) -> bool {
    let agent = &settings.agents[&agent_name()];
    let free = Agent { seniority: None, ..agent.clone() };
    let (own, held) = (naive::constraints_of(&free, settings), naive::constraints_of(agent, settings));
    let requires = |action: &str| own.requires_approval.iter().any(|required| required.as_str() == action);
    match (step.layer, step.says) {
        ("seniority", _) => true,
        ("autonomy", "ask") => agent.autonomy != Autonomy::Supervised,
        ("permission", "deny") if step.why.contains("does not include") => {
            own.categories.contains(&call.tool.category)
        }
        ("level", "ask") => !requires(step.why.split('`').nth(1).unwrap()),
        ("level", "deny") if step.why.contains("terminal") => own.terminal != held.terminal,
        ("level", "deny") if step.why.contains("deploy") => own.deployment,
        ("level", "deny") if step.why.contains("network") => own.network != held.network,
        ("level", "deny") => own.git != held.git,
        _ => false,
    }
}

/// Whether such a step can rest on such a setting.
fn fits(step: &Step, setting: &Setting, call: &Admitted, settings: &Settings) -> bool {
    if matches!(setting, Setting::Seniority(_)) != is_held_down(step, call, settings) && step.says != "allow"
    {
        return false;
    }
    let matches = |glob: &str| policy::ToolGlob::parse(glob).unwrap().matches(&call.tool.name);
    match (step.layer, setting) {
        ("permission", Setting::Allowed(_, glob)) => step.says == "allow" && matches(glob),
        ("permission", Setting::Denied(_, glob) | Setting::Disabled(glob)) => {
            step.says == "deny" && matches(glob)
        }
        ("permission", Setting::Backend(category)) => *category == call.tool.category,
        ("role", Setting::Role(_)) | ("seniority", Setting::Seniority(_)) => true,
        ("permission" | "level" | "autonomy" | "hosts", Setting::Seniority(_)) => true,
        ("permission" | "level", Setting::Level(_) | Setting::Override(..) | Setting::LevelMeans(..)) => true,
        ("hosts", Setting::Hosts | Setting::Blocked(_)) => true,
        ("hosts", Setting::HostsOfCategory(category)) => *category == call.tool.category,
        ("hosts", Setting::HostsOfTool(glob)) => matches(glob),
        ("hosts", Setting::Level(_) | Setting::Override(_, Dimension::Network)) => true,
        ("hosts", Setting::LevelMeans(_, Dimension::Network)) => true,
        ("shell", Setting::AllowedCommands | Setting::DeniedCommand(_)) => true,
        ("files", Setting::ReadOnly | Setting::Delete) => call.tool.category == Category::FileSystem,
        ("agent", Setting::DeniedActions(_)) => step.says == "deny",
        ("agent", Setting::HumanApproval(_)) | ("autonomy", Setting::Autonomy(_)) => true,
        ("action", Setting::AutoApprove(_) | Setting::Autonomy(_)) => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..config() })]

    #[test]
    fn a_say_that_the_configuration_is_behind_names_its_line((cases, _) in configuration()) {
        let (settings, lines) = located(cases[0].policy.settings());
        let policy = Policy::of(settings.clone()).unwrap();
        // Lines are no part of what names the settings.
        prop_assert_eq!(policy.hash(), cases[0].policy.hash());
        for Case { call, facts, .. } in &cases {
            for step in decide(call, facts, &policy).trace {
                match &step.place {
                    None => prop_assert!(!is_configured(&step, call, &settings), "{:?}", step),
                    Some(place) if matches!(step.layer, "rule" | "cedar") => {
                        prop_assert!(step.why.starts_with(place.as_str()), "{:?}", step);
                    }
                    Some(place) if step.layer == "budget" => {
                        prop_assert!(step.why.contains(&format!("{place}: ")), "{:?}", step);
                    }
                    Some(place) if step.layer == "action" && step.why.contains(" approves ") => {
                        prop_assert!(step.why.starts_with(place.as_str()), "{:?}", step);
                    }
                    Some(place) => {
                        let setting = lines.get(place);
                        prop_assert!(setting.is_some_and(|setting| fits(&step, setting, call, &settings)), "{:?} {:?}", step, setting);
                    }
                }
            }
        }
    }
}
