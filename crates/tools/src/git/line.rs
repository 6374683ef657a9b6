//! The words that git is started with.
//!
//! # Invariants
//! - Words of the code are `'static`; those of a caller are a value of an option, a parsed name, or a path after `--` that
//!   stands for itself.
//! - What is hidden from agents is left out of what git looks at.

use contract::Reason;
use jail::{Names, Pattern};

use super::names::Revision;
use crate::inside::Stage;
use crate::path::{Beneath, Guard};

/// The words that git is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct Line {
    words: Vec<String>,
    paths: Paths,
}

/// What git is to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Paths {
    /// It takes no paths.
    None,
    /// These, or everything if there are none, without what is hidden.
    Seen(Vec<Beneath>),
}

impl Line {
    /// A verb of git's.
    pub(super) fn of(verb: &'static str) -> Line {
        // Where the repository is does not depend on what is found, nor on what its settings say.
        let words = ["--git-dir=.git", "--work-tree=.", "--no-pager", verb];
        Line { words: words.map(str::to_owned).into(), paths: Paths::None }
    }

    /// `git clone`, which makes the repository where it starts.
    pub(super) fn clone() -> Line {
        Line { words: vec!["--no-pager".to_owned(), "clone".to_owned()], paths: Paths::None }
    }

    /// Words of the code.
    pub(super) fn words(mut self, words: &[&'static str]) -> Line {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// An option of the code with a value from the caller, in one word.
    pub(super) fn option(mut self, name: &'static str, value: impl std::fmt::Display) -> Line {
        self.words.push(format!("{name}={value}"));
        self
    }

    /// The same, if there is a value.
    pub(super) fn option_if(self, name: &'static str, value: Option<&String>) -> Line {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }

    /// What was parsed as a name of git's, and so is no option. Before it, that options have ended.
    pub(super) fn names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Line {
        self.words.push("--end-of-options".to_owned());
        self.words.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Commits, as above.
    pub(super) fn revisions<'a>(self, revisions: impl IntoIterator<Item = &'a Revision>) -> Line {
        self.names(revisions.into_iter().map(Revision::as_str))
    }

    /// Looks at these paths of the caller's, or at everything; in any case without what is hidden.
    pub(super) fn seeing(mut self, paths: &[String]) -> Result<Line, Reason> {
        let paths: Result<_, Reason> = paths.iter().map(|path| Beneath::parse(path)).collect();
        self.paths = Paths::Seen(paths?);
        Ok(self)
    }

    /// As it is run, if no path of it is guarded. `directory` is where it starts, beneath the workspace.
    pub(super) fn into_stage(
        self,
        directory: &Beneath,
        guard: &Guard<'_>,
        hidden: &Names,
    ) -> Result<Stage, Reason> {
        let mut arguments = self.words;
        if let Paths::Seen(paths) = self.paths {
            for path in &paths {
                if let Some(guarded) = guard.against_reading(&directory.path().join(path.path())) {
                    return Err(guarded.reason(&path.text()));
                }
            }
            arguments.push("--".to_owned());
            // ATTACK(path-as-pattern): a path stands for itself, whatever marks are in it.
            arguments.extend(paths.iter().map(|path| format!(":(literal){}", path.text())));
            arguments.extend(hidden.hidden.iter().flat_map(without));
        }
        Ok(Stage { command: "git".to_owned(), arguments })
    }
}

/// What leaves out entries of a hidden name, and all that is beneath them.
fn without(pattern: &Pattern) -> [String; 2] {
    let name: String = String::from(pattern.clone())
        .chars()
        .flat_map(|c| {
            let escape = "?[]\\".contains(c).then_some('\\');
            escape.into_iter().chain([c])
        })
        .collect();
    // ATTACK(hidden-in-history): what a sandbox covers is still in what was committed.
    [format!(":(exclude,icase,glob)**/{name}"), format!(":(exclude,icase,glob)**/{name}/**")]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn stage(line: Line, directory: &str) -> Result<Vec<String>, String> {
        let names = Names::default();
        let guard = Guard { names: &names, root: Path::new("/") };
        let none = Names { hidden: Vec::new(), protected: Vec::new() };
        let stage = line.into_stage(&Beneath::parse(directory).unwrap(), &guard, &none);
        stage.map(|stage| stage.arguments).map_err(|reason| reason.code.to_string())
    }

    #[test]
    fn a_path_of_a_caller_stands_for_itself() {
        let seeing = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            Line::of("diff").words(&["-p"]).seeing(&paths)
        };
        let words = stage(seeing(&["-x", ":(top)a", "*"]).unwrap(), ".").unwrap();
        let expected = ["diff", "-p", "--", ":(literal)-x", ":(literal):(top)a", ":(literal)*"];
        assert_eq!(words[3..], expected);
        assert_eq!(seeing(&["../x"]).unwrap_err().code.as_str(), "outside");
        assert_eq!(stage(seeing(&["a/.env"]).unwrap(), "."), Err("protected".to_owned()));
        assert_eq!(stage(seeing(&["gcloud/token"]).unwrap(), ".config"), Err("protected".to_owned()));
    }

    #[test]
    fn hidden_names_are_left_out_at_any_depth() {
        let pattern = Pattern::parse("a[1]?/*.key").unwrap();
        let expected =
            [":(exclude,icase,glob)**/a\\[1\\]\\?/*.key", ":(exclude,icase,glob)**/a\\[1\\]\\?/*.key/**"];
        assert_eq!(without(&pattern), expected);
    }
}
