//! `toolgate tools register`: tools that are declared in files. They are kept in Toolgate's home, where every gate finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use contract::{Contract, SourceName, show_hidden};
use engine::{Engine, NotListed};
use policy::Settings;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tools::{DeclaredTools, read_declared};

use super::open::Gate;
use super::{CODE_DONE, CODE_REFUSED, Trouble};
use crate::talk;

/// Where the files are kept, in Toolgate's home.
const FOLDER: &str = "tools";

/// Read tools from a TOOL.md, a manifest or an OpenAPI document, and say what they would be
#[derive(Args)]
pub(super) struct RegisterArguments {
    /// The file
    file: PathBuf,

    /// Keep it: every gate with this home has its tools from then on
    #[arg(long)]
    apply: bool,
}

pub(super) async fn register(gate: &Gate, arguments: &RegisterArguments) -> Result<i32, Trouble> {
    let opened = gate.open_for_people().await?;
    let name = arguments.file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let text = fs::read_to_string(&arguments.file)
        .with_context(|| format!("cannot read `{}`", arguments.file.display()))?;
    let settings = opened.engine.settings();
    let DeclaredTools { source, tools, refused } = read_declared(&name, &text, &settings)?;
    let contracts: Vec<Contract> = tools.iter().map(|tool| tool.contract().clone()).collect();
    let mut refused: Vec<NotListed> =
        refused.into_iter().map(|(name, why)| NotListed { name, why }).collect();
    let taken = taken_names(&opened.home, &name, &settings);
    let (fitting, clashing): (Vec<_>, Vec<_>) =
        contracts.into_iter().partition(|contract| !taken.contains_key(&contract.name().look()));
    for contract in &clashing {
        let owner = taken.get(&contract.name().look()).map(String::as_str).unwrap_or_default();
        let why = format!("the name is that of {owner}, or looks like it");
        refused.push(NotListed { name: contract.name().to_string(), why });
    }
    let mut listed: Vec<String> = fitting.iter().map(|contract| contract.name().to_string()).collect();
    if arguments.apply && !fitting.is_empty() {
        let tools = tools
            .into_iter()
            .filter(|tool| listed.iter().any(|name| name == tool.contract().name().as_str()));
        let imported = opened.engine.replace_source(&source, tools.collect(), refused).await?;
        listed = imported.listed.iter().map(ToString::to_string).collect();
        refused = imported.refused;
        if !listed.is_empty() {
            keep(&opened.home, &name, &text)?;
        }
    }
    let registered = arguments.apply && !listed.is_empty();
    let fitting: Vec<&Contract> = fitting
        .iter()
        .filter(|contract| listed.iter().any(|name| name == contract.name().as_str()))
        .collect();
    if gate.json {
        let refused: Vec<Value> =
            refused.iter().map(|one| json!({ "name": one.name, "why": one.why })).collect();
        let tools: Vec<Value> = fitting.iter().map(|contract| as_json(contract)).collect();
        talk::json(
            &json!({ "source": source, "registered": registered, "tools": tools, "refused": refused }),
        );
    } else {
        fitting.iter().for_each(|contract| tell(contract));
        for NotListed { name, why } in &refused {
            talk::warning(&format!("`{}` is refused: {}", show_hidden(name), show_hidden(why)));
        }
        match (registered, listed.is_empty()) {
            (_, true) => talk::warning("there is no tool in it that can be registered"),
            (true, false) => talk::say(&format!(
                "registered {} tools from `{source}`; calls of them are asked about until you pin them",
                listed.len()
            )),
            (false, false) => talk::hint("nothing was changed; --apply registers them"),
        }
    }
    Ok(if listed.is_empty() { CODE_REFUSED } else { CODE_DONE })
}

/// Puts the tools of registered files into a gate, in the order of the files' names.
pub(super) async fn load(engine: &Engine, home: &Path) -> Result<(), Trouble> {
    let settings = engine.settings();
    for (name, text) in kept(home)? {
        match read_declared(&name, &text, &settings) {
            Ok(DeclaredTools { source, tools, refused }) => {
                let unfit = refused.into_iter().map(|(name, why)| NotListed { name, why }).collect();
                engine.replace_source(&source, tools, unfit).await?;
            }
            // Its tools are not there, and nobody else's suffer for it.
            Err(error) => {
                talk::warning(&format!("the registered file `{}` is left out: {error}", show_hidden(&name)))
            }
        }
    }
    Ok(())
}

/// How often registered files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes in what is registered, changed or taken away while a gate runs, until that is aborted. A file is there whole or not at
/// all, so that none is read in the middle.
pub(super) fn follow(engine: Engine, home: PathBuf) -> AbortHandle {
    let following = tokio::spawn(async move {
        let look = |home: PathBuf| async move {
            let looked = tokio::task::spawn_blocking(move || kept(&home).ok());
            looked.await.ok().flatten()
        };
        let mut before = look(home.clone()).await.unwrap_or_default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(now) = look(home.clone()).await.filter(|now| *now != before) else { continue };
            let settings = engine.settings();
            let sources = |files: &BTreeMap<String, String>| -> BTreeSet<SourceName> {
                let read = files.iter().filter_map(|(name, text)| read_declared(name, text, &settings).ok());
                read.map(|declared| declared.source).collect()
            };
            for gone in sources(&before).difference(&sources(&now)) {
                if let Err(error) = engine.replace_source(gone, Vec::new(), Vec::new()).await {
                    tracing::warn!(%error, "the tools of a file that is gone are still there");
                }
            }
            match load(&engine, &home).await {
                Ok(()) => tracing::info!(files = now.len(), "registered files have changed"),
                Err(_) => tracing::warn!("registered files have changed, and cannot be read"),
            }
            before = now;
        }
    });
    following.abort_handle()
}

/// The registered files and what is in them, in order.
fn kept(home: &Path) -> Result<BTreeMap<String, String>, Trouble> {
    let folder = home.join(FOLDER);
    let mut kept = BTreeMap::new();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(kept),
        Err(error) => {
            return Err(anyhow::Error::from(error)
                .context(format!("cannot look into `{}`", folder.display()))
                .into());
        }
    };
    for entry in entries {
        let path = entry.context("cannot look at a registered file")?.path();
        let Some(name) =
            path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'))
        else {
            continue;
        };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        kept.insert(name.to_owned(), text);
    }
    Ok(kept)
}

/// Keeps a file, whole or not at all.
fn keep(home: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let folder = home.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let part = folder.join(format!(".{name}.part"));
    let write = || -> std::io::Result<()> {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, folder.join(name))
    };
    write().map_err(|error| anyhow!(error).context("cannot keep the file")).map_err(Trouble::from)
}

/// Names that a file cannot have, by their look, and whose they are.
fn taken_names(home: &Path, file: &str, settings: &Settings) -> BTreeMap<String, String> {
    let mut taken = BTreeMap::new();
    for tool in tools::built_in(settings).unwrap_or_default() {
        taken.insert(tool.contract().name().look(), "a built-in tool".to_owned());
    }
    for (name, text) in kept(home).unwrap_or_default() {
        let declared = read_declared(&name, &text, settings).map(|declared| declared.tools);
        for tool in declared.unwrap_or_default().iter().filter(|_| name != file) {
            taken.insert(tool.contract().name().look(), format!("a tool of `{name}`"));
        }
    }
    taken
}

fn tell(contract: &Contract) {
    let definition = contract.definition();
    talk::data(&format!("{} · {}", definition.name, show_hidden(&definition.title)));
    talk::data(&format!(
        "  class     {} · egress {} · {}",
        definition.safety, definition.egress, definition.category
    ));
    talk::data(&format!("  action    {}", definition.action));
    talk::data(&format!("  trust     {}", contract.trust()));
    talk::data(&format!("  hash      {}", contract.hash()));
    let original = definition.origin.as_ref().map(|origin| &origin.original);
    let run = original.and_then(runs).unwrap_or_default();
    talk::data(&format!("  runs      {}", show_hidden(&run)));
    for finding in contract.findings() {
        talk::data(&format!("  finding   {finding}"));
    }
}

/// What a call of it runs, as its file has it.
fn runs(original: &Value) -> Option<String> {
    let front = original.get("front").unwrap_or(original);
    if let Some(words) = front.get("command").and_then(Value::as_array) {
        return Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    }
    let http = front.get("http").unwrap_or(front);
    let method = http.get("method").and_then(Value::as_str).unwrap_or("GET").to_uppercase();
    let path = http.get("path").and_then(Value::as_str).unwrap_or_default();
    Some(format!("{method} {}{path}", http.get("url").and_then(Value::as_str)?))
}

fn as_json(contract: &Contract) -> Value {
    json!({
        "definition": contract.definition(),
        "hash": contract.hash(),
        "trust": contract.trust(),
        "findings": contract.findings(),
    })
}
