//! `toolgate policy`: what a policy does, before it is in force.

mod candidate;
mod moment;
mod report;
mod simulate;

use clap::{Args, Subcommand};

use super::Trouble;
use super::open::Gate;

pub(crate) use candidate::{candidate, read_texts};

/// Try a policy before it is in force
#[derive(Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    command: PolicyCommand,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Decide recorded calls by another configuration, and list every decision that would be another; runs nothing
    Simulate(Box<simulate::SimulateArguments>),
}

pub(crate) async fn policy(arguments: PolicyArguments) -> Result<i32, Trouble> {
    match arguments.command {
        PolicyCommand::Simulate(simulating) => simulate::simulate(*simulating, &arguments.gate).await,
    }
}
