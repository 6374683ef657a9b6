//! The page of verdicts: every tool's own examples, at every level and with every autonomy, where nothing is configured.
//!
//! To write it anew: `TOOLGATE_WRITE_DOCS=1 cargo test verdicts`.

use std::path::PathBuf;
use std::sync::Arc;

use contract::{AgentName, Autonomy, CallId, Canonical, Example, Level, ToolStatus};
use policy::{Admitted, Agent, Facts, GrantLimits, Policy, Ruling, Settings, ToolFacts, Verdict, decide};
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

/// A table for each level.
fn tables() -> String {
    let settings = Settings::default();
    let tools = tools::built_in(&settings).unwrap();
    let mut page = String::new();
    for level in LEVELS {
        page.push_str(&format!("\n## `{level}`\n\n| tool | call | full | semi | supervised | locked |\n|---|---|---|---|---|---|\n"));
        for tool in &tools {
            for example in &tool.contract().definition().examples {
                let cells = AUTONOMIES.map(|autonomy| verdict(tool, example, level, autonomy));
                let (name, about) = (tool.contract().name(), &example.about);
                page.push_str(&format!("| `{name}` | {about} | {} |\n", cells.join(" | ")));
            }
        }
    }
    page
}

/// In a word, and for a no the layer that says it.
fn verdict(tool: &Arc<dyn Tool>, example: &Example, level: Level, autonomy: Autonomy) -> String {
    let name = AgentName::parse("agent").unwrap();
    let agent = Agent { level, autonomy, ..Agent::default() };
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
