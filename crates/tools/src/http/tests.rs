//! What calls of `http.request` would do, and what can never be done.

use serde_json::json;

use super::*;

fn facets(arguments: Value) -> Result<Facets, Reason> {
    let settings = Settings::default();
    let tool = HttpRequest::new(&settings.egress.http).unwrap();
    assert_eq!(tool.contract().input().problems(&arguments), Vec::<String>::new());
    tool.facets(&arguments, &settings)
}

#[test]
fn the_method_says_whether_it_only_asks_and_the_url_whom() {
    for (method, action, egress) in [
        ("GET", "web:read", EgressClass::ReadOnly),
        ("HEAD", "web:read", EgressClass::ReadOnly),
        ("POST", "web:write", EgressClass::Write),
        ("OPTIONS", "web:write", EgressClass::Write),
        ("DELETE", "web:write", EgressClass::Write),
    ] {
        let facets = facets(json!({ "method": method, "url": "https://Example.com:8443/x" })).unwrap();
        let hosts: Vec<String> = facets.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(
            (facets.action.as_str(), facets.egress, hosts),
            (action, egress, vec!["example.com:8443".to_owned()])
        );
        assert_eq!((facets.access, facets.profile), (policy::WorkspaceAccess::None, None));
    }
    assert_eq!(facets(json!({ "url": "http://example.com" })).unwrap().action.as_str(), "web:read");
}

#[test]
fn what_can_never_be_is_refused_before_anybody_is_asked() {
    let url = "https://example.com/";
    for arguments in [
        json!({ "url": "https://user@example.com/" }),
        json!({ "url": "gopher://example.com/" }),
        json!({ "url": url, "method": "CONNECT" }),
        json!({ "url": url, "method": "TRACE" }),
        json!({ "url": url, "method": "get" }),
        json!({ "url": url, "method": "GET\r\nX: y" }),
        json!({ "url": url, "body": "x" }),
        json!({ "url": url, "method": "POST", "body": "%", "body_encoding": "base64" }),
        json!({ "url": url, "headers": { "Host": "other" } }),
        json!({ "url": url, "headers": { "X": "a\r\nb" } }),
    ] {
        assert_eq!(facets(arguments.clone()).unwrap_err().code.as_str(), "bad_arguments", "{arguments}");
    }
}

#[test]
fn an_answer_is_text_or_base64_and_a_long_one_is_kept() {
    let got = |whole| Got {
        status: 200,
        url: "https://example.com/".to_owned(),
        headers: [("content-type".to_owned(), vec!["text/plain".to_owned()])].into(),
        whole,
        redirects: Vec::new(),
    };
    let told = answer(got(true), b"hello".to_vec(), RunFacts::default()).output;
    assert_eq!(told.content, "200 https://example.com/\ncontent-type: text/plain\n\nhello");
    assert_eq!((&told.structured["body"], &told.structured["encoding"]), (&json!("hello"), &json!("text")));
    let odd = answer(got(false), vec![0, 255], RunFacts::default()).output;
    assert_eq!((&odd.structured["body"], &odd.structured["truncated"]), (&json!("AP8="), &json!(true)));
    let long = answer(got(true), b"line\n".repeat(10_000), RunFacts::default()).output;
    assert!(long.content.len() <= SHOWN && long.structured["truncated"] == true);
    assert_eq!(long.artifacts, [("body".to_owned(), b"line\n".repeat(10_000))]);
}
