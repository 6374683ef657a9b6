//! Which words of a command may name files, and how each would be bound. Pure.
//!
//! A word that names none is watched, so that none comes to be there: it is better to take one too many than one too few.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use contract::{Binding, NotBound};
use policy::WorkspaceAccess;

use crate::inside::Stage;
use crate::path::shown;
use crate::wire::{Missing, Word};

/// Programs whose first argument, if it is no option, is what they run; and what their modules are files of.
const INTERPRETERS: [(&str, &[&str]); 20] = [
    ("sh", &[]),
    ("bash", &[]),
    ("dash", &[]),
    ("zsh", &[]),
    ("ksh", &[]),
    ("ash", &[]),
    ("python", &[".py", "/__main__.py", "/__init__.py"]),
    ("perl", &[".pm"]),
    ("ruby", &[".rb"]),
    ("node", &[".js", ".mjs", ".cjs", "/index.js"]),
    ("nodejs", &[".js", ".mjs", ".cjs", "/index.js"]),
    ("bun", &[".js", ".ts", "/index.js"]),
    ("tsx", &[".js", ".ts"]),
    ("ts-node", &[".js", ".ts"]),
    ("php", &[".php"]),
    ("lua", &[".lua", "/init.lua"]),
    ("julia", &[".jl"]),
    ("Rscript", &[]),
    ("elixir", &[]),
    ("tclsh", &[]),
];

/// What well-known programs read where they start, without being told.
const READ_UNASKED: [(&str, &[&str]); 21] = [
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("npm", &["package.json", ".npmrc"]),
    ("npx", &["package.json", ".npmrc"]),
    ("yarn", &["package.json", ".yarnrc", ".yarnrc.yml"]),
    ("pnpm", &["package.json", ".npmrc", "pnpm-workspace.yaml"]),
    ("bun", &["package.json", "bunfig.toml"]),
    ("cargo", &["Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", ".cargo/config"]),
    ("go", &["go.mod", "go.work"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("ninja", &["build.ninja"]),
    ("cmake", &["CMakeLists.txt", "CMakePresets.json"]),
    ("rake", &["Rakefile", "rakefile"]),
    ("gradle", &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"]),
    ("mvn", &["pom.xml", ".mvn/maven.config", ".mvn/extensions.xml"]),
    ("pytest", &["conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"]),
    ("pip", &["setup.py", "pyproject.toml", "setup.cfg"]),
    ("tox", &["tox.ini", "pyproject.toml"]),
    ("docker", &["Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"]),
    ("ansible-playbook", &["ansible.cfg"]),
    ("git", &[".git/config", ".gitmodules"]),
];

/// Where the system keeps what only its owner changes.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc"];

/// As many words as one call is looked at for.
const MOST_WORDS: usize = 2048;

/// As long as the path of a file can be.
const LONGEST_PATH: usize = 4096;

/// As much text as is looked at for words: what stands after each of many marks is long many times over.
const MOST_TEXT: usize = MOST_WORDS * LONGEST_PATH;

/// As many paths elsewhere as are told of.
const MOST_ELSEWHERE: usize = 256;

/// As many options as are written together. Of longer ones nobody knows where a name begins.
const MOST_LETTERS: usize = 256;

/// In a word of no more marks than these, a name may have any of them in it, spaces too.
const FEW_MARKS: usize = 16;

/// The words of these commands that may name files, and what no digest can stand for.
pub(crate) struct Words {
    pub(crate) words: Vec<Word>,
    pub(crate) not_bound: Vec<NotBound>,
    /// Whether there were more words than anybody looks at.
    pub(crate) unseen: bool,
}

/// What is executed is sealed: the call gets the copy. Whatever else it names may be what it is to change, so it gets
/// the file itself, unchanged; where it cannot write, it gets copies of everything.
pub(crate) fn words_of(
    stages: &[Stage],
    variables: &BTreeMap<String, String>,
    access: WorkspaceAccess,
    root: &Path,
) -> Words {
    let mut found = Found { root, ..Found::default() };
    let named = if access == WorkspaceAccess::Write { Binding::Unchanged } else { Binding::Sealed };
    // What is executed first: it must not be among those that there was no room for.
    for stage in stages {
        if stage.command.contains('/') {
            found.add(&stage.command, Binding::Sealed);
        }
        if let Some(script) = script_of(stage).and_then(|at| stage.arguments.get(at)) {
            found.add(script, Binding::Sealed);
        }
    }
    let mut texts = Vec::new();
    for stage in stages {
        found.add_unasked(last_part(&stage.command), named);
        // ATTACK(module-behind-another): `env python3 -m pkg` and `sh -c 'python3 -m pkg'` run modules, too.
        let modules = modules_of(stage);
        texts.extend(stage.arguments.iter().map(|argument| (argument, modules.clone())));
    }
    texts.extend(variables.values().map(|value| (value, BTreeSet::new())));
    // The short ones first: a long one must not use up what is looked at.
    texts.sort_by_key(|(text, _)| text.len());
    for (text, modules) in &texts {
        found.add_forms(text, named, modules);
    }
    let reads = stages.iter().map(|stage| NotBound {
        what: shown(&stage.command),
        why: "what it reads by itself: libraries, settings, and files that other files name".to_owned(),
    });
    let elsewhere = found.elsewhere.iter().map(|path| NotBound {
        what: shown(path),
        why: "not a path of the workspace, nor of the system's software".to_owned(),
    });
    let left_out = found.unseen.then(|| NotBound {
        what: "further words".to_owned(),
        why: "too many, or too long, to be looked at".to_owned(),
    });
    let not_bound = left_out.into_iter().chain(elsewhere).chain(reads).collect();
    let words = found.order.into_iter().filter_map(|text| {
        let how = found.words.get(&text).copied()?;
        Some(Word { text, how, missing: Missing::Watch })
    });
    Words { words: words.collect(), not_bound, unseen: found.unseen }
}

struct Found<'a> {
    root: &'a Path,
    words: BTreeMap<String, Binding>,
    order: Vec<String>,
    elsewhere: BTreeSet<String>,
    /// How much text was looked at.
    looked_at: usize,
    unseen: bool,
}

impl Default for Found<'_> {
    fn default() -> Self {
        let (words, order, elsewhere) = Default::default();
        Found { root: Path::new("/"), words, order, elsewhere, looked_at: 0, unseen: false }
    }
}

impl Found<'_> {
    /// Adds everything that an argument or the value of a variable may name.
    fn add_forms(&mut self, word: &str, how: Binding, modules: &BTreeSet<&str>) {
        for form in forms_of(word) {
            self.looked_at += form.len();
            // A megabyte of marks is not looked at from each of them to its end.
            if self.looked_at > MOST_TEXT {
                self.unseen = true;
                return;
            }
            // A name may follow letters after which none is looked for.
            self.unseen |= is_cluster(form) && form.len() > MOST_LETTERS;
            if form.len() > LONGEST_PATH {
                continue;
            }
            self.add(form, how);
            self.add_unasked(last_part(form), how);
            if !modules.is_empty() && is_module(form) {
                let path = form.replace("::", "/").replace('.', "/");
                modules.iter().for_each(|end| self.add(&format!("{path}{end}"), how));
            }
        }
    }

    /// Adds what a program reads without being told, wherever in a command its name stands.
    fn add_unasked(&mut self, program: &str, how: Binding) {
        let read = READ_UNASKED.iter().filter(|(name, _)| *name == program);
        read.flat_map(|(_, files)| *files).for_each(|file| self.add(file, how));
    }

    fn add(&mut self, text: &str, how: Binding) {
        if text.is_empty() || text.len() > LONGEST_PATH || text.contains('\0') {
            return;
        }
        let text = match text.starts_with('/') {
            false => text.to_owned(),
            true => match self.place(text) {
                Some(text) => text,
                None => return,
            },
        };
        // What is executed under one word is not changed under another.
        if let Some(known) = self.words.get_mut(&text) {
            *known = (*known).min(how);
        } else if self.words.len() < MOST_WORDS {
            self.order.push(text.clone());
            self.words.insert(text, how);
        } else {
            self.unseen = true;
        }
    }

    /// An absolute path as the worker counts it, from the workspace; nothing if it is not there.
    fn place(&mut self, text: &str) -> Option<String> {
        let path = Path::new(text);
        // ATTACK(system-by-name): `/usr/../home/me/x` begins with `/usr` and ends elsewhere.
        let climbs = path.components().any(|part| part == Component::ParentDir);
        let plain = if climbs { without_parents(path) } else { path.to_owned() };
        let is_system = !climbs && SYSTEM.iter().any(|part| path.starts_with(part));
        match plain.strip_prefix(self.root) {
            Ok(rest) => {
                // By links on its way it may lead elsewhere than it reads.
                if climbs {
                    self.add_elsewhere(text);
                }
                Some(format!("/{}", rest.to_string_lossy()))
            }
            Err(_) => {
                if !is_system {
                    self.add_elsewhere(text);
                }
                None
            }
        }
    }

    fn add_elsewhere(&mut self, path: &str) {
        if self.elsewhere.len() < MOST_ELSEWHERE {
            self.elsewhere.insert(path.to_owned());
        } else {
            self.unseen |= !self.elsewhere.contains(path);
        }
    }
}

fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

fn last_part(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or_default()
}

/// What the modules of an interpreter are files of, if it is one.
fn modules_of_interpreter(program: &str) -> Option<&'static [&'static str]> {
    let name = last_part(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|(known, _)| *known == name).map(|(_, modules)| *modules)
}

/// What the modules of all interpreters that a stage names are files of.
fn modules_of(stage: &Stage) -> BTreeSet<&'static str> {
    let words = [&stage.command].into_iter().chain(&stage.arguments);
    // Programs stand between breaks, or between marks: what is longer names none.
    let programs = words.flat_map(|word| word.split(is_break).chain(word.split(is_mark)));
    programs.filter_map(modules_of_interpreter).flatten().copied().collect()
}

/// Which argument is the program of an interpreter.
fn script_of(stage: &Stage) -> Option<usize> {
    modules_of_interpreter(&stage.command)?;
    // `-c text` and `-m module` stand before words that are no programs; those are bound like any other.
    stage.arguments.iter().position(|argument| !argument.starts_with('-'))
}

fn is_module(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c)) && !text.starts_with('-')
}

/// Whether this may be short options that are written together, with something after them.
fn is_cluster(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

/// What a word may name: itself, what stands after any mark in it, up to any later one or to the end, and of short options
/// that are written together what is left after each: `x`, `--file=x`, `-fx`, `-sfx`, `if=x`, `@x`, `!x`, `"x y"`, `a+b:x`.
fn forms_of(word: &str) -> impl Iterator<Item = &str> {
    let few = word.chars().filter(|c| is_mark(*c)).take(FEW_MARKS + 1).count() <= FEW_MARKS;
    let starts = word.char_indices().filter(|(_, c)| is_mark(*c)).map(|(at, c)| at + c.len_utf8());
    [0].into_iter().chain(starts).flat_map(move |start| {
        let rest = word.get(start..).unwrap_or_default();
        // ATTACK(cut-word): no further than a path after the longest options can be, and so much more that what is cut
        // is seen to be no path.
        let most = LONGEST_PATH + (MOST_LETTERS + 3) * char::MAX.len_utf8();
        let near = rest.get(..rest.floor_char_boundary(most)).unwrap_or_default();
        let to_the_end = (near.len() == rest.len()).then_some(rest);
        let to_a_break = near.split(is_break).next().unwrap_or_default();
        let last = if few { near.len() } else { to_a_break.len() };
        let marks = near.char_indices().filter(|(_, c)| is_mark(*c)).map(|(at, _)| at);
        let to_marks = marks.take_while(move |at| *at < last).filter_map(move |at| near.get(..at));
        let letters = if is_cluster(rest) { MOST_LETTERS } else { 0 };
        let clustered =
            to_a_break.char_indices().skip(2).take(letters).filter_map(move |(at, _)| to_a_break.get(at..));
        to_the_end.into_iter().chain([to_a_break]).chain(to_marks).chain(clustered)
    })
}

/// Where one word ends and another begins, in languages that are written in words.
fn is_break(c: char) -> bool {
    c.is_whitespace() || "'\"`;|&<>()".contains(c)
}

fn is_mark(c: char) -> bool {
    is_break(c) || "=!,:@$%{}[]+^~#?*\\".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(words: &[&str]) -> Stage {
        let mut words = words.iter().map(|word| (*word).to_owned());
        Stage { command: words.next().unwrap(), arguments: words.collect() }
    }

    fn found(words: &[&str], access: WorkspaceAccess) -> BTreeMap<String, Binding> {
        let found = words_of(&[stage(words)], &BTreeMap::new(), access, Path::new("/w/p"));
        found.words.into_iter().map(|word| (word.text, word.how)).collect()
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
        for word in [
            "x.py",
            "--file=x.py",
            "-fx.py",
            "-sfx.py",
            "if=x.py",
            "@x.py",
            "-d@x.py",
            "/w/p/x.py",
            "/usr/../w/p/x.py",
            "x.py -d",
            "-I x.py",
            "alias.y=!x.py",
            "--a=--b=x.py",
            "cat<x.py>y",
            "PYTHONPATH=x.py:zz",
            "a,x.py,b",
            &format!("-{}fx.py", "k".repeat(100)),
        ] {
            let words = found(&["tool", word], WorkspaceAccess::Write);
            assert!(words.contains_key("x.py") || words.contains_key("/x.py"), "{word}: {words:?}");
        }
    }

    #[test]
    fn what_programs_read_unasked_and_modules_are_files_too() {
        let has = |words: &[&str], file: &str| found(words, WorkspaceAccess::Write).contains_key(file);
        assert!(has(&["make", "test"], "Makefile") && has(&["sh", "-c", "make test"], "Makefile"));
        assert!(
            has(&["python3", "-m", "pkg.tool"], "pkg/tool.py") && has(&["perl", "-MFoo::Bar"], "Foo/Bar.pm")
        );
        assert!(!has(&["ls"], "Makefile"));
        for words in [&["env", "python3", "-m", "pkg"][..], &["sh", "-c", "exec python3.12 -m pkg"]] {
            assert!(has(words, "pkg.py") && has(words, "pkg/__main__.py"), "{words:?}");
        }
    }

    #[test]
    fn a_name_is_found_with_marks_in_it_and_as_long_as_names_can_be() {
        let has = |word: &str, file: &str| found(&["tool", word], WorkspaceAccess::Write).contains_key(file);
        assert!(has("PATHS=a+b.zip:zz", "a+b.zip") && has("--with=a,b=c.jar;d", "a,b=c.jar"));
        assert!(has("run 'my file+1.py' now", "my file+1.py"));
        let long = format!("{}x.mk", "./".repeat(2045));
        for options in ["", "-f", "-kksrRf", "--file="] {
            assert!(has(&format!("{options}{long}"), &long), "{options}");
        }
    }

    #[test]
    fn options_too_long_to_be_looked_through_are_told_and_what_follows_is_bound() {
        let options = format!("-{}fx.mk", "k".repeat(MOST_LETTERS));
        let stages = [stage(&["make", &options, "y.mk"])];
        let found = words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w"));
        assert!(found.unseen && found.words.iter().any(|word| word.text == "y.mk"));
    }

    #[test]
    fn a_long_word_takes_nothing_from_the_short_ones_of_any_stage() {
        let long = "a:".repeat(1 << 19);
        let stages = [stage(&["tool", &long]), stage(&["env", "python3", "-m", "pkg", "y.sh"])];
        let variables = [("A".to_owned(), "z.sh".to_owned())].into();
        let found = words_of(&stages, &variables, WorkspaceAccess::Write, Path::new("/w"));
        let has = |text: &str| found.words.iter().any(|word| word.text == text);
        assert!(found.unseen && has("y.sh") && has("z.sh") && has("pkg.py"));
    }

    #[test]
    fn what_is_not_in_the_workspace_is_told_and_the_system_is_not() {
        let words =
            ["cat", "/proc/self/cwd/x", "/w/pp/x", "/usr/share/x", "/usr/../home/x"].map(str::to_owned);
        let [command, arguments @ ..] = words;
        let stages = [Stage { command, arguments: arguments.to_vec() }];
        let found = words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w/p"));
        assert_eq!((found.words, found.unseen), (Vec::new(), false));
        let told: Vec<&str> = found.not_bound.iter().map(|thing| thing.what.as_str()).collect();
        assert_eq!(told, ["/proc/self/cwd/x", "/usr/../home/x", "/w/pp/x", "cat"]);
    }

    #[test]
    fn words_beyond_what_anybody_looks_at_are_told_and_what_is_executed_comes_first() {
        let many: Vec<String> = (0..MOST_WORDS).map(|number| format!("a{number}")).collect();
        let arguments = ["zz.sh".to_owned()].into_iter().chain(many).collect();
        let stages = [Stage { command: "bash".into(), arguments }];
        let found = words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w"));
        assert_eq!((found.words.len(), found.unseen), (MOST_WORDS, true));
        assert_eq!(found.words[0].text, "zz.sh");
        assert_eq!(found.not_bound[0].what, "further words");
    }

    #[test]
    fn a_megabyte_of_words_is_looked_at_no_longer_than_a_little() {
        // Whoever looked at each of them to its end, or kept each, would still be at it.
        for piece in ["a:", "/x ", "/usr/x ", "-", "=", "\"a", "../"] {
            for command in ["python3", "tool"] {
                let text = piece.repeat((1 << 20) / piece.len());
                let stages = [stage(&[command, "-c", &text])];
                let found = words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w"));
                assert!(found.not_bound.len() <= MOST_ELSEWHERE + 2, "{piece:?}: {}", found.not_bound.len());
            }
        }
        let unseen = |text: &str| {
            let stages = [stage(&["tool", text])];
            words_of(&stages, &BTreeMap::new(), WorkspaceAccess::Write, Path::new("/w")).unseen
        };
        let elsewhere = |count: usize| (0..count).map(|number| format!("/x{number} ")).collect::<String>();
        assert!(unseen(&elsewhere(MOST_ELSEWHERE + 1)) && unseen(&"a:".repeat(1 << 19)));
        assert!(!unseen(&elsewhere(9)) && !unseen(&"a:".repeat(99)));
    }

    #[test]
    fn the_values_of_variables_are_words_too() {
        let variables = [("TAR_OPTIONS".to_owned(), "--to-command=./evil.sh".to_owned())].into();
        let found = words_of(&[stage(&["tar"])], &variables, WorkspaceAccess::Write, Path::new("/w"));
        assert!(found.words.iter().any(|word| word.text == "./evil.sh"));
    }
}
