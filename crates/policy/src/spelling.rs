//! What a text of a call may mean: one path and one program have many spellings.
//!
//! Pure: no disk is read, so that no link is followed. What could lead elsewhere cannot be told.
//!
//! # Invariants
//! - Rules that ask or deny speak about a text if they speak about any of its readings.
//! - Rules that approve speak about it only if they do about each: another spelling never frees a call.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use contract::Amount;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::facts::Command;
use crate::rule::{AmountLimit, ArgumentPath, Pattern};
use crate::wildcard::{fits_beneath, fits_wildcard};

/// Where a program without a slash in its name may be found.
const SEARCHED: [&str; 6] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"];

/// A text with wildcards: `*` stands for any text, `?` for any character.
///
/// It is put into all the forms in which it is compared when it is made: it is heard for every call.
#[derive(Clone)]
pub struct TextPattern {
    text: String,
    plain: String,
    /// The text and its plain form, folded; once where they are the same.
    folded: Vec<String>,
    folded_plain: String,
}

impl TextPattern {
    /// The pattern that a text is. Every text is one.
    pub fn of(text: impl Into<String>) -> TextPattern {
        let text = text.into();
        let plain = plain(&text);
        let folded_plain = folded(&plain);
        let mut all = vec![folded(&text), folded_plain.clone()];
        all.dedup();
        TextPattern { text, plain, folded: all, folded_plain }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for TextPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TextPattern({:?})", self.text)
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &TextPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for TextPattern {}

impl Serialize for TextPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// What is known of a call besides its arguments, and what has been read from those so far.
///
/// Rules ask about the same few arguments again and again: each is read once for a call.
#[derive(Debug, Default)]
pub(crate) struct Known<'a> {
    /// Every program that it would start.
    pub(crate) commands: &'a [Command],
    /// Every directory of which it means all that is beneath.
    pub(crate) trees: &'a [String],
    /// The agent's workspace, if it has one.
    pub(crate) workspace: Option<&'a Path>,
    /// By where they stand in memory: to compare a long text costs more than to compare with a pattern.
    texts: RefCell<HashMap<*const str, Rc<Readings<'a>>>>,
    /// By where they stand, and by what is said of other arguments.
    amounts: RefCell<BTreeMap<AmountKey<'a>, Result<Amount, String>>>,
}

type AmountKey<'a> = (&'a ArgumentPath, Vec<&'a ArgumentPath>);

/// What one text may mean.
#[derive(Debug)]
struct Readings<'a> {
    text: &'a str,
    plain: String,
    /// The text, and the same read as a path, folded.
    paths: OnceCell<Vec<String>>,
    /// If it says which program is started: all that are, by all their names, folded.
    programs: OnceCell<Vec<String>>,
    names_a_program: bool,
    is_tree: bool,
}

/// Whether a pattern speaks about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Yes,
    Untold(&'static str),
    No,
}

impl<'a> Known<'a> {
    /// Of a call that would start these programs, and means all of these directories.
    pub(crate) fn of(commands: &'a [Command], trees: &'a [String], workspace: Option<&'a Path>) -> Known<'a> {
        Known { commands, trees, workspace, ..Known::default() }
    }

    /// Whether a pattern speaks about a text, or something else that it may mean.
    pub(crate) fn any_reading(&self, pattern: &TextPattern, text: &'a str) -> Spoken {
        // ATTACK(rule-by-spelling)
        let readings = self.readings(text);
        let fits = |reading: &String| pattern.folded.iter().any(|pattern| fits_wildcard(pattern, reading));
        let paths = readings.paths.get_or_init(|| self.paths(text).iter().map(|path| folded(path)).collect());
        if paths.iter().any(fits) {
            return Spoken::Yes;
        }
        let beneath = || paths.iter().any(|tree| fits_beneath(&pattern.folded_plain, tree));
        if readings.is_tree && (readings.plain.is_empty() || beneath()) {
            return Spoken::Yes;
        }
        if readings.names_a_program {
            if readings.programs.get_or_init(|| self.programs()).iter().any(fits) {
                return Spoken::Yes;
            }
            if let Some(why) = self.commands.iter().find_map(|command| command.untold) {
                return Spoken::Untold(why);
            }
        }
        why_untold(text).map_or(Spoken::No, Spoken::Untold)
    }

    /// Whether a pattern speaks about a text, and about everything else that it may mean.
    pub(crate) fn every_reading(&self, pattern: &TextPattern, text: &'a str) -> Spoken {
        let fits = |text: &str, plain: &str| {
            fits_wildcard(&pattern.text, text)
                && fits_wildcard(&pattern.plain, plain)
                && why_untold(text).is_none()
        };
        let readings = self.readings(text);
        if !fits(readings.text, &readings.plain) {
            return Spoken::No;
        }
        if readings.names_a_program {
            // ATTACK(approved-first-of-many): a yes to one program of a pipeline is none to the others.
            let mut commands = self.commands.iter();
            let fits = |program: &str| fits(program, &plain(program));
            if !commands.all(|command| command.untold.is_none() && command.programs().all(fits)) {
                return Spoken::No;
            }
        }
        Spoken::Yes
    }

    /// The amount that a rule is about, or why it cannot be told.
    pub(crate) fn amount(
        &self,
        limit: &'a AmountLimit,
        pinned: &'a BTreeMap<ArgumentPath, Pattern>,
        arguments: &Value,
    ) -> Result<Amount, String> {
        let said = pinned.iter().filter(|(_, pattern)| pattern.is_one_value()).map(|(path, _)| path);
        let (said, mut amounts) = (said.collect::<Vec<_>>(), self.amounts.borrow_mut());
        if let Some(amount) = amounts.get(&(&limit.argument, said.clone())) {
            return amount.clone();
        }
        let amount = limit.read(&said, arguments);
        amounts.insert((&limit.argument, said), amount.clone());
        amount
    }

    fn readings(&self, text: &'a str) -> Rc<Readings<'a>> {
        let read = || Readings {
            text,
            plain: plain(text),
            paths: OnceCell::new(),
            programs: OnceCell::new(),
            names_a_program: self.commands.iter().any(|command| command.name == text),
            is_tree: self.trees.iter().any(|tree| tree == text),
        };
        let mut texts = self.texts.borrow_mut();
        Rc::clone(texts.entry(text).or_insert_with(|| Rc::new(read())))
    }

    /// Every program that would be started, by all its names, folded.
    fn programs(&self) -> Vec<String> {
        let started = self.commands.iter().flat_map(Command::programs);
        let names = started.flat_map(|program| self.paths(program).into_iter().chain(programs(program)));
        names.map(|name| folded(&name)).collect()
    }

    /// A text, and the same read as a path: from the workspace, from the root, and as a directory.
    fn paths(&self, text: &str) -> Vec<String> {
        let short = plain(text);
        let mut readings = vec![text.to_owned(), format!("{short}/")];
        if let Some(workspace) = self.workspace.map(|workspace| plain(&workspace.to_string_lossy())) {
            let inside = short.strip_prefix(&workspace).and_then(|rest| rest.strip_prefix('/'));
            let other = match inside {
                Some(inside) => Some(inside.to_owned()),
                None if short.starts_with('/') => None,
                None => Some(format!("{workspace}/{short}")),
            };
            readings.extend(other.iter().map(|other| format!("{other}/")));
            readings.extend(other);
        }
        if !readings.contains(&short) {
            readings.push(short);
        }
        readings
    }
}

/// Other names of one program: the last part of its path, or the places where it may be found.
fn programs(text: &str) -> Vec<String> {
    match plain(text).rsplit_once('/') {
        Some((_, name)) => vec![name.to_owned()],
        None => SEARCHED.iter().map(|place| format!("{place}/{text}")).collect(),
    }
}

/// A path without what means nothing in it: `.`, empty names, a slash at its end.
fn plain(text: &str) -> String {
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let root = if text.starts_with('/') { "/" } else { "" };
    format!("{root}{}", names.join("/"))
}

/// Why nobody can tell where a path leads without following it, if that is so.
fn why_untold(text: &str) -> Option<&'static str> {
    if text.split('/').any(|name| name == "..") {
        return Some("holds `..`");
    }
    text.starts_with("/proc/").then_some("leads through `/proc`")
}

/// As a directory that takes capital and small letters for the same would have it.
fn folded(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn known<'a>(commands: &'a [Command], trees: &'a [String]) -> Known<'a> {
        Known::of(commands, trees, Some(Path::new("/home/me/project")))
    }

    fn command(name: &str, starts: &[&str], untold: Option<&'static str>) -> Command {
        let starts = starts.iter().map(|name| (*name).to_owned()).collect();
        Command { name: name.to_owned(), unlisted: None, starts, untold }
    }

    /// Spellings of one path: what stands between its names, before it and after it, and in which case it is.
    fn spellings(names: &'static [&'static str]) -> impl Strategy<Value = String> {
        let before = select(vec![
            "",
            "./",
            ".//",
            "././",
            "/home/me/project/",
            "//home/./me//project/",
            "a/../",
            "../project/",
        ]);
        let between =
            prop::collection::vec(select(vec!["/", "//", "/./", "/.//", "/x/../"]), names.len() - 1);
        let after = select(vec!["", "/", "//", "/.", "/./"]);
        let upper = prop::collection::vec(any::<bool>(), names.len());
        (before, between, after, upper).prop_map(|(before, between, after, upper)| {
            let named = names.iter().zip(upper).map(|(name, upper)| match upper {
                true => name.to_uppercase(),
                false => (*name).to_owned(),
            });
            let joined: Vec<String> = named
                .zip(between.into_iter().chain([""]))
                .map(|(name, between)| format!("{name}{between}"))
                .collect();
            format!("{before}{}{after}", joined.concat())
        })
    }

    proptest! {
        #[test]
        fn every_spelling_of_a_path_is_spoken_about(text in spellings(&["infra", "prod", "main.tf"])) {
            for pattern in ["infra/*", "./infra/*", "infra/prod/main.tf", "/home/me/project/infra/*", "infra//prod/main.*"] {
                let spoken = known(&[], &[]).any_reading(&TextPattern::of(pattern), &text);
                prop_assert!(spoken != Spoken::No, "{} {}", pattern, text);
            }
        }

        #[test]
        fn a_rule_that_approves_speaks_about_no_more_than_its_text_says(pattern in "[a./*]{1,6}", text in "[a./]{1,8}") {
            let known = known(&[], &[]);
            if known.every_reading(&TextPattern::of(&pattern), &text) == Spoken::Yes {
                prop_assert!(fits_wildcard(&pattern, &text));
                prop_assert_eq!(known.any_reading(&TextPattern::of(&pattern), &text), Spoken::Yes);
            }
        }
    }

    #[test]
    fn another_path_is_not_spoken_about() {
        for text in ["infrastructure/x", "src/infra/x", "docs/infra", "x", "/etc/infra/x"] {
            assert_eq!(known(&[], &[]).any_reading(&TextPattern::of("infra/*"), text), Spoken::No, "{text}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_untold_for_rules_that_ask_and_not_approved() {
        for text in ["docs/../x", "/proc/self/cwd/x"] {
            assert!(
                matches!(known(&[], &[]).any_reading(&TextPattern::of("infra/*"), text), Spoken::Untold(_)),
                "{text}"
            );
            assert_eq!(known(&[], &[]).every_reading(&TextPattern::of("*"), text), Spoken::No, "{text}");
        }
    }

    #[test]
    fn whoever_means_a_whole_directory_means_what_is_in_it() {
        let trees = [".".to_owned(), "infra".to_owned(), "docs".to_owned()];
        let known = known(&[], &trees);
        assert_eq!(known.any_reading(&TextPattern::of("infra/prod/*"), "infra"), Spoken::Yes);
        assert_eq!(known.any_reading(&TextPattern::of("infra/prod/*"), "."), Spoken::Yes);
        assert_eq!(known.any_reading(&TextPattern::of("infra/prod/*"), "docs"), Spoken::No);
        assert_eq!(
            known.any_reading(&TextPattern::of("infra/prod/*"), "infra/other"),
            Spoken::No,
            "one file is no more than itself"
        );
    }

    #[test]
    fn a_program_is_known_by_its_last_name_by_its_path_and_behind_another() {
        let named = |name: &str| [command(name, &[], None)];
        for name in ["git", "/usr/bin/git", "/usr/bin/../bin/git", "./git", "/opt/GIT"] {
            assert_ne!(
                known(&named(name), &[]).any_reading(&TextPattern::of("git"), name),
                Spoken::No,
                "{name}"
            );
        }
        assert_eq!(
            known(&named("git"), &[]).any_reading(&TextPattern::of("/usr/bin/git"), "git"),
            Spoken::Yes
        );
        assert_eq!(known(&named("gitk"), &[]).any_reading(&TextPattern::of("git"), "gitk"), Spoken::No);
        let piped = [command("true", &[], None), command("nice", &["git"], None)];
        assert_eq!(known(&piped, &[]).any_reading(&TextPattern::of("git"), "true"), Spoken::Yes);
        assert_eq!(
            known(&piped, &[]).any_reading(&TextPattern::of("git"), "other words"),
            Spoken::No,
            "no program is named there"
        );
    }

    #[test]
    fn a_program_is_approved_only_with_all_that_are_started_with_it() {
        let alone = [command("cargo", &[], None)];
        assert_eq!(known(&alone, &[]).every_reading(&TextPattern::of("cargo"), "cargo"), Spoken::Yes);
        assert_eq!(known(&alone, &[]).every_reading(&TextPattern::of("c*"), "cargo"), Spoken::Yes);
        let piped = [command("cargo", &[], None), command("sh", &[], None)];
        assert_eq!(known(&piped, &[]).every_reading(&TextPattern::of("cargo"), "cargo"), Spoken::No);
        let wrapped = [command("env", &["rm"], None)];
        assert_eq!(known(&wrapped, &[]).every_reading(&TextPattern::of("env"), "env"), Spoken::No);
        let untold = [command("sh", &[], Some("it cannot be told"))];
        assert_eq!(known(&untold, &[]).every_reading(&TextPattern::of("sh"), "sh"), Spoken::No);
        assert!(matches!(known(&untold, &[]).any_reading(&TextPattern::of("git"), "sh"), Spoken::Untold(_)));
    }
}
