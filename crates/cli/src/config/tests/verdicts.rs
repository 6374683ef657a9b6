//! The page of verdicts: every tool's own examples, at every level and with every autonomy, for each preset, and for each
//! seniority, where nothing else is configured.
//!
//! To write it anew: `TOOLGATE_WRITE_DOCS=1 cargo test verdicts`.

use std::path::PathBuf;
use std::sync::Arc;

use contract::{AgentName, Autonomy, CallId, Canonical, Example, Level, ToolStatus};
use policy::{
    Admitted, Agent, Facts, GrantLimits, Policy, Preset, Ruling, Seniority, Settings, ToolFacts, Verdict,
    decide,
};
use store::ToolRow;
use tools::Tool;

const PAGE: &str = include_str!("../../../../../docs/reference/verdicts.md");
const BEGIN: &str = "<!-- verdicts: written by a test -->\n";

const LEVELS: [Level; 4] = [Level::Sandboxed, Level::Restricted, Level::Standard, Level::Elevated];
const AUTONOMIES: [Autonomy; 4] = [Autonomy::Full, Autonomy::Semi, Autonomy::Supervised, Autonomy::Locked];

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever changes a verdict has the page written for them")]
fn the_page_of_verdicts_is_what_is_decided() {
    let tables = tables();
    let (before, kept) = PAGE.split_once(BEGIN).unwrap();
    if std::env::var_os("TOOLGATE_WRITE_DOCS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/verdicts.md");
        std::fs::write(path, format!("{before}{BEGIN}{tables}")).unwrap();
        return;
    }
    assert!(
        kept == tables,
        "docs/reference/verdicts.md is not what is decided now; read what changes after `TOOLGATE_WRITE_DOCS=1 cargo test verdicts`"
    );
}

/// A table for the presets, one for what seniority leaves of them, and one for each level.
fn tables() -> String {
    let presets = Preset::ALL.map(|preset| (preset.as_str(), preset.agent()));
    let elevated = Agent { level: Level::Elevated, autonomy: Autonomy::Full, ..Agent::default() };
    let held = Seniority::ALL
        .map(|seniority| (seniority.as_str(), Agent { seniority: Some(seniority), ..elevated.clone() }));
    let mut page =
        table("Presets", &presets) + &table("Seniority, at level `elevated` with autonomy `full`", &held);
    for level in LEVELS {
        let with = |autonomy: Autonomy| (autonomy.as_str(), Agent { level, autonomy, ..Agent::default() });
        page.push_str(&table(&format!("`{level}`"), &AUTONOMIES.map(with)));
    }
    page
}

/// What each of these agents hears about every example of every tool.
fn table(title: &str, agents: &[(&str, Agent)]) -> String {
    let names: Vec<&str> = agents.iter().map(|(name, _)| *name).collect();
    let rule = "|---".repeat(names.len() + 2);
    let mut table = format!("\n## {title}\n\n| tool | call | {} |\n{rule}|\n", names.join(" | "));
    for tool in &tools::built_in(&Settings::default()).unwrap() {
        for example in &tool.contract().definition().examples {
            let cells: Vec<String> = agents.iter().map(|(_, agent)| verdict(tool, example, agent)).collect();
            let (name, about) = (tool.contract().name(), &example.about);
            table.push_str(&format!("| `{name}` | {about} | {} |\n", cells.join(" | ")));
        }
    }
    table
}

/// In a word, and for a no the layer that says it.
fn verdict(tool: &Arc<dyn Tool>, example: &Example, agent: &Agent) -> String {
    let name = AgentName::parse("agent").unwrap();
    let agent = agent.clone();
    let settings = Settings { agents: [(name.clone(), agent)].into(), ..Settings::default() };
    let contract = tool.contract();
    let definition = contract.definition();
    let arguments = Canonical::of(example.arguments.clone()).unwrap();
    let call = Admitted {
        call: CallId::from_random([1; 16]),
        agent: name,
        task: None,
        tool: ToolFacts {
            name: contract.name().clone(),
            hash: contract.hash(),
            category: definition.category,
            safety: definition.safety,
            least: tool.least_safety(),
            egress: definition.egress,
            status: ToolStatus::Active,
            trust: contract.trust(),
            requires_approval: ToolRow::of(contract).requires_approval,
            limits: GrantLimits::default(),
        },
        facets: tool.facets(arguments.value(), &settings).unwrap(),
        arguments: arguments.digest(),
        operands: None,
        values: Arc::new(arguments.value().clone()),
        asked_at: 0,
    };
    let facts = Facts {
        now: 0,
        workspace: PathBuf::from("/work"),
        operators: 2,
        egress: true,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    };
    let Ruling { verdict, trace } = decide(&call, &facts, &Policy::of(settings).unwrap());
    match verdict {
        Verdict::Allow(_) => "free".to_owned(),
        Verdict::Ask(question) if question.quorum > 1 => format!("ask {}", question.quorum),
        Verdict::Ask(_) => "ask".to_owned(),
        Verdict::Deny(_) => {
            let layer = trace.iter().rev().find(|step| step.says == "deny").map(|step| step.layer);
            format!("no: {}", layer.unwrap_or("-"))
        }
    }
}
