//! What a model is shown of a command's output: the beginning and the end, whole characters and, where they are not
//! longer than that, whole lines.

use clean::Findings;

/// How much of it.
pub(crate) const SHOWN: usize = 10 * 1024;

/// A text cut to a length, with the middle left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) text: String,
    pub(crate) truncated: bool,
    /// What was taken out where it was cut.
    pub(crate) findings: Findings,
}

/// Cuts what a stream gave. `total` is how much there was, `bytes` how much of it was kept.
pub(crate) fn cut(bytes: &[u8], total: u64, most: usize, artifact: &str) -> Cut {
    // ATTACK(torn-character): a cut between the bytes of a character leaves none of it.
    let text = String::from_utf8_lossy(bytes);
    let is_whole = total <= bytes.len() as u64;
    if text.len() <= most && is_whole {
        return Cut { text: text.into_owned(), ..Cut::default() };
    }
    let end = if is_whole { text.len() } else { last_break(&text) };
    // More of the end: that is where programs say what went wrong.
    let head = if end <= most { end } else { text.floor_char_boundary(most / 3) };
    let tail = text.ceil_char_boundary(end.saturating_sub(most - most / 3).max(head));
    // Whole lines where there are any: they read better.
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let head = part(0, head).rfind('\n').map_or(head, |line| line + 1);
    let tail = part(tail, end).find('\n').map(|line| tail + line + 1).filter(|at| *at < end).unwrap_or(tail);
    let [first, last] = [0..head, tail..end].map(|part| clean::excerpt(text.as_bytes(), part));
    let shown = (head + end - tail) as u64;
    let left_out = total.max(text.len() as u64).saturating_sub(shown);
    let line = format!("\n… {left_out} bytes left out, see artifact `{artifact}`\n");
    let mut findings = first.findings;
    findings.absorb(last.findings);
    Cut { text: format!("{}{line}{}", first.text, last.text), truncated: true, findings }
}

/// Where the last line ends that is there to its end, or else the last word: of what follows nobody knows the rest.
fn last_break(text: &str) -> usize {
    let after = |found: Option<usize>| found.map(|at| at + 1);
    after(text.rfind('\n')).or_else(|| after(text.rfind([' ', '\t']))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        assert_eq!(cut(b"abc", 3, 10, "stdout"), Cut { text: "abc".into(), ..Cut::default() });
    }

    #[test]
    fn what_does_not_fit_keeps_its_beginning_and_its_end() {
        let text: String = (0..1000).map(|number| format!("{number}\n")).collect();
        let cut = cut(text.as_bytes(), text.len() as u64, 300, "stdout");
        assert!(cut.truncated && cut.text.starts_with("0\n1\n") && cut.text.ends_with("998\n999\n"));
        assert!(cut.text.contains("bytes left out, see artifact `stdout`") && cut.text.len() < 360);
    }

    #[test]
    fn no_line_is_torn_if_it_is_not_longer_than_what_is_shown() {
        let text = "one line of words\n".repeat(100);
        for most in 60..120 {
            let cut = cut(text.as_bytes(), text.len() as u64, most, "stdout");
            let lines = || cut.text.lines().filter(|line| !line.is_empty() && !line.starts_with('…'));
            assert!(
                lines().count() >= 2 && lines().all(|line| line == "one line of words"),
                "{most}: {cut:?}"
            );
        }
    }

    #[test]
    fn no_character_is_torn_wherever_the_cut_falls() {
        for most in 1..40 {
            let text = "aé€😀".repeat(20);
            let cut = cut(text.as_bytes(), text.len() as u64, most, "stdout");
            assert!(!cut.text.contains('\u{fffd}') && cut.truncated, "{most}");
        }
    }

    #[test]
    fn bytes_that_were_not_kept_are_counted() {
        let cut = cut(b"abc\n", 1000, 10, "stderr");
        assert_eq!(cut.text, "abc\n\n… 996 bytes left out, see artifact `stderr`\n");
    }

    /// A credential that nobody issued, put together here so that no file holds it.
    fn credential() -> String {
        ["AKIA", "Z7QW3MNBV5XCLKJ2"].concat()
    }

    #[test]
    fn a_credential_across_the_cut_of_one_long_line_is_shown_on_neither_side() {
        let halves = ["AKIAZ7QW3MNB", "NBV5XCLKJ2"];
        for before in 60..160 {
            let text = format!("{} {} {}", "x".repeat(before), credential(), "y".repeat(250 - before));
            let cut = cut(text.as_bytes(), text.len() as u64, 150, "stdout");
            assert!(
                cut.truncated && !halves.iter().any(|half| cut.text.contains(*half)),
                "{before}: {cut:?}"
            );
        }
    }

    #[test]
    fn an_escape_across_the_cut_leaves_nothing_to_obey() {
        for before in 60..160 {
            let text = format!("{}\u{1b}]0;title\u{7}{}", "x".repeat(before), "y".repeat(250 - before));
            let cut = cut(text.as_bytes(), text.len() as u64, 150, "stdout");
            assert!(!cut.text.contains("title") && !cut.text.contains(";t"), "{before}: {cut:?}");
        }
    }

    #[test]
    fn lines_of_a_key_are_known_without_the_one_that_names_it() {
        let line = "MIIEowIBAAKCAQEA7bq8m0Xh2Qp1zz9vL3k4dd5eYt6uI7oP8aS9dF0gHjKl\n";
        let text = format!("-----BEGIN PRIVATE KEY-----\n{}", line.repeat(40));
        let cut = cut(text.as_bytes(), text.len() as u64, 600, "stdout");
        // The first lines are known for what they are.
        assert!(!clean::clean_text(&cut.text, usize::MAX).text.contains("MIIE"), "{cut:?}");
        assert_eq!(cut.findings.masked(), (1, vec!["private-key"]));
    }

    #[test]
    fn what_was_dropped_after_the_cap_leaves_no_half_behind() {
        let text = "one two AKIAZ7QW3MNBV5XCLKJ".to_owned();
        let cut = cut(text.as_bytes(), 10_000, 300, "stdout");
        assert!(cut.text.contains("one two") && !cut.text.contains("AKIA"), "{cut:?}");
    }
}
