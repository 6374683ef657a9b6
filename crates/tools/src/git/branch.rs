//! `git.branch`: lists branches, makes one, or removes one whose commits are elsewhere, too.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Profile, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::{Branch, Revision};
use super::{Answer, Verb, Work, definition, failing, kinds_of};
use crate::tool::Tool;

/// As many branches as are listed.
const MOST: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BranchInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// Make a branch of this name. It is not checked out; `git.checkout` does that.
    create: Option<String>,
    /// The commit at which it begins. The default is `HEAD`.
    start: Option<String>,
    /// Remove the branch of this name, if all of its commits are part of what is checked out or of what it follows.
    delete: Option<String>,
    /// Whether branches of other repositories, as they were last fetched, are listed as well.
    #[serde(default)]
    remotes: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BranchOutput {
    /// The branches there are now.
    branches: Vec<Listed>,
    /// How many more there are.
    more_branches: usize,
}

/// One branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Its name, with that of the other repository before it if it is one's of that.
    name: String,
    /// Whether it is one of another repository, as it was last fetched.
    remote: bool,
    /// The commit it is at.
    commit: String,
    /// Whether it is checked out.
    current: bool,
    /// The branch that it follows.
    upstream: Option<String>,
    /// The first line of its last commit's message.
    subject: String,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "List, make or remove branches".into(),
        description: "Lists the branches; with `create` makes one first, with `delete` removes one whose commits are all \
            part of what is checked out."
            .into(),
        action: "vcs:branch".into(),
        safety: SafetyClass::Write,
        examples: vec![
            Example::of("which branches are there?", json!({ "remotes": true })),
            Example::of("make one", json!({ "create": "fix-login", "start": "main" })),
            Example::of("remove one that was merged", json!({ "delete": "fix-login" })),
        ],
        failure_modes: failing(&[
            "bad_arguments: the name is none that git takes, or `create` and `delete` are both given",
            "tool_failed: a branch of that name exists, or the one to remove has commits that are nowhere else",
        ]),
        ..definition::<BranchInput, BranchOutput>("git.branch")
    };
    let kinds =
        kinds_of(&[("list", Profile::Inspect), ("create", Profile::Build), ("delete", Profile::Build)]);
    Verb { definition, kinds, work, read }.build()
}

fn work(input: &BranchInput) -> Result<Work, Reason> {
    let line = Line::of("for-each-ref")
        .option("--count", MOST + 1)
        .words(&[
            "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(upstream:short)%00%(contents:subject)%00",
        ])
        .words(if input.remotes { &["refs/heads", "refs/remotes"] } else { &["refs/heads"] });
    let repository = input.repository.as_ref();
    let start = input.start.as_deref().map(Revision::parse).transpose()?;
    let before = match (&input.create, &input.delete) {
        (None, None) if start.is_none() => return Ok(Work::look(repository, line)),
        (Some(name), None) => {
            let name = Branch::parse(name)?;
            let names = [name.as_str()].into_iter().chain(start.as_ref().map(Revision::as_str));
            Line::of("branch").words(&["--no-track", "--no-recurse-submodules"]).names(names)
        }
        (None, Some(name)) if start.is_none() => {
            Line::of("branch").words(&["--delete"]).names([Branch::parse(name)?.as_str()])
        }
        _ => {
            return Err(Reason::bad_arguments(
                "give `create`, with or without `start`, or `delete`, or neither",
            ));
        }
    };
    Ok(Work::change("vcs:branch", repository, vec![before], line))
}

fn read(_: &BranchInput, bytes: &[u8]) -> Result<Answer<BranchOutput>, Reason> {
    let text = String::from_utf8_lossy(bytes);
    let mut branches = Vec::new();
    // Each ends with NUL and a line break; a subject is one line.
    for record in text.split_terminator("\0\n") {
        let mut fields = record.split('\0').map(str::to_owned);
        let mut field =
            || fields.next().ok_or_else(|| Reason::bad_output("git's account of a branch is not whole"));
        let (reference, commit, head, upstream, subject) = (field()?, field()?, field()?, field()?, field()?);
        let (name, remote) =
            match (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/remotes/")) {
                (Some(name), _) => (name, false),
                (None, Some(name)) => (name, true),
                (None, None) => continue,
            };
        branches.push(Listed {
            name: name.to_owned(),
            remote,
            commit,
            current: head == "*",
            upstream: (!upstream.is_empty()).then_some(upstream),
            subject,
        });
    }
    let more_branches = branches.len().saturating_sub(MOST);
    branches.truncate(MOST);
    let line = |branch: &Listed| {
        let mark = if branch.current { '*' } else { ' ' };
        let short: String = branch.commit.chars().take(10).collect();
        format!("{mark} {} {short} {}\n", branch.name, branch.subject)
    };
    let content: String = branches.iter().take(200).map(line).collect();
    let content = if branches.is_empty() { "no branches\n".to_owned() } else { content };
    Ok(Answer::of(BranchOutput { branches, more_branches }, content))
}
