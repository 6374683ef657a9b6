//! An automaton that finds many words at once (Aho and Corasick), as one flat table.
//!
//! A step is one addition and one load, and nothing is looked up on the way back from a dead end: most time of cleaning
//! is spent here. The library of that name has states that are made for other uses, and steps that cost twice as much.

use std::collections::VecDeque;

/// A state: where its row begins.
pub(super) type State = u32;

/// Words, as states and columns.
#[derive(Debug)]
pub(super) struct Table {
    /// Which column a byte stands for.
    columns: [u8; 256],
    /// The state after each column, row by row.
    next: Vec<State>,
    width: usize,
    /// States from here on end a word.
    ending: State,
    /// Which words each of those ends, by their number.
    words: Vec<Vec<u16>>,
}

impl Table {
    /// The column of what changes nothing: the state stays.
    pub(super) const NOTHING: u8 = 0;
    /// The column of everything that is in no word.
    const OTHER: u8 = 1;
    pub(super) const START: State = 0;

    /// The table of some words. `fold` says which bytes are the same.
    pub(super) fn of(words: &[&str], fold: fn(u8) -> u8) -> Table {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.bytes().map(fold)).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let column_of = |byte: u8| {
            let at = bytes.binary_search(&fold(byte)).ok();
            at.and_then(|at| u8::try_from(at + 2).ok()).unwrap_or(Table::OTHER)
        };
        let columns = std::array::from_fn(|byte| u8::try_from(byte).map_or(Table::OTHER, column_of));
        let mut tree = Tree { width: bytes.len() + 2, rows: Vec::new(), words: Vec::new() };
        tree.add();
        for (number, word) in words.iter().enumerate() {
            tree.insert(word.bytes().map(column_of), number);
        }
        let order = tree.close();
        tree.written(columns, &order)
    }

    /// The column of a byte.
    #[inline(always)]
    pub(super) fn column(&self, byte: u8) -> u8 {
        self.columns.get(usize::from(byte)).copied().unwrap_or(Table::OTHER)
    }

    /// The state after a column.
    #[inline(always)]
    pub(super) fn step(&self, state: State, column: u8) -> State {
        self.next.get(state as usize + usize::from(column)).copied().unwrap_or(Table::START)
    }

    /// Whether a state ends a word.
    #[inline(always)]
    pub(super) fn ends(&self, state: State) -> bool {
        state >= self.ending
    }

    /// The words that a state ends, by their number.
    pub(super) fn words(&self, state: State) -> &[u16] {
        let place = state.checked_sub(self.ending).map(|beyond| beyond as usize / self.width);
        place.and_then(|at| self.words.get(at)).map_or(&[], Vec::as_slice)
    }
}

/// The words while they are put together. A row holds the numbers of the next nodes; 0, the root, is also none.
struct Tree {
    width: usize,
    rows: Vec<u16>,
    words: Vec<Vec<u16>>,
}

impl Tree {
    fn add(&mut self) -> u16 {
        let node = u16::try_from(self.words.len()).unwrap_or(u16::MAX);
        self.rows.resize(self.rows.len() + self.width, 0);
        self.words.push(Vec::new());
        node
    }

    fn next(&self, node: u16, column: usize) -> u16 {
        self.rows.get(usize::from(node) * self.width + column).copied().unwrap_or_default()
    }

    fn lead(&mut self, node: u16, column: usize, to: u16) {
        if let Some(place) = self.rows.get_mut(usize::from(node) * self.width + column) {
            *place = to;
        }
    }

    fn insert(&mut self, columns: impl Iterator<Item = u8>, number: usize) {
        let mut node = 0;
        for column in columns.map(usize::from) {
            let mut next = self.next(node, column);
            if next == 0 {
                next = self.add();
                self.lead(node, column, next);
            }
            node = next;
        }
        if let (Some(words), Ok(number)) = (self.words.get_mut(usize::from(node)), u16::try_from(number)) {
            words.push(number);
        }
    }

    /// Leads every missing way to where the longest end of what was read goes on. The nodes, nearest first.
    fn close(&mut self) -> Vec<u16> {
        let mut back = vec![0_u16; self.words.len()];
        let mut waiting: VecDeque<u16> = VecDeque::from([0]);
        let mut order = Vec::with_capacity(self.words.len());
        while let Some(node) = waiting.pop_front() {
            order.push(node);
            let behind = back.get(usize::from(node)).copied().unwrap_or_default();
            for column in 0..self.width {
                let next = self.next(node, column);
                let other = if node == 0 { 0 } else { self.next(behind, column) };
                if next == 0 {
                    self.lead(node, column, other);
                    continue;
                }
                if let Some(back) = back.get_mut(usize::from(next)) {
                    *back = other;
                }
                let inherited = self.words.get(usize::from(other)).cloned().unwrap_or_default();
                if let Some(words) = self.words.get_mut(usize::from(next)) {
                    words.extend(inherited);
                }
                waiting.push_back(next);
            }
        }
        order
    }

    /// The table: those that end a word come last, so that one comparison tells them.
    fn written(mut self, columns: [u8; 256], order: &[u16]) -> Table {
        let ends = |node: &u16| self.words.get(usize::from(*node)).is_some_and(|words| !words.is_empty());
        let (plain, ending): (Vec<u16>, Vec<u16>) = order.iter().partition(|node| !ends(node));
        let mut place = vec![Table::START; self.words.len()];
        let mut sorted: Vec<u16> = Vec::with_capacity(place.len());
        sorted.extend(plain.iter().chain(&ending));
        let rows = (0..).step_by(self.width);
        for (node, row) in sorted.iter().zip(rows) {
            if let Some(place) = place.get_mut(usize::from(*node)) {
                *place = row;
            }
        }
        let mut next = Vec::with_capacity(self.rows.len());
        for node in &sorted {
            let from = usize::from(*node) * self.width;
            let row = self.rows.get(from..from + self.width).unwrap_or_default();
            let at = next.len();
            next.extend(row.iter().map(|to| place.get(usize::from(*to)).copied().unwrap_or(Table::START)));
            if let (Some(stays), Ok(row)) =
                (next.get_mut(at + usize::from(Table::NOTHING)), State::try_from(at))
            {
                *stays = row;
            }
        }
        let words = ending
            .iter()
            .map(|node| self.words.get_mut(usize::from(*node)).map(std::mem::take).unwrap_or_default());
        let words = words.collect();
        let ending = State::try_from(plain.len() * self.width).unwrap_or(State::MAX);
        Table { columns, next, width: self.width, ending, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where words end in a text, and which.
    fn found(words: &[&str], text: &str) -> Vec<(usize, u16)> {
        let table = Table::of(words, |byte| byte.to_ascii_lowercase());
        let mut state = Table::START;
        let mut found = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            state = table.step(state, table.column(byte));
            if table.ends(state) {
                found.extend(table.words(state).iter().map(|word| (at + 1, *word)));
            }
        }
        found
    }

    #[test]
    fn it_finds_what_the_library_finds() {
        let words = ["he", "she", "his", "hers", "h", "rs a", "é", "sh", "s", "her she"];
        let text = "ushers She his hers and hErs a héhé shhe her she";
        let library = aho_corasick::AhoCorasick::builder().ascii_case_insensitive(true).build(words).unwrap();
        let mut expected: Vec<(usize, u16)> = library
            .find_overlapping_iter(text)
            .map(|found| (found.end(), u16::try_from(found.pattern().as_usize()).unwrap()))
            .collect();
        let mut ours = found(&words, text);
        expected.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, expected);
    }
}
