//! What a text of a call may mean: one path and one program have many spellings.
//!
//! Pure: no disk is read, so that no link is followed. What could lead elsewhere cannot be told.
//!
//! # Invariants
//! - Rules that ask or deny speak about a text if they speak about any of its readings.
//! - Rules that approve speak about it only if they do about each: another spelling never frees a call.

use std::path::Path;

use crate::facts::Command;
use crate::wildcard::{fits_beneath, fits_wildcard};

/// Where a program without a slash in its name may be found.
const SEARCHED: [&str; 6] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"];

/// What is known of a call besides its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// Every program that it would start.
    pub(crate) commands: &'a [Command],
    /// Every directory of which it means all that is beneath.
    pub(crate) trees: &'a [String],
    /// The agent's workspace, if it has one.
    pub(crate) workspace: Option<&'a Path>,
}

/// Whether a pattern speaks about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Yes,
    Untold(&'static str),
    No,
}

impl Known<'_> {
    /// Whether a pattern speaks about a text, or something else that it may mean.
    pub(crate) fn any_reading(&self, pattern: &str, text: &str) -> Spoken {
        // ATTACK(rule-by-spelling)
        let (pattern, plain) = (folded(pattern), folded(&plain(pattern)));
        let fits = |text: &str| {
            let text = folded(text);
            fits_wildcard(&pattern, &text) || fits_wildcard(&plain, &text)
        };
        let of_path = |text: &str| self.paths(text).iter().any(|reading| fits(reading));
        if of_path(text) {
            return Spoken::Yes;
        }
        let beneath = |tree: &String| self.paths(tree).iter().any(|tree| fits_beneath(&plain, &folded(tree)));
        if self.trees.iter().any(|tree| tree == text && (beneath(tree) || is_workspace(tree))) {
            return Spoken::Yes;
        }
        if self.names_a_program(text) {
            let started = || self.commands.iter().flat_map(Command::programs);
            if started().any(|program| of_path(program) || programs(program).iter().any(|name| fits(name))) {
                return Spoken::Yes;
            }
            if let Some(why) = self.commands.iter().find_map(|command| command.untold) {
                return Spoken::Untold(why);
            }
        }
        why_untold(text).map_or(Spoken::No, Spoken::Untold)
    }

    /// Whether a pattern speaks about a text, and about everything else that it may mean.
    pub(crate) fn every_reading(&self, pattern: &str, text: &str) -> Spoken {
        let of_pattern = plain(pattern);
        let fits = |text: &str| {
            fits_wildcard(pattern, text)
                && fits_wildcard(&of_pattern, &plain(text))
                && why_untold(text).is_none()
        };
        if !fits(text) {
            return Spoken::No;
        }
        if self.names_a_program(text) {
            // ATTACK(approved-first-of-many): a yes to one program of a pipeline is none to the others.
            let mut commands = self.commands.iter();
            if !commands.all(|command| command.untold.is_none() && command.programs().all(fits)) {
                return Spoken::No;
            }
        }
        Spoken::Yes
    }

    /// Whether an argument says which program is started.
    fn names_a_program(&self, text: &str) -> bool {
        self.commands.iter().any(|command| command.name == text)
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
        readings.push(short);
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

fn is_workspace(tree: &str) -> bool {
    plain(tree).is_empty()
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
        Known { commands, trees, workspace: Some(Path::new("/home/me/project")) }
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
                let spoken = known(&[], &[]).any_reading(pattern, &text);
                prop_assert!(spoken != Spoken::No, "{} {}", pattern, text);
            }
        }

        #[test]
        fn a_rule_that_approves_speaks_about_no_more_than_its_text_says(pattern in "[a./*]{1,6}", text in "[a./]{1,8}") {
            let known = known(&[], &[]);
            if known.every_reading(&pattern, &text) == Spoken::Yes {
                prop_assert!(fits_wildcard(&pattern, &text));
                prop_assert_eq!(known.any_reading(&pattern, &text), Spoken::Yes);
            }
        }
    }

    #[test]
    fn another_path_is_not_spoken_about() {
        for text in ["infrastructure/x", "src/infra/x", "docs/infra", "x", "/etc/infra/x"] {
            assert_eq!(known(&[], &[]).any_reading("infra/*", text), Spoken::No, "{text}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_untold_for_rules_that_ask_and_not_approved() {
        for text in ["docs/../x", "/proc/self/cwd/x"] {
            assert!(matches!(known(&[], &[]).any_reading("infra/*", text), Spoken::Untold(_)), "{text}");
            assert_eq!(known(&[], &[]).every_reading("*", text), Spoken::No, "{text}");
        }
    }

    #[test]
    fn whoever_means_a_whole_directory_means_what_is_in_it() {
        let trees = [".".to_owned(), "infra".to_owned(), "docs".to_owned()];
        let known = known(&[], &trees);
        assert_eq!(known.any_reading("infra/prod/*", "infra"), Spoken::Yes);
        assert_eq!(known.any_reading("infra/prod/*", "."), Spoken::Yes);
        assert_eq!(known.any_reading("infra/prod/*", "docs"), Spoken::No);
        assert_eq!(
            known.any_reading("infra/prod/*", "infra/other"),
            Spoken::No,
            "one file is no more than itself"
        );
    }

    #[test]
    fn a_program_is_known_by_its_last_name_by_its_path_and_behind_another() {
        let named = |name: &str| [command(name, &[], None)];
        for name in ["git", "/usr/bin/git", "/usr/bin/../bin/git", "./git", "/opt/GIT"] {
            assert_ne!(known(&named(name), &[]).any_reading("git", name), Spoken::No, "{name}");
        }
        assert_eq!(known(&named("git"), &[]).any_reading("/usr/bin/git", "git"), Spoken::Yes);
        assert_eq!(known(&named("gitk"), &[]).any_reading("git", "gitk"), Spoken::No);
        let piped = [command("true", &[], None), command("nice", &["git"], None)];
        assert_eq!(known(&piped, &[]).any_reading("git", "true"), Spoken::Yes);
        assert_eq!(
            known(&piped, &[]).any_reading("git", "other words"),
            Spoken::No,
            "no program is named there"
        );
    }

    #[test]
    fn a_program_is_approved_only_with_all_that_are_started_with_it() {
        let alone = [command("cargo", &[], None)];
        assert_eq!(known(&alone, &[]).every_reading("cargo", "cargo"), Spoken::Yes);
        assert_eq!(known(&alone, &[]).every_reading("c*", "cargo"), Spoken::Yes);
        let piped = [command("cargo", &[], None), command("sh", &[], None)];
        assert_eq!(known(&piped, &[]).every_reading("cargo", "cargo"), Spoken::No);
        let wrapped = [command("env", &["rm"], None)];
        assert_eq!(known(&wrapped, &[]).every_reading("env", "env"), Spoken::No);
        let untold = [command("sh", &[], Some("it cannot be told"))];
        assert_eq!(known(&untold, &[]).every_reading("sh", "sh"), Spoken::No);
        assert!(matches!(known(&untold, &[]).any_reading("git", "sh"), Spoken::Untold(_)));
    }
}
