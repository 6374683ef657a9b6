//! Those who take their time, or send too much, and a server that goes while somebody is being served.

use std::time::{Duration, Instant};

use server::{Limits, Outside};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Response, Wish};
use crate::stub::{AGENT, OPERATOR, Server};

/// Long enough for a busy machine, short enough for a test.
const SOON: Duration = Duration::from_millis(700);
/// Far longer than any limit here, and far shorter than none.
const PATIENCE: Duration = Duration::from_secs(20);

async fn impatient() -> Server {
    let limits = Limits { head: SOON, body: SOON, drain: Duration::from_secs(5), last_words: SOON };
    Server::start_within(Outside::default(), limits).await
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// All that comes until the other end hangs up, and how long that took.
async fn rest(mut stream: TcpStream) -> (Response, Duration) {
    let began = Instant::now();
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    assert!(read.is_ok(), "the server waits for ever");
    (Response::read(&String::from_utf8_lossy(&text)), began.elapsed())
}

/// A byte every so often, for as long as somebody takes them.
async fn trickle(stream: &mut TcpStream, byte: &[u8]) {
    for _ in 0..100 {
        if stream.write_all(byte).await.is_err() {
            return;
        }
        tokio::time::sleep(SOON / 7).await;
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_to_its_end_is_not_waited_for() {
    let server = impatient().await;
    for half in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
        let mut stream = connect(&server).await;
        stream.write_all(half.as_bytes()).await.unwrap();
        let (answer, took) = rest(stream).await;
        assert!(answer.status == 0 || answer.status == 408, "{half}: {answer:?}");
        assert!(took >= SOON / 2, "{half}: at once, after {took:?}");
    }
    assert_eq!(server.ask(Wish::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_has_no_more_time_than_another() {
    let server = impatient().await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").await.unwrap();
    let began = Instant::now();
    trickle(&mut stream, b"x").await;
    assert!(began.elapsed() < SOON * 10, "it was taken for {:?}", began.elapsed());
}

#[tokio::test]
async fn a_body_that_does_not_come_to_its_end_is_not_waited_for() {
    let server = impatient().await;
    let host = server.address.to_string();
    let whole = Wish::post("/v1/calls", r#"{"tool":"completed"}"#).bearer(AGENT).written(&host);
    let (head, body) = whole.split_at(whole.len() - 8);
    let mut stream = connect(&server).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, took) = rest(stream).await;
    assert_eq!((answer.status, answer.problem().as_str()), (408, "timeout"), "without `{body}`");
    assert!(took >= SOON / 2, "{took:?}");
    // Nor is one for whoever has no credential.
    let head =
        "POST /v1/sign-in/password HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n";
    let mut stream = connect(&server).await;
    stream.write_all(format!("{head}Host: {host}\r\n\r\n{{").as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let trickling = tokio::spawn(async move {
        for _ in 0..100 {
            if writer.write_all(b" ").await.is_err() {
                return;
            }
            tokio::time::sleep(SOON / 7).await;
        }
    });
    let mut text = vec![0; 64];
    let read = tokio::time::timeout(PATIENCE, reader.read(&mut text)).await.unwrap().unwrap();
    assert!(text[..read].starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&text));
    trickling.abort();
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_head_that_is_too_large_is_not_read() {
    let server = impatient().await;
    let large = "x".repeat(1 << 20);
    let one = server.ask(Wish::get("/healthz").with("X-Large", &large)).await;
    // It may hang up before all of it was sent.
    assert!([0, 431].contains(&one.status), "{}", one.status);
    let mut many = Wish::get("/healthz");
    for number in 0..300 {
        many = many.with(&format!("X-{number}"), "x");
    }
    assert!([0, 431].contains(&server.ask(many).await.status));
    let path = format!("/{}", "x".repeat(1 << 20));
    assert!([0, 400, 414, 431].contains(&server.ask(Wish::get(&path)).await.status));
    assert_eq!(server.ask(Wish::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn a_call_that_runs_when_the_server_stops_is_answered_and_nobody_new_is_let_in() {
    let server = impatient().await;
    let host = server.address.to_string();
    let call = Wish::post("/v1/calls", r#"{"tool":"brief"}"#).bearer(AGENT).written(&host);
    let (mut running, mut idle) = (connect(&server).await, connect(&server).await);
    let kept = "GET /healthz HTTP/1.1\r\nHost: ".to_owned() + &host + "\r\n\r\n";
    idle.write_all(kept.as_bytes()).await.unwrap();
    assert!(idle.read(&mut [0; 4096]).await.unwrap() > 0);
    let follower = Wish::get("/v1/events").bearer(OPERATOR).written(&host);
    let mut following = connect(&server).await;
    following.write_all(follower.as_bytes()).await.unwrap();
    assert!(following.read(&mut [0; 4096]).await.unwrap() > 0);
    running.write_all(call.as_bytes()).await.unwrap();
    while !server.gate.asked().iter().any(|asked| asked.starts_with("call ")) {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    server.shutdown.cancel();
    // Those who only sit there go at once, and so do those who listen.
    rest(idle).await;
    rest(following).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "somebody new was let in");
    let (answer, _) = rest(running).await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &"completed".into()));
    server.running.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "it did not wait for longer than it had to");
    let asked = server.gate.asked();
    assert_eq!(asked[asked.len() - 2..], ["leave", "close"], "{asked:?}");
}

#[tokio::test]
async fn a_call_that_does_not_end_is_told_to_and_answered_and_the_server_goes_all_the_same() {
    let limits = Limits { drain: SOON, last_words: Duration::from_secs(5), ..Limits::default() };
    let server = Server::start_within(Outside::default(), limits).await;
    let host = server.address.to_string();
    let mut running = connect(&server).await;
    let call = Wish::post("/v1/calls", r#"{"tool":"endless"}"#).bearer(AGENT).written(&host);
    running.write_all(call.as_bytes()).await.unwrap();
    while server.gate.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    server.shutdown.cancel();
    let (answer, took) = rest(running).await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &"cancelled".into()));
    assert!(took >= SOON / 2, "it had no time: {took:?}");
    tokio::time::timeout(PATIENCE, server.running).await.unwrap().unwrap();
}
