//! `toolgate`: the gate between an AI agent and the world, as one command.
#![forbid(unsafe_code)]

mod amount;
mod commands;
mod config;
mod doctor;
mod fall;
mod gate;
mod help;
mod log;
mod run;
mod scan;
mod talk;
mod way_out;

use clap::{Parser, Subcommand};
use jail::Prepared;

/// The gate between an AI agent and the world: decides, runs behind walls, and proves what happened.
#[derive(Parser)]
#[command(name = "toolgate", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gate, with a page where approvals wait
    Up(gate::UpArguments),
    /// Serve tools to an MCP client over standard input and output
    Mcp(gate::McpArguments),
    /// Call a tool
    Call(Box<gate::CallArguments>),
    /// Show the tools an agent may use
    Tools(gate::ToolsArguments),
    /// Show the agents, and the tokens by which a running gate knows them
    Agents(gate::AgentsArguments),
    /// Show the budgets, what was spent of each, and when it begins anew
    Budgets(gate::BudgetsArguments),
    /// Show what would be decided of a call, and why; runs nothing
    Explain(gate::ExplainArguments),
    /// Test, try and look back at policies
    Policy(gate::PolicyArguments),
    /// Show the calls that wait for approval
    Approvals(gate::ApprovalsArguments),
    /// Approve calls that wait
    Approve(gate::ApproveArguments),
    /// Deny calls that wait
    Deny(gate::DenyArguments),
    /// Show the latest calls, or those whose outcome nobody knows
    Calls(gate::CallsArguments),
    /// Say what became of a call whose outcome nobody knows
    Reconcile(gate::ReconcileArguments),
    /// Take an approval back: when this returns, nothing begins with it any more
    Revoke(gate::RevokeArguments),
    /// Answer in the words of a chat: `/approve ID` or `/deny ID reason`
    Answer(gate::AnswerArguments),
    /// Show, add and remove the people who decide
    Operators(gate::OperatorsArguments),
    /// Verify, show, export and prove what happened
    Ledger(gate::LedgerArguments),
    /// Show or verify the signed record of a call
    Receipt(gate::ReceiptArguments),
    /// Show a past call, and what would be decided of it now; runs nothing
    Replay(gate::ReplayArguments),
    /// Write what a call left behind to standard output
    Artifact(gate::ArtifactArguments),
    /// Show what a call was asked and what its tool really gave
    Reveal(gate::RevealArguments),
    /// Erase what a call was asked and what it gave
    Erase(gate::EraseArguments),
    /// A one-minute tour that runs real calls in a folder of its own
    Demo(gate::DemoArguments),
    /// Run a command in a sandbox
    Run(Box<run::Arguments>),
    /// Clean text, and tell what was found in it
    Scan(scan::Arguments),
    /// Show what this host can really enforce, and how to get the rest
    Doctor(doctor::Arguments),
    /// Check, show, describe or begin a configuration
    Config(commands::config::Arguments),
}

/// `toolgate run` by itself: to describe the options of every command takes longer than to read those of this one.
#[derive(Parser)]
#[command(name = "run")]
struct RunAlone {
    #[command(flatten)]
    arguments: run::Arguments,
}

fn main() {
    fall::prepare();
    // Each ends the process if it was started for that. They come first, before any thread can exist.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    // The kernel needs longer to make namespaces than we need to understand the arguments, so it begins first.
    let is_run = std::env::args_os().nth(1).is_some_and(|command| command == "run");
    let begun = if is_run { Prepared::new().ok() } else { None };
    let alone = if is_run { RunAlone::try_parse_from(std::env::args_os().skip(1)).ok() } else { None };
    if let Some(RunAlone { arguments }) = alone {
        std::process::exit(run::run(arguments, begun));
    }
    std::process::exit(obey(begun));
}

/// Does what the arguments say; returns the exit code.
///
/// Not a part of `main`: what every command needs on the stack would be there before a sandbox is begun, and be copied
/// with it.
#[inline(never)]
fn obey(begun: Option<Prepared>) -> i32 {
    // Whatever is wrong is said by the parser that knows everything.
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            drop(begun);
            talk::usage(&error)
        }
    };
    match arguments.command {
        Command::Up(arguments) => gate::run(arguments.gate.json, gate::up(arguments)),
        Command::Mcp(arguments) => gate::run(arguments.gate.json, gate::mcp(arguments)),
        Command::Call(arguments) => gate::run(arguments.gate.json, gate::call(*arguments)),
        Command::Tools(arguments) => gate::run(arguments.gate.json, gate::tools(arguments)),
        Command::Agents(arguments) => gate::run(arguments.gate.json, gate::agents(arguments)),
        Command::Budgets(arguments) => gate::run(arguments.gate.json, gate::budgets(arguments)),
        Command::Explain(arguments) => gate::run(arguments.gate.json, gate::explain(arguments)),
        Command::Policy(arguments) => gate::policy(arguments),
        Command::Approvals(arguments) => gate::run(arguments.gate.json, gate::approvals(arguments)),
        Command::Approve(arguments) => gate::run(arguments.gate.json, gate::approve(arguments)),
        Command::Deny(arguments) => gate::run(arguments.gate.json, gate::deny(arguments)),
        Command::Calls(arguments) => gate::run(arguments.gate.json, gate::calls(arguments)),
        Command::Reconcile(arguments) => gate::run(arguments.gate.json, gate::reconcile(arguments)),
        Command::Revoke(arguments) => gate::run(arguments.gate.json, gate::revoke(arguments)),
        Command::Answer(arguments) => gate::run(arguments.gate.json, gate::answer(arguments)),
        Command::Operators(arguments) => gate::run(arguments.gate.json, gate::operators(arguments)),
        Command::Ledger(arguments) => gate::run(arguments.gate.json, gate::ledger(arguments)),
        Command::Receipt(arguments) => gate::run(arguments.gate.json, gate::receipt(arguments)),
        Command::Replay(arguments) => gate::run(arguments.gate.json, gate::replay(arguments)),
        Command::Artifact(arguments) => gate::run(arguments.gate.json, gate::artifact(arguments)),
        Command::Reveal(arguments) => gate::run(arguments.gate.json, gate::reveal(arguments)),
        Command::Erase(arguments) => gate::run(arguments.gate.json, gate::erase(arguments)),
        Command::Demo(arguments) => gate::run(false, gate::demo(arguments)),
        Command::Run(arguments) => run::run(*arguments, begun),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Config(arguments) => commands::config::run(&arguments),
    }
}
