//! Which characters are seen, and where the unseen ones belong.
//!
//! Joiners, variation selectors and direction marks are part of how some languages and emoji are written. They stay
//! there, one at a time, and nowhere else.

/// What a character does to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is seen, or is ordinary white space.
    Plain,
    /// C0 and C1, but line feed, tab and form feed.
    Control,
    /// Ends a line, but is no line feed.
    LineBreak,
    /// Embeds, overrides or isolates a direction.
    Direction,
    /// LRM, RLM, ALM: a hint about the direction of its neighbours.
    Mark,
    /// Zero-width space.
    Space,
    /// Zero-width joiner.
    Joiner,
    /// Zero-width non-joiner.
    NonJoiner,
    /// A variation selector.
    Variation,
    /// The flag that tags may follow.
    Flag,
    /// A tag.
    Tag,
    /// An invisible operator of mathematics.
    Operator,
    /// A byte order mark.
    ByteOrder,
    /// Any other that is not shown.
    Ignorable,
}

pub(super) fn kind_of(character: char) -> Kind {
    match character {
        '\n' | '\t' | '\u{c}' | ' '..='~' => Kind::Plain,
        '\u{85}' | '\u{2028}' | '\u{2029}' => Kind::LineBreak,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Kind::Control,
        '\u{200e}' | '\u{200f}' | '\u{61c}' => Kind::Mark,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Kind::Direction,
        '\u{200b}' => Kind::Space,
        '\u{200c}' => Kind::NonJoiner,
        '\u{200d}' => Kind::Joiner,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}' => Kind::Variation,
        '\u{1f3f4}' => Kind::Flag,
        '\u{e0000}'..='\u{e007f}' => Kind::Tag,
        '\u{2061}'..='\u{2064}' => Kind::Operator,
        '\u{feff}' => Kind::ByteOrder,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' => {
            Kind::Ignorable
        }
        '\u{2060}' | '\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => {
            Kind::Ignorable
        }
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0080}'..='\u{e0fff}' => Kind::Ignorable,
        _ => Kind::Plain,
    }
}

/// Whether a joiner or non-joiner after it belongs to how its script is written.
pub(super) fn joins(character: char) -> bool {
    matches!(character,
        '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{1b00}'..='\u{1bff}' | '\u{a840}'..='\u{a8ff}' | '\u{a980}'..='\u{a9df}'
        | '\u{aa00}'..='\u{aaff}' | '\u{abc0}'..='\u{abff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10a00}'..='\u{10aff}' | '\u{10d00}'..='\u{10fff}' | '\u{11000}'..='\u{11fff}'
        | '\u{1e900}'..='\u{1e95f}')
}

/// Whether words of its script are parted by zero-width spaces.
pub(super) fn parts_with_spaces(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{19e0}'..='\u{19ff}')
}

/// Whether it is read from right to left.
pub(super) fn reads_leftwards(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Whether it is a picture that others can be joined to.
pub(super) fn is_emoji(character: char) -> bool {
    matches!(character, '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{20e3}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character and a selector are the first two of a key such as 1️⃣.
pub(super) fn begins_keycap(character: char, selector: char) -> bool {
    matches!(character, '#' | '*' | '0'..='9') && matches!(selector, '\u{fe0e}' | '\u{fe0f}')
}

/// Whether a variation selector may follow a character.
pub(super) fn may_vary(character: char, selector: char) -> bool {
    let ideograph =
        matches!(character, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(character),
        '\u{e0100}'..='\u{e01ef}' => ideograph,
        '\u{180b}'..='\u{180f}' => matches!(character, '\u{1800}'..='\u{18af}'),
        '\u{fe00}'..='\u{fe02}' if ideograph => true,
        _ => {
            matches!(character, '\u{1000}'..='\u{109f}' | '\u{2229}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}'
            | '\u{3001}' | '\u{3002}' | '\u{a840}'..='\u{a87f}' | '\u{ff01}'..='\u{ff1f}' | '\u{10ac0}'..='\u{10aff}'
            | '\u{13000}'..='\u{143ff}')
        }
    }
}

/// The flags that are spelt with tags: England, Scotland, Wales.
pub(super) const TAGGED_FLAGS: [&[u8]; 3] = [b"gbeng", b"gbsct", b"gbwls"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rest_of_the_gate_calls_hidden_is_never_plain() {
        let kept = ['\r', '\u{c}'];
        for character in (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| !kept.contains(c)) {
            if contract::is_hidden(character) {
                assert_ne!(kind_of(character), Kind::Plain, "{character:?}");
            }
        }
    }
}
