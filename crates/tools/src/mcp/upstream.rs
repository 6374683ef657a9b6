//! One configured server: the instances that serve its agents, when they are started and when they end.
//!
//! # Invariants
//! - An agent has its own instance, and no other agent's call reaches it.
//! - One that may change the workspace lives for one call: between calls nobody writes there.
//! - One that keeps ending is started less and less often, and a call that comes too soon is told when.
//! - One that nobody has called for a while is ended, and so is one that does not say that it is well.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use contract::{AgentName, Canonical, Digest, Reason, SourceName};
use policy::{Grant, Passed, UpstreamSettings, UpstreamWay, WorkspaceAccess};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use super::guards::Guards;
use super::import::source_of;
use super::instance::Instance;
use super::offered::Offered;
use super::run_so_far::RunSoFar;
use super::web::Spoken;
use crate::surroundings::Surroundings;

/// How long an instance waits for its agent's next call.
const IDLE: Duration = Duration::from_secs(300);
/// How often one that waits is asked whether it is well, and how long it may take to say so.
const HEALTH: Duration = Duration::from_secs(30);
const WELL_WITHIN: Duration = Duration::from_secs(5);
/// How long after an end the next start may be, and how long at most after many.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One configured server.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    source: SourceName,
    settings: UpstreamSettings,
    guards: Guards,
    slots: Mutex<HashMap<AgentName, Arc<tokio::sync::Mutex<Slot>>>>,
    latest: Mutex<Option<Vec<Value>>>,
    /// The digest of what it offered when it was last asked.
    known: Mutex<Option<Digest>>,
    /// What it has besides tools, as it said when it was last asked.
    offered: Mutex<Arc<Offered>>,
    /// Which of its addresses others have, too, by what each had when that was looked up.
    shared: Mutex<Vec<Shared>>,
    /// Which era of the protocol it was last heard to speak, over HTTP.
    pub(super) heard_era: Mutex<Option<Spoken>>,
    /// Counts how often the server was seen to offer something else.
    changes: watch::Sender<u64>,
    /// What it says has become another: for which agent, and at which address.
    updates: broadcast::Sender<(AgentName, String)>,
}

/// What a server and others had, and which addresses of the server's were others', too.
type Shared = (Vec<Arc<Offered>>, Arc<HashSet<String>>);

/// As many updates as wait to be told.
const UPDATES: usize = 64;
/// For as many sets of others it is remembered what they have, too.
const MOST_SHARED: usize = 16;

/// The place of one agent's instance.
#[derive(Debug, Default)]
struct Slot {
    instance: Option<Arc<Instance>>,
    /// How often in a row it ended by itself, or could not be started.
    failures: u32,
    not_before: Option<Instant>,
}

impl Upstream {
    /// A server of this name. Nothing is started.
    pub fn new(name: &str, settings: UpstreamSettings) -> Option<Arc<Upstream>> {
        Upstream::guarded(name, settings, Guards::default())
    }

    /// The same without one of its guards.
    #[cfg(feature = "weaken")]
    pub fn without(name: &str, settings: UpstreamSettings, guard: super::Guard) -> Option<Arc<Upstream>> {
        Upstream::guarded(name, settings, Guards::without(guard))
    }

    fn guarded(name: &str, settings: UpstreamSettings, guards: Guards) -> Option<Arc<Upstream>> {
        Some(Arc::new(Upstream {
            name: name.to_owned(),
            source: source_of(name)?,
            settings,
            guards,
            slots: Mutex::default(),
            latest: Mutex::default(),
            known: Mutex::default(),
            offered: Mutex::default(),
            shared: Mutex::default(),
            heard_era: Mutex::default(),
            changes: watch::Sender::new(0),
            updates: broadcast::channel(UPDATES).0,
        }))
    }

    /// What it is called in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its tools come from.
    pub fn source(&self) -> &SourceName {
        &self.source
    }

    /// Which guards stand before it.
    pub(super) fn guards(&self) -> Guards {
        self.guards
    }

    /// How it is configured.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// What it was last heard to offer, for the first who asks.
    pub fn take_offers(&self) -> Option<Vec<Value>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Counts how often it was seen to offer something else than before.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What it has besides tools.
    pub fn offered(&self) -> Arc<Offered> {
        Arc::clone(&self.offered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which of its addresses and templates some of these have, too. Looked up once for as long as nobody has anything else.
    pub fn shared_with(&self, others: &[Arc<Upstream>]) -> Arc<HashSet<String>> {
        let others = others.iter().filter(|other| other.name != self.name);
        let had: Vec<_> = [self.offered()].into_iter().chain(others.map(|other| other.offered())).collect();
        let is_same = |known: &[Arc<Offered>]| {
            known.len() == had.len() && known.iter().zip(&had).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = shared.iter().find(|(known, _)| is_same(known)) {
            return Arc::clone(known);
        }
        let Some((own, others)) = had.split_first() else { return Arc::default() };
        let all = own.resources.iter().chain(&own.templates).map(|resource| &resource.uri);
        let is_shared = |uri: &&String| others.iter().any(|other| other.names(uri));
        let found = Arc::new(all.filter(is_shared).cloned().collect());
        shared.truncate(MOST_SHARED - 1);
        shared.insert(0, (had, Arc::clone(&found)));
        found
    }

    /// What it says has become another from now on: for which agent, and at which address.
    pub fn updates(&self) -> broadcast::Receiver<(AgentName, String)> {
        self.updates.subscribe()
    }

    /// Whether somebody has said that this of it is passed on.
    pub fn passes(&self, passed: Passed) -> bool {
        self.settings.passes.contains(&passed)
    }

    /// Whether its tools are for this agent.
    pub fn is_for(&self, agent: &AgentName) -> bool {
        self.settings.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// Ends every instance.
    pub fn end(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The agents for which it is at work, or was not long ago.
    pub fn served(&self) -> Vec<AgentName> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Ends the instance of one agent, and whatever it is at work on.
    pub fn end_for(&self, agent: &AgentName) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(agent);
        let Some(slot) = slot else { return };
        // Whoever starts one this moment is waited for, and finds it ended.
        tokio::spawn(async move {
            if let Some(instance) = slot.lock().await.instance.take() {
                instance.end();
            }
        });
    }

    /// Takes in what it has besides tools.
    pub(super) fn heard_besides(&self, offered: Offered) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(offered);
    }

    /// Takes in what it offers. Whoever lists it is told if that is something else than before.
    pub(super) fn heard(&self, offers: Vec<Value>) {
        let digest = Canonical::of(Value::Array(offers.clone())).ok().map(|offers| offers.digest());
        let before =
            std::mem::replace(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner), digest);
        if before.is_some() && before != digest {
            self.note_change();
        }
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(offers);
    }

    /// Says that it offers something else by now.
    pub(super) fn note_change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// What it may do in the workspace while nobody writes there.
    pub(super) fn access_to_look(&self) -> WorkspaceAccess {
        self.settings.workspace.min(WorkspaceAccess::Read)
    }

    /// The instance that serves an agent, started if there is none. One that writes in the workspace is always a new one.
    pub(super) async fn instance(
        self: &Arc<Self>,
        agent: &AgentName,
        access: WorkspaceAccess,
        grant: &Grant,
        at: &Surroundings,
        known: &RunSoFar,
    ) -> Result<Arc<Instance>, Reason> {
        if access == WorkspaceAccess::Write {
            return Ok(Arc::new(self.start(access, grant, at, known).await?));
        }
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(agent.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some(instance) = slot.instance.take() {
            if !instance.session.is_over() {
                instance.touch();
                known.held_by(&instance.enforcement);
                slot.instance = Some(Arc::clone(&instance));
                return Ok(instance);
            }
            slot.failed();
        }
        slot.check(&self.name)?;
        match self.start(access, grant, at, known).await {
            Ok(instance) => {
                let instance = Arc::new(instance);
                slot.instance = Some(Arc::clone(&instance));
                tokio::spawn(look_after(agent.clone(), Arc::downgrade(&instance), Arc::downgrade(self)));
                Ok(instance)
            }
            Err(reason) => {
                slot.failed();
                Err(reason)
            }
        }
    }

    /// Starts an instance.
    pub(super) async fn start(
        &self,
        access: WorkspaceAccess,
        grant: &Grant,
        at: &Surroundings,
        known: &RunSoFar,
    ) -> Result<Instance, Reason> {
        debug_assert!(matches!(self.settings.way, UpstreamWay::Command(_)));
        Instance::start(&self.name, &self.settings, self.guards, access, grant, at, known).await
    }

    /// An answer has come: whatever ended before was no habit.
    pub(super) async fn went_well(&self, agent: &AgentName) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(agent).cloned();
        if let Some(slot) = slot {
            let mut slot = slot.lock().await;
            (slot.failures, slot.not_before) = (0, None);
        }
    }
}

impl Slot {
    fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        // Once is no habit, and may have been our own doing.
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        self.not_before = (doublings > 0).then(|| Instant::now() + pause.min(LONGEST_PAUSE));
    }

    /// ATTACK(server-that-dies): to start it is work; whoever makes it die again and again does not get it done each time.
    fn check(&self, server: &str) -> Result<(), Reason> {
        let Some(left) = self.not_before.and_then(|until| until.checked_duration_since(Instant::now()))
        else {
            return Ok(());
        };
        let why = format!("the server `{server}` has ended {} times in a row", self.failures);
        let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        Err(Reason::tool_failed(why).with_hint("try again later").retry_after(milliseconds))
    }
}

/// Ends an instance that nobody has called for a while, or that is not well, and says when its tools have changed.
async fn look_after(agent: AgentName, instance: Weak<Instance>, upstream: Weak<Upstream>) {
    let Some((mut changes, mut updates)) =
        instance.upgrade().map(|instance| (instance.session.changes(), instance.session.updates()))
    else {
        return;
    };
    loop {
        let (mut changed, mut updated) = (false, None);
        tokio::select! {
            change = changes.changed() => changed = change.is_ok(),
            update = updates.recv() => match update {
                Ok(uri) => updated = Some(uri),
                // It says more than anybody can follow.
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = tokio::time::sleep(HEALTH) => {}
        }
        let (Some(instance), Some(upstream)) = (instance.upgrade(), upstream.upgrade()) else { return };
        if instance.session.is_over() {
            return;
        }
        if let Some(uri) = updated {
            // Nobody may listen.
            let _ = upstream.updates.send((agent.clone(), uri));
            continue;
        }
        if changed {
            upstream.note_change();
            continue;
        }
        if instance.unused_for() >= IDLE {
            return instance.end();
        }
        let well = tokio::time::timeout(WELL_WITHIN, instance.session.ask("ping", json!({}))).await;
        // One that knows no ping has answered, too.
        if well.is_err() {
            return instance.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_too_is_looked_up_once() {
        let settings = UpstreamSettings {
            way: UpstreamWay::Command(vec!["x".to_owned()]),
            allow: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            workspace: WorkspaceAccess::None,
            variables: Default::default(),
            enable: None,
            disable: Default::default(),
            timeout_ms: 1000,
            prefix: Default::default(),
            agents: None,
            passes: Default::default(),
            era: Default::default(),
        };
        let of = |name: &str, uris: &[&str], templates: &[&str]| {
            let listed =
                |key: &str, uris: &[&str]| uris.iter().map(|uri| json!({ key: uri })).collect::<Vec<_>>();
            let upstream = Upstream::new(name, settings.clone()).unwrap();
            let (resources, templates) = (listed("uri", uris), listed("uriTemplate", templates));
            upstream.heard_besides(Offered::read(name, &resources, &templates, &[]));
            upstream
        };
        let one = of("one", &["a://1", "a://2", "b://1"], &["c://{x}"]);
        let other = of("other", &["a://1"], &["b://{x}", "c://{x}"]);
        let servers = [Arc::clone(&one), Arc::clone(&other)];
        let shared = one.shared_with(&servers);
        assert_eq!(*shared, ["a://1", "b://1", "c://{x}"].map(str::to_owned).into());
        assert!(Arc::ptr_eq(&shared, &one.shared_with(&servers)));
        assert!(one.shared_with(&servers[..1]).is_empty());
        other.heard_besides(Offered::default());
        assert!(one.shared_with(&servers).is_empty());
    }

    #[test]
    fn each_end_in_a_row_makes_the_next_start_later() {
        let mut slot = Slot::default();
        assert!(slot.check("x").is_ok());
        slot.failed();
        assert!(slot.check("x").is_ok(), "once is no habit");
        let mut before = Duration::ZERO;
        for _ in 0..6 {
            slot.failed();
            let pause = slot.not_before.unwrap().duration_since(Instant::now());
            assert!(pause > before, "{pause:?}");
            before = pause;
            assert!(slot.check("x").is_err());
        }
        (0..40).for_each(|_| slot.failed());
        assert!(slot.not_before.unwrap().duration_since(Instant::now()) <= LONGEST_PAUSE);
    }
}
