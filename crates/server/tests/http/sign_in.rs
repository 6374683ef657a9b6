//! Links, sessions, and the pages that are not ours.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use tokio::io::AsyncReadExt;

use crate::client::Wish;
use crate::stub::{AGENT, OPERATOR, Server, approval_id};

fn decision() -> Wish {
    Wish::post(&format!("/v1/approvals/{}/decision", approval_id()), r#"{"verdict":"approve"}"#)
}

#[tokio::test]
async fn a_link_signs_in_once_and_leaves_the_address() {
    let server = Server::start().await;
    let path = server.sign_in_url.split_once(&server.address.to_string()).unwrap().1.to_owned();
    let code = path.strip_prefix("/sign-in?code=").unwrap();
    assert_eq!(code.len(), 64);
    let answer = server.ask(Wish::get(&path)).await;
    let cookie = answer.header("set-cookie").unwrap();
    let expected = format!("toolgate_{}=", server.address.port());
    assert!(cookie.starts_with(&expected), "{cookie}");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"), "{cookie}");
    assert!(answer.header("location").unwrap().starts_with("/#page="));
    let again = server.ask(Wish::get(&path)).await;
    assert_eq!((again.status, again.header("location")), (303, Some("/#link-used-up")));
    assert_eq!(again.header("set-cookie"), None);
}

#[tokio::test]
async fn a_look_at_the_link_does_not_use_it_up() {
    let server = Server::start().await;
    let path = server.sign_in_url.split_once(&server.address.to_string()).unwrap().1.to_owned();
    assert_eq!(server.ask(Wish::new("HEAD", &path)).await.status, 405);
    server.sign_in().await;
}

#[tokio::test]
async fn an_old_link_does_not_sign_in() {
    let server = Server::start().await;
    server.gate.clock.store(10 * 60 * 1000, Ordering::SeqCst);
    let path = server.sign_in_url.split_once(&server.address.to_string()).unwrap().1.to_owned();
    let answer = server.ask(Wish::get(&path)).await;
    assert_eq!((answer.header("location"), answer.header("set-cookie")), (Some("/#link-used-up"), None));
}

#[tokio::test]
async fn a_new_link_is_for_whoever_has_the_credential() {
    let server = Server::start().await;
    let answer = server.ask(Wish::new("POST", "/v1/sign-in-links").bearer(OPERATOR)).await;
    assert_eq!(answer.status, 201);
    let url = answer.json()["sign_in_url"].as_str().unwrap().to_owned();
    assert_ne!(url, server.sign_in_url);
    let path = url.split_once(&server.address.to_string()).unwrap().1;
    assert!(server.ask(Wish::get(path)).await.header("set-cookie").is_some());
}

#[tokio::test]
async fn a_cookie_without_its_page_token_is_nobody() {
    let server = Server::start().await;
    let (cookie, page) = server.sign_in().await;
    for asked in [decision(), Wish::get("/v1/approvals"), Wish::get("/v1/events")] {
        let alone = server.ask(asked.clone().with("Cookie", &cookie)).await;
        assert_eq!((alone.status, alone.problem().as_str()), (401, "not_signed_in"));
        let wrong = asked.clone().with("Cookie", &cookie).with("X-Toolgate-Page", &"0".repeat(64));
        assert_eq!(server.ask(wrong).await.status, 401);
        assert_eq!(server.ask(asked.with("X-Toolgate-Page", &page)).await.status, 401);
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours_and_when_it_is_signed_out() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let look = Wish::get("/v1/approvals").session(&session);
    assert_eq!(server.ask(look.clone()).await.status, 200);
    server.gate.clock.store(12 * 60 * 60 * 1000, Ordering::SeqCst);
    assert_eq!(server.ask(look.clone()).await.status, 401);
    server.gate.clock.store(0, Ordering::SeqCst);
    let out = server.ask(Wish::new("POST", "/v1/sign-out").session(&session)).await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().ends_with("Max-Age=0"));
    assert_eq!(server.ask(look).await.status, 401);
}

#[tokio::test]
async fn another_name_for_us_is_not_us() {
    let server = Server::start().await;
    let port = server.address.port();
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        let asked = Wish::get("/healthz").host(&format!("{name}:{port}"));
        assert_eq!(server.ask(asked).await.status, 200, "{name}");
    }
    let other = if port == 7433 { 7434 } else { 7433 };
    let wrong = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{other}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost:{port}.evil.example"),
        format!("127.0.0.1:{port}\r\nHost: evil.example"),
        format!("evil@127.0.0.1:{port}"),
        String::new(),
    ];
    for host in wrong {
        let answer = server.ask(Wish::get("/healthz").host(&host)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (421, "wrong_host"), "{host}");
    }
    let absolute = Wish::get(&format!("http://evil.example:{port}/healthz"));
    assert_eq!(server.ask(absolute).await.status, 421);
}

#[tokio::test]
async fn a_page_that_is_not_ours_changes_nothing() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let port = server.address.port();
    let other = if port == 7433 { 7434 } else { 7433 };
    let wrong = [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{other}"),
        format!("http://localhost:{port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
        String::new(),
    ];
    for origin in wrong {
        for asked in [decision().session(&session), decision().bearer(OPERATOR)] {
            let answer = server.ask(asked.with("Origin", &origin)).await;
            assert_eq!((answer.status, answer.problem().as_str()), (403, "wrong_origin"), "{origin}");
        }
    }
    for site in ["cross-site", "same-site"] {
        let answer = server.ask(decision().session(&session).with("Sec-Fetch-Site", site)).await;
        assert_eq!(answer.problem(), "wrong_origin");
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
    let ours = decision().session(&session).with("Origin", &format!("http://127.0.0.1:{port}"));
    assert_eq!(server.ask(ours.with("Sec-Fetch-Site", "same-origin")).await.status, 200);
    let local = format!("localhost:{port}");
    let ours = decision().bearer(OPERATOR).host(&local).with("Origin", &format!("http://{local}"));
    assert_eq!(server.ask(ours).await.status, 200);
}

#[tokio::test]
async fn a_credential_beside_a_session_is_the_one_that_counts() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    assert_eq!(server.ask(decision().session(&session).bearer("guess")).await.status, 401);
    assert_eq!(server.ask(decision().session(&session).bearer(AGENT)).await.status, 403);
}

#[tokio::test]
async fn the_owner_of_the_home_gets_new_links_at_a_socket_there_until_the_gate_ends() {
    let server = Server::start().await;
    let socket = server.link_socket.clone().unwrap();
    assert_eq!(socket, server::link_socket(server.home.path(), server.address.port()));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut links = Vec::new();
    for _ in 0..2 {
        let mut stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        let mut link = String::new();
        stream.read_to_string(&mut link).await.unwrap();
        let path = link.trim_end().split_once(&server.address.to_string()).unwrap().1.to_owned();
        assert!(server.ask(Wish::get(&path)).await.header("set-cookie").is_some(), "{link}");
        links.push(link);
    }
    assert_ne!(links[0], links[1]);
    server.shutdown.cancel();
    server.running.await.unwrap();
    assert!(!socket.exists());
}
