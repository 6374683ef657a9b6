//! The page's own files.

use server::ASSETS;

use crate::client::Wish;
use crate::stub::Server;

/// What would let something from outside be more than text, or something of ours come from elsewhere.
const FORBIDDEN: [&str; 14] = [
    "https://",
    "http://",
    "style=",
    "onclick",
    "onload",
    "<style",
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "DOMParser",
    "setAttribute(\"on",
    "new Function",
    "eval(",
];

#[tokio::test]
async fn the_page_is_made_of_our_own_files_and_nothing_inline() {
    let server = Server::start().await;
    let assets = ASSETS.iter().map(|(name, kind, _)| (format!("/assets/{name}"), *kind));
    for (path, kind) in [("/".to_owned(), "text/html; charset=utf-8")].into_iter().chain(assets) {
        let answer = server.ask(Wish::get(&path)).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        let outside = answer.body.replace("http://www.w3.org/2000/svg", "");
        for forbidden in FORBIDDEN {
            assert!(!outside.contains(forbidden), "{path} has `{forbidden}`");
        }
    }
    let unknown = server.ask(Wish::get("/assets/console.html")).await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "not_found"));
    let html = server.ask(Wish::get("/")).await.body;
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("<script src=\"/assets/console.js\" type=\"module\"></script>"));
}

#[tokio::test]
async fn every_file_that_a_file_names_is_there_and_none_is_long() {
    for (name, kind, text) in ASSETS {
        assert!(text.lines().count() <= 400, "{name} has {} lines", text.lines().count());
        if !kind.starts_with("text/javascript") {
            continue;
        }
        let imports = text.lines().filter_map(|line| line.strip_suffix("\";")?.split_once(" from \"./"));
        for (_, imported) in imports {
            assert!(ASSETS.iter().any(|(known, ..)| *known == imported), "{name} imports `{imported}`");
        }
    }
}

#[tokio::test]
async fn the_page_tells_nothing_by_itself() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let with = server.ask(Wish::get("/").session(&session)).await.body;
    assert_eq!(with, server.ask(Wish::get("/")).await.body);
    assert_eq!(server.ask(Wish::get("/healthz")).await.body, "{\"status\":\"ok\"}");
}
