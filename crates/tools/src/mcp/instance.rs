//! One server at work for one agent: a program behind walls, and the conversation with it.
//!
//! # Invariants
//! - It is started for a call whose grant permits what the server gets, and serves that call's agent alone.
//! - It has no variable, folder or host that is not listed for it; as long as no call is under way nobody serves the doors of
//!   its network, so it reaches nobody.
//! - What it says on its standard error is dropped by whoever holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::{Canonical, Digest, Reason};
use jail::{ChangeReport, Doors, Enforcement, Guarded, Kept, Limits, LocalDoor, Program, Strictness};
use policy::{Era, Grant, Passed, UpstreamSettings, UpstreamWay, WorkspaceAccess};
use sandbox::{Host, PlanRequest, Profile};
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;

use super::guards::Guards;
use super::offered::Offered;
use super::run_so_far::RunSoFar;
use super::session::{Manner, Session, Silence};
use crate::facts::not_enforced;
use crate::surroundings::Surroundings;

/// How long a server may live, however busy.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long it may take to introduce itself and say what it offers.
const INTRODUCTION: Duration = Duration::from_secs(30);
/// As many pages of tools as are read, and as many tools.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 2000;
/// As long as all that it offers is, in bytes of JSON.
const MOST_BYTES: usize = 4 << 20;

/// The revisions that we speak, newest first.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The revision that has no sessions.
pub(super) const STATELESS: &str = "2026-07-28";
/// What we say that we are.
pub(super) const CLIENT: &str = "toolgate";

/// A server at work.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) session: Session,
    kept: Mutex<Option<Kept>>,
    pub(super) enforcement: Enforcement,
    /// What leads out of its network, if anything does.
    pub(super) doors: Option<Doors>,
    /// Calls of one that reaches out come one after the other, so that each answers for its own bytes.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// What it offers, by its own names.
    pub(super) offers: Vec<Value>,
    /// What it has besides, as far as that is passed on.
    pub(super) offered: Offered,
    digests: BTreeMap<String, Digest>,
    pub(super) used: Mutex<Instant>,
}

impl Instance {
    /// Starts one behind the walls that a call's grant permits, and hears what it offers.
    pub(super) async fn start(
        server: &str,
        settings: &UpstreamSettings,
        guards: Guards,
        access: WorkspaceAccess,
        grant: &Grant,
        at: &Surroundings,
        known: &RunSoFar,
    ) -> Result<Instance, Reason> {
        let plan = plan(settings, access, grant, at)?;
        let kept = at.launch(move |launcher| launcher.keep(&plan)).await;
        let mut kept = kept
            .ok_or_else(|| Reason::internal("the gate is ending"))?
            .map_err(|refusal| not_enforced(&refusal))?;
        let (doors, enforcement) = (kept.take_doors(), kept.enforcement().clone());
        known.held_by(&enforcement);
        let manner =
            Manner { server: server.to_owned(), passes: settings.passes.clone(), era: settings.era, guards };
        let session = converse(&kept, manner.clone())
            .map_err(|_| Reason::internal("the server cannot be talked to"))?;
        let mut instance = Instance {
            session,
            kept: Mutex::new(Some(kept)),
            enforcement,
            doors,
            turn: tokio::sync::Mutex::default(),
            offers: Vec::new(),
            offered: Offered::default(),
            digests: BTreeMap::new(),
            used: Mutex::new(Instant::now()),
        };
        let introduced = tokio::time::timeout(INTRODUCTION, introduce(&instance.session, &manner)).await;
        let late = || Reason::timeout(format!("the server `{server}` did not say what it offers in time"));
        let introduced = introduced.map_err(|_| late())?;
        let (offers, offered) = introduced.map_err(|why| not_introduced(server, &why))?;
        instance.digests = offers.iter().filter_map(named_digest).collect();
        (instance.offers, instance.offered) = (offers, offered);
        Ok(instance)
    }

    /// The digest of what it says of one of its tools.
    pub(super) fn digest_of(&self, tool: &str) -> Option<Digest> {
        self.digests.get(tool).copied()
    }

    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn unused_for(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Ends it, and everything that it has started.
    pub(super) fn end(&self) {
        self.session.end();
        let Some(kept) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // Off the threads that others wait for: it takes as long as the sandbox takes to go.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(kept))),
            Err(_) => drop(kept),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end();
    }
}

/// The digest of an offer, by the name that it has.
pub(super) fn named_digest(offer: &Value) -> Option<(String, Digest)> {
    let name = offer.get("name")?.as_str()?.to_owned();
    Some((name, Canonical::of(offer.clone()).ok()?.digest()))
}

fn converse(kept: &Kept, manner: Manner) -> std::io::Result<Session> {
    let channel = kept.channel().try_clone()?;
    channel.set_nonblocking(true)?;
    let (reading, writing) = UnixStream::from_std(channel)?.into_split();
    Ok(Session::over(reading, writing, manner))
}

/// Why a server could not be introduced, for people who run it.
#[derive(Debug)]
pub(super) enum NotIntroduced {
    Silent(Silence),
    Odd(&'static str),
}

impl From<Silence> for NotIntroduced {
    fn from(silence: Silence) -> NotIntroduced {
        NotIntroduced::Silent(silence)
    }
}

pub(super) fn not_introduced(server: &str, why: &NotIntroduced) -> Reason {
    let why = match why {
        NotIntroduced::Odd(why) => (*why).to_owned(),
        NotIntroduced::Silent(silence) => describe(silence),
    };
    Reason::tool_failed(format!("the server `{server}` cannot be used: {why}"))
        .with_hint("whoever runs this gate can try it: `toolgate tools refresh` says what comes of it")
}

/// Why there was no answer, in words. What the server itself says is cut, and cleaned like all that it says.
pub(super) fn describe(silence: &Silence) -> String {
    match silence {
        Silence::NotAsked => "it has ended".to_owned(),
        Silence::Over(None) => "it ended without an answer".to_owned(),
        Silence::Over(Some(garbled)) => garbled.to_string(),
        Silence::Error(error) => {
            let message: String = contract::show_hidden(&error.message).chars().take(512).collect();
            format!("it says `{message}` ({})", error.code)
        }
    }
}

/// What a client says of itself: nothing that a server could use.
pub(super) fn introduction() -> Value {
    json!({
        "protocolVersion": REVISIONS[0],
        "capabilities": {},
        "clientInfo": { "name": CLIENT, "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Checks what a server answers to that, and says which revision it speaks.
pub(super) fn check_introduction(answer: &Value) -> Result<&str, NotIntroduced> {
    let revision = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    // ATTACK(unknown-revision): of a revision that nobody knows nothing is known.
    if !REVISIONS.contains(&revision) {
        return Err(NotIntroduced::Odd("it speaks no revision of MCP that is known here"));
    }
    check_tools(answer)?;
    Ok(revision)
}

fn check_tools(answer: &Value) -> Result<(), NotIntroduced> {
    match answer.pointer("/capabilities/tools") {
        Some(_) => Ok(()),
        None => Err(NotIntroduced::Odd("it offers no tools")),
    }
}

/// The same with what somebody has said that it may ask of a client.
fn introduction_with(manner: &Manner) -> Value {
    let able =
        [("elicitation", Passed::Elicitation), ("sampling", Passed::Sampling), ("roots", Passed::Roots)];
    let able = able.into_iter().filter(|(_, passed)| manner.passes.contains(passed));
    let able: Map<String, Value> = able.map(|(name, _)| (name.to_owned(), json!({}))).collect();
    let mut introduction = introduction();
    if let Some(members) = introduction.as_object_mut() {
        members.insert("capabilities".to_owned(), Value::Object(able));
    }
    introduction
}

/// Has a server introduce itself, and say what it offers.
async fn introduce(session: &Session, manner: &Manner) -> Result<(Vec<Value>, Offered), NotIntroduced> {
    let answer = match manner.era {
        Era::Sessions => {
            let answer = session.ask("initialize", introduction_with(manner)).await?;
            check_introduction(&answer)?;
            session.tell("notifications/initialized", json!({})).await;
            answer
        }
        Era::Stateless => {
            let answer = session.ask("server/discover", json!({})).await?;
            let known = answer.get("supportedVersions").and_then(Value::as_array);
            if !known.is_some_and(|known| known.contains(&Value::from(STATELESS))) {
                return Err(NotIntroduced::Odd("it does not speak the revision that is configured for it"));
            }
            check_tools(&answer)?;
            answer
        }
    };
    let able = |what: &str| answer.pointer(&format!("/capabilities/{what}")).is_some();
    if manner.era == Era::Sessions && able("logging") && session.passes(Passed::Logging) {
        // Which of it a client wants to hear is the client's to say.
        let _ = session.ask("logging/setLevel", json!({ "level": "debug" })).await;
    }
    let tools = all_of(session, "tools").await?;
    let (mut resources, mut templates, mut prompts) = (Vec::new(), Vec::new(), Vec::new());
    if able("resources") && session.passes(Passed::Resources) {
        resources = all_of(session, "resources").await?;
        // A server may have none, and not know the question.
        templates = all_of(session, "resourceTemplates").await.unwrap_or_default();
    }
    if able("prompts") && session.passes(Passed::Prompts) {
        prompts = all_of(session, "prompts").await?;
    }
    Ok((tools, Offered::read(&manner.server, &resources, &templates, &prompts)))
}

/// All of one kind that a server has, page by page.
async fn all_of(session: &Session, kind: &'static str) -> Result<Vec<Value>, NotIntroduced> {
    let method = match kind {
        "resourceTemplates" => "resources/templates/list".to_owned(),
        kind => format!("{kind}/list"),
    };
    let mut offers = Offers { kind, ..Offers::default() };
    loop {
        let page = session.ask(&method, offers.next_page()).await?;
        if offers.take(page)? {
            return Ok(offers.all);
        }
    }
}

/// What a server offers, page by page.
pub(super) struct Offers {
    kind: &'static str,
    pub(super) all: Vec<Value>,
    cursor: Option<Value>,
    pages: usize,
    bytes: usize,
}

/// How long values are as JSON, in bytes.
fn weight(values: &[Value]) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, values) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

impl Default for Offers {
    fn default() -> Offers {
        Offers { kind: "tools", all: Vec::new(), cursor: None, pages: 0, bytes: 0 }
    }
}

impl Offers {
    /// What asks for the next page.
    pub(super) fn next_page(&self) -> Value {
        match &self.cursor {
            Some(cursor) => json!({ "cursor": cursor }),
            None => json!({}),
        }
    }

    /// Takes in a page. Whether it was the last.
    pub(super) fn take(&mut self, mut page: Value) -> Result<bool, NotIntroduced> {
        let Some(Value::Array(tools)) = page.get_mut(self.kind).map(Value::take) else {
            return Err(NotIntroduced::Odd("its list of tools is none"));
        };
        self.pages += 1;
        // ATTACK(endless-list): what is kept of a list is bounded as a whole, before it is kept.
        self.bytes = self.bytes.saturating_add(weight(&tools));
        if self.bytes > MOST_BYTES {
            return Err(NotIntroduced::Odd("its list of tools is longer than 4 MiB"));
        }
        self.all.extend(tools);
        // ATTACK(endless-pages)
        if self.all.len() > MOST_TOOLS || self.pages > MOST_PAGES {
            return Err(NotIntroduced::Odd("its list of tools does not end"));
        }
        match page.get_mut("nextCursor").map(Value::take) {
            None | Some(Value::Null) => Ok(true),
            Some(next @ Value::String(_)) if self.cursor.as_ref() != Some(&next) => {
                self.cursor = Some(next);
                Ok(false)
            }
            Some(_) => Err(NotIntroduced::Odd("its list of tools leads back to itself")),
        }
    }
}

/// Everything that a server may do.
fn plan(
    settings: &UpstreamSettings,
    access: WorkspaceAccess,
    grant: &Grant,
    at: &Surroundings,
) -> Result<jail::Plan, Reason> {
    let UpstreamWay::Command(command) = &settings.way else {
        return Err(Reason::internal("the server is not a program"));
    };
    let Some((program, arguments)) = command.split_first() else {
        return Err(Reason::internal("the server has no program"));
    };
    let authority = grant.authority();
    let workspace = grant.workspace().to_owned();
    let mut write = settings.write.clone();
    if access == WorkspaceAccess::Write {
        write.push(workspace.clone());
    }
    let directory = match (access, settings.write.first().or(settings.read.first())) {
        (WorkspaceAccess::None, Some(folder)) => folder.clone(),
        (WorkspaceAccess::None, None) => "/".into(),
        _ => workspace.clone(),
    };
    let request = PlanRequest {
        guarded: doors_for(settings, at)?,
        profile: Profile::Build,
        program: Program::Inside(OsString::from(program)),
        arguments: arguments.iter().map(OsString::from).collect(),
        working_directory: directory,
        read: settings.read.clone(),
        workspace: (access == WorkspaceAccess::Read).then_some(workspace),
        write,
        variables: settings.variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        names: at.names().clone(),
        limits: Limits {
            memory: authority.limits.memory,
            pids: authority.limits.pids,
            cpu_millis: authority.limits.cpu_millis,
            disk: authority.limits.disk,
            output: 1 << 46,
            timeout: LIFE,
            ..Limits::default()
        },
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    };
    // ATTACK(server-environment): toolchains are found where they usually are; nothing else of the caller's is passed on.
    let host = Host { home: at.host().home.clone(), variables: Vec::new() };
    request.into_plan(&host).map_err(|error| not_enforced(&error.into()))
}

/// The doors of its network. Which places they lead to is up to each call.
fn doors_for(settings: &UpstreamSettings, at: &Surroundings) -> Result<Option<Guarded>, Reason> {
    if settings.allow.is_empty() {
        return Ok(None);
    }
    let Some(reaching) = at.reaching() else {
        return Err(Reason::cannot_enforce("this gate cannot give a sandbox a network"));
    };
    let ports: BTreeSet<u16> = settings.allow.iter().map(|reach| reach.port).collect();
    let (ports, authority) = (ports.into_iter().collect(), reaching.authority_of_readers());
    Ok(Some(Guarded { ports, authority, local: LocalDoor::Absent }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_as_a_whole_however_it_is_cut_into_pages() {
        let page = |cursor: usize, bytes: usize| json!({ "tools": [{ "name": "t", "description": "x".repeat(bytes) }], "nextCursor": cursor.to_string() });
        let mut offers = Offers::default();
        for cursor in 0..3 {
            assert!(matches!(offers.take(page(cursor, 1 << 20)), Ok(false)));
        }
        assert!(offers.take(page(3, 1 << 20)).is_err());
        assert_eq!(offers.all.len(), 3);
    }
}
