//! Texts with `*` for any text and `?` for any character; nothing else is special.

/// Whether a pattern is about a text.
pub(crate) fn fits_wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where the last `*` stood, and what it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || text.get(from) == Some(wanted) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    at = place + 1;
                    from = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|left| *left == '*')
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
