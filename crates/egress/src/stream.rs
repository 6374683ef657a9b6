//! Streams with something in front of them or beside them: bytes that were read early, and a count.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::carry::Client;
use crate::events::{Direction, Meter};
use crate::pipe::Activity;

/// A client's stream from its first byte on, also of what was read already.
#[derive(Debug)]
pub(crate) struct Rewound {
    early: Vec<u8>,
    stream: TcpStream,
}

impl From<Client> for Rewound {
    fn from(client: Client) -> Rewound {
        Rewound { early: client.early, stream: client.stream }
    }
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, into);
        }
        let count = self.early.len().min(into.remaining());
        let given: Vec<u8> = self.early.drain(..count).collect();
        into.put_slice(&given);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// A host's stream, whose bytes are counted and which stops at the grant's total.
#[derive(Debug)]
pub(crate) struct Metered {
    stream: TcpStream,
    meter: Arc<Meter>,
    activity: Arc<Activity>,
}

impl Metered {
    pub(crate) fn new(stream: TcpStream, meter: Arc<Meter>, activity: Arc<Activity>) -> Metered {
        Metered { stream, meter, activity }
    }

    fn count(&self, direction: Direction, bytes: usize) {
        self.meter.count(direction, bytes);
        self.activity.mark();
    }

    fn has_room(&self) -> io::Result<()> {
        match self.meter.left() {
            0 => Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the grant may move no more bytes")),
            _ => Ok(()),
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.has_room()?;
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        self.count(Direction::In, into.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.has_room()?;
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.count(Direction::Out, count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.has_room()?;
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, parts))?;
        self.count(Direction::Out, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
