//! `toolgate explain`: what would be decided of a call, and why; runs nothing.

use clap::Args;
use engine::{Audience, Explanation};
use policy::{Change, Nearest};

use super::call::{Who, where_arguments_are_told};
use super::open::Gate;
use super::{CODE_DONE, CODE_REFUSED, CODE_WAITING, Trouble};
use crate::talk;

/// Where a step's reason begins, after its layer and what that says.
pub(super) const WHY_COLUMN: usize = 20;

/// Show what would be decided of a call, and why; runs nothing
#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// The tool
    tool: String,

    /// Its arguments as JSON; - reads them from standard input
    #[arg(default_value = "{}")]
    arguments: String,

    #[command(flatten)]
    who: Who,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn explain(arguments: ExplainArguments) -> Result<i32, Trouble> {
    let request = arguments.who.request(&arguments.tool, &arguments.arguments, None)?;
    let opened = arguments.gate.open().await?;
    let explanation = opened.engine.explain(&request, Audience::People).await?;
    if arguments.gate.json {
        talk::json(&explanation);
    } else {
        print(&explanation, &arguments.who.agent);
    }
    Ok(match explanation.verdict {
        "allow" => CODE_DONE,
        "ask" => CODE_WAITING,
        _ => CODE_REFUSED,
    })
}

fn print(explanation: &Explanation, agent: &str) {
    let tool = talk::indented(&contract::show_hidden(&explanation.tool));
    talk::data(&format!("{}: `{tool}` for agent `{agent}`", explanation.verdict));
    for step in &explanation.trace {
        let told = talk::indented_at(&contract::show_hidden(&step.told()), WHY_COLUMN);
        talk::data(&format!("  {:<11}{:<6} {told}", step.layer, step.says));
    }
    if let Some(reason) = &explanation.reason {
        talk::data(&format!("  code       {}", reason.code));
        if let Some(hint) = &reason.hint {
            talk::data(&format!("hint: {}", talk::indented(hint)));
        }
        if let Some(hint) = where_arguments_are_told(reason.code, &explanation.tool) {
            talk::data(&format!("hint: {}", talk::indented(&contract::show_hidden(&hint))));
        }
    }
    talk::data(&format!("  policy     {}", explanation.policy));
    if let Some(nearest) = &explanation.nearest {
        let is_hinted = explanation.reason.as_ref().is_some_and(|reason| reason.hint.is_some());
        print_nearest(nearest, is_hinted);
    }
}

/// What would have to be different, and who can say yes as things are. Where a hint says what can be changed, that nothing
/// else was found would only contradict it.
fn print_nearest(nearest: &Nearest, is_hinted: bool) {
    if let Some(Change { what, place, then }) = &nearest.change {
        let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let then = if *then == "ask" { ", and people would be asked" } else { "" };
        let told = contract::show_hidden(&format!("{place}{what}{then}"));
        talk::data(&format!("nearest: {}", talk::indented(&told)));
    }
    match nearest.people {
        Some(1) => talk::data("approve: one person can say yes to this call, with `toolgate approve`"),
        Some(people) => {
            talk::data(&format!(
                "approve: {people} different people can say yes to this call, with `toolgate approve`"
            ));
        }
        None if nearest.change.is_none() && !is_hinted => {
            talk::data("nearest: none of the changes that are known here lets it run");
        }
        None => {}
    }
}
