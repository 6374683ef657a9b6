//! Rules in Cedar: their texts, the names in them, and the examples that they carry.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{AgentName, Amount, CallId, Canonical, RoleName, nearest, show_hidden};
use policy::{
    Admitted, Agent, CedarChecks, CedarEffect, CedarProblem, CedarRule, CedarSays, Checked, Circumstances,
    Named, Reads, Settings, Spend, cedar_says, quote,
};
use serde_json::Value;
use tools::Tool;

use super::{DEFAULT_AGENT, Reader};
use crate::config::at::{At, Place};
use crate::config::file::{CedarRuleFile, File, RuleExampleFile};
use crate::config::load;
use crate::config::problem::{Problem, shown};
use crate::config::rule_schema::{KnownTools, facts_of};
use crate::config::tool_names;
use crate::config::word::Expect;

/// Noon of a Monday: when examples happen.
const EXAMPLES_AT: i64 = (4 * 24 + 12) * 3_600_000;

impl Reader {
    pub(super) fn cedar(&mut self, tree: &File, settings: &mut Settings, custom_actions: &[String]) {
        let Some(policy) = tree.policy.get() else { return };
        if policy.rules.get().is_none() && policy.files.get().is_none() {
            return;
        }
        let known = KnownTools::of(settings, custom_actions);
        settings.argument_types = known.argument_types();
        let mut checks = known.schema.checks();
        let mut read = Vec::new();
        for rule in policy.rules.get().into_iter().flatten() {
            read.extend(self.cedar_rule(rule, settings, &known, &mut checks));
        }
        for file in policy.files.get().into_iter().flatten() {
            read.extend(self.cedar_file(file, settings, &known, &mut checks));
        }
        let mut named: Vec<&CedarRule> = read.iter().filter(|rule| rule.id.is_some()).collect();
        named.sort_by(|a, b| a.id.cmp(&b.id));
        for (rule, next) in named.iter().zip(named.iter().skip(1)).filter(|(rule, next)| rule.id == next.id) {
            let id = rule.id.as_deref().unwrap_or_default();
            self.problems.push(Problem::new(
                Place::START,
                format!("two rules have the name `{id}`: {} and {}", rule.place, next.place),
            ));
        }
        settings.cedar = read;
    }

    fn cedar_rule(
        &mut self,
        rule: &At<CedarRuleFile>,
        settings: &Settings,
        known: &KnownTools,
        checks: &mut CedarChecks<'_>,
    ) -> Option<CedarRule> {
        let CedarRuleFile { cedar, id, examples } = &rule.value;
        let Some(text) = cedar.at() else {
            self.refuse(rule.place, "`cedar` is missing in this rule");
            return None;
        };
        let place = format!("{}:{}", self.file, text.place.line);
        let read = CedarRule::read(&text.value, |_| place.clone());
        let in_rule =
            |problem: &CedarProblem| format!("line {}, column {} of the rule", problem.line, problem.column);
        let rules = self.understood(read, text.place, in_rule)?;
        let [read] = <[CedarRule; 1]>::try_from(rules)
            .map_err(|rules| {
                self.refuse(
                    text.place,
                    format!("one rule stands here, not {}; `files` take more", rules.len()),
                );
            })
            .ok()?;
        let read = match id.at() {
            None => read,
            Some(id) => {
                let named = read.with_id(&id.value);
                named.map_err(|why| self.refuse(id.place, why)).ok()?
            }
        };
        if self.check_names(&read, text.place, "", settings, known) {
            self.check_types(&read, &text.value, text.place, in_rule, checks);
        }
        for example in examples.get().into_iter().flatten() {
            self.check_example(&read, example, settings, known);
            self.examples += 1;
        }
        if examples.get().is_none_or(Vec::is_empty) {
            self.without_examples.push((read.place.clone(), read.id.clone()));
        }
        Some(read)
    }

    fn cedar_file(
        &mut self,
        file: &At<String>,
        settings: &Settings,
        known: &KnownTools,
        checks: &mut CedarChecks<'_>,
    ) -> Vec<CedarRule> {
        let Some(path) = self.path(file) else { return Vec::new() };
        let name = show_hidden(&path.file_name().unwrap_or_default().to_string_lossy());
        let text = match text_of(&path) {
            Ok(text) => text,
            Err(why) => {
                self.refuse(file.place, why);
                return Vec::new();
            }
        };
        let read = CedarRule::read(&text, |line| format!("{name}:{line}"));
        let at = |problem: &CedarProblem| format!("{name}:{}:{}", problem.line, problem.column);
        let rules = self.understood(read, file.place, at).unwrap_or_default();
        for rule in &rules {
            if self.check_names(rule, file.place, &format!("{}: ", rule.place), settings, known) {
                self.check_types(rule, &text, file.place, at, checks);
            }
        }
        rules
    }

    /// What a rule reads is there, and of the kind that it takes it for, in every tool that it can be about.
    fn check_types(
        &mut self,
        rule: &CedarRule,
        text: &str,
        place: Place,
        at: impl Fn(&CedarProblem) -> String,
        checks: &mut CedarChecks<'_>,
    ) {
        let Checked { problems, remarks, never_matches } = checks.check(rule, text);
        for problem in &problems {
            let message = show_hidden(&problem.message).replace('\n', " ");
            self.refuse(place, format!("{}: {message}", at(problem)));
        }
        for remark in remarks {
            self.warn(place, format!("{}: {}", rule.place, show_hidden(&remark)));
        }
        if let Some(why) = never_matches {
            self.warn(place, format!("{}: the rule can be about no call: {}", rule.place, show_hidden(&why)));
        }
    }

    fn understood(
        &mut self,
        read: Result<Vec<CedarRule>, Vec<CedarProblem>>,
        place: Place,
        at: impl Fn(&CedarProblem) -> String,
    ) -> Option<Vec<CedarRule>> {
        let problems = read.map_err(|problems| {
            for problem in &problems {
                let message = show_hidden(&problem.message).replace('\n', " ");
                self.refuse(place, format!("{}: {message}", at(problem)));
            }
        });
        problems.ok()
    }

    /// Every name in a rule is one of something: a rule about `git.psuh` would guard nothing.
    fn check_names(
        &mut self,
        rule: &CedarRule,
        place: Place,
        before: &str,
        settings: &Settings,
        known_tools: &KnownTools,
    ) -> bool {
        let wrong_before = self.problems.len();
        for name in rule.names() {
            let checked = match &name {
                Named::Agent(agent) => {
                    let known = settings.agents.keys().map(AgentName::as_str);
                    match known.clone().any(|known| known == agent) {
                        true => Ok(()),
                        false => Err(Problem::unknown(place, "there is no agent", agent, known)),
                    }
                }
                Named::Action(action) => self.check_action(action, place),
                Named::Tool(tool) => tool_names::check(tool, place, &mut self.warnings),
            };
            if let Err(problem) = checked {
                let message = format!("{before}{}", problem.message);
                self.problems.push(Problem { message, ..problem });
            }
        }
        let read = match rule.reads() {
            Reads::Names(names) => names,
            Reads::All => return self.problems.len() == wrong_before,
        };
        let Some(tool) = rule.tool().and_then(|name| known_tools.named(&name).cloned()) else {
            return self.problems.len() == wrong_before;
        };
        let properties = tool.contract().definition().input.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        for name in read.iter().filter(|name| !known.contains(&name.as_str())) {
            let what = format!("{before}`{}` has no argument", tool.contract().name());
            self.problems.push(Problem::unknown(place, &what, name, known.iter().copied()));
        }
        self.problems.len() == wrong_before
    }

    /// An action, or a category of them by its own name.
    fn check_action(&self, text: &str, place: Place) -> Result<(), Problem> {
        let expanded = self.actions.expand(text);
        let is_known = |action: &contract::Action| action.as_str() == text || action.category() == text;
        match expanded {
            Ok(actions) if actions.iter().all(is_known) => Ok(()),
            Ok(_) => Err(Problem::new(place, format!("there is no action `{}`", shown(text)))),
            Err(error) => Err(Problem::new(place, show_hidden(&error.to_string()))),
        }
    }

    fn check_example(
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
            let why = format!("there is no tool `{}` here to check an example with", shown(&tool.value));
            self.refuse(tool.place, why);
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
            now: EXAMPLES_AT,
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
                let says = crate::config::word::ExpectWord(says).as_str();
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

fn text_of(path: &Path) -> Result<String, String> {
    let bytes = load::read(path).map_err(|error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })?;
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8", load::name_of(&PathBuf::from(path))))
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
        task: None,
        tool: facts_of(tool),
        facets,
        arguments: arguments.digest(),
        operands: None,
        values: Arc::new(arguments.value().clone()),
        asked_at: EXAMPLES_AT,
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
