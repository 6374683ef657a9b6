//! Rules in Cedar: their texts, the names in them, and the examples that they carry.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

use contract::{ActionError, AgentName, show_hidden};
use policy::{
    CedarChecks, CedarProblem, CedarRule, CedarTool, Checked, FindingKind, Named, Reads, Settings, ToolGlob,
};
use serde_json::Value;

use super::rule_text::{RuleText, Within};
use super::{LacksExamples, Reader};
use crate::config::at::{At, Place};
use crate::config::file::{CedarRuleFile, File, RuleExampleFile};
use crate::config::load;
use crate::config::problem::{Problem, shown};
use crate::config::rule_schema::KnownTools;
use crate::config::tool_names;
use crate::config::word::Expect;

impl Reader {
    pub(super) fn cedar(&mut self, tree: &File, settings: &mut Settings, custom_actions: &[String]) {
        let Some(policy) = tree.policy.get() else { return };
        if policy.rules.get().is_none() && policy.files.get().is_none() {
            return;
        }
        let known = KnownTools::of(settings, custom_actions);
        settings.argument_types = known.argument_types();
        let mut checks = known.schema.checks();
        let mut read: Vec<(CedarRule, Place)> = Vec::new();
        let source = self.source.clone();
        for rule in policy.rules.get().into_iter().flatten() {
            read.extend(self.cedar_rule(rule, &source, settings, &known, &mut checks));
        }
        for file in policy.files.get().into_iter().flatten() {
            let rules = self.cedar_file(file, settings, &known, &mut checks);
            read.extend(rules.into_iter().map(|rule| (rule, file.place)));
        }
        self.check_ids(&read);
        settings.cedar = read.into_iter().map(|(rule, _)| rule).collect();
    }

    /// No two rules have one name.
    fn check_ids(&mut self, read: &[(CedarRule, Place)]) {
        let mut named: Vec<&(CedarRule, Place)> = read.iter().filter(|(rule, _)| rule.id.is_some()).collect();
        named.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let pairs = named.iter().zip(named.iter().skip(1));
        for ((rule, _), (next, place)) in pairs.filter(|((rule, _), (next, _))| rule.id == next.id) {
            let id = rule.id.as_deref().unwrap_or_default();
            self.refuse(*place, format!("two rules have the name `{id}`: {} and {}", rule.place, next.place));
        }
    }

    fn cedar_rule(
        &mut self,
        rule: &At<CedarRuleFile>,
        source: &str,
        settings: &Settings,
        known: &KnownTools,
        checks: &mut CedarChecks<'_>,
    ) -> Option<(CedarRule, Place)> {
        let CedarRuleFile { cedar, id, examples } = &rule.value;
        let Some(cedar) = cedar.at() else {
            self.refuse(rule.place, "`cedar` is missing in this rule");
            return None;
        };
        let text = RuleText { text: &cedar.value, place: cedar.place, within: Within::Configuration(source) };
        let rules = self.understood(&text)?;
        let [read] = <[CedarRule; 1]>::try_from(rules)
            .map_err(|rules| {
                let why = match rules.len() {
                    0 => "the rule is empty".to_owned(),
                    many => format!("one rule stands here, not {many}; `files` take more"),
                };
                self.refuse(cedar.place, why);
            })
            .ok()?;
        let read = match id.at() {
            None => read,
            Some(id) => {
                let named = read.with_id(&id.value);
                named.map_err(|why| self.refuse(id.place, why)).ok()?
            }
        };
        let is_right =
            self.check_names(&read, &text, settings, known) && self.check_types(&read, &text, checks);
        let given = examples.get().map_or(&[][..], Vec::as_slice);
        // What the examples of a rule come to that is wrong itself says nothing.
        for example in given.iter().filter(|_| is_right) {
            self.check_example(&read, example, settings, known);
            self.examples += 1;
        }
        let is_positive = |example: &At<RuleExampleFile>| {
            example.value.expect.get().is_some_and(|expect| expect.0 != Expect::Nothing)
        };
        let lacking = match given {
            [] => Some(FindingKind::NoExamples),
            given => (!given.iter().any(is_positive)).then_some(FindingKind::NoPositiveExample),
        };
        self.without_examples.extend(lacking.map(|kind| LacksExamples {
            place: read.place.clone(),
            name: read.id.clone(),
            kind,
        }));
        let place = id.at().map_or(cedar.place, |id| id.place);
        Some((read, place))
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
        let text = RuleText { text: &text, place: file.place, within: Within::File(name) };
        let rules = self.understood(&text).unwrap_or_default();
        for rule in &rules {
            if self.check_names(rule, &text, settings, known) {
                self.check_types(rule, &text, checks);
            }
        }
        rules
    }

    /// What a rule reads is there, and of the kind that it takes it for, in every tool that it can be about.
    fn check_types(&mut self, rule: &CedarRule, text: &RuleText<'_>, checks: &mut CedarChecks<'_>) -> bool {
        let Checked { problems, remarks, never_matches } = checks.check(rule, text.text);
        self.refuse_in(text, &problems);
        let never = never_matches.map(|why| format!("the rule can be about no call: {why}"));
        let start = rule.place_of(text.text, &[]);
        for remark in remarks.into_iter().chain(never) {
            self.warnings.push(text.placed(start, Problem::new(text.place, show_hidden(&remark))));
        }
        problems.is_empty()
    }

    fn understood(&mut self, text: &RuleText<'_>) -> Option<Vec<CedarRule>> {
        let read = CedarRule::read(text.text, |line| text.line_in(&self.file, line));
        read.map_err(|problems| self.refuse_in(text, &problems)).ok()
    }

    fn refuse_in(&mut self, text: &RuleText<'_>, problems: &[CedarProblem]) {
        for CedarProblem { line, column, message } in problems {
            let message = show_hidden(message).replace('\n', " ");
            self.problems.push(text.placed((*line, *column), Problem::new(text.place, message)));
        }
    }

    /// Every name in a rule is one of something: a rule about `git.psuh` would guard nothing.
    fn check_names(
        &mut self,
        rule: &CedarRule,
        text: &RuleText<'_>,
        settings: &Settings,
        known_tools: &KnownTools,
    ) -> bool {
        let wrong_before = self.problems.len();
        for name in rule.names() {
            let (of_type, id) = match &name {
                Named::Agent(id) => ("Agent", id),
                Named::Action(id) => ("Action", id),
                Named::Tool(id) => ("Tool", id),
            };
            let mut warnings = Vec::new();
            let checked = match &name {
                Named::Agent(agent) => {
                    let known = settings.agents.keys().map(AgentName::as_str);
                    match known.clone().any(|known| known == agent) {
                        true => Ok(()),
                        false => Err(Problem::unknown(text.place, "there is no agent", agent, known)),
                    }
                }
                Named::Action(action) => self.check_action(action, text.place),
                Named::Tool(tool) if tool.contains('*') => {
                    Err(Problem::new(text.place, no_pattern(tool, known_tools)))
                }
                Named::Tool(tool) => tool_names::check(tool, text.place, &mut warnings),
            };
            let spot = rule.place_of(text.text, &[&format!("{of_type}::\"{id}\"")]);
            self.problems.extend(checked.err().map(|problem| text.placed(spot, problem)));
            self.warnings.extend(warnings.into_iter().map(|warning| text.placed(spot, warning)));
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
            let what = format!("`{}` has no argument", tool.contract().name());
            let problem = Problem::unknown(text.place, &what, name, known.iter().copied());
            let written = [format!("context.arguments.{name}"), format!("context.arguments has {name}")];
            let spot = rule.place_of(text.text, &written.each_ref().map(String::as_str));
            self.problems.push(text.placed(spot, problem));
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
            Err(ActionError::Unknown { text, nearest }) => {
                let nearest = nearest.or_else(|| self.action_ending_like(&text));
                let message = format!("there is no action `{}`", shown(&text));
                Err(Problem { nearest, ..Problem::new(place, message) })
            }
            Err(error) => Err(Problem::new(place, show_hidden(&error.to_string()))),
        }
    }

    /// The one action that does the same in another category: `vcs:push` for `git:push`.
    fn action_ending_like(&self, text: &str) -> Option<String> {
        let (_, what) = text.split_once(':')?;
        let mut alike =
            self.actions.iter().filter(|known| known.split_once(':').is_some_and(|(_, own)| own == what));
        let first = alike.next()?;
        alike.next().is_none().then(|| first.to_owned())
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    let bytes = load::read(path).map_err(|error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })?;
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8", load::name_of(&PathBuf::from(path))))
}

/// What to write in the place of a pattern over tools.
fn no_pattern(pattern: &str, known: &KnownTools) -> String {
    let glob = ToolGlob::parse(pattern).ok();
    let meant: Vec<&CedarTool> = known
        .schema
        .tools()
        .iter()
        .filter(|tool| glob.as_ref().is_some_and(|glob| glob.matches(&tool.facts.name)))
        .collect();
    let only =
        |words: BTreeSet<&str>| words.first().filter(|_| words.len() == 1).map(|word| (*word).to_owned());
    let category = only(meant.iter().map(|tool| tool.facts.category.as_str()).collect());
    let action = only(
        meant.iter().flat_map(|tool| &tool.actions).filter_map(|action| action.split(':').next()).collect(),
    );
    let ways = [
        action.map(|action| format!("`action in Action::\"{action}\"`")),
        category.map(|category| format!("`resource.category == \"{category}\"`")),
    ];
    let ways: Vec<String> = ways.into_iter().flatten().collect();
    let advice = match ways.as_slice() {
        [] => "for several leave it out, and look at `action` or `resource.category`".to_owned(),
        ways => format!("for all of these write {}", ways.join(" or ")),
    };
    format!("a rule names one tool, and `{}` is a pattern: {advice}", shown(pattern))
}
