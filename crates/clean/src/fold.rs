//! Letters as they are compared: without case, accents, digits in their place, and scripts that look alike.

use std::sync::LazyLock;

use unicode_normalization::char::decompose_compatible;

/// What a character is compared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folded {
    /// A letter that is one byte.
    Byte(u8),
    /// Any other letter.
    Character(char),
    /// No letter: something between words.
    Gap,
    /// A mark on the letter before it.
    Nothing,
}

impl Folded {
    pub(super) fn len(self) -> usize {
        match self {
            Folded::Byte(_) => 1,
            Folded::Character(character) => character.len_utf8(),
            Folded::Gap | Folded::Nothing => 0,
        }
    }
}

const ASCII: [u8; 128] = ascii();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled; the index is below the length")]
const fn ascii() -> [u8; 128] {
    let mut table = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => byte,
            b'A'..=b'Z' => byte + 32,
            // Digits and signs that are written for letters.
            b'0' => b'o',
            b'1' | b'!' | b'|' => b'i',
            b'3' => b'e',
            b'4' | b'@' => b'a',
            b'5' | b'$' => b's',
            b'7' => b't',
            b'2' | b'6' | b'8' | b'9' => byte,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// What a character is compared as.
#[inline]
pub(super) fn fold(character: char) -> Folded {
    match ASCII.get(character as usize) {
        Some(0) => Folded::Gap,
        Some(byte) => Folded::Byte(*byte),
        None => fold_letter(character),
    }
}

/// The letters of most alphabets, folded once.
static ALPHABETS: LazyLock<Vec<Folded>> = LazyLock::new(|| {
    (0..0x800).map(|code| char::from_u32(code).map_or(Folded::Gap, fold_beyond_ascii)).collect()
});

pub(super) fn prepare() {
    LazyLock::force(&ALPHABETS);
}

fn fold_letter(character: char) -> Folded {
    match ALPHABETS.get(character as usize) {
        Some(folded) => *folded,
        None => fold_beyond_ascii(character),
    }
}

fn fold_beyond_ascii(character: char) -> Folded {
    match character {
        // Ideographs, kana and syllables are what they are.
        '\u{3041}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => return Folded::Character(character),
        '\u{300}'..='\u{36f}' | '\u{5b0}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' => {
            return Folded::Nothing;
        }
        '\u{fe00}'..='\u{fe0f}' | '\u{200c}' | '\u{200d}' | '\u{640}' => return Folded::Nothing,
        '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{3040}' => return Folded::Gap,
        _ => {}
    }
    let mut first = None;
    decompose_compatible(character, |part| first = first.or(Some(part)));
    let base = first.unwrap_or(character);
    let small = base.to_lowercase().next().unwrap_or(base);
    let folded = look_alike(small).unwrap_or(small);
    match u8::try_from(u32::from(folded)) {
        Ok(byte) if byte.is_ascii() => match ASCII.get(usize::from(byte)) {
            Some(0) | None => Folded::Gap,
            Some(byte) => Folded::Byte(*byte),
        },
        _ if folded.is_alphanumeric() => Folded::Character(folded),
        _ => Folded::Gap,
    }
}

/// The Latin letter that a small letter of another script looks like.
pub(super) fn look_alike(small: char) -> Option<char> {
    Some(match small {
        'а' | 'α' => 'a',
        'в' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'һ' | 'հ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' => 'm',
        'п' | 'ո' => 'n',
        'о' | 'ο' | 'օ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        _ => return None,
    })
}

/// A word of the book, as it is compared.
pub(super) fn fold_word(word: &str) -> String {
    let mut folded = String::new();
    for character in word.chars() {
        match fold(character) {
            Folded::Byte(byte) => folded.push(char::from(byte)),
            Folded::Character(character) => folded.push(character),
            Folded::Gap | Folded::Nothing => {}
        }
    }
    folded
}
