//! What goes into `git.pr`, and the question that it is.

use contract::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::project::{HostKind, Project, is_segment};
use crate::git::names::Branch;
use crate::http::WebRequest;
use crate::path::shown;

/// As many as are listed.
pub(super) const MOST_LISTED: usize = 30;
/// What the stricter of the two kinds takes.
const LONGEST_TITLE: usize = 255;
const LONGEST_BODY: usize = 65_536;
/// A page of pull requests is long: each says all about its repositories.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const TIMEOUT_MS: u64 = 30_000;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PullRequestInput {
    /// What to do: `open` one (the default), `read` one, or `list` those that are open.
    #[serde(default)]
    action: Deed,
    /// The repository's address: `https://…`, `ssh://…` or `user@host:path`, without a password.
    url: String,
    /// Whose interface the host speaks: `github` or `gitlab`. Known for `github.com` and `gitlab.com`; for others it has to be
    /// said.
    host_kind: Option<HostKind>,
    /// To open one: its title, one line.
    title: Option<String>,
    /// To open one: what it is about, in Markdown.
    body: Option<String>,
    /// To open one: the branch with the changes, which is there already (`git.push` brings it there). For GitHub also
    /// `owner:branch`, for a branch of a fork.
    head: Option<String>,
    /// To open one: the branch that they are for, such as `main`.
    base: Option<String>,
    /// To open one: whether it is a draft. The default is no.
    draft: Option<bool>,
    /// To read one: its number.
    #[schemars(range(min = 1))]
    number: Option<u64>,
}

/// What is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Deed {
    /// Open one.
    #[default]
    Open,
    /// Read one.
    Read,
    /// List those that are open.
    List,
}

/// What a call asks for.
pub(super) struct Asked {
    pub(super) project: Project,
    pub(super) what: What,
}

pub(super) enum What {
    /// To open one, with this for the interface.
    Open(Value),
    Read(u64),
    List,
}

impl Asked {
    pub(super) fn parse(arguments: &Value) -> Result<Asked, Reason> {
        let input = PullRequestInput::deserialize(arguments)
            .map_err(|error| Reason::bad_arguments(error.to_string()))?;
        let project = Project::parse(&input.url, input.host_kind)?;
        let opens = input.title.is_some()
            || input.body.is_some()
            || input.head.is_some()
            || input.base.is_some()
            || input.draft.is_some();
        let what = match (input.action, input.number) {
            (Deed::Open, None) => What::Open(opening(project.kind, &input)?),
            (Deed::Read, Some(number)) if !opens && number > 0 => What::Read(number),
            (Deed::List, None) if !opens => What::List,
            _ => {
                let why =
                    "`open` takes `title`, `head` and `base`, `read` takes `number`, `list` takes neither";
                return Err(Reason::bad_arguments(why));
            }
        };
        Ok(Asked { project, what })
    }

    /// Whether it only asks.
    pub(super) fn reads(&self) -> bool {
        !matches!(self.what, What::Open(_))
    }

    pub(super) fn question(&self) -> Result<WebRequest, Reason> {
        let page = MOST_LISTED + 1;
        let (method, rest, body) = match (&self.what, self.project.kind) {
            (What::Open(body), _) => ("POST", String::new(), Some(body)),
            (What::Read(number), _) => ("GET", format!("/{number}"), None),
            (What::List, HostKind::Github) => ("GET", format!("?state=open&per_page={page}"), None),
            (What::List, HostKind::Gitlab) => ("GET", format!("?state=opened&per_page={page}"), None),
        };
        let mut headers = vec![("user-agent", "toolgate")];
        match self.project.kind {
            HostKind::Github => headers
                .extend([("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")]),
            HostKind::Gitlab => headers.push(("accept", "application/json")),
        }
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        Ok(WebRequest {
            until: None,
            method: method.to_owned(),
            address: self.project.address(&rest)?,
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            // ATTACK(redirected-pull-request): an answer does not say to whom it is sent instead.
            redirects: 0,
            max_bytes: MAX_BYTES,
            timeout_ms: TIMEOUT_MS,
        })
    }
}

/// What the interface is sent to open one.
fn opening(kind: HostKind, input: &PullRequestInput) -> Result<Value, Reason> {
    let (Some(title), Some(head), Some(base)) = (&input.title, &input.head, &input.base) else {
        return Err(Reason::bad_arguments("to open a pull request takes `title`, `head` and `base`")
            .with_hint("to look at those that are there, say `action`: `list` or `read`"));
    };
    let title = checked_title(title)?;
    let body = checked_body(kind, input.body.as_deref().unwrap_or_default())?;
    let (head, base) = (checked_head(kind, head)?, Branch::parse(base)?);
    if head == base.as_str() {
        return Err(Reason::bad_arguments("`head` and `base` are the same branch"));
    }
    let draft = input.draft.unwrap_or(false);
    Ok(match kind {
        HostKind::Github => {
            json!({ "title": title, "body": body, "head": head, "base": base.as_str(), "draft": draft })
        }
        HostKind::Gitlab => {
            // There it is the title that says so.
            let title = if draft { format!("Draft: {title}") } else { title.to_owned() };
            json!({
                "title": title, "description": body, "source_branch": head, "target_branch": base.as_str(),
            })
        }
    })
}

fn checked_title(text: &str) -> Result<&str, Reason> {
    if text.trim().is_empty() || text.chars().count() > LONGEST_TITLE || text.contains(char::is_control) {
        return Err(Reason::bad_arguments("a title is one line of at most 255 characters, and not empty"));
    }
    Ok(text)
}

fn checked_body(kind: HostKind, text: &str) -> Result<&str, Reason> {
    if text.chars().count() > LONGEST_BODY {
        return Err(Reason::bad_arguments("what a pull request is about takes at most 65536 characters"));
    }
    // What one reader takes for the end of a line, another leaves out.
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.replace("\r\n", "\n").contains(is_odd) {
        return Err(Reason::bad_arguments("`body` holds a control character")
            .with_hint("lines end with a line feed, with or without a carriage return before it"));
    }
    match text.split(['\n', '\r']).find_map(command_in) {
        Some(word) if kind == HostKind::Gitlab => {
            let why = format!("a line of `body` is `/{}`, which the host would carry out", shown(word));
            Err(Reason::bad_arguments(why).with_hint("put something before it, such as a word or a quote"))
        }
        _ => Ok(text),
    }
}

/// ATTACK(command-in-a-body): GitLab carries out lines such as `/merge` of what it is told to say, and with the rights of
/// whoever says it, which is the gate.
fn command_in(line: &str) -> Option<&str> {
    let word = line.trim_start().strip_prefix('/')?.split(char::is_whitespace).next()?;
    let is_command = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_command.then_some(word)
}

/// A branch, or one of somebody's fork.
fn checked_head(kind: HostKind, text: &str) -> Result<&str, Reason> {
    let branch = match text.split_once(':') {
        Some((owner, branch)) if kind == HostKind::Github && is_segment(owner) => branch,
        _ => text,
    };
    Branch::parse(branch)?;
    Ok(text)
}
