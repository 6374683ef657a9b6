//! `git.commit`: records files in the repository.

use std::sync::Arc;

use contract::{ContractError, Definition, Example, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::log::{COMMIT, Commit, Person};
use super::patch::{Difference, FileChange};
use super::{Answer, Verb, Work, definition, failing};
use crate::path::shown;
use crate::tool::Tool;

const MAX_MESSAGE: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// The message. Its first line is the subject.
    #[schemars(length(min = 1, max = 65536))]
    message: String,
    /// Files and directories to add first, new ones and removed ones too; `.` is everything. Without any, what was added
    /// before is committed.
    #[serde(default)]
    paths: Vec<String>,
    /// Add all changes to files that the repository knows already.
    #[serde(default)]
    all: bool,
    /// Who wrote it. The default is who the repository's settings name, or else `agent`.
    author: Option<Person>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitOutput {
    /// The new commit.
    commit: Commit,
    /// Each file that it changed.
    files: Vec<FileChange>,
    /// How many more there are.
    more_files: usize,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Commit".into(),
        description: "Adds files (`paths`, or `all` that are known and have changed) and commits what was added. Hooks are \
            not run and nothing is signed. Files with names that are hidden, such as `.env`, are never added."
            .into(),
        action: "vcs:commit".into(),
        safety: SafetyClass::Write,
        timeout_seconds: 120,
        examples: vec![
            Example::of("two files", json!({ "message": "Greet by name", "paths": ["src/main.rs", "README.md"] })),
            Example::of("all that has changed", json!({ "message": "Tidy up", "all": true })),
            Example::of(
                "in somebody's name",
                json!({ "message": "Fix the login", "paths": ["."], "author": { "name": "Ann", "email": "ann@example.com" } }),
            ),
        ],
        failure_modes: failing(&["tool_failed: nothing was added, so there is nothing to commit"]),
        ..definition::<CommitInput, CommitOutput>("git.commit")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &CommitInput) -> Result<Work, Reason> {
    if input.message.trim().is_empty() || input.message.contains('\0') || input.message.len() > MAX_MESSAGE {
        return Err(Reason::bad_arguments(
            "the message is empty, longer than 64 KiB, or holds a NUL character",
        ));
    }
    let author = input.author.as_ref().map(signature).transpose()?;
    let mut before = Vec::new();
    if input.all {
        before.push(Line::of("add").words(&["--update"]).seeing(&[])?);
    }
    if !input.paths.is_empty() {
        before.push(Line::of("add").words(&["--all"]).seeing(&input.paths)?);
    }
    let commit = Line::of("commit")
        .words(&["--no-verify", "--no-gpg-sign", "--no-edit", "--no-status", "--cleanup=whitespace"])
        .option_if("--author", author.as_ref())
        .option("--message", &input.message);
    before.push(commit);
    let line = Line::of("log").words(COMMIT).words(&[
        "--max-count=1",
        "--diff-merges=first-parent",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=dirty",
        "--find-renames",
        "--numstat",
        "HEAD",
        "--",
    ]);
    Ok(Work::change("vcs:commit", input.repository.as_ref(), before, line))
}

/// As git writes it. What git would take out of a name is not taken in.
fn signature(author: &Person) -> Result<String, Reason> {
    let is_plain = |text: &str| {
        !text.trim().is_empty()
            && text.len() <= 200
            && !text.contains(|c: char| c.is_control() || "<>".contains(c))
    };
    if !is_plain(&author.name) || !is_plain(&author.email) || author.email.contains(char::is_whitespace) {
        let why =
            format!("`{}` is not who anybody is", shown(&format!("{} <{}>", author.name, author.email)));
        return Err(Reason::bad_arguments(why).with_hint("a name and an address, without `<` and `>`"));
    }
    Ok(format!("{} <{}>", author.name, author.email))
}

fn read(_: &CommitInput, mut bytes: &[u8]) -> Result<Answer<CommitOutput>, Reason> {
    let commit = Commit::read(&mut bytes)?.ok_or_else(|| Reason::bad_output("git showed no commit"))?;
    let Difference { files, more_files, .. } = Difference::read(bytes.strip_prefix(b"\n").unwrap_or(bytes))?;
    let line = |file: &FileChange| match (file.added, file.removed) {
        (Some(added), Some(removed)) => format!("+{added} -{removed} {}\n", file.path),
        _ => format!("{}, not text\n", file.path),
    };
    let numbers: String = files.iter().take(200).map(line).collect();
    let content = format!("{}\n{numbers}", commit.shown());
    Ok(Answer::of(CommitOutput { commit, files, more_files }, content))
}
