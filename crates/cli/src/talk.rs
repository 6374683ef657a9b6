//! How the command talks to people: stderr for talk, one shape for errors.

use std::io::Write;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Prints an error, its causes, and what to do about it.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    say(&format!("error: {error:#}"));
    if let Some(hint) = hint {
        say(&format!("hint: {hint}"));
    }
}

/// Prints what is wrong with the arguments, or the help that was asked for, and ends the process.
pub(crate) fn usage(error: &clap::Error) -> ! {
    let own = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    if error.use_stderr() && own.into_iter().any(|argument| argument == "--json") {
        failure("usage", error.render().to_string().trim_end(), None);
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Prints a failure as data.
pub(crate) fn failure(code: &str, message: &str, hint: Option<&str>) {
    data(&serde_json::json!({ "error": { "code": code, "message": message, "hint": hint } }).to_string());
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

/// Somebody else's text, whose further lines cannot be taken for ours.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n             ")
}

/// Prints a value as JSON, for people and programs.
pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => data(&text),
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

/// Words as one would have to type them, so that where one ends is seen.
pub(crate) fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Prints data.
pub(crate) fn data(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
