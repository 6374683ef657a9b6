//! The fixtures as a server of others: behind walls, over its standard input and output, with all that can be passed on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, CallStatus, Canonical, Category, EgressClass, Level, SafetyClass};
use engine::{Clock, Credential, Engine, Lowering, Options, Request};
use policy::{
    Agent, Era, NamePrefix, Overrides, Passed, Settings, UpstreamSettings, UpstreamWay, categories_of,
};
use sandbox::{Host, Proofs};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::mcp::{Reading, Refresh, Upstream};

/// What this program is started with to be the server.
const SERVE: &str = "serve-the-fixtures";
const NAME: &str = "fixtures";
/// A server that is started under load takes its time.
const STARTS: u64 = 60_000;

pub(crate) fn agent() -> AgentName {
    AgentName::parse("gated").unwrap()
}

/// Serves the fixtures and ends, if this program was started for that.
pub(crate) fn be_a_server_if_asked() {
    if std::env::args().nth(1).as_deref() != Some(SERVE) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let served = super::runtime().block_on(async {
        let engine = super::engine(home.path()).await;
        server::serve_stdio(engine, super::agent(), Duration::from_secs(1)).await
    });
    drop(home);
    std::process::exit(i32::from(served.is_err()));
}

/// All that can be passed on.
pub(crate) const ALL: [Passed; 7] = [
    Passed::Resources,
    Passed::Prompts,
    Passed::Media,
    Passed::Logging,
    Passed::Elicitation,
    Passed::Sampling,
    Passed::Roots,
];

/// A gate before that server, with each of its tools looked at and found harmless.
pub(crate) async fn engine(home: &Path, revision: &str, passes: &[Passed]) -> Engine {
    let era = if revision == "2026-07-28" { Era::Stateless } else { Era::Sessions };
    let engine = open(home, passes, era).await;
    let imported = engine.refresh_upstream(NAME).await.unwrap();
    let operator = Credential::load_or_create(home).unwrap();
    let harmless = Lowering { safety: Some(SafetyClass::Read), egress: Some(EgressClass::None) };
    for name in imported.listed.iter().filter(|name| name.as_str().starts_with("test_")) {
        engine.pin_tool(name, &hash_of(&engine, name), harmless, &operator).await.unwrap();
    }
    // The suite gives some calls half a second, and the first one starts the server.
    let said = call(&engine, "test_simple_text").await;
    assert_eq!(said.status, CallStatus::Completed, "{said:?}");
    engine
}

fn hash_of(engine: &Engine, name: &contract::ToolName) -> String {
    let tools = engine.all_tools();
    tools.iter().find(|tool| tool.facts.name == *name).unwrap().facts.hash.to_string()
}

/// Without a word of an operator a client gets tools and nothing else, whatever the server has.
pub(crate) async fn nothing_else_is_passed_on() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path(), &[], Era::Sessions).await;
    engine.refresh_upstream(NAME).await.unwrap();
    let upstream = &engine.upstreams()[0];
    assert_eq!(*upstream.offered(), Default::default());
    let names: Vec<String> = engine.tools_for(&agent()).iter().map(|tool| tool.name().to_string()).collect();
    assert!(names.contains(&"test_elicitation".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name == "mcp.read_resource" || name == "mcp.get_prompt"), "{names:?}");
    let operator = Credential::load_or_create(home.path()).unwrap();
    let harmless = Lowering { safety: Some(SafetyClass::Read), egress: Some(EgressClass::None) };
    for name in ["test_elicitation", "test_image_content"] {
        let name = contract::ToolName::parse(name).unwrap();
        engine.pin_tool(&name, &hash_of(&engine, &name), harmless, &operator).await.unwrap();
    }
    let asked = call(&engine, "test_elicitation").await;
    assert!(asked.content.contains("refused") || asked.is_error, "{asked:?}");
    let shown = call(&engine, "test_image_content").await;
    assert_eq!(shown.content, "[image 1: image/png, 70 bytes]");
    engine.close().await;
}

async fn call(engine: &Engine, tool: &str) -> contract::CallResult {
    let request = Request {
        agent: agent(),
        task: None,
        tool: tool.to_owned(),
        arguments: Canonical::of(json!({})).unwrap(),
        key: None,
        purpose: None,
        proposer: None,
    };
    engine.call(request, Duration::ZERO, CancellationToken::new()).await
}

async fn open(home: &Path, passes: &[Passed], era: Era) -> Engine {
    let clock = Clock::system();
    let binary = std::env::current_exe().unwrap();
    let folder = binary.parent().unwrap().to_owned();
    let server = UpstreamSettings {
        read: vec![folder],
        timeout_ms: STARTS,
        prefix: NamePrefix::Auto,
        passes: passes.iter().copied().collect(),
        era,
        ..UpstreamSettings::of(UpstreamWay::Command(vec![binary.display().to_string(), SERVE.to_owned()]))
    };
    let mut categories = categories_of(Level::Standard);
    categories.insert(Category::Mcp);
    let overrides = Overrides { categories: Some(categories), ..Overrides::default() };
    let settings = Settings {
        agents: [(agent(), Agent { overrides, ..Agent::default() })].into(),
        upstreams: [(NAME.to_owned(), server.clone())].into(),
        ..Settings::default()
    };
    let upstream = Upstream::new(NAME, server).unwrap();
    let mut all = tools::built_in(&settings).unwrap();
    all.push(Arc::new(Refresh::new(vec![Arc::clone(&upstream)]).unwrap()));
    all.extend(Reading::all(&[Arc::clone(&upstream)]).unwrap());
    let proofs = Proofs { folder: Some(home.to_owned()), prober: binary.clone() };
    let workspace = home.join("work");
    std::fs::create_dir_all(&workspace).unwrap();
    let surroundings = tools::Surroundings::new(binary, proofs, Host::default(), clock.as_function())
        .holding_in(home.join("holds"));
    std::fs::create_dir_all(home.join("holds")).unwrap();
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools: all,
        settings,
        workspaces: BTreeMap::new(),
        timeouts: BTreeMap::new(),
        workspace,
        surroundings,
        clock,
    };
    let engine = Engine::open(options).await.unwrap();
    engine.set_upstreams(vec![upstream]).await.unwrap();
    engine
}
