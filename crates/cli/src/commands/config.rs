//! `toolgate config`: check, show, describe and begin a configuration.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use policy::Settings;
use serde::Serialize;
use serde_json::{Value, json};

use super::origin::Origins;
use super::shown::{Shown, sourced};
use super::table::as_text;
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
    /// Show what a configuration means, with every default filled in, and where each value comes from
    Show {
        /// The file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The store that would be named
        #[arg(long, value_name = "URL")]
        store: Option<String>,
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
        Command::Show { config, store, json } => show(config.as_deref(), store.as_deref(), *json),
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
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return refuse(error, json),
    };
    let shadow = loaded.meaning.while_running.shadow.as_deref().map(config::load_shadow);
    if let Some(Err(why)) = shadow {
        // It harms nothing, and nothing would be decided beside the policy.
        loaded.warnings.push(format!("the shadow cannot be used: {why}"));
    }
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
            talk::counted(agents, "agent"),
            talk::counted(rules, "rule")
        ));
    }
    0
}

fn show(file: Option<&Path>, store_named: Option<&str>, json: bool) -> i32 {
    let Loaded { source, meaning, written, mut warnings } = match config::load(file) {
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
    let (home, home_from) = home();
    let (store_url, store_from) = store(store_named, &home, &meaning);
    let shown = Shown::of(&meaning, &settings, &here, config::name_of(&home), store_url);
    let origins = Origins {
        file: file_name(&source),
        written: &written,
        meaning: &meaning,
        settings: &settings,
        home: home_from,
        store: store_from,
    };
    let values = sourced(&serde_json::to_value(&shown).unwrap_or_default(), "", &origins);
    let (name, policy) = (source_name(&source).unwrap_or_else(|| "built in".to_owned()), named(&settings));
    let found_by = found_by(file, &source);
    if json {
        let mut whole = json!({ "source": name, "found_by": found_by, "policy": policy });
        if let (Some(whole), Value::Object(values)) = (whole.as_object_mut(), values) {
            whole.extend(values);
            whole.insert("not_in_force".to_owned(), meaning.kept.clone());
            whole.insert("warnings".to_owned(), json!(warnings));
        }
        talk::data(&pretty(&whole));
        return 0;
    }
    warnings.iter().for_each(|warning| talk::warning(warning));
    talk::data(&format!("source: {name} ({found_by})\npolicy: {policy}\n"));
    talk::data(as_text(&values).trim_end());
    let later = serde_saphyr::to_string(&meaning.kept).unwrap_or_default();
    if meaning.kept.as_object().is_some_and(|kept| !kept.is_empty()) {
        talk::data(&format!("\nread, and not in force yet:\n{}", later.trim_end()));
    }
    0
}

/// What says which file it is.
fn found_by(named: Option<&Path>, source: &Source) -> &'static str {
    match source {
        Source::BuiltIn => "there is no file",
        Source::File(_) if named.is_some() => "--config",
        Source::File(_) if config::config_file().is_some() => "TOOLGATE_CONFIG",
        Source::File(_) => "TOOLGATE_HOME",
    }
}

/// The state folder, and what says so.
fn home() -> (PathBuf, &'static str) {
    let from = if config::home_is_named() { "TOOLGATE_HOME" } else { "default" };
    (config::state_folder().unwrap_or_default(), from)
}

/// The store as it may be shown, and what names it if it is not the file.
fn store(named: Option<&str>, home: &Path, meaning: &Meaning) -> (String, Option<&'static str>) {
    // A URL may hold a password, which is nothing to show.
    let shown = |url: &str| match store::names_no_secret(url) {
        _ if url.starts_with("sqlite:") => contract::show_hidden(url),
        Ok(()) => contract::show_hidden(url),
        Err(_) => "not shown, since it may hold a password".to_owned(),
    };
    if let Some(url) = named {
        return (shown(url), Some("--store"));
    }
    if let Some(url) = config::store_url() {
        return (shown(&url), Some("TOOLGATE_STORE"));
    }
    let own = || format!("sqlite:{}", config::name_of(&home.join("toolgate.db")));
    (meaning.store.as_ref().map_or_else(own, ToString::to_string), None)
}

/// The name of the file, without its folder.
fn file_name(source: &Source) -> String {
    match source {
        Source::File(path) => config::name_of(Path::new(path.file_name().unwrap_or_default())),
        Source::BuiltIn => String::new(),
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

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The name of the policy; settings without one are refused when they are read.
fn named(settings: &Settings) -> String {
    settings.hash().map_or_else(|error| error.to_string(), |hash| hash.to_string())
}
