//! Decisions and rules alone: no store, no sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use contract::{
    Actions, AgentName, CallId, Category, Digest, EgressClass, SafetyClass, ToolName, ToolStatus, TrustLabel,
};
use policy::{
    Admitted, Agent, ApprovalRule, ArgumentTypes, CedarRule, CedarSchema, CedarTool, Checked, Facets, Facts,
    GrantLimits, Kind, Policy, RuleEffect, Settings, ToolFacts, ToolGlob, WorkspaceAccess, decide,
};
use serde_json::{Value, json};

pub(crate) const TOOLS: [usize; 4] = [10, 100, 1_000, 5_000];
pub(crate) const RULES: [usize; 3] = [10, 100, 1_000];
/// So many of the rules can be about one tool.
const ABOUT_ONE: usize = 10;
/// So many decisions are timed together: one is too short for the clock.
const TOGETHER: usize = 100;

/// The middle of what one decision takes, in microseconds, with so many tools, each with a rule about it.
pub(crate) fn decide_with_tools(tools: usize, rounds: usize) -> Result<f64> {
    let calls = calls(tools)?;
    let rules = calls.iter().map(|call| {
        let glob = ToolGlob::parse(call.tool.name.as_str())?;
        Ok(ApprovalRule::about(glob, RuleEffect::Approve, "toolgate.yaml:1"))
    });
    let settings = Settings { rules: rules.collect::<Result<_>>()?, ..settings()? };
    time(&calls, settings, rounds)
}

/// The same with so many rules in Cedar, of which ten can be about the tool.
pub(crate) fn decide_with_rules(rules: usize, rounds: usize) -> Result<f64> {
    let calls = calls((rules / ABOUT_ONE).max(1))?;
    let cedar = read(&text_of(rules))?;
    let types = ArgumentTypes::of(calls.iter().map(|call| (&call.tool.name, &*INPUT)));
    time(&calls, Settings { cedar, argument_types: types, ..settings()? }, rounds)
}

/// What it takes to read a thousand rules, and to check them against sixty tools, in milliseconds; and the bytes that each
/// keeps resident.
pub(crate) fn load() -> Result<(f64, f64, f64)> {
    let text = text_of(1_000);
    let before = resident()?;
    let begun = Instant::now();
    let rules = read(&text)?;
    let read = begun.elapsed();
    let policy = Policy::of(Settings { cedar: rules, ..settings()? })?;
    let bytes = resident()?.saturating_sub(before) as f64 / 1_000.0;
    let tools = calls(60)?.into_iter().map(|call| CedarTool {
        facts: call.tool,
        actions: [call.facets.action.to_string()].into(),
        kinds: vec![(SafetyClass::Write, EgressClass::None)],
        arguments: Kind::of_schema(&INPUT),
    });
    let actions: BTreeSet<String> = Actions::default().iter().map(str::to_owned).collect();
    let schema = CedarSchema::of(tools.collect(), actions);
    let begun = Instant::now();
    let mut checks = schema.checks();
    for rule in &policy.settings().cedar {
        ensure!(checks.check(rule, &text) == Checked::default(), "a rule is wrong: {}", rule.text());
    }
    Ok((milliseconds(read), milliseconds(begun.elapsed()), bytes))
}

static INPUT: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    let properties = json!({ "path": { "type": "string" }, "amount": { "type": "number" } });
    json!({ "type": "object", "properties": properties, "required": ["path"], "additionalProperties": false })
});

/// Rules, ten for each of as many tools as it takes. None matches.
fn text_of(rules: usize) -> String {
    let rule = |number: usize| {
        let tool = number % (rules / ABOUT_ONE).max(1);
        format!(
            "@id(\"r{number}\") forbid (principal, action, resource == Tool::\"tool_{tool}\")\n\
             when {{ context.arguments.path like \"secret/{number}/*\" && principal.level != \"elevated\" }};\n"
        )
    };
    (0..rules).map(rule).collect()
}

fn read(text: &str) -> Result<Vec<CedarRule>> {
    let read = CedarRule::read(text, |line| format!("rules.cedar:{line}"));
    read.map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

fn settings() -> Result<Settings> {
    let agent = Agent { allowed: vec![ToolGlob::parse("*")?], ..Agent::default() };
    Ok(Settings { agents: [(AgentName::parse("default")?, agent)].into(), ..Settings::default() })
}

fn calls(tools: usize) -> Result<Vec<Admitted>> {
    (0..tools).map(|number| call(&format!("tool_{number}"))).collect()
}

fn call(tool: &str) -> Result<Admitted> {
    Ok(Admitted {
        call: CallId::from_random([1; 16]),
        agent: AgentName::parse("default")?,
        task: None,
        tool: ToolFacts {
            name: ToolName::parse(tool)?,
            hash: Digest::of(tool.as_bytes()),
            category: Category::FileSystem,
            safety: SafetyClass::Write,
            least: SafetyClass::Write,
            egress: EgressClass::None,
            status: ToolStatus::Active,
            trust: TrustLabel::Internal,
            requires_approval: false,
            limits: GrantLimits::default(),
        },
        facets: Facets {
            action: Actions::default().parse("code:write")?,
            safety: SafetyClass::Write,
            egress: EgressClass::None,
            access: WorkspaceAccess::Write,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        },
        arguments: Digest::of(b"arguments"),
        operands: None,
        values: Arc::new(json!({ "path": "src/main.rs", "amount": 3 })),
        asked_at: 0,
    })
}

fn time(calls: &[Admitted], settings: Settings, rounds: usize) -> Result<f64> {
    let policy = Policy::of(settings)?;
    let facts = Facts {
        now: 0,
        workspace: "/work".into(),
        operators: 2,
        egress: true,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    };
    let mut times = Vec::new();
    let mut turns = calls.iter().cycle();
    for _ in 0..rounds {
        let begun = Instant::now();
        for call in turns.by_ref().take(TOGETHER) {
            ensure!(
                black_box(decide(black_box(call), &facts, &policy)).verdict.as_str() == "allow",
                "it is not allowed"
            );
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let middle = times.get(times.len() / 2).context("nothing was timed")?;
    Ok(milliseconds(*middle) * 1_000.0 / TOGETHER as f64)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// What this process has in memory, in bytes.
fn resident() -> Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').nth(1).context("no second field")?.parse()?;
    Ok(pages * 4096)
}
