//! Takes out what is not seen or what a terminal would obey, and passes on the rest.
//!
//! The first of two steps: what searches for words and secrets sees only what a reader sees, so that nothing hidden
//! can part them. Works character by character, so that it is the same wherever its input is cut.

use super::characters::{
    Kind, TAGGED_FLAGS, begins_keycap, is_emoji, joins, kind_of, may_vary, parts_with_spaces, reads_leftwards,
};
use super::escapes::{Escape, Step, UNFINISHED};
use super::finding::{Action, Category, Finding};
use super::window::Window;

/// How far back a letter makes its line one that is read from right to left, in bytes.
const LEFTWARDS_REACH: usize = 96;

/// How long a string may be that a C1 character began, in bytes.
const MOST_ASIDE: usize = 1024;

/// How many ideographs in a row may each have a variant of their own.
const MOST_VARIANTS: u8 = 3;

/// Where we are in the text.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Text,
    /// After a carriage return, which stays if a line feed follows.
    Return,
    /// After a joiner, which stays if an emoji follows.
    Joiner,
    /// After a digit and this selector, which stays if a key follows.
    Keycap(char),
    /// After a black flag, among tags.
    Tags { spelt: [u8; 6], count: u8 },
    /// In an escape sequence.
    Escape(Escape),
    /// In a string that a C1 character began: kept aside, since it goes only if it ends.
    Aside { rule: &'static str, after_escape: bool },
}

/// What is being taken out.
#[derive(Clone, Copy, Debug)]
struct Removal {
    category: Category,
    rule: &'static str,
    start: u64,
    end: u64,
}

/// The state between two pieces of a text.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    state: State,
    /// Bytes that were read and neither kept nor dropped yet.
    held: usize,
    removal: Option<Removal>,
    /// Whether the last character was one of Latin-1 beyond ASCII, as in text that was decoded twice.
    after_latin: bool,
    /// How many ideographs in a row had a variant.
    variants: u8,
    /// What was read of a string that a C1 character began.
    aside: String,
}

impl Sieve {
    pub(super) fn push(&mut self, text: &str, window: &mut Window) {
        let mut rest = text;
        while !rest.is_empty() {
            if matches!(self.state, State::Text) {
                let (plain, after) = rest.split_at(plain_prefix(rest));
                if !plain.is_empty() {
                    self.close(window);
                    self.after_latin =
                        plain.chars().next_back().is_some_and(|last| last <= '\u{ff}' && !last.is_ascii());
                    window.keep(plain);
                }
                rest = after;
            }
            let mut characters = rest.chars();
            let Some(character) = characters.next() else { break };
            rest = characters.as_str();
            self.take(character, window);
        }
    }

    /// Takes bytes that are no text: a mark stands in their place.
    pub(super) fn push_broken(&mut self, bytes: usize, window: &mut Window) {
        self.finish(window);
        self.held = bytes;
        self.removed(Category::Encoding, "invalid-utf8", window);
        self.held = 0;
        window.replace("\u{fffd}", bytes);
    }

    /// The end of the text: what is held is let go.
    pub(super) fn finish(&mut self, window: &mut Window) {
        match std::mem::take(&mut self.state) {
            State::Text => {}
            State::Return => self.line_break(Category::Control, "carriage-return", window),
            State::Joiner => self.remove(Category::Invisible, "zero-width", window),
            State::Keycap(_) => self.remove(Category::Smuggled, "variation-selector", window),
            State::Tags { .. } => self.remove(Category::Smuggled, "tag-character", window),
            State::Escape(_) => self.remove(Category::Escape, UNFINISHED, window),
            State::Aside { .. } => {
                self.put_back(window);
                return self.finish(window);
            }
        }
        self.close(window);
    }

    fn take(&mut self, character: char, window: &mut Window) {
        match std::mem::take(&mut self.state) {
            State::Text => self.in_text(character, window),
            State::Return => {
                if character == '\n' {
                    self.held += 1;
                    return self.keep("\r\n", window);
                }
                // ATTACK(overwritten-line): what follows a lone return is written over what came before.
                self.line_break(Category::Control, "carriage-return", window);
                self.in_text(character, window);
            }
            State::Joiner => {
                if is_emoji(character) {
                    self.keep("\u{200d}", window);
                } else {
                    self.remove(Category::Invisible, "zero-width", window);
                }
                self.in_text(character, window);
            }
            // ATTACK(credential-in-output): a digit alone has no variants, and one would part what it stands in.
            State::Keycap(selector) => {
                if character == '\u{20e3}' {
                    self.keep_character(selector, window);
                } else {
                    self.remove(Category::Smuggled, "variation-selector", window);
                }
                self.in_text(character, window);
            }
            State::Tags { spelt, count } => self.in_tags(spelt, count, character, window),
            State::Aside { rule, after_escape } => self.in_aside(rule, after_escape, character, window),
            State::Escape(escape) => match escape.step(character) {
                Step::More(escape) => {
                    self.held += character.len_utf8();
                    self.state = State::Escape(escape);
                }
                Step::Done(rule) => {
                    self.held += character.len_utf8();
                    self.remove(Category::Escape, rule, window);
                }
                Step::Before(rule) => {
                    self.remove(Category::Escape, rule, window);
                    self.in_text(character, window);
                }
            },
        }
    }

    fn in_text(&mut self, character: char, window: &mut Window) {
        self.held += character.len_utf8();
        let after_latin =
            std::mem::replace(&mut self.after_latin, ('\u{80}'..='\u{ff}').contains(&character));
        let before = window.last();
        let (category, rule) = match kind_of(character) {
            Kind::Plain => return self.keep_character(character, window),
            Kind::Flag => {
                self.state = State::Tags { spelt: [0; 6], count: 0 };
                return self.keep_character(character, window);
            }
            Kind::Control if character == '\r' => {
                self.state = State::Return;
                return;
            }
            Kind::Control => match Escape::begun_by(character) {
                Some(escape) if character == '\u{1b}' || (character == '\u{9b}' && !after_latin) => {
                    self.state = State::Escape(escape);
                    return;
                }
                // Text that was decoded twice has such characters after accented letters, and nothing to obey.
                Some(escape) if !after_latin => {
                    self.state = State::Aside { rule: escape.rule(), after_escape: false };
                    return;
                }
                _ => (Category::Control, "control-character"),
            },
            Kind::LineBreak => return self.line_break(Category::Invisible, "line-separator", window),
            Kind::Direction => (Category::Direction, "override"),
            Kind::Mark => {
                if kind_of(before.unwrap_or('\n')) != Kind::Mark
                    && window.any_behind(LEFTWARDS_REACH, reads_leftwards)
                {
                    return self.keep_character(character, window);
                }
                (Category::Direction, "mark")
            }
            Kind::Space if before.is_some_and(parts_with_spaces) => {
                return self.keep_character(character, window);
            }
            Kind::NonJoiner if before.is_some_and(joins) => return self.keep_character(character, window),
            Kind::Joiner if before.is_some_and(joins) => return self.keep_character(character, window),
            Kind::Joiner if before.is_some_and(|before| is_emoji(before) || before == '\u{fe0f}') => {
                self.state = State::Joiner;
                return;
            }
            Kind::Space | Kind::NonJoiner | Kind::Joiner => (Category::Invisible, "zero-width"),
            Kind::Variation if before.is_some_and(|before| begins_keycap(before, character)) => {
                self.state = State::Keycap(character);
                return;
            }
            Kind::Variation => {
                if before.is_some_and(|before| may_vary(before, character))
                    && self.may_vary_again(character, window)
                {
                    return self.keep_character(character, window);
                }
                (Category::Smuggled, "variation-selector")
            }
            Kind::Tag => (Category::Smuggled, "tag-character"),
            Kind::Operator => (Category::Smuggled, "invisible-operator"),
            Kind::ByteOrder if window.is_at_start() => return self.keep_character(character, window),
            Kind::ByteOrder => (Category::Invisible, "zero-width"),
            Kind::Ignorable => (Category::Invisible, "default-ignorable"),
        };
        self.remove(category, rule, window);
    }

    /// Few terminals obey these strings, and tables of characters are full of their beginnings: one is taken out
    /// whole if it ends on its line, and otherwise only its first character is.
    fn in_aside(&mut self, rule: &'static str, after_escape: bool, character: char, window: &mut Window) {
        let ends = matches!(character, '\u{7}' | '\u{9c}') || (after_escape && character == '\\');
        if ends {
            self.held += character.len_utf8();
            self.aside.clear();
            return self.remove(Category::Escape, rule, window);
        }
        let is_escape = character == '\u{1b}' && !after_escape;
        let goes_on = !after_escape && (kind_of(character) == Kind::Plain || is_escape) && character != '\n';
        if goes_on && self.aside.len() < MOST_ASIDE {
            self.held += character.len_utf8();
            self.aside.push(character);
            self.state = State::Aside { rule, after_escape: is_escape };
            return;
        }
        self.put_back(window);
        self.take(character, window);
    }

    /// Reads again what was kept aside, without the character that began it.
    fn put_back(&mut self, window: &mut Window) {
        let aside = std::mem::take(&mut self.aside);
        self.held -= aside.len();
        self.state = State::Text;
        self.remove(Category::Control, "control-character", window);
        for character in aside.chars() {
            self.take(character, window);
        }
    }

    // ATTACK(variation-smuggling): one selector an ideograph is a byte an ideograph, if nobody counts.
    fn may_vary_again(&mut self, selector: char, window: &Window) -> bool {
        if selector < '\u{e0100}' {
            return true;
        }
        let follows = window.nth_behind(1).is_some_and(|earlier| kind_of(earlier) == Kind::Variation);
        self.variants = if follows { self.variants.saturating_add(1) } else { 0 };
        self.variants < MOST_VARIANTS
    }

    fn in_tags(&mut self, mut spelt: [u8; 6], count: u8, character: char, window: &mut Window) {
        let tag = u32::from(character).checked_sub(0xe_0000).and_then(|tag| u8::try_from(tag).ok());
        let end = usize::from(count);
        let word = spelt.get(..end).unwrap_or_default();
        match (tag, spelt.get(end).is_some()) {
            (Some(0x7f), _) if TAGGED_FLAGS.contains(&word) => {
                let tags = word.iter().filter_map(|tag| char::from_u32(0xe_0000 + u32::from(*tag)));
                let kept: String = tags.chain([character]).collect();
                self.held += character.len_utf8();
                self.keep(&kept, window);
            }
            (Some(tag), true) if (b' '..=b'~').contains(&tag) => {
                if let Some(place) = spelt.get_mut(end) {
                    *place = tag;
                }
                self.held += character.len_utf8();
                self.state = State::Tags { spelt, count: count + 1 };
            }
            _ => {
                self.remove(Category::Smuggled, "tag-character", window);
                self.in_text(character, window);
            }
        }
    }

    fn keep_character(&mut self, character: char, window: &mut Window) {
        self.keep(character.encode_utf8(&mut [0; 4]), window);
    }

    fn keep(&mut self, text: &str, window: &mut Window) {
        self.close(window);
        self.held = 0;
        window.keep(text);
    }

    fn line_break(&mut self, category: Category, rule: &'static str, window: &mut Window) {
        self.removed(category, rule, window);
        self.close(window);
        window.replace("\n", std::mem::take(&mut self.held));
    }

    fn remove(&mut self, category: Category, rule: &'static str, window: &mut Window) {
        self.removed(category, rule, window);
        window.skip(std::mem::take(&mut self.held));
    }

    fn removed(&mut self, category: Category, rule: &'static str, window: &mut Window) {
        if self.held == 0 {
            return;
        }
        let start = window.original();
        let end = start + self.held as u64;
        match &mut self.removal {
            // A run of the same is one finding; every escape sequence is its own.
            Some(open) if open.rule == rule && open.end == start && category != Category::Escape => {
                open.end = end
            }
            _ => {
                self.close(window);
                self.removal = Some(Removal { category, rule, start, end });
            }
        }
    }

    fn close(&mut self, window: &mut Window) {
        if let Some(Removal { category, rule, start, end }) = self.removal.take() {
            window.record(Finding { category, rule, start, end, action: Action::Removed });
        }
    }
}

/// The length of the beginning that is plain, whole characters only.
fn plain_prefix(text: &str) -> usize {
    const STRIDE: usize = 32;
    let plain = |byte: &u8| (byte.wrapping_sub(b' ') < 0x5f) | (*byte == b'\n') | (*byte == b'\t');
    let mut length = 0;
    loop {
        let rest = text.get(length..).unwrap_or_default();
        let strides = rest.as_bytes().chunks_exact(STRIDE);
        // Without branches within a stride, so that it is one comparison of whole registers.
        let ascii =
            strides.take_while(|stride| stride.iter().fold(true, |all, byte| all & plain(byte))).count()
                * STRIDE;
        length += ascii;
        let rest = rest.get(ascii..).unwrap_or_default();
        let mut seen = 0;
        for character in rest.chars() {
            if !(plain_beyond_ascii(character) || (character.is_ascii() && plain(&(character as u8)))) {
                return length + seen;
            }
            seen += character.len_utf8();
            if seen >= STRIDE {
                break;
            }
        }
        length += seen;
        if seen < STRIDE {
            return length;
        }
    }
}

/// The common case of [`kind_of`], for letters of most scripts.
fn plain_beyond_ascii(character: char) -> bool {
    matches!(character, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{34e}' | '\u{350}'..='\u{61b}' | '\u{61d}'..='\u{115e}'
        | '\u{1161}'..='\u{17b3}' | '\u{17b6}'..='\u{180a}' | '\u{1810}'..='\u{200a}' | '\u{2010}'..='\u{2027}'
        | '\u{202f}'..='\u{205f}' | '\u{2070}'..='\u{3163}' | '\u{3165}'..='\u{fdff}' | '\u{fe10}'..='\u{fefe}'
        | '\u{ff00}'..='\u{ff9f}' | '\u{ffa1}'..='\u{ffef}' | '\u{10000}'..='\u{1bc9f}' | '\u{1e000}'..='\u{1f3f3}'
        | '\u{1f3f5}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_case_is_never_laxer_than_the_whole() {
        for character in (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| plain_beyond_ascii(*c)) {
            assert_eq!(kind_of(character), Kind::Plain, "{character:?}");
        }
    }
}
