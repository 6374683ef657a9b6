//! What single words of a command are: options however they are cut short, plain names, numbers, variables.

/// Variables that say nothing about programs.
const HARMLESS: [&str; 26] = [
    "CI",
    "CGO_ENABLED",
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "DEBUG",
    "FORCE_COLOR",
    "GOARCH",
    "GOOS",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Whether a variable may say which program is started: a pager, an editor, a compiler, or options of such.
pub(crate) fn may_name_a_program(variable: &str, value: &str) -> bool {
    let is_harmless = HARMLESS.contains(&variable) || variable.starts_with("LC_");
    // No program is named by a number alone.
    !is_harmless && !value.chars().all(|c| c.is_ascii_digit())
}

/// A variable and its value, if a word is that.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

/// Whether a character may stand in a program's name.
pub(super) fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+')
}

/// Whether a word is what it says, to everybody who reads it.
pub(super) fn is_plain(word: &str) -> bool {
    word.chars().all(|c| is_of_a_name(c) || matches!(c, '=' | ',' | ':' | '@' | '%'))
}

/// Whether it is a number, or one with its unit.
pub(super) fn is_number(word: &str) -> bool {
    let digits = word.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or(word);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether a path is where a program finds its own input.
pub(super) fn is_input(path: &str) -> bool {
    let goes_up = path.starts_with('/') || path.split('/').any(|name| name == "..");
    path == "-" || (goes_up && path.split('/').any(|name| matches!(name, "dev" | "proc")))
}

/// Whether a word is an option, or may be: a long one cut short, a letter among others.
pub(super) fn is_option(word: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = word.strip_prefix("--").and_then(|rest| rest.split('=').next());
        return name.is_some_and(|name| !name.is_empty() && long.starts_with(name));
    }
    let Some(rest) = word.strip_prefix('-') else { return false };
    match option.strip_prefix('-') {
        // One letter.
        Some(letter) if letter.len() == 1 => !rest.starts_with('-') && letters_of(rest).contains(letter),
        // A long one, behind one dash or two.
        Some(long) => rest.strip_prefix('-').unwrap_or(rest).split('=').next() == Some(long),
        None => false,
    }
}

/// What is written together with an option, if something is.
pub(super) fn joined<'a>(word: &'a str, option: &str) -> Option<&'a str> {
    let value = match option.len() {
        2 => word.split_once(option.get(1..)?)?.1,
        _ => word.split_once('=')?.1,
    };
    (!value.is_empty()).then_some(value)
}

/// The text that `env` takes apart, if a word holds it; an empty one if that is the next word.
pub(super) fn split_by_env(word: &str) -> Option<&str> {
    if is_option(word, "--split-string") {
        return Some(word.split_once('=').map_or("", |(_, text)| text));
    }
    // Of what comes before it, nothing has a value.
    word.strip_prefix('-')?.trim_start_matches(['i', 'v', '0']).strip_prefix('S')
}

/// The letters at the beginning.
fn letters_of(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_known_however_it_is_cut_short_or_written_together() {
        for (word, option) in [
            ("--compress-program=x", "--compress-program"),
            ("--comp=x", "--compress-program"),
            ("--c", "--compress-program"),
            ("-c", "-c"),
            ("-euc", "-c"),
            ("-cx y", "-c"),
            ("-exec", "-exec"),
            ("--exec=x", "-exec"),
        ] {
            assert!(is_option(word, option), "{word} {option}");
        }
        for (word, option) in [
            ("--compress", "--com-press"),
            ("--check", "--compress-program"),
            ("-C", "-c"),
            ("--c", "-c"),
            ("c", "-c"),
            ("-", "-c"),
            ("--", "--pre"),
            ("-executable", "-exec"),
        ] {
            assert!(!is_option(word, option), "{word} {option}");
        }
        let texts =
            ["-S", "-Sa b", "-ivSa", "--split-string=a b", "--s", "-uS", "-CSrv", "S", "-"].map(split_by_env);
        assert_eq!(texts, [Some(""), Some("a b"), Some("a"), Some("a b"), Some(""), None, None, None, None]);
        assert_eq!(joined("-xrm", "-x"), Some("rm"));
        assert_eq!(joined("--exec=rm", "--exec"), Some("rm"));
        assert_eq!(joined("-x", "-x"), None);
    }

    #[test]
    fn a_variable_is_harmless_only_if_it_is_known_to_be() {
        for (name, value) in
            [("PAGER", "rm x"), ("GIT_SSH_COMMAND", "rm"), ("RUSTFLAGS", "-C linker=rm"), ("A", "b")]
        {
            assert!(may_name_a_program(name, value), "{name}");
        }
        for (name, value) in
            [("LANG", "C"), ("LC_ALL", "C.UTF-8"), ("RUST_LOG", "debug"), ("JOBS", "4"), ("A", "")]
        {
            assert!(!may_name_a_program(name, value), "{name}");
        }
    }

    #[test]
    fn numbers_and_the_input_are_no_names() {
        assert!(is_number("5") && is_number("0.5s") && is_number("10m"));
        assert!(!is_number("a") && !is_number("s") && !is_number("5git"));
        for path in ["-", "/dev/stdin", "//dev/./fd/0", "/proc/self/fd/0", "../../dev/stdin"] {
            assert!(is_input(path), "{path}");
        }
        for path in ["dev/build.sh", "x.sh", "/usr/bin/x"] {
            assert!(!is_input(path), "{path}");
        }
    }
}
