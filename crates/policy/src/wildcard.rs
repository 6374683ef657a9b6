//! Texts with `*` for any text and `?` for any character; nothing else is special.

/// Whether a pattern is about a text.
///
/// Copies nothing: it is asked of every rule about a tool, for every call. Characters are compared byte by byte, which
/// comes to the same, and counted whole where a wildcard stands for them.
pub(crate) fn fits_wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where the last `*` stood, and what it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(found) = text.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                from += width(*found);
            }
            Some(wanted) if wanted == found => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    let taken = taken + text.get(taken).map_or(1, |first| width(*first));
                    star = Some((place, taken));
                    at = place + 1;
                    from = taken;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|left| *left == b'*')
}

/// Of how many bytes a character is that begins so.
fn width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

/// Whether a pattern is about something beneath a directory: a text that begins with it and a slash.
///
/// A `*` may stand for all of the rest; before one, pattern and text go side by side.
pub(crate) fn fits_beneath(pattern: &str, directory: &str) -> bool {
    let (mut pattern, mut beginning) = (pattern.chars(), directory.chars().chain(['/']));
    loop {
        match (pattern.next(), beginning.next()) {
            (Some('*'), _) | (Some(_), None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_text() {
        for (pattern, text) in [("*", ""), ("*", "a\nb/c"), ("a*c", "abbc"), ("a?c", "abc"), ("**x", "x")] {
            assert!(fits_wildcard(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("a*c", "abd"), ("a?c", "ac"), ("[a]", "a"), ("A", "a")]
        {
            assert!(!fits_wildcard(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_question_mark_stands_for_one_character_of_any_width() {
        for text in ["a", "\u{e4}", "\u{20ac}", "\u{1f512}"] {
            assert!(
                fits_wildcard("?", text) && fits_wildcard("*?", text) && fits_wildcard("?*", text),
                "{text}"
            );
            assert!(!fits_wildcard("??", text) && !fits_wildcard("?*?", text), "{text}");
            assert!(fits_wildcard("x*?y", &format!("x{text}{text}y")), "{text}");
            assert!(!fits_wildcard("x?y", &format!("x{text}{text}y")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn byte_by_byte_comes_to_the_same_as_character_by_character(
            pattern in "[ab\u{e4}\u{e5}\u{20ac}\u{1f512}*?]{0,8}",
            text in "[ab\u{e4}\u{e5}\u{20ac}\u{1f512}]{0,8}",
        ) {
            fn by_characters(pattern: &[char], text: &[char]) -> bool {
                match (pattern, text) {
                    ([], []) => true,
                    (['*', rest @ ..], _) => (0..=text.len()).any(|taken| by_characters(rest, &text[taken..])),
                    (['?', rest @ ..], [_, after @ ..]) => by_characters(rest, after),
                    ([wanted, rest @ ..], [found, after @ ..]) => wanted == found && by_characters(rest, after),
                    _ => false,
                }
            }
            let characters = |text: &str| text.chars().collect::<Vec<char>>();
            let expected = by_characters(&characters(&pattern), &characters(&text));
            prop_assert_eq!(fits_wildcard(&pattern, &text), expected);
        }
    }

    #[test]
    fn a_pattern_is_about_what_is_beneath_a_directory_if_it_can_begin_with_it() {
        for (pattern, directory) in
            [("a/b/*", "a"), ("a/b/c", "a/b"), ("*.tf", "x"), ("a/*", "a/b"), ("?/b", "a")]
        {
            assert!(fits_beneath(pattern, directory), "{pattern} {directory}");
        }
        for (pattern, directory) in [("a/b", "b"), ("a/b", "a/b"), ("ab/c", "a"), ("a", "a"), ("", "a")] {
            assert!(!fits_beneath(pattern, directory), "{pattern} {directory}");
        }
    }
}
