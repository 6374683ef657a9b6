//! Sandboxes that wait for a plan, each good for one run.
//!
//! The gate's side of a keeper: it asks for sandboxes ahead of time, so that the kernel has made the namespaces and mounts
//! of the next run before anybody asks for it.
//!
//! # Invariants
//! - What waits is used once, by the run that takes it, and never comes back.
//! - A keeper or a waiting sandbox that has died or hangs is noticed and replaced; only a run that has just taken it can
//!   fail. A run that finds nobody waiting gets a sandbox made at once, from the same code: slower, and not weaker.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::helper::{Helper, HelperError, Kept, Line, Request, Response, Running, is_said_in_place};
use crate::keeper::ZYGOTE_ARGUMENT;
use crate::lasting;
use crate::launch::processors;
use crate::orders::send;
use crate::plan::Plan;

/// How many wait before anybody has asked for more at once: one, and one while another is made.
const FEWEST: usize = 2;
/// For each processor, how many wait at most.
const MOST_PER_PROCESSOR: usize = 4;
/// After this long a waiting sandbox is made anew: small files of the system are copied when it is built.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// How many places are remembered: a sandbox waits in each of those in which plans were run last, if that was more than once.
const PLACES: usize = 2;
/// How long: a file system that somebody takes off the host is held as long.
const LONGEST_IN_PLACE: Duration = Duration::from_secs(60);
/// What takes longer to be built is not waited for: somebody has stopped it.
const LONGEST_BUILDING: Duration = Duration::from_secs(10);
/// What is to be made when a run is over counts for this long, as if it were made already: most runs are short.
const SHORT_RUN: Duration = Duration::from_millis(50);
/// After this long without need, fewer wait.
const CALM: Duration = Duration::from_secs(60);
/// As much as a socket takes before anybody reads.
const SENT_AT_ONCE: usize = 64 * 1024;
/// How long a keeper that was hung up on is waited for.
const ENDED_WITHIN: Duration = Duration::from_secs(2);
/// How often that is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Starts runs in sandboxes that wait.
#[derive(Debug)]
pub struct Warm {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    helper: Helper,
    waiting: Mutex<Waiting>,
    keeper: Mutex<Option<Keeper>>,
    /// Keepers that take no more orders.
    retired: Mutex<Vec<Child>>,
    refilling: Mutex<()>,
}

#[derive(Debug)]
struct Keeper {
    child: Child,
    control: UnixStream,
}

/// Where a sandbox waits, or will.
#[derive(Debug)]
struct WaitingLine {
    channel: UnixStream,
    since: Instant,
    made: Made,
    /// A plan in whose place it stands, if that was possible. It is used for one like it and nothing else.
    expects: Option<Arc<Plan>>,
    /// What it was at the last look.
    state: State,
}

/// When it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// As soon as it was ordered.
    AtOnce,
    /// By whoever serves a run, when that is over.
    AfterARun,
}

#[derive(Debug)]
struct Waiting {
    lines: VecDeque<WaitingLine>,
    /// How many should wait.
    wanted: usize,
    /// When there were last too few.
    missed: Instant,
    /// The last plans of different places, the newest first.
    recent: VecDeque<Arc<Plan>>,
    /// A line for the next one, made while nobody waited for that.
    spare: Option<(UnixStream, UnixStream)>,
}

/// What is known of a waiting sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Building,
    Ready,
    Gone,
}

impl Warm {
    /// For a process that lives on. The first sandboxes are made at once, beside whatever it does next.
    pub fn new(helper: Helper) -> Warm {
        let waiting = Waiting::new(Instant::now());
        let inner = Arc::new(Inner {
            helper,
            keeper: Mutex::default(),
            retired: Mutex::default(),
            waiting: Mutex::new(waiting),
            refilling: Mutex::default(),
        });
        inner.refill();
        let weak = Arc::downgrade(&inner);
        // Without it nobody looks after those who wait, and they are made anew when they are taken.
        let _ = thread::Builder::new().name("warm".to_owned()).spawn(move || look_after(&weak));
        Warm { inner }
    }

    /// Runs one request and waits for the answer. The sandbox ends when this process does.
    pub fn run(&self, request: &Request) -> Result<Response, HelperError> {
        let answered = self.start(request)?.wait();
        self.refill();
        answered
    }

    /// Starts one request. The sandbox ends when the handle is dropped. Whoever has waited for it calls [`Warm::refill`].
    pub fn start(&self, request: &Request) -> Result<Running, HelperError> {
        let line = self.inner.line(Some(&request.plan))?;
        let line = self.inner.waiting().going_on(line, &request.plan);
        let started = line.start(request);
        self.refill_if_empty();
        started
    }

    /// While others wait, making another one would only slow down what has just begun.
    pub fn refill_if_empty(&self) {
        if self.inner.waiting().lines.is_empty() {
            self.inner.refill();
        }
    }

    /// Makes everything ready for a plan of our own code, or of a program that waits for the word, and waits for what
    /// [`Running::give`] brings; nothing if no sandbox is ready. Does not block. Whoever has waited for it calls [`Warm::refill`].
    pub fn begin(&self, plan: &Plan) -> Option<Running> {
        // What is longer would have to be read while it is written.
        let encoded = plan.encode().ok().filter(|encoded| encoded.len() <= SENT_AT_ONCE)?;
        let mut waiting = self.inner.waiting();
        let channel = waiting.take_ready(Some(plan), Instant::now())?;
        let line = waiting.going_on(Line::new(channel, None), plan);
        drop(waiting);
        // What is said from now on is its answer.
        line.begin(&encoded).ok()
    }

    /// Whether a sandbox waits where this plan is run, with every wall around it.
    pub fn waits_in_place_of(&self, plan: &Plan) -> bool {
        let waiting = self.inner.waiting();
        waiting.lines.iter().any(|line| line.is_in_place_of(plan) && is_said_in_place(&line.channel))
    }

    /// Whether fewer wait than should.
    pub fn is_refill_due(&self) -> bool {
        let mut waiting = self.inner.waiting();
        waiting.look();
        !waiting.are_enough(Instant::now())
    }

    /// Makes what the next run needs, while one is waited for.
    pub fn foresee(&self) {
        let mut waiting = self.inner.waiting();
        if waiting.spare.is_none() {
            waiting.spare = UnixStream::pair().ok();
        }
    }

    /// Has as many wait as should: when a run is over.
    pub fn refill(&self) {
        self.inner.refill();
    }

    /// Starts a program that is talked to; see [`Helper::keep`].
    pub fn keep(&self, plan: &Plan) -> Result<Result<Kept, Response>, HelperError> {
        let kept = self.inner.line(None)?.keep(plan);
        self.inner.refill();
        kept
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Child>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sandbox for one run, perhaps of a plan like one that was run before: one that waits, else one that the keeper makes,
    /// else a process of its own.
    fn line(&self, plan: Option<&Plan>) -> Result<Line, HelperError> {
        let now = Instant::now();
        let ready = self.waiting().take_ready(plan, now);
        if let Some(channel) = ready {
            return Ok(Line::new(channel, None));
        }
        let soon = self.waiting().take_unready(now);
        let found = soon.or_else(|| self.order_one().ok());
        // Nothing is sent to one that has not said that it is there: whatever has become of the keeper, it is not lost.
        match found.filter(is_soon_ready) {
            Some(channel) => Ok(Line::new(channel, None)),
            None => self.helper.call(),
        }
    }

    /// Has as many made as should wait. What cannot be made now is tried again with the next run.
    fn refill(&self) {
        // One at a time, or together they make too many.
        let Ok(_turn) = self.refilling.try_lock() else { return };
        loop {
            let mut waiting = self.waiting();
            waiting.look();
            let are_enough = waiting.are_enough(Instant::now());
            drop(waiting);
            if are_enough {
                return;
            }
            match self.order_one() {
                Ok(channel) => self.waiting().add(channel, Made::AtOnce, None),
                Err(_) => return,
            }
        }
    }

    /// Asks the keeper for one more; a keeper that is gone, or takes no more orders, is replaced.
    fn order_one(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(living) = &*keeper
            && send(&living.control, &(), &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours);
        }
        let (child, control) =
            self.helper.spawn(ZYGOTE_ARGUMENT, Some(lasting::TOGETHER)).map_err(io::Error::other)?;
        control.set_nonblocking(true)?;
        let before = keeper.replace(Keeper { child, control });
        // It serves those who wait there until they are used, and ends then.
        self.retired().extend(before.map(|before| before.child));
        let Some(living) = &*keeper else { return Err(io::ErrorKind::NotConnected.into()) };
        send(&living.control, &(), &[theirs.as_fd()])?;
        Ok(ours)
    }
}

impl Waiting {
    fn new(now: Instant) -> Waiting {
        Waiting { lines: VecDeque::new(), wanted: FEWEST, missed: now, recent: VecDeque::new(), spare: None }
    }

    fn add(&mut self, channel: UnixStream, made: Made, expects: Option<Arc<Plan>>) {
        let (since, state) = (Instant::now(), State::Building);
        self.lines.push_back(WaitingLine { channel, since, made, expects, state });
    }

    /// Whoever serves the line has another wait when the run is over: nobody has to ask for that. Goes by what was last seen of
    /// those who wait.
    fn going_on(&mut self, line: Line, plan: &Plan) -> Line {
        let expects = self.remember(plan);
        if line.child.is_some() || (expects.is_none() && self.are_enough(Instant::now())) {
            return line;
        }
        match self.spare.take().map_or_else(UnixStream::pair, Ok) {
            Ok((ours, theirs)) => {
                let is_expected = expects.is_some();
                self.add(ours, Made::AfterARun, expects);
                Line { next: Some(theirs), expects: is_expected, ..line }
            }
            Err(_) => line,
        }
    }

    /// That a plan is run. It is given back as one to expect, if one like it was run lately and nobody waits in their place.
    fn remember(&mut self, plan: &Plan) -> Option<Arc<Plan>> {
        if !plan.has_lasting_place() {
            return None;
        }
        let known = self.recent.iter().position(|recent| recent.shares_place_with(plan));
        let is_known = known.is_some();
        let newest =
            known.and_then(|known| self.recent.remove(known)).unwrap_or_else(|| Arc::new(plan.clone()));
        self.recent.push_front(newest.clone());
        self.recent.truncate(PLACES);
        let recent = &self.recent;
        let is_recent = |place: &Arc<Plan>| recent.iter().any(|recent| Arc::ptr_eq(recent, place));
        self.lines.retain(|line| line.expects.as_ref().is_none_or(is_recent));
        let is_expected = self
            .lines
            .iter()
            .any(|line| line.expects.as_ref().is_some_and(|place| Arc::ptr_eq(place, &newest)));
        (is_known && !is_expected).then_some(newest)
    }

    /// Looks at all of them at once: each look is a system call. One that fails leaves what was known.
    fn look(&mut self) {
        let flags = PollFlags::IN | PollFlags::RDHUP;
        let mut watched: Vec<_> = self.lines.iter().map(|line| PollFd::new(&line.channel, flags)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok(_) = poll(&mut watched, Some(&now)) else { return };
        let seen: Vec<State> = watched.iter().map(|fd| State::of(fd.revents())).collect();
        self.lines.iter_mut().zip(seen).for_each(|(line, state)| line.state = state);
    }

    /// Whether as many wait, or soon will, as should, by the last look.
    fn are_enough(&self, now: Instant) -> bool {
        let counts = |line: &&WaitingLine| match line.state {
            State::Ready => true,
            State::Building => {
                line.made == Made::AtOnce || now.saturating_duration_since(line.since) < SHORT_RUN
            }
            State::Gone => false,
        };
        self.lines.iter().filter(|line| line.is_for_any()).filter(counts).count() >= self.wanted
    }

    /// One that soon will be ready. There are too few.
    fn take_unready(&mut self, now: Instant) -> Option<UnixStream> {
        self.missed = now;
        self.wanted = (self.wanted * 2).min(most());
        let soon = self.lines.iter().position(|line| line.made == Made::AtOnce && line.is_for_any())?;
        self.lines.remove(soon).map(|line| line.channel)
    }

    /// The one that is ready in this plan's place, else the one that has waited longest for any.
    fn take_ready(&mut self, plan: Option<&Plan>, now: Instant) -> Option<UnixStream> {
        self.look();
        self.lines.retain(|line| line.state == State::Building || line.is_useful(now));
        let in_place = |line: &WaitingLine| {
            line.state == State::Ready && plan.is_some_and(|plan| line.is_in_place_of(plan))
        };
        let for_any = |line: &WaitingLine| line.state == State::Ready && line.is_for_any();
        let first = self.lines.iter().position(in_place).or_else(|| self.lines.iter().position(for_any))?;
        self.lines.remove(first).map(|line| line.channel)
    }

    /// Those that died, those that have waited for too long, and those that never come to be.
    fn drop_useless(&mut self, now: Instant) {
        self.look();
        self.lines.retain(|line| line.is_useful(now));
        let is_ready = |line: &WaitingLine| line.state == State::Ready && line.is_for_any();
        let mut surplus = self.lines.iter().filter(|line| is_ready(line)).count().saturating_sub(self.wanted);
        self.lines.retain(|line| {
            let stays = surplus == 0 || !is_ready(line);
            surplus -= usize::from(!stays);
            stays
        });
    }

    /// Fewer, if so many were not needed for a while.
    fn calm_down(&mut self, now: Instant) {
        if now.saturating_duration_since(self.missed) >= CALM {
            self.missed = now;
            self.wanted = (self.wanted / 2).max(FEWEST);
            self.lines.retain(WaitingLine::is_for_any);
            self.lines.truncate(self.wanted);
        }
    }
}

impl WaitingLine {
    fn is_for_any(&self) -> bool {
        self.expects.is_none()
    }

    /// Whether it stands, or will, where this plan is run.
    fn is_in_place_of(&self, plan: &Plan) -> bool {
        self.expects.as_ref().is_some_and(|expected| expected.shares_place_with(plan))
    }

    /// By the last look.
    fn is_useful(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        match (self.state, self.made) {
            (State::Ready, _) => age < if self.is_for_any() { LONGEST_WAIT } else { LONGEST_IN_PLACE },
            (State::Building, Made::AtOnce) => age < LONGEST_BUILDING,
            // Whoever is to make it has a run to serve, or hangs up; or they hang in the place that they open.
            (State::Building, Made::AfterARun) => self.is_for_any() || age < LONGEST_IN_PLACE,
            (State::Gone, _) => false,
        }
    }
}

fn most() -> usize {
    usize::try_from(processors()).unwrap_or(1) * MOST_PER_PROCESSOR
}

impl State {
    /// A helper that waits says nothing but that it is ready, and hangs up when it is no more.
    fn of(seen: PollFlags) -> State {
        if seen.is_empty() {
            State::Building
        } else if seen == PollFlags::IN {
            State::Ready
        } else {
            State::Gone
        }
    }
}

/// Whether it is ready, or becomes so before anybody would rather have another.
fn is_soon_ready(channel: &UnixStream) -> bool {
    let most = Timespec::try_from(LONGEST_BUILDING).unwrap_or_default();
    let mut watched = [PollFd::new(channel, PollFlags::IN | PollFlags::RDHUP)];
    let seen = poll(&mut watched, Some(&most)).map(|_| watched.map(|watched| watched.revents()));
    matches!(seen, Ok([seen]) if State::of(seen) == State::Ready)
}

/// Replaces those that died or have waited for too long, and lets fewer wait in calm times, as long as there is a gate.
fn look_after(inner: &Weak<Inner>) {
    loop {
        thread::sleep(BETWEEN_LOOKS);
        let Some(inner) = inner.upgrade() else { return };
        {
            let (mut waiting, now) = (inner.waiting(), Instant::now());
            waiting.drop_useless(now);
            waiting.calm_down(now);
        }
        inner.retired().retain_mut(|keeper| matches!(keeper.try_wait(), Ok(None)));
        inner.refill();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody waits any more, and nobody orders: they end when they have cleaned up after those that they still serve.
        self.waiting().lines.clear();
        let mut keepers = std::mem::take(&mut *self.retired());
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        keepers.extend(keeper.map(|keeper| keeper.child));
        let until = Instant::now() + ENDED_WITHIN;
        for mut keeper in keepers {
            while let Ok(None) = keeper.try_wait()
                && Instant::now() < until
            {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
