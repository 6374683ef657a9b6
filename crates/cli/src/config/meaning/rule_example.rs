//! The examples that rules in Cedar carry: calls, and what the rule says about them.

use std::sync::Arc;

use contract::{AgentName, Amount, CallId, Canonical, RoleName, TaskName, nearest, show_hidden};
use policy::{
    Admitted, Agent, CedarEffect, CedarRule, CedarSays, Circumstances, Settings, Spend, cedar_says, quote,
};
use serde_json::Value;
use tools::Tool;

use super::{DEFAULT_AGENT, Reader};
use crate::config::at::At;
use crate::config::file::RuleExampleFile;
use crate::config::problem::{Problem, shown};
use crate::config::rule_schema::{KnownTools, facts_of};
use crate::config::word::{Expect, ExpectWord};

/// Noon of a Monday: when examples happen that say nothing else.
const EXAMPLES_AT: i64 = (4 * 24 + 12) * 3_600_000;

impl Reader {
    pub(super) fn check_example(
        &mut self,
        rule: &CedarRule,
        example: &At<RuleExampleFile>,
        settings: &Settings,
        known: &KnownTools,
    ) {
        let RuleExampleFile { tool, expect, .. } = &example.value;
        let (Some(tool), Some(expect)) = (tool.at(), expect.at()) else {
            let missing = if tool.at().is_none() { "tool" } else { "expect" };
            self.refuse(example.place, format!("`{missing}` is missing in this example"));
            return;
        };
        let Some(found) = known.named(&tool.value) else {
            let names = known.tools.iter().map(|tool| tool.contract().name().as_str());
            let message = format!("there is no tool `{}` here to check an example with", shown(&tool.value));
            let nearest = nearest(&tool.value, names).map(str::to_owned);
            self.problems.push(Problem { nearest, ..Problem::new(tool.place, message) });
            return;
        };
        let (call, agent) = match example_call(&**found, &example.value, settings) {
            Ok(made) => made,
            Err(why) => {
                self.refuse(example.place, format!("the example is no call: {}", show_hidden(&why)));
                return;
            }
        };
        let spent = match example.value.spent.at() {
            Some(_) => self.money(&example.value.spent),
            None => Some(Amount::ZERO),
        };
        let Some(spent) = spent else { return };
        let circumstances = Circumstances {
            now: call.asked_at,
            cost: quote(&call, settings).unwrap_or(Amount::ZERO),
            spend: Some(Spend { day: spent, week: spent, month: spent }),
        };
        let says = match cedar_says(rule, &call, &agent, &circumstances, &settings.argument_types) {
            CedarSays::Nothing => Ok(Expect::Nothing),
            CedarSays::Matches if rule.effect == CedarEffect::Forbid => Ok(Expect::Forbid),
            CedarSays::Matches => Ok(Expect::Ask),
            CedarSays::Fails(why) => Err(why),
        };
        let expected = expect.value.as_str();
        match says {
            Ok(says) if says == expect.value.0 => {}
            Ok(says) => {
                let says = ExpectWord(says).as_str();
                self.refuse(
                    expect.place,
                    format!("the example expects `{expected}`, and the rule says `{says}`"),
                );
            }
            Err(why) => {
                let why = show_hidden(&why).replace('\n', " ");
                let message = format!(
                    "the example expects `{expected}`, and the rule cannot be evaluated, which denies: {why}"
                );
                self.refuse(expect.place, message);
            }
        }
    }
}

/// The call of an example, and who calls.
fn example_call(
    tool: &dyn Tool,
    example: &RuleExampleFile,
    settings: &Settings,
) -> Result<(Admitted, Agent), String> {
    let told = example.agent.get();
    let name = told.and_then(|agent| agent.name.get()).map_or(DEFAULT_AGENT, String::as_str);
    let name = AgentName::parse(name).map_err(|error| error.to_string())?;
    let unsaid = Agent::default();
    let agent = Agent {
        level: told.and_then(|agent| agent.level.get()).map_or(unsaid.level, |word| word.0),
        autonomy: told.and_then(|agent| agent.autonomy.get()).map_or(unsaid.autonomy, |word| word.0),
        role: told.and_then(|agent| agent.role.get()).map(|role| role_named(role, settings)).transpose()?,
        seniority: told.and_then(|agent| agent.seniority.get()).map(|word| word.0),
        ..unsaid
    };
    let task = example
        .task
        .get()
        .map(|task| TaskName::parse(task))
        .transpose()
        .map_err(|error| error.to_string())?;
    let asked_at = example.at.get().map(|at| moment(at)).transpose()?.unwrap_or(EXAMPLES_AT);
    let arguments = Value::Object(example.arguments.get().cloned().unwrap_or_default());
    let arguments = Canonical::of(arguments).map_err(|error| error.to_string())?;
    let contract = tool.contract();
    let problems = contract.input().problems(arguments.value());
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let facets = tool.facets(arguments.value(), settings).map_err(|reason| reason.message)?;
    let call = Admitted {
        call: CallId::from_random([0; 16]),
        agent: name,
        task,
        tool: facts_of(tool),
        facets,
        arguments: arguments.digest(),
        operands: None,
        values: Arc::new(arguments.value().clone()),
        asked_at,
    };
    Ok((call, agent))
}

fn role_named(name: &str, settings: &Settings) -> Result<RoleName, String> {
    let found = settings.roles.keys().find(|role| role.as_str() == name);
    found.cloned().ok_or_else(|| match nearest(name, settings.roles.keys().map(RoleName::as_str)) {
        Some(near) => format!("there is no role `{}`, did you mean `{near}`?", shown(name)),
        None => format!("there is no role `{}`", shown(name)),
    })
}

fn moment(text: &str) -> Result<i64, String> {
    let read = chrono::DateTime::parse_from_rfc3339(text);
    read.map(|moment| moment.timestamp_millis())
        .map_err(|_| format!("`{}` is no moment such as `2026-01-31T18:30:00Z`", shown(text)))
}
