//! What a model is shown of a command's output: the beginning and the end, whole characters and, where they are not
//! longer than that, whole lines.

/// How much of it.
pub(super) const SHOWN: usize = 10 * 1024;

/// A text cut to a length, with the middle left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) text: String,
    pub(super) truncated: bool,
}

/// Cuts what a stream gave. `total` is how much there was, `bytes` how much of it was kept.
pub(super) fn cut(bytes: &[u8], total: u64, most: usize, artifact: &str) -> Cut {
    // ATTACK(torn-character): a cut between the bytes of a character leaves none of it.
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= most && total <= bytes.len() as u64 {
        return Cut { text: text.into_owned(), truncated: false };
    }
    // More of the end: that is where programs say what went wrong.
    let head = text.get(..text.floor_char_boundary(most / 3)).unwrap_or_default();
    let rest = text.len().saturating_sub(most - most / 3).max(head.len());
    let tail = text.get(text.ceil_char_boundary(rest)..).unwrap_or_default();
    // Half a line is not known for what it is: a credential, or an address that carries something away.
    let head = head.rfind('\n').and_then(|end| head.get(..=end)).unwrap_or(head);
    let tail =
        tail.find('\n').and_then(|end| tail.get(end + 1..)).filter(|tail| !tail.is_empty()).unwrap_or(tail);
    let shown = (head.len() + tail.len()) as u64;
    let left_out = total.max(text.len() as u64).saturating_sub(shown);
    let line = format!("\n… {left_out} bytes left out, see artifact `{artifact}`\n");
    Cut { text: format!("{head}{line}{tail}"), truncated: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        assert_eq!(cut(b"abc", 3, 10, "stdout"), Cut { text: "abc".into(), truncated: false });
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
        let cut = cut(b"abc", 1000, 10, "stderr");
        assert_eq!(cut.text, "abc\n… 997 bytes left out, see artifact `stderr`\n");
    }
}
