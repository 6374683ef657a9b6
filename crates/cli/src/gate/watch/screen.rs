//! The terminal: taken for a while, given back whatever happens, and never written to but by lines that were made plain.
//!
//! # Invariants
//! - Nothing but this file writes escapes. Text from elsewhere comes as [`Line`], in which no control character is left.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line of plain text, no wider than it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    text: String,
    /// Whether it stands out.
    pub(super) is_marked: bool,
}

impl Line {
    /// The text, as far as it fits.
    pub(super) fn cut(text: &str, width: usize) -> Line {
        let mut cut = String::new();
        let mut used = 0;
        for character in text.chars() {
            let (shown, wide) = plain(character);
            if used + wide > width {
                // There is more of it.
                while used + 1 > width {
                    let Some(last) = cut.pop() else { break };
                    used -= plain(last).1;
                }
                if width > 0 {
                    cut.push('…');
                }
                break;
            }
            cut.push(shown);
            used += wide;
        }
        Line { text: cut, is_marked: false }
    }

    /// The same, standing out.
    pub(super) fn marked(self, width: usize) -> Line {
        let fill = width.saturating_sub(self.text.width());
        Line { text: format!("{}{}", self.text, " ".repeat(fill)), is_marked: true }
    }

    /// What it says.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A text over as many lines as it takes; those that follow stand under the first, further in.
pub(super) fn wrapped(name: &str, text: &str, width: usize) -> Vec<Line> {
    let indent = 10.min(width / 2);
    let room = width.saturating_sub(indent).max(1);
    let mut lines = Vec::new();
    let mut first = format!("{name:<indent$}");
    let mut push = |part: &str| {
        lines.push(Line::cut(&format!("{first}{part}"), width));
        first = " ".repeat(indent);
    };
    for own in text.split('\n') {
        let mut part = String::new();
        let mut used = 0;
        for character in own.chars() {
            let (shown, wide) = plain(character);
            if used + wide > room {
                push(&std::mem::take(&mut part));
                used = 0;
            }
            part.push(shown);
            used += wide;
        }
        push(&part);
    }
    lines
}

/// What stands for a character, and how wide that is.
///
/// ATTACK(escapes-in-watch): here, at the last moment, whatever was done to the text before.
fn plain(character: char) -> (char, usize) {
    match character {
        '\t' => (' ', 1),
        _ if character.is_control() || contract::is_hidden(character) => ('\u{fffd}', 1),
        // What has no width of its own would hide in what stands before it.
        _ => match character.width() {
            Some(0) | None => ('\u{fffd}', 1),
            Some(width) => (character, width),
        },
    }
}

/// A terminal that is ours.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    /// Whether there is a terminal at both ends.
    pub(super) fn is_there() -> bool {
        isatty(stdin()) && isatty(stdout())
    }

    pub(super) fn take() -> io::Result<Screen> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        let screen = Screen { before };
        // Another page, so that what was there is there again afterwards; no cursor, no wrapping.
        screen.write("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        Ok(screen)
    }

    /// Columns and rows.
    pub(super) fn size() -> (usize, usize) {
        let Winsize { ws_col, ws_row, .. } =
            tcgetwinsize(stdout()).unwrap_or(Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 });
        (usize::from(ws_col).clamp(20, 400), usize::from(ws_row).clamp(6, 200))
    }

    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let mut frame = String::from("\x1b[H");
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                frame.push_str("\r\n");
            }
            // Before the text: after it, in the last column, it would take the last character along.
            frame.push_str("\x1b[2K");
            if line.is_marked {
                frame.push_str("\x1b[7m");
            }
            frame.push_str(&line.text);
            frame.push_str("\x1b[0m");
        }
        self.write(&frame)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.write("\x1b[?7h\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(stdin().as_fd(), OptionalActions::Drain, &self.before);
    }
}

/// What somebody pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A character.
    Text(char),
    Enter,
    Escape,
    Erase,
    Up,
    Down,
    PageUp,
    PageDown,
    /// The end of it all.
    End,
}

/// Reads keys out of bytes; what is not understood is nothing.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut found = Vec::new();
    let sequences = [
        ("\x1b[A", Key::Up),
        ("\x1bOA", Key::Up),
        ("\x1b[B", Key::Down),
        ("\x1bOB", Key::Down),
        ("\x1b[5~", Key::PageUp),
        ("\x1b[6~", Key::PageDown),
    ];
    while let Some(first) = rest.chars().next() {
        if let Some((sequence, key)) = sequences.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            found.push(*key);
            rest = rest.get(sequence.len()..).unwrap_or_default();
            continue;
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        match first {
            '\r' | '\n' => found.push(Key::Enter),
            '\x03' | '\x04' => found.push(Key::End),
            '\x7f' | '\x08' => found.push(Key::Erase),
            // Another sequence: nothing of it is a key.
            '\x1b' if !rest.is_empty() => return found,
            '\x1b' => found.push(Key::Escape),
            '\u{fffd}' => {}
            c if c.is_control() => {}
            c => found.push(Key::Text(c)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left_in_a_line() {
        let hostile = "a\x1b[2J\x1b]0;x\x07b\r\u{9b}31m\u{202e}\u{200b}\u{301}c\n";
        for width in [0, 1, 5, 80] {
            let line = Line::cut(hostile, width);
            assert!(line.text().chars().all(|c| !c.is_control() && !contract::is_hidden(c)), "{line:?}");
            assert!(line.text().width() <= width, "{line:?}");
            for line in wrapped("with", hostile, width.max(1)) {
                assert!(line.text().chars().all(|c| !c.is_control()), "{line:?}");
                assert!(line.text().width() <= width.max(1), "{line:?}");
            }
        }
    }

    #[test]
    fn wide_text_is_cut_and_wrapped_where_it_ends() {
        assert_eq!(Line::cut("漢字漢字", 5).text(), "漢字…");
        assert_eq!(Line::cut("abc", 3).text(), "abc");
        assert_eq!(Line::cut("abcd", 3).text(), "ab…");
        let lines: Vec<String> =
            wrapped("why", &"x".repeat(150), 80).iter().map(|line| line.text().to_owned()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("why       xxx") && lines[1].starts_with("          xxx"), "{lines:?}");
    }

    #[test]
    fn keys_are_read_and_sequences_are_not_taken_for_text() {
        assert_eq!(keys(b"jk"), [Key::Text('j'), Key::Text('k')]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[6~"), [Key::Up, Key::Down, Key::PageDown]);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b[200~a\x1b[201~"), []);
        assert_eq!(keys(b"\r\x7f\x03"), [Key::Enter, Key::Erase, Key::End]);
    }
}
