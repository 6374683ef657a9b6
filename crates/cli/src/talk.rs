//! How the command talks to people: stderr for talk, one shape for errors.

pub(crate) use contract::quoted;
use std::fmt::Display;
use std::io::Write;
use std::os::fd::BorrowedFd;

use clap::error::ErrorKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::help;

/// Where somebody else's further lines begin: further in than all of ours.
const INDENT: usize = 13;

/// Prints an error, its causes, and what to do about it. Where several things are wrong, each is a line.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    say(&errors(error));
    if let Some(hint) = hint {
        self::hint(hint);
    }
}

fn errors(error: &anyhow::Error) -> String {
    let lines: Vec<String> = format!("{error:#}").lines().map(|line| format!("error: {line}")).collect();
    lines.join("\n")
}

/// Prints what to do: on a terminal in lines that fit, elsewhere in one that a program finds.
pub(crate) fn hint(text: &str) {
    say(&format!("hint: {}", hanging(text, INDENT, columns(rustix::stdio::stderr()))));
}

/// Prints what is wrong with the arguments, or the help that was asked for, and ends the process.
pub(crate) fn usage(error: &clap::Error) -> ! {
    let own = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    if error.use_stderr() && own.into_iter().any(|argument| argument == "--json") {
        failure("usage", error.render().to_string().trim_end(), None);
        std::process::exit(error.exit_code());
    }
    let help = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => data(&help::fitted(&help, columns(rustix::stdio::stdout()))),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            say(&help::fitted(&help, columns(rustix::stdio::stderr())));
        }
        _ => error.exit(),
    }
    std::process::exit(error.exit_code())
}

/// Prints a failure as data.
pub(crate) fn failure(code: &str, message: &str, hint: Option<&str>) {
    line(&serde_json::json!({ "error": { "code": code, "message": message, "hint": hint } }));
}

/// Prints a warning.
pub(crate) fn warning(text: &str) {
    say(&format!("warning: {text}"));
}

/// Prints a line of talk. If nobody listens, or nobody reads, it is lost: talk does not keep us.
pub(crate) fn say(text: &str) {
    let mut stderr = [PollFd::from_borrowed_fd(rustix::stdio::stderr(), PollFlags::OUT)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    if poll(&mut stderr, Some(&moment)).is_ok_and(|ready| ready > 0) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Prints data where that is asked for, and otherwise a line of talk that says the same.
pub(crate) fn data_or_say(json: bool, value: &serde_json::Value, text: &str) {
    if json { data(&value.to_string()) } else { say(text) }
}

/// So many of something: `1 rule`, `2 rules`.
pub(crate) fn counted(count: impl Display + PartialEq + From<u8>, what: &str) -> String {
    let plural = if count == 1.into() { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A time as people say it, in the units that matter.
pub(crate) fn lasting(seconds: u64) -> String {
    match (seconds / 3600, seconds % 3600 / 60) {
        _ if seconds < 120 => format!("{seconds} s"),
        _ if seconds < 7200 => format!("{} min", seconds / 60),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Somebody else's text, whose further lines cannot be taken for ours: neither those that it has, nor those that a
/// terminal makes of a long one.
pub(crate) fn indented(text: &str) -> String {
    indented_at(text, INDENT)
}

/// The same where it begins in another column, and so do its further lines.
pub(crate) fn indented_at(text: &str, column: usize) -> String {
    hanging(text, column, columns(rustix::stdio::stdout()))
}

/// A text whose further lines begin in a column, and whose lines end before a width, if there is one.
pub(crate) fn hanging(text: &str, column: usize, width: Option<usize>) -> String {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(column).max(8));
    let lines: Vec<String> = text.split('\n').flat_map(|line| wrapped(line, room)).collect();
    lines.join(&format!("\n{:column$}", ""))
}

/// How wide a terminal is; what is no terminal has no width.
fn columns(stream: BorrowedFd<'_>) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A line as several that fit. They end between words where they can: such an end stands for one blank, and any other
/// for nothing, so that no blank is lost that somebody has put there.
fn wrapped(line: &str, room: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let (mut piece, mut used) = (String::new(), 0);
    for character in line.chars() {
        used += width_of_one(character);
        if used <= room {
            piece.push(character);
            continue;
        }
        let full = std::mem::take(&mut piece);
        let at_a_blank = full.rsplit_once(' ').filter(|(before, word)| {
            !before.trim().is_empty() && width_of(word) + width_of_one(character) <= room
        });
        match at_a_blank {
            _ if character == ' ' => pieces.push(full),
            Some((before, word)) => {
                pieces.push(before.to_owned());
                piece = format!("{word}{character}");
            }
            None => {
                pieces.push(full);
                piece.push(character);
            }
        }
        used = width_of(&piece);
    }
    pieces.push(piece);
    pieces
}

fn width_of(text: &str) -> usize {
    text.chars().map(width_of_one).sum()
}

/// Whatever is not ASCII may be two columns wide, and a tab up to eight.
fn width_of_one(character: char) -> usize {
    match character {
        '\t' => 8,
        c if c.is_ascii() => 1,
        _ => 2,
    }
}

/// JSON in which nothing is hidden from whoever reads it at a terminal, and which means the same.
fn escaped(json: &str) -> String {
    // Only within texts can there be such a character.
    let is_plain = |c: char| !contract::is_hidden(c) && !contract::is_odd_blank(c);
    if json.chars().all(is_plain) {
        return json.to_owned();
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_plain(character) {
            shown.push(character);
        } else {
            let units = character.encode_utf16(&mut [0; 2]).to_vec();
            shown.extend(units.into_iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}

/// Prints a value as JSON in one line.
pub(crate) fn line(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => data(&escaped(&text)),
        Err(error) => say(&format!("error: this cannot be shown as JSON: {error}")),
    }
}

/// Prints a value as JSON, for people and programs.
pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => data(&escaped(&text)),
        Err(error) => failure("internal", &format!("this cannot be shown as JSON: {error}"), None),
    }
}

/// This very program, as it can be started from anywhere, quoted for a shell where it has to be.
pub(crate) fn own_name() -> String {
    match std::env::current_exe() {
        Ok(path) => quoted(&[path.display().to_string()]),
        Err(_) => "toolgate".to_owned(),
    }
}

/// Prints data.
pub(crate) fn data(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_padded_to_the_end_of_a_line_does_not_begin_one_of_ours() {
        let padded = format!("clean{}why      nothing", " ".repeat(60));
        let shown = hanging(&padded, INDENT, Some(60));
        let begin = " ".repeat(INDENT);
        assert!(shown.lines().count() > 1 && shown.lines().skip(1).all(|line| line.starts_with(&begin)));
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        let wide = hanging(&"漢".repeat(100), INDENT, Some(60));
        assert!(wide.lines().all(|line| line.trim_start().chars().count() * 2 + INDENT <= 60), "{wide}");
        let tab = format!("a {}\twhy      nothing", "b".repeat(18));
        assert!(wrapped(&tab, 20).iter().all(|line| width_of(line) <= 20), "{tab}");
        assert_eq!(hanging(&padded, INDENT, None), padded, "a file has no end of a line");
    }

    #[test]
    fn lines_end_between_words_and_begin_where_the_text_does() {
        let told = "the preset `builder` of this agent lets this call reach it";
        let shown = hanging(told, 20, Some(40));
        let begin = " ".repeat(20);
        let lines = ["the preset `builder`", "of this agent lets", "this call reach it"];
        assert_eq!(shown, lines.join(&format!("\n{begin}")));
        let long = hanging("see 0123456789abcdefghij now", 4, Some(14));
        assert_eq!(long, "see\n    0123456789\n    abcdefghij\n    now");
    }

    #[test]
    fn each_of_several_errors_is_called_one() {
        let error =
            anyhow::anyhow!("toolgate.yaml:1:1: a\ntoolgate.yaml:2:1: b").context("it cannot be used");
        let expected = "error: it cannot be used: toolgate.yaml:1:1: a\nerror: toolgate.yaml:2:1: b";
        assert_eq!(errors(&error), expected);
    }

    #[test]
    fn an_end_of_a_line_hides_one_blank_at_most() {
        assert_eq!(wrapped("abc   def", 4), ["abc ", " def"]);
        assert_eq!(wrapped("    abcdef", 8), ["    abcd", "ef"]);
        assert_eq!(wrapped("ab cdef gh", 7), ["ab cdef", "gh"]);
    }

    #[test]
    fn json_means_the_same_with_what_is_hidden_escaped() {
        let value = serde_json::json!({ "a\u{202e}b": "x\u{200b}y\u{a0}\u{e0041}\u{2800} z" });
        let shown = escaped(&value.to_string());
        assert!(!shown.chars().any(|c| contract::is_hidden(c) || contract::is_odd_blank(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(shown.contains("\\udb40\\udc41"), "{shown}");
    }
}
