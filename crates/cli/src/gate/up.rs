//! `toolgate up`: the gate with its page, until it is interrupted.

use std::net::SocketAddr;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// Run the gate, with a page where approvals wait
#[derive(Args)]
pub(crate) struct UpArguments {
    /// Where to listen; loopback only
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn up(arguments: UpArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open().await?;
    let _ = (arguments.listen.unwrap_or(opened.listen), CancellationToken::new());
    talk::say("up");
    Ok(CODE_DONE)
}
