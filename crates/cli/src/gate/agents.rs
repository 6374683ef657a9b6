//! `toolgate agents`: who may ask, and the tokens by which a running gate knows them.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use contract::{AgentName, Digest};
use engine::{Credential, Engine};
use serde_json::json;
use server::TokenBook;

use super::open::{Gate, agent};
use super::{CODE_DONE, Trouble};
use crate::talk;

/// Show the agents, and the tokens by which a running gate knows them
#[derive(Args)]
pub(crate) struct AgentsArguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// One line for each
    List,
    /// Print an agent's token for the HTTP API; made if there is none yet
    Token {
        /// The agent
        name: String,
    },
}

pub(crate) async fn agents(arguments: AgentsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_for_people().await?;
    let settings = opened.engine.settings();
    let agents = &settings.agents;
    match &arguments.command {
        Command::List if arguments.gate.json => {
            talk::json(agents);
        }
        Command::List => {
            for (name, agent) in agents {
                let (level, autonomy) = (agent.level_in_force(), agent.autonomy_in_force());
                let seniority =
                    agent.seniority.map(|seniority| format!("  seniority {}", seniority.as_str()));
                let role = agent.role.as_ref().map(|role| format!("  role {role}"));
                let more = [seniority, role].into_iter().flatten().collect::<String>();
                talk::data(&format!("{name:<16} level {level:<11} autonomy {autonomy}{more}"));
            }
        }
        Command::Token { name } => {
            let name = agent(name)?;
            if !agents.contains_key(&name) {
                return Err(Trouble::from(anyhow!("there is no agent `{name}`")).with_hint(
                    "`toolgate agents list` shows who there is; agents are added in toolgate.yaml",
                ));
            }
            let token = token_of(&opened.home, &name)?;
            if arguments.gate.json {
                talk::data(&json!({ "agent": name, "token": token.reveal() }).to_string());
            } else {
                talk::data(token.reveal());
            }
        }
    }
    Ok(CODE_DONE)
}

fn token_of(home: &Path, name: &AgentName) -> Result<Credential, Trouble> {
    let folder = home.join("agents");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make `{}`", folder.display()))?;
    Ok(Credential::load_or_create_at(&folder.join(format!("{name}.token")))?)
}

/// The tokens of the agents that are configured, as long as they are.
#[derive(Default)]
pub(crate) struct LiveTokens(RwLock<HashMap<Digest, AgentName>>);

impl LiveTokens {
    /// Those of the agents that are in force now.
    pub(crate) fn refresh(&self, engine: &Engine, home: &Path) -> Result<(), Trouble> {
        let tokens = tokens(engine, home)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }
}

impl TokenBook for LiveTokens {
    fn agent_of(&self, token: Digest) -> Option<AgentName> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&token).cloned()
    }
}

/// The tokens of the agents that are configured.
fn tokens(engine: &Engine, home: &Path) -> Result<HashMap<Digest, AgentName>, Trouble> {
    let settings = engine.settings();
    let names = settings.agents.keys();
    names.map(|name| Ok((token_of(home, name)?.digest(), name.clone()))).collect()
}
