//! `toolgate artifact`: what was too large for the model, whole and clean, or as it was.

use std::io::Write;

use anyhow::{Context, anyhow};
use clap::Args;
use contract::Digest;
use engine::clean_text;

use super::open::Gate;
use super::{CODE_DONE, Trouble};

/// Write what a call left behind to standard output
#[derive(Args)]
pub(crate) struct ArtifactArguments {
    /// Its digest, as the call's answer has it
    digest: String,

    /// As the tool gave it: nothing masked, nothing removed. Not for a model, nor for a terminal
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn artifact(arguments: ArtifactArguments) -> Result<i32, Trouble> {
    let digest = Digest::parse(&arguments.digest)
        .ok_or_else(|| anyhow!("`{}` is not a digest: 64 hexadecimal digits", arguments.digest))?;
    let opened = arguments.gate.open_existing().await?;
    let found = opened.engine.store().artifact(&digest).await?;
    let content = found.ok_or_else(|| anyhow!("there is no artifact `{digest}`"))?;
    let shown = if arguments.raw { content } else { clean(content)? };
    std::io::stdout().write_all(&shown).context("cannot write the artifact")?;
    Ok(CODE_DONE)
}

/// DECISION(0014): what is handed out is cleaned, unless it is asked for as it was.
fn clean(content: Vec<u8>) -> Result<Vec<u8>, Trouble> {
    let text = String::from_utf8(content).map_err(|_| {
        Trouble::from(anyhow!("the artifact is no text")).with_hint("`--raw` writes it as it is")
    })?;
    Ok(clean_text(&text, usize::MAX).text.into_bytes())
}
