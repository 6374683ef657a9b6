//! `toolgate policy lint`: rules that do nothing, or not what their author thinks.

use std::path::PathBuf;

use clap::Args;
use contract::show_hidden;
use policy::{Finding, FindingKind};
use serde_json::json;

use super::{CODE_FOUND, usable};
use crate::config::{self, KnownTools, LacksExamples, Meaning};
use crate::gate::open::Gate;
use crate::talk;

#[derive(Args)]
pub(crate) struct LintArguments {
    /// The configuration
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
}

pub(super) fn lint(arguments: &LintArguments, gate: &Gate) -> i32 {
    let file = arguments.file.as_ref().or(gate.config.as_ref());
    let loaded = match usable(config::load(file.map(PathBuf::as_path)), gate.json) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let found = findings(&loaded.meaning);
    if gate.json {
        talk::json(&json!({ "clean": found.is_empty(), "findings": found }));
    } else {
        found.iter().for_each(print);
        let rules = loaded.meaning.settings.rules.len() + loaded.meaning.settings.cedar.len();
        talk::data(&format!("{} in {}", talk::counted(found.len(), "finding"), talk::counted(rules, "rule")));
    }
    if found.is_empty() { 0 } else { CODE_FOUND }
}

/// Everything that is found about the rules of a configuration.
pub(crate) fn findings(meaning: &Meaning) -> Vec<Finding> {
    let known = KnownTools::of(&meaning.settings, &meaning.custom_actions);
    let mut found = policy::lint(&meaning.settings, &known.schema);
    found.extend(meaning.without_examples.iter().map(|LacksExamples { place, name, kind }| {
        let (why, advice) = match kind {
            FindingKind::NoPositiveExample => (
                "all its examples expect `nothing`: a rule that is about no call would pass them, too",
                "give it an example that it is about, with `expect: forbid` or `expect: ask`",
            ),
            _ => (
                "nothing shows which calls it is meant for, and which not",
                "give it `examples`, one that it is about and one that it is not",
            ),
        };
        Finding {
            kind: *kind,
            place: place.clone(),
            rule: name.as_ref().map_or_else(|| "a rule in Cedar".to_owned(), |name| format!("`{name}`")),
            why: why.to_owned(),
            advice: advice.to_owned(),
        }
    }));
    found
}

fn print(finding: &Finding) {
    let Finding { kind, place, rule, why, advice } = finding;
    talk::data(&show_hidden(&format!("{place}: {}: {rule}", kind.as_str())));
    talk::data(&show_hidden(&format!("  why   {why}")));
    talk::data(&show_hidden(&format!("  do    {advice}")));
}
