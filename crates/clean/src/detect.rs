//! Looks through visible text for everything that is found by a word: one pass of one automaton, then a closer look at
//! each place it names.

use std::ops::Range;
use std::sync::LazyLock;

use super::class::Class;
use super::finding::{Action, Category};
use super::markers::{MARKERS, Marker};
use super::phrases::Phrases;
use super::secrets::{self, FORMATS, Format};
use super::table::Table;
use super::{links, lookalike};

/// The text around a block.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// Visible text, from somewhat before the block to somewhat after it.
    pub(super) text: &'a str,
    /// How much visible text came before.
    pub(super) base: u64,
    /// The block: what begins in it is looked for now.
    pub(super) block: Range<usize>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) category: Category,
    pub(super) rule: &'static str,
    pub(super) action: Action,
    /// Which of two that begin at the same place gives its name: the lower.
    pub(super) rank: u8,
    /// What it goes on with, if it reaches the end of what is known.
    pub(super) goes_on: Option<Class>,
}

impl Hit {
    pub(super) fn secret(rule: &'static str, range: Range<usize>) -> Hit {
        Hit {
            start: range.start,
            end: range.end,
            category: Category::Secret,
            rule,
            action: Action::Masked,
            rank: 1,
            goes_on: None,
        }
    }
}

/// What a word may be the beginning of.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    Format(&'static Format),
    Marker(&'static Marker),
    Assignment,
    Address,
    Scheme,
    KeyBlock,
    EncodedKey,
    Header,
}

struct Triggers {
    table: Table,
    /// For each word: its length, and what it may be the beginning of.
    meanings: Vec<(usize, Trigger)>,
    longest: usize,
}

static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let mut words: Vec<(&str, Trigger)> = Vec::new();
    words.extend(FORMATS.iter().map(|format| (format.prefix, Trigger::Format(format))));
    words.extend(MARKERS.iter().map(|marker| (marker.text, Trigger::Marker(marker))));
    words.extend(secrets::ASSIGNED.map(|word| (word, Trigger::Assignment)));
    words.extend(secrets::HEADERS.map(|word| (word, Trigger::Header)));
    words.extend(links::SCHEMES.map(|word| (word, Trigger::Scheme)));
    words.extend(links::BEFORE_HOST.map(|word| (word, Trigger::Address)));
    words.extend(secrets::KEY_BLOCKS.map(|word| (word, Trigger::KeyBlock)));
    words.push((secrets::ENCODED_KEY, Trigger::EncodedKey));
    Triggers::of(words)
});

pub(super) fn prepare() {
    LazyLock::force(&TRIGGERS);
}

impl Triggers {
    fn of(words: Vec<(&str, Trigger)>) -> Triggers {
        let spelt: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let table = Table::of(&spelt, |byte| byte.to_ascii_lowercase());
        let longest = spelt.iter().map(|word| word.len()).max().unwrap_or_default();
        let meanings = words.into_iter().map(|(word, meaning)| (word.len(), meaning)).collect();
        Triggers { table, meanings, longest }
    }
}

/// How far runs of each class go, so that nothing is measured twice.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    bytes: &'a [u8],
    known: [(usize, usize); Class::COUNT],
    /// Up to where a block of a key was read.
    blocked: usize,
    /// Up to where an address was judged.
    pub(super) judged: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn over(bytes: &'a [u8]) -> Runs<'a> {
        Runs { bytes, known: [(0, 0); Class::COUNT], blocked: 0, judged: 0 }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the run of a class ends that a place is in.
    pub(super) fn end(&mut self, class: Class, at: usize) -> usize {
        let measure = || at + class.run(self.bytes.get(at..).unwrap_or_default());
        let Some(known) = self.known.get_mut(class as usize) else { return measure() };
        if !(known.0..known.1).contains(&at) {
            *known = (at, measure());
        }
        known.1.max(at)
    }
}

/// What is known between two blocks.
#[derive(Debug, Default)]
pub(super) struct Detector {
    phrases: Phrases,
}

impl Detector {
    /// Everything that begins in the block, in no order.
    pub(super) fn look(&mut self, view: &View<'_>, hits: &mut Vec<Hit>) {
        let triggers = &*TRIGGERS;
        let bytes = view.text.as_bytes();
        let mut runs = Runs::over(bytes);
        let from = view.block.start;
        let to = bytes.len().min(view.block.end + triggers.longest);
        let searched = bytes.get(from..to).unwrap_or_default();
        let mut state = Table::START;
        let mut reader = self.phrases.reader(view);
        let mut skip = 0;
        // Two automata side by side: neither waits for the other.
        for (at, byte) in searched.iter().enumerate() {
            let end = from + at + 1;
            state = triggers.table.step(state, triggers.table.column(*byte));
            if triggers.table.ends(state) {
                let words = triggers.table.words(state).iter();
                let meant = words.filter_map(|word| triggers.meanings.get(usize::from(*word)));
                closer(meant, end, view, &mut runs, hits);
            }
            if byte.is_ascii() {
                if reader.read_ascii(*byte) && end <= view.block.end {
                    self.phrases.matched(&reader, end, hits);
                }
            } else if end > skip && end <= view.block.end {
                let Some(character) = view.text.get(end - 1..).and_then(|rest| rest.chars().next()) else {
                    continue;
                };
                skip = end - 1 + character.len_utf8();
                if reader.read(character) {
                    self.phrases.matched(&reader, skip, hits);
                }
                hits.extend(lookalike::find(view, end - 1, character));
            }
            if end == view.block.end {
                self.phrases.remember(&reader);
            }
        }
    }
}

/// A closer look at a place where words end.
fn closer<'a>(
    meant: impl Iterator<Item = &'a (usize, Trigger)>,
    end: usize,
    view: &View<'_>,
    runs: &mut Runs<'_>,
    hits: &mut Vec<Hit>,
) {
    let bytes = runs.bytes();
    for (length, meaning) in meant {
        let place = end - length..end;
        if place.start >= view.block.end {
            continue;
        }
        let hit = match meaning {
            Trigger::Format(format) => secrets::find_format(format, &place, runs),
            Trigger::Marker(marker) => marker.find(bytes, &place),
            Trigger::Assignment => secrets::find_assignment(bytes, &place),
            Trigger::Header => secrets::find_header(bytes, &place, runs),
            Trigger::Scheme => links::find_scheme(bytes, &place),
            // A block is read to its end once, not once for each beginning in it.
            Trigger::KeyBlock if place.start < runs.blocked => None,
            Trigger::KeyBlock => secrets::find_key_block(bytes, &place),
            Trigger::EncodedKey => secrets::find_encoded_key(&place, runs),
            Trigger::Address => {
                hits.extend(secrets::find_password(bytes, &place));
                // What stands within an address was judged with it.
                if place.start < runs.judged { None } else { links::find_link(&place, runs) }
            }
        };
        if let (Trigger::KeyBlock, Some(hit)) = (meaning, &hit) {
            runs.blocked = hit.end;
        }
        hits.extend(hit);
    }
}
