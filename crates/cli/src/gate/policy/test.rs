//! `toolgate policy test`: calls, and what has to be decided of them.
//!
//! The examples of rules are checked whenever a configuration is read, so one that can be used has none that fail.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use contract::{AgentName, Amount, CallId, Canonical, TaskName, nearest, show_hidden};
use policy::{Admitted, Facts, Policy, Ruling, Settings, Verdict, after_spending, decide};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{CODE_FOUND, bad, usable};
use crate::config::{self, KnownTools, Meaning, facts_of};
use crate::gate::open::Gate;
use crate::talk;

/// Noon of a Monday: when a test happens that says nothing else.
const NOON: i64 = (4 * 24 + 12) * 3_600_000;
/// As many people could be asked as any rule demands: a test is about rules, not about who is employed.
const PEOPLE: usize = 20;
const MOST_TESTS: usize = 100_000;

#[derive(Args)]
pub(crate) struct TestArguments {
    /// Files of tests, in YAML or JSON
    files: Vec<PathBuf>,
}

/// One call, and what has to be decided of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    name: Option<String>,
    #[serde(default = "default_agent")]
    agent: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    task: Option<String>,
    /// When, such as `2026-01-31T18:30:00Z`.
    at: Option<String>,
    /// What calls have cost before it.
    spent: Option<f64>,
    expect: Expect,
    /// Why it is denied.
    code: Option<String>,
    /// The layer that asks or denies.
    layer: Option<String>,
    /// The rule that asks or denies, by its place or its name.
    rule: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expect {
    Allow,
    Ask,
    Deny,
}

impl Expect {
    fn as_str(self) -> &'static str {
        match self {
            Expect::Allow => "allow",
            Expect::Ask => "ask",
            Expect::Deny => "deny",
        }
    }
}

fn default_agent() -> String {
    "default".to_owned()
}

#[derive(Serialize)]
struct Outcome {
    file: String,
    name: String,
    ok: bool,
    /// What is not as it should be.
    wrong: Vec<String>,
}

pub(super) fn test(arguments: &TestArguments, gate: &Gate) -> i32 {
    let (TestArguments { files }, Gate { config, json, .. }) = (arguments, gate);
    let meaning = match usable(config::load(config.as_deref()), *json) {
        Ok(loaded) => loaded.meaning,
        Err(code) => return code,
    };
    let outcomes = match run_all(files, &meaning) {
        Ok(outcomes) => outcomes,
        Err(error) => return bad(&error, *json),
    };
    let failed = outcomes.iter().filter(|outcome| !outcome.ok).count();
    let passed = outcomes.len() - failed;
    let examples = meaning.examples;
    if *json {
        talk::json(&json!({ "examples": examples, "passed": passed, "failed": failed, "tests": outcomes }));
    } else {
        let hold = if examples == 1 { "holds" } else { "hold" };
        talk::data(&format!("{} of rules {hold}", talk::counted(examples, "example")));
        outcomes.iter().for_each(print);
        talk::data(&format!("{passed} passed, {failed} failed"));
    }
    if failed == 0 { 0 } else { CODE_FOUND }
}

fn print(outcome: &Outcome) {
    let word = if outcome.ok { "ok    " } else { "FAILED" };
    talk::data(&show_hidden(&format!("{word} {}: {}", outcome.file, outcome.name)));
    outcome.wrong.iter().for_each(|wrong| talk::data(&show_hidden(&format!("         {wrong}"))));
}

fn run_all(files: &[PathBuf], meaning: &Meaning) -> anyhow::Result<Vec<Outcome>> {
    let here = std::env::current_dir().context("cannot tell the current directory")?;
    let (settings, _) = meaning.settings_in(&here);
    let known = KnownTools::of(&settings, &meaning.custom_actions);
    // Rules are shown what tools take, whether or not the configuration had a reason to find that out.
    let settings = Settings { argument_types: known.argument_types(), ..settings };
    let policy = Policy::of(settings).map_err(|error| anyhow!(error.to_string()))?;
    let mut outcomes = Vec::new();
    for file in files {
        let name = config::name_of(file);
        for (number, test) in
            read(file).with_context(|| format!("`{name}` cannot be used"))?.iter().enumerate()
        {
            let label = test.name.clone().unwrap_or_else(|| format!("#{} `{}`", number + 1, test.tool));
            let wrong = match run(test, &policy, &known, meaning, &here) {
                Ok(ruling) => differences(test, &ruling, policy.settings()),
                Err(why) => vec![format!("it is no call: {why}")],
            };
            outcomes.push(Outcome { file: name.clone(), name: label, ok: wrong.is_empty(), wrong });
        }
    }
    Ok(outcomes)
}

fn read(path: &Path) -> anyhow::Result<Vec<Test>> {
    let bytes = config::read(path)?;
    let text = String::from_utf8(bytes).context("it is not UTF-8")?;
    let tests: Vec<Test> =
        serde_saphyr::from_str(&text).map_err(|error| anyhow!(show_hidden(&error.to_string())))?;
    if tests.is_empty() {
        bail!("there are no tests in it");
    }
    if tests.len() > MOST_TESTS {
        bail!("there are more than {MOST_TESTS} tests in it");
    }
    Ok(tests)
}

fn run(
    test: &Test,
    policy: &Policy,
    known: &KnownTools,
    meaning: &Meaning,
    here: &Path,
) -> anyhow::Result<Ruling> {
    let settings = policy.settings();
    let tool = known.named(&test.tool).ok_or_else(|| anyhow!("there is no tool `{}`", test.tool))?;
    let agent = AgentName::parse(&test.agent)?;
    if !settings.agents.contains_key(&agent) {
        let near = nearest(agent.as_str(), settings.agents.keys().map(AgentName::as_str));
        let meant = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        bail!("there is no agent `{agent}`{meant}");
    }
    let arguments = Canonical::of(Value::Object(test.arguments.clone()))?;
    let contract = tool.contract();
    let problems = contract.input().problems(arguments.value());
    if !problems.is_empty() {
        bail!(problems.join("; "));
    }
    let facets = tool.facets(arguments.value(), settings).map_err(|reason| anyhow!(reason.message))?;
    let now = test.at.as_deref().map(moment).transpose()?.unwrap_or(NOON);
    let call = Admitted {
        call: CallId::from_random([0; 16]),
        agent: agent.clone(),
        task: test.task.as_deref().map(TaskName::parse).transpose()?,
        tool: facts_of(&**tool),
        facets,
        arguments: arguments.digest(),
        operands: None,
        values: Arc::new(arguments.value().clone()),
        asked_at: now,
    };
    let facts = Facts {
        now,
        workspace: meaning.workspace_of(&agent, here).to_owned(),
        operators: PEOPLE,
        egress: true,
        ask_for: settings.ask_for,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    };
    // A test is about one call, made before any other unless it says what those have cost.
    let spent = Amount::parse(test.spent.unwrap_or_default())?;
    let tallies = after_spending(spent, &call, &facts, policy);
    Ok(decide(&call, &Facts { tallies, ..facts }, policy))
}

/// `2026-01-31T18:30:00Z`, in milliseconds since 1970.
fn moment(text: &str) -> anyhow::Result<i64> {
    let read = chrono::DateTime::parse_from_rfc3339(text);
    let read = read.map_err(|_| anyhow!("`{text}` is not a time such as `2026-01-31T18:30:00Z`"))?;
    Ok(read.timestamp_millis())
}

fn differences(test: &Test, ruling: &Ruling, settings: &Settings) -> Vec<String> {
    let mut wrong = Vec::new();
    let decided = ruling.verdict.as_str();
    if decided != test.expect.as_str() {
        let said = ruling.trace.iter().rev().find(|step| step.says == decided);
        let why = said.map(|step| format!(" ({}: {})", step.layer, step.why)).unwrap_or_default();
        wrong.push(format!("expected {}, and it is {decided}{why}", test.expect.as_str()));
    }
    let code = match &ruling.verdict {
        Verdict::Deny(reason) => Some(reason.code.to_string()),
        Verdict::Allow(_) | Verdict::Ask(_) => None,
    };
    if test.code.is_some() && test.code != code {
        let (expected, found) = (test.code.as_deref().unwrap_or_default(), code.as_deref().unwrap_or("none"));
        wrong.push(format!("expected code {expected}, and it is {found}"));
    }
    // Those that came to the verdict.
    let deciding = ruling.trace.iter().filter(|step| step.says == decided);
    if let Some(layer) = &test.layer
        && !deciding.clone().any(|step| step.layer == layer)
    {
        let layers: Vec<&str> = deciding.clone().map(|step| step.layer).collect();
        wrong.push(format!("expected layer {layer}, and it is {}", layers.join(", ")));
    }
    if let Some(rule) = &test.rule {
        let place =
            settings.cedar.iter().find(|known| known.id.as_ref() == Some(rule)).map(|known| &known.place);
        let place = place.unwrap_or(rule);
        if !deciding.clone().any(|step| step.place.as_ref() == Some(place)) {
            wrong.push(format!("expected the rule {rule}, and no such rule says {decided}"));
        }
    }
    wrong
}
