//! What a replacement changed, line by line.

use std::ops::Range;

/// Lines that are shown of one change, before and after.
const LINES: usize = 40;
/// Bytes of all of it.
const MOST: usize = 8 * 1024;

/// The lines around each replacement of `old` by `new`, `-` before and `+` after.
pub(super) fn of_replacements(text: &str, found: &[usize], old: &str, new: &str) -> String {
    let mut diff = String::new();
    for span in spans(text, found, old.len()) {
        let before = text.get(span.clone()).unwrap_or_default();
        let after = before_with(before, span.start, found, old, new);
        let line = text.get(..span.start).unwrap_or_default().matches('\n').count() + 1;
        diff.push_str(&format!("@@ line {line} @@\n"));
        push_lines(&mut diff, '-', before);
        push_lines(&mut diff, '+', &after);
        if diff.len() > MOST {
            diff.truncate(diff.floor_char_boundary(MOST));
            diff.push_str("\n… more changes are not shown\n");
            break;
        }
    }
    diff
}

/// Whole lines that hold replacements; those that share a line are one.
fn spans(text: &str, found: &[usize], length: usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for at in found {
        let before = text.get(..*at).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |line| line + 1);
        let last = at + length;
        // It may end in a line break of its own; then the line is whole already.
        let is_whole = text.get(*at..last).is_some_and(|part| part.ends_with('\n'));
        let rest = text.get(last..).unwrap_or_default();
        let end = if is_whole { last } else { rest.find('\n').map_or(text.len(), |line| last + line + 1) };
        match spans.last_mut() {
            Some(span) if start < span.end => span.end = span.end.max(end),
            _ => spans.push(start..end),
        }
    }
    spans
}

fn before_with(part: &str, start: usize, found: &[usize], old: &str, new: &str) -> String {
    let mut after = String::new();
    let mut from = 0;
    for at in found.iter().filter_map(|at| at.checked_sub(start)).filter(|at| at + old.len() <= part.len()) {
        after.push_str(part.get(from..at).unwrap_or_default());
        after.push_str(new);
        from = at + old.len();
    }
    after.push_str(part.get(from..).unwrap_or_default());
    after
}

fn push_lines(diff: &mut String, sign: char, text: &str) {
    for line in text.lines().take(LINES) {
        diff.push(sign);
        diff.push_str(line);
        diff.push('\n');
    }
    if text.lines().count() > LINES {
        diff.push_str("…\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(text: &str, old: &str, new: &str) -> String {
        let found: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
        of_replacements(text, &found, old, new)
    }

    #[test]
    fn changed_lines_are_shown_whole() {
        assert_eq!(diff("one\ntwo three\nfour\n", "two", "2"), "@@ line 2 @@\n-two three\n+2 three\n");
        assert_eq!(diff("a\nb\nc", "c", "d\ne"), "@@ line 3 @@\n-c\n+d\n+e\n");
    }

    #[test]
    fn replacements_on_one_line_are_one_change() {
        assert_eq!(diff("x x\nx\n", "x", "yy"), "@@ line 1 @@\n-x x\n+yy yy\n@@ line 2 @@\n-x\n+yy\n");
    }

    #[test]
    fn a_replacement_may_span_lines_and_end_in_a_line_break() {
        assert_eq!(diff("a\nb\nc\n", "a\nb\n", ""), "@@ line 1 @@\n-a\n-b\n");
        assert_eq!(diff("é1\né2\n", "1\né", ""), "@@ line 1 @@\n-é1\n-é2\n+é2\n");
    }

    #[test]
    fn a_long_diff_is_cut_between_characters() {
        let text = "é\n".repeat(10_000);
        let shown = diff(&text, "é", "ü");
        assert!(shown.len() < MOST + 100 && shown.ends_with("not shown\n"));
    }
}
