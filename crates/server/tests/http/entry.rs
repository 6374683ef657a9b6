//! Coming in by password and passkey, and what takes a fresh proof.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::authenticator::Authenticator;
use crate::client::{Response, Wish};
use crate::stub::{AGENT, OPERATOR, Server, VIEWER, approval_id};

const PASSWORD: &str = r#"{"operator":"me","password":"correct horse battery"}"#;
const MINUTE: i64 = 60 * 1000;

fn decision(verdict: &str) -> Wish {
    let body = format!(r#"{{"verdict":"{verdict}"}}"#);
    Wish::post(&format!("/v1/approvals/{}/decision", approval_id()), &body)
}

fn session_of(answer: &Response) -> (String, String) {
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    (cookie, answer.json()["page"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_password_opens_a_session_with_a_strict_cookie() {
    let server = Server::start().await;
    let answer = server.ask(Wish::post("/v1/sign-in/password", PASSWORD)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"), "{cookie}");
    let session = session_of(&answer);
    let me = server.ask(Wish::get("/v1/me").session(&session)).await.json();
    assert_eq!((&me["operator"], &me["role"]), (&"me".into(), &"admin".into()));
    assert_eq!(server.ask(decision("approve").session(&session)).await.status, 200);
}

#[tokio::test]
async fn whoever_is_not_them_is_told_nothing_and_too_many_tries_are_told_when() {
    let server = Server::start().await;
    let other = Wish::post("/v1/sign-in/password", r#"{"operator":"you","password":"x"}"#);
    let answer = server.ask(other).await;
    assert_eq!((answer.status, answer.problem().as_str()), (401, "not_them"));
    assert_eq!(answer.header("set-cookie"), None);
    let locked = Wish::post("/v1/sign-in/password", r#"{"operator":"locked","password":"x"}"#);
    let answer = server.ask(locked).await;
    assert_eq!((answer.status, answer.problem().as_str()), (429, "too_many_tries"));
    assert_eq!(answer.header("retry-after"), Some("91"));
}

#[tokio::test]
async fn another_page_cannot_sign_its_visitor_in() {
    let server = Server::start().await;
    let asked = Wish::post("/v1/sign-in/password", PASSWORD);
    let answer = server.ask(asked.clone().with("Origin", "http://evil.example")).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None));
    let form = asked.with("Content-Type", "text/plain");
    assert_eq!(server.ask(form).await.status, 415);
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn coming_in_again_ends_the_session_before_and_takes_no_secret_of_it() {
    let server = Server::start().await;
    let first = server.sign_in().await;
    let answer = server.ask(Wish::post("/v1/sign-in/password", PASSWORD).session(&first)).await;
    let second = session_of(&answer);
    assert_ne!((&first.0, &first.1), (&second.0, &second.1));
    assert_eq!(server.ask(Wish::get("/v1/me").session(&first)).await.status, 401);
    assert_eq!(server.ask(Wish::get("/v1/me").session(&second)).await.status, 200);
    // A cookie that somebody else has set is nobody's, before and after.
    let planted = format!("toolgate_{}={}", server.address.port(), "0".repeat(64));
    let answer = server.ask(Wish::post("/v1/sign-in/password", PASSWORD).with("Cookie", &planted)).await;
    assert!(!answer.header("set-cookie").unwrap().contains(&"0".repeat(64)));
}

#[tokio::test]
async fn a_session_that_is_not_used_ends() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    server.gate.clock.store(119 * MINUTE, Ordering::SeqCst);
    assert_eq!(server.ask(Wish::get("/v1/me").session(&session)).await.status, 200);
    server.gate.clock.store(240 * MINUTE, Ordering::SeqCst);
    assert_eq!(server.ask(Wish::get("/v1/me").session(&session)).await.status, 401);
}

#[tokio::test]
async fn a_yes_to_what_is_worst_takes_somebody_who_is_there() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    server.gate.sensitive.store(true, Ordering::SeqCst);
    assert_eq!(server.ask(decision("approve").session(&session)).await.status, 200, "they just came in");
    server.gate.clock.store(6 * MINUTE, Ordering::SeqCst);
    let refused = server.ask(decision("approve").session(&session)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "presence_needed"));
    let chat = Wish::post("/v1/answers", r#"{"text":"/approve 02020202"}"#);
    assert_eq!(server.ask(chat.session(&session)).await.problem(), "presence_needed");
    let before = server.gate.asked().iter().filter(|asked| asked.starts_with("decide")).count();
    assert_eq!(before, 1);
    // A no needs nobody, and the credential proves itself with every request.
    assert_eq!(server.ask(decision("deny").session(&session)).await.status, 200);
    assert_eq!(server.ask(decision("approve").bearer(OPERATOR)).await.status, 200);
    let again = server.ask(Wish::post("/v1/sign-in/password", PASSWORD).session(&session)).await;
    assert_eq!(server.ask(decision("approve").session(&session_of(&again))).await.status, 200);
    // What is not worst is decided as before.
    let session = session_of(&again);
    server.gate.clock.store(20 * MINUTE, Ordering::SeqCst);
    server.gate.sensitive.store(false, Ordering::SeqCst);
    assert_eq!(server.ask(decision("approve").session(&session)).await.status, 200);
}

#[tokio::test]
async fn ways_in_are_changed_by_somebody_who_is_there() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let set = || Wish::new("PUT", "/v1/me/password").body(r#"{"password":"correct horse battery"}"#);
    assert_eq!(server.ask(set().session(&session)).await.status, 204);
    let short = Wish::new("PUT", "/v1/me/password").body(r#"{"password":"short"}"#).session(&session);
    assert_eq!(server.ask(short).await.status, 422);
    server.gate.clock.store(6 * MINUTE, Ordering::SeqCst);
    let rotate = || Wish::new("POST", "/v1/agents/builder/token");
    for asked in [set(), rotate(), Wish::new("DELETE", "/v1/me/passkeys/x")] {
        let answer = server.ask(asked.session(&session)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "presence_needed"));
    }
    assert_eq!(server.gate.asked(), ["set password"]);
}

#[tokio::test]
async fn tokens_are_an_admins_to_change() {
    let server = Server::start().await;
    for (method, status) in [("POST", 201), ("DELETE", 204)] {
        let asked = Wish::new(method, "/v1/agents/builder/token");
        for other in [VIEWER, AGENT] {
            assert_eq!(server.ask(asked.clone().bearer(other)).await.status, 403, "{method} {other}");
        }
        assert_eq!(server.ask(asked.bearer(OPERATOR)).await.status, status);
    }
    assert_eq!(server.gate.asked(), ["rotate builder", "revoke builder"]);
    assert_eq!(server.ask(Wish::new("POST", "/v1/agents/x/token").bearer(OPERATOR)).await.status, 404);
}

async fn challenge(server: &Server, path: &str, session: Option<&(String, String)>) -> Value {
    let host = format!("localhost:{}", server.address.port());
    let mut asked = Wish::post(path, "{}").host(&host);
    if let Some(session) = session {
        asked = asked.session(session);
    }
    let answer = server.ask(asked).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_passkey_is_added_and_signs_in_once_for_each_challenge() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let host = format!("localhost:{}", server.address.port());
    let origin = format!("http://{host}");
    let authenticator = Authenticator::new();
    let wish = challenge(&server, "/v1/me/passkeys/challenge", Some(&session)).await;
    assert_eq!((&wish["relying_party"], &wish["operator"]), (&"localhost".into(), &"me".into()));
    let body = authenticator.register(wish["challenge"].as_str().unwrap(), &origin).to_string();
    let add = Wish::post("/v1/me/passkeys", &body).session(&session).host(&host);
    let added = server.ask(add.clone()).await;
    assert_eq!((added.status, &added.json()["label"]), (201, &"mine".into()), "{added:?}");
    assert_eq!(server.ask(add).await.problem(), "not_them", "the challenge is used up");
    let listed = server.ask(Wish::get("/v1/me/passkeys").session(&session)).await.json();
    assert_eq!(listed["passkeys"].as_array().unwrap().len(), 1);

    let asked = challenge(&server, "/v1/sign-in/passkey/challenge", None).await;
    let body = authenticator.sign_in(asked["challenge"].as_str().unwrap(), &origin).to_string();
    let sign_in = Wish::post("/v1/sign-in/passkey", &body).host(&host);
    let came_in = server.ask(sign_in.clone()).await;
    assert_eq!(came_in.status, 200, "{came_in:?}");
    assert_eq!(server.ask(Wish::get("/v1/me").session(&session_of(&came_in))).await.status, 200);
    let replayed = server.ask(sign_in).await;
    assert_eq!((replayed.status, replayed.problem().as_str()), (401, "not_them"));

    // Another's key, another's page, and a challenge for something else.
    let asked = challenge(&server, "/v1/sign-in/passkey/challenge", None).await;
    let body = Authenticator::new().sign_in(asked["challenge"].as_str().unwrap(), &origin).to_string();
    assert_eq!(server.ask(Wish::post("/v1/sign-in/passkey", &body).host(&host)).await.status, 401);
    let asked = challenge(&server, "/v1/sign-in/passkey/challenge", None).await;
    let elsewhere = authenticator.sign_in(asked["challenge"].as_str().unwrap(), "http://evil.example");
    let elsewhere = Wish::post("/v1/sign-in/passkey", &elsewhere.to_string()).host(&host);
    assert_eq!(server.ask(elsewhere).await.status, 401);
    let wish = challenge(&server, "/v1/me/passkeys/challenge", Some(&session)).await;
    let body = authenticator.sign_in(wish["challenge"].as_str().unwrap(), &origin).to_string();
    assert_eq!(server.ask(Wish::post("/v1/sign-in/passkey", &body).host(&host)).await.status, 401);
    let asked = server.gate.asked();
    assert_eq!(asked, ["passkey uses=7", "turned away me", "turned away me"]);
}

#[tokio::test]
async fn an_address_has_no_passkeys() {
    let server = Server::start().await;
    let answer = server.ask(Wish::post("/v1/sign-in/passkey/challenge", "{}")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "no_passkeys_here"));
}
