//! The OpenAPI document: all routes are in it, it is the one in the documentation, and answers are as it says.

use serde_json::{Value, json};
use server::{CODES, ROUTES, Who, openapi};

use crate::access::wish;
use crate::client::{Response, Wish};
use crate::stub::{AGENT, OPERATOR, Server};

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

#[test]
fn the_document_that_is_checked_in_is_current() {
    let current = format!("{}\n", serde_json::to_string_pretty(&openapi()).unwrap());
    if std::env::var_os("TOOLGATE_WRITE_DOCS").is_some() {
        std::fs::write(CHECKED_IN, &current).unwrap();
    }
    let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    let hint = "`TOOLGATE_WRITE_DOCS=1 cargo test -p toolgate-server --test http openapi` writes it";
    assert!(checked_in == current, "docs/reference/openapi.json is not what the routes are now; {hint}");
}

#[test]
fn every_route_is_in_it_with_whom_it_is_for() {
    let document = openapi();
    let paths = document["paths"].as_object().unwrap();
    let told: usize = paths.values().map(|methods| methods.as_object().unwrap().len()).sum();
    assert_eq!(told, ROUTES.len());
    for (method, path, who) in ROUTES {
        let operation = &document["paths"][path][method.to_ascii_lowercase()];
        let security = operation["security"].as_array().unwrap();
        assert_eq!(security.is_empty(), *who == Who::Anyone, "{method} {path}");
        assert!(operation["responses"].as_object().unwrap().len() > 1, "{method} {path} gives nothing");
        assert_eq!(security.contains(&json!({ "agent": [] })), matches!(who, Who::Agent | Who::Either));
    }
}

/// The schema of an answer: by its status, else that of problems.
fn schema_of(document: &Value, method: &str, path: &str, answer: &Response) -> Option<Value> {
    let responses = &document["paths"][path][method.to_ascii_lowercase()]["responses"];
    let response = responses.get(answer.status.to_string()).or_else(|| responses.get("default")).unwrap();
    let content = response["content"].as_object().unwrap();
    let kind = answer.header("content-type");
    let Some(kind) = kind else {
        assert!(content.is_empty(), "{method} {path}: {content:?}");
        return None;
    };
    let told = content.get(kind).unwrap_or_else(|| panic!("{method} {path} gives {kind}: {answer:?}"));
    told.get("schema").cloned()
}

fn check(document: &Value, method: &str, path: &str, answer: &Response) {
    let Some(mut schema) = schema_of(document, method, path, answer) else { return };
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:?} {answer:?}");
}

#[tokio::test]
async fn answers_are_as_it_says() {
    let server = Server::start().await;
    let document = openapi();
    for (method, path, _) in ROUTES {
        if *path == "/v1/events" {
            continue;
        }
        let asked = wish(method, path);
        // By a name, since addresses have no passkeys.
        let asked = asked.host(&format!("localhost:{}", server.address.port()));
        for asked in [
            asked.clone(),
            asked.clone().bearer("guess"),
            asked.clone().bearer(AGENT),
            asked.clone().bearer(OPERATOR).with("X-Toolgate-Agent", "builder"),
            asked.bearer(OPERATOR),
        ] {
            check(&document, method, path, &server.ask(asked).await);
        }
    }
    for tool in ["refused.key_conflict", "waiting", "unknown"] {
        let asked = Wish::post("/v1/calls", &format!(r#"{{"tool":"{tool}"}}"#)).bearer(AGENT);
        check(&document, "POST", "/v1/calls", &server.ask(asked).await);
    }
}

#[tokio::test]
async fn it_is_served_to_anyone_and_not_twice_to_whoever_has_it() {
    let server = Server::start().await;
    let first = server.ask(Wish::get("/openapi.json")).await;
    assert_eq!((first.status, first.json()), (200, openapi()));
    let tag = first.header("etag").unwrap().to_owned();
    let again = server.ask(Wish::get("/openapi.json").with("If-None-Match", &tag)).await;
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())));
    let other = server.ask(Wish::get("/openapi.json").with("If-None-Match", "\"0\"")).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let server = Server::start().await;
    for path in ["/v1/tools", "/v1/budgets", "/v1/me", "/assets/console.js"] {
        let asked = Wish::get(path).bearer(OPERATOR).with("X-Toolgate-Agent", "builder");
        let first = server.ask(asked.clone()).await;
        let tag = first.header("etag").unwrap_or_else(|| panic!("{path}: {first:?}")).to_owned();
        let both = format!("\"x\", W/{tag}");
        for tags in [tag.as_str(), both.as_str(), "*"] {
            let again = server.ask(asked.clone().with("If-None-Match", tags)).await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path} {tags}");
        }
        // What somebody has says nothing of whether they may have it.
        if path.starts_with("/v1") {
            assert_eq!(server.ask(Wish::get(path).with("If-None-Match", &tag)).await.status, 401);
        }
    }
}

#[test]
fn every_code_of_a_problem_stands_in_the_page() {
    let page = include_str!("../../../../docs/http-api.md");
    for (code, meaning) in CODES {
        assert!(page.contains(&format!("| `{code}` | {meaning} |")), "| `{code}` | {meaning} |");
    }
}
