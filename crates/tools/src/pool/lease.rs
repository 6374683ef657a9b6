//! One worker, and the questions that are under way on its socket.
//!
//! Knows neither whose it is nor how many there are. The worker answers one question after the other, in the order in
//! which they were sent; so the first that is unanswered is the only one that can have begun. Whoever waits for an
//! answer also reads: one at a time takes what comes and hands it to whom it is for, until its own has come.
//!
//! # Invariants
//! - An answer counts only if it carries the number of the first question that is under way. Anything else ends the
//!   worker: another's number, one for the second time, one that comes when nobody asked.
//! - A question that is given up while it is under way ends the worker: nothing of a call goes on after its end.
//! - Whoever was behind it is told that nothing came of it here, and may be asked elsewhere.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Blocking;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contract::Reason;
use jail::{Enforcement, Kept};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OnceCell, oneshot};

use crate::operands::Hold;
use crate::wire::{length_of, numbered_frame, split_number};

/// A worker that is being started, waits or works.
#[derive(Debug)]
pub(super) struct Lease {
    begun: Instant,
    worker: OnceCell<Worker>,
    talk: Mutex<Talk>,
}

/// What has been said to a worker and not been answered.
#[derive(Debug, Default)]
struct Talk {
    under_way: VecDeque<UnderWay>,
    /// The number of the latest question.
    latest: u64,
    /// No more questions: it has ended, or will with the last that is under way.
    is_closed: bool,
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    answer: oneshot::Sender<Result<Heard, Silence>>,
}

#[derive(Debug)]
struct Worker {
    kept: Mutex<Option<Kept>>,
    is_ended: AtomicBool,
    /// What keeps others from the workspace while it writes there.
    hold: Mutex<Option<Arc<Hold>>>,
    enforcement: Enforcement,
    /// The same socket, to end it and to look whether it is quiet.
    line: Blocking,
    reading: tokio::sync::Mutex<Reading>,
    writing: tokio::sync::Mutex<OwnedWriteHalf>,
}

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Heard(Vec<u8>);

impl Heard {
    pub(super) fn said(&self) -> &[u8] {
        split_number(&self.0).map_or(&[], |(_, said)| said)
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// The question was not sent, or was behind another when the worker ended: it has not begun.
    NotBegun,
    /// It was the next to be answered, and nothing came.
    Died,
    /// What came is no answer to it.
    Garbled,
}

impl Lease {
    pub(super) fn new() -> Lease {
        Lease { begun: Instant::now(), worker: OnceCell::new(), talk: Mutex::default() }
    }

    /// Starts the worker, if nobody has yet. Several who need it wait for one start.
    pub(super) async fn start(
        &self,
        launch: impl AsyncFnOnce() -> Result<Kept, Reason>,
    ) -> Result<(), Reason> {
        let start = async || Worker::new(launch().await?).map_err(|_| cannot_talk());
        self.worker.get_or_try_init(start).await.map(drop)
    }

    pub(super) fn is_started(&self) -> bool {
        self.worker.initialized()
    }

    /// Whether it takes more questions.
    pub(super) fn is_open(&self) -> bool {
        !self.lock().is_closed
    }

    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn enforcement(&self) -> Enforcement {
        self.worker.get().map(|worker| worker.enforcement.clone()).unwrap_or_default()
    }

    /// Keeps others from the workspace until it is let go, or the worker is no more.
    pub(super) fn hold(&self, hold: Option<Arc<Hold>>) {
        if let Some(worker) = self.worker.get() {
            *worker.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
        }
    }

    /// Asks. Dropping the future while the question is under way ends the worker.
    pub(super) async fn ask(&self, question: &[u8]) -> Result<Heard, Silence> {
        let worker = self.worker.get().ok_or(Silence::NotBegun)?;
        let (asking, mut answer) = {
            let mut writing = worker.writing.lock().await;
            let (asking, answer) = self.begin(worker)?;
            let frame = numbered_frame(asking.number, question);
            if writing.write_all(&frame).await.is_err() {
                // Half a question is none: nobody begins it.
                asking.withdraw();
                return Err(Silence::NotBegun);
            }
            (asking, answer)
        };
        let answered = tokio::select! {
            biased;
            heard = &mut answer => heard.unwrap_or(Err(Silence::NotBegun)),
            mut reading = worker.reading.lock() => self.read_until(&mut reading, &mut answer).await,
        };
        drop(asking);
        answered
    }

    /// Ends it. Whoever has a question under way is told that it did not begin: see the head of the module.
    pub(super) fn end(&self) {
        self.end_with(Silence::NotBegun);
    }

    fn begin(&self, worker: &Worker) -> Result<(Asking<'_>, Answer), Silence> {
        let mut talk = self.lock();
        // ATTACK(answer-unasked): what it says when nobody asked would be taken for an answer to the next question.
        if !talk.is_closed && talk.under_way.is_empty() && !worker.is_quiet() {
            drop(talk);
            self.end();
            return Err(Silence::NotBegun);
        }
        if talk.is_closed {
            return Err(Silence::NotBegun);
        }
        talk.latest += 1;
        let (number, (sender, answer)) = (talk.latest, oneshot::channel());
        talk.under_way.push_back(UnderWay { number, answer: sender });
        Ok((Asking { lease: self, number }, answer))
    }

    /// Reads for everybody until this answer has come.
    async fn read_until(&self, reading: &mut Reading, answer: &mut Answer) -> Result<Heard, Silence> {
        loop {
            match answer.try_recv() {
                Ok(heard) => return heard,
                Err(oneshot::error::TryRecvError::Closed) => return Err(Silence::NotBegun),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            match reading.next().await {
                Ok(frame) => self.deliver(frame),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => self.end_with(Silence::Garbled),
                Err(_) => self.end_with(Silence::Died),
            }
        }
    }

    fn deliver(&self, frame: Vec<u8>) {
        let mut talk = self.lock();
        let expected = talk.under_way.front().map(|first| first.number);
        let number = split_number(&frame).map(|(number, _)| number);
        // ATTACK(answer-of-another): the number must be that of the one question that can have been answered.
        if number.is_none() || number != expected {
            drop(talk);
            return self.end_with(Silence::Garbled);
        }
        let first = talk.under_way.pop_front();
        drop(talk);
        // Whoever has gone in this moment needs no answer any more.
        let _ = first.map(|first| first.answer.send(Ok(Heard(frame))));
    }

    /// Ends it, with this for the question that was the next to be answered.
    fn end_with(&self, first: Silence) {
        let under_way = {
            let mut talk = self.lock();
            talk.is_closed = true;
            std::mem::take(&mut talk.under_way)
        };
        if let Some(worker) = self.worker.get() {
            worker.end();
        }
        let fates = std::iter::once(first).chain(std::iter::repeat(Silence::NotBegun));
        for (one, fate) in under_way.into_iter().zip(fates) {
            let _ = one.answer.send(Err(fate));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answer = oneshot::Receiver<Result<Heard, Silence>>;

/// A question under way. One that is dropped before its answer ends the worker.
struct Asking<'a> {
    lease: &'a Lease,
    number: u64,
}

impl Asking<'_> {
    /// It could not be sent. Those before it may still be answered; nobody is let in behind it.
    fn withdraw(self) {
        let is_last = {
            let mut talk = self.lease.lock();
            talk.is_closed = true;
            talk.under_way.retain(|one| one.number != self.number);
            talk.under_way.is_empty()
        };
        if is_last {
            self.lease.end();
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let is_under_way = {
            let mut talk = self.lease.lock();
            let before = talk.under_way.len();
            talk.under_way.retain(|one| one.number != self.number);
            let is_under_way = talk.under_way.len() < before;
            talk.is_closed |= is_under_way;
            is_under_way
        };
        if is_under_way {
            self.lease.end();
        }
    }
}

impl Worker {
    fn new(kept: Kept) -> io::Result<Worker> {
        let (line, enforcement) = (kept.channel().try_clone()?, kept.enforcement().clone());
        let mut worker = Worker::over(line)?;
        (worker.enforcement, worker.kept) = (enforcement, Mutex::new(Some(kept)));
        Ok(worker)
    }

    /// Whoever is at the other end of a line.
    fn over(line: Blocking) -> io::Result<Worker> {
        let channel = line.try_clone()?;
        channel.set_nonblocking(true)?;
        let (reading, writing) = UnixStream::from_std(channel)?.into_split();
        Ok(Worker {
            enforcement: Enforcement::default(),
            kept: Mutex::default(),
            is_ended: AtomicBool::new(false),
            hold: Mutex::default(),
            line,
            reading: tokio::sync::Mutex::new(Reading { from: reading, bytes: Vec::new() }),
            writing: tokio::sync::Mutex::new(writing),
        })
    }

    /// Whether it has said nothing that nobody has read, and is there.
    fn is_quiet(&self) -> bool {
        let peeked = recv(&self.line, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        let is_read = self.reading.try_lock().is_ok_and(|reading| reading.bytes.is_empty());
        is_read && peeked.is_err_and(|error| error == rustix::io::Errno::AGAIN)
    }

    fn end(&self) {
        if self.is_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(kept) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            let _ = self.line.shutdown(Shutdown::Both);
            return;
        };
        // Only hung up on: whoever stops listening as well does not hear when it is gone.
        let _ = self.line.shutdown(Shutdown::Write);
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Others may have the workspace when nobody writes there any more, and not before.
        let end = move || {
            drop(kept);
            drop(hold);
        };
        // Off the threads that others wait for: it takes as long as the sandbox takes to go.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(end)),
            Err(_) => end(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a worker has said and nobody has taken yet.
#[derive(Debug)]
struct Reading {
    from: OwnedReadHalf,
    bytes: Vec<u8>,
}

impl Reading {
    /// How much room is made at once.
    const ROOM: usize = 16 * 1024;
    const MOST_ROOM: usize = 1 << 20;

    /// The next frame. What has come of it stays if the future is dropped.
    async fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let mut missing = 0;
            if let Some(header) = self.bytes.first_chunk::<8>() {
                let end = header.len() + length_of(*header)?;
                if self.bytes.len() >= end {
                    let rest = self.bytes.split_off(end);
                    return Ok(std::mem::replace(&mut self.bytes, rest));
                }
                missing = end - self.bytes.len();
            }
            // Grows as bytes arrive: a length alone reserves little.
            self.bytes.reserve(missing.clamp(Reading::ROOM, Reading::MOST_ROOM));
            if self.from.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn cannot_talk() -> Reason {
    Reason::internal("the worker cannot be talked to")
}

#[cfg(test)]
mod tests;
