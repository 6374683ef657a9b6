//! Tools that come and go while the gate runs: each source of them replaces its own, all at once.
//!
//! It asks nobody what they offer, and judges no definition: whoever brings tools has made contracts of them.
//!
//! # Invariants
//! - A call goes on with the catalogue that it was admitted with. Once [`Engine::replace_source`] has returned, nothing is
//!   recorded as begun that a catalogue before had and the new one has not, or has otherwise: that is admitted anew.
//! - No tool takes the name of one of our own or of another source, nor one that could be taken for it.
//! - What is listed is registered first, every version; what is refused is told in the ledger, once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use contract::{Category, SourceName, ToolName};
use store::{RegisterError, Stances, StoreError, ToolRow};
use tokio::sync::watch;
use tools::Tool;

use crate::catalogue::{Catalogue, CatalogueError, Listed, SetByOperators, is_reserved};
use crate::engine::Engine;
use crate::guards::{CatalogueGuard, Guards};

/// As many refusals of one source as are told one by one.
const MOST_TOLD: usize = 1000;
/// As much of a reason as is kept.
const LONGEST_WHY: usize = 512;

/// Holds the catalogue of the moment, and says when it is another.
pub(crate) struct Shelf {
    now: RwLock<Arc<Catalogue>>,
    /// Changes come one after the other.
    changing: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    /// What was refused of each source, and is not told again.
    told: Mutex<BTreeMap<SourceName, HashSet<(String, String)>>>,
    timeouts: BTreeMap<Category, Duration>,
    pub(crate) guards: Guards,
}

/// A tool that a source offers and that is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotListed {
    /// What the source calls it.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// What became of the tools of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Those that are listed now.
    pub listed: Vec<ToolName>,
    /// Those that are not.
    pub refused: Vec<NotListed>,
}

impl Shelf {
    pub(crate) fn of(catalogue: Catalogue, timeouts: BTreeMap<Category, Duration>) -> Shelf {
        Shelf {
            now: RwLock::new(Arc::new(catalogue)),
            changing: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
            told: Mutex::default(),
            timeouts,
            guards: Guards::default(),
        }
    }

    pub(crate) fn now(&self) -> Arc<Catalogue> {
        // Nothing panics with it in hand.
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of these that nobody was told of yet.
    fn untold(&self, source: &SourceName, refused: &[NotListed]) -> Vec<(String, String)> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.entry(source.clone()).or_default();
        let shown = |text: &str| contract::show_hidden(text).chars().take(LONGEST_WHY).collect::<String>();
        let mut untold = Vec::new();
        for one in refused.iter().map(|one| (shown(&one.name), shown(&one.why))) {
            // ATTACK(endless-names): a source can have a new name refused each time, and the ledger is forever.
            let one = match told.len() < MOST_TOLD || told.contains(&one) {
                true => one,
                false => ("(others)".to_owned(), format!("{MOST_TOLD} of this source are told of already")),
            };
            if told.insert(one.clone()) {
                untold.push(one);
            }
        }
        untold
    }
}

impl Engine {
    /// The catalogue that this handle sees: the one it holds, else that of the moment.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        match &self.held {
            Some(held) => Arc::clone(&held.catalogue),
            None => self.inner.shelf.now(),
        }
    }

    /// Whether a tool is listed otherwise by now than this handle sees it.
    pub(crate) fn is_listed_anew(&self, tool: &str) -> bool {
        let held = self.held.as_ref().map(|held| &held.catalogue);
        held.is_some_and(|held| !held.lists_as(&self.inner.shelf.now(), tool))
    }

    /// Counts the changes of what tools there are. Whoever tells clients waits for the next.
    pub fn catalogue_changes(&self) -> watch::Receiver<u64> {
        self.inner.shelf.changes.subscribe()
    }

    /// The names of the tools that come from a source.
    pub fn tools_of_source(&self, source: &SourceName) -> Vec<ToolName> {
        self.catalogue().of_source(source).map(|listed| listed.facts.name.clone()).collect()
    }

    /// Puts these tools in the place of all that came from a source before. `unfit` is what it offers and no contract could
    /// be made of, for the record.
    pub async fn replace_source(
        &self,
        source: &SourceName,
        tools: Vec<Arc<dyn Tool>>,
        unfit: Vec<NotListed>,
    ) -> Result<Imported, StoreError> {
        let shelf = &self.inner.shelf;
        let _changing = shelf.changing.lock().await;
        let before = shelf.now();
        let mut next = before.without(source);
        let mut refused = unfit;
        let mut fitting = Vec::new();
        for tool in tools {
            let name = tool.contract().name();
            let taken = if is_reserved(name) {
                Err(CatalogueError::Duplicate { name: name.clone() })
            } else {
                next.reserve(name)
            };
            match taken {
                Ok(()) => fitting.push(tool),
                Err(error) => refused
                    .push(NotListed { name: tool.contract().name().to_string(), why: error.to_string() }),
            }
        }
        let rows: Vec<ToolRow> = fitting.iter().map(|tool| ToolRow::of(tool.contract())).collect();
        let registered = self.inner.store.register_from(source, &rows, self.now()).await?;
        let not_taken = |(name, why): &(ToolName, RegisterError)| match why {
            // All of them are told as one.
            RegisterError::TooMany { .. } => {
                NotListed { name: "(new names)".to_owned(), why: why.to_string() }
            }
            _ => NotListed { name: name.to_string(), why: why.to_string() },
        };
        refused.extend(registered.refused.iter().map(not_taken));
        refused.dedup();
        let taken: BTreeSet<&ToolName> = registered.refused.iter().map(|(name, _)| name).collect();
        // After they were registered: that may have suspended some.
        next = next.believing(&self.inner.store.stances().await?);
        let others = before.without(source).names();
        for tool in fitting.into_iter().filter(|tool| !taken.contains(tool.contract().name())) {
            let Some(state) = registered.states.get(tool.contract().name()) else { continue };
            let set = SetByOperators { status: state.status, requires_approval: state.requires_approval };
            let stance = next.stances.of(tool.contract().name());
            let stance = shelf.guards.believed(stance, tool.contract().hash());
            let mut listed = Listed::of(tool, set, &shelf.timeouts).brought_by(source, &stance);
            if shelf.guards.stands(CatalogueGuard::Neighbours) {
                listed.notice(&others);
            }
            next.put(listed);
        }
        next.registered = Arc::new(registered.states.into_keys().collect());
        let untold = shelf.untold(source, &refused);
        if !untold.is_empty() {
            self.inner.store.record_refused_tools(source, &untold, self.now()).await?;
        }
        let listed = next.of_source(source).map(|listed| listed.facts.name.clone()).collect();
        self.publish(next).await;
        Ok(Imported { listed, refused })
    }

    /// Takes in what operators have said of tools. Whether that was news.
    pub(crate) async fn believe(&self, stances: Arc<Stances>) -> bool {
        if self.inner.shelf.now().stances == stances {
            return false;
        }
        let _changing = self.inner.shelf.changing.lock().await;
        let now = self.inner.shelf.now();
        if now.stances != stances {
            self.publish(now.believing(&stances)).await;
        }
        true
    }

    /// Whether a tool of a source could have a name: nothing that is listed has it or looks like it, and the registry has it
    /// for nobody else.
    pub(crate) async fn is_free_for(&self, source: &SourceName, name: &ToolName) -> Result<bool, StoreError> {
        if !self.inner.shelf.now().is_free_for(source, name) {
            return Ok(false);
        }
        let known = self.inner.store.tool(name).await?;
        Ok(known.is_none_or(|row| row.source.as_ref() == Some(source)))
    }

    /// Puts another catalogue in the place of the one before. Whoever has looked at that already records first.
    async fn publish(&self, next: Catalogue) {
        let nobody_records = self.nobody_records().await;
        *self.inner.shelf.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        drop(nobody_records);
        self.inner.shelf.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_source_that_has_ever_new_names_refused_there_is_an_end_to_what_is_told() {
        let shelf = Shelf::of(Catalogue::default(), BTreeMap::new());
        let (one, other) = (SourceName::parse("mcp:one").unwrap(), SourceName::parse("mcp:other").unwrap());
        let refused = |from: usize, count: usize| -> Vec<NotListed> {
            (from..from + count).map(|n| NotListed { name: format!("t{n}"), why: "odd".to_owned() }).collect()
        };
        assert_eq!(shelf.untold(&one, &refused(0, 600)).len(), 600);
        assert_eq!(shelf.untold(&one, &refused(0, 600)).len(), 0);
        let last = shelf.untold(&one, &refused(600, 2000));
        assert_eq!(last.len(), 401);
        assert_eq!(last.last().map(|(name, _)| name.as_str()), Some("(others)"));
        assert_eq!(shelf.untold(&one, &refused(5000, 2000)).len(), 0);
        assert_eq!(shelf.untold(&other, &refused(0, 5)).len(), 5);
    }
}
