//! An engine on a store in memory, for those who need one to ask. It starts no sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use contract::{AgentName, Autonomy, Canonical};
use engine::{Clock, Engine, Options, Request};
use policy::{Agent, Settings};
use tokio::runtime::Runtime;

/// An agent that asks for what cannot be undone, and one that need never ask.
pub(crate) const AGENTS: [&str; 2] = ["default", "free"];

pub(crate) struct Gate {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
}

/// The one gate of this process.
pub(crate) fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let place = PathBuf::from(format!("/dev/shm/toolgate-fuzz-{}", std::process::id()));
        let (home, workspace) = (place.join("home"), place.join("work"));
        for folder in [&home, &workspace] {
            std::fs::create_dir_all(folder).expect("a folder can be made");
        }
        let engine = runtime.block_on(open(&home, &workspace));
        Gate { runtime, engine }
    })
}

async fn open(home: &Path, workspace: &Path) -> Engine {
    let all = contract::Actions::default();
    let free = Agent {
        autonomy: Autonomy::Full,
        auto_approve: ["code", "exec"]
            .iter()
            .flat_map(|group| all.expand(group).expect("they exist"))
            .collect(),
        ..Agent::default()
    };
    let agents = [Agent::default(), free];
    let settings =
        Settings { agents: AGENTS.map(agent_name).into_iter().zip(agents).collect(), ..Settings::default() };
    let clock = Clock::system();
    let binary = std::env::current_exe().expect("this program is somewhere");
    let proofs = sandbox::Proofs { folder: Some(home.to_owned()), prober: binary.clone() };
    let surroundings =
        tools::Surroundings::new(binary, proofs, sandbox::Host::default(), clock.as_function());
    let options = Options {
        home: home.to_owned(),
        store: format!("sqlite:{}", home.join("toolgate.db").display()),
        tools: tools::built_in(&settings).expect("our contracts are valid"),
        settings,
        workspace: workspace.to_owned(),
        workspaces: BTreeMap::new(),
        timeouts: BTreeMap::new(),
        surroundings,
        clock,
    };
    Engine::open(options).await.expect("an engine can be opened")
}

pub(crate) fn agent_name(name: &str) -> AgentName {
    AgentName::parse(name).expect("it is a name")
}

/// A request as every way in makes one.
pub(crate) fn request(agent: &str, tool: &str, arguments: Canonical) -> Request {
    let purpose = Request::purpose_of(None, &arguments);
    Request {
        agent: agent_name(agent),
        task: None,
        tool: tool.to_owned(),
        arguments,
        key: None,
        purpose,
        proposer: None,
    }
}
