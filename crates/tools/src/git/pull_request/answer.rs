//! What the interface's answer means. It is a stranger's: a few fields are taken from it, each of its kind and cut, and no address.

use clean::{Findings, clean_text};
use contract::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::input::{Asked, MOST_LISTED, What};
use super::project::{HostKind, Project};
use crate::http::Got;
use crate::path::shown;

/// As many bytes as are kept of a title, and of a name.
const LONGEST_TITLE: usize = 1024;
const LONGEST_NAME: usize = 256;
/// As many of an interface's complaints as are told.
const MOST_COMPLAINTS: usize = 5;
/// No host is waited for longer than an hour.
const LONGEST_WAIT: u64 = 3600;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullRequestOutput {
    /// The repository, such as `team/project`.
    repository: String,
    /// The one that was opened or read, or those that are open, the newest first.
    pull_requests: Vec<PullRequest>,
    /// Whether there are more that are open than are listed here.
    more: bool,
}

/// One pull request, or merge request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullRequest {
    /// Its number in the repository.
    number: u64,
    /// Its page.
    url: String,
    /// What has become of it.
    state: State,
    /// Whether it is a draft.
    draft: bool,
    /// Its title.
    title: String,
    /// The branch with the changes.
    head: String,
    /// The branch that they are for.
    base: String,
    /// Who opened it, by the host's name for them.
    author: String,
}

/// What has become of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It can be merged or closed.
    Open,
    /// It was closed, and not merged.
    Closed,
    /// It was merged.
    Merged,
    /// It is being merged.
    Locked,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Closed => "closed",
            State::Merged => "merged",
            State::Locked => "locked",
        }
    }
}

/// What is taken of a pull request of GitHub's.
#[derive(Deserialize)]
struct GithubPullRequest {
    number: u64,
    state: String,
    merged_at: Option<String>,
    #[serde(default)]
    draft: bool,
    title: String,
    head: GithubBranch,
    base: GithubBranch,
    user: Option<GithubUser>,
}

#[derive(Deserialize)]
struct GithubBranch {
    #[serde(rename = "ref")]
    name: String,
}

#[derive(Deserialize)]
struct GithubUser {
    login: String,
}

/// What is taken of a merge request of GitLab's.
#[derive(Deserialize)]
struct GitlabMergeRequest {
    iid: u64,
    state: String,
    #[serde(default)]
    draft: bool,
    title: String,
    source_branch: String,
    target_branch: String,
    author: Option<GitlabUser>,
}

#[derive(Deserialize)]
struct GitlabUser {
    username: String,
}

/// What a call gives.
pub(super) struct Read {
    pub(super) structured: PullRequestOutput,
    pub(super) content: String,
    pub(super) findings: Findings,
}

/// Whether the gate adds a credential for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    Added,
    None,
}

/// Reads an answer, or says why it is none.
pub(super) fn read(asked: &Asked, got: &Got, body: &[u8], credential: Credential) -> Result<Read, Reason> {
    let expected = if asked.reads() { 200 } else { 201 };
    if got.status != expected {
        return Err(refusal(asked, got, body, credential));
    }
    if !got.whole {
        return Err(odd(asked, "is longer than what is read of one"));
    }
    let not_understood = |_| odd(asked, "is not understood");
    let mut findings = Findings::default();
    let mut pull_requests = match asked.what {
        What::List => match asked.project.kind {
            HostKind::Github => {
                let all: Vec<GithubPullRequest> = serde_json::from_slice(body).map_err(not_understood)?;
                let told = all.into_iter().take(MOST_LISTED + 1);
                told.map(|one| of_github(&asked.project, one, &mut findings)).collect::<Option<Vec<_>>>()
            }
            HostKind::Gitlab => {
                let all: Vec<GitlabMergeRequest> = serde_json::from_slice(body).map_err(not_understood)?;
                let told = all.into_iter().take(MOST_LISTED + 1);
                told.map(|one| of_gitlab(&asked.project, one, &mut findings)).collect()
            }
        },
        What::Open(_) | What::Read(_) => match asked.project.kind {
            HostKind::Github => {
                let one = serde_json::from_slice(body).map_err(not_understood)?;
                of_github(&asked.project, one, &mut findings).map(|one| vec![one])
            }
            HostKind::Gitlab => {
                let one = serde_json::from_slice(body).map_err(not_understood)?;
                of_gitlab(&asked.project, one, &mut findings).map(|one| vec![one])
            }
        },
    }
    .ok_or_else(|| odd(asked, "is not understood"))?;
    if let What::Read(number) = asked.what
        && pull_requests.iter().any(|one| one.number != number)
    {
        return Err(odd(asked, "is about another pull request"));
    }
    let more = pull_requests.len() > MOST_LISTED;
    pull_requests.truncate(MOST_LISTED);
    let structured = PullRequestOutput { repository: asked.project.to_string(), pull_requests, more };
    let content = told(asked, &structured);
    Ok(Read { structured, content, findings })
}

fn of_github(project: &Project, one: GithubPullRequest, findings: &mut Findings) -> Option<PullRequest> {
    let state = match (one.state.as_str(), one.merged_at) {
        ("open", _) => State::Open,
        ("closed", None) => State::Closed,
        ("closed", Some(_)) => State::Merged,
        _ => return None,
    };
    let author = one.user.map(|user| user.login).unwrap_or_default();
    let mut line = |text: &str, most| one_line(text, most, findings);
    (one.number > 0).then(|| PullRequest {
        number: one.number,
        url: project.page(one.number),
        state,
        draft: one.draft,
        title: line(&one.title, LONGEST_TITLE),
        head: line(&one.head.name, LONGEST_NAME),
        base: line(&one.base.name, LONGEST_NAME),
        author: line(&author, LONGEST_NAME),
    })
}

fn of_gitlab(project: &Project, one: GitlabMergeRequest, findings: &mut Findings) -> Option<PullRequest> {
    let state = match one.state.as_str() {
        "opened" => State::Open,
        "closed" => State::Closed,
        "merged" => State::Merged,
        "locked" => State::Locked,
        _ => return None,
    };
    let author = one.author.map(|author| author.username).unwrap_or_default();
    let mut line = |text: &str, most| one_line(text, most, findings);
    (one.iid > 0).then(|| PullRequest {
        number: one.iid,
        url: project.page(one.iid),
        state,
        draft: one.draft,
        title: line(&one.title, LONGEST_TITLE),
        head: line(&one.source_branch, LONGEST_NAME),
        base: line(&one.target_branch, LONGEST_NAME),
        author: line(&author, LONGEST_NAME),
    })
}

/// Clean before it is cut: half a credential is not known for one.
fn one_line(text: &str, most: usize, findings: &mut Findings) -> String {
    let clean = clean_text(text, most);
    findings.absorb(clean.findings);
    let line: String = clean.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.cut { format!("{line}…") } else { line }
}

fn told(asked: &Asked, output: &PullRequestOutput) -> String {
    let lines: String = output
        .pull_requests
        .iter()
        .map(|one| {
            let PullRequest { number, url, title, head, base, author, .. } = one;
            let state = one.state.as_str();
            let draft = if one.draft { ", draft" } else { "" };
            let by = if author.is_empty() { String::new() } else { format!(", by {author}") };
            format!("#{number} {state}{draft}: {title}\n  {head} into {base}{by}\n  {url}\n")
        })
        .collect();
    let more = if output.more { "… there are more that are open\n" } else { "" };
    match asked.what {
        What::List if output.pull_requests.is_empty() => {
            format!("no pull request of {} is open\n", output.repository)
        }
        _ => format!("{lines}{more}"),
    }
}

/// Why an answer is of no use. What it answers may have happened all the same.
fn odd(asked: &Asked, why: &str) -> Reason {
    with_care(asked, Reason::bad_output(format!("the host's answer {why}")))
}

/// The same, with what to do before anything is sent again.
pub(super) fn with_care(asked: &Asked, reason: Reason) -> Reason {
    if asked.reads() {
        return reason;
    }
    reason.with_hint("it may have been opened: say `action`: `list` to see whether it is there")
}

/// Why the host said no.
fn refusal(asked: &Asked, got: &Got, body: &[u8], credential: Credential) -> Reason {
    let status = got.status;
    let complaints = complaints_in(body);
    let said = if complaints.is_empty() { String::new() } else { format!(": {complaints}") };
    let reason = Reason::tool_failed(format!("the host said {status}{said}"));
    let place = asked.project.address("").map(|address| address.target.to_string()).unwrap_or_default();
    let waits = got.headers.get("retry-after").and_then(|values| values.first()?.parse::<u64>().ok());
    match status {
        300..=399 => Reason::tool_failed(format!("the host said {status}, and leads elsewhere"))
            .with_hint("redirects are not followed; if the repository has moved, give its new address"),
        401 | 403 | 404 if credential == Credential::None => reason.with_hint(format!(
            "the gate adds no credential for `{place}`; whoever runs it can name one in `egress.credentials`"
        )),
        401 => reason
            .with_hint(format!("the credential that `egress.credentials` has for `{place}` is not accepted")),
        403 if waits.is_none() => reason
            .with_hint(format!("the credential that `egress.credentials` has for `{place}` may not do this")),
        404 => reason.with_hint(
            "there is no such repository or pull request, or the gate's credential may not see it",
        ),
        403 | 429 => {
            let wait = waits.unwrap_or(60).min(LONGEST_WAIT);
            reason.retry_after(wait * 1000).with_hint("the host wants to be asked less often")
        }
        400 | 409 | 422 => {
            reason.with_hint("both branches have to be there, differ, and have no other open pull request")
        }
        500..=599 | 200..=299 => with_care(asked, reason),
        _ => reason,
    }
}

/// What an answer complains of: `message` and `error`, with what stands in `errors`, in the ways of both kinds.
fn complaints_in(body: &[u8]) -> String {
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else { return String::new() };
    let mut texts = Vec::new();
    for name in ["message", "error", "error_description", "errors"] {
        if let Some(value) = body.get(name) {
            collect(value, 0, &mut texts);
        }
    }
    texts.dedup();
    texts.truncate(MOST_COMPLAINTS);
    texts.join("; ")
}

fn collect(value: &Value, depth: usize, texts: &mut Vec<String>) {
    if depth > 3 || texts.len() >= MOST_COMPLAINTS {
        return;
    }
    match value {
        Value::String(text) => texts.push(shown(text)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, depth + 1, texts)),
        Value::Object(fields) => match (fields.get("message"), fields.get("field"), fields.get("code")) {
            (Some(message), ..) => collect(message, depth + 1, texts),
            (None, Some(Value::String(field)), Some(Value::String(code))) => {
                texts.push(format!("{} {}", shown(field), shown(code)));
            }
            _ => fields.values().for_each(|value| collect(value, depth + 1, texts)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
