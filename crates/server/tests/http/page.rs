//! The page's own files.

use crate::client::Wish;
use crate::stub::Server;

const FILES: [(&str, &str); 4] = [
    ("/", "text/html; charset=utf-8"),
    ("/assets/console.css", "text/css; charset=utf-8"),
    ("/assets/console.js", "text/javascript; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
];

#[tokio::test]
async fn the_page_is_made_of_our_own_files_and_nothing_inline() {
    let server = Server::start().await;
    for (path, kind) in FILES {
        let answer = server.ask(Wish::get(path)).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)));
        let outside = answer.body.replace("http://www.w3.org/2000/svg", "");
        for forbidden in
            ["https://", "http://", "style=", "onclick", "onload", "<style", "innerHTML", "eval("]
        {
            assert!(!outside.contains(forbidden), "{path} has `{forbidden}`");
        }
    }
    let html = server.ask(Wish::get("/")).await.body;
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("<script src=\"/assets/console.js\" type=\"module\"></script>"));
}

#[tokio::test]
async fn the_page_tells_nothing_by_itself() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let with = server.ask(Wish::get("/").session(&session)).await.body;
    assert_eq!(with, server.ask(Wish::get("/")).await.body);
    assert_eq!(server.ask(Wish::get("/healthz")).await.body, "{\"status\":\"ok\"}");
}
