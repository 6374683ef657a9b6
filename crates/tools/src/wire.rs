//! What the gate and a worker say to each other: frames of JSON, each with its length before it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clean::Findings;
use contract::{Binding, Digest, Reason};
use jail::Names;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::files::{FileCall, FileResult};
use crate::path::Beneath;

/// The longest frame that is read.
pub(crate) const MAX_FRAME: usize = 64 * 1024 * 1024;

/// What a worker for files is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerRequest {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Names it must not touch, whatever the sandbox covers.
    #[serde(with = "told")]
    pub(crate) names: Arc<ToldNames>,
    /// The largest file that is read or written.
    pub(crate) max_bytes: u64,
    /// What to do about symbolic links.
    pub(crate) links: Links,
    /// What must be as it was when people were asked; otherwise nothing is done.
    pub(crate) expected: Vec<Expected>,
    /// What is to be done.
    pub(crate) call: FileCall,
}

/// Guarded names, with the text by which a worker is told of them. They are many and nearly always the same, so they are
/// written once for all questions, and read once for all that bring the same text.
#[derive(Clone, Debug)]
pub(crate) struct ToldNames {
    names: Names,
    /// Nothing if it could not be written: then each question writes its own, or fails.
    text: Option<Box<RawValue>>,
}

impl ToldNames {
    pub(crate) fn of(names: Names) -> ToldNames {
        let text = to_raw_value(&names).ok();
        ToldNames { names, text }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }
}

/// What is written instead of each question's own names, and read from it.
mod told {
    use super::*;

    pub(super) fn serialize<S: Serializer>(told: &Arc<ToldNames>, to: S) -> Result<S::Ok, S::Error> {
        match &told.text {
            Some(text) => text.serialize(to),
            None => told.names.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<ToldNames>, D::Error> {
        /// Those of the question before.
        static LATEST: Mutex<Option<Arc<ToldNames>>> = Mutex::new(None);
        let text = Box::<RawValue>::deserialize(from)?;
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |told: &&Arc<ToldNames>| told.text.as_ref().is_some_and(|own| own.get() == text.get());
        if let Some(told) = latest.as_ref().filter(is_it) {
            return Ok(Arc::clone(told));
        }
        let names = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let told = Arc::new(ToldNames { names, text: Some(text) });
        *latest = Some(Arc::clone(&told));
        Ok(told)
    }
}

/// A file that people were asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    /// How the call names it, from the workspace downwards.
    pub(crate) named: String,
    /// Where that led; nothing if it led nowhere, and must not.
    pub(crate) path: Option<String>,
    /// What was in it; nothing if there was none.
    pub(crate) digest: Option<Digest>,
}

/// What a worker that runs commands has to check before it does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) names: Names,
    pub(crate) expected: Vec<Expected>,
}

/// Words that may name files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BindInput {
    /// Where they count from, beneath the workspace.
    pub(crate) directory: String,
    pub(crate) words: Vec<Word>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Word {
    /// As it was written; one that begins with a slash counts from the workspace.
    pub(crate) text: String,
    /// How it is to be bound, if it can be.
    pub(crate) how: Binding,
    pub(crate) missing: Missing,
}

impl Word {
    /// A path that a file tool names: it works on the file itself, and on none that comes later.
    pub(crate) fn of_path(path: &Beneath) -> Word {
        Word { text: path.text(), how: Binding::Unchanged, missing: Missing::Bind }
    }
}

/// What it means that there is no such file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Missing {
    /// It may be no path at all; nothing must come to be there before the call runs.
    Watch,
    /// There must be none when the call runs.
    Bind,
}

/// What a word turned out to name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// From the workspace downwards.
    pub(crate) named: String,
    pub(crate) met: Met,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Met {
    /// A file; with a copy as base64 if it is to be sealed.
    File {
        path: String,
        digest: Digest,
        bytes: u64,
        executable: bool,
        copy: Option<String>,
    },
    /// Nothing, and that counts.
    Nothing {
        path: String,
    },
    /// Nothing, where it may be no path at all.
    Absent,
    Directory,
    /// A secret by its name.
    Hidden,
    /// It leads out of the workspace.
    Outside,
    /// There is no room for it.
    TooMuch,
    /// It cannot be read, or is no file.
    Closed,
    /// Its name cannot be written down.
    NotText,
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
    /// What it took out of parts of files.
    pub(crate) findings: Findings,
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

/// A frame that says which question it is about: how every frame of a worker for files begins, in both directions. One
/// that is empty after that asks whether the worker is well, and is answered by the same.
pub(crate) fn numbered_frame(number: u64, said: &[u8]) -> Vec<u8> {
    let length = (said.len() + size_of::<u64>()) as u64;
    let mut frame = Vec::with_capacity(said.len() + 2 * size_of::<u64>());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(said);
    frame
}

/// The number of a whole frame, and what it says.
pub(crate) fn split_number(frame: &[u8]) -> Option<(u64, &[u8])> {
    let (_, numbered) = frame.split_first_chunk::<8>()?;
    let (number, said) = numbered.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_frame_reads_back_and_one_without_a_number_is_none() {
        let frame = numbered_frame(7, b"abc");
        let said = read_frame(frame.as_slice()).unwrap().unwrap();
        assert_eq!(said.split_first_chunk(), Some((&7_u64.to_le_bytes(), b"abc".as_slice())));
        assert_eq!(split_number(&frame), Some((7, b"abc".as_slice())));
        assert_eq!(split_number(&[7; 15]), None);
    }

    #[test]
    fn names_are_told_whole_and_those_of_another_question_are_not_kept_for_it() {
        let question = |names: Names| WorkerRequest {
            root: "/w".into(),
            names: Arc::new(ToldNames::of(names)),
            max_bytes: 1,
            links: Links::Refuse,
            expected: Vec::new(),
            call: serde_json::from_str(r#"{ "Read": { "path": "a" } }"#).unwrap(),
        };
        let there_and_back = |names: &Names| {
            let told: WorkerRequest =
                serde_json::from_slice(&serde_json::to_vec(&question(names.clone())).unwrap()).unwrap();
            told.names.names().clone()
        };
        let few = Names { hidden: vec![jail::Pattern::parse("*.pem").unwrap()], protected: Vec::new() };
        for names in [Names::default(), few.clone(), Names::default(), Names::default(), few] {
            assert_eq!(there_and_back(&names), names);
        }
        let mut garbled = serde_json::to_value(question(Names::default())).unwrap();
        garbled["names"]["hidden"] = serde_json::json!([".."]);
        assert!(serde_json::from_value::<WorkerRequest>(garbled.clone()).is_err());
        assert!(serde_json::from_str::<WorkerRequest>(&garbled.to_string()).is_err());
    }

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
