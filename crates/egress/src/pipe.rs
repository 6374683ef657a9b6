//! Moves bytes between a client and a host, both ways, inside the kernel, and counts them.
//!
//! Knows no protocol.
//!
//! # Invariants
//! - What one side ends, the other side hears as an end, and may go on sending.
//! - Bytes are counted when the host's socket has taken or given them.
//! - Nothing moves past the grant's total, and a pipe on which nothing moves for too long is closed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;

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

/// So much a pipe of the kernel holds. A user may have 64 MiB of them in all.
const CHUNK: usize = 1 << 18;
/// So much goes by way of a buffer, before a pipe is worth its making: most connections move no more.
const SMALL: usize = 1 << 16;
const BUFFER: usize = 1 << 13;

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
    if copy_begin(from, to, direction, meter, activity).await? == Left::Nothing {
        return Ok(());
    }
    let (outlet, inlet) = kernel_pipe().map_err(|_gone| End::Over)?;
    loop {
        let room = usize::try_from(meter.left()).unwrap_or(CHUNK).min(CHUNK);
        if room == 0 {
            return Err(End::TooManyBytes);
        }
        // The pipe is empty here, so `WouldBlock` is about the socket.
        let taken = splice_ready(from, Interest::READABLE, || splice(from, &inlet, room)).await?;
        if taken == 0 {
            let _ = rustix::net::shutdown(to, Shutdown::Write);
            return Ok(());
        }
        if direction == Direction::In {
            meter.count(direction, taken);
        }
        let mut left = taken;
        while left > 0 {
            let given = splice_ready(to, Interest::WRITABLE, || splice(&outlet, to, left)).await?;
            if given == 0 {
                return Err(End::Over);
            }
            left = left.saturating_sub(given);
            activity.mark();
            if direction == Direction::Out {
                meter.count(direction, given);
            }
        }
    }
}

/// What there is still to move.
#[derive(PartialEq, Eq)]
enum Left {
    Nothing,
    Perhaps,
}

/// Moves the first bytes by way of a buffer.
async fn copy_begin(
    from: &TcpStream,
    to: &TcpStream,
    direction: Direction,
    meter: &Meter,
    activity: &Activity,
) -> Result<Left, End> {
    let mut buffer = [0; BUFFER];
    let mut moved = 0;
    while moved < SMALL {
        let room = usize::try_from(meter.left()).unwrap_or(BUFFER).min(BUFFER);
        let Some(part) = buffer.get_mut(..room).filter(|part| !part.is_empty()) else {
            return Err(End::TooManyBytes);
        };
        let taken = from.async_io(Interest::READABLE, || from.try_read(part)).await;
        let taken = taken.map_err(|_gone| End::Over)?;
        if taken == 0 {
            let _ = rustix::net::shutdown(to, Shutdown::Write);
            return Ok(Left::Nothing);
        }
        if direction == Direction::In {
            meter.count(direction, taken);
        }
        let written = write(to, buffer.get(..taken).unwrap_or_default(), activity);
        let given = written.await?;
        if direction == Direction::Out {
            meter.count(direction, given);
        }
        moved += taken;
    }
    Ok(Left::Perhaps)
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

async fn splice_ready(
    socket: &TcpStream,
    interest: Interest,
    mut splice: impl FnMut() -> io::Result<usize>,
) -> Result<usize, End> {
    match socket.async_io(interest, &mut splice).await {
        Ok(count) => Ok(count),
        Err(_gone) => Err(End::Over),
    }
}

fn splice(from: impl rustix::fd::AsFd, to: impl rustix::fd::AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    loop {
        match rustix::pipe::splice(&from, None, &to, None, most, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Reading end and writing end.
fn kernel_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (outlet, inlet) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let _ = rustix::pipe::fcntl_setpipe_size(&inlet, CHUNK);
    Ok((outlet, inlet))
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
