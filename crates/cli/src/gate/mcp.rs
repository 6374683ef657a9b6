//! `toolgate mcp`: the gate as an MCP server on standard input and output.

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::call::patience;
use super::open::{Gate, agent};
use super::{CODE_DONE, Trouble};

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
        return Err(Trouble::from(error).with_hint("`toolgate agents list` shows who there is"));
    }
    opened.engine.keep_recovering();
    let patience = patience(&opened.engine, arguments.wait, 3600);
    let following = running.follow(opened.engine.clone(), None, CancellationToken::new())?;
    let served = server::serve_stdio(opened.engine, agent, patience).await;
    following.abort();
    served?;
    Ok(CODE_DONE)
}
