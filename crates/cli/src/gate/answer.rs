//! `toolgate approvals`, `approve`, `deny`: people decide.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use contract::Operands;
use engine::{AnswerRefused, Credential, Waiting};
use store::{AnswerError, Vote};

use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// Show the calls that wait for approval
#[derive(Args)]
pub(crate) struct ApprovalsArguments {
    /// Go on showing new ones until interrupted
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Approve a call that waits
#[derive(Args)]
pub(crate) struct ApproveArguments {
    /// The approval's id, or enough of its beginning
    id: String,

    /// For how much: `once` is this very call
    #[arg(long, value_name = "SCOPE", default_value = "once")]
    scope: String,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// Deny a call that waits
#[derive(Args)]
pub(crate) struct DenyArguments {
    /// The approval's id, or enough of its beginning
    id: String,

    /// Why; the agent is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn approvals(arguments: ApprovalsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open().await?;
    let mut seen = BTreeSet::new();
    loop {
        let waiting = opened.engine.waiting().await?;
        let now = opened.engine.now();
        if arguments.gate.json && !arguments.watch {
            talk::json(&waiting);
        } else if arguments.gate.json {
            let new = waiting.iter().filter(|question| seen.insert(question.approval.id.clone()));
            new.for_each(talk::json);
        } else {
            if waiting.is_empty() && !arguments.watch {
                talk::say("nothing waits for approval");
            }
            for question in waiting.iter().filter(|question| seen.insert(question.approval.id.clone())) {
                print(question, now);
            }
        }
        if !arguments.watch {
            return Ok(CODE_DONE);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(CODE_DONE),
        }
    }
}

fn print(question: &Waiting, now: i64) {
    let row = &question.approval;
    let left = row.expires_at.saturating_sub(now).max(0) / 1000;
    talk::data(&format!("{}  {}  agent {}  {left} s left", row.id.short(), row.tool, row.agent));
    match &question.command {
        Some(words) => talk::data(&format!("  command  {}", talk::indented(&talk::quoted(words)))),
        None => talk::data(&format!("  with     {}", talk::indented(&question.shown_arguments))),
    }
    if let Some(purpose) = &row.purpose {
        talk::data(&format!("  purpose  {}", talk::indented(&contract::show_hidden(purpose))));
    }
    talk::data(&format!("  why      {}", row.why.join("; ")));
    if let Some(operands) = &question.operands {
        print_operands(operands);
    }
}

/// What a yes is good for besides the words, and what it cannot be.
fn print_operands(operands: &Operands) {
    for (index, file) in operands.bound.iter().enumerate() {
        let name = if index == 0 { "bound" } else { "" };
        talk::data(&format!("  {name:<9}{}", talk::indented(&file.described())));
    }
    for (index, thing) in operands.not_bound.iter().enumerate() {
        let name = if index == 0 { "unbound" } else { "" };
        talk::data(&format!("  {name:<9}{}: {}", talk::indented(&thing.what), thing.why));
    }
}

pub(crate) async fn approve(arguments: ApproveArguments) -> Result<i32, Trouble> {
    if arguments.scope != "once" {
        let error = anyhow!("there is no scope `{}`", arguments.scope);
        return Err(Trouble::from(error).with_hint("this version has `once`"));
    }
    decide(&arguments.gate, &arguments.id, Vote::Approve, None).await
}

pub(crate) async fn deny(arguments: DenyArguments) -> Result<i32, Trouble> {
    decide(&arguments.gate, &arguments.id, Vote::Reject, arguments.reason).await
}

async fn decide(gate: &Gate, id: &str, vote: Vote, reason: Option<String>) -> Result<i32, Trouble> {
    let opened = gate.open().await?;
    let credential = Credential::load_or_create(&opened.home)?;
    let answered = opened.engine.answer(id.trim_end_matches('…'), vote, reason, &credential, "cli").await;
    let row = answered.map_err(|error| match error {
        refused @ (AnswerRefused::NotAnOperator | AnswerRefused::Answer(_)) => {
            let hint = match &refused {
                AnswerRefused::Answer(AnswerError::Expired) => Some("the agent can make the call again"),
                _ => None,
            };
            let trouble = Trouble::refused(refused.into());
            match hint {
                Some(hint) => trouble.with_hint(hint),
                None => trouble,
            }
        }
        other => Trouble::from(other).with_hint("`toolgate approvals` shows what waits"),
    })?;
    if gate.json {
        talk::json(&row);
    } else {
        talk::say(&format!("{}: `{}` of agent `{}`", row.state.as_str(), row.tool, row.agent));
        if vote == Vote::Approve {
            talk::say("hint: it runs as soon as its caller waits for it, or makes the same call again");
        }
    }
    Ok(CODE_DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_cannot_add_a_line_that_looks_like_ours() {
        assert_eq!(talk::indented("clean\n  why      nothing"), "clean\n               why      nothing");
    }

    #[test]
    fn words_are_quoted_so_that_their_ends_are_seen() {
        let words = ["rm", "-r", "my files", "", "it's"].map(str::to_owned);
        assert_eq!(talk::quoted(&words), r"rm -r 'my files' '' 'it'\''s'");
    }
}
