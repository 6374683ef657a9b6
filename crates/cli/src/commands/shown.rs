//! A configuration with every default filled in, and where each value comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use contract::{Action, AgentName, Autonomy, Category, Level, OperatorName, RoleName};
use engine::OnBadReload;
use policy::{
    Agent, ApprovalRule, Asking, Budget, CedarRule, Constraints, DisclosureSettings, EgressSettings,
    FileSettings, HookSettings, PriceSettings, RateSettings, Role, Seniority, Settings, ShellSettings,
    ToolGlob, ToolResources, UpstreamSettings,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tools::{KeptFor, Lifecycle};

use super::origin::Origins;
use crate::config::{self, Meaning, WhileRunning};

/// A configuration with every default filled in.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    agents: BTreeMap<&'a AgentName, ShownAgent<'a>>,
    roles: &'a BTreeMap<RoleName, Role>,
    levels: BTreeMap<Level, Constraints>,
    rules: &'a [ApprovalRule],
    cedar: &'a [CedarRule],
    ask_for_seconds: i64,
    asking_ms: &'a Asking,
    rates: &'a RateSettings,
    resources: &'a [ToolResources],
    prices: &'a PriceSettings,
    budgets: &'a [Budget],
    max_arguments_bytes: u64,
    disabled: &'a [ToolGlob],
    refused: &'a BTreeMap<Category, String>,
    shell: &'a ShellSettings,
    files: &'a FileSettings,
    egress: &'a EgressSettings,
    upstreams: &'a BTreeMap<String, UpstreamSettings>,
    hooks: &'a [HookSettings],
    disclosure: &'a DisclosureSettings,
    backends: BTreeMap<Category, &'static str>,
    timeouts_ms: &'a BTreeMap<Category, u64>,
    workers: ShownWorkers,
    custom_actions: &'a [String],
    home: String,
    store: String,
    listen: String,
    while_running: ShownWhileRunning,
}

#[derive(Serialize)]
struct ShownAgent<'a> {
    preset: Option<&'static str>,
    role: Option<&'a RoleName>,
    seniority: Option<Seniority>,
    level: Level,
    autonomy: Autonomy,
    workspace: String,
    allowed_tools: &'a [ToolGlob],
    denied_tools: &'a [ToolGlob],
    operator: Option<&'a OperatorName>,
    auto_approve: &'a BTreeSet<Action>,
    human_approval: &'a BTreeSet<Action>,
    denied_actions: &'a BTreeSet<Action>,
    constraints: Constraints,
}

/// What a gate does with changes of its configuration.
#[derive(Serialize)]
struct ShownWhileRunning {
    on_bad_reload: &'static str,
    shadow: Option<String>,
}

impl ShownWhileRunning {
    fn of(told: &WhileRunning) -> ShownWhileRunning {
        // The files of rules stand with the rules.
        let WhileRunning { on_bad_reload, shadow, files: _ } = told;
        let on_bad_reload = match on_bad_reload {
            OnBadReload::Refuse => "refuse",
            OnBadReload::Keep => "keep",
        };
        ShownWhileRunning { on_bad_reload, shadow: shadow.as_deref().map(config::name_of) }
    }
}

/// Whom workers are kept for, and how long.
#[derive(Serialize)]
struct ShownWorkers {
    kept_for: &'static str,
    grace_seconds: u64,
    idle_seconds: u64,
    health_seconds: u64,
    most: usize,
}

impl ShownWorkers {
    fn of(lifecycle: Lifecycle) -> ShownWorkers {
        let Lifecycle { strategy, grace, idle, health, most } = lifecycle;
        let kept_for = match strategy {
            KeptFor::Call => "call",
            KeptFor::Task => "task",
            KeptFor::Agent => "agent",
            KeptFor::TaskOrAgent => "task, or agent where there is none",
        };
        let (grace_seconds, idle_seconds) = (grace.as_secs(), idle.as_secs());
        ShownWorkers { kept_for, grace_seconds, idle_seconds, health_seconds: health.as_secs(), most }
    }
}

impl<'a> Shown<'a> {
    pub(super) fn of(
        meaning: &'a Meaning,
        settings: &'a Settings,
        here: &Path,
        home: String,
        store: String,
    ) -> Shown<'a> {
        // Whole, so that what is added to the settings cannot be forgotten here.
        let Settings {
            agents,
            roles,
            levels: _,
            rules,
            cedar,
            argument_types: _,
            origins: _,
            disabled,
            unavailable,
            shell,
            files,
            egress,
            upstreams,
            rates,
            resources,
            prices,
            budgets,
            max_arguments,
            ask_for,
            asking,
            hooks,
            disclosure,
        } = settings;
        let agent = |(name, agent): (&'a AgentName, &'a Agent)| {
            let shown = ShownAgent {
                preset: meaning.presets.get(name).map(|preset| preset.as_str()),
                role: agent.role.as_ref(),
                seniority: agent.seniority,
                level: agent.level_in_force(),
                autonomy: agent.autonomy_in_force(),
                workspace: config::name_of(meaning.workspace_of(name, here)),
                allowed_tools: &agent.allowed,
                denied_tools: &agent.denied,
                operator: agent.operator.as_ref(),
                auto_approve: &agent.auto_approve,
                human_approval: &agent.human_approval,
                denied_actions: &agent.denied_actions,
                constraints: settings.constraints_of(agent),
            };
            (name, shown)
        };
        let level = |level: &Level| (*level, settings.constraints_at(*level));
        Shown {
            agents: agents.iter().map(agent).collect(),
            roles,
            levels: Level::ALL.iter().map(level).collect(),
            rules,
            cedar,
            ask_for_seconds: ask_for / 1000,
            asking_ms: asking,
            rates,
            resources,
            prices,
            budgets,
            max_arguments_bytes: *max_arguments,
            disabled,
            refused: unavailable,
            shell,
            files,
            egress,
            upstreams,
            hooks,
            disclosure,
            backends: meaning
                .backends
                .iter()
                .map(|(category, backend)| (*category, backend.as_str()))
                .collect(),
            timeouts_ms: &meaning.timeouts,
            workers: ShownWorkers::of(meaning.lifecycle),
            custom_actions: &meaning.custom_actions,
            home,
            store,
            listen: meaning.listen.to_string(),
            while_running: ShownWhileRunning::of(&meaning.while_running),
        }
    }
}

/// The same as a tree, in which each value stands beside where it comes from: `{"value": …, "source": …}`.
pub(super) fn sourced(shown: &Value, path: &str, origins: &Origins<'_>) -> Value {
    match shown {
        Value::Object(entries) if !entries.is_empty() => {
            let below = |(name, value): (&String, &Value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}\u{1f}{name}") };
                (name.clone(), sourced(value, &path, origins))
            };
            Value::Object(entries.iter().map(below).collect())
        }
        value => {
            let path: Vec<&str> = path.split('\u{1f}').collect();
            let mut leaf = Map::new();
            leaf.insert("value".to_owned(), value.clone());
            leaf.insert("source".to_owned(), Value::String(origins.of(&path)));
            Value::Object(leaf)
        }
    }
}
