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

use crate::helper::{Helper, HelperError, Kept, Line, Request, Response, Running};
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
        let waiting = Waiting { lines: VecDeque::new(), wanted: FEWEST, missed: Instant::now() };
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
        let line = self.inner.line()?;
        let line = self.inner.waiting().going_on(line);
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
        let plan = plan.encode().ok().filter(|plan| plan.len() <= SENT_AT_ONCE)?;
        let mut waiting = self.inner.waiting();
        let channel = waiting.take_ready(Instant::now())?;
        let line = waiting.going_on(line_to(channel));
        drop(waiting);
        // What is said from now on is its answer.
        line.begin(&plan).ok()
    }

    /// Whether fewer wait than should.
    pub fn is_refill_due(&self) -> bool {
        let mut waiting = self.inner.waiting();
        waiting.look();
        !waiting.are_enough(Instant::now())
    }

    /// Has as many wait as should: when a run is over.
    pub fn refill(&self) {
        self.inner.refill();
    }

    /// Starts a program that is talked to; see [`Helper::keep`].
    pub fn keep(&self, plan: &Plan) -> Result<Result<Kept, Response>, HelperError> {
        let kept = self.inner.line()?.keep(plan);
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

    /// A sandbox for one run: one that waits, else one that the keeper makes, else a process of its own.
    fn line(&self) -> Result<Line, HelperError> {
        let now = Instant::now();
        let ready = self.waiting().take_ready(now);
        if let Some(channel) = ready {
            return Ok(line_to(channel));
        }
        let soon = self.waiting().take_unready(now);
        let found = soon.or_else(|| self.order_one().ok());
        // Nothing is sent to one that has not said that it is there: whatever has become of the keeper, it is not lost.
        match found.filter(is_soon_ready) {
            Some(channel) => Ok(line_to(channel)),
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
                Ok(channel) => self.waiting().add(channel, Made::AtOnce),
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
    fn add(&mut self, channel: UnixStream, made: Made) {
        self.lines.push_back(WaitingLine { channel, since: Instant::now(), made, state: State::Building });
    }

    /// Whoever serves the line has another wait when the run is over: nobody has to ask for that. Goes by what was last seen of
    /// those who wait.
    fn going_on(&mut self, line: Line) -> Line {
        if line.child.is_some() || self.are_enough(Instant::now()) {
            return line;
        }
        match UnixStream::pair() {
            Ok((ours, theirs)) => {
                self.add(ours, Made::AfterARun);
                Line { next: Some(theirs), ..line }
            }
            Err(_) => line,
        }
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
        self.lines.iter().filter(counts).count() >= self.wanted
    }

    /// One that soon will be ready. There are too few.
    fn take_unready(&mut self, now: Instant) -> Option<UnixStream> {
        self.missed = now;
        self.wanted = (self.wanted * 2).min(most());
        let soon = self.lines.iter().position(|line| line.made == Made::AtOnce)?;
        self.lines.remove(soon).map(|line| line.channel)
    }

    /// The one that has waited longest and is ready.
    fn take_ready(&mut self, now: Instant) -> Option<UnixStream> {
        self.look();
        while let Some(first) = self.lines.iter().position(|line| line.state != State::Building) {
            let line = self.lines.remove(first)?;
            if line.is_useful(now) {
                return Some(line.channel);
            }
        }
        None
    }

    /// Those that died, those that have waited for too long, and those that never come to be.
    fn drop_useless(&mut self, now: Instant) {
        self.look();
        self.lines.retain(|line| line.is_useful(now));
        let is_ready = |line: &WaitingLine| line.state == State::Ready;
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
            self.lines.truncate(self.wanted);
        }
    }
}

impl WaitingLine {
    /// By the last look.
    fn is_useful(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        match (self.state, self.made) {
            (State::Ready, _) => age < LONGEST_WAIT,
            (State::Building, Made::AtOnce) => age < LONGEST_BUILDING,
            // Whoever is to make it has a run to serve, or hangs up.
            (State::Building, Made::AfterARun) => true,
            (State::Gone, _) => false,
        }
    }
}

fn line_to(channel: UnixStream) -> Line {
    Line { channel, child: None, next: None }
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
