//! An engine in a folder of its own, and a tool that does what its arguments say.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::{
    Actions, AgentName, CallResult, Canonical, Category, Contract, Definition, EgressClass, Idempotency,
    Output, Reason, RunFacts, SafetyClass, TrustLabel,
};
use engine::{Clock, Engine, Options, Request};
use policy::{Agent, Facets, Grant, Settings, WorkspaceAccess};
use sandbox::{Host, Proofs};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tools::{Ran, Ready, Surroundings, Tool};

/// What the tool was seen to do.
#[derive(Default)]
pub(crate) struct Seen {
    asked_to_be_ready: AtomicUsize,
    /// How often it ran.
    pub(crate) runs: AtomicUsize,
    now: AtomicUsize,
    /// How many runs there were at a time, at most.
    pub(crate) most_at_once: AtomicUsize,
    /// Lets those go on that wait.
    pub(crate) go_on: Notify,
}

pub(crate) struct Desk {
    pub(crate) home: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) seen: Arc<Seen>,
}

const TOOLS: [&str; 2] = ["do", "do.more"];

pub(crate) fn settings() -> Settings {
    let agents = ["builder", "tester"].map(|name| (AgentName::parse(name).unwrap(), Agent::default()));
    Settings { agents: agents.into(), ..Settings::default() }
}

impl Desk {
    pub(crate) async fn open(settings: Settings) -> Desk {
        let home = tempfile::tempdir().unwrap();
        let seen = Arc::new(Seen::default());
        let engine = open(home.path(), &TOOLS, settings, &seen).await;
        Desk { home, engine, seen }
    }

    /// The same home with another configuration, as after a restart.
    pub(crate) async fn again(self, settings: Settings) -> Desk {
        self.again_with(&TOOLS, settings).await
    }

    /// The same with these tools alone.
    pub(crate) async fn again_with(self, tools: &[&str], settings: Settings) -> Desk {
        let Desk { home, engine, seen } = self;
        engine.close().await;
        engine.store().close().await;
        let engine = open(home.path(), tools, settings, &seen).await;
        Desk { home, engine, seen }
    }

    /// Another gate with the same home and configuration.
    pub(crate) async fn beside(&self) -> Engine {
        open(self.home.path(), &TOOLS, (*self.engine.settings()).clone(), &self.seen).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        self.make(request("builder", tool, arguments)).await
    }

    pub(crate) async fn make(&self, request: Request) -> CallResult {
        self.engine.call(request, Duration::ZERO, CancellationToken::new()).await
    }

    pub(crate) fn asked_to_be_ready(&self) -> usize {
        self.seen.asked_to_be_ready.load(Ordering::SeqCst)
    }

    pub(crate) fn runs(&self) -> usize {
        self.seen.runs.load(Ordering::SeqCst)
    }
}

pub(crate) fn request(agent: &str, tool: &str, arguments: Value) -> Request {
    Request {
        agent: AgentName::parse(agent).unwrap(),
        task: None,
        tool: tool.to_owned(),
        arguments: Canonical::of(arguments).unwrap(),
        key: None,
        purpose: None,
        proposer: None,
    }
}

pub(crate) fn code(result: &CallResult) -> &'static str {
    result.reason.as_ref().map_or("", |reason| reason.code.as_str())
}

fn url(home: &Path) -> String {
    format!("sqlite:{}", home.join("toolgate.db").display())
}

async fn open(home: &Path, tools: &[&str], settings: Settings, seen: &Arc<Seen>) -> Engine {
    let workspace = home.join("work");
    std::fs::create_dir_all(&workspace).unwrap();
    let clock = Clock::system();
    let binary = home.join("no-binary");
    let proofs = Proofs { folder: None, prober: binary.clone() };
    let tool = |name| Arc::new(Doer::new(name, Arc::clone(seen))) as Arc<dyn Tool>;
    let options = Options {
        home: home.to_owned(),
        store: url(home),
        tools: tools.iter().copied().map(tool).collect(),
        settings,
        workspaces: BTreeMap::new(),
        timeouts: BTreeMap::new(),
        workspace,
        surroundings: Surroundings::new(binary, proofs, Host::default(), clock.as_function()),
        clock,
    };
    Engine::open(options).await.unwrap()
}

/// Does what its argument `what` says.
pub(crate) struct Doer {
    contract: Contract,
    seen: Arc<Seen>,
}

impl Doer {
    fn new(name: &str, seen: Arc<Seen>) -> Doer {
        Doer::of(Doer::definition(name), TrustLabel::Internal, seen)
    }

    pub(crate) fn of(definition: Definition, trust: TrustLabel, seen: Arc<Seen>) -> Doer {
        Doer { contract: Contract::with_trust(definition, trust).unwrap(), seen }
    }

    pub(crate) fn definition(name: &str) -> Definition {
        Definition {
            title: "Do".to_owned(),
            description: "Does what it is told.".to_owned(),
            category: Category::FileSystem,
            action: "code:write".to_owned(),
            safety: SafetyClass::Write,
            egress: EgressClass::None,
            idempotency: Idempotency::Optional,
            input: json!({ "type": "object", "properties": { "what": { "type": "string" } } }),
            output: json!({ "type": "object", "properties": {} }),
            ..Definition::of::<String, String>(name)
        }
    }
}

impl Tool for Doer {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn facets(&self, arguments: &Value, _settings: &Settings) -> Result<Facets, Reason> {
        let what = arguments["what"].as_str().unwrap_or_default();
        if what == "panic at once" {
            panic!("SECRET-OF-THE-ARGUMENTS");
        }
        let action = if what.starts_with("ask") { "code:delete" } else { "code:write" };
        Ok(Facets {
            action: Actions::default().parse(action).unwrap(),
            safety: SafetyClass::Write,
            egress: EgressClass::None,
            access: WorkspaceAccess::None,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: Vec::new(),
        })
    }

    fn get_ready(&self, _grant: &Grant, arguments: &Canonical, _at: &Surroundings) -> Option<Ready> {
        self.seen.asked_to_be_ready.fetch_add(1, Ordering::SeqCst);
        if arguments.value()["what"] == "panic when it gets ready" {
            panic!("SECRET-OF-THE-ARGUMENTS");
        }
        None
    }

    fn run<'a>(
        &'a self,
        _grant: Grant,
        arguments: &'a Canonical,
        _at: &'a Surroundings,
        _cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        let seen = Arc::clone(&self.seen);
        Box::pin(async move {
            seen.runs.fetch_add(1, Ordering::SeqCst);
            let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most_at_once.fetch_max(now, Ordering::SeqCst);
            let what = arguments.value()["what"].as_str().unwrap_or_default();
            match what {
                "wait" | "ask, then wait" => seen.go_on.notified().await,
                "panic" => panic!("SECRET-OF-THE-ARGUMENTS"),
                _ => tokio::task::yield_now().await,
            }
            seen.now.fetch_sub(1, Ordering::SeqCst);
            let failure = (what == "fail").then(|| Reason::tool_failed("it was told to"));
            let output =
                Output { content: format!("did: {what}"), structured: json!({}), ..Output::default() };
            Ran { output, findings: engine::Findings::default(), facts: RunFacts::default(), failure }
        })
    }
}
