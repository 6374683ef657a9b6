//! Words that tell a model what to do. They are found and told of, never taken away: texts may speak of them.
//!
//! Letters are compared without case, accents, look-alikes and whatever stands between them, so that neither spacing nor
//! odd letters hide a phrase.

use std::ops::Range;
use std::sync::LazyLock;

use super::detect::{Hit, View};
use super::finding::{Action, Category};
use super::fold::{Folded, fold, fold_word};
use super::markers::{NAMES, find_named};
use super::orders::{ORDERS, Order};
use super::table::{State, Table};

/// How far back the beginning of a word is looked for, in characters.
const MOST_WORD: usize = 256;

/// One word of an order: which order, and which step of it.
type Step = (usize, usize);

pub(super) struct Book {
    table: Table,
    /// The column of each ASCII character, folded; what is no letter changes nothing.
    ascii: [u8; 256],
    /// For each word: its length in folded bytes, whether something else has to stand before it, and the steps it is.
    /// The name of a mark is none.
    words: Vec<(usize, bool, Vec<Step>)>,
}

static BOOK: LazyLock<Book> = LazyLock::new(Book::of_orders);

pub(super) fn prepare() {
    LazyLock::force(&BOOK);
}

impl Book {
    fn of_orders() -> Book {
        let mut words: Vec<(String, Vec<Step>)> = Vec::new();
        for (number, order) in ORDERS.iter().enumerate() {
            for (at, step) in order.steps.iter().enumerate() {
                for word in step.iter().map(|word| fold_word(word)) {
                    match words.iter_mut().find(|(known, _)| *known == word) {
                        Some((_, steps)) => steps.push((number, at)),
                        None => words.push((word, vec![(number, at)])),
                    }
                }
            }
        }
        let marks = NAMES.map(|name| (fold_word(name), Vec::new()));
        words.extend(marks);
        let spelt: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        let table = Table::of(&spelt, |byte| byte);
        let ascii = std::array::from_fn(|at| match u8::try_from(at).map(char::from).map(fold) {
            Ok(Folded::Byte(byte)) => table.column(byte),
            _ => Table::NOTHING,
        });
        // Before the name of a mark stands a bar, which counts as a letter.
        let begins = |word: &str, steps: &[Step]| word.is_ascii() && !steps.is_empty();
        let words =
            words.into_iter().map(|(word, steps)| (word.len(), begins(&word, &steps), steps)).collect();
        Book { table, ascii, words }
    }
}

/// How far an order has come: where its first word began and where its last one ended, in the visible text.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    first: u64,
    /// 0 is never.
    end: u64,
}

/// The state between two blocks.
#[derive(Debug)]
pub(super) struct Phrases {
    state: State,
    reached: Vec<[Reached; 3]>,
}

impl Default for Phrases {
    fn default() -> Phrases {
        Phrases { state: Table::START, reached: vec![Default::default(); ORDERS.len()] }
    }
}

/// Reads a block, character by character.
pub(super) struct Reader<'a> {
    book: &'static Book,
    view: &'a View<'a>,
    state: State,
}

impl Phrases {
    pub(super) fn reader<'a>(&self, view: &'a View<'a>) -> Reader<'a> {
        Reader { book: &BOOK, view, state: self.state }
    }

    /// Remembers where a reader has come.
    pub(super) fn remember(&mut self, reader: &Reader<'_>) {
        self.state = reader.state;
    }

    /// What it means that a word ended.
    #[cold]
    pub(super) fn matched(&mut self, reader: &Reader<'_>, end: usize, hits: &mut Vec<Hit>) {
        let Reader { book, view, state } = reader;
        for word in book.table.words(*state) {
            let Some((length, begins_word, steps)) = book.words.get(usize::from(*word)) else { continue };
            let Some(start) = word_start(view.text, end, *length, *begins_word) else { continue };
            if steps.is_empty() {
                hits.extend(find_named(view.text, &(start..end)));
            }
            for (number, at) in steps {
                self.reach(*number, *at, start..end, view, hits);
            }
        }
    }

    fn reach(&mut self, number: usize, at: usize, word: Range<usize>, view: &View<'_>, hits: &mut Vec<Hit>) {
        let Some((order, reached)) = ORDERS.get(number).zip(self.reached.get_mut(number)) else { return };
        let start = view.base + word.start as u64;
        let first = match at.checked_sub(1).and_then(|before| reached.get(before)) {
            None => start,
            Some(before) if (1..=start).contains(&before.end) && start - before.end <= order.gap => {
                before.first
            }
            Some(_) => return,
        };
        if at + 1 < order.steps.len() {
            if let Some(step) = reached.get_mut(at) {
                *step = Reached { first, end: view.base + word.end as u64 };
            }
            return;
        }
        *reached = Default::default();
        let first = usize::try_from(first.saturating_sub(view.base)).unwrap_or_default();
        hits.push(found(order, first, word.end));
    }
}

impl Reader<'_> {
    /// Reads an ASCII character. Whether a word may have ended.
    #[inline(always)]
    pub(super) fn read_ascii(&mut self, byte: u8) -> bool {
        let column = self.book.ascii.get(usize::from(byte)).copied().unwrap_or(Table::NOTHING);
        self.state = self.book.table.step(self.state, column);
        self.book.table.ends(self.state)
    }

    /// Reads any other. Whether a word may have ended.
    pub(super) fn read(&mut self, character: char) -> bool {
        let table = &self.book.table;
        match fold(character) {
            Folded::Gap | Folded::Nothing => false,
            Folded::Byte(byte) => {
                self.state = table.step(self.state, table.column(byte));
                table.ends(self.state)
            }
            Folded::Character(folded) => {
                for byte in folded.encode_utf8(&mut [0; 4]).bytes() {
                    self.state = table.step(self.state, table.column(byte));
                }
                table.ends(self.state)
            }
        }
    }
}

/// Where a word of so many folded bytes began that ends at a place. None if it is the rest of a longer one, or if it
/// ended before that place.
fn word_start(text: &str, end: usize, length: usize, begins_word: bool) -> Option<usize> {
    let before = text.get(..end)?;
    let mut left = length;
    let mut characters = before.char_indices().rev().take(MOST_WORD);
    let (mut start, last) = characters.next()?;
    left = left.checked_sub(fold(last).len()).filter(|_| fold(last).len() > 0)?;
    while left > 0 {
        let (at, character) = characters.next()?;
        left = left.saturating_sub(fold(character).len());
        start = at;
    }
    let earlier = text.get(..start)?.chars().next_back().map(fold);
    let continues = matches!(earlier, Some(Folded::Byte(_) | Folded::Character(_)));
    (!(begins_word && continues)).then_some(start)
}

fn found(order: &Order, start: usize, end: usize) -> Hit {
    Hit {
        start,
        end,
        category: Category::Injection,
        rule: order.rule,
        action: Action::Flagged,
        rank: 6,
        goes_on: None,
    }
}
