//! `toolgate approvals`: what waits for people, and what they have said yes to for longer.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use contract::{ApprovalId, Operands, Scope};
use engine::{Standing, Waiting};

use super::ledger::time;
use super::open::{Gate, Opened};
use super::person::Person;
use super::{CODE_DONE, Trouble, watch};
use crate::talk;

/// Show the calls that wait for approval
#[derive(Args)]
pub(crate) struct ApprovalsArguments {
    /// Go on showing them, and answer: at a terminal with keys (`?` shows which), elsewhere line by line
    #[arg(long, conflicts_with = "standing")]
    watch: bool,

    /// Show the approvals that are good for more than one call
    #[arg(long)]
    standing: bool,

    #[command(flatten)]
    person: Person,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn approvals(arguments: ApprovalsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_for_people().await?;
    let json = arguments.gate.json;
    if arguments.standing {
        return standing(&opened, json).await;
    }
    if arguments.watch && !json && watch::is_possible() {
        return watch::watch(&opened, &arguments.person).await;
    }
    if arguments.watch {
        return follow(&opened, json).await;
    }
    let waiting = opened.engine.waiting().await?;
    if json {
        talk::json(&waiting);
    } else if waiting.is_empty() {
        talk::say("nothing waits for approval");
    }
    let now = opened.engine.now();
    waiting.iter().filter(|_| !json).for_each(|question| print(question, now));
    Ok(CODE_DONE)
}

/// Shows each question once, again when more of the same have come or somebody has answered, and its end.
async fn follow(opened: &Opened, json: bool) -> Result<i32, Trouble> {
    let mut shown: BTreeSet<(ApprovalId, usize, usize)> = BTreeSet::new();
    let mut open: BTreeSet<ApprovalId> = BTreeSet::new();
    loop {
        let waiting = opened.engine.waiting().await?;
        let now = opened.engine.now();
        for question in &waiting {
            let row = &question.approval;
            if shown.insert((row.id.clone(), question.folded.len(), row.approvers.len())) {
                if json { talk::json(question) } else { print(question, now) }
            }
        }
        let ids = |question: &Waiting| {
            let folded: Vec<ApprovalId> = question.folded.iter().map(|folded| folded.id.clone()).collect();
            std::iter::once(question.approval.id.clone()).chain(folded)
        };
        let still: BTreeSet<ApprovalId> = waiting.iter().flat_map(ids).collect();
        for id in open.difference(&still) {
            ended(opened, id, json).await?;
        }
        open = still;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(CODE_DONE),
        }
    }
}

async fn ended(opened: &Opened, id: &ApprovalId, json: bool) -> Result<(), Trouble> {
    let Some(row) = opened.engine.store().approval(id).await? else { return Ok(()) };
    if json {
        talk::json(&row);
        return Ok(());
    }
    let by: Vec<&str> = row.answers.iter().map(|answer| answer.by.as_str()).collect();
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    talk::data(&format!("{}  {}{by}", row.id.short(), row.state.as_str()));
    Ok(())
}

fn print(question: &Waiting, now: i64) {
    let row = &question.approval;
    let line = |name: &str, text: &str| talk::data(&format!("  {name:<9}{}", talk::indented(text)));
    let left = lasting(row.expires_at.saturating_sub(now));
    let times = match question.folded.len() {
        0 => String::new(),
        more => format!("  asked {} times", more + 1),
    };
    talk::data(&format!("{}  {}  agent {}{times}  {left} left", row.id.short(), row.tool, row.agent));
    match &question.command {
        Some(words) => line("command", &talk::quoted(words)),
        // On lines of their own: further lines stand further in than ours, and braces are to stand in one column.
        None if question.shown_arguments.contains('\n') => {
            line("with", &format!("\n{}", question.shown_arguments));
        }
        None => line("with", &question.shown_arguments),
    }
    if let Some(about) = &row.about {
        line("in", &about.workspace);
        line("does", &format!("{} ({}, egress {})", about.action, about.safety, about.egress));
    }
    if let Some(purpose) = &row.purpose {
        line("purpose", &contract::show_hidden(purpose));
    }
    row.why.iter().for_each(|why| line("why", &contract::show_hidden(why)));
    if let Some(operands) = &question.operands {
        print_operands(operands);
    }
    if row.quorum > 1 {
        let names: Vec<&str> = row.approvers.iter().map(|name| name.as_str()).collect();
        let so_far = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        line("people", &format!("{} of {}{so_far}", names.len(), row.quorum));
    }
    for proposer in &question.proposers {
        line("not by", &format!("{proposer}, who proposed it"));
    }
    if !row.escalated_to.is_empty() {
        let names: Vec<&str> = row.escalated_to.iter().map(|name| name.as_str()).collect();
        line("now with", &names.join(", "));
    }
    let ids: Vec<String> = std::iter::once(row.id.short())
        .chain(question.folded.iter().map(|folded| folded.id.short()))
        .collect();
    line("approve", &format!("toolgate approve {}", ids.join(" ")));
    for offer in question.offers.iter().filter(|offer| offer.scope != Scope::Once) {
        line("", &format!("--scope {:<6} {}", offer.scope.as_str(), offer.covers));
    }
}

async fn standing(opened: &Opened, json: bool) -> Result<i32, Trouble> {
    let standing = opened.engine.standing().await?;
    if json {
        talk::json(&standing);
        return Ok(CODE_DONE);
    }
    if standing.is_empty() {
        talk::say("no approval is good for more than one call");
    }
    let now = opened.engine.now();
    standing.iter().for_each(|standing| print_standing(standing, now));
    Ok(CODE_DONE)
}

fn print_standing(shown: &Standing, now: i64) {
    let Some(standing) = &shown.approval.standing else { return };
    let row = &shown.approval;
    let line = |name: &str, text: &str| talk::data(&format!("  {name:<9}{}", talk::indented(text)));
    let left = lasting(standing.expires_at.saturating_sub(now));
    talk::data(&format!("{}  {}  agent {}  {left} left", row.id.short(), row.tool, row.agent));
    line("covers", &shown.covers);
    match &shown.command {
        Some(words) => line("given to", &talk::quoted(words)),
        None => line("given to", &shown.shown_arguments),
    }
    line("by", &format!("{} at {}", standing.granted_by, time(standing.granted_at)));
    line("used", &format!("{} times", standing.uses));
    if shown.other_policy {
        line("but", "the policy has changed since, so it covers nothing");
    }
    line("revoke", &format!("toolgate revoke {}", row.id.short()));
}

fn lasting(milliseconds: i64) -> String {
    talk::lasting(u64::try_from(milliseconds).unwrap_or(0) / 1000)
}

/// What a yes is good for besides the words, and what it cannot be.
fn print_operands(operands: &Operands) {
    for (index, file) in operands.bound.iter().enumerate() {
        let name = if index == 0 { "bound" } else { "" };
        talk::data(&format!("  {name:<9}{}", talk::indented(&file.described())));
    }
    if let Some(absent) = operands.described_absent() {
        talk::data(&format!("  {:<9}{}", "absent", talk::indented(&absent)));
    }
    for (index, thing) in operands.not_bound.iter().enumerate() {
        let name = if index == 0 { "unbound" } else { "" };
        let told = talk::indented(&format!("{}: {}", thing.what, thing.why));
        talk::data(&format!("  {name:<9}{told}"));
    }
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

    #[test]
    fn what_is_left_is_told_in_the_unit_that_matters() {
        let told = [-5, 59_999, 300_000, 8 * 3_600_000, 8 * 3_600_000 - 1].map(lasting);
        assert_eq!(told, ["0 s", "59 s", "5 min", "8 h", "7 h 59 min"]);
    }
}
