//! Paths that agents name: relative to the workspace, plain, and not one of the guarded names.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clean::clean_text;
use contract::Reason;
use jail::{Names, Pattern};
use policy::FileSettings;

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// A path beneath the workspace, as an agent wrote it: no `..`, no NUL, nothing absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beneath(Vec<String>);

impl Beneath {
    /// Reads a path. `.` is the workspace itself.
    pub(crate) fn parse(text: &str) -> Result<Beneath, Reason> {
        let shown = shown(text);
        if text.is_empty() {
            return Err(Reason::bad_arguments("the path is empty").with_hint("`.` is the workspace itself"));
        }
        if text.contains('\0') {
            return Err(Reason::bad_arguments(format!("`{shown}` holds a NUL character")));
        }
        if text.len() > MAX_PATH || text.split('/').any(|name| name.len() > MAX_NAME) {
            return Err(Reason::bad_arguments("the path is longer than any file's"));
        }
        if text.starts_with('/') {
            return Err(Reason::outside(format!("`{shown}` is an absolute path"))
                .with_hint("paths are relative to the workspace, such as `src/main.rs`"));
        }
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.iter().any(|name| name == "..") {
            return Err(Reason::outside(format!("`{shown}` holds `..`"))
                .with_hint("write the path without `..`, from the workspace downwards"));
        }
        Ok(Beneath(names))
    }

    /// Its names, from the workspace downwards.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// As a path; empty for the workspace itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.iter().collect()
    }

    /// As people write it.
    pub(crate) fn text(&self) -> String {
        if self.0.is_empty() { ".".to_owned() } else { self.0.join("/") }
    }
}

/// An address that was chosen by others, to stand in a message, without what it may have of a user and a password: reasons are
/// kept for good.
pub(crate) fn shown_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return shown(text) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => shown(&format!("{scheme}://…@{host}{path}")),
        None => shown(text),
    }
}

/// A text that was chosen by others, cut and without control characters, to stand in a message.
pub(crate) fn shown(text: &str) -> String {
    // Before it is cut and before what is unseen is spelt out: either would part a credential.
    let clean = clean_text(text, usize::MAX);
    let text = if clean.findings.masked().0 > 0 { &clean.text } else { text };
    let cut: String = text.chars().take(200).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""))
}

/// The names that are guarded: those that always are, and those that an operator has added. One that is no pattern was
/// refused with the configuration.
pub(crate) fn names_of(settings: &FileSettings) -> Cow<'static, Names> {
    /// Read once: every call is held against them.
    static ALWAYS: LazyLock<Names> = LazyLock::new(Names::default);
    let FileSettings { also_hidden, also_protected, .. } = settings;
    if also_hidden.is_empty() && also_protected.is_empty() {
        return Cow::Borrowed(&ALWAYS);
    }
    let read = |names: &BTreeSet<String>| names.iter().filter_map(|name| Pattern::parse(name).ok()).collect();
    Cow::Owned(ALWAYS.clone().and(Names { hidden: read(also_hidden), protected: read(also_protected) }))
}

/// Which names in a workspace are not an agent's to read or to change.
///
/// The sandbox covers those that were there when it was made; this knows them by name, whenever they come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) names: &'a Names,
    /// Where the workspace is: a name may mean something by its parent's.
    pub(crate) root: &'a Path,
}

/// Why a name is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// It usually holds credentials.
    Hidden,
    /// It makes the host run code.
    Protected,
}

impl Guarded {
    pub(crate) fn reason(self, path: &str) -> Reason {
        let path = shown(path);
        match self {
            Guarded::Hidden => Reason::protected(format!(
                "`{path}` is hidden from agents: what has such a name usually holds credentials"
            ))
            .with_hint("no setting shows it; ask for what you need instead of reading it"),
            Guarded::Protected => Reason::protected(format!(
                "`{path}` cannot be changed: programs of the host obey what has such a name, or run it"
            ))
            .with_hint("no setting allows it; ask a person to change it"),
        }
    }
}

impl Guard<'_> {
    /// Why an entry at this path may not be read, if it may not. Everything beneath a hidden directory is hidden.
    pub(crate) fn against_reading(&self, path: &Path) -> Option<Guarded> {
        self.any(path, &self.names.hidden).then_some(Guarded::Hidden)
    }

    /// Why an entry at this path may not be changed, if it may not.
    pub(crate) fn against_writing(&self, path: &Path) -> Option<Guarded> {
        // ATTACK(git-directory-write): hooks and settings are only part of what makes git run something, so nothing in
        // a git directory is written here, in whatever case its name is.
        let in_git = path.iter().any(|name| name.eq_ignore_ascii_case(".git"));
        let protected = || self.any(path, &self.names.protected);
        self.against_reading(path).or_else(|| (in_git || protected()).then_some(Guarded::Protected))
    }

    /// Why a directory at this path may not be moved, nor another be moved to it: a pattern of several names would
    /// match with one more beneath, and so begin or cease to.
    pub(crate) fn against_moving(&self, path: &Path) -> Option<Guarded> {
        let whole = self.root.join(path);
        let continues = |pattern: &Pattern| {
            let text = String::from(pattern.clone());
            let begins = text.match_indices('/').filter_map(|(at, _)| text.get(..at));
            begins.filter_map(|begin| Pattern::parse(begin).ok()).any(|begin| begin.matches(&whole))
        };
        let hidden = || self.names.hidden.iter().any(continues).then_some(Guarded::Hidden);
        let protected = || self.names.protected.iter().any(continues).then_some(Guarded::Protected);
        self.against_writing(path).or_else(hidden).or_else(protected)
    }

    fn any(&self, path: &Path, patterns: &[Pattern]) -> bool {
        let named = path.ancestors().filter(|part| !part.as_os_str().is_empty());
        named.map(|part| self.root.join(part)).any(|part| Pattern::any_matches(patterns, &part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Option<String> {
        Beneath::parse(text).err().map(|reason| reason.code.to_string())
    }

    #[test]
    fn a_plain_path_is_taken_by_its_names() {
        assert_eq!(Beneath::parse("./src//main.rs").unwrap().text(), "src/main.rs");
        assert_eq!(Beneath::parse(".").unwrap().text(), ".");
        assert_eq!(Beneath::parse("a..b/...").unwrap().text(), "a..b/...");
    }

    #[test]
    fn whatever_could_lead_elsewhere_is_refused() {
        for text in ["/etc/passwd", "..", "a/../../b", "/proc/self/root/etc", "a/.."] {
            assert_eq!(code(text).as_deref(), Some("outside"), "{text}");
        }
        for text in ["", "a\0b", &"x".repeat(256), &"x/".repeat(2049)] {
            assert_eq!(code(text).as_deref(), Some("bad_arguments"), "{text:.20}");
        }
    }

    #[test]
    fn a_message_cannot_be_given_lines_or_escapes_by_a_name() {
        assert_eq!(shown("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(shown("it's"), "it's");
    }

    fn guard(names: &Names) -> Guard<'_> {
        Guard { names, root: Path::new("/home/me/project") }
    }

    #[test]
    fn hidden_names_are_hidden_with_all_that_is_beneath() {
        let names = Names::default();
        for path in [".env", "api/.ENV.local", ".ssh/config", "a/.aws/b/c", "server.pem", ".config/gcloud/x"]
        {
            assert_eq!(guard(&names).against_reading(Path::new(path)), Some(Guarded::Hidden), "{path}");
        }
        for path in ["env", "src/main.rs", ".config", "x.pem.txt"] {
            assert_eq!(guard(&names).against_reading(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn an_operator_adds_names_and_takes_none_away() {
        let also = |name: &str| [name.to_owned()].into();
        let more = FileSettings {
            also_hidden: also("*.sqlite"),
            also_protected: also("infra"),
            ..Default::default()
        };
        let names = names_of(&more);
        for path in [".env", "a/users.sqlite"] {
            assert_eq!(guard(&names).against_reading(Path::new(path)), Some(Guarded::Hidden), "{path}");
        }
        for path in [".vscode/x", "infra/main.tf"] {
            assert_eq!(guard(&names).against_writing(Path::new(path)), Some(Guarded::Protected), "{path}");
        }
        assert_eq!(guard(&names).against_reading(Path::new("infra/main.tf")), None);
    }

    #[test]
    fn the_workspace_may_itself_lie_in_a_directory_of_such_a_name() {
        let names = Names::default();
        let guard = Guard { names: &names, root: Path::new("/home/me/.ssh") };
        assert_eq!(guard.against_reading(Path::new("notes")), None);
        let config = Guard { names: &names, root: Path::new("/home/me/.config") };
        assert_eq!(config.against_reading(Path::new("gcloud/token")), Some(Guarded::Hidden));
    }

    #[test]
    fn what_the_host_runs_is_protected_from_writing_but_can_be_read() {
        let names = Names::default();
        for path in
            [".git", ".git/hooks/pre-commit", "sub/.GIT/config", ".vscode/tasks.json", "toolgate.yaml"]
        {
            assert_eq!(guard(&names).against_writing(Path::new(path)), Some(Guarded::Protected), "{path}");
            assert_eq!(guard(&names).against_reading(Path::new(path)), None, "{path}");
        }
        assert_eq!(guard(&names).against_writing(Path::new(".gitignore")), None);
    }

    #[test]
    fn a_directory_cannot_be_moved_so_that_a_pattern_begins_to_match() {
        let names = Names::default();
        assert_eq!(guard(&names).against_moving(Path::new("a/.config")), Some(Guarded::Hidden));
        assert_eq!(guard(&names).against_moving(Path::new(".local/state")), Some(Guarded::Hidden));
        assert_eq!(guard(&names).against_moving(Path::new("config")), None);
    }
}
