//! Which words of a command may name files, and how each would be bound. Pure.
//!
//! A word that names none is ignored when somebody looks, so it is better to take one too many than one too few.

use std::collections::BTreeMap;
use std::path::Path;

use contract::{Binding, NotBound};
use policy::WorkspaceAccess;

use crate::inside::Stage;
use crate::path::shown;
use crate::wire::{Missing, Word};

/// Programs whose first argument, if it is no option, is what they run.
const INTERPRETERS: [&str; 22] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "python", "python2", "python3", "perl", "ruby", "node",
    "nodejs", "php", "lua", "julia", "Rscript", "elixir", "ts-node", "tsx", "tclsh", "bun",
];

/// Where the system keeps what only its owner changes.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc"];

/// The words of these commands that may name files, and what no digest can stand for.
///
/// What is executed is sealed: the call gets the copy. Whatever else it names may be what it is to change, so it gets
/// the file itself, unchanged; where it cannot write, it gets copies of everything.
pub(crate) fn words_of(
    stages: &[Stage],
    variables: &BTreeMap<String, String>,
    access: WorkspaceAccess,
    root: &Path,
) -> (Vec<Word>, Vec<NotBound>) {
    let mut found = Found { root, words: BTreeMap::new(), elsewhere: BTreeMap::new() };
    let named = if access == WorkspaceAccess::Write { Binding::Unchanged } else { Binding::Sealed };
    for stage in stages {
        if stage.command.contains('/') {
            found.add(&stage.command, Binding::Sealed);
        }
        let script = script_of(stage);
        for (index, argument) in stage.arguments.iter().enumerate() {
            let how = if script == Some(index) { Binding::Sealed } else { named };
            forms_of(argument).for_each(|form| found.add(form, how));
        }
    }
    variables.values().for_each(|value| found.add(value, named));
    let reads = stages.iter().map(|stage| NotBound {
        what: shown(&stage.command),
        why: "what it reads by itself: libraries, settings, and files that other files name".to_owned(),
    });
    let elsewhere = found.elsewhere.into_keys().map(|what| NotBound {
        what,
        why: "not a path of the workspace, nor of the system's software".to_owned(),
    });
    let not_bound = elsewhere.chain(reads).collect();
    let word = |(text, how)| Word { text, how, missing: Missing::Ignore };
    (found.words.into_iter().map(word).collect(), not_bound)
}

struct Found<'a> {
    root: &'a Path,
    words: BTreeMap<String, Binding>,
    elsewhere: BTreeMap<String, ()>,
}

impl Found<'_> {
    fn add(&mut self, text: &str, how: Binding) {
        if text.is_empty() || text.len() > 4096 || text.contains('\0') {
            return;
        }
        let text = match text.starts_with('/') {
            false => text.to_owned(),
            true => match Path::new(text).strip_prefix(self.root) {
                // The worker counts absolute paths from the workspace.
                Ok(rest) => format!("/{}", rest.to_string_lossy()),
                Err(_) if SYSTEM.iter().any(|part| Path::new(text).starts_with(part)) => return,
                Err(_) => {
                    self.elsewhere.insert(shown(text), ());
                    return;
                }
            },
        };
        // What is executed under one word is not changed under another.
        let known = self.words.entry(text).or_insert(how);
        *known = (*known).min(how);
    }
}

/// Which argument is the program of an interpreter.
fn script_of(stage: &Stage) -> Option<usize> {
    let name = stage.command.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_interpreter = INTERPRETERS.iter().any(|known| known.trim_end_matches(['2', '3']) == name);
    // `-c text` and `-m module` stand before words that are no programs; those are bound like any other.
    let first = stage.arguments.iter().position(|argument| !argument.starts_with('-'))?;
    is_interpreter.then_some(first)
}

/// What a word may name: `x`, `--file=x`, `-fx`, `if=x`, `@x`.
fn forms_of(word: &str) -> impl Iterator<Item = &str> {
    let after_sign = word.split_once('=').map(|(_, value)| value);
    let is_short = word.starts_with('-') && !word.starts_with("--");
    let after_letter =
        if is_short { word.char_indices().nth(2).and_then(|(at, _)| word.get(at..)) } else { None };
    let answer_file = word.rsplit_once('@').map(|(_, file)| file);
    [Some(word), after_sign, after_letter, answer_file].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(words: &[&str]) -> Stage {
        let mut words = words.iter().map(|word| (*word).to_owned());
        Stage { command: words.next().unwrap(), arguments: words.collect() }
    }

    fn found(words: &[&str], access: WorkspaceAccess) -> BTreeMap<String, Binding> {
        let (found, _) = words_of(&[stage(words)], &BTreeMap::new(), access, Path::new("/w/p"));
        found.into_iter().map(|word| (word.text, word.how)).collect()
    }

    #[test]
    fn what_is_executed_is_sealed_and_the_rest_has_to_stay_as_it_is() {
        use Binding::{Sealed, Unchanged};
        let write = |words: &[&str], file: &str| found(words, WorkspaceAccess::Write).get(file).copied();
        assert_eq!(write(&["./tool", "x"], "./tool"), Some(Sealed));
        assert_eq!(write(&["./tool", "x"], "x"), Some(Unchanged));
        assert_eq!(write(&["python3.12", "-u", "x.py", "out"], "x.py"), Some(Sealed));
        assert_eq!(write(&["python3.12", "-u", "x.py", "out"], "out"), Some(Unchanged));
        assert_eq!(write(&["/usr/bin/perl", "-i", "-pe", "s/a/b/", "f"], "f"), Some(Unchanged));
        assert_eq!(write(&["rm", "f"], "f"), Some(Unchanged));
        assert_eq!(write(&["sh", "x", "x"], "x"), Some(Sealed));
        assert_eq!(write(&["rm", "f"], "rm"), None);
    }

    #[test]
    fn where_nothing_can_be_written_everything_is_sealed() {
        let words = found(&["grep", "a", "f"], WorkspaceAccess::Read);
        assert!(words.values().all(|how| *how == Binding::Sealed));
    }

    #[test]
    fn a_file_is_found_in_every_form_a_word_may_have() {
        for word in ["x.py", "--file=x.py", "-fx.py", "if=x.py", "@x.py", "-d@x.py", "/w/p/x.py"] {
            let words = found(&["tool", word], WorkspaceAccess::Write);
            assert!(words.contains_key("x.py") || words.contains_key("/x.py"), "{word}: {words:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_workspace_is_told_and_the_system_is_not() {
        let words = ["cat", "/proc/self/cwd/x", "/w/pp/x", "/usr/share/x"].map(str::to_owned);
        let [command, arguments @ ..] = words;
        let stages = [Stage { command, arguments: arguments.to_vec() }];
        let (found, not_bound) =
            words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w/p"));
        assert_eq!(found, []);
        let told: Vec<&str> = not_bound.iter().map(|thing| thing.what.as_str()).collect();
        assert_eq!(told, ["/proc/self/cwd/x", "/w/pp/x", "cat"]);
    }

    #[test]
    fn the_values_of_variables_are_words_too() {
        let variables = [("MAKEFILES".to_owned(), "evil.mk".to_owned())].into();
        let (found, _) = words_of(&[stage(&["make"])], &variables, WorkspaceAccess::Write, Path::new("/w"));
        assert_eq!(found.first().map(|word| word.text.as_str()), Some("evil.mk"));
    }
}
