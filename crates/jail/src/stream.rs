//! Moving bytes in and out of a sandbox, with a cap on what is kept and no cap on what is drained.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Where the tool's standard streams lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Output is collected into the report.
    Collect {
        /// The tool's standard input.
        input: Feed,
    },
    /// Passed between the tool and the launcher's own standard streams.
    Pass,
    /// The same, through a terminal of the sandbox's own.
    Terminal,
    /// Passed between the tool and whoever holds the lifeline; its errors go where the launcher's go.
    Lifeline,
}

/// Where a tool's standard input comes from when its output is collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feed {
    /// It is given whole.
    Bytes(Vec<u8>),
    /// It is the launcher's own.
    Own,
    /// It comes whole, as one frame, from whoever holds the lifeline; the tool waits for it.
    Lifeline,
}

/// What one stream gave, up to the cap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The first bytes. Empty when they were passed on instead.
    pub bytes: Vec<u8>,
    /// How many bytes the tool wrote in all.
    pub total: u64,
    /// How many of them were neither kept nor passed on.
    pub dropped: u64,
}

impl Captured {
    /// The bytes as text, cut so that no character is torn: what is not UTF-8 becomes the replacement character.
    pub fn text(&self) -> String {
        // ATTACK(torn-character): a cap in the middle of a character must not panic, nor leave half of one behind.
        let whole = if self.dropped > 0 { whole_characters(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(whole).into_owned()
    }
}

/// Without an unfinished character at the end, which a cut may have left.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let end = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    match std::str::from_utf8(end) {
        Err(error) if error.error_len().is_none() => bytes.strip_suffix(end).unwrap_or_default(),
        _ => bytes,
    }
}

/// Counts and caps one stream.
#[derive(Debug)]
pub struct Capture {
    cap: u64,
    captured: Captured,
}

impl Capture {
    /// Keeps at most `cap` bytes.
    pub fn new(cap: u64) -> Capture {
        Capture { cap, captured: Captured::default() }
    }

    /// Takes the next bytes. Returns those within the cap; the rest is counted and dropped.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.cap.saturating_sub(self.captured.total - self.captured.dropped);
        let kept = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        self.captured.total += bytes.len() as u64;
        self.captured.dropped += (bytes.len() - kept) as u64;
        bytes.get(..kept).unwrap_or_default()
    }

    /// Counts bytes that were taken and could not be passed on.
    pub(crate) fn lose(&mut self, count: usize) {
        self.captured.dropped += count as u64;
    }

    /// Takes the next bytes and keeps those within the cap.
    pub fn keep(&mut self, bytes: &[u8]) {
        let kept = self.take(bytes);
        self.captured.bytes.extend_from_slice(kept);
    }

    /// What was taken.
    pub fn finish(self) -> Captured {
        self.captured
    }
}

/// What is left of a stream after one step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    Open,
    /// Nothing more.
    Ended,
}

/// Replaces what is in a buffer. Its memory is touched only as far as there is something to read.
pub(crate) fn read_anew(from: impl AsFd, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
    buffer.clear();
    rustix::io::read(from, spare_capacity(buffer))
}

/// Reads what is there, once, as far as the buffer has room.
pub(crate) fn drain(from: &OwnedFd, buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> io::Result<Flow> {
    match read_anew(from, buffer) {
        Ok(0) => Ok(Flow::Ended),
        Ok(_) => {
            each(buffer);
            Ok(Flow::Open)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Flow::Open),
        // A terminal whose other side has closed.
        Err(Errno::IO) => Ok(Flow::Ended),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_keeps_the_first_bytes_and_counts_the_rest() {
        let mut capture = Capture::new(5);
        capture.keep(b"abc");
        capture.keep(b"defg");
        capture.keep(b"h");
        assert_eq!(capture.finish(), Captured { bytes: b"abcde".to_vec(), total: 8, dropped: 3 });
    }

    #[test]
    fn a_cut_never_tears_a_character() {
        let mut capture = Capture::new(2);
        capture.keep("aé".as_bytes());
        assert_eq!(capture.finish().text(), "a");
        let after_nonsense = Captured { bytes: vec![0xff, b'a', 0xc3], total: 4, dropped: 1 };
        assert_eq!(after_nonsense.text(), "\u{fffd}a");
        let whole = Captured { bytes: vec![b'a', 0xff], total: 2, dropped: 0 };
        assert_eq!(whole.text(), "a\u{fffd}");
    }
}
