//! Events, as they happen and after the line was cut.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Wish;
use crate::stub::{self, OPERATOR, Server};

/// What a follower has heard so far.
struct Follower {
    stream: TcpStream,
    received: String,
    heard: String,
}

impl Follower {
    async fn start(server: &Server, wish: Wish) -> Follower {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(wish.written(&server.address.to_string()).as_bytes()).await.unwrap();
        Follower { stream, received: String::new(), heard: String::new() }
    }

    /// Listens until a text is heard, or the line ends.
    async fn hear(&mut self, text: &str) -> bool {
        let mut buffer = [0; 4096];
        while !self.heard.contains(text) {
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return false,
                Ok(length) => self.received.push_str(&String::from_utf8_lossy(&buffer[..length])),
            }
            let (head, chunks) = self.received.split_once("\r\n\r\n").unwrap_or((&self.received, ""));
            // A chunk is its size and its text, and neither has a line end of this kind in it.
            self.heard =
                head.to_owned() + "\n\n" + &chunks.split("\r\n").skip(1).step_by(2).collect::<String>();
        }
        true
    }
}

#[tokio::test]
async fn what_happens_is_told_and_nothing_of_before() {
    let server = Server::start().await;
    server.gate.happen("call.planned");
    let mut follower = Follower::start(&server, Wish::get("/v1/events").bearer(OPERATOR)).await;
    assert!(follower.hear("event: hello").await);
    server.gate.happen("call.settled");
    assert!(follower.hear("call.settled").await);
    assert!(follower.heard.contains("content-type: text/event-stream"));
    assert!(follower.heard.contains(&format!(
        "id: 1\nevent: ledger\ndata: {{\"seq\":1,\"kind\":\"call.settled\",\"time\":5,\"call_id\":\"{}\"}}\n\n",
        "01".repeat(16)
    )));
    assert!(!follower.heard.contains("call.planned"));
}

#[tokio::test]
async fn who_comes_back_misses_nothing() {
    let server = Server::start().await;
    for number in 0..500 {
        server.gate.happen(&format!("kind.{number}."));
    }
    let wish = Wish::get("/v1/events").bearer(OPERATOR).with("Last-Event-ID", "9");
    let mut follower = Follower::start(&server, wish).await;
    assert!(follower.hear("kind.499.").await);
    assert!(!follower.heard.contains("kind.9."));
    for number in 10..500 {
        assert!(follower.heard.contains(&format!("kind.{number}.")), "{number}");
    }
}

#[tokio::test]
async fn an_id_from_elsewhere_is_the_end() {
    let server = Server::start().await;
    server.gate.happen("kind.0.");
    for id in ["99", "x", "-1", "18446744073709551615"] {
        let wish = Wish::get("/v1/events").bearer(OPERATOR).with("Last-Event-ID", id);
        let mut follower = Follower::start(&server, wish).await;
        assert!(follower.hear("event: hello").await, "{id}");
        assert!(!follower.heard.contains("kind."));
    }
}

#[tokio::test]
async fn the_line_is_cut_when_the_session_ends_or_the_server_stops() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let mut signed_in = Follower::start(&server, Wish::get("/v1/events").session(&session)).await;
    let mut by_credential = Follower::start(&server, Wish::get("/v1/events").bearer(OPERATOR)).await;
    assert!(signed_in.hear("event: hello").await);
    assert!(by_credential.hear("event: hello").await);
    server.ask(Wish::new("POST", "/v1/sign-out").session(&session)).await;
    assert!(!signed_in.hear("never").await);
    server.shutdown.cancel();
    assert!(!by_credential.hear("never").await);
    server.running.await.unwrap();
}

#[tokio::test]
async fn one_operator_follows_so_often_and_can_again_when_those_are_gone() {
    let server = Server::start().await;
    let mut followers = Vec::new();
    for _ in 0..48 {
        let mut follower = Follower::start(&server, Wish::get("/v1/events").bearer(OPERATOR)).await;
        assert!(follower.hear("event: hello").await);
        followers.push(follower);
    }
    let full = server.ask(Wish::get("/v1/events").bearer(OPERATOR)).await;
    assert_eq!((full.status, full.problem().as_str()), (429, "rate_limited"));
    followers.clear();
    // Their places are free as soon as the next event could not be told.
    loop {
        server.gate.happen("kind");
        let mut follower = Follower::start(&server, Wish::get("/v1/events").bearer(OPERATOR)).await;
        if follower.hear("event: hello").await {
            break;
        }
    }
}

#[tokio::test]
async fn two_hundred_hear_the_same_and_each_of_it_once() {
    let server = Server::start().await;
    let mut followers = Vec::new();
    for number in 0..200 {
        let whose = stub::crowd(number / 40);
        let mut follower = Follower::start(&server, Wish::get("/v1/events").bearer(&whose)).await;
        assert!(follower.hear("event: hello").await, "{number}: {}", follower.received);
        followers.push(follower);
        server.gate.happen(&format!("while.{number}."));
    }
    let full = server.ask(Wish::get("/v1/approvals").bearer(OPERATOR)).await;
    assert_eq!(full.status, 200, "whoever decides is let in");
    for number in 0..50 {
        server.gate.happen(&format!("after.{number}."));
    }
    for (number, follower) in followers.iter_mut().enumerate() {
        assert!(follower.hear("after.49.").await, "{number}");
        for kind in (number..200)
            .map(|kind| format!("while.{kind}."))
            .chain((0..50).map(|kind| format!("after.{kind}.")))
        {
            assert_eq!(follower.heard.matches(&kind).count(), 1, "{number}: {kind}");
        }
    }
    // No more than there is room for, however many operators there are.
    for number in 200..208 {
        let wish = Wish::get("/v1/events").bearer(&stub::crowd(number / 40));
        followers.push(Follower::start(&server, wish).await);
        assert!(followers.last_mut().unwrap().hear("event: hello").await);
    }
    let full = server.ask(Wish::get("/v1/events").bearer(OPERATOR)).await;
    assert_eq!((full.status, full.problem().as_str()), (503, "too_many_followers"));
}
