//! What calls of `git.*` would do, and what can never be done.

use policy::{Settings, WorkspaceAccess};
use serde_json::json;

use super::*;

fn facets(tool: &str, arguments: Value) -> Result<Facets, Reason> {
    let tools = all().unwrap();
    let tool = tools.iter().find(|candidate| candidate.contract().name().as_str() == tool).unwrap();
    assert_eq!(tool.contract().input().problems(&arguments), Vec::<String>::new());
    tool.facets(&arguments, &Settings::default())
}

#[test]
fn every_call_says_what_it_would_do() {
    use WorkspaceAccess::{Read, Write};
    let cases = [
        ("git.status", json!({}), "vcs:read", Read),
        ("git.diff", json!({ "from": "HEAD~1" }), "vcs:read", Read),
        ("git.log", json!({}), "vcs:read", Read),
        ("git.show", json!({ "path": "a" }), "vcs:read", Read),
        ("git.branch", json!({}), "vcs:read", Read),
        ("git.branch", json!({ "create": "x" }), "vcs:branch", Write),
        ("git.branch", json!({ "delete": "x" }), "vcs:branch", Write),
        ("git.checkout", json!({ "branch": "x" }), "vcs:branch", Write),
        ("git.commit", json!({ "message": "see http://169.254.169.254/" }), "vcs:commit", Write),
    ];
    for (tool, arguments, action, access) in cases {
        let facets = facets(tool, arguments.clone()).unwrap();
        assert_eq!((facets.action.as_str(), facets.access), (action, access), "{tool} {arguments}");
        assert_eq!((facets.egress, facets.hosts), (EgressClass::None, Vec::new()), "{tool}");
        let safety = if access == Read { SafetyClass::Read } else { SafetyClass::Write };
        assert_eq!(facets.safety, safety, "{tool} {arguments}");
        assert!(facets.commands.iter().all(|command| command.name == "git" && command.starts.is_empty()));
    }
}

#[test]
fn what_reaches_another_host_names_it() {
    use EgressClass::{ReadOnly, Write};
    let cases = [
        (
            "git.clone",
            json!({ "url": "https://Example.com/a/b.git" }),
            "vcs:read",
            ReadOnly,
            "example.com:443",
        ),
        (
            "git.clone",
            json!({ "url": "git@example.com:a/b.git", "depth": 1 }),
            "vcs:read",
            ReadOnly,
            "example.com:22",
        ),
        ("git.fetch", json!({ "url": "ssh://example.com:2222/a" }), "vcs:read", ReadOnly, "example.com:2222"),
        (
            "git.push",
            json!({ "url": "https://example.com/a", "branch": "x" }),
            "vcs:push",
            Write,
            "example.com:443",
        ),
    ];
    for (tool, arguments, action, egress, target) in cases {
        let facets = facets(tool, arguments.clone()).unwrap();
        let hosts: Vec<String> = facets.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(
            (facets.action.as_str(), facets.egress, hosts),
            (action, egress, vec![target.to_owned()]),
            "{tool}"
        );
        assert_eq!((facets.safety, facets.access), (SafetyClass::Network, WorkspaceAccess::Write), "{tool}");
    }
}

#[test]
fn what_can_never_be_is_refused_before_anybody_is_asked() {
    let cases = [
        ("git.status", json!({ "repository": "../x" }), "outside"),
        ("git.status", json!({ "repository": ".ssh" }), "protected"),
        ("git.status", json!({ "paths": [".env"] }), "protected"),
        ("git.diff", json!({ "from": "--output=x" }), "bad_arguments"),
        ("git.diff", json!({ "from": "a..b" }), "bad_arguments"),
        ("git.diff", json!({ "to": "HEAD" }), "bad_arguments"),
        ("git.diff", json!({ "paths": ["/etc"] }), "outside"),
        ("git.log", json!({ "revision": "-p" }), "bad_arguments"),
        ("git.show", json!({ "revision": "HEAD:.env" }), "bad_arguments"),
        ("git.show", json!({ "path": ".env" }), "protected"),
        ("git.show", json!({ "path": "../x" }), "outside"),
        ("git.branch", json!({ "create": "-D" }), "bad_arguments"),
        ("git.branch", json!({ "create": "a", "delete": "b" }), "bad_arguments"),
        ("git.checkout", json!({}), "bad_arguments"),
        ("git.checkout", json!({ "branch": "a", "commit": "b" }), "bad_arguments"),
        ("git.commit", json!({ "message": "x", "paths": ["server.key"] }), "protected"),
        ("git.clone", json!({ "url": "ext::sh" }), "bad_arguments"),
        ("git.clone", json!({ "url": "https://a.example/.git" }), "bad_arguments"),
        ("git.clone", json!({ "url": "https://a.example/b", "directory": "../b" }), "outside"),
        ("git.clone", json!({ "url": "https://a.example/b", "directory": ".ssh" }), "protected"),
        ("git.fetch", json!({ "url": "origin" }), "bad_arguments"),
        ("git.fetch", json!({ "url": "https://a.example/b", "remote": "-x" }), "bad_arguments"),
        ("git.push", json!({ "url": "https://a.example/b", "branch": ":x" }), "bad_arguments"),
        ("git.push", json!({ "url": "https://a.example/b", "branch": "*" }), "bad_arguments"),
        (
            "git.commit",
            json!({ "message": "x", "author": { "name": "a\nb", "email": "c" } }),
            "bad_arguments",
        ),
    ];
    for (tool, arguments, code) in cases {
        assert_eq!(facets(tool, arguments.clone()).unwrap_err().code.as_str(), code, "{tool} {arguments}");
    }
}
