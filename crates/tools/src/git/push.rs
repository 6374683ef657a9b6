//! `git.push`: sends commits elsewhere.

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
struct PushInput {
    /// The repository's directory, relative to the workspace. The default is the workspace itself.
    repository: Option<String>,
    /// Where to send it: `https://…`, `ssh://…` or `user@host:path`, without a password. A remote's name is not enough:
    /// what a call reaches stands in the call.
    url: String,
    /// The branch to send.
    branch: String,
    /// What it is called there. The default is the same name.
    to: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PushOutput {
    /// The branch there, such as `refs/heads/main`.
    reference: String,
    /// What became of it, in git's words: `a1b2..c3d4`, `[new branch]` or `[up to date]`.
    result: String,
}

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Push a branch".into(),
        description: "Sends one branch to a repository on another host. Nothing there is overwritten or removed: what is not \
            a continuation of the branch is refused there. Hooks are not run."
            .into(),
        action: "vcs:push".into(),
        safety: SafetyClass::Network,
        egress: EgressClass::Write,
        timeout_seconds: 600,
        examples: vec![
            Example::of("send a branch", json!({ "url": "https://example.com/team/project.git", "branch": "fix-login" })),
            Example::of(
                "under another name",
                json!({ "url": "git@example.com:me/project.git", "branch": "work", "to": "agent/work" }),
            ),
        ],
        failure_modes: failing_far(&["tool_failed: it is not a continuation of what is there, or it wants credentials"]),
        ..definition::<PushInput, PushOutput>("git.push")
    };
    Verb { definition, kinds: Vec::new(), work, read }.build()
}

fn work(input: &PushInput) -> Result<Work, Reason> {
    let url = Remote::parse(&input.url)?;
    let branch = Branch::parse(&input.branch)?;
    let to = input.to.as_deref().map(Branch::parse).transpose()?.unwrap_or_else(|| branch.clone());
    // One branch by its whole name, without `+`: nothing is forced, nothing removed.
    let refspec = format!("refs/heads/{}:refs/heads/{}", branch.as_str(), to.as_str());
    let line = Line::of("push")
        .words(&[
            "--porcelain",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--no-force",
            "--no-mirror",
            "--recurse-submodules=no",
            "--no-progress",
        ])
        .names([url.to_string().as_str(), refspec.as_str()]);
    let work = Work::change("vcs:push", input.repository.as_ref(), Vec::new(), line);
    Ok(Work {
        used: GitUse::Exchange(url.transport()),
        login: url.login(),
        out: Some((url.target().clone(), EgressClass::Write)),
        ..work
    })
}

fn read(_: &PushInput, bytes: &[u8]) -> Result<Answer<PushOutput>, Reason> {
    let text = String::from_utf8_lossy(bytes);
    // `To …`, one line of a flag, the names and what became of it, `Done`.
    let line = text.lines().find(|line| line.split('\t').count() == 3);
    let mut parts = line.unwrap_or_default().split('\t').skip(1);
    let (names, result) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let reference = names.split_once(':').map(|(_, to)| to.to_owned());
    let reference =
        reference.ok_or_else(|| Reason::bad_output("git's account of what it sent is not understood"))?;
    let content = format!("{reference} {result}\n");
    Ok(Answer::of(PushOutput { reference, result: result.to_owned() }, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_read() {
        let input = || PushInput { repository: None, url: String::new(), branch: String::new(), to: None };
        let text = b"To https://example.com/x\n*\trefs/heads/a:refs/heads/b\t[new branch]\nDone\n";
        let answer = read(&input(), text)
            .map_err(|reason| reason.code.to_string())
            .unwrap_or_else(|code| panic!("{code}"));
        assert_eq!(
            (answer.structured.reference.as_str(), answer.structured.result.as_str()),
            ("refs/heads/b", "[new branch]")
        );
        assert!(read(&input(), b"Done\n").is_err());
    }
}
