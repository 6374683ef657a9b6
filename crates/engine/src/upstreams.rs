//! Other people's MCP servers: what they offer is listed, and listed anew when they offer something else.
//!
//! To ask a server what it offers is a call like any other, made for an agent that may use its tools: decided, recorded before
//! anything is started, and settled with a receipt.
//!
//! # Invariants
//! - Nothing is started that no agent could use.
//! - What is known of a server from before is listed at once, without starting it.
//! - A server that says all the time that its tools have changed is asked no more often than once in [`CALM`], and less and less
//!   often each time that its list is another one, until it has rested for [`LONGEST_CALM`].

use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, CallResult, CallStatus, Canonical, Reason, ToolName, chain};
use policy::NamePrefix;
use serde_json::{Value, json};
use store::StoreError;
use tokio_util::sync::CancellationToken;
use tools::Tool;
use tools::mcp::{Caller, Offer, REFRESH, Upstream, UpstreamTool};

use crate::engine::Engine;
use crate::request::Request;
use crate::sources::{Imported, NotListed};

/// How long a server is left alone after it was asked.
const CALM: Duration = Duration::from_secs(5);
/// As many of its tools as are listed before it was asked: no list of one is longer.
const MOST_KNOWN: usize = 2000;
/// The longest that it is left alone, where its list is another one each time.
const LONGEST_CALM: Duration = Duration::from_secs(3600);
/// How long after a failure it is asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why a server was not asked, or what it offers not taken.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// There is none.
    #[error("there is no server `{name}`")]
    Unknown {
        /// Which name.
        name: String,
    },
    /// Nobody could use it.
    #[error("no agent may use the tools of `{name}`")]
    Nobody {
        /// Which server.
        name: String,
    },
    /// The call was refused, or failed, or waits.
    #[error("`{name}` was not asked: {}", why.message)]
    NotAsked {
        /// Which server.
        name: String,
        /// Why.
        why: Box<Reason>,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Takes in the configured servers, and lists what is known of each from before. Once; starts nothing.
    pub async fn set_upstreams(&self, upstreams: Vec<Arc<Upstream>>) -> Result<(), StoreError> {
        if self.inner.upstreams.set(upstreams).is_err() {
            return Ok(());
        }
        self.keep_sign_ins();
        for upstream in self.upstreams() {
            let rows = self.inner.store.tools_from(upstream.source(), MOST_KNOWN).await?;
            let known: Vec<Value> = rows
                .into_iter()
                .filter_map(|row| row.definition.pointer("/origin/original").cloned())
                .collect();
            if !known.is_empty() {
                self.import(upstream, &known).await?;
            }
        }
        Ok(())
    }

    /// The configured servers.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        self.inner.upstreams.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The servers of which an agent gets more than tools.
    pub fn upstreams_of(&self, agent: &AgentName) -> Vec<Arc<Upstream>> {
        let sees = self.tools_for(agent).iter().any(|contract| contract.name().as_str() == REFRESH);
        let is_for = |upstream: &&Arc<Upstream>| sees && upstream.is_for(agent);
        self.upstreams().iter().filter(is_for).cloned().collect()
    }

    /// Ends what is at work for agents that may use none of its tools any more, and workers of agents that are gone.
    // ATTACK(server-of-a-demoted-agent)
    pub(crate) fn end_what_is_nobodys(&self) {
        let engine = self.anew();
        for upstream in self.upstreams() {
            let offered = engine.tools_of_source(upstream.source());
            for agent in upstream.served() {
                let tools = engine.tools_for(&agent);
                if !tools.iter().any(|contract| offered.contains(contract.name())) {
                    upstream.end_for(&agent);
                    engine.inner.surroundings.forget_agent(&agent);
                }
            }
        }
    }

    /// The server that a tool comes from.
    pub fn upstream_of(&self, tool: &str) -> Option<Arc<Upstream>> {
        let catalogue = self.catalogue();
        let source = catalogue.find(tool)?.source.as_ref()?;
        self.upstreams().iter().find(|upstream| upstream.source() == source).cloned()
    }

    /// A handle whose calls are made by somebody who can be told something while they are under way.
    #[must_use]
    pub fn with_caller(&self, caller: Caller) -> Engine {
        Engine { caller: Some(Arc::new(caller)), ..self.clone() }
    }

    /// Asks a server what it offers, and lists that in the place of what it offered before.
    pub async fn refresh_upstream(&self, name: &str) -> Result<Imported, RefreshError> {
        let found = self.upstreams().iter().find(|upstream| upstream.name() == name);
        let upstream = found.ok_or_else(|| RefreshError::Unknown { name: name.to_owned() })?;
        let agent = self.agent_for(upstream).ok_or_else(|| RefreshError::Nobody { name: name.to_owned() })?;
        let result = self.ask_upstream(upstream, agent).await;
        if result.status != CallStatus::Completed {
            let why = result.reason.unwrap_or_else(|| Reason::tool_failed("it waits for approval"));
            return Err(RefreshError::NotAsked { name: name.to_owned(), why: Box::new(why) });
        }
        match upstream.take_offers() {
            Some(offers) => Ok(self.import(upstream, &offers).await?),
            // Somebody who asked at the same time has taken the answer, and lists it.
            None => {
                let listed = self.tools_of_source(upstream.source());
                Ok(Imported { listed, refused: Vec::new() })
            }
        }
    }

    /// Asks those servers of which nothing is known yet, for a while: whoever comes in next may look at the list once only.
    pub async fn introduce_upstreams(&self, patience: Duration) {
        let unknown = |upstream: &&Arc<Upstream>| self.tools_of_source(upstream.source()).is_empty();
        let mut asking = tokio::task::JoinSet::new();
        for upstream in self.upstreams().iter().filter(unknown) {
            let (engine, name) = (self.clone(), upstream.name().to_owned());
            asking.spawn(async move { drop(engine.refresh_upstream(&name).await) });
        }
        let _ = tokio::time::timeout(patience, async { while asking.join_next().await.is_some() {} }).await;
    }

    /// Asks every server, and again when it says that it offers something else, for as long as the gate runs.
    pub fn follow_upstreams(&self) {
        for upstream in self.upstreams() {
            let (engine, upstream) = (self.clone(), Arc::clone(upstream));
            self.inner.tasks.spawn(async move {
                let ending = engine.inner.ending.clone();
                tokio::select! {
                    () = ending.cancelled() => upstream.end(),
                    () = engine.follow(&upstream) => {}
                }
            });
        }
    }

    async fn follow(&self, upstream: &Arc<Upstream>) {
        let mut changes = upstream.changes();
        let (mut pause, mut calm) = (FIRST_PAUSE, CALM);
        loop {
            changes.mark_unchanged();
            match self.refresh_upstream(upstream.name()).await {
                Ok(imported) => {
                    let (listed, refused) = (imported.listed.len(), imported.refused.len());
                    tracing::info!(server = upstream.name(), listed, refused, "a server's tools are listed");
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    tracing::warn!(server = upstream.name(), error = chain(&error), "a server is not used");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        // Somebody may have started to use it.
                        changed = changes.changed() => if changed.is_err() { return },
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
            // Each time that is believed everybody looks at their list again.
            tokio::time::sleep(calm).await;
            // Each list that differs is kept, so it is not asked for as fast as it is made up.
            calm = next_calm(calm, changes.has_changed().unwrap_or(false));
            let since = tokio::time::Instant::now();
            if changes.changed().await.is_err() {
                return;
            }
            calm = rested(calm, since.elapsed());
        }
    }

    /// An agent that may use the tools of a server, and so have it asked.
    fn agent_for(&self, upstream: &Upstream) -> Option<AgentName> {
        let settings = self.settings();
        let is_for = |agent: &&AgentName| {
            let meant = upstream.settings().agents.as_ref();
            meant.is_none_or(|agents| agents.contains(*agent))
                && self.tools_for(agent).iter().any(|contract| contract.name().as_str() == REFRESH)
        };
        settings.agents.keys().find(is_for).cloned()
    }

    async fn ask_upstream(&self, upstream: &Upstream, agent: AgentName) -> CallResult {
        let arguments = json!({ "server": upstream.name() });
        let request = Request {
            agent,
            task: None,
            tool: REFRESH.to_owned(),
            arguments: Canonical::of(arguments).unwrap_or_else(|_| empty()),
            key: None,
            purpose: Some("the gate asks what a server offers".to_owned()),
            proposer: None,
        };
        self.call(request, Duration::ZERO, CancellationToken::new()).await
    }

    /// Lists what a server offers.
    async fn import(&self, upstream: &Arc<Upstream>, offers: &[Value]) -> Result<Imported, StoreError> {
        let (mut tools, mut unfit): (Vec<Arc<dyn Tool>>, Vec<NotListed>) = (Vec::new(), Vec::new());
        let settings = upstream.settings();
        for original in offers {
            let told = original.get("name").and_then(Value::as_str).unwrap_or("(no name)");
            let mut refuse =
                |why: String| unfit.push(NotListed { name: told.chars().take(128).collect(), why });
            let offer = match Offer::read(original) {
                Ok(offer) => offer,
                Err(why) => {
                    refuse(why.to_string());
                    continue;
                }
            };
            let is_enabled = settings.enable.as_ref().is_none_or(|enabled| enabled.contains(&offer.name));
            if !is_enabled || settings.disable.contains(&offer.name) {
                continue;
            }
            let name = match self.name_of(upstream, &offer).await? {
                Ok(name) => name,
                Err(why) => {
                    refuse(why);
                    continue;
                }
            };
            match UpstreamTool::new(upstream, &offer, &name) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(why) => refuse(why.to_string()),
            }
        }
        self.replace_source(upstream.source(), tools, unfit).await
    }

    /// What a tool of a server is called here.
    async fn name_of(
        &self,
        upstream: &Upstream,
        offer: &Offer,
    ) -> Result<Result<ToolName, String>, StoreError> {
        if upstream.settings().prefix == NamePrefix::Auto
            && let Ok(bare) = offer.bare_name()
            // ATTACK(prompt-of-another): such a name says whose it is, and is not a server's to choose.
            && !bare.as_str().starts_with("mcp_")
            && self.is_free_for(upstream.source(), &bare).await?
        {
            return Ok(Ok(bare));
        }
        Ok(offer.full_name(upstream.name()).map_err(|why| why.to_string()))
    }
}

/// How long a server is left alone next, by whether it offered something else again.
fn next_calm(calm: Duration, has_changed: bool) -> Duration {
    match has_changed {
        true => (calm * 2).min(LONGEST_CALM),
        false => calm,
    }
}

/// The same after it has said nothing for a while: half for each time that is the longest.
// ATTACK(endless-names): whoever rests for a moment between two lists has not come to rest.
fn rested(calm: Duration, quiet: Duration) -> Duration {
    let times = u32::try_from(quiet.as_secs() / LONGEST_CALM.as_secs()).unwrap_or(u32::MAX);
    (calm / 2_u32.saturating_pow(times.min(16))).max(CALM)
}

#[expect(clippy::expect_used, reason = "nothing in it could have no canonical form")]
fn empty() -> Canonical {
    Canonical::of(json!({})).expect("an empty object has a canonical form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_list_never_rests_is_asked_a_few_times_a_day() {
        let (mut calm, mut passed, mut asked) = (CALM, Duration::ZERO, 0);
        while passed < Duration::from_secs(86_400) {
            passed += calm;
            calm = next_calm(calm, true);
            asked += 1;
        }
        assert!(asked < 40, "{asked}");
    }

    #[test]
    fn a_server_that_rests_between_two_lists_is_asked_a_few_times_a_day_too() {
        for pause in [30, 600, 3500].map(Duration::from_secs) {
            let (mut calm, mut passed, mut lists) = (CALM, Duration::ZERO, 0);
            while passed < Duration::from_secs(86_400) {
                // It is another list; then it is the same until the pause is over.
                lists += 1;
                passed += calm;
                calm = next_calm(next_calm(calm, true), false);
                let quiet = pause.saturating_sub(calm);
                passed += calm + quiet;
                calm = rested(calm, quiet);
            }
            assert!(lists < 40, "{lists} where it rests for {pause:?}");
        }
        assert_eq!(rested(LONGEST_CALM, Duration::from_secs(3599)), LONGEST_CALM);
        assert_eq!(rested(LONGEST_CALM, LONGEST_CALM), LONGEST_CALM / 2);
        assert_eq!(rested(LONGEST_CALM, LONGEST_CALM * 24), CALM);
    }
}
