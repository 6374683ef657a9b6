//! Which tools an agent may use at all, whatever the arguments: it is not even shown the others.
//!
//! Knows no call. What an agent's level means is worked out once, and then asked of as many tools as there are.

use contract::{AgentName, Autonomy, Reason, RoleName, SafetyClass, ToolStatus};

use crate::facts::ToolFacts;
use crate::level::Constraints;
use crate::origins::Setting;
use crate::settings::{Agent, Settings, ToolGlob};

/// What an agent sees.
pub struct Sight<'a> {
    agent: &'a Agent,
    settings: &'a Settings,
    constraints: Constraints,
}

/// Why an agent sees a tool.
enum Shown<'a> {
    Allowed(&'a ToolGlob),
    InLevel,
}

/// Why it does not.
enum Hidden<'a> {
    Status,
    Off,
    Unavailable(&'a str),
    Denied(&'a ToolGlob),
    NotInRole(&'a RoleName),
    NotInLevel,
    OnlyChanges,
}

/// Whether an agent may use a tool at all, and why.
pub fn may_see(agent: &Agent, tool: &ToolFacts, settings: &Settings) -> Result<String, Reason> {
    Sight::of(agent, settings).explain(tool)
}

impl<'a> Sight<'a> {
    /// What an agent sees under these settings.
    pub fn of(agent: &'a Agent, settings: &'a Settings) -> Sight<'a> {
        Sight { agent, settings, constraints: settings.constraints_of(agent) }
    }

    /// Whether it sees a tool. For lists: no word is written about it.
    pub fn sees(&self, tool: &ToolFacts) -> bool {
        self.look(tool).is_ok()
    }

    /// Whether it sees a tool, in words.
    pub fn explain(&self, tool: &ToolFacts) -> Result<String, Reason> {
        let (name, level) = (&tool.name, self.agent.level_in_force());
        let why_not = match self.look(tool) {
            Ok(Shown::Allowed(glob)) => {
                return Ok(format!("the agent's allowed list has `{}`", glob.as_str()));
            }
            Ok(Shown::InLevel) => return Ok(format!("level `{level}` includes `{}`", tool.category)),
            Err(why_not) => why_not,
        };
        Err(match why_not {
            Hidden::Status => Reason::tool_disabled(format!("`{name}` is {}", tool.status)),
            Hidden::Off => Reason::tool_disabled(format!("`{name}` is switched off by the configuration")),
            Hidden::Unavailable(why) => Reason::cannot_enforce(why),
            Hidden::Denied(glob) => {
                Reason::denied_by_list(format!("the agent's denied list has `{}`", glob.as_str()))
            }
            Hidden::NotInRole(role) => {
                Reason::not_in_role(format!("role `{role}` does not include `{name}`"))
            }
            Hidden::OnlyChanges => {
                Reason::locked("the agent is locked, and the tool does nothing but change things")
            }
            Hidden::NotInLevel => {
                Reason::not_in_level(format!("level `{level}` does not include `{}`", tool.category))
            }
        })
    }

    /// The line of the configuration that says so, if one does.
    pub fn origin(&self, name: &AgentName, tool: &ToolFacts) -> Option<&'a str> {
        let settings = self.settings;
        match self.look(tool) {
            Ok(Shown::Allowed(glob)) => {
                settings.origins.of(&Setting::Allowed(name.clone(), glob.as_str().to_owned()))
            }
            Ok(Shown::InLevel) | Err(Hidden::NotInLevel) => {
                settings.origin_of_category(name, self.agent, tool.category)
            }
            Err(Hidden::Status) => None,
            Err(Hidden::Off) => settings.origin_of_off(&tool.name),
            Err(Hidden::Unavailable(_)) => settings.origins.of(&Setting::Backend(tool.category)),
            Err(Hidden::Denied(glob)) => {
                settings.origins.of(&Setting::Denied(name.clone(), glob.as_str().to_owned()))
            }
            Err(Hidden::NotInRole(role)) => settings.origins.of(&Setting::Role(role.clone())),
            Err(Hidden::OnlyChanges) => settings.origins.of(&Setting::Autonomy(name.clone())),
        }
    }

    /// What the agent's level means.
    pub(crate) fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn look(&self, tool: &ToolFacts) -> Result<Shown<'a>, Hidden<'a>> {
        let (agent, settings, name) = (self.agent, self.settings, &tool.name);
        if matches!(tool.status, ToolStatus::Disabled | ToolStatus::Suspended) {
            return Err(Hidden::Status);
        }
        if settings.disabled.iter().any(|glob| glob.matches(name)) {
            return Err(Hidden::Off);
        }
        if let Some(why) = settings.unavailable.get(&tool.category) {
            return Err(Hidden::Unavailable(why));
        }
        if let Some(glob) = agent.denied.iter().find(|glob| glob.matches(name)) {
            return Err(Hidden::Denied(glob));
        }
        // ATTACK(role-unseen): neither the agent's own list nor its level shows what its role does not include.
        if let Some(role) = &agent.role
            && !settings.roles.get(role).is_some_and(|known| known.includes(name, tool.category))
        {
            return Err(Hidden::NotInRole(role));
        }
        let shown = match agent.allowed.iter().find(|glob| glob.matches(name)) {
            Some(glob) => Shown::Allowed(glob),
            None if self.constraints.categories.contains(&tool.category) => Shown::InLevel,
            None => return Err(Hidden::NotInLevel),
        };
        if agent.autonomy_in_force() == Autonomy::Locked && tool.least > SafetyClass::Read {
            return Err(Hidden::OnlyChanges);
        }
        Ok(shown)
    }
}
