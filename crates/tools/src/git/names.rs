//! Names of branches and revisions that agents give, read by git's own rules and no further.
//!
//! # Invariants
//! - None begins with `-`, and none means more than one commit: no ranges, no searches, no paths.

use contract::Reason;

use crate::path::shown;

const MAX_NAME: usize = 250;

/// The name of a branch, without `refs/heads/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch(String);

/// One commit: a branch, a tag, a hash or `HEAD`, and steps back from there with `~` and `^`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision(String);

impl Branch {
    pub(super) fn parse(text: &str) -> Result<Branch, Reason> {
        // A branch of one of these names could not be told from what git means by it.
        if !is_reference(text) || text == "HEAD" || text.starts_with("refs/") {
            let why = format!("`{}` is not the name of a branch", shown(text));
            return Err(Reason::bad_arguments(why).with_hint("such as `fix-login` or `feature/search`"));
        }
        Ok(Branch(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Revision {
    pub(super) fn parse(text: &str) -> Result<Revision, Reason> {
        let end = text.find(['~', '^']).unwrap_or(text.len());
        let (name, steps) = text.split_at(end);
        let is_known = name == "@" || is_reference(name);
        // ATTACK(revision-as-option): a range, a path or an option in the place of a commit means something else.
        if !is_known || steps.len() > 64 || !steps.chars().all(|c| c.is_ascii_digit() || "~^".contains(c)) {
            let why = format!("`{}` does not name a commit", shown(text));
            return Err(Reason::bad_arguments(why).with_hint(
                "a branch, a tag, a hash or `HEAD`, with steps back such as `HEAD~2`; no ranges",
            ));
        }
        Ok(Revision(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What `git check-ref-format --allow-onelevel` takes, if it could be no option.
fn is_reference(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock") && part != "@";
    let is_plain = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= MAX_NAME
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && text.chars().all(is_plain)
        && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_named_as_git_names_them() {
        for name in ["main", "feature/search", "v1.2", "a@b", "é", "0a1b2c"] {
            assert!(Branch::parse(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "-d",
            "--force",
            "HEAD",
            "@",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a.lock/b",
            "a@{1}",
            "a\nb",
            "a\0b",
            "a\u{7f}",
            "refs/heads/x",
        ] {
            assert_eq!(Branch::parse(name).unwrap_err().code.as_str(), "bad_arguments", "{name:?}");
        }
        assert!(Branch::parse(&"x".repeat(251)).is_err());
    }

    #[test]
    fn a_revision_is_one_commit() {
        for text in ["HEAD", "@", "@~2", "HEAD~2^2", "main^", "refs/tags/v1", "origin/main", "0a1b2c~"] {
            assert_eq!(Revision::parse(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "-p",
            "--all",
            "a..b",
            "a...b",
            "^main",
            "HEAD:path",
            ":/fix",
            "HEAD^{/fix}",
            "main@{1}",
            "@{-1}",
            "HEAD^!",
            "HEAD^@",
            "HEAD^-1",
            "a b",
            "a\n",
            "~1",
            "HEAD~-1",
            ":(top)x",
        ] {
            assert_eq!(Revision::parse(text).unwrap_err().code.as_str(), "bad_arguments", "{text:?}");
        }
    }
}
