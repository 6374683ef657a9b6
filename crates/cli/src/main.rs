//! `toolgate`: the gate between an AI agent and the world, as one command.
#![forbid(unsafe_code)]

mod amount;
mod commands;
mod config;
mod doctor;
mod run;
mod talk;

use clap::{Parser, Subcommand};
use jail::Prepared;

/// The gate between an AI agent and the world: runs commands behind walls that were proved on this host.
#[derive(Parser)]
#[command(name = "toolgate", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command in a sandbox
    Run(Box<run::Arguments>),
    /// Show what this host can really enforce, and how to get the rest
    Doctor(doctor::Arguments),
    /// Check, show, describe or begin a configuration
    Config(commands::config::Arguments),
}

fn main() {
    // Both end the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked();
    sandbox::serve_if_asked();
    // The kernel needs longer to make namespaces than we need to understand the arguments, so it begins first.
    let begun =
        std::env::args_os().nth(1).filter(|command| command == "run").and_then(|_| Prepared::new().ok());
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            drop(begun);
            talk::usage(&error)
        }
    };
    let code = match arguments.command {
        Command::Run(arguments) => run::run(*arguments, begun),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Config(arguments) => commands::config::run(&arguments),
    };
    std::process::exit(code);
}
