//! What the gate and a worker say to each other: frames of JSON, each with its length before it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use contract::Reason;
use jail::Names;
use serde::{Deserialize, Serialize};

use crate::files::{FileCall, FileResult};

/// The longest frame that is read.
pub(crate) const MAX_FRAME: usize = 64 * 1024 * 1024;

/// What a worker for files is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerRequest {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Names it must not touch, whatever the sandbox covers.
    pub(crate) names: Names,
    /// The largest file that is read or written.
    pub(crate) max_bytes: u64,
    /// What to do about symbolic links.
    pub(crate) links: Links,
    /// What is to be done.
    pub(crate) call: FileCall,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Links {
    /// They are refused.
    Refuse,
    /// They are followed as long as they stay in the workspace.
    FollowInside,
}

/// What a worker for files answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerResponse {
    /// What came of it.
    pub(crate) result: Result<FileResult, Reason>,
    /// What it changed, whatever came of it.
    pub(crate) changed: Changed,
    /// Processor time it took, in microseconds.
    pub(crate) cpu_micros: u64,
    /// The most memory the worker ever had, in bytes.
    pub(crate) peak_memory: u64,
}

/// Paths that were changed, and what happened to each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    pub(crate) paths: BTreeMap<String, String>,
    /// How many more there were.
    pub(crate) more: u64,
}

impl Changed {
    /// As many as a receipt holds by name.
    const MOST: usize = 1000;

    pub(crate) fn note(&mut self, path: impl Into<String>, what: &str) {
        let path = path.into();
        if self.paths.len() < Changed::MOST || self.paths.contains_key(&path) {
            self.paths.insert(path, what.to_owned());
        } else {
            self.more += 1;
        }
    }
}

pub(crate) fn write_frame(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// One frame; nothing if the other side has hung up in between.
pub(crate) fn read_frame(mut from: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; 8];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = length_of(header)?;
    // Grows as bytes arrive: a length alone reserves nothing.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(Some(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The length that a frame's header names, if such a frame is accepted.
pub(crate) fn length_of(header: [u8; 8]) -> io::Result<usize> {
    let length = usize::try_from(u64::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > MAX_FRAME { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_back_and_the_end_is_the_end() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, b"abc").unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(read_frame(&mut from).unwrap(), Some(b"abc".to_vec()));
        assert_eq!(read_frame(&mut from).unwrap(), None);
    }

    #[test]
    fn a_frame_that_is_cut_or_too_long_is_an_error() {
        let cut = [3, 0, 0, 0, 0, 0, 0, 0, b'a'];
        assert!(read_frame(cut.as_slice()).is_err());
        assert!(read_frame([0xff; 8].as_slice()).is_err());
    }

    #[test]
    fn a_long_list_of_changes_is_counted_where_it_is_not_named() {
        let mut changed = Changed::default();
        for number in 0..1500 {
            changed.note(format!("f{number}"), "removed");
        }
        assert_eq!((changed.paths.len(), changed.more), (1000, 500));
    }
}
