//! A workspace, something outside of it, and a gate's way to make calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contract::{AgentName, Autonomy, CallId, Canonical, ToolStatus, TrustLabel};
use policy::{Admitted, Agent, Facts, Grant, GrantLimits, Settings, ToolFacts, Verdict, decide};
use sandbox::{Host, Proofs};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tools::{Owner, Ran, Surroundings, Tool, built_in};

pub(crate) const SECRET: &str = "the secret outside";

/// One test's place.
pub(crate) struct Bench {
    _folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    /// A file that no tool may touch or read.
    pub(crate) outside: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) limits: GrantLimits,
    pub(crate) at: Surroundings,
}

/// Why nothing can be tried here.
pub(crate) fn missing_walls() -> Option<String> {
    let bench = Bench::new();
    let ran = bench.call("fs.list", serde_json::json!({}));
    ran.failure.map(|reason| format!("{} ({:?})", reason.message, reason.hint))
}

pub(crate) fn is_required(what: &str) -> bool {
    let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name == what)
}

/// Whether to try what takes long.
pub(crate) fn is_long() -> bool {
    std::env::var_os("TOOLGATE_LONG").is_some()
}

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Where proofs are kept, so that the canaries run once for all tests. Not beneath /tmp, which is scratch space inside.
fn proofs_folder(process: u32) -> PathBuf {
    PathBuf::from(format!("/var/tmp/toolgate-proofs-{process}"))
}

/// Removes what is left of a process of this suite.
pub(crate) fn clean_up(process: u32) {
    let _ = fs::remove_dir_all(proofs_folder(process));
}

/// A gate's surroundings, with workers of their own.
pub(crate) fn surroundings() -> Surroundings {
    let binary = std::env::current_exe().unwrap();
    let proofs = Proofs { folder: Some(proofs_folder(std::process::id())), prober: binary.clone() };
    let holds = proofs_folder(std::process::id()).join("holds");
    Surroundings::new(binary, proofs, Host::default(), now).holding_in(holds)
}

pub(crate) fn owner(task: &str) -> Owner {
    Owner { agent: agent_name(), task: Some(contract::TaskName::parse(task).unwrap()) }
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::Builder::new().prefix("toolgate-tools-").tempdir_in("/var/tmp").unwrap();
        let workspace = folder.path().join("workspace");
        let outside = folder.path().join("outside");
        fs::create_dir(&workspace).unwrap();
        fs::write(&outside, SECRET).unwrap();
        let everything = ["code:write", "code:delete", "code:create", "exec:mutate"];
        let actions = contract::Actions::default();
        let agent = Agent {
            autonomy: Autonomy::Full,
            auto_approve: everything.iter().map(|text| actions.parse(text).unwrap()).collect(),
            ..Agent::default()
        };
        let settings = Settings { agents: [(agent_name(), agent)].into(), ..Settings::default() };
        let at = surroundings().for_owner(owner("task"));
        let limits = GrantLimits { timeout: Duration::from_secs(600), ..GrantLimits::default() };
        Bench { _folder: folder, workspace, outside, settings, limits, at }
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.workspace.join(path)).unwrap()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let mut tools = built_in(&self.settings).unwrap().into_iter().chain(crate::guide::text::count());
        tools.find(|tool| tool.contract().name().as_str() == name).unwrap()
    }

    /// A grant for a call, from the only maker of grants.
    pub(crate) fn grant(&self, tool: &dyn Tool, arguments: &Canonical) -> Result<Grant, contract::Reason> {
        let contract = tool.contract();
        assert_eq!(contract.input().problems(arguments.value()), Vec::<String>::new());
        let facets = tool.facets(arguments.value(), &self.settings)?;
        let call = Admitted {
            operands: None,
            call: CallId::from_random([7; 16]),
            agent: agent_name(),
            task: None,
            tool: ToolFacts {
                name: contract.name().clone(),
                hash: contract.hash(),
                category: contract.definition().category,
                safety: tool.contract().definition().safety,
                least: tool.least_safety(),
                egress: tool.contract().definition().egress,
                status: ToolStatus::Active,
                trust: TrustLabel::Internal,
                requires_approval: false,
                limits: self.limits,
            },
            facets,
            arguments: arguments.digest(),
            values: std::sync::Arc::new(arguments.value().clone()),
            asked_at: now(),
        };
        let facts = Facts {
            now: now(),
            workspace: self.workspace.clone(),
            operators: 1,
            egress: false,
            ask_for: 1000,
            consent: None,
            standing: Vec::new(),
            content: None,
            tallies: Vec::new(),
        };
        match decide(&call, &facts, &policy::Policy::of(self.settings.clone()).unwrap()).verdict {
            Verdict::Allow(grant) => Ok(grant),
            Verdict::Deny(reason) => Err(reason),
            Verdict::Ask(question) => panic!("asked: {question:?}"),
        }
    }

    /// Makes a call and waits for what comes of it.
    pub(crate) fn call(&self, name: &str, arguments: Value) -> Ran {
        self.call_with(name, arguments, CancellationToken::new())
    }

    pub(crate) fn call_with(&self, name: &str, arguments: Value, cancel: CancellationToken) -> Ran {
        let tool = self.tool(name);
        let arguments = Canonical::of(arguments).unwrap();
        match self.grant(&*tool, &arguments) {
            Ok(grant) => {
                let ran = runtime().block_on(tool.run(grant, &arguments, &self.at, cancel));
                if ran.failure.is_none() {
                    let problems = tool.contract().output().problems(&ran.output.structured);
                    assert_eq!(problems, Vec::<String>::new(), "{}", ran.output.structured);
                }
                ran
            }
            Err(reason) => Ran {
                output: contract::Output::default(),
                findings: clean::Findings::default(),
                facts: contract::RunFacts::default(),
                failure: Some(reason),
            },
        }
    }

    /// A call that must go well: what programs get of it.
    pub(crate) fn done(&self, name: &str, arguments: Value) -> Value {
        let ran = self.call(name, arguments.clone());
        assert_eq!(ran.failure, None, "{name} {arguments}");
        ran.output.structured
    }

    /// A call that must not go well: the code of its reason.
    pub(crate) fn refused(&self, name: &str, arguments: Value) -> String {
        let ran = self.call(name, arguments.clone());
        let shown = format!("{name} {arguments}");
        assert!(
            !ran.output.content.contains(SECRET) && !ran.output.structured.to_string().contains(SECRET),
            "{shown}"
        );
        ran.failure.unwrap_or_else(|| panic!("{shown} went well: {}", ran.output.content)).code.to_string()
    }

    /// The file outside is what it was.
    pub(crate) fn outside_is_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.outside).unwrap(), SECRET);
    }
}

pub(crate) fn agent_name() -> AgentName {
    AgentName::parse("tester").unwrap()
}

/// Everything in a directory, by name.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
