//! Names that mean something whatever directory they stand in: secrets, and files that make the host run code.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::run_by_host::FAMILIES;

/// As many names as one pattern has.
const MOST_PARTS: usize = 8;

/// Hidden by default: what usually holds credentials.
const SECRETS: [&str; 24] = [
    ".env*",
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".vault-token",
    ".config/gcloud",
    ".config/gh",
    ".docker/config.json",
    ".cargo/credentials*",
    ".local/state/toolgate",
    ".password-store",
    ".*_history",
    "id_rsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.p12",
];

/// Which names are hidden and which are protected in the directories of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Cannot be read.
    pub hidden: Vec<Pattern>,
    /// Cannot be written; new ones are quarantined. So are git's hooks and configuration, always.
    pub protected: Vec<Pattern>,
}

impl Default for Names {
    fn default() -> Names {
        usual().clone()
    }
}

/// The defaults, read once.
fn usual() -> &'static Names {
    static USUAL: OnceLock<Names> = OnceLock::new();
    USUAL.get_or_init(|| {
        let parse_all = |names: &[&str]| names.iter().filter_map(|name| Pattern::parse(name).ok()).collect();
        Names { hidden: parse_all(&SECRETS), protected: parse_all(&FAMILIES.concat()) }
    })
}

/// Names on their way to a launcher, which knows the defaults: only what goes beyond them is sent, and read there.
pub(crate) mod wire {
    use super::{Names, Pattern, usual};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    enum Begins {
        WithDefaults,
        WithNothing,
    }

    pub(crate) fn serialize<S: Serializer>(names: &Names, serializer: S) -> Result<S::Ok, S::Error> {
        let Names { hidden, protected } = usual();
        let more = names.hidden.strip_prefix(hidden.as_slice());
        match more.zip(names.protected.strip_prefix(protected.as_slice())) {
            Some((hidden, protected)) => (Begins::WithDefaults, hidden, protected).serialize(serializer),
            None => (Begins::WithNothing, &names.hidden, &names.protected).serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        let (begins, hidden, protected): (Begins, Vec<Pattern>, Vec<Pattern>) =
            Deserialize::deserialize(deserializer)?;
        let more = Names { hidden, protected };
        Ok(if begins == Begins::WithDefaults { usual().clone().and(more) } else { more })
    }
}

impl Names {
    /// These and more. There is no way to have fewer.
    #[must_use]
    pub fn and(mut self, more: Names) -> Names {
        self.hidden.extend(more.hidden);
        self.protected.extend(more.protected);
        self
    }

    /// How many of the directories that an entry is in belong to its name: those of the longest pattern that matches.
    pub(crate) fn parents_meant(&self, path: &Path) -> usize {
        let patterns = [List::Hidden, List::Protected].into_iter().flat_map(|list| self.list(list));
        let end = End::of(path);
        let meant = patterns.filter(|pattern| pattern.matches_end(&end)).map(|Pattern(parts)| parts.len());
        meant.max().unwrap_or(1).saturating_sub(1)
    }

    /// Whether a pattern of this list matches the end of a path.
    pub(crate) fn matches(&self, list: List, path: &Path) -> bool {
        Pattern::any_matches(self.list(list), path)
    }

    /// The patterns that begin at the end of this path and go on beneath it.
    pub(crate) fn beginnings(&self, path: &Path) -> Vec<Beginning> {
        let end = &End::of(path);
        let begun = |list: List| {
            let patterns = self.list(list).iter().enumerate();
            patterns.flat_map(move |(pattern, Pattern(parts))| {
                let lengths = (1..parts.len()).filter(|length| end.is(parts.iter().take(*length)));
                lengths.map(move |parts| Beginning { list, pattern, parts })
            })
        };
        [List::Hidden, List::Protected].into_iter().flat_map(begun).collect()
    }

    /// How far a pattern that has begun at a directory gets by the path from there.
    pub(crate) fn go_on(&self, begun: Beginning, path: &Path) -> Option<Progress> {
        let Pattern(parts) = self.list(begun.list).get(begun.pattern)?;
        let length = path.components().count();
        let next = parts.iter().skip(begun.parts).take(length);
        let reached = begun.parts + length;
        match reached.cmp(&parts.len()) {
            Ordering::Greater => None,
            _ if !End::of(path).is(next) => None,
            Ordering::Equal => Some(Progress::Match),
            Ordering::Less => Some(Progress::Begins(Beginning { parts: reached, ..begun })),
        }
    }

    fn list(&self, list: List) -> &[Pattern] {
        match list {
            List::Hidden => &self.hidden,
            List::Protected => &self.protected,
        }
    }
}

/// One of the two lists of [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Hidden,
    Protected,
}

/// A pattern of several parts whose first ones have matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Beginning {
    pub(crate) list: List,
    pattern: usize,
    parts: usize,
}

/// What a pattern that has begun comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of it matches.
    Match,
    /// It goes on beneath.
    Begins(Beginning),
}

/// One or more path components, each with `*` for any run of characters: `.env*`, `.config/gcloud`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(Arc<[String]>);

/// A pattern that can match nothing, or everything.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a name pattern: one or more names joined by `/`, with `*` for any characters")]
pub struct PatternError(pub String);

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let parts: Arc<[String]> = text.split('/').map(str::to_lowercase).collect();
        let is_name = |part: &String| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && !part.contains('\0')
                && part.chars().any(|c| c != '*')
        };
        if parts.len() > MOST_PARTS || text.len() > 256 || !parts.iter().all(is_name) {
            return Err(PatternError(text.to_owned()));
        }
        Ok(Pattern(parts))
    }

    /// Whether the last components of `path` match.
    pub fn matches(&self, path: &Path) -> bool {
        self.matches_end(&End::of(path))
    }

    /// Whether those of one of these patterns do.
    pub fn any_matches(patterns: &[Pattern], path: &Path) -> bool {
        let end = End::of(path);
        patterns.iter().any(|pattern| pattern.matches_end(&end))
    }

    fn matches_end(&self, end: &End) -> bool {
        end.is(self.0.iter())
    }
}

/// The last components of a path, the last one first, as they are compared: many patterns are held against each.
///
/// ATTACK(hidden-name-case): without case, because a directory may fold it.
struct End(Vec<String>);

impl End {
    fn of(path: &Path) -> End {
        let names = path.components().rev().take(MOST_PARTS);
        End(names.map(|name| String::from_utf8_lossy(name.as_os_str().as_bytes()).to_lowercase()).collect())
    }

    /// Whether the last components are these parts.
    fn is<'a>(&self, parts: impl DoubleEndedIterator<Item = &'a String>) -> bool {
        let mut names = self.0.iter();
        parts.rev().all(|part| names.next().is_some_and(|name| wildcard(part.as_bytes(), name.as_bytes())))
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Pattern, PatternError> {
        Pattern::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0.join("/")
    }
}

/// Greedy matching with one step back: linear in practice, quadratic at worst, never exponential.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(byte) if text.get(t) == Some(byte) => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((after_star, from)) => {
                    back = Some((after_star, from + 1));
                    p = after_star;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).is_ok_and(|p| p.matches(Path::new(path)))
    }

    #[test]
    fn only_what_goes_beyond_the_defaults_is_sent_and_all_of_it_arrives() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Sent(#[serde(with = "wire")] Names);
        let one = |text: &str| vec![Pattern::parse(text).unwrap()];
        let more = Names { hidden: one("a/b*"), protected: one("c") };
        let length = |names: &Names| {
            let bytes = postcard::to_stdvec(&Sent(names.clone())).unwrap();
            assert_eq!(postcard::from_bytes::<Sent>(&bytes).unwrap().0, *names);
            bytes.len()
        };
        assert_eq!(length(&Names::default()), 3);
        assert_eq!(length(&Names::default().and(more.clone())), 3 + "a/b*".len() + "c".len() + 2);
        assert!(length(&more) < 12);
        let fewer = Names { hidden: Vec::new(), ..Names::default() };
        assert!(length(&fewer) > 100, "what lacks a default is sent as it is");
    }

    #[test]
    fn a_pattern_matches_the_end_of_a_path_whole_names_only() {
        assert!(matches(".env*", ".env"));
        assert!(matches(".env*", "api/.env.local"));
        assert!(matches(".env*", "api/.ENV"));
        assert!(!matches(".env*", "api/x.env"));
        assert!(matches("*.pem", "certs/server.pem"));
        assert!(!matches("*.pem", "server.pem.txt"));
        assert!(matches(".config/gcloud", "home/.config/gcloud"));
        assert!(!matches(".config/gcloud", "gcloud"));
        assert!(matches(".*_history", ".bash_history"));
        assert!(matches("ÄRGER.txt", "ÄRGER.txt") && matches("ÄRGER.txt", "ärger.TXT"));
    }

    #[test]
    fn a_pattern_that_has_begun_goes_on_beneath_by_whole_names() {
        let names = Names {
            hidden: vec![Pattern::parse("a/b/c").unwrap(), Pattern::parse("x").unwrap()],
            protected: vec![Pattern::parse("a/d").unwrap()],
        };
        let begun = |list, pattern, parts| Beginning { list, pattern, parts };
        let first = begun(List::Hidden, 0, 1);
        assert_eq!(names.beginnings(Path::new("/w/a")), [first, begun(List::Protected, 0, 1)]);
        assert_eq!(names.beginnings(Path::new("/w/a/b")), [begun(List::Hidden, 0, 2)]);
        assert_eq!(names.go_on(first, Path::new("b/c")), Some(Progress::Match));
        assert_eq!(names.go_on(first, Path::new("b")), Some(Progress::Begins(begun(List::Hidden, 0, 2))));
        for path in ["c", "b/b", "b/c/d", "x/b/c"] {
            assert_eq!(names.go_on(first, Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn patterns_that_would_match_everything_or_leave_the_directory_are_refused() {
        for text in ["", "*", "**", "/etc", "a//b", "../x", "a/.."] {
            assert_eq!(Pattern::parse(text), Err(PatternError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_runs_by_itself_is_protected() {
        let names = Names::default();
        for path in [
            ".zlogin",
            ".zlogout",
            ".bash_logout",
            ".kshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".xprofile",
            "home/.config/fish",
            ".config/autostart",
            ".config/systemd",
            ".bashrc.d",
            ".exrc",
            ".vimrc",
            ".nvim.lua",
            ".gdbinit",
            ".tmux.conf",
            ".dir-locals.el",
            ".zed",
            ".devcontainer",
            ".fleet",
            ".codex",
            ".gemini",
            ".windsurf",
            ".kiro",
            ".vs",
            "x.code-workspace",
            ".lefthook.yml",
            "lefthook.yaml",
            ".pre-commit-config.yaml",
            "mise.toml",
            ".mise.toml",
            "a/.cargo/config.toml",
            ".NPMRC",
        ] {
            assert!(names.matches(List::Protected, Path::new(path)), "{path}");
        }
        for path in [
            "Cargo.toml",
            "package.json",
            "conftest.py",
            "AGENTS.md",
            ".gitignore",
            ".cargo",
            ".config",
            ".github",
        ] {
            assert!(!names.matches(List::Protected, Path::new(path)), "{path}");
        }
    }

    #[test]
    fn every_default_pattern_is_valid() {
        let names = Names::default();
        assert_eq!(names.hidden.len(), SECRETS.len());
        assert_eq!(names.protected.len(), FAMILIES.concat().len());
    }
}
