//! `toolgate agents`: who may ask, and the tokens by which a running gate knows them.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use contract::{AgentName, Digest};
use engine::{Credential, Engine};
use serde_json::json;
use server::{GateError, Pending, TokenBook};
use store::{Replace, TokenError};

use super::open::{Gate, agent};
use super::{CODE_DONE, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
A token is shown once and kept nowhere; the ledger has its digest. Whoever has it is that agent, over HTTP and MCP. An
agent has one token: --rotate makes another and ends it, --revoke ends it. A gate that runs knows at once.";

/// Show the agents, and the tokens by which a running gate knows them
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
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
    /// Make an agent's token for the HTTP API, and print it once
    Token {
        /// The agent
        name: String,

        /// Make another one; the one before ends at once
        #[arg(long, conflicts_with = "revoke")]
        rotate: bool,

        /// End the agent's token at once, and make no other
        #[arg(long, conflicts_with = "out")]
        revoke: bool,

        /// Write the token to a new file, for its owner alone, instead of printing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

pub(crate) async fn agents(arguments: AgentsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_for_people().await?;
    let settings = opened.engine.settings();
    let agents = &settings.agents;
    let json = arguments.gate.json;
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
        Command::Token { name, rotate, revoke, out } => {
            let name = agent(name)?;
            if !agents.contains_key(&name) && !revoke {
                return Err(Trouble::from(anyhow!("there is no agent `{name}`")).with_hint(
                    "`toolgate agents list` shows who there is; agents are added in toolgate.yaml",
                ));
            }
            take_over_tokens(&opened.engine, &opened.home).await?;
            if *revoke {
                opened.engine.revoke_token(&name).await.map_err(explain)?;
                talk::data_or_say(
                    json,
                    &json!({ "agent": name, "revoked": true }),
                    &format!("revoked: the token of `{name}`"),
                );
                return Ok(CODE_DONE);
            }
            if let Some(path) = out.as_ref().filter(|path| path.exists()) {
                return Err(anyhow!("`{}` is there already", path.display()).into());
            }
            let replace = if *rotate { Replace::Yes } else { Replace::No };
            let token = opened.engine.issue_token(&name, replace).await.map_err(explain)?;
            match out {
                Some(path) => {
                    token.save(path)?;
                    let text = format!("the token of `{name}` is in `{}`, and nowhere else", path.display());
                    talk::data_or_say(json, &json!({ "agent": name, "file": path }), &text);
                }
                None if json => {
                    talk::data(&json!({ "agent": name, "token": token.reveal() }).to_string());
                }
                None => {
                    talk::data(token.reveal());
                    talk::hint(&format!("this is `{name}`'s token; it is not kept, and not shown again"));
                }
            }
        }
    }
    Ok(CODE_DONE)
}

fn explain(error: TokenError) -> Trouble {
    let hint = match &error {
        TokenError::Taken { .. } => "--rotate makes another one, and ends the one that there is",
        TokenError::None { .. } => "`toolgate agents token NAME` makes one",
        _ => return Trouble::from(anyhow!(error)),
    };
    Trouble::refused(anyhow!(error)).with_hint(hint)
}

/// Where an earlier version kept the token of an agent, for its owner to read.
fn file_of(home: &Path, name: &AgentName) -> PathBuf {
    home.join("agents").join(format!("{name}.token"))
}

/// Takes tokens over that an earlier version kept in files: from now on there are their digests alone.
pub(crate) async fn take_over_tokens(engine: &Engine, home: &Path) -> Result<(), Trouble> {
    let settings = engine.settings();
    for name in settings.agents.keys() {
        let path = file_of(home, name);
        let Some(token) = Credential::load(&path)? else { continue };
        engine.take_over_token(name, &token).await.map_err(|error| Trouble::from(anyhow!(error)))?;
        std::fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    Ok(())
}

/// The tokens of the agents that are configured, as the ledger tells at each moment.
pub(crate) struct LiveTokens(pub(crate) Engine);

impl TokenBook for LiveTokens {
    fn agent_of(&self, token: Digest) -> Pending<'_, Result<Option<AgentName>, GateError>> {
        Box::pin(async move {
            self.0.agent_of_token(&token).await.map_err(|error| GateError::Store(Box::new(error)))
        })
    }
}
