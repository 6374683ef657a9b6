//! `toolgate mcp`: the gate as an MCP server on standard input and output.

use std::time::Duration;

use clap::Args;
use contract::AgentName;
use policy::Preset;
use tokio_util::sync::CancellationToken;

use super::call::patience;
use super::open::{Gate, agent};
use super::{CODE_DONE, Trouble, register};

/// How long servers of which nothing is known yet are waited for.
const FIRST_LOOK: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
For a coding assistant: claude mcp add toolgate -- toolgate mcp
The workspace is the directory it is started in.";

/// Serve tools to an MCP client over standard input and output
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArguments {
    /// The agent on the other end
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,

    /// How long a call that waits for approval blocks before its client is told so; else as configured, or 45
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn mcp(arguments: McpArguments) -> Result<i32, Trouble> {
    let agent = agent(&arguments.agent)?;
    let (opened, running) = arguments.gate.open_to_stay().await?;
    if !opened.engine.settings().agents.contains_key(&agent) {
        let error = anyhow::anyhow!("there is no agent `{agent}`");
        return Err(Trouble::from(error).with_hint(hint_for(&agent)));
    }
    opened.engine.keep_recovering();
    // Many clients ask once what there is.
    opened.engine.introduce_upstreams(FIRST_LOOK).await;
    opened.engine.follow_upstreams();
    let registered = register::follow(opened.engine.clone(), opened.home.clone());
    let patience = patience(&opened.engine, arguments.wait, 3600);
    let following = running.follow(opened.engine.clone(), None, CancellationToken::new())?;
    let served = server::serve_stdio(opened.engine, agent, patience).await;
    following.abort();
    registered.abort();
    served?;
    Ok(CODE_DONE)
}

/// Who may have been meant.
fn hint_for(agent: &AgentName) -> String {
    if Preset::ALL.iter().any(|preset| preset.as_str() == agent.as_str()) {
        format!(
            "that is a preset: `agents: {{ {agent}: {{ preset: {agent} }} }}` in toolgate.yaml makes it an agent"
        )
    } else {
        "`toolgate agents list` shows who there is".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_names_a_preset_is_told_how_it_becomes_an_agent() {
        let hint = |name: &str| hint_for(&AgentName::parse(name).unwrap());
        assert!(
            hint("reviewer").starts_with("that is a preset: `agents: { reviewer: { preset: reviewer } }`")
        );
        assert_eq!(hint("revewer"), "`toolgate agents list` shows who there is");
    }
}
