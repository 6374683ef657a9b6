//! `git.pr`: asks the host of a repository to open a pull request, or what there is.
//!
//! One request over HTTP, put by the worker that `http.request` has. The credential is none of the call's: the gate adds it
//! on the way out, for the hosts that `egress.credentials` names.
//!
//! # Invariants
//! - What is asked of whom is read from the arguments alone; no answer changes it.

mod answer;
mod input;
mod project;

use std::pin::Pin;
use std::sync::Arc;

use contract::{
    Canonical, Code, Contract, ContractError, CostTier, Definition, EgressClass, Example, Output, Reason,
    RunFacts, SafetyClass, Target,
};
use policy::{Facets, Grant, Settings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::definition;
use crate::http::Heard;
use crate::surroundings::Surroundings;
use crate::tool::{CallKind, Ran, Tool, check_grant};
use answer::{Credential, PullRequestOutput, read, with_care};
use input::{Asked, PullRequestInput};

pub(super) fn tool() -> Result<Arc<dyn Tool>, ContractError> {
    Ok(Arc::new(PullRequests { contract: Contract::internal(promise())? }))
}

fn promise() -> Definition {
    Definition {
        title: "Open a pull request".into(),
        description: "Opens a pull request (GitHub) or a merge request (GitLab) from one branch into another, which are both there \
            already; with `read` or `list` looks at those there are, which changes nothing. The host is asked over https; the \
            gate adds its credential on the way. Redirects are not followed."
            .into(),
        // Of the worst it can be asked for.
        action: "vcs:push".into(),
        safety: SafetyClass::Network,
        egress: EgressClass::Write,
        cost: CostTier::Low,
        timeout_seconds: 40,
        examples: vec![
            Example::of(
                "open one",
                json!({
                    "url": "https://github.com/team/project.git", "title": "Log in again after a timeout",
                    "body": "Fixes the login.", "head": "fix-login", "base": "main",
                }),
            ),
            Example::of(
                "at a host of one's own, as a draft",
                json!({
                    "url": "git@code.example.com:team/project.git", "host_kind": "gitlab", "title": "Try another parser",
                    "head": "parser", "base": "main", "draft": true,
                }),
            ),
            Example::of("which are open?", json!({ "action": "list", "url": "https://gitlab.com/team/project" })),
            Example::of(
                "what became of one?",
                json!({ "action": "read", "url": "https://github.com/team/project", "number": 7 }),
            ),
        ],
        failure_modes: vec![
            "bad_arguments: the address is no repository's, a branch or a title is none, or `host_kind` is missing".into(),
            "host_not_allowed: the host of the interface (`api.github.com` for `github.com`) is private, blocked or not granted"
                .into(),
            "tool_failed: the host says no, and the reason says what it says; 401, 403 and 404 may mean that it wants a \
            credential, which whoever runs the gate names in `egress.credentials`"
                .into(),
            "bad_output: the answer is not understood; it may have been opened all the same".into(),
            "timeout: there was no whole answer in time; it may have been opened all the same".into(),
            "cannot_enforce: this gate has no network to give; nothing was sent".into(),
        ],
        ..definition::<PullRequestInput, PullRequestOutput>("git.pr")
    }
}

struct PullRequests {
    contract: Contract,
}

impl Tool for PullRequests {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn kinds(&self) -> Vec<CallKind> {
        let kind = |(word, egress)| CallKind { word, safety: SafetyClass::Network, egress };
        [("open", EgressClass::Write), ("read", EgressClass::ReadOnly), ("list", EgressClass::ReadOnly)]
            .map(kind)
            .into()
    }

    fn actions(&self) -> Vec<&str> {
        vec!["vcs:read", "vcs:push"]
    }

    fn facets(&self, arguments: &Value, _: &Settings) -> Result<Facets, Reason> {
        let asked = Asked::parse(arguments)?;
        let (action, egress) = if asked.reads() {
            ("vcs:read", EgressClass::ReadOnly)
        } else {
            ("vcs:push", EgressClass::Write)
        };
        asked.question()?.facets(action, egress)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let asked = check_grant(&grant, &self.contract, arguments, at)
                .and_then(|()| Asked::parse(arguments.value()))
                .and_then(|asked| Ok((asked.question()?, asked)));
            let (question, asked) = match asked {
                Ok(asked) => asked,
                Err(reason) => return Ran::failed(reason, RunFacts::default()),
            };
            let credential = credential_for(&question.address.target, at);
            let Heard { said, facts } = question.ask(&grant, at, &cancel).await;
            let read = match said {
                Ok((got, body)) => read(&asked, &got, &body, credential),
                Err(reason) if reason.code == Code::Timeout => Err(with_care(&asked, reason)),
                Err(reason) => Err(reason),
            };
            match read {
                Ok(read) => told(read, facts),
                Err(reason) => Ran::failed(reason, facts),
            }
        })
    }
}

fn credential_for(target: &Target, at: &Surroundings) -> Credential {
    let mut credentials = at.reaching().into_iter().flat_map(|reaching| &reaching.settings.credentials);
    if credentials.any(|credential| credential.to.covers(target)) {
        Credential::Added
    } else {
        Credential::None
    }
}

fn told(read: answer::Read, facts: RunFacts) -> Ran {
    match serde_json::to_value(read.structured) {
        Ok(structured) => {
            let output = Output { content: read.content, structured, ..Output::default() };
            Ran { output, findings: read.findings, facts, failure: None }
        }
        Err(error) => Ran::failed(Reason::bad_output(error.to_string()), facts),
    }
}

#[cfg(test)]
mod tests;
