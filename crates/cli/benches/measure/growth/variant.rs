//! A gate in process with much of one thing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use contract::{
    Actions, AgentName, CallId, CallStatus, Category, ContractError, CostTier, Definition, Digest,
    EgressClass, Example, Idempotency, Profile, Rate, Reason, SafetyClass, ToolName, ToolStatus, TrustLabel,
};
use engine::{Clock, Engine};
use policy::{
    Admitted, Agent, ApprovalRule, ArgumentPath, Conditions, Facets, Facts, GrantLimits, Pattern, Policy,
    RateSettings, RuleEffect, Settings, TextPattern, ToolFacts, ToolGlob, WorkspaceAccess,
};
use sandbox::{Host, Proofs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tools::{CommandLine, CommandOutput, CommandTool, Surroundings, Tool};

use super::read;
use crate::options::Options;

/// How many calls are made at once to have made many.
const AT_ONCE: u64 = 8;

/// What there is much of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Agents,
    AgentsInTurn,
    Tools,
    Rules,
    Entries,
    Calls,
}

impl Thing {
    pub(super) const ALL: [Thing; 6] =
        [Thing::Agents, Thing::AgentsInTurn, Thing::Tools, Thing::Rules, Thing::Entries, Thing::Calls];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Thing::Agents => "agents",
            Thing::AgentsInTurn => "agents, in turn",
            Thing::Tools => "tools",
            Thing::Rules => "rules",
            Thing::Entries => "ledger entries",
            Thing::Calls => "past calls",
        }
    }

    /// From few to many.
    pub(super) fn sizes(self, options: &Options) -> Vec<u64> {
        match self {
            Thing::Agents | Thing::AgentsInTurn => vec![1, 100, 10_000],
            Thing::Tools => vec![10, 500, 5_000],
            Thing::Rules => vec![10, 100, 1_000],
            Thing::Entries if options.long => vec![1_000, 100_000, 1_000_000, 10_000_000],
            Thing::Entries if options.quick => vec![1_000, 100_000],
            Thing::Entries => vec![1_000, 100_000, 1_000_000],
            Thing::Calls if options.quick => vec![10, 2_000],
            Thing::Calls => vec![10, 10_000],
        }
    }
}

/// A gate with so many.
pub(super) struct Variant {
    pub(super) size: u64,
    pub(super) engine: Engine,
    /// How long opening took, when everything was on record.
    pub(super) opened: Duration,
    /// Who calls, in turn.
    pub(super) callers: Vec<AgentName>,
    pub(super) policy: Policy,
    pub(super) admitted: Admitted,
    pub(super) facts: Facts,
    folder: PathBuf,
}

impl Variant {
    pub(super) async fn open(thing: Thing, size: u64, folder: PathBuf) -> Result<Variant> {
        let workspace = folder.join("work");
        std::fs::create_dir_all(&workspace)?;
        std::fs::write(workspace.join("README.md"), "# Read me\n".repeat(20))?;
        let many = |what| if thing == what { size } else { 0 };
        let agents = many(Thing::Agents).max(many(Thing::AgentsInTurn)).max(1);
        let agents = (0..agents).map(|number| AgentName::parse(&format!("agent-{number}")));
        let agents: Vec<AgentName> = agents.collect::<Result<_, _>>()?;
        let settings = Settings {
            agents: agents.iter().map(|name| (name.clone(), Agent::default())).collect(),
            rules: (0..many(Thing::Rules)).map(rule).collect::<Result<_>>()?,
            // Past calls are made as fast as they can be.
            rates: RateSettings {
                each_agent: Rate { max_calls: 10_000_000, window_ms: 60_000 },
                ..RateSettings::default()
            },
            ..Settings::default()
        };
        let mut tools = tools::built_in(&settings)?;
        for number in tools.len() as u64..many(Thing::Tools) {
            tools.push(tool(number)?);
        }

        let policy = Policy::of(settings.clone())?;
        let engine = Engine::open(options(&folder, &workspace, settings, tools.clone())).await?;
        let caller = agents.first().cloned().into_iter().collect();
        let callers = if thing == Thing::AgentsInTurn { agents } else { caller };
        let mut variant = Variant {
            size,
            opened: Duration::ZERO,
            admitted: admitted(callers.first())?,
            facts: facts(),
            callers,
            policy,
            engine,
            folder,
        };
        store::danger::append_many(variant.engine.store(), many(Thing::Entries), 1).await?;
        variant.make_calls(many(Thing::Calls)).await?;
        variant.open_again(tools).await?;
        Ok(variant)
    }

    /// With what is there by now.
    async fn open_again(&mut self, tools: Vec<Arc<dyn Tool>>) -> Result<()> {
        self.engine.close().await;
        let settings = self.policy.settings().clone();
        let begun = Instant::now();
        let options = options(&self.folder, &self.folder.join("work"), settings, tools);
        self.engine = Engine::open(options).await?;
        self.opened = begun.elapsed();
        Ok(())
    }

    async fn make_calls(&self, count: u64) -> Result<()> {
        let mut callers = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (engine, agents) = (self.engine.clone(), self.callers.clone());
            callers.spawn(async move {
                for agent in agents.into_iter().cycle().take(usize::try_from(count / AT_ONCE)?) {
                    let result = engine.call(read(agent)?, Duration::ZERO, CancellationToken::new()).await;
                    ensure!(result.status == CallStatus::Completed, "it was not done: {result:?}");
                }
                Ok::<(), anyhow::Error>(())
            });
        }
        callers.join_all().await.into_iter().collect()
    }

    pub(super) async fn close(self) -> Result<()> {
        self.engine.close().await;
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }
}

pub(crate) fn options(
    home: &std::path::Path,
    workspace: &std::path::Path,
    settings: Settings,
    tools: Vec<Arc<dyn Tool>>,
) -> engine::Options {
    let clock = Clock::system();
    let binary = std::env::current_exe().unwrap_or_default();
    let proofs = Proofs { folder: Some(home.to_owned()), prober: binary.clone() };
    engine::Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        settings,
        workspace: workspace.to_owned(),
        workspaces: BTreeMap::new(),
        timeouts: BTreeMap::new(),
        tools,
        surroundings: Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    }
}

/// Half of them are about other tools, and half about other files: none applies, and each has to be looked at.
fn rule(number: u64) -> Result<ApprovalRule> {
    let place = format!("toolgate.yaml:{number}");
    if number.is_multiple_of(2) {
        let tool = ToolGlob::parse(&format!("other-{number}.*"))?;
        return Ok(ApprovalRule::about(tool, RuleEffect::Prompt, place));
    }
    let path = (ArgumentPath::parse("path")?, Pattern::Text(TextPattern::of(format!("infra-{number}/*"))));
    let when = Conditions { arguments: [path].into(), amount: None };
    Ok(ApprovalRule { when, ..ApprovalRule::about(ToolGlob::parse("fs.*")?, RuleEffect::Prompt, place) })
}

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The file, relative to the workspace.
    path: String,
}

#[derive(Serialize, JsonSchema)]
struct Lines {
    /// How many there are.
    lines: u64,
}

/// A tool like many others.
fn tool(number: u64) -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: format!("Count lines, the {number}th way"),
        description: format!("Counts the lines of a file of the workspace, the {number}th way."),
        category: Category::FileSystem,
        action: "code:read".into(),
        safety: SafetyClass::Read,
        egress: EgressClass::None,
        idempotency: Idempotency::Optional,
        cost: CostTier::Free,
        examples: vec![Example::of("how long is it?", json!({ "path": "README.md" }))],
        failure_modes: vec!["tool_failed: no such file".into()],
        ..Definition::of::<Input, Lines>(&format!("text.count-{number}"))
    };
    CommandTool { definition, profile: Profile::Inspect, command: count, read: lines }.build()
}

fn count(input: &Input) -> CommandLine {
    CommandLine::of("wc").words(["-l"]).path(&input.path)
}

fn lines(output: &CommandOutput) -> Result<Lines, Reason> {
    let first = output.success()?.split_whitespace().next().and_then(|word| word.parse().ok());
    first.map(|lines| Lines { lines }).ok_or_else(|| Reason::bad_output("`wc` did not give a number"))
}

fn admitted(agent: Option<&AgentName>) -> Result<Admitted> {
    Ok(Admitted {
        call: CallId::from_random([1; 16]),
        agent: agent.cloned().unwrap_or(AgentName::parse("default")?),
        task: None,
        tool: ToolFacts {
            name: ToolName::parse("fs.read")?,
            hash: Digest::of(b"contract"),
            category: Category::FileSystem,
            safety: SafetyClass::Read,
            least: SafetyClass::Read,
            egress: EgressClass::None,
            status: ToolStatus::Active,
            trust: TrustLabel::Internal,
            requires_approval: false,
            limits: GrantLimits::default(),
        },
        facets: Facets {
            action: Actions::default().parse("code:read")?,
            safety: SafetyClass::Read,
            egress: EgressClass::None,
            access: WorkspaceAccess::Read,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        },
        arguments: Digest::of(b"arguments"),
        operands: None,
        values: Arc::new(json!({ "path": "README.md" })),
        asked_at: 0,
    })
}

fn facts() -> Facts {
    Facts {
        now: 0,
        workspace: "/work".into(),
        operators: 1,
        egress: false,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: None,
        tallies: Vec::new(),
    }
}
