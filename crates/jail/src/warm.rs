//! Sandboxes that wait for a plan, each good for one run.
//!
//! The gate's side of a zygote: it asks for launchers ahead of time, so that the kernel has made the namespaces and mounts
//! of the next run before anybody asks for it.
//!
//! # Invariants
//! - What waits is used once, by the run that takes it, and never comes back.
//! - A zygote or a waiting sandbox that has died or hangs is noticed and replaced; only a run that has just taken it can
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
use crate::launch::processors;
use crate::orders::send;
use crate::plan::Plan;
use crate::zygote::ZYGOTE_ARGUMENT;

/// How many wait before anybody has asked for more at once: one, and one while another is made.
const FEWEST: usize = 2;
/// For each processor, how many wait at most.
const MOST_PER_PROCESSOR: usize = 4;
/// After this long a waiting sandbox is made anew: small files of the system are copied when it is built.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// What takes longer to be built is not waited for: somebody has stopped it.
const LONGEST_BUILDING: Duration = Duration::from_secs(10);
/// After this long without need, fewer wait.
const CALM: Duration = Duration::from_secs(60);
/// As much as a socket takes before anybody reads.
const SENT_AT_ONCE: usize = 64 * 1024;
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
    zygote: Mutex<Option<Zygote>>,
    waiting: Mutex<Waiting>,
    refilling: Mutex<()>,
}

#[derive(Debug)]
struct Zygote {
    child: Child,
    control: UnixStream,
}

#[derive(Debug)]
struct Waiting {
    lines: VecDeque<(UnixStream, Instant)>,
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
            zygote: Mutex::default(),
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
        let started = self.inner.line()?.start(request);
        self.refill_if_empty();
        started
    }

    /// While others wait, making another one would only slow down what has just begun.
    pub fn refill_if_empty(&self) {
        if self.inner.waiting().lines.is_empty() {
            self.inner.refill();
        }
    }

    /// Starts our own code for a plan, which waits for what [`Running::give`] brings; nothing if no sandbox is ready. Does
    /// not block. Whoever has waited for it calls [`Warm::refill`].
    pub fn begin(&self, plan: &Plan) -> Option<Running> {
        // What is longer would have to be read while it is written.
        let plan = plan.encode().ok().filter(|plan| plan.len() <= SENT_AT_ONCE)?;
        let channel = self.inner.waiting().take_ready(Instant::now())?;
        Line { channel, child: None }.begin(&plan).ok()
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

    /// A sandbox for one run: one that waits, else a new copy of the zygote, else a process of its own.
    fn line(&self) -> Result<Line, HelperError> {
        let waiting = self.waiting().take(Instant::now());
        let found = waiting.or_else(|| self.order_one().ok());
        // Nothing is sent to one that has not said that it is there: whatever has become of the zygote, it is not lost.
        match found.filter(is_soon_ready) {
            Some(channel) => Ok(Line { channel, child: None }),
            None => self.helper.call(),
        }
    }

    /// Has as many made as should wait. What cannot be made now is tried again with the next run.
    fn refill(&self) {
        // One at a time, or together they make too many.
        let Ok(_turn) = self.refilling.try_lock() else { return };
        loop {
            let (has, wanted) = {
                let waiting = self.waiting();
                (waiting.lines.len(), waiting.wanted)
            };
            if has >= wanted {
                return;
            }
            match self.order_one() {
                Ok(channel) => self.waiting().lines.push_back((channel, Instant::now())),
                Err(_) => return,
            }
        }
    }

    /// Asks the zygote for one more; a zygote that is gone, or takes no more orders, is replaced.
    fn order_one(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut zygote = self.zygote.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(living) = &*zygote
            && send(&living.control, &(), &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours);
        }
        let (child, control) = self.helper.spawn(ZYGOTE_ARGUMENT).map_err(io::Error::other)?;
        control.set_nonblocking(true)?;
        let living = zygote.insert(Zygote { child, control });
        send(&living.control, &(), &[theirs.as_fd()])?;
        Ok(ours)
    }
}

impl Waiting {
    /// The one that has waited longest and is ready; else one that soon will be.
    fn take(&mut self, now: Instant) -> Option<UnixStream> {
        self.take_ready(now).or_else(|| {
            self.missed = now;
            self.wanted = (self.wanted * 2).min(most());
            self.lines.pop_front().map(|(channel, _)| channel)
        })
    }

    /// The one that has waited longest and is ready.
    fn take_ready(&mut self, now: Instant) -> Option<UnixStream> {
        self.drop_useless(now);
        let ready = self.lines.iter().position(|(channel, _)| state_of(channel) == State::Ready)?;
        self.lines.remove(ready).map(|(channel, _)| channel)
    }

    /// Those that died, those that have waited for too long, and those that never come to be.
    fn drop_useless(&mut self, now: Instant) {
        self.lines.retain(|(channel, since)| {
            let age = now.saturating_duration_since(*since);
            match state_of(channel) {
                State::Ready => age < LONGEST_WAIT,
                State::Building => age < LONGEST_BUILDING,
                State::Gone => false,
            }
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

fn most() -> usize {
    usize::try_from(processors()).unwrap_or(1) * MOST_PER_PROCESSOR
}

/// A helper that waits says nothing but that it is ready, and hangs up when it is no more.
fn state_of(channel: &UnixStream) -> State {
    let mut watched = [PollFd::new(channel, PollFlags::IN | PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let seen = poll(&mut watched, Some(&now)).map(|_| watched.map(|watched| watched.revents()));
    match seen {
        Ok([seen]) if seen.is_empty() => State::Building,
        Ok([seen]) if seen == PollFlags::IN => State::Ready,
        Ok(_) => State::Gone,
        Err(_) => State::Building,
    }
}

/// Whether it is ready, or becomes so before anybody would rather have another.
fn is_soon_ready(channel: &UnixStream) -> bool {
    let most = Timespec::try_from(LONGEST_BUILDING).unwrap_or_default();
    let mut watched = [PollFd::new(channel, PollFlags::IN | PollFlags::RDHUP)];
    let _ = poll(&mut watched, Some(&most));
    state_of(channel) == State::Ready
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
        inner.refill();
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It has nothing to clean up, and those it has made do not need it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
