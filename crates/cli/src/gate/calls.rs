//! `toolgate calls`, `reconcile`: what was called, and what became of what nobody knows.

use clap::Args;
use contract::Found;
use engine::{ListedCall, ReconcileRefused};
use store::ReconcileError;

use super::ledger::time;
use super::open::Gate;
use super::person::Person;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// The most calls that are listed at once.
const MOST: u32 = 500;

/// Show the latest calls, or those whose outcome nobody knows
#[derive(Args)]
pub(crate) struct CallsArguments {
    /// Only calls that may have happened, and that nobody has looked into yet
    #[arg(long)]
    unresolved: bool,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

const AFTER_HELP: &str = "\
A gate that ends in the middle of a call cannot know whether it happened. Look at what the call was to change, then say
what you found: if it did not happen, the same call may be made again; if it did, making it again is told so.";

/// Say what became of a call whose outcome nobody knows
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReconcileArguments {
    /// The call's id, or enough of its beginning
    id: String,

    #[command(flatten)]
    found: FoundArguments,

    /// How you know
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct FoundArguments {
    /// It happened
    #[arg(long)]
    happened: bool,

    /// It did not happen
    #[arg(long)]
    did_not: bool,
}

pub(crate) async fn calls(arguments: CallsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let limit = arguments.last.clamp(1, MOST);
    let calls = match arguments.unresolved {
        true => opened.engine.unresolved(limit).await?,
        false => opened.engine.latest(limit).await?,
    };
    if arguments.gate.json {
        talk::json(&calls);
        return Ok(CODE_DONE);
    }
    match (calls.is_empty(), arguments.unresolved) {
        (true, true) => talk::say("the outcome of every call is known"),
        (true, false) => talk::say("there are no calls yet"),
        (false, unresolved) => {
            calls.iter().for_each(print);
            if unresolved {
                talk::hint("look what happened, then `toolgate reconcile ID --happened` or `--did-not`");
            }
        }
    }
    Ok(CODE_DONE)
}

fn print(call: &ListedCall) {
    let status = match call.reconciled {
        Some(Found::Happened) => "happened",
        Some(Found::DidNot) => "did not",
        None => call.status.as_str(),
    };
    let when = time(call.asked_at);
    talk::data(&format!(
        "{}  {when}  {status:<9}  {:<10}  {:<10}  {}",
        call.call_id.short(),
        call.agent.as_str(),
        call.tool.as_str(),
        call.what
    ));
}

pub(crate) async fn reconcile(arguments: ReconcileArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let credential = arguments.person.credential(&opened).await?;
    let found = if arguments.found.happened { Found::Happened } else { Found::DidNot };
    let id = arguments.id.trim_end_matches('…').trim_start_matches("r-");
    let reconciled = opened.engine.reconcile(id, found, arguments.reason, &credential).await;
    let result = reconciled.map_err(|error| match error {
        refused @ (ReconcileRefused::NotAnOperator
        | ReconcileRefused::Reconcile(
            ReconcileError::Known { .. }
            | ReconcileError::Reconciled { .. }
            | ReconcileError::NotAllowed { .. },
        )) => Trouble::refused(refused.into()),
        other => Trouble::from(other).with_hint("`toolgate calls --unresolved` shows what nobody knows"),
    })?;
    if arguments.gate.json {
        talk::json(&result);
    } else {
        talk::say(&format!("recorded: {}", talk::indented(&result.content)));
        talk::say(&format!("  receipt  r-{}", result.call_id));
    }
    Ok(CODE_DONE)
}
