//! Which other programs a command starts by its words: `env git` starts `git`, `sh -c "cd x && git push"` does, too.
//!
//! Knows only what is made to start others and takes their names as words. What a script, a build or an interpreter
//! does cannot be seen from here, and nothing rests on it: the walls around a command do.
//!
//! # Invariants
//! - Whatever could be the program's name counts as one. Words that could be an option's value count, too.

use policy::Command;

use crate::inside::Stage;

/// What runs the program that its words name, and how many words stand before that.
const WRAPPERS: [(&str, usize); 32] = [
    ("busybox", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("doas", 0),
    ("env", 0),
    ("eatmydata", 0),
    ("exec", 0),
    ("faketime", 1),
    ("fakeroot", 0),
    ("flock", 1),
    ("gdb", 0),
    ("ionice", 0),
    ("ltrace", 0),
    ("nice", 0),
    ("nohup", 0),
    ("nsenter", 0),
    ("parallel", 0),
    ("perf", 1),
    ("prlimit", 0),
    ("setarch", 1),
    ("setpriv", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("strace", 0),
    ("sudo", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("unshare", 0),
    ("valgrind", 0),
    ("xargs", 0),
];

/// What runs a text of its words.
const SHELLS: [&str; 10] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "script", "watch"];

/// Options of `find` and `fd` after which a command stands.
const EXECUTES: [&str; 8] = ["-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"];

/// As many names as are told of one command.
const MOST: usize = 64;

/// A command with all that it may start.
pub(super) fn command_of(stage: &Stage, directory: &str) -> Command {
    let mut command = Command::named(&stage.command);
    if directory != "." && stage.command.contains('/') && !stage.command.starts_with('/') {
        command.starts.push(format!("{directory}/{}", stage.command));
    }
    let words: Vec<&str> = stage.arguments.iter().flat_map(|word| word.split_whitespace()).collect();
    look_behind(&stage.command, &words, &mut command);
    if command.starts.len() > MOST {
        command.starts.truncate(MOST);
        command.untold = Some("starts more programs than are looked at");
    }
    command
}

fn look_behind(program: &str, words: &[&str], found: &mut Command) {
    let name = last_name(program);
    if let Some((_, before)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
        return look_behind_wrapper(*before, words, found);
    }
    if SHELLS.contains(&name) && words.iter().any(|word| is_command_option(word)) {
        return look_into_text(words, found);
    }
    if matches!(name, "find" | "fd") {
        let marks = words.iter().enumerate().filter(|(_, word)| EXECUTES.contains(word));
        for (at, _) in marks {
            start(words.get(at + 1..).unwrap_or_default(), found);
        }
    }
}

/// The first words that are neither options nor assignments, as many as come before the program's name, and the name.
/// What follows an option may be its value, and so does not count, but is looked at.
fn look_behind_wrapper(before: usize, words: &[&str], found: &mut Command) {
    let (mut counted, mut after_option) = (0, false);
    for (at, word) in words.iter().enumerate() {
        if let Some(option) = word.strip_prefix('-') {
            // `-Sgit` and `--split-string=git` name it within the option.
            let within = option.split_once('=').map_or_else(|| option.get(1..), |(_, value)| Some(value));
            found.starts.extend(within.filter(|name| !name.is_empty()).map(str::to_owned));
            after_option = *word != "--";
            continue;
        }
        if word.contains('=') && !word.contains('/') {
            continue;
        }
        start(words.get(at..).unwrap_or_default(), found);
        counted += usize::from(!after_option);
        after_option = false;
        if counted > before || found.starts.len() > MOST {
            return;
        }
    }
}

/// The first word is a program, with the others as its own.
fn start(words: &[&str], found: &mut Command) {
    let Some((program, rest)) = words.split_first() else { return };
    // Each level is one word shorter, and what is too much ends it.
    if found.starts.len() <= MOST {
        found.starts.push((*program).to_owned());
        look_behind(program, rest, found);
    }
}

/// Every name in a text that a shell runs; where it could be put together from pieces, nobody can tell.
fn look_into_text(words: &[&str], found: &mut Command) {
    let is_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    let is_plain =
        |c: char| is_of_a_name(c) || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>' | '=' | ',' | ':');
    let names =
        words.iter().flat_map(|word| word.split(|c| !is_of_a_name(c))).filter(|name| !name.is_empty());
    found.starts.extend(names.take(MOST + 1).map(str::to_owned));
    if !words.iter().all(|word| word.chars().all(is_plain)) {
        found.untold = Some("starts a shell with a text that may mean anything");
    }
}

fn is_command_option(word: &str) -> bool {
    word.starts_with('-') && word.contains('c')
}

fn last_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, words: &[&str]) -> Command {
        let arguments = words.iter().map(|word| (*word).to_owned()).collect();
        command_of(&Stage { command: command.to_owned(), arguments }, ".")
    }

    #[test]
    fn whatever_a_wrapper_may_start_is_told() {
        let cases: [(&str, &[&str]); 15] = [
            ("env", &["git", "push"]),
            ("/usr/bin/env", &["-i", "A=1", "git"]),
            ("env", &["-u", "HOME", "git"]),
            ("env", &["-S", "git push"]),
            ("env", &["-Sgit push"]),
            ("env", &["--split-string=git push"]),
            ("nice", &["-n", "5", "git"]),
            ("timeout", &["5", "git"]),
            ("timeout", &["-k", "5", "-s", "KILL", "10", "git"]),
            ("nohup", &["env", "nice", "git"]),
            ("xargs", &["-0", "-n1", "git"]),
            ("flock", &["lock", "git", "push"]),
            ("find", &[".", "-name", "x", "-exec", "git", "add", "{}", ";"]),
            ("sh", &["-c", "cd x && git push"]),
            ("bash", &["-euc", "true;git push"]),
        ];
        for (command, words) in cases {
            assert!(of(command, words).starts.iter().any(|name| name == "git"), "{command} {words:?}");
        }
    }

    #[test]
    fn a_command_that_starts_no_other_by_its_words_has_none() {
        for (command, words) in
            [("grep", &["git"][..]), ("git", &["push"]), ("cargo", &["test"]), ("sh", &["x.sh", "git"])]
        {
            assert_eq!(of(command, words), Command::named(command), "{command} {words:?}");
        }
        assert!(!of("env", &["grep", "git"]).starts.contains(&"git".to_owned()), "it is `grep`'s word");
    }

    #[test]
    fn a_text_that_may_be_put_together_from_pieces_is_untold() {
        for text in ["g\"\"it push", "$(echo git) push", "g\\it", "/usr/bin/gi? x", "`x`"] {
            assert!(of("sh", &["-c", text]).untold.is_some(), "{text}");
        }
        assert_eq!(of("sh", &["-c", "cd x && make -j2 > log"]).untold, None);
    }

    #[test]
    fn a_long_line_of_wrappers_ends() {
        let words = vec!["env"; 10_000];
        assert!(of("env", &words).untold.is_some());
        let shell = vec!["a"; 10_000].join(" ");
        assert!(of("sh", &["-c", &shell]).untold.is_some());
    }

    #[test]
    fn a_program_is_named_from_where_it_starts() {
        let stage = Stage { command: "./deploy.sh".to_owned(), arguments: Vec::new() };
        assert_eq!(command_of(&stage, "scripts").starts, ["scripts/./deploy.sh"]);
        assert!(command_of(&stage, ".").starts.is_empty());
    }
}
