//! `git.log`: which commits led to one.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::Revision;
use super::patch::next_record;
use super::{Answer, Verb, Work, definition, failing};
use crate::pipeline::SHOWN;
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// The commit to begin with, newest first. The default is `HEAD`.
    revision: Option<String>,
    /// Leave out this commit and all that led to it.
    since_revision: Option<String>,
    /// Only commits that changed these files and directories, relative to the repository.
    #[serde(default)]
    paths: Vec<String>,
    /// Only commits whose author's name or address holds this text.
    author: Option<String>,
    /// Only commits whose message holds this text.
    text: Option<String>,
    /// Only commits after this time, such as `2026-01-31` or `2 weeks ago`.
    after: Option<String>,
    /// Only commits before this time.
    before: Option<String>,
    /// How many at most, up to 200. The default is 20.
    #[schemars(range(min = 1, max = 200))]
    count: Option<u32>,
    /// How many to leave out first.
    #[serde(default)]
    skip: u32,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogOutput {
    /// The commits, newest first.
    commits: Vec<Commit>,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    /// Its hash.
    pub(super) commit: String,
    /// The hashes of those before it.
    pub(super) parents: Vec<String>,
    /// Who wrote it.
    pub(super) author: Person,
    /// When it was written.
    pub(super) written_at: String,
    /// Who committed it.
    pub(super) committer: Person,
    /// When it was committed.
    pub(super) committed_at: String,
    /// Branches and tags that stand here; `HEAD -> main` for the branch that is checked out.
    pub(super) references: Vec<String>,
    /// The first line of its message.
    pub(super) subject: String,
    /// The rest of its message, cut if it is long.
    pub(super) body: String,
}

/// Somebody, as commits name them. Nobody checks these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Person {
    /// A name.
    pub(super) name: String,
    /// An address.
    pub(super) email: String,
}

/// What is asked of each commit, and in this order; each field ends with NUL.
pub(super) const COMMIT: &[&str] = &[
    "-z",
    "--no-show-signature",
    "--decorate=short",
    "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%D%x00%s%x00%b",
];

/// As much as is shown of one message.
const MOST_BODY: usize = SHOWN / 2;

impl Commit {
    /// Reads the next commit. Nothing at the end.
    pub(super) fn read(bytes: &mut &[u8]) -> Result<Option<Commit>, Reason> {
        let Some(commit) = next_record(bytes) else { return Ok(None) };
        let mut field =
            || next_record(bytes).ok_or_else(|| Reason::bad_output("git's account of a commit is not whole"));
        let words = |text: String, by: &str| -> Vec<String> {
            text.split(by).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let parents = words(field()?, " ");
        let author = Person { name: field()?, email: field()? };
        let written_at = field()?;
        let committer = Person { name: field()?, email: field()? };
        let committed_at = field()?;
        let references = words(field()?, ", ");
        let subject = field()?;
        // The last field of the last commit may be all that is missing.
        let mut body = next_record(bytes).unwrap_or_default();
        if body.len() > MOST_BODY {
            body.truncate(body.floor_char_boundary(MOST_BODY));
            body.push('…');
        }
        let body = body.trim_end().to_owned();
        Ok(Some(Commit {
            commit,
            parents,
            author,
            written_at,
            committer,
            committed_at,
            references,
            subject,
            body,
        }))
    }

    pub(super) fn shown(&self) -> String {
        let Commit { commit, author, written_at, subject, body, .. } = self;
        let indented: String = body.lines().map(|line| format!("    {line}\n")).collect();
        let references = if self.references.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.references.join(", "))
        };
        format!(
            "commit {commit}{references}\nauthor {} <{}>, {written_at}\n    {subject}\n{indented}",
            author.name, author.email
        )
    }
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Show the history".into(),
        description: "Lists commits, newest first, with author, time, message and parents. `git.show` gives what one of \
            them changed."
            .into(),
        examples: vec![
            Example::of("the last commits", json!({})),
            Example::of("what is new on this branch?", json!({ "revision": "HEAD", "since_revision": "main" })),
            Example::of("who changed this file?", json!({ "paths": ["src/main.rs"], "count": 5 })),
        ],
        failure_modes: failing(&["bad_arguments: a revision is a range; use `since_revision` for that"]),
        ..definition::<LogInput, LogOutput>("git.log")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &LogInput) -> Result<Work, Reason> {
    let revision = Revision::parse(input.revision.as_deref().unwrap_or("HEAD"))?;
    let without = input.since_revision.as_deref().map(Revision::parse).transpose()?;
    let line = Line::of("log")
        .words(COMMIT)
        .words(&["--fixed-strings", "--regexp-ignore-case", "--no-patch"])
        .option("--max-count", input.count.unwrap_or(20))
        .option("--skip", input.skip)
        .option_if("--author", input.author.as_ref())
        .option_if("--grep", input.text.as_ref())
        .option_if("--after", input.after.as_ref())
        .option_if("--before", input.before.as_ref());
    let without = without.map(|revision| format!("^{}", revision.as_str()));
    let line = line.names([revision.as_str()].into_iter().chain(without.as_deref()));
    let line = if input.paths.is_empty() { line.words(&["--"]) } else { line.seeing(&input.paths)? };
    Ok(Work::look(input.repository.as_ref(), line))
}

fn read(_: &LogInput, mut bytes: &[u8]) -> Result<Answer<LogOutput>, Reason> {
    let mut commits = Vec::new();
    while let Some(commit) = Commit::read(&mut bytes)? {
        commits.push(commit);
    }
    let all: String = commits.iter().map(Commit::shown).collect::<Vec<_>>().join("\n");
    let (cut, artifacts) = super::shortened(all.as_bytes(), "log");
    let content = if commits.is_empty() { "no commits\n".to_owned() } else { cut.text };
    Ok(Answer { structured: LogOutput { commits }, content, artifacts, findings: cut.findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_one_after_the_other() {
        let one = "a1\0b2 c3\0An\0a@x\x002026-01-01T00:00:00Z\0Co\0c@x\x002026-01-02T00:00:00Z\0HEAD -> main, tag: v1\0Subject\0Body\n\0";
        let two = "b2\0\0An\0a@x\0t\0Co\0c@x\0t\0\0First\0\0";
        let both = format!("{one}{two}");
        let mut bytes = both.as_bytes();
        let first = Commit::read(&mut bytes).unwrap().unwrap();
        assert_eq!((first.commit.as_str(), first.parents.len(), first.body.as_str()), ("a1", 2, "Body"));
        assert_eq!(first.references, ["HEAD -> main", "tag: v1"]);
        let second = Commit::read(&mut bytes).unwrap().unwrap();
        assert_eq!((second.subject.as_str(), second.parents.len()), ("First", 0));
        assert_eq!(Commit::read(&mut bytes).unwrap(), None);
        assert_eq!(Commit::read(&mut &b"a1\0b2"[..]).unwrap_err().code.as_str(), "bad_output");
    }
}
