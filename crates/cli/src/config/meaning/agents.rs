//! Who the agents are: what their presets give them, what they say themselves, and the roles they have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use contract::{Action, AgentName, Level, RoleName, show_hidden};
use policy::{Agent, Overrides, Preset, Role};

use super::{DEFAULT_AGENT, Reader};
use crate::config::at::At;
use crate::config::file::{AgentFile, File, RoleFile};
use crate::config::problem::{Problem, shown};

impl Reader {
    pub(super) fn agents(
        &mut self,
        tree: &File,
        first_level: Level,
        roles: &BTreeMap<RoleName, Role>,
    ) -> (BTreeMap<AgentName, Agent>, BTreeMap<AgentName, PathBuf>) {
        let unconfigured = Agent { level: first_level, ..Agent::default() };
        let mut agents: BTreeMap<AgentName, Agent> =
            AgentName::parse(DEFAULT_AGENT).map(|name| (name, unconfigured.clone())).into_iter().collect();
        let mut workspaces = BTreeMap::new();
        for (name, agent) in tree.agents.get().into_iter().flatten() {
            let base = agent.preset.get().map_or_else(|| unconfigured.clone(), |word| word.0.agent());
            let read = self.agent(agent, base, roles);
            let workspace = agent.workspace.at().and_then(|text| self.path(text));
            match AgentName::parse(&name.value) {
                Ok(parsed) => {
                    workspaces.extend(workspace.map(|workspace| (parsed.clone(), workspace)));
                    agents.insert(parsed, read);
                }
                Err(error) => {
                    self.refuse(
                        name.place,
                        format!("`{}`: {}", shown(&name.value), show_hidden(&error.to_string())),
                    );
                }
            }
        }
        (agents, workspaces)
    }

    /// What an agent says of itself, over what its preset gives it.
    ///
    /// INVARIANT(restrictions-add-up): what the preset denies or asks for stays, whatever the agent says.
    fn agent(&mut self, agent: &AgentFile, base: Agent, roles: &BTreeMap<RoleName, Role>) -> Agent {
        let overrides = agent.overrides.get().map(|level| self.overrides(level)).unwrap_or_default();
        let operator = agent.operator.at().and_then(|name| self.operator(name));
        let elicitation = agent.elicitation.at().and_then(|name| {
            let asked = self.operator(name)?;
            if Some(&asked) == operator.as_ref() {
                let why = "the agent works for them, so they approve nothing of it, in its client neither";
                self.refuse(name.place, format!("`{asked}`: {why}"));
            }
            Some(asked)
        });
        let mut denied = base.denied;
        denied.extend(self.patterns(&agent.denied_tools));
        Agent {
            level: agent.level.get().map_or(base.level, |word| word.0),
            autonomy: agent.autonomy.get().map_or(base.autonomy, |word| word.0),
            allowed: if agent.allowed_tools.get().is_some() {
                self.patterns(&agent.allowed_tools)
            } else {
                base.allowed
            },
            denied,
            auto_approve: self.action_set(&agent.auto_approve).unwrap_or(base.auto_approve),
            human_approval: both(base.human_approval, self.action_set(&agent.human_approval)),
            denied_actions: both(base.denied_actions, self.action_set(&agent.denied_actions)),
            overrides: over(base.overrides, overrides),
            role: agent.role.at().and_then(|name| self.role_of(name, roles)),
            seniority: agent.seniority.get().map(|word| word.0),
            operator,
            elicitation,
        }
    }

    fn role_of(&mut self, name: &At<String>, roles: &BTreeMap<RoleName, Role>) -> Option<RoleName> {
        let found = roles.keys().find(|role| role.as_str() == name.value).cloned();
        if found.is_none() {
            let known = roles.keys().map(RoleName::as_str);
            self.problems.push(Problem::unknown(name.place, "there is no role", &name.value, known));
        }
        found
    }

    pub(super) fn roles(&mut self, tree: &File) -> BTreeMap<RoleName, Role> {
        let mut roles = BTreeMap::new();
        for (name, role) in tree.roles.get().into_iter().flatten() {
            let read = self.role(name, role);
            match RoleName::parse(&name.value) {
                Ok(parsed) => drop(roles.insert(parsed, read)),
                Err(error) => {
                    let why = show_hidden(&error.to_string());
                    self.refuse(name.place, format!("`{}`: {why}", shown(&name.value)));
                }
            }
        }
        roles
    }

    fn role(&mut self, name: &At<String>, role: &RoleFile) -> Role {
        if role.categories.get().is_none() && role.tools.get().is_none() {
            let message = format!(
                "role `{}` names neither `categories` nor `tools`, and would see nothing; if that is meant, write `tools: []`",
                shown(&name.value)
            );
            self.refuse(name.place, message);
        }
        Role {
            categories: role.categories.get().into_iter().flatten().map(|word| word.0).collect(),
            tools: self.patterns(&role.tools),
            denied: self.patterns(&role.denied_tools),
        }
    }
}

/// Which agents have which presets.
pub(super) fn presets(tree: &File) -> BTreeMap<AgentName, Preset> {
    let named = tree.agents.get().into_iter().flatten();
    let named = named.filter_map(|(name, agent)| Some((&name.value, agent.preset.get()?.0)));
    named.flat_map(|(name, preset)| AgentName::parse(name).map(|name| (name, preset))).collect()
}

fn both(base: BTreeSet<Action>, own: Option<BTreeSet<Action>>) -> BTreeSet<Action> {
    base.into_iter().chain(own.into_iter().flatten()).collect()
}

/// An agent's own changes over those of its preset.
fn over(base: Overrides, own: Overrides) -> Overrides {
    let requires_approval = match (base.requires_approval, own.requires_approval) {
        (Some(base), own) => Some(both(base, own)),
        (None, own) => own,
    };
    Overrides {
        categories: own.categories.or(base.categories),
        file_system: own.file_system.or(base.file_system),
        network: own.network.or(base.network),
        git: own.git.or(base.git),
        terminal: own.terminal.or(base.terminal),
        deployment: own.deployment.or(base.deployment),
        requires_approval,
    }
}
