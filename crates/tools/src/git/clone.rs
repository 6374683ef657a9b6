//! `git.clone`: brings a repository from elsewhere.

use std::sync::Arc;

use contract::{ContractError, Definition, EgressClass, Example, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::Branch;
use super::remote::Remote;
use super::status::{STATUS, Status};
use super::{Answer, Verb, Work, definition, failing_far};
use crate::inside::GitUse;
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CloneInput {
    /// Where it is: `https://…`, `ssh://…` or `user@host:path`, without a password.
    url: String,
    /// The directory to put it into, relative to the workspace; it must be new or empty. The default is the last part of
    /// the address.
    directory: Option<String>,
    /// The branch to check out. The default is the one that is usual there.
    branch: Option<String>,
    /// How many commits of the history to bring, of that branch alone. The default is all.
    #[schemars(range(min = 1))]
    depth: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CloneOutput {
    /// The directory it is in, relative to the workspace.
    directory: String,
    /// The branch that is checked out.
    branch: Option<String>,
    /// The commit that is checked out; none if there is none.
    commit: Option<String>,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Clone a repository".into(),
        description: "Brings a repository from another host into a new directory. Submodules are not brought, redirects are \
            not followed, and no program that the repository names is run. Files that programs of this machine would obey \
            are set aside."
            .into(),
        safety: SafetyClass::Network,
        egress: EgressClass::ReadOnly,
        timeout_seconds: 600,
        examples: vec![
            Example::of("all of it", json!({ "url": "https://example.com/team/project.git" })),
            Example::of(
                "the newest commit of one branch",
                json!({ "url": "git@example.com:team/project.git", "directory": "vendor/project", "branch": "main", "depth": 1 }),
            ),
        ],
        failure_modes: failing_far(&["tool_failed: the directory is not empty, or there is no such branch or repository"]),
        ..definition::<CloneInput, CloneOutput>("git.clone")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn directory_of(input: &CloneInput, remote: &Remote) -> Result<String, Reason> {
    let named = input.directory.clone().or_else(|| remote.name());
    named.ok_or_else(|| {
        Reason::bad_arguments("the address ends in no name for a directory; give a `directory`")
    })
}

fn work(input: &CloneInput) -> Result<Work, Reason> {
    let remote = Remote::parse(&input.url)?;
    let branch = input.branch.as_deref().map(Branch::parse).transpose()?;
    let mut clone = Line::clone().words(&[
        "--no-local",
        "--no-recurse-submodules",
        "--no-shallow-submodules",
        "--origin=origin",
        "--template=",
        "--no-progress",
    ]);
    if let Some(branch) = &branch {
        clone = clone.option("--branch", branch.as_str());
    }
    if let Some(depth) = input.depth {
        clone = clone.words(&["--single-branch"]).option("--depth", depth);
    }
    let clone = clone.names([remote.to_string().as_str(), "."]);
    let line = Line::of("status").words(STATUS).words(&["--untracked-files=no"]).seeing(&[])?;
    let directory = directory_of(input, &remote)?;
    let work = Work::change("vcs:read", Some(&directory), vec![clone], line);
    Ok(Work {
        used: GitUse::Clone(remote.transport()),
        login: remote.login(),
        out: Some((remote.target().clone(), EgressClass::ReadOnly)),
        ..work
    })
}

fn read(input: &CloneInput, bytes: &[u8]) -> Result<Answer<CloneOutput>, Reason> {
    let directory = directory_of(input, &Remote::parse(&input.url)?)?;
    let status = Status::read(bytes)?;
    let content = format!("cloned into {directory}\n{}", status.shown());
    let Status { branch, commit, .. } = status;
    Ok(Answer::of(CloneOutput { directory, branch, commit }, content))
}
