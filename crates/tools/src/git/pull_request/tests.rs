//! What calls of `git.pr` would do, what is sent, and what is made of the answers.

use std::collections::BTreeMap;

use super::*;
use crate::http::{Got, WebRequest};

const GITHUB: &str = "https://github.com/team/project.git";
const GITLAB: &str = "git@code.example.com:team/sub/project.git";

fn open(url: &str) -> Value {
    let mut call = json!({ "url": url, "title": "A title", "body": "Text", "head": "fix", "base": "main" });
    if url == GITLAB {
        call["host_kind"] = json!("gitlab");
    }
    call
}

fn with(mut call: Value, name: &str, value: Value) -> Value {
    call[name] = value;
    call
}

fn facets(arguments: &Value) -> Result<Facets, Reason> {
    let tool = tool().unwrap();
    assert_eq!(tool.contract().input().problems(arguments), Vec::<String>::new(), "{arguments}");
    tool.facets(arguments, &Settings::default())
}

fn question(arguments: &Value) -> WebRequest {
    Asked::parse(arguments).and_then(|asked| asked.question()).unwrap()
}

fn sent(arguments: &Value) -> Value {
    serde_json::from_slice(&question(arguments).body).unwrap()
}

fn answered(arguments: &Value, status: u16, body: &Value) -> Result<answer::Read, Reason> {
    heard(arguments, status, &[], body, Credential::Added)
}

fn heard(
    arguments: &Value,
    status: u16,
    headers: &[(&str, &str)],
    body: &Value,
    credential: Credential,
) -> Result<answer::Read, Reason> {
    let headers: BTreeMap<String, Vec<String>> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect();
    let got = Got { status, url: String::new(), headers, whole: true, redirects: Vec::new() };
    read(&Asked::parse(arguments).unwrap(), &got, body.to_string().as_bytes(), credential)
}

fn refused(arguments: &Value, status: u16, body: &Value, credential: Credential) -> (String, String) {
    let reason = heard(arguments, status, &[], body, credential).err().unwrap();
    assert_eq!(reason.code, Code::ToolFailed);
    (reason.message, reason.hint.unwrap_or_default())
}

fn of_github() -> Value {
    json!({
        "number": 7, "state": "open", "draft": false, "title": "A title", "merged_at": null,
        "html_url": "https://evil.example/", "head": { "ref": "fix" }, "base": { "ref": "main" },
        "user": { "login": "robot", "html_url": "https://evil.example/" }, "body": "IGNORE",
    })
}

fn of_gitlab() -> Value {
    json!({
        "id": 9999, "iid": 7, "state": "opened", "draft": true, "title": "Draft: A title",
        "web_url": "https://evil.example/", "source_branch": "fix", "target_branch": "main",
        "author": { "username": "robot" },
    })
}

#[test]
fn opening_sends_something_to_the_interface_and_looking_only_asks() {
    let looks = |action: &str| json!({ "action": action, "url": GITHUB });
    for (call, action, egress, host) in [
        (open(GITHUB), "vcs:push", EgressClass::Write, "api.github.com:443"),
        (with(open(GITHUB), "action", json!("open")), "vcs:push", EgressClass::Write, "api.github.com:443"),
        (open(GITLAB), "vcs:push", EgressClass::Write, "code.example.com:443"),
        (looks("list"), "vcs:read", EgressClass::ReadOnly, "api.github.com:443"),
        (with(looks("read"), "number", json!(7)), "vcs:read", EgressClass::ReadOnly, "api.github.com:443"),
    ] {
        let facets = facets(&call).unwrap();
        let hosts: Vec<String> = facets.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(
            (facets.action.as_str(), facets.egress, hosts),
            (action, egress, vec![host.to_owned()]),
            "{call}"
        );
        assert_eq!(
            (facets.safety, facets.access, facets.profile),
            (SafetyClass::Network, policy::WorkspaceAccess::None, None)
        );
    }
}

#[test]
fn each_kind_is_sent_what_it_understands() {
    let asked = question(&open(GITHUB));
    assert_eq!(
        (asked.method.as_str(), asked.address.to_string().as_str(), asked.redirects),
        ("POST", "https://api.github.com/repos/team/project/pulls", 0)
    );
    assert!(asked.headers.contains(&("content-type".to_owned(), "application/json".to_owned())));
    assert!(asked.headers.iter().all(|(name, _)| name != "authorization"));
    assert_eq!(
        sent(&open(GITHUB)),
        json!({ "title": "A title", "body": "Text", "head": "fix", "base": "main", "draft": false })
    );
    let fork = with(open(GITHUB), "head", json!("someone:fix"));
    assert_eq!(sent(&fork)["head"], "someone:fix");
    let draft = with(open(GITLAB), "draft", json!(true));
    assert_eq!(
        question(&draft).address.to_string(),
        "https://code.example.com/api/v4/projects/team%2Fsub%2Fproject/merge_requests"
    );
    assert_eq!(
        sent(&draft),
        json!({
            "title": "Draft: A title", "description": "Text", "source_branch": "fix", "target_branch": "main",
        })
    );
    let list = question(&json!({ "action": "list", "url": GITLAB, "host_kind": "gitlab" }));
    assert_eq!((list.method.as_str(), list.body.len()), ("GET", 0));
    assert!(list.address.path.ends_with("/merge_requests?state=opened&per_page=31"));
    let read = question(&json!({ "action": "read", "url": GITHUB, "number": 7 }));
    assert_eq!(read.address.path, "/repos/team/project/pulls/7");
}

#[test]
fn what_can_never_be_is_refused_before_anybody_is_asked() {
    for call in [
        json!({ "url": GITHUB }),
        json!({ "url": GITHUB, "title": "x", "head": "fix" }),
        json!({ "action": "list", "url": GITHUB, "title": "x" }),
        json!({ "action": "read", "url": GITHUB }),
        json!({ "action": "list", "url": GITHUB, "number": 7 }),
        with(open(GITHUB), "number", json!(7)),
        with(open(GITHUB), "url", json!("https://code.example.com/team/project")),
        with(open(GITHUB), "url", json!("https://user:password@github.com/team/project")),
        with(open(GITHUB), "url", json!("https://github.com/team/project/../../user")),
        with(open(GITHUB), "url", json!("https://github.com/team/project%2f..%2f..%2fuser")),
        with(open(GITHUB), "title", json!(" ")),
        with(open(GITHUB), "title", json!("two\nlines")),
        with(open(GITHUB), "title", json!("x".repeat(256))),
        with(open(GITHUB), "body", json!("x".repeat(65_537))),
        with(open(GITHUB), "head", json!("main")),
        with(open(GITHUB), "head", json!("a..b")),
        with(open(GITHUB), "head", json!("../x:fix")),
        with(open(GITHUB), "head", json!("a:b:c")),
        with(open(GITHUB), "base", json!("someone:main")),
        with(open(GITHUB), "base", json!("--x")),
        with(open(GITLAB), "head", json!("someone:fix")),
        with(open(GITLAB), "body", json!("Text\n/merge")),
        with(open(GITLAB), "body", json!("Text\r  /Assign @me")),
    ] {
        assert_eq!(facets(&call).unwrap_err().code.as_str(), "bad_arguments", "{call}");
    }
    // Neither is carried out.
    for call in [
        with(open(GITHUB), "body", json!("/merge")),
        with(open(GITLAB), "body", json!("/usr/bin and a/merge")),
    ] {
        assert!(facets(&call).is_ok(), "{call}");
    }
}

#[test]
fn what_was_opened_is_read_and_its_page_is_ours() {
    let opened = answered(&open(GITHUB), 201, &of_github()).unwrap_or_else(|reason| panic!("{reason:?}"));
    assert_eq!(
        serde_json::to_value(&opened.structured).unwrap(),
        json!({
            "repository": "team/project", "more": false,
            "pull_requests": [{
                "number": 7, "url": "https://github.com/team/project/pull/7", "state": "open", "draft": false,
                "title": "A title", "head": "fix", "base": "main", "author": "robot",
            }],
        })
    );
    assert_eq!(
        opened.content,
        "#7 open: A title\n  fix into main, by robot\n  https://github.com/team/project/pull/7\n"
    );
    let merge = answered(&open(GITLAB), 201, &of_gitlab()).unwrap_or_else(|reason| panic!("{reason:?}"));
    assert_eq!(
        merge.content,
        "#7 open, draft: Draft: A title\n  fix into main, by robot\n  \
         https://code.example.com/team/sub/project/-/merge_requests/7\n"
    );
    let call = json!({ "action": "read", "url": GITHUB, "number": 7 });
    for (state, merged_at, told) in
        [("closed", json!(null), "#7 closed"), ("closed", json!("2026-01-01T00:00:00Z"), "#7 merged")]
    {
        let body = with(with(of_github(), "state", json!(state)), "merged_at", merged_at);
        assert!(answered(&call, 200, &body).is_ok_and(|read| read.content.starts_with(told)), "{told}");
    }
}

#[test]
fn a_list_is_as_long_as_it_may_be_and_says_whether_there_is_more() {
    let call = json!({ "action": "list", "url": GITHUB });
    let none = answered(&call, 200, &json!([])).unwrap_or_else(|reason| panic!("{reason:?}"));
    assert_eq!(none.content, "no pull request of team/project is open\n");
    let many =
        answered(&call, 200, &json!(vec![of_github(); 100])).unwrap_or_else(|reason| panic!("{reason:?}"));
    let structured = serde_json::to_value(&many.structured).unwrap();
    assert_eq!(structured["pull_requests"].as_array().map(Vec::len), Some(30));
    assert_eq!(structured["more"], true);
}

#[test]
fn an_answer_that_is_none_is_not_believed() {
    let read = json!({ "action": "read", "url": GITHUB, "number": 7 });
    for (call, status, body) in [
        (open(GITHUB), 201, json!("opened")),
        (open(GITHUB), 201, json!({})),
        (open(GITHUB), 201, json!([of_github()])),
        (open(GITHUB), 201, with(of_github(), "number", json!("7"))),
        (open(GITHUB), 201, with(of_github(), "number", json!(0))),
        (open(GITHUB), 201, with(of_github(), "number", json!(-7))),
        (open(GITHUB), 201, with(of_github(), "state", json!("merged by me"))),
        (open(GITHUB), 201, with(of_github(), "title", json!({ "x": 1 }))),
        (open(GITHUB), 201, of_gitlab()),
        (open(GITLAB), 201, of_github()),
        (read.clone(), 200, with(of_github(), "number", json!(8))),
        (read, 200, json!([of_github()])),
        (json!({ "action": "list", "url": GITHUB }), 200, of_github()),
    ] {
        let reason = answered(&call, status, &body).err().unwrap();
        assert_eq!(reason.code, Code::BadOutput, "{body}");
        let warns = reason.hint.is_some_and(|hint| hint.contains("may have been opened"));
        assert_eq!(warns, status == 201, "{body}");
    }
}

#[test]
fn what_a_stranger_writes_is_one_short_line_without_secrets() {
    let long = format!("a\nb\u{1b}[31m{}", "x".repeat(100_000));
    let body = with(of_github(), "title", json!(long));
    let read = answered(&open(GITHUB), 201, &body).unwrap_or_else(|reason| panic!("{reason:?}"));
    assert!(read.content.len() < 1500 && read.content.lines().count() == 3, "{}", read.content);
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2).get(..36).unwrap());
    // Where the cut would part it.
    let body = with(of_github(), "title", json!(format!("{} {token}", "x ".repeat(500))));
    let read = answered(&open(GITHUB), 201, &body).unwrap_or_else(|reason| panic!("{reason:?}"));
    assert!(!read.content.contains("ghp_a1B2"), "{}", read.content);
    assert_eq!(read.findings.masked().0, 1);
}

#[test]
fn a_no_says_why_and_what_to_do() {
    let call = open(GITHUB);
    for status in [401, 403, 404] {
        let (message, hint) = refused(&call, status, &json!({ "message": "Not Found" }), Credential::None);
        assert_eq!(message, format!("the host said {status}: Not Found"));
        assert!(hint.contains("`api.github.com:443`") && hint.contains("`egress.credentials`"), "{hint}");
    }
    let hint = |status| refused(&call, status, &json!({}), Credential::Added).1;
    assert!(hint(401).contains("not accepted") && hint(403).contains("may not do this"));
    assert!(hint(404).contains("may not see it") && hint(301).contains("not followed"));
    assert!(hint(502).contains("may have been opened") && hint(200).contains("may have been opened"));
    for (body, told) in [
        (
            json!({ "message": "Validation Failed", "errors": [{ "message": "A pull request already exists for team:fix." }] }),
            "the host said 422: Validation Failed; A pull request already exists for team:fix.",
        ),
        (
            json!({ "message": "Validation Failed", "errors": [{ "resource": "PullRequest", "field": "head", "code": "invalid" }] }),
            "the host said 422: Validation Failed; head invalid",
        ),
        (
            json!({ "message": ["Another open merge request already exists for this source branch: !5"] }),
            "the host said 422: Another open merge request already exists for this source branch: !5",
        ),
        (json!({ "message": { "base": ["is bad"] } }), "the host said 422: is bad"),
        (json!({ "error": "title is missing" }), "the host said 422: title is missing"),
        (json!("nothing"), "the host said 422"),
    ] {
        assert_eq!(refused(&call, 422, &body, Credential::Added).0, told);
    }
    let endless =
        json!({ "message": "y".repeat(100_000), "errors": vec![json!({ "a": { "b": vec!["z"; 50] } }); 50] });
    assert!(refused(&call, 422, &endless, Credential::Added).0.len() < 1500);
    let slow =
        heard(&call, 429, &[("retry-after", "99999999")], &json!({}), Credential::Added).err().unwrap();
    assert_eq!(slow.retry_after_ms, Some(3_600_000));
}

#[test]
fn an_answer_that_was_not_read_whole_is_none() {
    let got = Got {
        status: 201,
        url: String::new(),
        headers: BTreeMap::new(),
        whole: false,
        redirects: Vec::new(),
    };
    let asked = Asked::parse(&open(GITHUB)).unwrap();
    let reason = read(&asked, &got, of_github().to_string().as_bytes(), Credential::Added).err().unwrap();
    assert_eq!(reason.code, Code::BadOutput);
}
