//! An automaton over many words as one flat table: a step is one addition and one load, and no step needs a branch.
//!
//! What the words are and how they overlap is `aho_corasick`'s work; this only writes its states down closely, since most
//! time is spent here.

use std::collections::HashMap;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;

/// How many columns a row has room for.
const ROW: usize = 128;

/// A state: where its row begins.
pub(super) type State = u32;

/// Words, as states and columns.
pub(super) struct Table {
    /// Which column a byte stands for.
    columns: [u8; 256],
    next: Vec<State>,
    /// States from here on end a word.
    ending: State,
    /// Which words each of those ends.
    words: Vec<Vec<u16>>,
}

impl Table {
    /// The column of what changes nothing: the state stays.
    pub(super) const NOTHING: u8 = 0;
    /// The column of everything that is in no word.
    const OTHER: u8 = 1;
    pub(super) const START: State = 0;

    /// The table of some words. `fold` says which bytes are the same.
    #[expect(clippy::expect_used, reason = "words are constants, and every test builds their tables")]
    pub(super) fn of<W: AsRef<str>>(words: &[W], fold: fn(u8) -> u8) -> Table {
        let folded: Vec<Vec<u8>> =
            words.iter().map(|word| word.as_ref().bytes().map(fold).collect()).collect();
        let automaton = NFA::new(&folded).expect("constants make an automaton");
        let mut columns = [Table::OTHER; 256];
        let mut bytes: Vec<u8> = folded.concat();
        bytes.sort_unstable();
        bytes.dedup();
        let unused = (0..=u8::MAX).find(|byte| !bytes.contains(byte)).expect("some byte is in no word");
        for byte in 0..=u8::MAX {
            if let (Ok(at), Some(column)) =
                (bytes.binary_search(&fold(byte)), columns.get_mut(usize::from(byte)))
            {
                *column = u8::try_from(at + 2).expect("a row has room for every byte");
            }
        }
        let letters: Vec<u8> = [unused, unused].into_iter().chain(bytes).collect();
        assert!(letters.len() <= ROW, "a row has room for every column");
        Table::written(&automaton, columns, &letters)
    }

    #[expect(clippy::expect_used, reason = "words are constants, and every test builds their tables")]
    fn written(automaton: &NFA, columns: [u8; 256], letters: &[u8]) -> Table {
        let start = automaton.start_state(Anchored::No).expect("it searches anywhere");
        let mut order: Vec<StateID> = vec![start];
        let mut known: HashMap<StateID, usize> = [(start, 0)].into();
        let mut rows: Vec<Vec<usize>> = Vec::new();
        while let Some(state) = order.get(rows.len()).copied() {
            let row = letters.iter().enumerate().map(|(column, letter)| {
                if column == usize::from(Table::NOTHING) {
                    return rows.len();
                }
                let next = automaton.next_state(Anchored::No, state, *letter);
                *known.entry(next).or_insert_with(|| {
                    order.push(next);
                    order.len() - 1
                })
            });
            let row = row.collect();
            rows.push(row);
        }
        // Those that end a word come last, so that one comparison tells them.
        let mut sorted: Vec<usize> = (0..order.len()).collect();
        let ends = |at: &usize| order.get(*at).is_some_and(|state| automaton.is_match(*state));
        sorted.sort_by_key(ends);
        let mut place = vec![0; sorted.len()];
        for (new, old) in sorted.iter().enumerate() {
            if let Some(place) = place.get_mut(*old) {
                *place = State::try_from(new * ROW).expect("there are few states");
            }
        }
        let mut next = Vec::with_capacity(sorted.len() * ROW);
        for old in &sorted {
            let row = rows.get(*old).into_iter().flatten();
            next.extend(row.filter_map(|to| place.get(*to)));
            next.resize(next.len().next_multiple_of(ROW), Table::START);
        }
        let ended = |state: &StateID| {
            let pattern = |index| u16::try_from(automaton.match_pattern(*state, index).as_usize()).ok();
            (0..automaton.match_len(*state)).filter_map(pattern).collect()
        };
        let ending = sorted.partition_point(|at| !ends(at));
        let words = sorted.iter().skip(ending).filter_map(|at| order.get(*at)).map(ended).collect();
        Table { columns, next, ending: State::try_from(ending * ROW).expect("there are few states"), words }
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
        let place = state.checked_sub(self.ending).map(|beyond| beyond as usize / ROW);
        place.and_then(|at| self.words.get(at)).map_or(&[], Vec::as_slice)
    }
}
