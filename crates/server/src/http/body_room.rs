//! Room for bodies: how long one may be, and how many bytes of them all the gate holds at once.
//!
//! It reads none, and knows nothing of what they say.
//!
//! # Invariants
//! - Whoever is not known sends little.
//! - What is read counts from its first byte until the request is answered. All agents together have so much of it, and one
//!   of them half; operators have their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::MAX_JSON_BYTES;
use tokio::sync::Semaphore;

use super::room::Holder;

/// The longest body of somebody who is not known: a name and a password, or what an authenticator says.
const LONGEST_OF_ANYONE: usize = 8 << 10;
/// How much is held of all agents, or of all operators.
const MOST_OF_ALL: usize = 4 * MAX_JSON_BYTES;
/// How much of one of them.
const MOST_OF_ONE: usize = 2 * MAX_JSON_BYTES;
/// How many long bodies are parsed at once: what is parsed is many times as large.
const PARSED_AT_ONCE: usize = 1;

/// What is held of all bodies.
pub(super) struct BodyRoom {
    held: Mutex<HashMap<Holder, usize>>,
    parsing: Semaphore,
}

/// How much one request may send.
#[derive(Clone)]
pub(super) struct Allowance {
    /// The most bytes.
    pub(super) most: usize,
    share: Option<Arc<Share>>,
}

/// What is held of one request's body, until the last clone is gone.
struct Share {
    room: Arc<BodyRoom>,
    holder: Holder,
    bytes: AtomicUsize,
}

impl Default for BodyRoom {
    fn default() -> BodyRoom {
        BodyRoom { held: Mutex::default(), parsing: Semaphore::new(PARSED_AT_ONCE) }
    }
}

impl Allowance {
    /// Of somebody who is not known.
    pub(super) fn of_anyone() -> Allowance {
        Allowance { most: LONGEST_OF_ANYONE, share: None }
    }

    /// Of a caller.
    pub(super) fn of(room: &Arc<BodyRoom>, holder: Holder) -> Allowance {
        let share = Share { room: Arc::clone(room), holder, bytes: AtomicUsize::new(0) };
        Allowance { most: MAX_JSON_BYTES, share: Some(Arc::new(share)) }
    }

    /// Takes so many bytes more. Not if there is no room for them.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.share.as_ref().is_none_or(|share| share.take(bytes))
    }

    /// Does something with a long body beside the requests of others, when its turn comes.
    pub(super) async fn parsing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = match &self.share {
            Some(share) => Some(share.room.parsing.acquire().await.ok()?),
            None => None,
        };
        tokio::task::spawn_blocking(work).await.ok()
    }
}

impl Share {
    fn take(&self, bytes: usize) -> bool {
        let mut held = self.room.held();
        let of_one = held.get(&self.holder).copied().unwrap_or_default().saturating_add(bytes);
        let is_agent = |holder: &Holder| matches!(holder, Holder::Agent(_));
        let alike = held.iter().filter(|(holder, _)| is_agent(holder) == is_agent(&self.holder));
        let of_all = alike.map(|(_, bytes)| *bytes).sum::<usize>().saturating_add(bytes);
        if of_one > MOST_OF_ONE || of_all > MOST_OF_ALL {
            return false;
        }
        held.insert(self.holder.clone(), of_one);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut held = self.room.held();
        if let Some(of_one) = held.get_mut(&self.holder) {
            *of_one = of_one.saturating_sub(bytes);
            if *of_one == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

impl BodyRoom {
    fn held(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        // Nothing in here can be half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, OperatorName};

    use super::*;

    fn agent(name: &str) -> Holder {
        Holder::Agent(AgentName::parse(name).unwrap())
    }

    #[test]
    fn one_has_half_of_the_room_all_have_all_of_it_and_operators_have_their_own() {
        let room = Arc::new(BodyRoom::default());
        let first: Vec<Allowance> = (0..2).map(|_| Allowance::of(&room, agent("one"))).collect();
        assert!(first.iter().all(|one| one.take(MAX_JSON_BYTES)));
        assert!(!Allowance::of(&room, agent("one")).take(1));
        let second = Allowance::of(&room, agent("two"));
        assert!(second.take(MOST_OF_ONE));
        assert!(!Allowance::of(&room, agent("three")).take(1));
        let me = Holder::Operator(OperatorName::parse("me").unwrap());
        assert!(Allowance::of(&room, me).take(MAX_JSON_BYTES));
        drop(second);
        assert!(Allowance::of(&room, agent("three")).take(1));
        drop(first);
        assert_eq!(room.held().len(), 0);
    }

    #[test]
    fn what_could_not_be_taken_is_not_given_back() {
        let room = Arc::new(BodyRoom::default());
        let (full, late) = (Allowance::of(&room, agent("one")), Allowance::of(&room, agent("one")));
        assert!(full.take(MOST_OF_ONE));
        assert!(!late.take(MAX_JSON_BYTES));
        drop(late);
        assert!(!Allowance::of(&room, agent("one")).take(1));
    }
}
