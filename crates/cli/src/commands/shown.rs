//! A configuration with every default filled in, and where each value comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use contract::{Action, AgentName, Autonomy, Category, Level, OperatorName, RoleName};
use engine::OnBadReload;
use policy::{
    Agent, ApprovalRule, Asking, Budget, CedarRule, Constraints, EgressSettings, FileSettings, HookSettings,
    PriceSettings, RateSettings, Role, Seniority, Settings, ShellSettings, ToolGlob, ToolResources,
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
    hooks: &'a [HookSettings],
    while_running: ShownWhileRunning,
    backends: BTreeMap<Category, &'static str>,
    timeouts_ms: &'a BTreeMap<Category, u64>,
    workers: ShownWorkers,
    custom_actions: &'a [String],
    home: String,
    store: String,
    listen: String,
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
            disabled,
            unavailable,
            shell,
            files,
            egress,
            rates,
            resources,
            prices,
            budgets,
            max_arguments,
            ask_for,
            asking,
            hooks,
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
            hooks,
            while_running: ShownWhileRunning::of(&meaning.while_running),
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

/// The tree for people: names, values and sources in three columns.
pub(super) fn as_text(tree: &Value) -> String {
    let mut rows = Vec::new();
    collect_rows(tree, 0, &mut rows);
    let width =
        |of: fn(&Row) -> usize, most: usize| rows.iter().map(of).filter(|w| *w <= most).max().unwrap_or(0);
    let names = width(|row| row.indent + row.name.chars().count(), 44);
    let values = width(|row| row.value.chars().count(), 40);
    let mut text = String::new();
    for Row { indent, name, value, source } in &rows {
        let name = format!("{:indent$}{name}", "");
        let line = match source {
            None => name,
            Some(source) => format!("{name:<names$}  {value:<values$}  {source}"),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How wide a list of words gets before it goes on in the next line.
const WIDEST_LIST: usize = 40;

/// One line for people; a heading has neither value nor source.
struct Row {
    indent: usize,
    name: String,
    value: String,
    source: Option<String>,
}

fn collect_rows(tree: &Value, indent: usize, rows: &mut Vec<Row>) {
    for (name, below) in tree.as_object().into_iter().flatten() {
        let (Some(value), Some(source)) = (below.get("value"), below.get("source").and_then(Value::as_str))
        else {
            rows.push(Row { indent, name: name.clone(), value: String::new(), source: None });
            collect_rows(below, indent + 2, rows);
            continue;
        };
        for (place, value) in lines_of(value).into_iter().enumerate() {
            let (name, source) = if place == 0 { (name.as_str(), source) } else { ("", "") };
            rows.push(Row { indent, name: name.to_owned(), value, source: Some(source.to_owned()) });
        }
    }
}

/// A value in as many lines as it takes: words of a list beside each other, anything else on a line of its own.
fn lines_of(value: &Value) -> Vec<String> {
    let Some(items) = value.as_array().filter(|items| items.len() > 1) else { return vec![plain(value)] };
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let (text, is_word) = (plain(item), item.is_string());
        match lines.last_mut() {
            Some(line) if is_word && line.chars().count() + text.chars().count() < WIDEST_LIST => {
                line.push_str(", ");
                line.push_str(&text);
            }
            _ => lines.push(text),
        }
    }
    lines
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => contract::show_hidden(text),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if items.len() == 1 => items.iter().map(plain).collect(),
        Value::Object(entries) if entries.is_empty() => "none".to_owned(),
        other => contract::show_hidden(&other.to_string()),
    }
}
