//! Which other programs a command starts by its words: `env git` starts `git`, `sh -c "cd x && git push"` does, too.
//!
//! Knows only what the words of the call say. What a script, a build or a repository says in its files cannot be seen from
//! here, and nothing rests on it: the walls around a command do.
//!
//! # Invariants
//! - Whatever could be the program's name counts as one. Words that could be an option's value count, too.
//! - Where the words may mean anything, it cannot be told what is started, and that is said.

mod scripts;
mod table;
mod words;

use policy::Command;

use crate::inside::Stage;
use table::{Way, ways_of};
use words::{assignment, is_input, is_number, is_of_a_name, is_option, is_plain, joined, split_by_env};

pub(crate) use words::may_name_a_program;

/// As many names as are told of one command.
const MOST: usize = 64;

const TEXT: &str = "starts a shell with a text that may mean anything";
const CODE: &str = "runs code that may start anything";
const READ: &str = "runs what it reads from elsewhere";
const OPTION: &str = "has an option with which it may start anything";
const ODD: &str = "names what it starts in a way that may mean anything";
const ELSEWHERE: &str = "starts a program with words that come from elsewhere";
pub(crate) const VARIABLE: &str = "has a variable that may say what it starts";

/// A command with all that it may start.
pub(super) fn command_of(stage: &Stage, directory: &str) -> Command {
    let mut command = Command::named(&stage.command);
    if directory != "." && stage.command.contains('/') && !stage.command.starts_with('/') {
        command.starts.push(format!("{directory}/{}", stage.command));
    }
    let words: Vec<&str> = stage.arguments.iter().map(String::as_str).collect();
    look_behind(&stage.command, &words, &mut command);
    if command.starts.len() > MOST {
        command.starts.truncate(MOST);
        command.untold = Some("starts more programs than are looked at");
    }
    command
}

fn look_behind(program: &str, words: &[&str], found: &mut Command) {
    for way in ways_of(program) {
        follow(*way, words, found);
    }
}

fn follow(way: Way, words: &[&str], found: &mut Command) {
    let has =
        |options: &[&str]| words.iter().any(|word| options.iter().any(|option| is_option(word, option)));
    match way {
        Way::Behind(before) => behind(before, words, found),
        Way::After(marks, before) => {
            for (at, _) in words.iter().enumerate().filter(|(_, word)| marks.contains(word)) {
                behind(before, words.get(at + 1..).unwrap_or_default(), found);
            }
        }
        Way::Marked(options) => marked(options, words, found),
        Way::Split => split(words, found),
        Way::Fed => fed(words, found),
        Way::Text => words.iter().for_each(|word| look_into_text(word, found)),
        Way::Shell => shell(words, found),
        Way::Code(options, valued) => code(options, valued, words, found),
        Way::Told(options) if has(options) => found.cannot_tell(OPTION),
        Way::Bundled(letters) if words.first().is_some_and(|word| has_letter(word, letters)) => {
            found.cannot_tell(OPTION);
        }
        Way::Assigned if words.iter().any(|word| assignment(word).is_some()) => found.cannot_tell(VARIABLE),
        Way::Told(_) | Way::Bundled(_) | Way::Assigned => {}
        Way::Anything => found.cannot_tell(CODE),
        Way::Awk if scripts::awk_starts(words) => found.cannot_tell(CODE),
        Way::Sed if scripts::sed_starts(words) => found.cannot_tell(CODE),
        Way::Git if scripts::git_starts(words) => found.cannot_tell(OPTION),
        Way::Awk | Way::Sed | Way::Git => {}
    }
}

/// The first words that are neither options nor assignments, as many as come before the program's name, and the name.
/// What follows an option may be its value, and so does not count, but is looked at.
fn behind(before: usize, words: &[&str], found: &mut Command) {
    let (mut counted, mut after_option, mut is_sure) = (0, false, true);
    for (at, word) in words.iter().enumerate() {
        if !is_plain(word) {
            found.cannot_tell(ODD);
        }
        if word.len() > 1 && word.starts_with('-') {
            // One that holds its value has none behind it.
            let holds = word.contains('=') || word.ends_with(|c: char| c.is_ascii_digit());
            after_option = *word != "--" && !holds;
            is_sure &= !after_option;
            continue;
        }
        if let Some((name, value)) = assignment(word) {
            if may_name_a_program(name, value) {
                found.cannot_tell(VARIABLE);
            }
            continue;
        }
        if !is_sure || counted == before {
            start(words.get(at..).unwrap_or_default(), found);
        }
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
    if !is_plain(program) {
        found.cannot_tell(ODD);
    }
    // Each level is one word shorter, and what is too much ends it.
    if found.starts.len() <= MOST && !is_number(program) {
        found.starts.push((*program).to_owned());
        look_behind(program, rest, found);
    }
}

/// Takes the text apart that `env` would, and no other word.
fn split(words: &[&str], found: &mut Command) {
    let (mut apart, mut after_option, mut is_text) = (Vec::with_capacity(words.len()), false, false);
    for (at, word) in words.iter().enumerate() {
        let text = if is_text { Some(*word) } else { split_by_env(word) };
        if text == Some("") && !is_text {
            is_text = true;
            continue;
        }
        is_text = false;
        let parts: Vec<&str> = text.map_or_else(|| vec![*word], |text| text.split_whitespace().collect());
        // What it does with quotes and variables is not repeated here.
        if text.is_some() && !parts.iter().all(|part| is_plain(part)) {
            found.cannot_tell(ODD);
        }
        let mut is_named = false;
        for part in &parts {
            let is_own = part.starts_with('-') || assignment(part).is_some();
            is_named |= !is_own && !after_option;
            after_option = part.starts_with('-');
        }
        apart.extend(parts);
        if is_named {
            // The words that follow are the program's own.
            apart.extend(words.get(at + 1..).unwrap_or_default());
            break;
        }
    }
    behind(0, &apart, found);
}

/// Programs behind options, with files for words.
fn marked(options: &[&str], words: &[&str], found: &mut Command) {
    for (at, word) in words.iter().enumerate() {
        for option in options.iter().filter(|option| is_option(word, option)) {
            let rest = words.get(at + 1..).unwrap_or_default();
            let words: Vec<&str> = joined(word, option).into_iter().chain(rest.iter().copied()).collect();
            start(&words, found);
            let is_known = words.first().is_some_and(|program| !ways_of(program).is_empty());
            if is_known && words.iter().any(|word| word.contains("{}")) {
                found.cannot_tell(ELSEWHERE);
            }
        }
        if found.starts.len() > MOST {
            return;
        }
    }
}

/// A program whose further words nobody has seen: one that starts others by them may start anything.
fn fed(words: &[&str], found: &mut Command) {
    let already = found.starts.len();
    behind(0, words, found);
    let mut after_option = false;
    let own = words.iter().take_while(|word| {
        let (is_option, is_value) = (word.starts_with('-'), after_option);
        after_option = is_option;
        is_option || is_value
    });
    let replaces = own
        .into_iter()
        .any(|word| ["-I", "-i", "-J", "--replace"].into_iter().any(|option| is_option(word, option)));
    let mut started = found.starts.iter().skip(already);
    if replaces || started.any(|program| !ways_of(program).is_empty()) {
        found.cannot_tell(ELSEWHERE);
    }
}

/// A text behind `-c`, or a file. Any option that is not known may make it read what it runs.
fn shell(words: &[&str], found: &mut Command) {
    const FLAGS: [&str; 6] = ["--", "--login", "--norc", "--noprofile", "--posix", "--restricted"];
    let mut rest = words.iter().enumerate();
    while let Some((at, word)) = rest.next() {
        let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
            if is_input(word) {
                found.cannot_tell(READ);
            }
            return;
        };
        if is_option(word, "-c") {
            return words.iter().skip(at + 1).for_each(|word| look_into_text(word, found));
        }
        if letters.contains(['o', 'O']) && !letters.starts_with('-') {
            rest.next();
        }
        let are_known = letters.chars().all(|letter| "abefhiklmnoOpruvxBCEHPT".contains(letter));
        if !are_known && !FLAGS.contains(word) {
            break;
        }
    }
    found.cannot_tell(READ);
}

/// Modules that run code of their words, or of what they read.
const RUNNING_MODULES: [&str; 8] =
    ["code", "pdb", "asyncio", "timeit", "idlelib", "IPython", "doctest", "cProfile"];

/// Code behind an option, or a file.
fn code(options: &[&str], valued: &str, words: &[&str], found: &mut Command) {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word.len() == 1 {
            if is_input(word) || !is_plain(word) {
                found.cannot_tell(READ);
            }
            return;
        }
        if options.iter().any(|option| is_option(word, option)) || !is_plain(word) {
            return found.cannot_tell(CODE);
        }
        if let Some(module) = word.strip_prefix("-m") {
            let module = if module.is_empty() { rest.next().copied().unwrap_or_default() } else { module };
            if RUNNING_MODULES.contains(&module) || !is_plain(module) {
                found.cannot_tell(CODE);
            }
            return;
        }
        if !word.starts_with("--") && word.ends_with(|letter| valued.contains(letter)) {
            rest.next();
        }
    }
    found.cannot_tell(READ);
}

/// Every name in a text that a shell runs; where it could be put together from pieces, nobody can tell.
fn look_into_text(text: &str, found: &mut Command) {
    let is_plain = |c: char| {
        is_of_a_name(c)
            || c.is_whitespace()
            || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>' | '=' | ',' | ':')
    };
    if !text.chars().all(is_plain) {
        found.cannot_tell(TEXT);
    }
    let names = text.split(|c| !is_of_a_name(c)).filter(|name| !name.is_empty());
    found.starts.extend(names.take(MOST + 1).map(str::to_owned));
    for part in text.split([';', '&', '|', '(', ')', '\n']) {
        let words: Vec<&str> = part.split(|c: char| c.is_whitespace() || matches!(c, '<' | '>')).collect();
        for (at, word) in words.iter().enumerate() {
            if found.starts.len() > MOST {
                return;
            }
            // What one part writes another may run.
            if ways_of(word).iter().any(|way| matches!(way, Way::Shell | Way::Code(..))) {
                found.cannot_tell(TEXT);
            }
            if assignment(word).is_some_and(|(name, value)| may_name_a_program(name, value)) {
                found.cannot_tell(VARIABLE);
            }
            look_behind(word, words.get(at + 1..).unwrap_or_default(), found);
        }
    }
}

fn has_letter(word: &str, letters: &str) -> bool {
    !word.starts_with('-') && word.chars().any(|letter| letters.contains(letter))
}

/// That nobody can tell what a command starts.
trait CannotTell {
    fn cannot_tell(&mut self, why: &'static str);
}

impl CannotTell for Command {
    fn cannot_tell(&mut self, why: &'static str) {
        self.untold.get_or_insert(why);
    }
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
        let cases: [(&str, &[&str]); 27] = [
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
            ("env", &["-ivS", "LANG=C git push"]),
            ("env", &["-CSrv", "git"]),
            ("env", &["-u", "-S", "git", "push"]),
            ("timeout", &["--foreground", "5", "git"]),
            ("busybox", &["nice", "git"]),
            ("/lib64/ld-linux-x86-64.so.2", &["/usr/bin/git", "push"]),
            ("fd", &["-Hxgit", "add"]),
            ("fd", &["x", "--exec=git"]),
            ("uv", &["tool", "run", "git"]),
            ("rustup", &["run", "stable", "git"]),
            ("watch", &["-n", "5", "git push"]),
            ("sh", &["-c", "true & nohup git push"]),
        ];
        for (command, words) in cases {
            assert!(
                of(command, words).starts.iter().any(|name| name.ends_with("git")),
                "{command} {words:?}"
            );
        }
    }

    #[test]
    fn a_command_that_starts_no_other_by_its_words_has_none() {
        for (command, words) in [
            ("grep", &["git"][..]),
            ("git", &["push"]),
            ("cargo", &["test"]),
            ("sh", &["x.sh", "git"]),
            ("bash", &["-eu", "-o", "pipefail", "x.sh"]),
            ("python3", &["-m", "pytest", "-k", "a or b"]),
            ("python3.12", &["-u", "x.py", "git"]),
            ("node", &["x.js"]),
            ("make", &["-j4", "test"]),
            ("npm", &["test"]),
            ("sort", &["-k", "2", "--check"]),
            ("tar", &["-xzf", "a.tgz", "-C", "out"]),
            ("find", &[".", "-name", "*.rs"]),
            ("rg", &["--pretty", "a|b"]),
            ("awk", &["{ print $1 }"]),
            ("sed", &["-n", "1,5p", "x"]),
        ] {
            assert_eq!(of(command, words), Command::named(command), "{command} {words:?}");
        }
        assert!(!of("env", &["grep", "git"]).starts.contains(&"git".to_owned()), "it is `grep`'s word");
        assert_eq!(of("timeout", &["5", "git", "push"]).starts, ["git"]);
        assert_eq!(of("nice", &["-n5", "git", "push"]).starts, ["git"]);
        assert_eq!(of("xargs", &["-0", "rm"]).untold, None);
        assert_eq!(of("env", &["LANG=C", "git", "push"]).untold, None);
    }

    #[test]
    fn what_may_start_anything_is_untold() {
        let cases: [(&str, &[&str]); 53] = [
            ("env", &["-S", "\"rm\" v"]),
            ("env", &["-S", "${X} v"]),
            ("env", &["-iS", "LANG=b\\_rm v"]),
            ("env", &["--split=r\\m v"]),
            ("env", &["PAGER=rm", "git", "log"]),
            ("git", &["-c", "alias.x=!rm v", "x"]),
            ("env", &["git", "-C", "a log", "-c", "alias.log=!rm", "log"]),
            ("sh", &[]),
            ("sh", &["-s"]),
            ("sh", &["-"]),
            ("sh", &["-o", "nolog"]),
            ("sh", &["/dev/stdin"]),
            ("bash", &["--rcfile", "x"]),
            ("busybox", &["sh"]),
            ("/usr/bin/dash", &["-e"]),
            ("sh", &["-c", "echo mr | rev | sh"]),
            ("sh", &["-c", "rev x > y; . ./y"]),
            ("sh", &["-c", "PAGER=mr git log"]),
            ("sh", &["-c", "git bisect run x"]),
            ("xargs", &["env"]),
            ("xargs", &["git", "log"]),
            ("xargs", &["-I", "X", "X", "v"]),
            ("xargs", &["-n", "1", "nice"]),
            ("xargs", &["rg", "x"]),
            ("parallel", &[":::", "rm v"]),
            ("flock", &["x", "-c", "rm v"]),
            ("flock", &["x", "--comm=rm v"]),
            ("tar", &["-cf", "x", "--checkpoint-act=exec=rm v", "y"]),
            ("tar", &["--to-com=rm", "-xf", "x"]),
            ("tar", &["-I", "rm v", "-cf", "x", "y"]),
            ("tar", &["cIf", "rm", "x", "y"]),
            ("tar", &["--use=rm", "-cf", "x", "y"]),
            ("sort", &["--compress-prog=rm", "x"]),
            ("rg", &["--pre", "rm", "x"]),
            ("rsync", &["-e", "rm", "a", "b:"]),
            ("split", &["--fil=rm", "x"]),
            ("awk", &["BEGIN { system(\"rm v\") }"]),
            ("sed", &["1e rm v", "x"]),
            ("find", &[".", "-exec", "{}", ";"]),
            ("find", &[".", "-exec", "env", "{}", ";"]),
            ("python3", &["-c", "1"]),
            ("python3", &[]),
            ("python3", &["-W", "ignore"]),
            ("python3", &["-m", "code"]),
            ("python3", &["-i", "x.py"]),
            ("perl", &["-ne", "1"]),
            ("perl", &["-MPOSIX;system('rm')", "x"]),
            ("node", &["--eval=1"]),
            ("make", &["SHELL=rm"]),
            ("make", &["--ev=x"]),
            ("cargo", &["--config", "build.rustc-wrapper='rm'", "build"]),
            ("time", &["-f", "x", "sh"]),
            ("strace", &["-o", "|rm v", "true"]),
        ];
        for (command, words) in cases {
            assert!(of(command, words).untold.is_some(), "{command} {words:?}");
        }
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
