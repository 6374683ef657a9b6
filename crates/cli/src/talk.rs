//! How the command talks to people: stderr for talk, one shape for errors.

use std::io::Write;

/// Prints an error, its causes, and what to do about it.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    say(&format!("error: {}", causes.join(": ")));
    if let Some(hint) = hint {
        say(&format!("hint: {hint}"));
    }
}

/// Prints a warning.
pub(crate) fn warning(text: &str) {
    say(&format!("warning: {text}"));
}

/// Prints a line of talk. If nobody listens, it is lost.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints data.
pub(crate) fn data(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
