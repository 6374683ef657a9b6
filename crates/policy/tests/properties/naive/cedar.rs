//! What a rule in Cedar says, without Cedar.

use contract::EgressClass::None as Stays;
use contract::{Profile, RoleName};
use policy::Seniority::{Junior, Lead, Mid, Senior};
use policy::{Admitted, Facts};
use serde_json::Value;

use super::agent::{autonomy_of, level_of};

/// A rule in Cedar as plain facts: what its scope names, and one condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) agent: Option<&'static str>,
    /// An action, or a category of them.
    pub(crate) action: Option<&'static str>,
    pub(crate) tool: Option<&'static str>,
    pub(crate) condition: Condition,
    /// How many are asked, if it asks.
    pub(crate) people: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Condition {
    Always,
    HasPath,
    /// Not asked for first.
    PathIs(&'static str),
    /// Asked for first.
    AmountOver(i64),
    Force,
    Level(&'static str),
    Autonomy(&'static str),
    /// An empty text is none.
    Role(&'static str),
    Seniority(&'static str),
    Hour(i64),
    Host(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    Matches,
    Fails,
}

impl Plain {
    pub(crate) fn text(&self) -> String {
        let named = |of: &str, word: &str, id: Option<&str>, how: &str| match id {
            Some(id) => format!("{of} {how} {word}::\"{id}\""),
            None => of.to_owned(),
        };
        let ask =
            self.people.map(|people| format!("@effect(\"ask\") @people(\"{people}\") ")).unwrap_or_default();
        let condition = match self.condition {
            Condition::Always => String::new(),
            Condition::HasPath => "context.arguments has path".to_owned(),
            Condition::PathIs(text) => format!("context.arguments.path == \"{text}\""),
            Condition::AmountOver(most) => {
                format!("context.arguments has amount && context.arguments.amount > {most}")
            }
            Condition::Force => "context.arguments.force".to_owned(),
            Condition::Level(level) => format!("principal.level == \"{level}\""),
            Condition::Autonomy(autonomy) => format!("principal.autonomy == \"{autonomy}\""),
            Condition::Role(role) => format!("principal.role == \"{role}\""),
            Condition::Seniority(seniority) => format!("principal.seniority == \"{seniority}\""),
            Condition::Hour(hour) => format!("context.hour >= {hour}"),
            Condition::Host(host) => format!("context.hosts.contains(\"{host}\")"),
        };
        let when = if condition.is_empty() { condition } else { format!(" when {{ {condition} }}") };
        let how = if self.action.is_some_and(|action| action.contains(':')) { "==" } else { "in" };
        format!(
            "{ask}forbid ({}, {}, {}){when};",
            named("principal", "Agent", self.agent, "=="),
            named("action", "Action", self.action, how),
            named("resource", "Tool", self.tool, "==")
        )
    }

    pub(super) fn says(&self, call: &Admitted, agent: &policy::Agent, facts: &Facts) -> Says {
        let action = call.facets.action.as_str();
        let is_about = self.agent.is_none_or(|name| name == call.agent.as_str())
            && self.tool.is_none_or(|name| name == call.tool.name.as_str())
            && self.action.is_none_or(|name| name == action || Some(name) == action.split(':').next());
        if !is_about {
            return Says::Nothing;
        }
        let argument = |name| call.values.get(name);
        let held = match self.condition {
            Condition::Always => Some(true),
            Condition::HasPath => Some(argument("path").is_some()),
            Condition::PathIs(text) => argument("path").map(|path| path == text),
            Condition::AmountOver(most) => match argument("amount") {
                None => Some(false),
                Some(amount) => amount.as_i64().map(|amount| amount > most),
            },
            Condition::Force => argument("force").and_then(Value::as_bool),
            Condition::Level(level) => Some(level_of(agent).as_str() == level),
            Condition::Autonomy(autonomy) => Some(autonomy_of(agent).as_str() == autonomy),
            Condition::Role(role) => Some(agent.role.as_ref().map_or("", RoleName::as_str) == role),
            Condition::Seniority(seniority) => {
                let own = match agent.seniority {
                    None => "",
                    Some(Junior) => "junior",
                    Some(Mid) => "mid",
                    Some(Senior) => "senior",
                    Some(Lead) => "lead",
                };
                Some(own == seniority)
            }
            Condition::Hour(hour) => Some((facts.now / 3_600_000) % 24 >= hour),
            Condition::Host(host) => {
                let untold = call.facets.profile == Some(Profile::Networked)
                    || (call.facets.egress > Stays && call.facets.hosts.is_empty());
                let named = call.facets.hosts.iter().any(|target| target.host.to_string() == host);
                (!untold).then_some(named)
            }
        };
        match held {
            Some(true) => Says::Matches,
            Some(false) => Says::Nothing,
            None => Says::Fails,
        }
    }
}
