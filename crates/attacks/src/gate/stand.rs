//! A gate for one attack: its home, a workspace, something outside of it, and what was asked of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contract::{
    Actions, AgentName, ApprovalView, Autonomy, CallId, CallResult, CallStatus, Canonical, ReceiptBody,
    RunFacts, TaskName,
};
use egress::Guard;
use engine::{Clock, Credential, Engine, Options, Request};
use policy::{Agent, Settings};
use sandbox::{Host, Proofs};
use serde_json::Value;
use store::{Keys, Store, verify_receipt};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tools::{Surroundings, Tool};

use crate::Try;
use crate::bench::{Bench, find_program};
use crate::case::Effect;
use crate::gate::case::Trace;
use crate::launch::command_of;
use crate::place::{Place, token};

/// Who asks, unless a case says otherwise.
pub(crate) const AGENT: &str = "tester";

/// One attempt's place.
pub(crate) struct Stand<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) place: Place,
    pub(crate) workspace: PathBuf,
    /// A file that no call may touch or read, with the secret in it.
    pub(crate) outside: PathBuf,
    /// A text that no result may hold.
    pub(crate) secret: String,
    /// A guard of the network that its gates have switched off.
    pub(crate) without: Option<Guard>,
    /// A guard of the door that its gates have switched off.
    pub(crate) door_without: Option<server::Guard>,
    expected: RefCell<Vec<(CallId, Ending)>>,
    revealed: Cell<bool>,
}

/// How a call has to end, by its ledger entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing ran, for the reason with this code.
    Refused(&'static str),
    /// It ran, or tried to, and failed for the reason with this code.
    Failed(&'static str),
    /// It ran to its end.
    Done,
    /// It was settled; the attack is judged at its target alone.
    Settled,
}

/// A gate that was opened.
pub(crate) struct Gate<'a> {
    pub(crate) engine: Engine,
    stand: &'a Stand<'a>,
}

/// What a gate is opened with, where it is not as usual.
pub(crate) struct Opening {
    pub(crate) settings: Settings,
    pub(crate) workspace: Option<PathBuf>,
    /// The store, if not the one in its home.
    pub(crate) store: Option<String>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    /// A guard of the network that is switched off.
    pub(crate) without: Option<Guard>,
}

impl Opening {
    pub(crate) fn with(settings: Settings) -> Opening {
        Opening {
            settings,
            workspace: None,
            store: None,
            tools: Vec::new(),
            host: Host::default(),
            clock: Clock::system(),
            without: None,
        }
    }
}

impl<'a> Stand<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Try<Stand<'a>> {
        Stand::without(bench, None)
    }

    /// One whose gates have a guard of the network switched off.
    pub(crate) fn without(bench: &'a Bench, guard: Option<Guard>) -> Try<Stand<'a>> {
        let site = bench.site(crate::launch::Mode::Bare)?;
        let place = site.place;
        let secret = token();
        let workspace = place.folder("work")?;
        place.folder("home")?;
        let outside = place.file("outside", &secret)?;
        let (expected, revealed) = Default::default();
        Ok(Stand {
            bench,
            place,
            workspace,
            outside,
            secret,
            without: guard,
            door_without: None,
            expected,
            revealed,
        })
    }

    /// Toolgate's home.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.path("home")
    }

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, name: &str, content: &str) -> Try<PathBuf> {
        self.place.file(&format!("work/{name}"), content)
    }

    /// Opens the gate with these settings.
    pub(crate) fn gate(&self, settings: Settings) -> Try<Gate<'_>> {
        self.open(Opening::with(settings))
    }

    /// Opens the gate.
    pub(crate) fn open(&self, mut opening: Opening) -> Try<Gate<'_>> {
        opening.without = self.without;
        let workspace = opening.workspace.clone().unwrap_or_else(|| self.workspace.clone());
        let engine = runtime()?.block_on(open(&self.bench.tool, &self.home(), workspace, opening))?;
        Ok(Gate { engine, stand: self })
    }

    /// Runs a program of the host as a person would, in the workspace or elsewhere: for controls. What it wrote.
    pub(crate) fn bare(&self, program: &str, arguments: &[&str], directory: &Path) -> Try<String> {
        let found = find_program(program).unwrap_or_else(|| PathBuf::from(program));
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let output = command_of(&found, &arguments)
            .env_clear()
            .env("PATH", jail::DEFAULT_PATH)
            .env("HOME", self.place.root())
            .current_dir(directory)
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// An attack is through if its target says so, or if any result held the secret, or if the file outside changed.
    pub(crate) fn judged(&self, effect: Effect) -> Try<Effect> {
        if self.revealed.get() {
            return Ok(Effect::Through("a result holds the secret".to_owned()));
        }
        if fs::read_to_string(&self.outside)? != self.secret {
            return Ok(Effect::Through("the file outside has changed".to_owned()));
        }
        Ok(effect)
    }

    /// Through if the secret is in a text.
    pub(crate) fn shown_in(&self, text: &str) -> Effect {
        Effect::through_if(text.contains(&self.secret), text.chars().take(200).collect::<String>())
    }

    /// Looks for the secret in everything that a caller can get of a call.
    fn look_at(&self, store: &Store, result: &CallResult) -> Try<()> {
        let mut whole = serde_json::to_string(result)?;
        for artifact in &result.artifacts {
            let bytes = runtime()?.block_on(store.artifact(&artifact.digest))?.unwrap_or_default();
            whole.push_str(&String::from_utf8_lossy(&bytes));
        }
        if whole.contains(&self.secret) {
            self.revealed.set(true);
        }
        Ok(())
    }

    fn note(&self, call: &CallId, ending: Ending) {
        self.expected.borrow_mut().push((call.clone(), ending));
    }

    /// Whether the ledger tells what happened.
    pub(crate) fn check_trace(&self, trace: Trace) -> Try<()> {
        let expected = self.expected.borrow();
        if (trace == Trace::Calls) == expected.is_empty() {
            return Err(format!("{} calls were noted", expected.len()).into());
        }
        let store = self.store()?;
        let key = store.keys().public().clone();
        runtime()?.block_on(async {
            if trace == Trace::NoCall && !store.calls(1, None).await?.is_empty() {
                return Err("there is a call where none was expected".into());
            }
            let mut last = None;
            for (id, ending) in expected.iter() {
                let row = store.call(id).await?.ok_or("the call is not in the store")?;
                let envelope = store.receipt(id).await?.ok_or("the call has no receipt")?;
                let body = verify_receipt(&envelope, &key)?;
                ending.check(row.status, &body)?;
                last = Some((row.receipt_seq.ok_or("no entry settles the call")?, body));
            }
            // All entries are verified below; that an entry can be proved to somebody else is the same for all.
            if let Some((seq, body)) = last {
                let proof = store.prove(seq).await?;
                proof.verify(&key)?;
                if proof.entry.body != serde_json::to_value(&body)? {
                    return Err("the ledger's entry says something else than the receipt".into());
                }
            }
            let verified = store.verify(None).await?;
            let calls: BTreeSet<&CallId> = expected.iter().map(|(id, _)| id).collect();
            if verified.receipts < calls.len() as u64 {
                return Err(format!("only {} receipts", verified.receipts).into());
            }
            Ok(())
        })
    }

    /// Where that store is.
    pub(crate) fn store_url(&self) -> String {
        store_url(&self.home())
    }

    /// The store of this gate, looked at from outside.
    pub(crate) fn store(&self) -> Try<Store> {
        let keys = Keys::load_or_create(&self.home())?;
        Ok(runtime()?.block_on(Store::open(&store_url(&self.home()), keys))?)
    }
}

impl Ending {
    fn check(self, status: CallStatus, body: &ReceiptBody) -> Try<()> {
        let code = body.reason.as_ref().map(|reason| reason.code.as_str());
        let fits = match self {
            Ending::Refused(expected) => {
                status == CallStatus::Refused && code == Some(expected) && body.run.is_none()
            }
            Ending::Failed(expected) => status == CallStatus::Failed && code == Some(expected),
            Ending::Done => status == CallStatus::Completed && code.is_none(),
            Ending::Settled => status.is_final(),
        };
        if fits && body.status == status {
            return Ok(());
        }
        let why = body.reason.as_ref().map(|reason| reason.message.as_str()).unwrap_or_default();
        Err(format!("{self:?} was expected, not {status:?} {code:?} ({why})").into())
    }
}

impl<'a> Gate<'a> {
    /// The same for calls of somebody who can be told something while they are under way.
    pub(crate) fn heard_by(&self, caller: engine::upstream::Caller) -> Gate<'a> {
        Gate { engine: self.engine.with_caller(caller), stand: self.stand }
    }
}

impl Gate<'_> {
    /// Makes a call, and notes how the ledger has to tell of it.
    pub(crate) fn call(&self, tool: &str, arguments: Value, ending: Ending) -> Try<CallResult> {
        self.ask(self.request(tool, arguments)?, ending)
    }

    /// Makes a call that has to wait for people.
    pub(crate) fn waits(&self, tool: &str, arguments: Value) -> Try<(CallId, ApprovalView)> {
        let result = self.send(self.request(tool, arguments)?)?;
        match result.approval {
            Some(view) => Ok((result.call_id, view)),
            None => Err(format!("it does not wait: {}", result.content).into()),
        }
    }

    pub(crate) fn ask(&self, request: Request, ending: Ending) -> Try<CallResult> {
        let result = self.send(request)?;
        self.stand.note(&result.call_id, ending);
        Ok(result)
    }

    /// Notes how the ledger has to tell of a call that was made before.
    pub(crate) fn expect(&self, call: &CallId, ending: Ending) {
        self.stand.note(call, ending);
    }

    /// Makes a call without noting it.
    pub(crate) fn send(&self, request: Request) -> Try<CallResult> {
        let result = runtime()?.block_on(self.engine.call(request, Duration::ZERO, CancellationToken::new()));
        self.stand.look_at(self.engine.store(), &result)?;
        Ok(result)
    }

    /// What the receipt of a call says of its run; nothing if it did not run.
    pub(crate) fn facts(&self, result: &CallResult) -> Try<Option<RunFacts>> {
        let store = self.engine.store();
        let envelope =
            runtime()?.block_on(store.receipt(&result.call_id))?.ok_or("the call has no receipt")?;
        Ok(verify_receipt(&envelope, store.keys().public())?.run)
    }

    /// The usual request.
    pub(crate) fn request(&self, tool: &str, arguments: Value) -> Try<Request> {
        Ok(Request {
            agent: AgentName::parse(AGENT)?,
            task: Some(TaskName::parse("attack")?),
            tool: tool.to_owned(),
            arguments: Canonical::of(arguments)?,
            key: None,
            purpose: Some("an attack".to_owned()),
            proposer: None,
        })
    }

    /// The local operator's credential.
    pub(crate) fn operator(&self) -> Try<Credential> {
        Ok(Credential::load_or_create(&self.stand.home())?)
    }

    /// The local operator says yes or no.
    pub(crate) fn answer(&self, id: &str, vote: store::Vote) -> Try<()> {
        let credential = self.operator()?;
        runtime()?.block_on(self.engine.answer(id, vote, None, &credential, "attack"))?;
        Ok(())
    }
}

/// The gate as its own process opens it.
pub(crate) async fn open(binary: &Path, home: &Path, workspace: PathBuf, opening: Opening) -> Try<Engine> {
    let clock = opening.clock;
    let binary = binary.to_owned();
    // One folder for all, so that the canaries run once.
    let proofs = Proofs { folder: binary.parent().map(Path::to_owned), prober: binary.clone() };
    let mut tools = tools::built_in(&opening.settings)?;
    tools.extend(opening.tools);
    let mut surroundings = Surroundings::new(binary, proofs, opening.host, clock.as_function());
    let egress = &opening.settings.egress;
    // Whoever has nobody to ask for names reaches nobody.
    if !egress.nameservers.is_empty() {
        surroundings = surroundings.reaching_out(way_out(egress, clock, opening.without)?, egress);
    }
    let options = Options {
        home: home.to_owned(),
        store: opening.store.unwrap_or_else(|| store_url(home)),
        tools,
        surroundings,
        settings: opening.settings,
        workspace,
        workspaces: Default::default(),
        timeouts: Default::default(),
        clock,
    };
    Ok(Engine::open(options).await?)
}

/// The way out of a gate in the world. Needs a runtime around it.
pub(crate) fn way_out(
    egress: &policy::EgressSettings,
    clock: Clock,
    without: Option<Guard>,
) -> Try<egress::Egress> {
    let settings = egress::EgressSettings {
        nameservers: egress.nameservers.clone(),
        extra_roots: crate::world::World::get()?.authority().to_owned(),
        credentials: egress.credentials.iter().filter_map(credential).collect(),
        sign_ins: sign_ins(egress),
        vault: None,
        known_hosts: known_hosts(egress)?,
        patience: egress::Patience::default(),
        clock: clock.as_function(),
    };
    let way_out = egress::Egress::new(settings)?;
    Ok(match without {
        Some(guard) => way_out.without(guard),
        None => way_out,
    })
}

fn known_hosts(egress: &policy::EgressSettings) -> Try<Vec<egress::KnownHost>> {
    let mut known = Vec::new();
    for line in &egress.known_hosts {
        known.extend(egress::KnownHost::parse(line)?);
    }
    Ok(known)
}

/// Servers that a gate signs in to.
fn sign_ins(egress: &policy::EgressSettings) -> Vec<egress::SignInSettings> {
    let of = |credential: &policy::Credential| match &credential.from {
        policy::SecretSource::SignIn(settings) => Some(egress::SignInSettings {
            server: settings.server.clone(),
            url: settings.url.clone(),
            client: egress::ClientKind::Registered,
            by: egress::SignInBy::People,
            scopes: settings.scopes.clone(),
            issuer: settings.issuer.clone(),
            bounds: egress::Bounds { private: egress.private.clone(), blocked: egress.block.clone() },
        }),
        _ => None,
    };
    egress.server_credentials.iter().filter_map(of).collect()
}

/// Of those that attacks use.
fn credential(of: &policy::Credential) -> Option<egress::Credential> {
    let injection = match of.form {
        policy::CredentialForm::Bearer => egress::Injection::Bearer,
        policy::CredentialForm::SshKey => egress::Injection::SshKey,
        _ => return None,
    };
    let policy::SecretSource::File(file) = &of.from else { return None };
    let source = egress::SecretSource::File(file.clone());
    Some(egress::Credential { to: of.to.clone(), injection, source })
}

fn store_url(home: &Path) -> String {
    format!("sqlite:{}", home.join("toolgate.db").display())
}

/// The runtime of all gates.
pub(crate) fn runtime() -> Try<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if RUNTIME.get().is_none() {
        // Two threads may make one; the second is dropped.
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        // As the gate that is shipped has it.
        let _ = RUNTIME.set(threads.thread_stack_size(server::THREAD_STACK).enable_all().build()?);
    }
    RUNTIME.get().ok_or_else(|| "there is no runtime".into())
}

/// One agent as everybody has it at the start.
pub(crate) fn standard() -> Settings {
    settings_of(Agent::default())
}

/// One agent that need not ask for anything that stays in the workspace.
pub(crate) fn trusted() -> Settings {
    let actions = Actions::default();
    let waived = ["code:write", "code:delete", "code:create", "exec:mutate"];
    let auto_approve = waived.iter().filter_map(|action| actions.parse(action).ok()).collect();
    settings_of(Agent { autonomy: Autonomy::Full, auto_approve, ..Agent::default() })
}

/// Settings with one agent.
pub(crate) fn settings_of(agent: Agent) -> Settings {
    let name = AgentName::parse(AGENT).ok();
    Settings { agents: name.map(|name| (name, agent)).into_iter().collect(), ..Settings::default() }
}
