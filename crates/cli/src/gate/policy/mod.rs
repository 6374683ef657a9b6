//! `toolgate policy`: what a policy does, has done and would do.

mod candidate;
mod moment;
mod report;
mod simulate;
mod versions;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use contract::show_hidden;

use self::moment::{FORMS, moment};
use super::open::Gate;
use super::{Trouble, run};

pub(crate) use candidate::candidate;
pub(crate) use versions::said_of;

/// Test, try and look back at policies
#[derive(Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    command: PolicyCommand,

    #[command(flatten)]
    gate: Gate,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Decide recorded calls by another configuration, and list every decision that would be another; runs nothing
    Simulate(Box<simulate::SimulateArguments>),
    /// Where the policy of `policy.shadow` would have said something else
    Shadow {
        /// Only calls asked since then: 2026-11-01, `2026-11-01 09:30:00`, or 7d, 12h, 30m ago
        #[arg(long, value_name = "MOMENT")]
        since: Option<String>,
    },
    /// The policies that were in force and since when, and those that could not be, newest first
    History {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: u32,
    },
}

/// Runs the command; returns the exit code.
pub(crate) fn policy(arguments: PolicyArguments) -> i32 {
    let PolicyArguments { command, gate } = arguments;
    let json = gate.json;
    match command {
        PolicyCommand::Simulate(simulating) => run(json, simulate::simulate(*simulating, gate)),
        PolicyCommand::Shadow { since } => run(json, shadow(since, gate)),
        PolicyCommand::History { last } => run(json, history(last, gate)),
    }
}

async fn shadow(since: Option<String>, gate: Gate) -> Result<i32, Trouble> {
    let opened = gate.open_existing().await?;
    let since = since.map(|text| moment_of(&text, opened.engine.now())).transpose()?;
    versions::shadow(opened.engine.store(), since.unwrap_or(i64::MIN), gate.json).await
}

async fn history(last: u32, gate: Gate) -> Result<i32, Trouble> {
    let opened = gate.open_existing().await?;
    versions::history(opened.engine.store(), last, gate.json).await
}

/// A moment as somebody has typed it, in milliseconds since 1970.
fn moment_of(text: &str, now: i64) -> Result<i64, Trouble> {
    let not_one = || Trouble::from(anyhow!("`{}` is no moment", show_hidden(text))).with_hint(FORMS);
    moment(text, now).ok_or_else(not_one)
}
