//! Words in which letters of one script stand for those of another: `pаypal` with a Cyrillic `а`.

use super::detect::{Hit, View};
use super::finding::{Action, Category};
use super::fold::{Folded, fold, look_alike};

/// How far a word is followed to either side, in characters.
const REACH: usize = 48;

/// Looks whether a letter is the first of its script in a word that is otherwise Latin.
pub(super) fn find(view: &View<'_>, at: usize, character: char) -> Option<Hit> {
    if !is_stand_in(character) {
        return None;
    }
    let before = view.text.get(..at)?.chars().rev().take(REACH).take_while(|c| c.is_alphabetic());
    let after = view.text.get(at..)?.chars().take(REACH).take_while(|c| c.is_alphabetic());
    let (mut start, mut latin, mut length) = (at, 0, 0);
    for letter in before {
        // Only the first of them speaks for the word; letters that look like nothing else make it another language.
        if !letter.is_ascii() {
            return None;
        }
        start -= letter.len_utf8();
        latin += 1;
        length += 1;
    }
    let mut end = at;
    for letter in after {
        if !letter.is_ascii() && !is_stand_in(letter) {
            return None;
        }
        latin += usize::from(letter.is_ascii());
        length += 1;
        end += letter.len_utf8();
    }
    (latin >= 2 && length >= 4).then_some(Hit {
        start,
        end,
        category: Category::Lookalike,
        rule: "mixed-scripts",
        action: Action::Flagged,
        rank: 7,
        goes_on: None,
    })
}

fn is_stand_in(character: char) -> bool {
    // Nearly all letters that are asked about are of an alphabet that has none, or fold to one that is not Latin.
    matches!(character, '\u{370}'..='\u{58f}') && matches!(fold(character), Folded::Byte(_)) && {
        let small = character.to_lowercase().next().unwrap_or(character);
        // Greek letters are part of formulas; those that are hard to tell from Latin ones are not.
        look_alike(small).is_some()
            && !matches!(small, 'α' | 'γ' | 'ι' | 'κ' | 'ρ' | 'τ' | 'υ' | 'χ' | 'ω' | 'ν')
    }
}
