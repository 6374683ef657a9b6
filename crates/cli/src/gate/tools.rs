//! `toolgate tools`: what there is to call.

use clap::{Args, Subcommand};
use contract::{Contract, nearest};
use engine::Engine;
use serde_json::json;
use tools::CallKind;

use super::open::{Gate, agent};
use super::register::{RegisterArguments, register};
use super::{CODE_DONE, Trouble};
use crate::talk;

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
    List,
    /// Everything about one
    Show {
        /// The tool
        name: String,
    },
    Register(RegisterArguments),
}

pub(crate) async fn tools(arguments: ToolsArguments) -> Result<i32, Trouble> {
    if let Command::Register(registered) = &arguments.command {
        return register(&arguments.gate, registered).await;
    }
    let opened = arguments.gate.open().await?;
    let contracts = opened.engine.tools_for(&agent(&arguments.agent)?);
    match &arguments.command {
        Command::List => list(&opened.engine, &contracts, arguments.gate.json),
        Command::Show { name } => {
            let Some(contract) = contracts.iter().find(|contract| contract.name().as_str() == name) else {
                let error = anyhow::anyhow!("agent `{}` has no tool `{name}`", arguments.agent);
                let names = contracts.iter().map(|contract| contract.name().as_str());
                return Err(match nearest(name, names) {
                    Some(near) => Trouble::from(error).with_hint(format!("did you mean `{near}`?")),
                    None => Trouble::from(error).with_hint("`toolgate tools list` shows what there is"),
                });
            };
            show(&opened.engine, contract, arguments.gate.json);
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
    })
}
