//! Moves bytes between a client and a host, both ways, and counts them.
//!
//! Knows no protocol. They are copied: the loopback of a sandbox takes pieces of half a megabyte, and to move those as pages
//! (`splice`) was measured to take longer.
//!
//! # Invariants
//! - What one side ends, the other side hears as an end, and may go on sending.
//! - Bytes are counted when the host's socket has taken or given them.
//! - Nothing moves past the grant's total, and a pipe on which nothing moves for too long is closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::events::{Direction, Meter};
use crate::opening::{LineWatch, Seen};

/// How a pipe came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides have ended, or one is gone.
    Over,
    /// Nothing moved for too long.
    Idle,
    /// The grant may move no more.
    TooManyBytes,
    /// What looked like another protocol became a request of HTTP.
    Http,
}

/// Whether a pipe looks at the client's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// It is known what is spoken.
    Nothing,
    /// The line has no end yet, and shall not become one of HTTP.
    FirstLine,
}

/// So much goes at once: most connections move no more.
const SMALL: usize = 1 << 13;
/// So much, where more than this has gone already.
const LARGE: usize = 1 << 18;
const MUCH: usize = 1 << 16;
/// So many may be in use at once, by both directions of all connections: 32 MiB, and an eighth of it by one grant. The others
/// go on with little.
static LARGE_BUFFERS: Semaphore = Semaphore::const_new(128);
pub(crate) const LARGE_BUFFERS_OF_ONE: usize = 16;

/// Moves bytes until both sides have ended. `early` was read from the client already.
pub(crate) async fn join(
    client: TcpStream,
    mut host: TcpStream,
    early: &[u8],
    watch: Watch,
    meter: &Meter,
    idle: Duration,
) -> End {
    let mut line = LineWatch::default();
    if watch == Watch::FirstLine && line.look(early) == Seen::Http {
        return End::Http;
    }
    if meter.left() < early.len() as u64 {
        return End::TooManyBytes;
    }
    if host.write_all(early).await.is_err() {
        return End::Over;
    }
    meter.count(Direction::Out, early.len());
    let activity = Activity::begin();
    let both = async {
        let out = async {
            if watch == Watch::FirstLine {
                watch_line(&client, &host, line, meter, &activity).await?;
            }
            one_way(&client, &host, Direction::Out, meter, &activity).await
        };
        let back = one_way(&host, &client, Direction::In, meter, &activity);
        match tokio::try_join!(out, back) {
            Ok(_) => End::Over,
            Err(end) => end,
        }
    };
    tokio::select! {
        end = both => end,
        () = activity.lapse(idle) => End::Idle,
    }
}

async fn one_way(
    from: &TcpStream,
    to: &TcpStream,
    direction: Direction,
    meter: &Meter,
    activity: &Activity,
) -> Result<(), End> {
    let mut buffer = Buffer::small();
    loop {
        let part = buffer.room(meter.left()).ok_or(End::TooManyBytes)?;
        let taken = from.async_io(Interest::READABLE, || from.try_read(part)).await;
        let taken = taken.map_err(|_gone| End::Over)?;
        if taken == 0 {
            let _ = rustix::net::shutdown(to, Shutdown::Write);
            return Ok(());
        }
        if direction == Direction::In {
            meter.count(direction, taken);
        }
        let given = write(to, buffer.first(taken), activity).await?;
        if direction == Direction::Out {
            meter.count(direction, given);
        }
        buffer.has_moved(taken, meter);
    }
}

/// What bytes go by way of: a little for everybody, and more for one that moves much.
struct Buffer {
    bytes: Vec<u8>,
    moved: usize,
    large: Option<(SemaphorePermit<'static>, OwnedSemaphorePermit)>,
}

impl Buffer {
    fn small() -> Buffer {
        Buffer { bytes: vec![0; SMALL], moved: 0, large: None }
    }

    /// As much of it as may be filled; nothing if no more may be moved.
    fn room(&mut self, left: u64) -> Option<&mut [u8]> {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.get_mut(..room).filter(|part| !part.is_empty())
    }

    fn first(&self, count: usize) -> &[u8] {
        self.bytes.get(..count).unwrap_or_default()
    }

    fn has_moved(&mut self, count: usize, meter: &Meter) {
        self.moved = self.moved.saturating_add(count);
        if self.moved < MUCH || self.large.is_some() {
            return;
        }
        if let (Ok(large), Some(share)) = (LARGE_BUFFERS.try_acquire(), meter.large_buffer()) {
            *self = Buffer { bytes: vec![0; LARGE], large: Some((large, share)), ..*self };
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8], activity: &Activity) -> Result<usize, End> {
    let whole = bytes.len();
    while !bytes.is_empty() {
        let given = to.async_io(Interest::WRITABLE, || to.try_write(bytes)).await;
        bytes = bytes.get(given.map_err(|_gone| End::Over)?..).unwrap_or_default();
        activity.mark();
    }
    Ok(whole)
}

/// Passes on the client's first line, for as long as it is not one of HTTP.
async fn watch_line(
    client: &TcpStream,
    host: &TcpStream,
    mut line: LineWatch,
    meter: &Meter,
    activity: &Activity,
) -> Result<(), End> {
    let mut buffer = [0; 4096];
    loop {
        let read = client.async_io(Interest::READABLE, || client.try_read(&mut buffer)).await;
        let count = read.map_err(|_gone| End::Over)?;
        let part = buffer.get(..count).unwrap_or_default();
        let seen = line.look(part);
        if seen == Seen::Http {
            return Err(End::Http);
        }
        if meter.left() < count as u64 {
            return Err(End::TooManyBytes);
        }
        meter.count(Direction::Out, write(host, part, activity).await?);
        // The end is met again, and passed on, by whoever reads next.
        if count == 0 || seen == Seen::Other {
            return Ok(());
        }
    }
}

/// When something last moved on a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    last: AtomicU64,
}

impl Activity {
    pub(crate) fn begin() -> Activity {
        Activity { began: Instant::now(), last: AtomicU64::new(0) }
    }

    pub(crate) fn mark(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns once nothing has moved for `idle`.
    pub(crate) async fn lapse(&self, idle: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let still = (last + idle).saturating_sub(self.began.elapsed());
            if still.is_zero() {
                return;
            }
            tokio::time::sleep(still).await;
        }
    }
}

#[cfg(test)]
mod tests;
