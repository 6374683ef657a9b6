//! Help in lines that fit: descriptions go on in their column, and sentences in the next line.

use crate::talk;

/// No line is longer, however wide the terminal is.
const WIDEST: usize = 100;

/// Help as it was written, for a terminal of this width, or for no terminal.
pub(crate) fn fitted(help: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDEST).min(WIDEST);
    let mut shown: Vec<String> = Vec::new();
    let mut rest = String::new();
    for line in help.lines() {
        // Where a sentence did not fit, what is left of it goes on with the next line of it.
        let line = match std::mem::take(&mut rest) {
            left if left.is_empty() => line.to_owned(),
            left if begins_at(line) > 0 || line.is_empty() => {
                shown.push(left);
                line.to_owned()
            }
            left => format!("{left} {line}"),
        };
        let column = begins_at(&line);
        let (head, text) = line.split_at_checked(column).unwrap_or(("", &line));
        let fitting = talk::hanging(text, head.chars().count(), Some(width));
        shown.extend(format!("{head}{fitting}").split('\n').map(str::to_owned));
        if column == 0 && fitting.contains('\n') && !line.ends_with('.') {
            rest = shown.pop().unwrap_or_default();
        }
    }
    shown.extend((!rest.is_empty()).then_some(rest));
    shown.join("\n")
}

/// Where what is said begins in a line: after the name of an option or a command, if there is one.
fn begins_at(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    if indent == 0 {
        return 0;
    }
    let named = line.trim_start();
    let description = named.split_once("  ").map(|(_, after)| after.trim_start());
    description.filter(|text| !text.is_empty()).map_or(indent, |text| line.len() - text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_goes_on_in_its_column_and_a_sentence_in_the_next_line() {
        let help = "\
Options:
      --store <URL>  The store, or another one
  -h, --help         Print help

What is said here is longer than the
terminal is wide. It goes on.
Another sentence.
";
        let expected = "\
Options:
      --store <URL>  The store,
                     or another
                     one
  -h, --help         Print help

What is said here is longer than
the terminal is wide. It goes
on.
Another sentence.";
        assert_eq!(fitted(help, Some(32)), expected);
        assert_eq!(fitted(help, None), help.trim_end());
    }
}
