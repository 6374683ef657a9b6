//! `toolgate config`: check, show, describe and begin a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use contract::{Action, AgentName, Autonomy, Category, Level, OperatorName};
use policy::{
    Agent, ApprovalRule, Asking, CedarRule, Constraints, EgressSettings, FileSettings, HookSettings,
    RateSettings, Settings, ShellSettings, ToolGlob, ToolResources,
};
use serde::Serialize;
use serde_json::{Value, json};
use tools::{KeptFor, Lifecycle};

use crate::config::{self, LoadError, Loaded, Meaning, Source};
use crate::talk;

const CODE_BAD: i32 = 2;

/// What `config init` writes.
const STARTER: &str = include_str!("starter.yaml");

const AFTER_HELP: &str = "\
Without a file, the configuration in force is meant: `--config`, else TOOLGATE_CONFIG, else toolgate.yaml in
TOOLGATE_HOME, else what is built in. One that merely lies in the current directory is not read: agents write there.

Exit codes: 0 done, 2 the configuration cannot be used.";

/// Check, show, describe or begin a configuration
#[derive(Args)]
#[command(after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say whether a configuration can be used, and what is wrong with it
    Check {
        /// The file
        file: Option<PathBuf>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a configuration means, with every default filled in, and where it comes from
    Show {
        /// The file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of toolgate.yaml
    Schema {
        /// Print it as JSON, which it is anyway
        #[arg(long)]
        json: bool,
    },
    /// Write a commented file to begin with; an existing one is left alone
    Init {
        /// The file; else toolgate.yaml in TOOLGATE_HOME
        file: Option<PathBuf>,
        /// Print what was written as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command; returns the exit code.
pub(crate) fn run(arguments: &Arguments) -> i32 {
    match &arguments.command {
        Command::Check { file, json } => check(file.as_deref(), *json),
        Command::Show { config, json } => show(config.as_deref(), *json),
        Command::Schema { json: _ } => {
            talk::data(&pretty(&config::schema()));
            0
        }
        Command::Init { file, json } => init(file.as_deref(), *json),
    }
}

fn check(file: Option<&Path>, json: bool) -> i32 {
    let loaded = match file {
        Some(file) => config::load_file(file),
        None => config::load(None),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return refuse(error, json),
    };
    let file = source_name(&loaded.source);
    if json {
        talk::data(&pretty(&json!({ "file": file, "valid": true, "warnings": loaded.warnings })));
    } else {
        loaded.warnings.iter().for_each(|warning| talk::warning(warning));
        let agents = loaded.meaning.settings.agents.len();
        let settings = &loaded.meaning.settings;
        let rules = settings.rules.len() + settings.cedar.len();
        let hash = named(&loaded.meaning.settings);
        talk::data(&format!(
            "{}: valid, {}, {}, policy {hash}",
            file.as_deref().unwrap_or("built-in defaults"),
            counted(agents, "agent"),
            counted(rules, "rule")
        ));
    }
    0
}

fn show(file: Option<&Path>, json: bool) -> i32 {
    let Loaded { source, meaning, mut warnings } = match config::load(file) {
        Ok(loaded) => loaded,
        Err(error) => return refuse(error, json),
    };
    let here = match std::env::current_dir().context("cannot tell the current directory") {
        Ok(here) => here,
        Err(error) => {
            talk::error(&error, None);
            return CODE_BAD;
        }
    };
    let (settings, more) = meaning.settings_in(&here);
    warnings.extend(more);
    let shown = Shown::of(&source, &meaning, &settings, &here, &warnings);
    if json {
        talk::data(&pretty(&shown));
        return 0;
    }
    warnings.iter().for_each(|warning| talk::warning(warning));
    match serde_saphyr::to_string(&shown) {
        Ok(text) => {
            talk::data(text.trim_end());
            0
        }
        Err(error) => {
            let error = anyhow::Error::from(error).context("the configuration cannot be shown as YAML");
            talk::error(&error, Some("use `--json`"));
            CODE_BAD
        }
    }
}

fn init(file: Option<&Path>, json: bool) -> i32 {
    let own = || config::state_folder().unwrap_or_default().join(config::FILE_NAME);
    let file = file.map_or_else(own, Path::to_owned);
    let name = config::name_of(&file);
    let folder = file.parent().filter(|folder| config::state_folder().as_deref() == Some(*folder));
    let made = folder.map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let open = || OpenOptions::new().write(true).create_new(true).open(&file);
    let written = made.and_then(|()| open()).and_then(|mut opened| opened.write_all(STARTER.as_bytes()));
    match written {
        Ok(()) if json => talk::data(&pretty(&json!({ "written": name }))),
        Ok(()) => talk::data(&format!("wrote {name}; change it, then try `toolgate config check {name}`")),
        Err(error) => {
            let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
            let hint = exists.then_some("it is left as it was; name another file, or move it away");
            let error = anyhow::Error::from(error).context(format!("cannot write `{name}`"));
            if json {
                let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
                talk::failure("cannot_write", &causes.join(": "), hint);
            } else {
                talk::error(&error, hint);
            }
            return CODE_BAD;
        }
    }
    0
}

/// Says what is wrong with a configuration, each thing on its own line.
fn refuse(error: LoadError, json: bool) -> i32 {
    if json {
        let problems = match &error {
            LoadError::Invalid { problems, .. } => json!(problems),
            _ => json!([]),
        };
        let error = anyhow::Error::from(error);
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        let failure = json!({ "code": "bad_config", "message": causes.join(": "), "hint": null });
        talk::data(&pretty(&json!({ "valid": false, "error": failure, "problems": problems })));
        return CODE_BAD;
    }
    match &error {
        LoadError::Invalid { file, problems } => {
            for problem in problems {
                talk::say(&format!("error: {file}:{problem}"));
            }
        }
        _ => talk::error(&error.into(), None),
    }
    CODE_BAD
}

fn source_name(source: &Source) -> Option<String> {
    match source {
        Source::File(path) => Some(config::name_of(path)),
        Source::BuiltIn => None,
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A configuration with every default filled in.
#[derive(Serialize)]
struct Shown<'a> {
    source: Value,
    policy: String,
    agents: BTreeMap<&'a AgentName, ShownAgent<'a>>,
    levels: BTreeMap<Level, Constraints>,
    rules: &'a [ApprovalRule],
    cedar: &'a [CedarRule],

    ask_for_seconds: i64,
    asking_ms: &'a Asking,
    rates: &'a RateSettings,
    resources: &'a [ToolResources],
    max_arguments_bytes: u64,
    disabled: &'a [ToolGlob],
    refused: &'a BTreeMap<Category, String>,
    shell: &'a ShellSettings,
    files: &'a FileSettings,
    egress: &'a EgressSettings,
    hooks: &'a [HookSettings],
    backends: BTreeMap<Category, &'static str>,
    timeouts_ms: &'a BTreeMap<Category, u64>,
    workers: ShownWorkers,
    custom_actions: &'a [String],
    store: Option<String>,
    listen: String,
    not_in_force: &'a Value,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ShownAgent<'a> {
    level: Level,
    autonomy: Autonomy,
    workspace: String,
    allowed_tools: &'a [ToolGlob],
    denied_tools: &'a [ToolGlob],
    operator: Option<&'a OperatorName>,
    auto_approve: &'a BTreeSet<Action>,
    human_approval: &'a BTreeSet<Action>,
    constraints: Constraints,
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
    fn of(
        source: &Source,
        meaning: &'a Meaning,
        settings: &'a Settings,
        here: &Path,
        warnings: &'a [String],
    ) -> Shown<'a> {
        // Whole, so that what is added to the settings cannot be forgotten here.
        let Settings {
            agents,
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
            rates,
            resources,
            max_arguments,
            ask_for,
            asking,
            hooks,
        } = settings;
        let agent = |(name, agent): (&'a AgentName, &'a Agent)| {
            let shown = ShownAgent {
                level: agent.level,
                autonomy: agent.autonomy,
                workspace: config::name_of(meaning.workspace_of(name, here)),
                allowed_tools: &agent.allowed,
                denied_tools: &agent.denied,
                operator: agent.operator.as_ref(),
                auto_approve: &agent.auto_approve,
                human_approval: &agent.human_approval,
                constraints: settings.constraints_of(agent),
            };
            (name, shown)
        };
        let level =
            |level: &Level| (*level, settings.constraints_of(&Agent { level: *level, ..Agent::default() }));
        Shown {
            source: source_name(source).map_or(json!("built in"), Value::String),
            policy: named(settings),
            agents: agents.iter().map(agent).collect(),
            levels: Level::ALL.iter().map(level).collect(),
            rules,
            cedar,
            ask_for_seconds: ask_for / 1000,
            asking_ms: asking,
            rates,
            resources,
            max_arguments_bytes: *max_arguments,
            disabled,
            refused: unavailable,
            shell,
            files,
            egress,
            hooks,
            backends: meaning
                .backends
                .iter()
                .map(|(category, backend)| (*category, backend.as_str()))
                .collect(),
            timeouts_ms: &meaning.timeouts,
            workers: ShownWorkers::of(meaning.lifecycle),
            custom_actions: &meaning.custom_actions,
            store: meaning.store.as_ref().map(ToString::to_string),
            listen: meaning.listen.to_string(),
            not_in_force: &meaning.kept,
            warnings,
        }
    }
}

/// The name of the policy; settings without one are refused when they are read.
fn named(settings: &Settings) -> String {
    settings.hash().map_or_else(|error| error.to_string(), |hash| hash.to_string())
}
