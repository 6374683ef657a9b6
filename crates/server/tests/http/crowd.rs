//! Many at once: who is served, who waits, and who cannot keep others out.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Wish;
use crate::stub::{AGENT, OPERATOR, Server};

/// More than there is room for.
const CROWD: usize = 500;

#[tokio::test]
async fn connections_that_say_nothing_do_not_keep_the_page_from_anybody() {
    let server = Server::start().await;
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Some begin a request and stop, as if on a slow line.
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
        }
        crowd.push(stream);
    }
    assert_eq!(server.ask(Wish::get("/")).await.status, 200);
    assert_eq!(server.ask(Wish::get("/v1/approvals").bearer(OPERATOR)).await.status, 200);
    // Those that came first were sent away to make room.
    let mut rest = Vec::new();
    let first = crowd.first_mut().unwrap().read_to_end(&mut rest).await;
    assert!(first.is_err() || rest.is_empty(), "{first:?}");
}

#[tokio::test]
async fn one_callers_many_requests_do_not_keep_another_out() {
    let server = Server::start().await;
    let host = server.address.to_string();
    let slow = Wish::post("/v1/calls", r#"{"tool":"slow"}"#).bearer(AGENT).written(&host);
    let mut crowd = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(slow.as_bytes()).await.unwrap();
        crowd.push(stream);
    }
    while server.gate.asked().len() < 64 {
        tokio::task::yield_now().await;
    }
    let more = server.ask(Wish::post("/v1/calls", r#"{"tool":"completed"}"#).bearer(AGENT)).await;
    assert_eq!((more.status, more.header("retry-after")), (429, Some("1")));
    assert_eq!(more.problem(), "rate_limited");
    assert_eq!(server.ask(Wish::get("/v1/approvals").bearer(OPERATOR)).await.status, 200);
    drop(crowd);
    server.gate.cancelled.cancelled().await;
    while server.ask(Wish::get("/v1/calls").bearer(AGENT)).await.status == 429 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_that_is_being_answered_keeps_its_place_whoever_comes() {
    let server = Server::start().await;
    let host = server.address.to_string();
    let slow = Wish::post("/v1/calls", r#"{"tool":"slow"}"#).bearer(AGENT).written(&host);
    let mut served = TcpStream::connect(server.address).await.unwrap();
    served.write_all(slow.as_bytes()).await.unwrap();
    while server.gate.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.ask(Wish::get("/")).await.status, 200);
    assert!(!server.gate.cancelled.is_cancelled(), "the call goes on");
}

#[tokio::test]
async fn many_calls_are_answered_together_in_their_order() {
    let server = Server::start().await;
    let body =
        r#"{"calls":[{"tool":"completed"},{"tool":"refused.locked"},{"tool":"waiting"}],"wait_seconds":0}"#;
    let answer = server.ask(Wish::post("/v1/calls:batch", body).bearer(AGENT)).await;
    let whole = answer.json();
    let statuses: Vec<&str> = whole["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_str().unwrap())
        .collect();
    assert_eq!((answer.status, statuses.as_slice()), (200, ["completed", "refused", "waiting"].as_slice()));
    assert_eq!(whole["panicked"], serde_json::json!([]));
    let too_many = format!(r#"{{"calls":[{}]}}"#, vec![r#"{"tool":"x"}"#; 1001].join(","));
    for bad in [too_many.as_str(), r#"{"calls":[{"tool":"x","wait_seconds":1}]}"#, r#"{"calls":{}}"#] {
        assert_eq!(server.ask(Wish::post("/v1/calls:batch", bad).bearer(AGENT)).await.status, 422);
    }
    assert_eq!(server.gate.asked().len(), 3, "what is not understood is not half done");
}
