//! `git.status`: what is checked out, and what differs from it.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::patch::next_record;
use super::{Answer, Verb, Work, definition, failing};
use crate::tool::Tool;

/// As many entries as are listed.
const MOST_ENTRIES: usize = 1000;
/// As many lines as are shown.
const MOST_LINES: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// Only these files and directories, relative to the repository.
    #[serde(default)]
    paths: Vec<String>,
    /// Whether files in new directories are listed one by one.
    #[serde(default)]
    all_untracked: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {
    /// The branch that is checked out; none if a commit is.
    pub(super) branch: Option<String>,
    /// The commit that is checked out; none before the first one.
    pub(super) commit: Option<String>,
    /// The branch that this one follows.
    pub(super) upstream: Option<String>,
    /// How many commits it has that the other has not.
    pub(super) ahead: Option<u64>,
    /// How many commits the other has that it has not.
    pub(super) behind: Option<u64>,
    /// What differs from the commit that is checked out, and what is new.
    pub(super) entries: Vec<Entry>,
    /// How many more entries there are.
    pub(super) more_entries: usize,
}

/// One file that is not as it was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The file, relative to the repository.
    path: String,
    /// What it was called before, if it was renamed or copied.
    renamed_from: Option<String>,
    /// How the index differs from the commit.
    index: State,
    /// How the file differs from the index.
    file: State,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    Same,
    Modified,
    TypeChanged,
    Added,
    Deleted,
    Renamed,
    Copied,
    Conflict,
    Untracked,
}

impl State {
    fn of(letter: char) -> Option<State> {
        Some(match letter {
            '.' => State::Same,
            'M' => State::Modified,
            'T' => State::TypeChanged,
            'A' => State::Added,
            'D' => State::Deleted,
            'R' => State::Renamed,
            'C' => State::Copied,
            'U' => State::Conflict,
            _ => return None,
        })
    }

    fn letter(self) -> char {
        match self {
            State::Same => ' ',
            State::Modified => 'M',
            State::TypeChanged => 'T',
            State::Added => 'A',
            State::Deleted => 'D',
            State::Renamed => 'R',
            State::Copied => 'C',
            State::Conflict => 'U',
            State::Untracked => '?',
        }
    }
}

/// What [`Status::read`] reads.
pub(super) const STATUS: &[&str] =
    &["--porcelain=v2", "-z", "--branch", "--ignore-submodules=dirty", "--find-renames"];

impl Status {
    pub(super) fn read(mut bytes: &[u8]) -> Result<Status, Reason> {
        let mut status = Status::default();
        while let Some(record) = next_record(&mut bytes) {
            let odd = || Reason::bad_output("git's account of a file is not understood");
            let (kind, rest) = record.split_once(' ').ok_or_else(odd)?;
            let entry = match kind {
                "#" => {
                    status.read_header(rest);
                    continue;
                }
                "!" => continue,
                "?" => Entry {
                    path: rest.to_owned(),
                    renamed_from: None,
                    index: State::Untracked,
                    file: State::Untracked,
                },
                "1" => entry_of(rest, 7).ok_or_else(odd)?,
                "u" => Entry {
                    index: State::Conflict,
                    file: State::Conflict,
                    ..entry_of(rest, 9).ok_or_else(odd)?
                },
                "2" => {
                    let from = next_record(&mut bytes).ok_or_else(odd)?;
                    Entry { renamed_from: Some(from), ..entry_of(rest, 8).ok_or_else(odd)? }
                }
                _ => return Err(odd()),
            };
            if status.entries.len() < MOST_ENTRIES {
                status.entries.push(entry);
            } else {
                status.more_entries += 1;
            }
        }
        Ok(status)
    }

    fn read_header(&mut self, header: &str) {
        let known = |value: &str| (!value.starts_with('(')).then(|| value.to_owned());
        match header.split_once(' ') {
            Some(("branch.oid", value)) => self.commit = known(value),
            Some(("branch.head", value)) => self.branch = known(value),
            Some(("branch.upstream", value)) => self.upstream = Some(value.to_owned()),
            Some(("branch.ab", value)) => {
                let mut numbers =
                    value.split(' ').map(|number| number.trim_start_matches(['+', '-']).parse().ok());
                (self.ahead, self.behind) = (numbers.next().flatten(), numbers.next().flatten());
            }
            _ => {}
        }
    }

    pub(super) fn shown(&self) -> String {
        let place = match (&self.branch, &self.commit) {
            (Some(branch), _) => format!("on branch {branch}"),
            (None, Some(commit)) => format!("at commit {commit}, on no branch"),
            (None, None) => "on no branch".to_owned(),
        };
        let follows = match (&self.upstream, self.ahead, self.behind) {
            (Some(upstream), Some(ahead), Some(behind)) => {
                format!(", {ahead} ahead of {upstream} and {behind} behind")
            }
            (Some(upstream), _, _) => format!(", follows {upstream}"),
            (None, _, _) => String::new(),
        };
        let line = |entry: &Entry| {
            let from = entry.renamed_from.as_ref().map(|from| format!(" (was {from})")).unwrap_or_default();
            format!("{}{} {}{from}\n", entry.index.letter(), entry.file.letter(), entry.path)
        };
        let lines: String = self.entries.iter().take(MOST_LINES).map(line).collect();
        let left = self.entries.len().saturating_sub(MOST_LINES) + self.more_entries;
        let more = if left > 0 { format!("… and {left} more\n") } else { String::new() };
        let clean = if self.entries.is_empty() { "nothing differs\n" } else { "" };
        format!("{place}{follows}\n{lines}{more}{clean}")
    }
}

/// `XY` and as many fields more, then the path.
fn entry_of(rest: &str, fields: usize) -> Option<Entry> {
    let mut parts = rest.splitn(fields + 1, ' ');
    let mut letters = parts.next()?.chars();
    let (index, file) = (State::of(letters.next()?)?, State::of(letters.next()?)?);
    let path = parts.nth(fields - 1)?.to_owned();
    Some(Entry { path, renamed_from: None, index, file })
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Show what has changed".into(),
        description: "Shows which branch is checked out and which files differ from the last commit, are to be committed, \
            or are new. Files with names that are hidden, such as `.env`, are left out, and so is what is ignored. Of \
            submodules only another commit is told."
            .into(),
        examples: vec![
            Example::of("what has changed?", json!({})),
            Example::of("in one directory, each new file", json!({ "paths": ["src"], "all_untracked": true })),
        ],
        failure_modes: failing(&[]),
        ..definition::<StatusInput, Status>("git.status")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &StatusInput) -> Result<Work, Reason> {
    let untracked = if input.all_untracked { "all" } else { "normal" };
    let line = Line::of("status").words(STATUS).option("--untracked-files", untracked);
    Ok(Work::look(input.repository.as_ref(), line.seeing(&input.paths)?))
}

fn read(_: &StatusInput, bytes: &[u8]) -> Result<Answer<Status>, Reason> {
    let status = Status::read(bytes)?;
    let content = status.shown();
    Ok(Answer::of(status, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_is_read() {
        let text = "# branch.oid 65dad2\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +1 -2\0\
                    1 .M N... 100644 100644 100644 a b src/a b.rs\0\
                    2 R. N... 100644 100644 100644 a b R100 new name\0old name\0\
                    u UU N... 100644 100644 100644 100644 a b c both\0\
                    ? new file\0! ignored\0";
        let status = Status::read(text.as_bytes()).unwrap();
        let expected = "on branch main, 1 ahead of origin/main and 2 behind\n M src/a b.rs\nR  new name (was old name)\n\
                        UU both\n?? new file\n";
        assert_eq!(status.shown(), expected);
        let none = Status::read(b"# branch.oid (initial)\0# branch.head (detached)\0").unwrap();
        assert_eq!((none.branch, none.commit), (None, None));
    }

    #[test]
    fn what_is_not_understood_is_no_answer() {
        for text in ["1 .M short\0", "x y\0", "2 R. N... 1 2 3 a b R100 new\0", "1 ZZ N... 1 2 3 a b x\0"] {
            assert_eq!(Status::read(text.as_bytes()).unwrap_err().code.as_str(), "bad_output", "{text}");
        }
    }
}
