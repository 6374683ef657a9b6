//! `toolgate tools`: what there is to call.

use clap::{Args, Subcommand};
use contract::{Contract, ToolStatus, nearest};
use engine::Engine;
use serde_json::json;
use tools::CallKind;

use super::open::{Gate, agent};
use super::person::Person;
use super::register::{RegisterArguments, register};
use super::{CODE_DONE, Trouble};
use crate::talk;

mod imports;
mod login;

/// Show the tools an agent may use
#[derive(Args)]
pub(crate) struct ToolsArguments {
    #[command(subcommand)]
    command: Command,

    /// The agent
    #[arg(long, value_name = "NAME", default_value = "default", global = true)]
    agent: String,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// One line for each
    List {
        /// Also those that the agent may not use, with where they come from and how far they are trusted
        #[arg(long)]
        all: bool,
    },
    /// Everything about one
    Show {
        /// The tool
        name: String,
    },
    /// Ask the MCP servers of the configuration what they offer
    Refresh {
        /// One of them; all, if none is named
        server: Option<String>,
    },
    /// Sign in to an MCP server that wants somebody to: prints the page where you say yes, and waits for you to come back
    Login {
        /// The server
        server: String,

        #[command(flatten)]
        person: Person,
    },
    /// Say that you have looked at a tool that comes from elsewhere, as it is now: any change of it suspends it
    Pin {
        /// The tool
        name: String,

        /// The hash that `tools show` gave of it, or its first 8 characters: what was changed since is not pinned
        #[arg(long, value_name = "HASH")]
        hash: String,

        /// How dangerous its calls are, if that is less than `network`: read or write
        #[arg(long, value_name = "CLASS")]
        safety: Option<String>,

        /// What leaves the machine, if that is less than `write`: none or read_only
        #[arg(long, value_name = "CLASS")]
        egress: Option<String>,

        #[command(flatten)]
        person: Person,
    },
    /// Show what has changed in a tool since it was pinned
    Diff {
        /// The tool
        name: String,
    },
    /// Switch off a tool that comes from elsewhere
    Disable {
        /// The tool
        name: String,

        #[command(flatten)]
        person: Person,
    },
    /// Switch it on again
    Enable {
        /// The tool
        name: String,

        #[command(flatten)]
        person: Person,
    },
    Register(RegisterArguments),
}

pub(crate) async fn tools(arguments: ToolsArguments) -> Result<i32, Trouble> {
    if let Command::Register(registered) = &arguments.command {
        return register(&arguments.gate, registered).await;
    }
    let json = arguments.gate.json;
    let opened = match arguments.command {
        Command::List { .. } | Command::Show { .. } | Command::Refresh { .. } => {
            arguments.gate.open().await?
        }
        _ => arguments.gate.open_for_people().await?,
    };
    let contracts = opened.engine.tools_for(&agent(&arguments.agent)?);
    match &arguments.command {
        Command::List { all: false } => list(&opened.engine, &contracts, json),
        Command::List { all: true } => imports::list(&opened.engine, json),
        Command::Refresh { server } => {
            return imports::refresh(&opened.engine, server.as_deref(), json).await;
        }
        Command::Login { server, person } => return login::login(&opened, server, person, json).await,
        Command::Pin { name, hash, safety, egress, person } => {
            let credential = person.credential(&opened).await?;
            let lowering = imports::lowering(safety.as_deref(), egress.as_deref())?;
            imports::pin(&opened.engine, name, hash, lowering, &credential, json).await?;
        }
        Command::Diff { name } => return imports::diff(&opened.engine, name, json).await,
        Command::Disable { name, person } => {
            let credential = person.credential(&opened).await?;
            imports::switch(&opened.engine, name, ToolStatus::Disabled, &credential, json).await?;
        }
        Command::Enable { name, person } => {
            let credential = person.credential(&opened).await?;
            imports::switch(&opened.engine, name, ToolStatus::Active, &credential, json).await?;
        }
        Command::Show { name } => {
            // Whoever asks may be the one who has to look at what no agent may use.
            let all = opened.engine.all_tools();
            let others = all.iter().filter(|tool| tool.source.is_some()).map(|tool| &tool.contract);
            let mut known = contracts.iter().chain(others);
            let Some(contract) = known.find(|contract| contract.name().as_str() == name) else {
                let error = anyhow::anyhow!("agent `{}` has no tool `{name}`", arguments.agent);
                let names = contracts.iter().map(|contract| contract.name().as_str());
                return Err(match nearest(name, names) {
                    Some(near) => Trouble::from(error).with_hint(format!("did you mean `{near}`?")),
                    None => Trouble::from(error).with_hint("`toolgate tools list` shows what there is"),
                });
            };
            show(&opened.engine, contract, json);
        }
        Command::Register(_) => {}
    }
    Ok(CODE_DONE)
}

fn list(engine: &Engine, contracts: &[Contract], json: bool) {
    if json {
        let rows: Vec<_> = contracts.iter().map(|contract| as_json(engine, contract)).collect();
        talk::json(&rows);
        return;
    }
    for contract in contracts {
        let definition = contract.definition();
        let description = contract::show_hidden(&contract.shown_description());
        let first = description.split_inclusive(". ").next().unwrap_or_default().trim_end();
        let first = first.lines().next().unwrap_or_default();
        talk::data(&format!("{:<12} {:<13} {first}", definition.name, classes(engine, contract)));
    }
}

/// The class of a tool's calls, or the least and the most where it depends on the arguments.
fn classes(engine: &Engine, contract: &Contract) -> String {
    let most = contract.definition().safety;
    let least = engine.kinds_of(contract.name()).iter().map(|kind| kind.safety).min().unwrap_or(most);
    if least == most { most.to_string() } else { format!("{least}…{most}") }
}

fn show(engine: &Engine, contract: &Contract, json: bool) {
    if json {
        talk::json(&as_json(engine, contract));
        return;
    }
    let definition = contract.definition();
    talk::data(&format!("{} · {}", definition.name, definition.title));
    talk::data(&format!("  hash      {}", contract.hash()));
    let kinds = engine.kinds_of(contract.name());
    if kinds.is_empty() {
        talk::data(&format!("  class     {} · egress {}", definition.safety, definition.egress));
    }
    for (place, CallKind { word, safety, egress }) in kinds.into_iter().enumerate() {
        let name = if place == 0 { "class" } else { "" };
        talk::data(&format!("  {name:<9} `{word}`: {safety} · egress {egress}"));
    }
    talk::data(&format!("  action    {}", definition.action));
    talk::data(&format!("  trust     {}", contract.trust()));
    for line in imports::about(engine, contract) {
        talk::data(&line);
    }
    for finding in contract.findings() {
        talk::data(&format!("  finding   {finding}"));
    }
    talk::data(&format!("\n{}\n", contract::show_hidden(&contract.shown_description())));
    talk::data(&format!(
        "input {}",
        serde_json::to_string_pretty(contract.input().definition()).unwrap_or_default()
    ));
    for example in &definition.examples {
        talk::data(&format!(
            "example: {}\n  toolgate call {} '{}'",
            example.about, definition.name, example.arguments
        ));
    }
    for mode in &definition.failure_modes {
        talk::data(&format!("fails when {mode}"));
    }
}

fn as_json(engine: &Engine, contract: &Contract) -> serde_json::Value {
    json!({
        "definition": contract.definition(),
        "hash": contract.hash(),
        "trust": contract.trust(),
        "findings": contract.findings(),
        "kinds": engine.kinds_of(contract.name()),
        "import": imports::as_json(engine, contract),
    })
}
