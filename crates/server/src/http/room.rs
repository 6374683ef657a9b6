//! Room for connections: nobody who only sits there keeps another out.
//!
//! On loopback every peer has one address, so that places cannot be shared out by it. Instead a place is kept only by
//! somebody who is known and whose request is being answered; everybody else gives it up to whoever comes next.
//!
//! # Invariants
//! - A connection without an admitted request under way is the first to go when there is no room, the oldest first; one
//!   on which an operator was answered before goes last.
//! - One caller has so many requests under way at a time, and no more.
//! - All agents together, and all who follow events, leave places to whoever decides.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::{AgentName, OperatorName};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many connections there can be at once.
pub(super) const MOST_CONNECTIONS: usize = 448;
/// How many requests of all agents together can be under way at once. The rest of the places is for operators.
pub(super) const MOST_OF_AGENTS: usize = 192;
/// How many requests of one agent can be under way at once.
pub(super) const MOST_AT_ONCE: usize = 64;
/// How many of one operator: fewer than are kept for all of them beside those who follow events.
pub(super) const MOST_OF_AN_OPERATOR: usize = 48;

/// All places.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    places: Mutex<Places>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, Place>,
    /// Requests under way, by caller.
    under_way: HashMap<Holder, usize>,
}

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Agent(AgentName),
    Operator(OperatorName),
}

/// Why a request does not get its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// So many of the same caller are under way.
    TooMany { most: usize },
    /// All places for agents are taken.
    Full,
}

/// Who was last answered on a connection. Whoever comes first here leaves first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Guest {
    #[default]
    Unknown,
    Agent,
    Operator,
}

#[derive(Debug, Default)]
struct Place {
    leave: CancellationToken,
    /// Requests under way on it; HTTP/1.1 has one at a time, and what follows events stays one.
    held: usize,
    guest: Guest,
}

/// A connection's own place. When the last clone is gone, the place is free.
#[derive(Clone, Debug)]
pub(super) struct Seat(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    room: Room,
    number: u64,
    leave: CancellationToken,
}

/// A request under way. While there is one, its place is kept.
#[derive(Debug)]
pub(super) struct Held {
    seat: Seat,
    holder: Holder,
}

impl Room {
    /// A place for a new connection. Where there is none, somebody who only sits there leaves.
    pub(super) async fn take(&self) -> Seat {
        loop {
            let freed = self.0.freed.notified();
            if let Some(seat) = self.try_take() {
                return seat;
            }
            // Everybody is being served.
            freed.await;
        }
    }

    fn try_take(&self) -> Option<Seat> {
        let mut places = self.lock();
        if places.taken.len() >= MOST_CONNECTIONS {
            // ATTACK(unread-connections): connections that say nothing would otherwise be all there are.
            let idle = places.taken.iter().filter(|(_, place)| place.held == 0);
            let first =
                idle.min_by_key(|(number, place)| (place.guest, **number)).map(|(number, _)| *number)?;
            places.taken.remove(&first)?.leave.cancel();
        }
        let number = places.next;
        places.next += 1;
        let leave = CancellationToken::new();
        places.taken.insert(number, Place { leave: leave.clone(), ..Place::default() });
        Some(Seat(Arc::new(Taken { room: self.clone(), number, leave })))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Whoever panicked with it in hand has left it whole.
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Returns when somebody else needs the place.
    pub(super) async fn leave(&self) {
        self.0.leave.cancelled().await;
    }

    /// Keeps the place for a request of this caller, unless there are too many.
    pub(super) fn hold(&self, holder: Holder) -> Result<Held, NoPlace> {
        let mut places = self.0.room.lock();
        let under_way = places.under_way.get(&holder).copied().unwrap_or_default();
        let guest = match &holder {
            Holder::Agent(_) if under_way >= MOST_AT_ONCE => {
                return Err(NoPlace::TooMany { most: MOST_AT_ONCE });
            }
            // ATTACK(agents-fill-the-room): those who decide would wait behind those who wait for them.
            Holder::Agent(_) if places.of_agents() >= MOST_OF_AGENTS => return Err(NoPlace::Full),
            Holder::Agent(_) => Guest::Agent,
            Holder::Operator(_) if under_way >= MOST_OF_AN_OPERATOR => {
                return Err(NoPlace::TooMany { most: MOST_OF_AN_OPERATOR });
            }
            Holder::Operator(_) => Guest::Operator,
        };
        places.under_way.insert(holder.clone(), under_way + 1);
        if let Some(place) = places.taken.get_mut(&self.0.number) {
            place.held += 1;
            place.guest = guest;
        }
        Ok(Held { seat: self.clone(), holder })
    }
}

impl Places {
    fn of_agents(&self) -> usize {
        let agents = self.under_way.iter().filter(|(holder, _)| matches!(holder, Holder::Agent(_)));
        agents.map(|(_, under_way)| *under_way).sum()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let taken = &self.seat.0;
        let mut places = taken.room.lock();
        if let Some(place) = places.taken.get_mut(&taken.number) {
            place.held = place.held.saturating_sub(1);
        }
        if let Some(under_way) = places.under_way.get_mut(&self.holder) {
            *under_way = under_way.saturating_sub(1);
            if *under_way == 0 {
                places.under_way.remove(&self.holder);
            }
        }
        drop(places);
        taken.room.0.freed.notify_one();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.lock().taken.remove(&self.number);
        self.room.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Holder {
        Holder::Agent(AgentName::parse(name).unwrap())
    }

    fn operator(name: &str) -> Holder {
        Holder::Operator(OperatorName::parse(name).unwrap())
    }

    #[tokio::test]
    async fn whoever_sits_there_longest_without_a_request_leaves_first() {
        let room = Room::default();
        let mut seats = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            seats.push(room.take().await);
        }
        let _served = seats[0].hold(agent("builder")).unwrap();
        drop(seats[1].hold(operator("me")).unwrap());
        let _newcomer = room.take().await;
        let gone: Vec<usize> = (0..seats.len()).filter(|at| seats[*at].0.leave.is_cancelled()).collect();
        assert_eq!(gone, [2], "the first is being served, and the second was an operator's");
    }

    #[tokio::test]
    async fn where_everybody_is_served_a_newcomer_waits_for_one_to_end() {
        let room = Room::default();
        let seats: Vec<Seat> = (0..MOST_CONNECTIONS).map(|_| room.try_take().unwrap()).collect();
        let holder = |at: usize| match at < MOST_OF_AGENTS {
            true => agent(&format!("agent-{}", at / 60)),
            false => operator(&format!("operator-{}", at / 30)),
        };
        let held: Vec<Held> =
            seats.iter().enumerate().map(|(at, seat)| seat.hold(holder(at)).unwrap()).collect();
        assert!(room.try_take().is_none());
        let waiting = tokio::spawn({
            let room = room.clone();
            async move { room.take().await }
        });
        drop(held);
        waiting.await.unwrap();
    }

    #[test]
    fn one_caller_has_so_many_requests_under_way_and_no_more() {
        let room = Room::default();
        let seat = room.try_take().unwrap();
        let held: Vec<Held> = (0..MOST_AT_ONCE).map(|_| seat.hold(agent("builder")).unwrap()).collect();
        assert_eq!(seat.hold(agent("builder")).unwrap_err(), NoPlace::TooMany { most: MOST_AT_ONCE });
        assert!(seat.hold(agent("tester")).is_ok(), "another is not kept out");
        drop(held);
        assert!(seat.hold(agent("builder")).is_ok());
        assert!(room.lock().under_way.is_empty());
    }

    #[test]
    fn however_many_agents_there_are_they_leave_room_for_operators() {
        let room = Room::default();
        let seats: Vec<Seat> = (0..MOST_CONNECTIONS).map(|_| room.try_take().unwrap()).collect();
        let name = |at: usize| agent(&format!("agent-{}", at / MOST_AT_ONCE));
        let held: Vec<Held> =
            seats.iter().enumerate().filter_map(|(at, seat)| seat.hold(name(at)).ok()).collect();
        assert_eq!(held.len(), MOST_OF_AGENTS);
        assert_eq!(seats[255].hold(agent("another")).unwrap_err(), NoPlace::Full);
        let newcomers: Vec<Seat> =
            (0..MOST_CONNECTIONS - MOST_OF_AGENTS).map(|_| room.try_take().unwrap()).collect();
        for (at, newcomer) in newcomers.iter().enumerate().take(2 * MOST_OF_AN_OPERATOR) {
            let held = newcomer.hold(operator(&format!("operator-{}", at / MOST_OF_AN_OPERATOR)));
            assert!(held.is_ok(), "{at}");
        }
    }
}
