//! `toolgate budgets`: what was spent, and what is left.

use clap::Args;
use engine::ShownBudget;

use super::ledger::time;
use super::open::Gate;
use super::{CODE_DONE, Trouble};
use crate::talk;

/// Show the budgets, what was spent of each, and when it begins anew
#[derive(Args)]
pub(crate) struct BudgetsArguments {
    #[command(flatten)]
    pub(crate) gate: Gate,
}

pub(crate) async fn budgets(arguments: BudgetsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_for_people().await?;
    let budgets = opened.engine.budgets().await?;
    if arguments.gate.json {
        talk::json(&budgets);
    } else if budgets.is_empty() {
        talk::say("there are no budgets; docs/guide/budgets.md says how to write one");
    } else {
        budgets.iter().for_each(print);
    }
    Ok(CODE_DONE)
}

fn print(budget: &ShownBudget) {
    let of = match (&budget.agent, &budget.task) {
        (None, None) => "all agents together".to_owned(),
        (None, Some(task)) => format!("task {}", named(task)),
        (Some(agent), None) => format!("agent {agent}"),
        (Some(agent), Some(task)) => format!("agent {agent}, task {}", named(task)),
    };
    let ShownBudget { place, tools, period, limit, spent, reserved, left, .. } = budget;
    let most = match (budget.currency.as_deref(), budget.counts.strip_prefix("argument:")) {
        (Some(currency), _) => format!("{limit} {currency}"),
        (None, Some(argument)) => format!("{limit} of `{argument}`"),
        (None, None) if limit == "1" => "1 call".to_owned(),
        (None, None) => format!("{limit} calls"),
    };
    talk::data(&format!("{place}  {tools}, {of}: {most} {period}"));
    talk::data(&format!("  spent     {spent}"));
    talk::data(&format!("  reserved  {reserved}"));
    talk::data(&format!("  left      {left}"));
    talk::data(&format!("  anew      {} UTC", time(budget.resets_at)));
}

fn named(task: &str) -> &str {
    if task.is_empty() { "(none named)" } else { task }
}
