//! Pull requests of the world's web servers, in the ways of GitHub and of GitLab.
//!
//! They answer as badly as they can: with whatever proved who asks, with pages elsewhere, and, for a repository that is called
//! `moved-STATUS`, with a way elsewhere.

use serde_json::{Value, json};

use super::web::header;

/// What is said to a request, if it is for one of the two interfaces.
pub(super) fn say(head: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split('?').next()?;
    let (rest, part, write): (&str, &str, fn(&Value, &str) -> Value) = match path
        .strip_prefix("/api/v4/projects/")
    {
        Some(rest) => (rest, "/merge_requests", as_gitlab),
        None => (path.strip_prefix("/api/v3").unwrap_or(path).strip_prefix("/repos/")?, "/pulls", as_github),
    };
    let (repository, number) = rest.split_once(part)?;
    if let Some((_, status)) = repository.split_once("moved-") {
        let to = "https://other.test/landed";
        return Some(
            format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        );
    }
    let sent = serde_json::from_slice(body).unwrap_or_default();
    let one = write(&sent, proof_in(head));
    let (status, said) = match (method, number) {
        ("POST", "") => ("201 Created", one),
        ("GET", "") => ("200 OK", json!([one])),
        ("GET", _) => ("200 OK", one),
        _ => ("404 Not Found", json!({ "message": "Not Found" })),
    };
    let said = said.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        said.len()
    );
    Some([head, said].concat().into_bytes())
}

/// What proved who asks, without the word before it, by which anybody would know it for that.
fn proof_in(head: &str) -> &str {
    header(head, "authorization").and_then(|value| value.split_whitespace().last()).unwrap_or("nobody")
}

fn as_github(sent: &Value, proof: &str) -> Value {
    let text = |name: &str| sent.get(name).and_then(Value::as_str).unwrap_or("something").to_owned();
    json!({
        "number": 7, "state": "open", "draft": false, "merged_at": null, "title": text("title"),
        "html_url": "https://evil.test/", "head": { "ref": text("head") }, "base": { "ref": text("base") },
        "user": { "login": proof },
    })
}

fn as_gitlab(sent: &Value, proof: &str) -> Value {
    let text = |name: &str| sent.get(name).and_then(Value::as_str).unwrap_or("something").to_owned();
    json!({
        "iid": 7, "state": "opened", "draft": false, "title": text("title"), "web_url": "https://evil.test/",
        "source_branch": text("source_branch"), "target_branch": text("target_branch"),
        "author": { "username": proof },
    })
}
