//! Where each value of a configuration comes from: a line of the file, a preset, a level, the environment, the command line,
//! or nothing of these, which is a default.

use contract::AgentName;
use policy::{Overrides, Settings};

use crate::config::{Meaning, Written};

/// For a value that is shown, the keys that give it, the first that is there first.
///
/// Agents, levels and what is said of single categories have their own rules below.
const KEYS: &[(&[&str], &[&str])] = &[
    (&["rules"], &["approval.rules"]),
    (&["cedar"], &["policy.rules", "policy.files"]),
    (&["ask_for_seconds"], &["approval.timeout_seconds"]),
    (&["asking_ms", "wait_for"], &["approval.wait_seconds"]),
    (&["asking_ms", "deny_after"], &["approval.timeout_seconds_by_class"]),
    (&["asking_ms", "escalation"], &["approval.escalation"]),
    (&["asking_ms", "longest_standing"], &["approval.standing_max_seconds"]),
    (&["rates", "tools"], &["policy.rate_limits"]),
    (&["rates", "each_agent"], &["policy.agent_rate_limit"]),
    (&["rates", "refused"], &["policy.refused_rate_limit"]),
    (&["resources"], &["policy.resource_limits"]),
    (&["prices"], &["prices"]),
    (&["budgets"], &["budgets"]),
    (&["max_arguments_bytes"], &["policy.max_arguments"]),
    (
        &["disabled"],
        &["tools.bash.enabled", "tools.filesystem.enabled", "tools.http.enabled", "tools.browser.enabled"],
    ),
    (&["shell", "allowed"], &["tools.bash.allowed_commands"]),
    (&["shell", "denied"], &["tools.bash.denied_commands"]),
    (&["files", "read_only"], &["tools.filesystem.read_only"]),
    (&["files", "delete"], &["tools.filesystem.delete"]),
    (&["files", "max_bytes"], &["tools.filesystem.max_file_size"]),
    (&["files", "follow_links"], &[]),
    (&["files", "also_hidden"], &["tools.filesystem.hidden_names"]),
    (&["files", "also_protected"], &["tools.filesystem.protected_names"]),
    (&["egress", "allow"], &["egress.allow"]),
    (&["egress", "by_category"], &["egress.overrides", "sandboxing.docker"]),
    (
        &["egress", "by_tool"],
        &["tools.http.allowed_domains", "tools.http.blocked_domains", "tools.browser.allowed_domains"],
    ),
    (&["egress", "block"], &["egress.block"]),
    (&["egress", "ports"], &["egress.ports"]),
    (&["egress", "private"], &["egress.private"]),
    (&["egress", "nameservers"], &["egress.nameservers"]),
    (&["egress", "extra_roots"], &["egress.extra_roots"]),
    (&["egress", "credentials"], &["egress.credentials"]),
    (&["egress", "vault"], &["egress.vault"]),
    (&["egress", "known_hosts"], &["egress.known_hosts"]),
    (&["egress", "known_hosts_file"], &["egress.known_hosts_file"]),
    (&["egress", "limits", "connections"], &["egress.limits.connections"]),
    (&["egress", "limits", "bytes"], &["egress.limits.bytes"]),
    (&["egress", "limits", "idle_ms"], &["egress.limits.idle_ms"]),
    (&["egress", "http", "methods"], &["tools.http.methods"]),
    (&["egress", "http", "headers"], &["tools.http.headers"]),
    (&["egress", "http", "max_response"], &["tools.http.max_response"]),
    (&["egress", "server_credentials"], &["mcp.servers"]),
    (&["upstreams"], &["mcp.servers"]),
    (&["hooks"], &["hooks"]),
    (&["disclosure", "min_tools"], &["tools.disclosure.min_tools"]),
    (&["disclosure", "l1_token_budget"], &["tools.disclosure.l1_token_budget"]),
    (&["disclosure", "l2_token_budget"], &["tools.disclosure.l2_token_budget"]),
    (&["disclosure", "auto_unload_on_budget_pressure"], &["tools.disclosure.auto_unload_on_budget_pressure"]),
    (&["disclosure", "unload_threshold_percent"], &["tools.disclosure.unload_threshold_percent"]),
    (&["disclosure", "context_window_tokens"], &["tools.disclosure.context_window_tokens"]),
    (&["timeouts_ms", "terminal"], &["tools.bash.timeout_ms", "sandboxing.subprocess.timeout_seconds"]),
    (&["timeouts_ms", "web"], &["tools.http.timeout_ms", "sandboxing.subprocess.timeout_seconds"]),
    (&["timeouts_ms"], &["sandboxing.subprocess.timeout_seconds"]),
    (&["workers", "kept_for"], &["sandboxing.native.lifecycle.strategy"]),
    (&["workers", "grace_seconds"], &["sandboxing.native.lifecycle.grace_seconds"]),
    (&["workers", "idle_seconds"], &["sandboxing.native.lifecycle.idle_seconds"]),
    (&["workers", "health_seconds"], &["sandboxing.native.lifecycle.health_seconds"]),
    (&["workers", "most"], &["sandboxing.native.lifecycle.most"]),
    (&["custom_actions"], &["actions"]),
    (&["listen"], &["listen"]),
    (&["while_running", "on_bad_reload"], &["policy.on_bad_reload"]),
    (&["while_running", "shadow"], &["policy.shadow"]),
];

/// The key that gives what is shown here, if it is one and the same thing under another name.
pub(super) fn name_in_the_file(path: &[&str]) -> Option<&'static str> {
    if path == ["levels"] {
        return Some("tool_access.levels");
    }
    let (_, keys) = KEYS.iter().find(|(shown, _)| *shown == path)?;
    match (path, *keys) {
        // Each category has its time, whoever gives it.
        (["timeouts_ms"], _) => None,
        (["cedar"] | ["egress", "by_category"], [key, ..]) | (_, [key]) => Some(key),
        _ => None,
    }
}

/// What is in nobody's file.
const DEFAULT: &str = "default";

/// Everything that a value can come from.
pub(super) struct Origins<'a> {
    /// The name of the file, without its folder.
    pub(super) file: String,
    pub(super) written: &'a Written,
    pub(super) meaning: &'a Meaning,
    /// The settings for a caller who is here.
    pub(super) settings: &'a Settings,
    /// Where the state folder comes from.
    pub(super) home: &'static str,
    /// Where the store comes from, if not from the file.
    pub(super) store: Option<&'static str>,
}

impl Origins<'_> {
    /// Where the value at this path of what is shown comes from.
    pub(super) fn of(&self, path: &[&str]) -> String {
        match path {
            ["agents", name, rest @ ..] => self.of_agent(name, rest),
            ["roles", name, list] => {
                let key = if *list == "denied" { "denied_tools" } else { list };
                self.first(&[format!("roles.{name}.{key}")]).unwrap_or_else(default)
            }
            ["levels", level, dimension] => {
                self.first(&[format!("tool_access.levels.{level}.{dimension}")]).unwrap_or_else(default)
            }
            ["backends" | "refused", category] => self
                .first(&[format!("sandboxing.overrides.{category}"), "sandboxing.default_backend".to_owned()])
                .or_else(|| self.line("tools.sandbox.enabled").filter(|_| *category == "code_execution"))
                .unwrap_or_else(default),
            ["home"] => self.home.to_owned(),
            ["store"] => match self.store {
                Some(named) => named.to_owned(),
                None => self.line("store").unwrap_or_else(default),
            },
            path => self.of_key(path),
        }
    }

    /// The keys that give what is shown here, or else the part that it belongs to.
    fn of_key(&self, path: &[&str]) -> String {
        let found = KEYS.iter().find(|(shown, _)| path.starts_with(shown));
        let keys = found.map_or(&[][..], |(_, keys)| *keys);
        let lines: Vec<String> = keys.iter().filter_map(|key| self.line(key)).collect();
        if lines.is_empty() { default() } else { lines.join(", ") }
    }

    fn of_agent(&self, name: &str, rest: &[&str]) -> String {
        let key = |below: &str| self.line(&format!("agents.{name}.{below}"));
        let agent = AgentName::parse(name).ok();
        let preset = agent.as_ref().and_then(|agent| self.meaning.presets.get(agent).copied());
        let of_preset = || preset.map(|preset| format!("preset {}", preset.as_str()));
        let Some(known) = agent.and_then(|agent| self.settings.agents.get_key_value(&agent)) else {
            return default();
        };
        let (parsed, agent) = known;
        let held_down = || agent.seniority.map(|seniority| format!("seniority {}", seniority.as_str()));
        match rest {
            ["level"] if agent.level_in_force() != agent.level => held_down().unwrap_or_else(default),
            ["autonomy"] if agent.autonomy_in_force() != agent.autonomy => {
                held_down().unwrap_or_else(default)
            }
            ["level"] => key("level")
                .or_else(of_preset)
                .or_else(|| self.trust().filter(|_| agent.level != policy::Agent::default().level))
                .unwrap_or_else(default),
            ["autonomy" | "allowed_tools" | "auto_approve"] => {
                rest.first().and_then(|name| key(name)).or_else(of_preset).unwrap_or_else(default)
            }
            ["denied_tools" | "human_approval" | "denied_actions"] => {
                let own = rest.first().and_then(|name| key(name));
                let gives = preset.map(policy::Preset::agent).is_some_and(|given| match rest {
                    ["denied_tools"] => !given.denied.is_empty(),
                    ["human_approval"] => !given.human_approval.is_empty(),
                    _ => !given.denied_actions.is_empty(),
                });
                let of_preset = of_preset().filter(|_| gives);
                let elsewhere = self.denied_by_place(parsed).filter(|_| rest == ["denied_tools"]);
                all([of_preset, own, elsewhere])
            }
            ["constraints", dimension] => {
                let unheld = self.settings.unheld_constraints_of(agent);
                if differs(&unheld, &self.settings.constraints_of(agent), dimension) {
                    return held_down().unwrap_or_else(default);
                }
                let own = key(&format!("overrides.{dimension}"));
                let given = preset.map(|preset| preset.agent().overrides);
                let of_preset = of_preset().filter(|_| given.is_some_and(|given| has(&given, dimension)));
                let of_level = || {
                    let level = agent.level;
                    let line = self.line(&format!("tool_access.levels.{level}.{dimension}"));
                    line.unwrap_or_else(|| format!("level {level}"))
                };
                own.or(of_preset).unwrap_or_else(of_level)
            }
            ["workspace"] => key("workspace").unwrap_or_else(|| "current directory".to_owned()),
            [other] => key(other).unwrap_or_else(default),
            _ => default(),
        }
    }

    /// Where trust begins.
    fn trust(&self) -> Option<String> {
        ["trust.initial_level", "trust.initial_levels", "trust.strategy"]
            .iter()
            .find_map(|key| self.line(key))
    }

    /// What takes a tool from an agent that works outside of the directories for it.
    fn denied_by_place(&self, agent: &AgentName) -> Option<String> {
        let named = |settings: &Settings| settings.agents.get(agent).map(|agent| agent.denied.len());
        let is_more = named(self.settings) > named(&self.meaning.settings);
        let lines = ["tools.filesystem.allowed_directories", "tools.bash.allowed_directories"];
        let lines: Vec<String> = lines.iter().filter_map(|key| self.line(key)).collect();
        is_more.then(|| lines.join(", "))
    }

    fn first(&self, keys: &[String]) -> Option<String> {
        keys.iter().find_map(|key| self.line(key))
    }

    fn line(&self, key: &str) -> Option<String> {
        self.written.line(key).map(|line| format!("{}:{line}", self.file))
    }
}

fn default() -> String {
    DEFAULT.to_owned()
}

/// Those there are, one beside the other.
fn all<const N: usize>(origins: [Option<String>; N]) -> String {
    let there: Vec<String> = origins.into_iter().flatten().collect();
    if there.is_empty() { default() } else { there.join(", ") }
}

/// Whether a preset says something about a dimension.
fn has(overrides: &Overrides, dimension: &str) -> bool {
    let given = serde_json::to_value(overrides).unwrap_or_default();
    given.get(dimension).is_some_and(|value| !value.is_null())
}

fn differs(first: &policy::Constraints, second: &policy::Constraints, dimension: &str) -> bool {
    let of = |constraints| serde_json::to_value(constraints).ok().and_then(|all| all.get(dimension).cloned());
    of(first) != of(second)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::super::shown::{Shown, sourced};
    use super::{KEYS, Origins};
    use crate::config;

    /// What no key gives, and what the sample leaves out because it would exclude another key.
    const NO_KEY: [&str; 2] = ["files.follow_links", "workers.kept_for"];

    #[test]
    fn where_every_key_is_given_every_value_comes_from_the_file() {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/tests/every_key.yaml"));
        let loaded = config::load_file(file).unwrap();
        let settings = &loaded.meaning.settings;
        let shown = Shown::of(&loaded.meaning, settings, Path::new("/"), String::new(), String::new());
        let origins = Origins {
            file: "every_key.yaml".to_owned(),
            written: &loaded.written,
            meaning: &loaded.meaning,
            settings,
            home: "TOOLGATE_HOME",
            store: None,
        };
        let mut unexplained = Vec::new();
        collect(&sourced(&serde_json::to_value(&shown).unwrap(), "", &origins), "", &mut unexplained);
        unexplained.retain(|path| {
            let is_of_another = path.starts_with("levels.") || path.starts_with("agents.default.");
            !is_of_another && !NO_KEY.contains(&path.as_str())
        });
        assert_eq!(unexplained, Vec::<String>::new(), "name the keys that give these in KEYS");
    }

    fn collect(tree: &Value, path: &str, unexplained: &mut Vec<String>) {
        match tree.get("source").and_then(Value::as_str) {
            Some(source) if source == super::DEFAULT => unexplained.push(path.to_owned()),
            Some(_) => {}
            None => {
                for (name, below) in tree.as_object().into_iter().flatten() {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    collect(below, &path, unexplained);
                }
            }
        }
    }

    #[test]
    fn of_two_entries_the_narrower_comes_first() {
        for (place, (shown, _)) in KEYS.iter().enumerate() {
            let hidden = KEYS[..place].iter().any(|(earlier, _)| shown.starts_with(earlier));
            assert!(!hidden, "{shown:?} is never found");
        }
    }
}
