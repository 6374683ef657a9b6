//! What a configuration means, once it has been read: every name in it exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use contract::{
    Action, AgentName, Autonomy, Canonical, CanonicalError, Category, Digest, Level, OperatorName, RoleName,
    SafetyClass, ToolName,
};
use globset::{Glob, GlobMatcher};
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::budget::Budget;
use crate::cedar::{ArgumentTypes, CedarIndex, CedarRule};
use crate::disclosure::DisclosureSettings;
use crate::egress::EgressSettings;
use crate::hook::HookSettings;
use crate::index::RuleIndex;
use crate::level::{Constraints, Overrides};
use crate::origins::Origins;
use crate::price::PriceSettings;
use crate::rates::RateSettings;
use crate::resources::ToolResources;
use crate::role::{Role, Seniority};
use crate::rule::ApprovalRule;
use crate::upstream::UpstreamSettings;

/// Everything that decides, apart from the facts of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// The agents there are.
    pub agents: BTreeMap<AgentName, Agent>,
    /// The roles that agents may have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<RoleName, Role>,
    /// What levels mean, where the configuration says otherwise than we do.
    pub levels: BTreeMap<Level, Overrides>,
    /// Who must be asked, in order; the strictest that matches wins.
    pub rules: Vec<ApprovalRule>,
    /// Rules in Cedar, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cedar: Vec<CedarRule>,
    /// What those are shown of the arguments of tools. Contracts have hashes of their own, so this is no part of the policy's.
    #[serde(skip)]
    pub argument_types: ArgumentTypes,
    /// Where these stand.
    #[serde(skip)]
    pub origins: Origins,
    /// Tools that are switched off.
    pub disabled: Vec<ToolGlob>,
    /// Categories that nothing here can run as the configuration asks, and why.
    pub unavailable: BTreeMap<Category, String>,
    /// Commands.
    pub shell: ShellSettings,
    /// Files.
    pub files: FileSettings,
    /// What calls may reach, and how.
    #[serde(skip_serializing_if = "EgressSettings::is_default")]
    pub egress: EgressSettings,
    /// Servers whose tools are offered as ours, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub upstreams: BTreeMap<String, UpstreamSettings>,
    /// How often agents may call.
    pub rates: RateSettings,
    /// How much one call may use, where that is less than its contract says.
    pub resources: Vec<ToolResources>,
    /// What calls cost.
    #[serde(skip_serializing_if = "PriceSettings::is_none")]
    pub prices: PriceSettings,
    /// How much may be spent, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// The longest arguments, in bytes, of tools that do not say that they need more.
    pub max_arguments: u64,
    /// How long a question waits for an answer, in milliseconds, where its class has no time of its own.
    pub ask_for: i64,
    /// How people are asked.
    pub asking: Asking,
    /// Programs that are heard about calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookSettings>,
    /// How much of its tools an agent is told at once.
    #[serde(skip)]
    pub disclosure: DisclosureSettings,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            agents: BTreeMap::new(),
            roles: BTreeMap::new(),
            levels: BTreeMap::new(),
            rules: Vec::new(),
            cedar: Vec::new(),
            argument_types: ArgumentTypes::default(),
            origins: Origins::default(),
            disabled: Vec::new(),
            unavailable: BTreeMap::new(),
            shell: ShellSettings::default(),
            files: FileSettings::default(),
            egress: EgressSettings::default(),
            upstreams: BTreeMap::new(),
            rates: RateSettings::default(),
            resources: Vec::new(),
            prices: PriceSettings::default(),
            budgets: Vec::new(),
            max_arguments: 1024 * 1024,
            ask_for: 300_000,
            asking: Asking::default(),
            hooks: Vec::new(),
            disclosure: DisclosureSettings::default(),
        }
    }
}

/// How people are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asking {
    /// How long a caller waits for their answer before it hears that it has to, in milliseconds.
    pub wait_for: i64,
    /// How long a question of a class waits before it counts as a no, in milliseconds.
    pub deny_after: BTreeMap<SafetyClass, i64>,
    /// Whom a question reaches that nobody answers, in order.
    pub escalation: Vec<Escalation>,
    /// How long a yes can be good for more than one call, in milliseconds.
    pub longest_standing: i64,
}

impl Default for Asking {
    fn default() -> Asking {
        Asking {
            wait_for: 45_000,
            deny_after: BTreeMap::new(),
            escalation: Vec::new(),
            longest_standing: 8 * 60 * 60 * 1000,
        }
    }
}

/// One step of the way that an unanswered question takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Escalation {
    /// How long after it was asked, in milliseconds.
    pub after: i64,
    /// To whom.
    pub to: Vec<OperatorName>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// How much of the world it may touch.
    pub level: Level,
    /// How often it has to ask.
    pub autonomy: Autonomy,
    /// Tools it may use whatever its level includes. The constraints of the level hold all the same.
    pub allowed: Vec<ToolGlob>,
    /// Tools it may not use whatever else is said.
    pub denied: Vec<ToolGlob>,
    /// What it need not ask for, where asking can be waived.
    pub auto_approve: BTreeSet<Action>,
    /// What it must ask for.
    pub human_approval: BTreeSet<Action>,
    /// What it may not do whatever else is said.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub denied_actions: BTreeSet<Action>,
    /// Changes to its level.
    pub overrides: Overrides,
    /// Its role: it sees what the role includes, of what it would see without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<RoleName>,
    /// How far it goes at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seniority: Option<Seniority>,
    /// The operator on whose behalf it works, who therefore approves nothing of it.
    pub operator: Option<OperatorName>,
    /// The operator whose answers its own client may bring, if any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<OperatorName>,
}

impl Agent {
    /// Its level, or the highest that its seniority permits. Level `custom` stays that, within the constraints of the highest.
    pub fn level_in_force(&self) -> Level {
        match (self.level, self.seniority) {
            (Level::Custom, _) | (_, None) => self.level,
            (level, Some(seniority)) => level.min(seniority.highest_level()),
        }
    }

    /// Its autonomy, or the highest that its seniority permits.
    pub fn autonomy_in_force(&self) -> Autonomy {
        // They are in order from the one that asks least.
        self.seniority.map_or(self.autonomy, |seniority| self.autonomy.max(seniority.highest_autonomy()))
    }
}

impl Default for Agent {
    fn default() -> Agent {
        Agent {
            level: Level::Standard,
            autonomy: Autonomy::Semi,
            allowed: Vec::new(),
            denied: Vec::new(),
            auto_approve: BTreeSet::new(),
            human_approval: BTreeSet::new(),
            denied_actions: BTreeSet::new(),
            overrides: Overrides::default(),
            role: None,
            seniority: None,
            operator: None,
            elicitation: None,
        }
    }
}

/// Settings of the `shell` tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShellSettings {
    /// If given, no other command is run, whatever the profile.
    pub allowed: Option<BTreeSet<String>>,
    /// Commands that are never run.
    pub denied: BTreeSet<String>,
}

/// Settings of the `fs` tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSettings {
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether deleting may be asked for at all.
    pub delete: bool,
    /// The largest file that is read or written, in bytes.
    pub max_bytes: u64,
    /// Whether symbolic links are followed where they stay in the workspace. One that leaves it never is.
    pub follow_links: bool,
    /// Names that are hidden besides those that always are.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub also_hidden: BTreeSet<String>,
    /// Names that are protected besides those that always are.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub also_protected: BTreeSet<String>,
}

impl Default for FileSettings {
    fn default() -> FileSettings {
        FileSettings {
            read_only: false,
            delete: true,
            max_bytes: 10 * 1024 * 1024,
            follow_links: false,
            also_hidden: BTreeSet::new(),
            also_protected: BTreeSet::new(),
        }
    }
}

/// Settings in force, with the hash by which decisions name them and which rules are about which tools: found out once,
/// not for every call.
#[derive(Clone, Debug)]
pub struct Policy {
    settings: Arc<Settings>,
    hash: Digest,
    index: RuleIndex,
    cedar: CedarIndex,
}

impl Policy {
    /// Puts settings in force, if they can be named.
    pub fn of(settings: Settings) -> Result<Policy, CanonicalError> {
        let hash = settings.hash()?;
        let index = RuleIndex::of(&settings.rules);
        let cedar = CedarIndex::of(&settings.cedar);
        Ok(Policy { settings: Arc::new(settings), hash, index, cedar })
    }

    /// The rules about a tool, in order.
    pub(crate) fn rules_about(&self, tool: &ToolName) -> Vec<&ApprovalRule> {
        self.index.about(tool).into_iter().filter_map(|place| self.settings.rules.get(place)).collect()
    }

    /// The rules in Cedar that can be about a call of this tool that is this action, in order.
    pub(crate) fn cedar_about(&self, tool: &ToolName, action: &Action) -> Vec<&CedarRule> {
        let places = self.cedar.about(tool, action).into_iter();
        places.filter_map(|place| self.settings.cedar.get(place)).collect()
    }

    /// What decides.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same, for whoever outlives it.
    pub fn shared_settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings)
    }

    /// What names it.
    pub fn hash(&self) -> Digest {
        self.hash
    }
}

impl Settings {
    /// The hash by which decisions name these settings. Numbers that not everybody reads the same have none.
    pub fn hash(&self) -> Result<Digest, CanonicalError> {
        let value =
            serde_json::to_value(self).map_err(|error| CanonicalError::Json { why: error.to_string() })?;
        Ok(Canonical::of(value)?.digest())
    }

    /// What an agent's level means for it.
    pub fn constraints_of(&self, agent: &Agent) -> Constraints {
        let own = self.unheld_constraints_of(agent);
        // ATTACK(junior-with-overrides): what an agent was given besides its level is held down as well.
        match agent.seniority {
            Some(seniority) => own.at_most(&self.constraints_at(seniority.highest_level())),
            None => own,
        }
    }

    /// What an agent's level would mean for it, were it not for its seniority.
    pub fn unheld_constraints_of(&self, agent: &Agent) -> Constraints {
        self.constraints_at(agent.level).with(&agent.overrides)
    }

    /// What a level means for whoever is at it.
    pub fn constraints_at(&self, level: Level) -> Constraints {
        let built_in = Constraints::of(level);
        match self.levels.get(&level) {
            Some(overrides) => built_in.with(overrides),
            None => built_in,
        }
    }
}

/// The characters of a pattern over tool names that may stand for others. No other is taken but those of names, which stand
/// for themselves: [`ToolGlob::beginning`] rests on that.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', ','];

/// A pattern over tool names: `fs.*`, `shell`, `mcp_files_*`.
#[derive(Clone)]
pub struct ToolGlob {
    text: String,
    matcher: GlobMatcher,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a pattern over tool names")]
pub struct ToolGlobError {
    text: String,
}

impl ToolGlob {
    /// Reads a pattern. The names that other systems have for our tools mean ours.
    pub fn parse(text: &str) -> Result<ToolGlob, ToolGlobError> {
        let ours = match text {
            "bash" => "shell",
            "filesystem" => "fs.*",
            "http" => "http.*",
            "browser" => "browser.*",
            "git" => "git.*",
            "database" => "db.*",
            other => other,
        };
        let error = || ToolGlobError { text: text.to_owned() };
        let is_of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
        let permitted = |c: char| is_of_a_name(c) || SPECIAL.contains(&c);
        if ours.is_empty() || ours.len() > 256 || !ours.chars().all(permitted) {
            return Err(error());
        }
        let glob = Glob::new(ours).map_err(|_| error())?;
        Ok(ToolGlob { text: ours.to_owned(), matcher: glob.compile_matcher() })
    }

    /// Whether a tool is meant.
    pub fn matches(&self, tool: &ToolName) -> bool {
        self.matcher.is_match(tool.as_str())
    }

    /// What every name begins with that it fits: all of it before the first character that may stand for another.
    pub(crate) fn beginning(&self) -> &str {
        self.text.split(SPECIAL).next().unwrap_or_default()
    }

    /// The pattern as it was written, in our names.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for ToolGlob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ToolGlob({:?})", self.text)
    }
}

impl PartialEq for ToolGlob {
    fn eq(&self, other: &ToolGlob) -> bool {
        self.text == other.text
    }
}

impl Eq for ToolGlob {}

impl Serialize for ToolGlob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_systems_mean_our_tools() {
        let matches = |glob, tool| ToolGlob::parse(glob).unwrap().matches(&ToolName::parse(tool).unwrap());
        assert!(matches("bash", "shell"));
        assert!(matches("filesystem", "fs.read"));
        assert!(matches("fs.*", "fs.read"));
        assert!(!matches("fs.*", "fsx"));
        assert!(!matches("fs", "fs.read"));
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for text in ["", "Shell", "fs read", "[", "fs/../x"] {
            assert!(ToolGlob::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_change_of_the_settings_changes_their_hash() {
        let settings = Settings::default();
        assert_eq!(settings.hash().unwrap(), Settings::default().hash().unwrap());
        assert_ne!(settings.hash().unwrap(), Settings { ask_for: 1, ..Settings::default() }.hash().unwrap());
    }

    #[test]
    fn settings_that_nothing_can_name_are_not_put_in_force() {
        let unreadable = Settings { ask_for: i64::MAX, ..Settings::default() };
        assert!(matches!(Policy::of(unreadable), Err(CanonicalError::Number { .. })));
    }
}
