//! `toolgate artifact`: what was too large for the model, whole.

use std::io::Write;

use anyhow::{Context, anyhow};
use clap::Args;
use contract::Digest;

use super::open::Gate;
use super::{CODE_DONE, Trouble};

/// Write what a call left behind to standard output
#[derive(Args)]
pub(crate) struct ArtifactArguments {
    /// Its digest, as the call's answer has it
    digest: String,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn artifact(arguments: ArtifactArguments) -> Result<i32, Trouble> {
    let digest = Digest::parse(&arguments.digest)
        .ok_or_else(|| anyhow!("`{}` is not a digest: 64 hexadecimal digits", arguments.digest))?;
    let opened = arguments.gate.open_existing().await?;
    let found = opened.engine.store().artifact(&digest).await?;
    let content = found.ok_or_else(|| anyhow!("there is no artifact `{digest}`"))?;
    std::io::stdout().write_all(&content).context("cannot write the artifact")?;
    Ok(CODE_DONE)
}
