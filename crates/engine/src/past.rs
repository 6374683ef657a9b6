//! Past calls under the policy in force and under another: decided again with the facts of their time, and nothing else.
//!
//! # Invariants
//! - Nothing is run, asked or recorded: no tool is handed a grant, and no transaction writes.
//! - The same store and the same settings give the same answer, however many threads there are: pages are decided at the
//!   same time, and added up in the ledger's order.
//! - Memory does not grow with the calls: so many pages are at hand at once, and groups have an upper bound.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contract::{AgentName, CanonicalError, Category, Digest};
use policy::{Compared, PastCall, Settings, Side, Simulation, Tally, ToolGlob, Word, compare};
use serde::Serialize;
use store::{Opened, PastPage, PastRow, Span, StoreError};
use thiserror::Error;
use tokio::task::JoinHandle;
use tools::Tool;

use crate::catalogue::CatalogueError;
use crate::court::Court;
use crate::engine::Engine;

/// So many calls are read at once.
const PAGE: u32 = 512;

/// So many pages are read ahead of the one that is added up next.
const AT_HAND: usize = 4;

/// A configuration that is not in force.
pub struct Candidate {
    /// What it means.
    pub settings: Settings,
    /// Where agents work that have a place of their own by it.
    pub workspaces: BTreeMap<AgentName, PathBuf>,
    /// How long calls of a category may take at most by it.
    pub timeouts: BTreeMap<Category, Duration>,
    /// The tools there are by it.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// Which past calls are decided again, and how much is told of them.
#[derive(Clone, Debug)]
pub struct Past {
    /// When, and whose.
    pub span: Span,
    /// Of which tools.
    pub tool: Option<ToolGlob>,
    /// So many calls of each group are named.
    pub examples: usize,
    /// No more calls than this are looked at.
    pub most_calls: Option<u64>,
    /// No longer than this.
    pub longest: Option<Duration>,
}

/// What a candidate changes, and over what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The policy in force.
    pub policy: Digest,
    /// The candidate.
    pub candidate: Digest,
    /// From when on calls were looked at, in milliseconds since 1970, if not from the first.
    pub since: Option<i64>,
    /// Until when, if not to the last.
    pub until: Option<i64>,
    /// Calls that were looked at, of whichever tool.
    pub looked_at: u64,
    /// When the last call was asked before looking stopped early, if it did, in milliseconds since 1970.
    pub stopped_at: Option<i64>,
    /// The keys of what the candidate changes and no decision shows, at all or wholly.
    pub not_compared: Vec<&'static str>,
    /// What was found.
    #[serde(flatten)]
    pub found: Simulation,
}

/// Why past calls were not decided again.
#[derive(Debug, Error)]
pub enum PastError {
    /// Nothing can name the candidate, so nothing can be decided by it.
    #[error("the candidate's settings have no canonical form")]
    Settings(#[source] CanonicalError),
    /// Its tools cannot stand beside each other.
    #[error("cannot list the candidate's tools")]
    Catalogue(#[from] CatalogueError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread that decided has ended in the middle of it.
    #[error("past calls could not be decided: our own code failed")]
    Broken,
}

impl Past {
    /// Reads a pattern over tools, such as `git.*`.
    pub fn tools(pattern: &str) -> Result<ToolGlob, String> {
        ToolGlob::parse(pattern).map_err(|error| contract::show_hidden(&error.to_string()))
    }
}

/// Reads the text of a configuration; or says what is wrong with it.
pub type ReadCandidate = dyn Fn(&str) -> Result<Candidate, String> + Send + Sync;

impl Engine {
    /// Says how the text of a configuration is read that comes in by a door of this process. Whoever opened the engine knows;
    /// the first word counts.
    pub fn read_candidates_by(&self, read: Arc<ReadCandidate>) {
        let _ = self.inner.candidates.set(read);
    }

    /// What the text of a configuration means, if this gate reads such.
    pub fn read_candidate(&self, text: &str) -> Result<Candidate, String> {
        match self.inner.candidates.get() {
            Some(read) => read(text),
            None => Err("this gate reads no configurations but its own".to_owned()),
        }
    }

    /// Decides past calls by the policy in force and by a candidate. Runs nothing and records nothing; `progress` hears how
    /// many calls were looked at, of how many.
    pub async fn simulate(
        &self,
        candidate: Candidate,
        past: &Past,
        progress: impl Fn(u64, u64),
    ) -> Result<Simulated, PastError> {
        let operators = self.inner.store.operators().await?;
        let today = Arc::new(Court::in_force(self, &operators));
        let other = Arc::new(Court::of(candidate, self, &operators)?);
        let mut simulated = Simulated {
            policy: today.policy.hash(),
            candidate: other.policy.hash(),
            since: past.span.since,
            until: past.span.until,
            looked_at: 0,
            stopped_at: None,
            not_compared: policy::unheard(today.policy.settings(), other.policy.settings()),
            found: Simulation::default(),
        };
        let mut tally = Tally::naming(past.examples);
        // What is recorded meanwhile is not a part of it.
        let Some(through) = self.inner.store.last_planned().await? else { return Ok(simulated) };
        let of = self.inner.store.count_past(&past.span, through).await?;
        let (mut at_hand, mut next) = (VecDeque::new(), Some(-1));
        let over = Over { at: past.longest.map(|longest| Instant::now() + longest), is_told: Arc::default() };
        loop {
            match next.filter(|_| at_hand.len() < AT_HAND) {
                Some(after) => {
                    let page = self.inner.store.past(&past.span, after, through, PAGE).await?;
                    next = page.next;
                    at_hand.push_back(self.decide_page(page, past, &today, &other, &over));
                }
                None => {
                    let Some(page) = at_hand.pop_front() else { break };
                    let JudgedPage { judged, is_whole } = page.await.map_err(|_| PastError::Broken)?;
                    let last = judged.iter().rev().find_map(Judged::asked_at);
                    for one in judged {
                        simulated.looked_at += 1;
                        one.add_to(&mut tally);
                    }
                    progress(simulated.looked_at, of);
                    let is_more = next.is_some() || !at_hand.is_empty();
                    let is_enough = past.most_calls.is_some_and(|most| simulated.looked_at >= most);
                    simulated.stopped_at = last.or(simulated.stopped_at);
                    if !is_whole || (is_more && (is_enough || over.is_it())) {
                        // Nobody waits for what is being decided beyond.
                        over.is_told.store(true, Ordering::Relaxed);
                        simulated.found = tally.told();
                        return Ok(simulated);
                    }
                }
            }
        }
        simulated.stopped_at = None;
        simulated.found = tally.told();
        Ok(simulated)
    }

    /// Decides the calls of a page, beside whoever reads the next one.
    fn decide_page(
        &self,
        page: PastPage,
        past: &Past,
        today: &Arc<Court>,
        candidate: &Arc<Court>,
        over: &Over,
    ) -> JoinHandle<JudgedPage> {
        let (engine, tool, over) = (self.clone(), past.tool.clone(), over.clone());
        let (today, candidate) = (Arc::clone(today), Arc::clone(candidate));
        tokio::task::spawn_blocking(move || {
            let is_wanted = |name: &_| tool.as_ref().is_none_or(|tool| tool.matches(name));
            let mut page_of = JudgedPage { judged: Vec::new(), is_whole: true };
            for call in page.opened(engine.inner.store.keys(), is_wanted) {
                if over.is_it() {
                    page_of.is_whole = false;
                    break;
                }
                page_of.judged.push(judge(call, &today, &candidate));
            }
            page_of
        })
    }
}

/// When no more calls are decided.
#[derive(Clone)]
struct Over {
    at: Option<Instant>,
    is_told: Arc<AtomicBool>,
}

impl Over {
    fn is_it(&self) -> bool {
        self.is_told.load(Ordering::Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

/// What came of the calls of a page, or of those that there was time for.
struct JudgedPage {
    judged: Vec<Judged>,
    is_whole: bool,
}

/// What came of one past call.
enum Judged {
    Decided(Compared),
    Not(Opened),
}

impl Judged {
    fn asked_at(&self) -> Option<i64> {
        match self {
            Judged::Decided(compared) => Some(compared.call.asked_at),
            Judged::Not(_) => None,
        }
    }

    fn add_to(self, tally: &mut Tally) {
        let call = match self {
            Judged::Decided(compared) => return tally.add(compared),
            Judged::Not(call) => call,
        };
        let (not_decided, examples) = tally.not_decided();
        match &call {
            Opened::Erased { id } => not_decided.erased.add(id.as_str(), examples),
            Opened::NotKept { id } => not_decided.not_kept.add(id.as_str(), examples),
            Opened::Altered { id } => not_decided.altered.add(id, examples),
            Opened::Whole(_) => {}
        }
    }
}

fn judge(call: Opened, today: &Court, candidate: &Court) -> Judged {
    let Opened::Whole(row) = call else { return Judged::Not(call) };
    let call = past_call(&row);
    let request = Court::request(*row);
    let (in_force, proposed) = (today.hear(&call, &request), candidate.hear(&call, &request));
    let today = Side { policy: &today.policy, tried: &in_force };
    let candidate = Side { policy: &candidate.policy, tried: &proposed };
    Judged::Decided(compare(call, &today, &candidate))
}

/// Which call it was, and what the policy of its time said.
pub(crate) fn past_call(row: &PastRow) -> PastCall {
    let said = row.said.iter().map(|(layer, says)| (layer.as_str(), says.as_str()));
    PastCall {
        call: row.id.clone(),
        agent: row.agent.clone(),
        tool: row.tool.clone(),
        asked_at: row.asked_at,
        then: Word::recorded(said, row.was_refused),
    }
}
