//! `git.fetch`: brings commits from elsewhere.

use std::sync::Arc;

use contract::{ContractError, Definition, EgressClass, Example, Reason, SafetyClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::line::Line;
use super::names::Branch;
use super::remote::Remote;
use super::{Answer, Verb, Work, definition, failing_far};
use crate::inside::GitUse;
use crate::tool::Tool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// Where to fetch from: `https://…`, `ssh://…` or `user@host:path`, without a password. A remote's name is not enough:
    /// what a call reaches stands in the call.
    url: String,
    /// The name under which the other's branches are kept here. The default is `origin`.
    remote: Option<String>,
    /// Fetch this branch alone. The default is all.
    branch: Option<String>,
    /// How many commits of the history to bring. The default is all.
    #[schemars(range(min = 1))]
    depth: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchOutput {
    /// Each branch or tag that was looked at.
    updates: Vec<Update>,
}

/// What became of one branch or tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Update {
    /// Its name here, such as `refs/remotes/origin/main`.
    reference: String,
    /// The commit before; none if it is new.
    before: Option<String>,
    /// The commit now; none if it is gone.
    after: Option<String>,
    /// Whether it is as it should be.
    ok: bool,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Fetch commits".into(),
        description: "Brings the branches of a repository on another host as `origin/…`. What is checked out stays as it is. \
            Submodules are not fetched and redirects not followed."
            .into(),
        safety: SafetyClass::Network,
        egress: EgressClass::ReadOnly,
        timeout_seconds: 600,
        examples: vec![
            Example::of("all branches", json!({ "url": "https://example.com/team/project.git" })),
            Example::of(
                "one branch of a fork",
                json!({ "url": "git@example.com:me/project.git", "remote": "fork", "branch": "fix-login" }),
            ),
        ],
        failure_modes: failing_far(&["tool_failed: there is no such branch or repository, or it wants credentials"]),
        ..definition::<FetchInput, FetchOutput>("git.fetch")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &FetchInput) -> Result<Work, Reason> {
    let url = Remote::parse(&input.url)?;
    let remote = Branch::parse(input.remote.as_deref().unwrap_or("origin"))?;
    let branch = input.branch.as_deref().map(Branch::parse).transpose()?;
    let branch = branch.as_ref().map_or("*", Branch::as_str);
    let refspec = format!("+refs/heads/{branch}:refs/remotes/{}/{branch}", remote.as_str());
    let mut line = Line::of("fetch").words(&[
        "--porcelain",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--no-progress",
    ]);
    if let Some(depth) = input.depth {
        line = line.option("--depth", depth);
    }
    let line = line.names([url.to_string().as_str(), refspec.as_str()]);
    let work = Work::change("vcs:read", input.repository.as_ref(), Vec::new(), line);
    Ok(Work {
        used: GitUse::Exchange(url.transport()),
        login: url.login(),
        out: Some((url.target().clone(), EgressClass::ReadOnly)),
        ..work
    })
}

fn read(_: &FetchInput, bytes: &[u8]) -> Result<Answer<FetchOutput>, Reason> {
    let text = String::from_utf8_lossy(bytes);
    let updates = text.lines().map(read_update).collect::<Option<Vec<Update>>>();
    let updates =
        updates.ok_or_else(|| Reason::bad_output("git's account of what it fetched is not understood"))?;
    let line = |update: &Update| {
        let short = |commit: &Option<String>| {
            commit.as_ref().map_or("nothing".to_owned(), |commit| commit.chars().take(10).collect())
        };
        format!("{} {} -> {}\n", update.reference, short(&update.before), short(&update.after))
    };
    let content: String = updates.iter().take(200).map(line).collect();
    let content = if updates.is_empty() { "nothing new\n".to_owned() } else { content };
    Ok(Answer::of(FetchOutput { updates }, content))
}

/// A flag, the old commit, the new one, and the name; the flag may be a space.
fn read_update(line: &str) -> Option<Update> {
    let (flag, rest) = line.split_at_checked(1)?;
    let mut parts = rest.strip_prefix(' ')?.splitn(3, ' ');
    let mut commit = || {
        let name = parts.next()?;
        let is_hash = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| (!name.bytes().all(|byte| byte == b'0')).then(|| name.to_owned()))
    };
    let (before, after) = (commit()?, commit()?);
    Some(Update { reference: parts.next()?.to_owned(), before, after, ok: flag != "!" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_is_read_line_by_line() {
        let text = "* 0000 a1b2 refs/remotes/origin/main\n  a1b2 c3d4 refs/remotes/origin/x\n! a1 b2 refs/tags/v 1\n";
        let answer = text.lines().map(read_update).collect::<Option<Vec<_>>>().unwrap();
        assert_eq!((answer[0].before.as_deref(), answer[0].after.as_deref()), (None, Some("a1b2")));
        assert_eq!((answer[1].reference.as_str(), answer[1].ok), ("refs/remotes/origin/x", true));
        assert_eq!((answer[2].reference.as_str(), answer[2].ok), ("refs/tags/v 1", false));
        for odd in ["", "*", "x y z", "* a1b2 xyz refs/x"] {
            assert_eq!(read_update(odd), None, "{odd}");
        }
    }
}
