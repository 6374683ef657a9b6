//! The page of verdicts: every tool's own examples and some other calls, at every level and with every autonomy, for each preset, and for each
//! seniority, where nothing else is configured.
//!
//! To write it anew: `TOOLGATE_WRITE_DOCS=1 cargo test verdicts`.

use std::path::PathBuf;
use std::sync::Arc;

use contract::{
    AgentName, Autonomy, CallId, Canonical, Example, Level, Reach, SafetyClass, ToolName, ToolStatus,
    TrustLabel,
};
use policy::{
    Admitted, Agent, Facts, GrantLimits, Policy, Preset, Ruling, Seniority, Settings, ToolFacts, Verdict,
    decide,
};
use serde_json::{Value, json};
use store::ToolRow;
use tools::Tool;

const PAGE: &str = include_str!("../../../../../docs/reference/verdicts.md");
const BEGIN: &str = "<!-- verdicts: written by a test -->\n";

const LEVELS: [Level; 5] =
    [Level::Sandboxed, Level::Restricted, Level::Standard, Level::Elevated, Level::Custom];
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
    for other in others() {
        let cells: Vec<String> = agents.iter().map(|(_, agent)| other.verdict(agent)).collect();
        table.push_str(&format!("| {} | {} | {} |\n", other.named, other.about, cells.join(" | ")));
    }
    table
}

/// A call that no tool gives as its example, or of a tool that is not built in.
struct Other {
    named: &'static str,
    about: &'static str,
    tool: &'static str,
    arguments: Value,
    /// What is configured, and what the tool is, besides.
    change: fn(&mut Settings, &mut Admitted),
}

impl Other {
    fn verdict(&self, agent: &Agent) -> String {
        let tools = tools::built_in(&Settings::default()).unwrap();
        let tool = tools.iter().find(|tool| tool.contract().name().as_str() == self.tool).unwrap();
        let example = Example::of(self.about, self.arguments.clone());
        changed_verdict(tool, &example, agent, self.change)
    }
}

fn others() -> Vec<Other> {
    let plain: fn(&mut Settings, &mut Admitted) = |_, _| {};
    let listed: fn(&mut Settings, &mut Admitted) = |settings, _| {
        settings.egress.allow = Some(vec![Reach::parse("example.com:443").unwrap()]);
    };
    let other = |named, about, tool, arguments| Other { named, about, tool, arguments, change: plain };
    let (networked, read) = ("networked", json!({ "path": "a" }));
    vec![
        other(
            "`fs.move`",
            "over a file that is there",
            "fs.move",
            json!({ "from": "a", "to": "b", "overwrite": true }),
        ),
        other(
            "`shell`",
            "with a network, to a host that it names",
            "shell",
            json!({ "command": "curl", "args": ["https://example.com/"], "profile": networked }),
        ),
        other(
            "`shell`",
            "with a network, to nobody that it names",
            "shell",
            json!({ "command": "npm", "args": ["install"], "profile": networked }),
        ),
        Other {
            change: listed,
            ..other(
                "`shell`",
                "with a network, to a host that is listed",
                "shell",
                json!({ "command": "curl", "args": ["https://example.com/"], "profile": networked }),
            )
        },
        Other {
            change: listed,
            ..other(
                "`http.request`",
                "read from a host that is listed",
                "http.request",
                json!({ "url": "https://example.com/" }),
            )
        },
        Other {
            change: listed,
            ..other(
                "`http.request`",
                "send to a host that is listed",
                "http.request",
                json!({ "method": "POST", "url": "https://example.com/", "body": "x" }),
            )
        },
        other(
            "`http.request`",
            "a port besides 80 and 443",
            "http.request",
            json!({ "url": "https://example.com:8443/" }),
        ),
        other("`http.request`", "a private address", "http.request", json!({ "url": "http://10.0.0.1/" })),
        other(
            "`http.request`",
            "a metadata service",
            "http.request",
            json!({ "url": "http://169.254.169.254/" }),
        ),
        Other {
            change: |_, call| is_of_others(call, TrustLabel::Imported),
            ..other("an imported tool", "one that reads", "fs.read", read.clone())
        },
        Other {
            change: |_, call| is_of_others(call, TrustLabel::Pinned),
            ..other("a pinned tool", "one that reads", "fs.read", read.clone())
        },
        Other {
            change: |_, call| is_of_class(call, SafetyClass::Financial),
            ..other("a tool of an embedder", "class `financial`", "fs.read", read.clone())
        },
        Other {
            change: |_, call| is_of_class(call, SafetyClass::Privileged),
            ..other("a tool of an embedder", "class `privileged`", "fs.read", read)
        },
    ]
}

/// As if it had been imported by its file, and an operator had lowered its class.
fn is_of_others(call: &mut Admitted, trust: TrustLabel) {
    call.tool.trust = trust;
    call.tool.name = ToolName::parse("others.read").unwrap();
}

fn is_of_class(call: &mut Admitted, class: SafetyClass) {
    (call.tool.safety, call.facets.safety) = (class, class);
    call.tool.name = ToolName::parse("own.tool").unwrap();
}

/// In a word, and for a no the layer that says it.
fn verdict(tool: &Arc<dyn Tool>, example: &Example, agent: &Agent) -> String {
    changed_verdict(tool, example, agent, |_, _| {})
}

fn changed_verdict(
    tool: &Arc<dyn Tool>,
    example: &Example,
    agent: &Agent,
    change: fn(&mut Settings, &mut Admitted),
) -> String {
    let name = AgentName::parse("agent").unwrap();
    let agent = agent.clone();
    let mut settings = Settings { agents: [(name.clone(), agent)].into(), ..Settings::default() };
    let contract = tool.contract();
    let definition = contract.definition();
    let arguments = Canonical::of(example.arguments.clone()).unwrap();
    let mut call = Admitted {
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
    change(&mut settings, &mut call);
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
