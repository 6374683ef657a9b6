//! A repository as its host's interface knows it, and where that interface is.
//!
//! # Invariants
//! - No part of a repository's name is more than one segment of a path: nothing in it is a slash, an escape, a query or a way up.
//! - Whatever the address, the interface is asked over https.

use std::fmt;

use contract::{Host, Reason, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::git::remote::Remote;
use crate::http::{Address, Scheme};
use crate::inside::Transport;
use crate::path::shown;

/// As deep as groups lie within groups.
const MOST_SEGMENTS: usize = 20;
const LONGEST_SEGMENT: usize = 255;

/// Whose interface a host speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HostKind {
    /// GitHub, or GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
}

/// A repository at its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Project {
    pub(super) kind: HostKind,
    /// Where the host shows pages.
    web: Target,
    /// The owner or the groups, and the repository.
    segments: Vec<String>,
}

impl Project {
    pub(super) fn parse(url: &str, said: Option<HostKind>) -> Result<Project, Reason> {
        let remote = Remote::parse(url)?;
        let host = remote.target().host.clone();
        let port = match remote.transport() {
            Transport::Https => remote.target().port,
            // What serves git over ssh at one port serves pages at another.
            Transport::Ssh => 443,
        };
        let kind = kind_of(&host, said)?;
        let segments = segments_of(remote.path())?;
        let fits = match kind {
            HostKind::Github => segments.len() == 2,
            HostKind::Gitlab => (2..=MOST_SEGMENTS).contains(&segments.len()),
        };
        if !fits {
            let why = format!("`{}` is not the path of a repository there", shown(remote.path()));
            return Err(Reason::bad_arguments(why).with_hint(match kind {
                HostKind::Github => "it is `owner/repository`",
                HostKind::Gitlab => "it is `group/repository`, with or without groups between",
            }));
        }
        Ok(Project { kind, web: Target { host, port }, segments })
    }

    /// What the interface is asked at: the repository's pull requests, and `rest`, which is ours.
    pub(super) fn address(&self, rest: &str) -> Result<Address, Reason> {
        let (target, path) = match (self.kind, self.web.host.name()) {
            (HostKind::Github, Some("github.com")) => {
                let host =
                    Host::parse("api.github.com").map_err(|error| Reason::internal(error.to_string()))?;
                (Target { host, port: 443 }, format!("/repos/{self}/pulls{rest}"))
            }
            (HostKind::Github, _) => (self.web.clone(), format!("/api/v3/repos/{self}/pulls{rest}")),
            (HostKind::Gitlab, _) => {
                let name = self.segments.join("%2F");
                (self.web.clone(), format!("/api/v4/projects/{name}/merge_requests{rest}"))
            }
        };
        Ok(Address { scheme: Scheme::Https, target, path })
    }

    /// The page of one pull request. It is written from what we know: what an answer says leads wherever it likes.
    pub(super) fn page(&self, number: u64) -> String {
        let path = match self.kind {
            HostKind::Github => format!("/{self}/pull/{number}"),
            HostKind::Gitlab => format!("/{self}/-/merge_requests/{number}"),
        };
        Address { scheme: Scheme::Https, target: self.web.clone(), path }.to_string()
    }
}

impl fmt::Display for Project {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.segments.join("/"))
    }
}

fn kind_of(host: &Host, said: Option<HostKind>) -> Result<HostKind, Reason> {
    let known = match host.name() {
        Some("github.com") => Some(HostKind::Github),
        Some("gitlab.com") => Some(HostKind::Gitlab),
        _ => None,
    };
    match (known, said) {
        (Some(known), Some(said)) if known != said => {
            Err(Reason::bad_arguments(format!("`{host}` is not of the kind that `host_kind` says")))
        }
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
        (None, None) => Err(Reason::bad_arguments(format!("nothing says which interface `{host}` speaks"))
            .with_hint("give `host_kind`: `github` or `gitlab`")),
    }
}

/// ATTACK(repository-as-path): `..`, `%2f`, `?` and `#` would make the name of a repository a way to something else, to which
/// the gate would add its credential.
fn segments_of(path: &str) -> Result<Vec<String>, Reason> {
    let whole = path.trim_end_matches('/');
    let segments: Vec<&str> = whole.strip_suffix(".git").unwrap_or(whole).split('/').collect();
    match segments.iter().find(|segment| !is_segment(segment)) {
        Some(odd) => {
            let why = format!("`{}` is not the name of an owner or a repository", shown(odd));
            Err(Reason::bad_arguments(why)
                .with_hint("letters, digits, `.`, `_` and `-`, such as `team/project`"))
        }
        None => Ok(segments.into_iter().map(str::to_owned).collect()),
    }
}

/// Whether a text can stand for an owner, a group or a repository.
pub(super) fn is_segment(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let is_name = text.chars().any(|c| c != '.') && !text.starts_with('-');
    is_plain && is_name && text.len() <= LONGEST_SEGMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_where_each_kind_has_it() {
        use HostKind::{Github, Gitlab};
        for (url, said, asked, page) in [
            (
                "https://github.com/team/project.git",
                None,
                "https://api.github.com/repos/team/project/pulls",
                "https://github.com/team/project/pull/7",
            ),
            (
                "git@GitHub.com:team/.github",
                Some(Github),
                "https://api.github.com/repos/team/.github/pulls",
                "https://github.com/team/.github/pull/7",
            ),
            (
                "ssh://git@code.example.com:2222/team/project/",
                Some(Github),
                "https://code.example.com/api/v3/repos/team/project/pulls",
                "https://code.example.com/team/project/pull/7",
            ),
            (
                "https://gitlab.com/team/sub/project.git",
                None,
                "https://gitlab.com/api/v4/projects/team%2Fsub%2Fproject/merge_requests",
                "https://gitlab.com/team/sub/project/-/merge_requests/7",
            ),
            (
                "https://code.example.com:8443/team/project",
                Some(Gitlab),
                "https://code.example.com:8443/api/v4/projects/team%2Fproject/merge_requests",
                "https://code.example.com:8443/team/project/-/merge_requests/7",
            ),
        ] {
            let project = Project::parse(url, said).unwrap();
            let address = project.address("").unwrap();
            assert_eq!((address.to_string().as_str(), project.page(7).as_str()), (asked, page), "{url}");
            assert_eq!(Address::parse(asked).unwrap(), address, "it crosses to the worker as it is");
        }
    }

    #[test]
    fn a_kind_that_is_not_known_has_to_be_said_and_one_that_is_known_is_not_changed() {
        let kind = |url, said| Project::parse(url, said).map(|project| project.kind).ok();
        assert_eq!(kind("https://code.example.com/a/b", None), None);
        assert_eq!(kind("https://notgithub.com/a/b", None), None);
        assert_eq!(kind("https://github.com.example.com/a/b", None), None);
        assert_eq!(kind("https://github.com/a/b", Some(HostKind::Gitlab)), None);
        assert_eq!(kind("https://gitlab.com/a/b", Some(HostKind::Github)), None);
        assert_eq!(kind("https://gitlab.com/a/b", Some(HostKind::Gitlab)), Some(HostKind::Gitlab));
    }

    #[test]
    fn the_name_of_a_repository_leads_nowhere_else() {
        for path in [
            "team",
            "team/project/more",
            "team/..",
            "../team",
            "team/..git",
            "team/...git",
            "./team",
            "team//project",
            "team/project%2fissues",
            "team/project%2F..%2F..%2Fuser",
            "team/%2e%2e",
            "team/project?state=all",
            "team/project#x",
            "team/project@x",
            "team/pro+ject",
            "team/-project",
            "~me/project",
            "team/.git",
            "team/pro ject",
            "team/project\\x",
            "team/project;x",
        ] {
            for url in [format!("https://github.com/{path}"), format!("git@github.com:{path}")] {
                let code = Project::parse(&url, None).map_err(|reason| reason.code.to_string());
                assert_eq!(code, Err("bad_arguments".to_owned()), "{url}");
            }
        }
        let deep = "a/".repeat(30);
        assert!(Project::parse(&format!("https://gitlab.com/{deep}b"), None).is_err());
        assert!(Project::parse(&format!("https://gitlab.com/a/{}", "b".repeat(256)), None).is_err());
        assert!(Project::parse("https://gitlab.com/a/b/../c", None).is_err());
    }
}
