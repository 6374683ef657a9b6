//! What runs inside: functions of this suite, by name, in a copy of this binary.
//!
//! A payload says what it tried. It is believed about nothing else: what counts is seen at the target.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use crate::stage;
use crate::threats;

/// The argument that makes our binary attack.
pub const ATTACK_ARGUMENT: &str = "__attack";

/// How a line begins that says an attempt got through.
pub(crate) const THROUGH: &str = "@through ";
/// How a line begins that says an attempt failed.
pub(crate) const HELD: &str = "@held ";

/// One function to run inside.
pub(crate) type Payload = (&'static str, fn(&[String]));

/// Becomes a payload, or prepares a launcher, if the arguments say so; does not return then. Among the first lines of
/// `main`, before any thread.
pub fn serve_if_asked() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(error) = stage::perform_if_asked(&arguments) {
        let _ = writeln!(std::io::stderr(), "error: cannot prepare the launcher: {error}");
        std::process::exit(2);
    }
    if arguments.first().is_some_and(|argument| argument == ATTACK_ARGUMENT) {
        let mut texts = arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
        let name = texts.next().unwrap_or_default();
        let rest: Vec<String> = texts.collect();
        std::process::exit(i32::from(!perform(&name, &rest)));
    }
}

fn perform(name: &str, arguments: &[String]) -> bool {
    let known = threats::payloads().into_iter().chain([("wait", wait as fn(&[String]))]);
    match known.into_iter().find(|(known, _)| *known == name) {
        Some((_, payload)) => {
            payload(arguments);
            true
        }
        None => false,
    }
}

/// Does nothing for so many milliseconds: a victim, or somebody to be counted.
fn wait(arguments: &[String]) {
    let millis = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(millis));
}

/// Says that an attempt got through.
pub(crate) fn through(what: impl Display) {
    say(&format!("{THROUGH}{what}"));
}

/// Says that an attempt failed.
pub(crate) fn held(why: impl Display) {
    say(&format!("{HELD}{why}"));
}

/// Says which, by the result.
pub(crate) fn tell<T, E: Display>(what: &str, attempt: Result<T, E>) {
    match attempt {
        Ok(_) => through(what),
        Err(error) => held(format!("{what}: {error}")),
    }
}

/// Prints one line at once.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{}", line.replace('\n', " "));
    let _ = stdout.flush();
}

/// The argument at a place, or nothing.
pub(crate) fn argument(arguments: &[String], at: usize) -> &str {
    arguments.get(at).map_or("", String::as_str)
}
