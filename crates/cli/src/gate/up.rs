//! `toolgate up`: the gate with its page, until it is interrupted.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use engine::Credential;
use serde_json::json;
use server::{HttpOptions, HttpReady, serve_http};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::agents::tokens;
use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
The link it prints signs you in once, within ten minutes. Agents come in by `toolgate mcp`, or over HTTP with the token
that `toolgate agents token NAME` prints. All of them share the store, so any of them sees what the others do.";

/// Run the gate, with a page where approvals wait
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArguments {
    /// Where to listen; loopback only
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn up(arguments: UpArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open().await?;
    let shutdown = CancellationToken::new();
    let options = HttpOptions {
        listen: arguments.listen.unwrap_or(opened.listen),
        operator_credential: Credential::load_or_create(&opened.home)?,
        agent_tokens: Arc::new(tokens(&opened.engine, &opened.home)?),
        shutdown: shutdown.clone(),
    };
    let mut ended = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = ended.recv() => {}
        }
        shutdown.cancel();
    });
    let json = arguments.gate.json;
    serve_http(opened.engine, options, move |ready| announce(&ready, json)).await?;
    Ok(CODE_DONE)
}

fn announce(ready: &HttpReady, json: bool) {
    if json {
        talk::data(&json!({ "address": ready.address, "sign_in": ready.sign_in_url }).to_string());
        return;
    }
    talk::data(&format!("toolgate is up on http://{}", ready.address));
    talk::data(&format!("  approve calls   {}", ready.sign_in_url));
    talk::data("  an assistant    claude mcp add toolgate -- toolgate mcp");
    talk::data("  by hand         toolgate call fs.list '{}'");
}
