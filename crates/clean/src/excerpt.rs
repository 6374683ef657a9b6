//! A part of a text, as it may be shown: judged with what stands around it.
//!
//! Whoever cuts first and cleans afterwards shows half a credential, or the lines of a key without the one that names it.

use std::ops::Range;

use super::finding::Findings;
use super::secrets::KEY_BLOCKS;
use super::window::AHEAD;
use super::{Cleaner, Sieve, Window};

/// How much before a part is looked at, in bytes: more than any key is long.
const BEFORE: usize = 32 * 1024;

/// What is shown of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Its text: as it is if nothing can lie across its edges, else clean.
    pub text: String,
    /// What was taken out or masked. What is only flagged is still there to be found.
    pub findings: Findings,
}

/// A part of a text. What is not UTF-8 becomes the replacement character, and no character is torn.
pub fn excerpt(text: &[u8], part: Range<usize>) -> Excerpt {
    let end = boundary(text, part.end.min(text.len()));
    let start = boundary(text, part.start.min(end));
    let raw = text.get(start..end).unwrap_or_default();
    let is_line_start = |at: usize| at.checked_sub(1).is_none_or(|last| text.get(last) == Some(&b'\n'));
    let is_line_end = |at: usize| is_line_start(at) || matches!(text.get(at), None | Some(b'\n'));
    let before = boundary(text, start.saturating_sub(BEFORE));
    // Everything that is found ends with its line, but for keys.
    let crosses_start = !is_line_start(start) || names_key(text.get(before..start).unwrap_or_default());
    // ATTACK(torn-credential): what lies across an edge is known by both of its sides.
    if !crosses_start && is_line_end(end) {
        return Excerpt { text: String::from_utf8_lossy(raw).into_owned(), findings: Findings::default() };
    }
    let from = if crosses_start { before } else { start };
    let to = boundary(text, end.saturating_add(AHEAD).min(text.len()));
    let mut cleaner = Cleaner {
        sieve: Sieve::default(),
        window: Window::showing((start - from) as u64..(end - from) as u64),
        torn: Vec::new(),
    };
    cleaner.push_bytes(text.get(from..to).unwrap_or_default());
    let (text, findings) = cleaner.finish();
    Excerpt { text, findings: findings.of_changes() }
}

/// Whether the first line of a key may be in a text.
fn names_key(text: &[u8]) -> bool {
    let has = |word: &str| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    KEY_BLOCKS.iter().any(|word| has(word))
}

/// The beginning of the character that a place lies in.
fn boundary(text: &[u8], at: usize) -> usize {
    let is_within = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_within(*at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clean_text;

    const LINE: &str = "MIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9vL3k4dd5eYt6uI7oP8aS9dF0gHjKl\n";

    fn part(text: &str, part: Range<usize>) -> String {
        excerpt(text.as_bytes(), part).text
    }

    #[test]
    fn whole_lines_stay_as_they_are() {
        let text = "one \u{1b}[1m\ntwo\nthree";
        assert_eq!(part(text, 0..text.len()), text);
        assert_eq!((part(text, 9..12), part(text, 9..13)), ("two".to_owned(), "two\n".to_owned()));
    }

    #[test]
    fn a_part_of_a_line_is_judged_with_the_rest_of_it() {
        let text = "key AKIAZ7QW3MNBV5XCLKJ2 end";
        for (from, to) in [(0, 12), (12, text.len()), (10, 14)] {
            let shown = excerpt(text.as_bytes(), from..to);
            assert!(shown.text.contains("[masked:aws-access-key]"), "{shown:?}");
            assert!(!shown.text.contains("AKIA") && !shown.text.contains("KJ2"), "{shown:?}");
            assert_eq!(shown.findings.masked(), (1, vec!["aws-access-key"]));
        }
        assert_eq!(part(text, 0..3), "key");
        assert_eq!(part(text, 25..28), "end");
    }

    #[test]
    fn a_line_of_a_key_is_known_by_the_lines_before() {
        let text =
            format!("a\n-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\nb\n", LINE.repeat(30));
        let inside = text.find("MIIE").unwrap() + LINE.len() * 7;
        assert_eq!(part(&text, inside..inside + LINE.len()), "[masked:private-key]");
        assert_eq!(part(&text, text.len() - 2..text.len()), "b\n");
        assert_eq!(part(&text, 0..2), "a\n");
    }

    #[test]
    fn findings_are_the_same_on_the_other_side_of_a_wire() {
        let findings = clean_text("\u{1b}[1m AKIAZ7QW3MNBV5XCLKJ2", usize::MAX).findings;
        let written = serde_json::to_string(&findings).unwrap();
        let read: Findings = serde_json::from_str(&written).unwrap();
        assert_eq!(read.counts().collect::<Vec<_>>(), findings.counts().collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_part_of_any_text_holds_nothing_that_the_whole_does_not(
            text in any::<String>(),
            from in 0_usize..60,
            length in 0_usize..60,
        ) {
            let clean = clean_text(&part(&text, from..from + length), usize::MAX).text;
            let whole = clean_text(&text, usize::MAX).text;
            prop_assert!(clean.chars().all(|character| whole.contains(character)), "{clean:?} of {whole:?}");
        }

        #[test]
        fn any_bytes_have_parts(bytes in prop::collection::vec(any::<u8>(), 0..80), from in 0_usize..90, length in 0_usize..90) {
            let shown = excerpt(&bytes, from..from + length).text;
            // It begins with the character that its first byte is in.
            prop_assert!(shown.chars().count() <= length.min(bytes.len()) + 3);
        }

        #[test]
        fn a_credential_is_in_no_part_wherever_the_edges_are(from in 0_usize..60, length in 0_usize..60) {
            let text = format!("{}AKIAZ7QW3MNBV5XCLKJ2{}", "- ".repeat(10), " -".repeat(10));
            let shown = part(&text, from..from + length);
            prop_assert!(!shown.bytes().any(|byte| byte.is_ascii_uppercase()), "{}", shown);
        }
    }
}
