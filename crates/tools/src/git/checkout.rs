//! `git.checkout`: puts another branch or commit into the workspace.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::{Branch, Revision};
use super::status::{STATUS, Status};
use super::{Answer, Verb, Work, definition, failing};
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckoutInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// The branch to check out.
    branch: Option<String>,
    /// Make that branch first.
    #[serde(default)]
    create: bool,
    /// With `create`: the commit at which it begins. The default is `HEAD`.
    start: Option<String>,
    /// A commit to check out instead of a branch. No branch is checked out then.
    commit: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckoutOutput {
    /// The branch that is checked out now; none if a commit is.
    branch: Option<String>,
    /// The commit that is checked out now; none before the first one.
    commit: Option<String>,
    /// How many files still differ from it: changes that were there before are kept.
    changed_files: usize,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Check out a branch".into(),
        description: "Puts the files of another branch or commit into the workspace. Changes that are not committed are \
            kept; where they would be lost, nothing is done."
            .into(),
        action: "vcs:branch".into(),
        safety: SafetyClass::Write,
        timeout_seconds: 120,
        examples: vec![
            Example::of("another branch", json!({ "branch": "main" })),
            Example::of("a new branch", json!({ "branch": "fix-login", "create": true, "start": "main" })),
            Example::of("a commit, to look at it", json!({ "commit": "HEAD~3" })),
        ],
        failure_modes: failing(&[
            "bad_arguments: give either `branch` or `commit`",
            "tool_failed: changes that are not committed would be lost, or files differ that agents may not change",
        ]),
        ..definition::<CheckoutInput, CheckoutOutput>("git.checkout")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &CheckoutInput) -> Result<Work, Reason> {
    // Unlike `git checkout` this takes no name for a path.
    let switch = Line::of("switch").words(&["--no-guess", "--no-recurse-submodules", "--no-progress"]);
    let start = input.start.as_deref().map(Revision::parse).transpose()?;
    let switch = match (&input.branch, &input.commit) {
        (Some(branch), None) if input.create => {
            let branch = Branch::parse(branch)?;
            switch.words(&["--no-track"]).option("--create", branch.as_str()).revisions(&start)
        }
        (Some(branch), None) if start.is_none() => switch.names([Branch::parse(branch)?.as_str()]),
        (None, Some(commit)) if start.is_none() && !input.create => {
            switch.words(&["--detach"]).revisions([&Revision::parse(commit)?])
        }
        _ => {
            return Err(Reason::bad_arguments(
                "give either `branch` or `commit`; `start` goes with `create`",
            ));
        }
    };
    let line = Line::of("status").words(STATUS).words(&["--untracked-files=no"]).seeing(&[])?;
    Ok(Work::change("vcs:branch", input.repository.as_ref(), vec![switch], line))
}

fn read(_: &CheckoutInput, bytes: &[u8]) -> Result<Answer<CheckoutOutput>, Reason> {
    let status = Status::read(bytes)?;
    let content = status.shown();
    let changed_files = status.entries.len() + status.more_entries;
    let Status { branch, commit, .. } = status;
    Ok(Answer::of(CheckoutOutput { branch, commit, changed_files }, content))
}
