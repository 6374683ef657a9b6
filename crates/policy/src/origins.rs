//! Where settings stand in the configuration, so that a decision can point at the line that made it.
//!
//! DECISION(0021): no part of what names the settings. A line that moves changes nothing that is decided, and must not end the
//! approvals that stand. Rules have their places in themselves, as their names in the record.
//!
//! # Invariants
//! - What is not here was not configured: it is built in.

use std::collections::BTreeMap;

use contract::{AgentName, Category, HostPattern, Level, RoleName, ToolName};

use crate::level::Network;
use crate::settings::{Agent, Settings, ToolGlob};

/// Places, each `FILE:LINE`, by what stands there. Settings that stand elsewhere are the same settings, so any two are equal.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<Setting, String>);

impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl Eq for Origins {}

/// A setting that can decide something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// An agent's level.
    Level(AgentName),
    /// An agent's autonomy.
    Autonomy(AgentName),
    /// A pattern in an agent's list of allowed tools.
    Allowed(AgentName, String),
    /// A pattern in an agent's list of denied tools.
    Denied(AgentName, String),
    /// What an agent need not ask for.
    AutoApprove(AgentName),
    /// What an agent must ask for.
    HumanApproval(AgentName),
    /// What an agent may not do.
    DeniedActions(AgentName),
    /// How far an agent is held down.
    Seniority(AgentName),
    /// What agents with a role see.
    Role(RoleName),
    /// A change to an agent's level.
    Override(AgentName, Dimension),
    /// What a level means.
    LevelMeans(Level, Dimension),
    /// Tools that are switched off.
    Disabled(String),
    /// What runs a category.
    Backend(Category),
    /// The list of allowed commands.
    AllowedCommands,
    /// A command that is never run.
    DeniedCommand(String),
    /// Whether files may be changed.
    ReadOnly,
    /// Whether files may be deleted.
    Delete,
    /// The directories that files are allowed in.
    FileDirectories,
    /// The directories that commands are allowed in.
    ShellDirectories,
    /// The list of places that calls may reach.
    Hosts,
    /// The same for a category.
    HostsOfCategory(Category),
    /// The same for tools.
    HostsOfTool(String),
    /// A host that nobody may reach.
    Blocked(String),
    /// How often an agent may call at all.
    AgentRate,
    /// What calls of some tools cost.
    Price(String),
    /// A hook, by its name.
    Hook(String),
}

/// One thing that a level says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Which tools.
    Categories,
    /// Whom calls may reach.
    Network,
    /// What may be done to repositories.
    Git,
    /// Which commands.
    Terminal,
    /// Whether software may go live.
    Deployment,
    /// What people must approve.
    RequiresApproval,
}

impl Origins {
    /// Says where something stands.
    pub fn insert(&mut self, setting: Setting, place: impl Into<String>) {
        self.0.insert(setting, place.into());
    }

    /// Where something stands, if it was configured.
    pub fn of(&self, setting: &Setting) -> Option<&str> {
        self.0.get(setting).map(String::as_str)
    }

    fn first(&self, settings: impl IntoIterator<Item = Setting>) -> Option<&str> {
        settings.into_iter().find_map(|setting| self.of(&setting))
    }
}

impl Settings {
    /// What says how far an agent goes in one dimension: its seniority where that holds it down, else its own change, else that
    /// of its level, else its level.
    pub(crate) fn origin_of(&self, name: &AgentName, agent: &Agent, dimension: Dimension) -> Option<&str> {
        let is_own = agent.seniority.is_none() || {
            let (own, held) = (self.unheld_constraints_of(agent), self.constraints_of(agent));
            match dimension {
                Dimension::Categories => own.categories == held.categories,
                Dimension::Network => own.network == held.network,
                Dimension::Git => own.git == held.git,
                Dimension::Terminal => own.terminal == held.terminal,
                Dimension::Deployment => own.deployment == held.deployment,
                Dimension::RequiresApproval => own.requires_approval == held.requires_approval,
            }
        };
        match is_own {
            true => self.origin_of_own(name, agent, dimension),
            false => self.origin_of_seniority(name),
        }
    }

    /// What says whether an agent's level includes a category.
    pub(crate) fn origin_of_category(
        &self,
        name: &AgentName,
        agent: &Agent,
        category: Category,
    ) -> Option<&str> {
        let own = self.unheld_constraints_of(agent).categories.contains(&category);
        let is_own = own == self.constraints_of(agent).categories.contains(&category);
        match is_own {
            true => self.origin_of_own(name, agent, Dimension::Categories),
            false => self.origin_of_seniority(name),
        }
    }

    /// What says that people must approve an action.
    pub(crate) fn origin_of_approval(&self, name: &AgentName, agent: &Agent, action: &str) -> Option<&str> {
        let own = self.unheld_constraints_of(agent).requires_approval;
        let is_own = own.iter().any(|required| required.as_str() == action);
        match is_own {
            true => self.origin_of_own(name, agent, Dimension::RequiresApproval),
            false => self.origin_of_seniority(name),
        }
    }

    /// What says which level an agent is at.
    pub(crate) fn origin_of_level(&self, name: &AgentName, agent: &Agent) -> Option<&str> {
        let is_own = agent.level_in_force() == agent.level;
        let setting = if is_own { Setting::Level } else { Setting::Seniority };
        self.origins.of(&setting(name.clone()))
    }

    /// What says how often an agent has to ask.
    pub(crate) fn origin_of_autonomy(&self, name: &AgentName, agent: &Agent) -> Option<&str> {
        let is_own = agent.autonomy_in_force() == agent.autonomy;
        let setting = if is_own { Setting::Autonomy } else { Setting::Seniority };
        self.origins.of(&setting(name.clone()))
    }

    fn origin_of_seniority(&self, name: &AgentName) -> Option<&str> {
        self.origins.of(&Setting::Seniority(name.clone()))
    }

    fn origin_of_own(&self, name: &AgentName, agent: &Agent, dimension: Dimension) -> Option<&str> {
        self.origins.first([
            Setting::Override(name.clone(), dimension),
            Setting::LevelMeans(agent.level, dimension),
            Setting::Level(name.clone()),
        ])
    }

    /// What says which places a tool may reach without asking.
    pub(crate) fn origin_of_hosts(
        &self,
        name: &AgentName,
        agent: &Agent,
        tool: &ToolName,
        category: Category,
    ) -> Option<&str> {
        let own =
            self.egress.by_tool.iter().find(|places| places.tool.matches(tool) && places.allow.is_some());
        let of_tool = own.map(|places| Setting::HostsOfTool(places.tool.as_str().to_owned()));
        let network = self.constraints_of(agent).network;
        let narrow = of_tool.into_iter().chain([Setting::HostsOfCategory(category)]);
        let narrow = self.origins.first(narrow);
        narrow.or_else(|| match network {
            Network::Open => self.origin_of(name, agent, Dimension::Network),
            Network::AllowlistOnly | Network::None => self.origins.of(&Setting::Hosts),
        })
    }

    /// What blocks a host.
    pub(crate) fn origin_of_block(&self, tool: &ToolName, host: &contract::Host) -> Option<&str> {
        let own = self.egress.by_tool.iter().filter(|places| places.tool.matches(tool));
        let mut patterns = self.egress.block.iter().chain(own.flat_map(|places| &places.block));
        let pattern = patterns.find(|pattern: &&HostPattern| pattern.covers(host))?;
        self.origins.of(&Setting::Blocked(pattern.to_string()))
    }

    /// The pattern that switches a tool off.
    pub(crate) fn origin_of_off(&self, tool: &ToolName) -> Option<&str> {
        let off: Option<&ToolGlob> = self.disabled.iter().find(|glob| glob.matches(tool));
        self.origins.of(&Setting::Disabled(off?.as_str().to_owned()))
    }
}
