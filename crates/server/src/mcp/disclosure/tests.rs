//! What a client with many tools is sent, counted.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use contract::{
    AgentName, Canonical, Category, Contract, Definition, EgressClass, Output, Reason, RunFacts, SafetyClass,
    TaskName, TrustLabel,
};
use engine::{Clock, Options, count_tokens};
use policy::{Agent, Facets, Grant, Settings, ToolGlob};
use sandbox::{Host, Proofs};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::{Ran, Surroundings, Tool as OurTool};

use super::*;

/// What real servers list, as they gave it.
const UPSTREAM: [&str; 6] = [
    include_str!("../../../../engine/tests/data/upstream/everything.json"),
    include_str!("../../../../engine/tests/data/upstream/fetch.json"),
    include_str!("../../../../engine/tests/data/upstream/filesystem.json"),
    include_str!("../../../../engine/tests/data/upstream/git.json"),
    include_str!("../../../../engine/tests/data/upstream/memory.json"),
    include_str!("../../../../engine/tests/data/upstream/time.json"),
];

/// A tool of somebody else. Nothing here calls it.
struct Foreign(Contract);

impl OurTool for Foreign {
    fn contract(&self) -> &Contract {
        &self.0
    }

    fn facets(&self, _arguments: &Value, _settings: &Settings) -> Result<Facets, Reason> {
        Err(Reason::internal("nobody calls it"))
    }

    fn run<'a>(
        &'a self,
        _grant: Grant,
        _arguments: &'a Canonical,
        _at: &'a Surroundings,
        _cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        let failure = Some(Reason::internal("nobody calls it"));
        let ran = Ran {
            output: Output::default(),
            findings: Default::default(),
            facts: RunFacts::default(),
            failure,
        };
        Box::pin(async { ran })
    }
}

/// As many tools from as many servers, which are those of real ones under other names.
fn foreign(servers: usize, each: usize) -> Vec<Arc<dyn OurTool>> {
    let listed: Vec<Value> = UPSTREAM
        .iter()
        .flat_map(|text| serde_json::from_str::<Value>(text).unwrap()["tools"].as_array().unwrap().clone())
        .collect();
    let tool = |place: usize| {
        let upstream = &listed[place % listed.len()];
        let text = |key: &str| upstream[key].as_str().unwrap_or_default().to_owned();
        let properties = upstream["inputSchema"]["properties"].clone();
        let definition = Definition {
            name: format!("mcp_server{}_{}-{}", place / each, text("name"), place % each),
            title: text("title"),
            description: text("description"),
            category: Category::Mcp,
            action: "mcp:call".to_owned(),
            safety: SafetyClass::Network,
            egress: EgressClass::Write,
            input: json!({ "type": "object", "properties": properties, "required": upstream["inputSchema"].get("required").cloned().unwrap_or(json!([])) }),
            output: json!({ "type": "object", "properties": {} }),
            ..Definition::of::<String, String>("x")
        };
        let contract = Contract::with_trust(definition, TrustLabel::Imported)
            .unwrap_or_else(|error| panic!("{error:?}"));
        Arc::new(Foreign(contract)) as Arc<dyn OurTool>
    };
    (0..servers * each).map(tool).collect()
}

async fn engine(home: &Path, settings: Settings, tools: Vec<Arc<dyn OurTool>>) -> Engine {
    let clock = Clock::system();
    let binary = home.join("no-binary");
    let proofs = Proofs { folder: None, prober: binary.clone() };
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools,
        settings,
        workspaces: Default::default(),
        timeouts: Default::default(),
        workspace: home.to_owned(),
        surroundings: Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    };
    Engine::open(options).await.unwrap()
}

fn settings() -> Settings {
    let agent = Agent { allowed: vec![ToolGlob::parse("mcp_*").unwrap()], ..Agent::default() };
    Settings { agents: [(AgentName::parse("default").unwrap(), agent)].into(), ..Settings::default() }
}

fn tokens(value: &impl serde::Serialize) -> usize {
    count_tokens(&serde_json::to_string(value).unwrap())
}

#[tokio::test]
async fn with_500_tools_of_20_servers_what_is_sent_at_the_start_stays_within_its_budget() {
    let home = tempfile::tempdir().unwrap();
    let agent = AgentName::parse("default").unwrap();
    let mut all = foreign(20, 25);
    all.extend(tools::built_in(&Settings::default()).unwrap());
    let engine = engine(home.path(), settings(), all).await;
    let whole: Vec<Tool> = engine.tools_for(&agent).iter().map(shown_tool).collect();
    let sent = definitions(&engine, &agent, None);
    let said = instructions(&engine, &agent, super::super::INSTRUCTIONS);
    let start = tokens(&sent) + count_tokens(&said);
    #[expect(clippy::print_stdout, reason = "the two numbers are what is asked for")]
    {
        println!(
            "{} tools: {} tokens as a whole list; {start} at the start ({} for {} definitions, {} of instructions)",
            whole.len(),
            tokens(&whole),
            tokens(&sent),
            sent.len(),
            count_tokens(&said),
        );
        println!("{said}");
    }
    assert!(start <= 3000, "{start} tokens");
    assert!(tokens(&whole) > 20 * start, "{}", tokens(&whole));
    // Those that are always there, and what is loaded for the task at hand.
    let names = |tools: &[Tool]| tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    let always =
        ["list_tools", "search_tools", "load_tool", "load_tool_resource", "call_tool", "call_status"];
    assert_eq!(names(&sent), always);
    let task = TaskName::parse("one").unwrap();
    let load = engine::Request {
        agent: agent.clone(),
        task: Some(task.clone()),
        tool: "load_tool".to_owned(),
        arguments: Canonical::of(json!({ "name": "fs.read" })).unwrap(),
        key: None,
        purpose: None,
        proposer: None,
    };
    engine.call(load, std::time::Duration::ZERO, CancellationToken::new()).await;
    assert_eq!(names(&definitions(&engine, &agent, Some(&task))).last().map(String::as_str), Some("fs_read"));
    assert_eq!(names(&definitions(&engine, &agent, None)), always);
}

#[tokio::test]
async fn with_few_tools_a_client_is_sent_what_it_always_was() {
    let home = tempfile::tempdir().unwrap();
    let agent = AgentName::parse("default").unwrap();
    let engine = engine(home.path(), settings(), tools::built_in(&Settings::default()).unwrap()).await;
    assert_eq!(instructions(&engine, &agent, "as ever"), "as ever");
    let sent = definitions(&engine, &agent, None);
    assert_eq!(sent.len(), engine.tools_for(&agent).len() + 1);
    assert!(sent.iter().all(|tool| tool.name != "search_tools"));
}

fn said(value: Value) -> Result<Option<Context>, ErrorData> {
    context_of(&serde_json::from_value(json!({ CONTEXT: value })).unwrap())
}

#[test]
fn a_context_is_two_numbers_or_an_error() {
    assert_eq!(said(json!({ "used": 5, "window": 10 })), Ok(Some(Context { used: 5, window: 10 })));
    assert_eq!(context_of(&RequestMetaObject::default()), Ok(None));
    for odd in [
        json!(0.8),
        json!({ "used": 5 }),
        json!({ "used": -1, "window": 10 }),
        json!({ "used": 1, "window": 0 }),
    ] {
        assert!(said(odd.clone()).is_err(), "{odd}");
    }
}
