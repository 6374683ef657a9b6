//! `toolgate replay`: a past call, and what would be decided of it now; runs nothing.

use std::path::PathBuf;

use clap::Args;
use engine::{Replay, ReplayError, ToolSince};
use policy::{Answer, Word};

use super::explain::WHY_COLUMN;
use super::ledger::time;
use super::open::Gate;
use super::policy::candidate;
use super::{CODE_DONE, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
It is decided for the time when it was asked, with the operators there are now, without any approval, and as if nothing
had been spent; hooks and rates are not heard. Nothing is run, and nothing is recorded.";

/// Show a past call, and what would be decided of it now; runs nothing
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArguments {
    /// The call's or the receipt's id, or enough of its beginning
    id: String,

    /// Decide it by this configuration instead of the one in force
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn replay(arguments: ReplayArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_existing().await?;
    let candidate = arguments.policy.as_ref().map(|file| candidate(file, &opened.engine)).transpose()?;
    let side = if candidate.is_some() { "with the candidate" } else { "today" };
    let prefix = arguments.id.trim_end_matches('…').trim_start_matches("r-");
    let replay = opened.engine.replay(prefix, candidate).await.map_err(|error| match error {
        error @ ReplayError::Find(_) => {
            Trouble::from(error).with_hint("`toolgate calls` shows the latest calls")
        }
        error @ ReplayError::Altered { .. } => {
            Trouble::refused(error.into()).with_hint("`toolgate ledger verify` shows what else was changed")
        }
        error => Trouble::from(error),
    })?;
    if arguments.gate.json {
        talk::json(&replay);
    } else {
        print(&replay, side);
    }
    Ok(CODE_DONE)
}

fn print(replay: &Replay, side: &str) {
    let call = &replay.call;
    let line = |label: &str, text: &str| {
        let text = talk::indented(&contract::show_hidden(text).replace('\n', "␊"));
        talk::data(&format!("  {label:<11}{text}"));
    };
    talk::data(&format!("call {} of `{}`", call.call_id, call.tool));
    line("asked", &format!("{} by `{}`", time(call.asked_at), call.agent));
    if let Some(task) = &call.task {
        line("task", task.as_str());
    }
    if let Some(purpose) = &replay.purpose {
        line("purpose", purpose);
    }
    line("what", &call.what);
    if let Some(approval) = &replay.approval {
        let by: Vec<&str> = approval.approved_by.iter().map(contract::OperatorName::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        line("approval", &format!("{} {}{by}", approval.approval.short(), approval.state.as_str()));
    }
    let reason = replay.reason.as_ref().map(|reason| format!(": {} ({})", reason.message, reason.code));
    line("outcome", &format!("{}{}", call.status.as_str(), reason.unwrap_or_default()));
    if let Some(receipt) = &call.receipt {
        line("receipt", receipt);
    }
    talk::data(&format!("then: {}", replay.then.says.as_str()));
    for step in &replay.then.trace {
        told(&step.layer, &step.says, &step.told());
    }
    line("policy", &replay.then.policy.to_string());
    match replay.tool_since {
        ToolSince::Same => {}
        ToolSince::Changed => line("note", "the tool's contract has changed since"),
        ToolSince::Gone => line("note", "there is no such tool now"),
    }
    let Some(now) = &replay.now else {
        talk::data(&format!(
            "{side}: nobody can tell: what it was asked is erased, or was too long to be kept"
        ));
        return;
    };
    talk::data(&format!("{side}: {}", now.answer.says.word.as_str()));
    for step in &now.trace {
        told(step.layer, step.says, &step.told());
    }
    if let Some(code) = now.answer.code {
        line("code", code.as_str());
    }
    line("policy", &now.policy.to_string());
    talk::data(&difference(replay, &now.answer, side));
}

fn told(layer: &str, says: &str, why: &str) {
    let why = talk::indented_at(&contract::show_hidden(why).replace('\n', "␊"), WHY_COLUMN);
    let (layer, says) = (contract::show_hidden(layer), contract::show_hidden(says));
    talk::data(&format!("  {layer:<11}{says:<6} {why}"));
}

/// The difference in words.
fn difference(replay: &Replay, now: &Answer, side: &str) -> String {
    let (then, word) = (replay.then.says, now.says.word);
    if then == word {
        return format!("the same: {} then, and {side}", then.as_str());
    }
    let because = |why: &str| match contract::show_hidden(why).replace('\n', "␊") {
        why if why.is_empty() => String::new(),
        why => format!(" ({why})"),
    };
    let star = if word < then { "★ looser" } else { "stricter" };
    let before = because(deciding(replay).unwrap_or_default());
    let after = because(&now.why);
    let told = format!("{star}: then {}{before}; {side} {}{after}", then.as_str(), word.as_str());
    talk::indented(&told)
}

/// What decided then: the last that denied, the first that asked, or what said why nobody was asked.
fn deciding(replay: &Replay) -> Option<&str> {
    let trace = &replay.then.trace;
    let said = |says: &'static str| trace.iter().filter(move |step| step.says == says);
    let step = match replay.then.says {
        Word::Deny => said("deny").next_back(),
        Word::Ask => said("ask").next(),
        Word::Allow => said("allow").find(|step| step.layer == "action"),
    };
    step.map(|step| step.why.as_str())
}
