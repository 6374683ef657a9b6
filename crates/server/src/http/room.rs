//! Room for connections: nobody who only sits there keeps another out.
//!
//! On loopback every peer has one address, so that places cannot be shared out by it. Instead a place is kept only by
//! somebody who is known and whose request is being answered; everybody else gives it up to whoever comes next.
//!
//! # Invariants
//! - A connection without an admitted request under way is the first to go when there is no room, the oldest first.
//! - One caller has so many requests under way at a time, and no more.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many connections there can be at once.
pub(super) const MOST_CONNECTIONS: usize = 256;
/// How many requests of one caller can be under way at once.
pub(super) const MOST_AT_ONCE: usize = 64;

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
    under_way: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Place {
    leave: CancellationToken,
    /// Requests under way on it; HTTP/1.1 has one at a time, and what follows events stays one.
    held: usize,
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
    caller: String,
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
            let idle = places.taken.iter().find(|(_, place)| place.held == 0).map(|(number, _)| *number)?;
            places.taken.remove(&idle)?.leave.cancel();
        }
        let number = places.next;
        places.next += 1;
        let leave = CancellationToken::new();
        places.taken.insert(number, Place { leave: leave.clone(), held: 0 });
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

    /// Keeps the place for a request of this caller, unless there are too many of them.
    pub(super) fn hold(&self, caller: &str) -> Option<Held> {
        let mut places = self.0.room.lock();
        let under_way = places.under_way.entry(caller.to_owned()).or_default();
        if *under_way >= MOST_AT_ONCE {
            return None;
        }
        *under_way += 1;
        if let Some(place) = places.taken.get_mut(&self.0.number) {
            place.held += 1;
        }
        Some(Held { seat: self.clone(), caller: caller.to_owned() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let taken = &self.seat.0;
        let mut places = taken.room.lock();
        if let Some(place) = places.taken.get_mut(&taken.number) {
            place.held = place.held.saturating_sub(1);
        }
        if let Some(under_way) = places.under_way.get_mut(&self.caller) {
            *under_way = under_way.saturating_sub(1);
            if *under_way == 0 {
                places.under_way.remove(&self.caller);
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

    #[tokio::test]
    async fn whoever_sits_there_longest_without_a_request_leaves_first() {
        let room = Room::default();
        let mut seats = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            seats.push(room.take().await);
        }
        let _served = seats[0].hold("builder").unwrap();
        let _newcomer = room.take().await;
        let gone: Vec<usize> = (0..seats.len()).filter(|at| seats[*at].0.leave.is_cancelled()).collect();
        assert_eq!(gone, [1], "the first is being served");
    }

    #[tokio::test]
    async fn where_everybody_is_served_a_newcomer_waits_for_one_to_end() {
        let room = Room::default();
        let seats: Vec<Seat> = (0..MOST_CONNECTIONS).map(|_| room.try_take().unwrap()).collect();
        let held: Vec<Held> = seats
            .iter()
            .enumerate()
            .map(|(at, seat)| seat.hold(&format!("agent {}", at / 60)).unwrap())
            .collect();
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
        let held: Vec<Held> = (0..MOST_AT_ONCE).map(|_| seat.hold("builder").unwrap()).collect();
        assert!(seat.hold("builder").is_none());
        assert!(seat.hold("tester").is_some(), "another is not kept out");
        drop(held);
        assert!(seat.hold("builder").is_some());
        assert!(room.lock().under_way.is_empty());
    }
}
