//! Which worker a call gets: one that waits, a new one while there may be more, or one that has room.
//!
//! Talks to no worker but to ask whether it is well.
//!
//! # Invariants
//! - For one key there are never more than [`Pool::lanes`] workers in the table, and never more questions than they have
//!   room for: whoever comes then waits, in the order of coming.
//! - What is not in the table any more is given to nobody; it ends with the last call that has it.
//! - Only what nobody has is taken out for its age, its waiting or its number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use policy::WorkspaceAccess;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::lease::Lease;
use crate::lifecycle::Lifecycle;
use crate::surroundings::Owner;

/// How many questions one worker has room for. The second makes the way there and back free; more save little, and
/// wait for one another.
const ROOM: u32 = 4;
/// How long a worker that waits may take to say that it is well.
const WELL_WITHIN: Duration = Duration::from_secs(5);

/// For what a worker is good.
///
/// ATTACK(lease-of-another): every part of it must be the same for a call to get a worker that served another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    owner: Owner,
    root: PathBuf,
    /// Which directory that is, whatever takes its name later.
    identity: (u64, u64),
    access: WorkspaceAccess,
}

impl Key {
    pub(super) fn of(owner: Owner, root: &Path, access: WorkspaceAccess) -> Option<Key> {
        let status = std::fs::symlink_metadata(root).ok()?;
        Some(Key { owner, root: root.to_owned(), identity: (status.dev(), status.ino()), access })
    }
}

/// How much of a worker a question takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Others may wait behind it.
    Brief,
    /// All of it.
    Alone,
}

impl Share {
    fn room(self) -> u32 {
        match self {
            Share::Brief => 1,
            Share::Alone => ROOM,
        }
    }
}

/// The workers that are kept, and who looks after them.
#[derive(Debug)]
pub(crate) struct Pool {
    lifecycle: Lifecycle,
    /// How many workers there are for one key, at most.
    lanes: usize,
    lines: Mutex<HashMap<Key, Line>>,
    reaper: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The workers of one key, and those who wait for one.
#[derive(Debug)]
struct Line {
    /// Room that nobody has.
    turns: Arc<Semaphore>,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    lease: Arc<Lease>,
    /// How much of it is taken.
    load: u32,
    /// When the last call let go of it.
    since: Instant,
    /// When it was last known to be well.
    well: Instant,
    /// Whether nobody has it but whoever asks whether it is well.
    is_examined: bool,
}

impl Place {
    fn waits(&self) -> bool {
        self.load == 0 && self.is_usable()
    }

    fn is_usable(&self) -> bool {
        self.lease.is_started() && self.lease.is_open()
    }
}

impl Pool {
    pub(crate) fn new(lifecycle: Lifecycle) -> Pool {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lanes = processors.saturating_mul(2).clamp(2, 16);
        Pool { lifecycle, lanes, lines: Mutex::default(), reaper: Mutex::default() }
    }

    pub(crate) fn owner_of(&self, caller: &Owner) -> Option<Owner> {
        self.lifecycle.owner_of(caller)
    }

    /// How many wait for a call.
    pub(crate) fn waiting(&self) -> usize {
        let is_kept = |place: &&Place| place.waits() || place.is_examined && place.is_usable();
        self.lock().values().flat_map(|line| &line.places).filter(is_kept).count()
    }

    /// How many there are.
    pub(crate) fn held(&self) -> usize {
        self.lock().values().map(|line| line.places.len()).sum()
    }

    /// Takes room on a worker, in the order of coming. Dropping the future gives up the turn.
    pub(super) async fn take(self: &Arc<Pool>, key: &Key, share: Share) -> Taken {
        let turns = Arc::clone(&self.line(&mut self.lock(), key).turns);
        // It is never closed; a turn that there is none of would be one too many at worst.
        let turn = turns.acquire_many_owned(share.room()).await.ok();
        let (lease, gone) = self.pick(key, share);
        drop(gone);
        self.look_after();
        Taken { pool: Arc::clone(self), key: key.clone(), lease, room: share.room(), why: Why::Call, turn }
    }

    fn pick(&self, key: &Key, share: Share) -> (Arc<Lease>, Vec<Place>) {
        let mut lines = self.lock();
        let line = self.line(&mut lines, key);
        let is_over = |place: &mut Place| !place.lease.is_open() || place.lease.age() >= Lifecycle::LIFE;
        let gone = line.places.extract_if(.., is_over).collect();
        // The one that waits the shortest: its files are the likeliest to be in memory.
        let waiting = line.places.iter_mut().filter(|place| place.waits()).max_by_key(|place| place.since);
        if let Some(place) = waiting {
            place.load += share.room();
            return (Arc::clone(&place.lease), gone);
        }
        if line.places.len() >= self.lanes {
            // INVARIANT(room-for-a-turn): turns are as many as there is room, so the emptiest has room for whoever has one.
            let emptiest = |place: &&mut Place| (place.load >= ROOM, !place.lease.is_started(), place.load);
            // INVARIANT(writes-alone): nothing is behind a write, and no write is behind anything.
            let may_share = |place: &&mut Place| key.access != WorkspaceAccess::Write || place.load == 0;
            if let Some(place) = line.places.iter_mut().filter(may_share).min_by_key(emptiest) {
                place.load += share.room();
                return (Arc::clone(&place.lease), gone);
            }
        }
        let (lease, now) = (Arc::new(Lease::new()), Instant::now());
        line.places.push(Place {
            lease: Arc::clone(&lease),
            load: share.room(),
            since: now,
            well: now,
            is_examined: false,
        });
        (lease, gone)
    }

    fn line<'a>(&self, lines: &'a mut HashMap<Key, Line>, key: &Key) -> &'a mut Line {
        match lines.entry(key.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                let turns = Arc::new(Semaphore::new(self.lanes * ROOM as usize));
                place.insert(Line { turns, places: Vec::new() })
            }
        }
    }

    /// Lets go of a worker. What is returned is to be dropped outside of the lock.
    fn let_go(&self, taken: &Taken) -> Vec<Place> {
        let mut lines = self.lock();
        let now = Instant::now();
        let Some(line) = lines.get_mut(&taken.key) else { return Vec::new() };
        if let Some(place) = line.places.iter_mut().find(|place| Arc::ptr_eq(&place.lease, &taken.lease)) {
            place.load = place.load.saturating_sub(taken.room);
            place.well = now;
            match taken.why {
                Why::Call => place.since = now,
                Why::Health => place.is_examined = false,
            }
        }
        // One that was never started, or has ended, or is old.
        let is_over =
            |place: &mut Place| place.load == 0 && (!place.waits() || place.lease.age() >= Lifecycle::LIFE);
        let mut gone: Vec<Place> = line.places.extract_if(.., is_over).collect();
        let held = || lines.values().map(|line| line.places.len()).sum::<usize>();
        // Counted only where there can be so many.
        if lines.len() * self.lanes > self.lifecycle.most && held() > self.lifecycle.most {
            gone.extend(longest_waiting(&mut lines));
        }
        gone
    }

    /// Ends those that are kept for some. Those at work end with their call.
    pub(crate) fn forget(&self, which: impl Fn(&Owner) -> bool) {
        let mut gone = Vec::new();
        // Whoever waits for a turn there gets it, and a new worker.
        for (_, line) in self.lock().iter_mut().filter(|(key, _)| which(&key.owner)) {
            gone.append(&mut line.places);
        }
        drop(gone);
    }

    /// Ends those that have waited long enough.
    fn expire(&self) {
        let mut gone = Vec::new();
        let mut lines = self.lock();
        lines.retain(|key, line| {
            let patience = self.lifecycle.patience(&key.owner);
            let is_over = |place: &mut Place| {
                place.load == 0 && (place.since.elapsed() >= patience || place.lease.age() >= Lifecycle::LIFE)
            };
            gone.extend(line.places.extract_if(.., is_over));
            // Whoever waits for a turn has the turns, too.
            !line.places.is_empty() || Arc::strong_count(&line.turns) > 1
        });
        drop(lines);
        drop(gone);
    }

    /// Those whose health nobody has heard of for too long, taken so that nobody else gets them meanwhile.
    fn take_unheard(self: &Arc<Pool>) -> Vec<Taken> {
        let mut taken = Vec::new();
        for (key, line) in self.lock().iter_mut() {
            for place in &mut line.places {
                let is_due = place.waits() && place.well.elapsed() >= self.lifecycle.health;
                if !is_due {
                    continue;
                }
                // No turn to be had: all of them are busy, and this one next.
                let Ok(turn) = Arc::clone(&line.turns).try_acquire_many_owned(ROOM) else { continue };
                (place.load, place.is_examined) = (ROOM, true);
                let (pool, key, lease) = (Arc::clone(self), key.clone(), Arc::clone(&place.lease));
                taken.push(Taken { pool, key, lease, room: ROOM, why: Why::Health, turn: Some(turn) });
            }
        }
        taken
    }

    /// When to look again.
    fn next_look(&self) -> Duration {
        let Lifecycle { grace, idle, health, .. } = self.lifecycle;
        let soonest = grace.min(idle).min(health);
        let waits = |(key, place): (&Key, &Place)| {
            let patience = self.lifecycle.patience(&key.owner).saturating_sub(place.since.elapsed());
            patience.min(health.saturating_sub(place.well.elapsed()))
        };
        let lines = self.lock();
        let places = lines.iter().flat_map(|(key, line)| line.places.iter().map(move |place| (key, place)));
        let next = places.filter(|(_, place)| place.load == 0).map(waits).min();
        next.unwrap_or(soonest).min(soonest) + Duration::from_millis(10)
    }

    /// INVARIANT(idle-worker-ends): whoever takes one sees to it that somebody looks after it.
    fn look_after(self: &Arc<Pool>) {
        let mut reaper = self.reaper.lock().unwrap_or_else(PoisonError::into_inner);
        if reaper.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            *reaper = Some(AbortOnDropHandle::new(tokio::spawn(reap(Arc::downgrade(self)))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out the one that waits longest, if any waits.
fn longest_waiting(lines: &mut HashMap<Key, Line>) -> Option<Place> {
    let waiting = |line: &&mut Line| line.places.iter().any(Place::waits);
    let oldest =
        |line: &Line| line.places.iter().filter(|place| place.waits()).map(|place| place.since).min();
    let line = lines.values_mut().filter(waiting).min_by_key(|line| oldest(line))?;
    let since = oldest(line)?;
    let at = line.places.iter().position(|place| place.waits() && place.since == since)?;
    Some(line.places.swap_remove(at))
}

/// Room on a worker. Dropping it lets others have it.
#[derive(Debug)]
pub(super) struct Taken {
    pool: Arc<Pool>,
    key: Key,
    lease: Arc<Lease>,
    room: u32,
    why: Why,
    /// Given back last, when the room is.
    turn: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Call,
    Health,
}

impl Taken {
    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let gone = self.pool.let_go(self);
        drop(gone);
        drop(self.turn.take());
    }
}

/// Looks after those that wait, as long as there is a pool.
async fn reap(pool: Weak<Pool>) {
    while let Some(next) = pool.upgrade().map(|pool| pool.next_look()) {
        tokio::time::sleep(next).await;
        let mut asked = JoinSet::new();
        if let Some(pool) = pool.upgrade() {
            pool.expire();
            for taken in pool.take_unheard() {
                // One that does not answer is ended by being given up. The next call starts another in its place.
                asked.spawn(async move {
                    let _ = tokio::time::timeout(WELL_WITHIN, taken.lease().ask(&[])).await;
                });
            }
        }
        while asked.join_next().await.is_some() {}
    }
}
