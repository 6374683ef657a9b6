//! Operators over HTTP: whose session it is, what a viewer may do, and what is answered together.

use std::sync::atomic::Ordering;

use crate::client::Wish;
use crate::stub::{AGENT, OPERATOR, Server, VIEWER, approval_id, call_id};

/// Signs a browser in with a link that was asked for with this credential.
async fn session_of(server: &Server, credential: &str) -> (String, String) {
    let answer = server.ask(Wish::new("POST", "/v1/sign-in-links").bearer(credential)).await;
    let url = answer.json()["sign_in_url"].as_str().unwrap().to_owned();
    let path = url.split_once(&server.address.to_string()).unwrap().1.to_owned();
    let opened = server.ask(Wish::get(&path)).await;
    let cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let page = opened.header("location").unwrap().strip_prefix("/#page=").unwrap().to_owned();
    (cookie, page)
}

fn decision(body: &str) -> Wish {
    Wish::post(&format!("/v1/approvals/{}/decision", approval_id()), body)
}

#[tokio::test]
async fn a_link_opens_a_session_of_whoever_asked_for_it() {
    let server = Server::start().await;
    for (credential, name, role) in [(OPERATOR, "me", "admin"), (VIEWER, "guest", "viewer")] {
        let session = session_of(&server, credential).await;
        let me = server.ask(Wish::get("/v1/me").session(&session)).await.json();
        assert_eq!((&me["operator"], &me["role"]), (&name.into(), &role.into()));
        server.ask(decision(r#"{"verdict":"approve"}"#).session(&session)).await;
    }
    let decided: Vec<String> =
        server.gate.asked().into_iter().filter(|asked| asked.starts_with("decide")).collect();
    // The gate is told whose credential it is; it knows what a viewer may.
    assert_eq!(
        decided,
        [
            "decide 02020202 Approve reason=- operator=true via=page",
            "decide 02020202 Approve reason=- operator=false via=page",
        ]
    );
}

#[tokio::test]
async fn a_viewer_looks_and_changes_nothing() {
    let server = Server::start().await;
    let look = |path: &str| Wish::get(path).bearer(VIEWER);
    for path in ["/v1/approvals", "/v1/standing", "/v1/calls", "/v1/me"] {
        assert_eq!(server.ask(look(path)).await.status, 200, "{path}");
    }
    let call = Wish::post("/v1/calls", r#"{"tool":"fs.read","arguments":{}}"#);
    let cancel = Wish::new("DELETE", &format!("/v1/calls/{}", call_id()));
    for wish in [call.with("X-Toolgate-Agent", "builder"), cancel] {
        let answer = server.ask(wish.bearer(VIEWER)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "only_looks"));
    }
    assert!(
        !server.gate.asked().iter().any(|asked| asked.starts_with("call ") || asked.starts_with("cancel"))
    );
}

#[tokio::test]
async fn a_session_ends_with_the_authority_of_its_operator() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    let look = Wish::get("/v1/approvals").session(&session);
    assert_eq!(server.ask(look.clone()).await.status, 200);
    server.gate.removed.store(true, Ordering::SeqCst);
    assert_eq!(server.ask(look).await.status, 401);
    let decided = server.ask(decision(r#"{"verdict":"approve"}"#).session(&session)).await;
    assert_eq!(decided.status, 401);
}

#[tokio::test]
async fn an_operator_who_calls_for_an_agent_is_known_as_the_proposer() {
    let server = Server::start().await;
    let call = Wish::post("/v1/calls", r#"{"tool":"fs.read","arguments":{}}"#);
    server.ask(call.clone().bearer(OPERATOR).with("X-Toolgate-Agent", "builder")).await;
    server.ask(call.bearer(AGENT)).await;
    assert_eq!(
        server.gate.asked(),
        ["call builder fs.read {} key= patience=45 by=me", "call builder fs.read {} key= patience=45"]
    );
}

#[tokio::test]
async fn what_was_shown_as_one_is_answered_by_each_of_its_ids() {
    let server = Server::start().await;
    let (shown, unknown) = (approval_id(), "0".repeat(32));
    let body = format!(r#"{{"verdict":"approve","scope":"agent","also":["{shown}","{unknown}"]}}"#);
    let answer = server.ask(decision(&body).bearer(OPERATOR)).await;
    let told = answer.json();
    assert_eq!((answer.status, &told["state"]), (200, &"approved".into()), "{told}");
    assert_eq!(told["also"][0]["state"], "approved");
    assert_eq!(told["also"][1]["error"], "there is no such question");
    // Only the first reaches further.
    assert_eq!(
        server.gate.asked(),
        [
            "decide 02020202 Approve reason=- operator=true via=http scope=agent",
            "decide 02020202 Approve reason=- operator=true via=http",
            "decide 00000000 Approve reason=- operator=true via=http",
        ]
    );
    for wrong in [r#"{"verdict":"approve","scope":"all"}"#, r#"{"verdict":"approve","also":["0202"]}"#] {
        assert_eq!(server.ask(decision(wrong).bearer(OPERATOR)).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn chat_text_answers_what_it_names_or_nothing() {
    let server = Server::start().await;
    let say = |text: &str| {
        let body = serde_json::json!({ "text": text }).to_string();
        Wish::post("/v1/answers", &body).bearer(OPERATOR)
    };
    assert_eq!(server.ask(say("/approve 02020202")).await.status, 200);
    assert_eq!(server.ask(say("/deny 02020202 not today")).await.status, 200);
    for (text, status) in [
        ("/approve 02020202 00000000", 404),
        ("/approve 0202", 422),
        ("yes please", 422),
        ("/approve 02020202 unless it is late", 422),
    ] {
        assert_eq!(server.ask(say(text)).await.status, status, "{text}");
    }
    assert_eq!(
        server.gate.asked(),
        [
            "decide 02020202 Approve reason=- operator=true via=chat",
            "decide 02020202 Reject reason=not today operator=true via=chat",
        ]
    );
}

#[tokio::test]
async fn a_yes_is_taken_back_by_its_whole_id() {
    let server = Server::start().await;
    let path = format!("/v1/approvals/{}/revocation", approval_id());
    let answer = server.ask(Wish::post(&path, r#"{"reason":"wrong one"}"#).bearer(OPERATOR)).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &"revoked".into()));
    assert_eq!(
        server.ask(Wish::post("/v1/approvals/0202/revocation", "{}").bearer(OPERATOR)).await.status,
        404
    );
    assert_eq!(server.gate.asked(), ["revoke 02020202 reason=wrong one operator=true"]);
}

#[tokio::test]
async fn whoever_only_looks_tries_no_policy() {
    let server = Server::start().await;
    let wish = |who| Wish::post("/v1/policy/simulate", r#"{"policy":"{}"}"#).bearer(who);
    let answer = server.ask(wish(VIEWER)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "only_looks"));
    assert_eq!(server.gate.asked(), Vec::<String>::new());
    assert_eq!(server.ask(wish(OPERATOR)).await.status, 200);
    for body in [r#"{}"#, r#"{"policy":"{}","agent":"no one"}"#, r#"{"policy":"{}","polcy":1}"#] {
        let answer = server.ask(Wish::post("/v1/policy/simulate", body).bearer(OPERATOR)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "bad_request"), "{body}");
    }
    assert_eq!(server.gate.asked(), ["simulate 2 bytes for me"]);
}

#[tokio::test]
async fn an_admin_adds_and_removes_people_and_nobody_else_does() {
    let server = Server::start().await;
    let add = |name: &str, role: &str| {
        Wish::post("/v1/operators", &format!(r#"{{"operator":"{name}","role":"{role}"}}"#))
    };
    let remove = |name: &str| Wish::new("DELETE", &format!("/v1/operators/{name}"));
    for wish in [add("new", "admin"), remove("me")] {
        let answer = server.ask(wish.bearer(VIEWER)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "admin_needed"));
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());

    let added = server.ask(add("new", "approver").bearer(OPERATOR)).await;
    let told = added.json();
    assert_eq!((added.status, &told["credential"], &told["role"]), (201, &"new".into(), &"approver".into()));
    assert!(told["sign_in_url"].as_str().unwrap().contains("/sign-in?code="));
    assert_eq!(server.ask(remove("new").bearer(OPERATOR)).await.status, 204);
    for (wish, status, code) in [
        (add("me", "viewer"), 409, "name_taken"),
        (add("NO NAME", "viewer"), 422, "bad_request"),
        (add("new", "owner"), 422, "bad_request"),
        (remove("me"), 409, "last_admin"),
        (remove("nobody"), 404, "not_found"),
        (remove("NO%20NAME"), 404, "not_found"),
    ] {
        let answer = server.ask(wish.bearer(OPERATOR)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code));
    }
    let asked = server.gate.asked();
    assert_eq!(asked, ["add new approver", "remove new", "add me viewer", "remove me", "remove nobody"]);
    let listed = server.ask(Wish::get("/v1/operators").bearer(VIEWER)).await.json();
    let me = serde_json::json!({ "operator": "me", "role": "admin", "added_at": 0, "removed_at": null });
    assert_eq!(listed, serde_json::json!({ "operators": [me] }));
}

#[tokio::test]
async fn a_page_that_was_left_open_neither_adds_nor_removes_anybody() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    server.gate.clock.store(6 * 60 * 1000, Ordering::SeqCst);
    let add = Wish::post("/v1/operators", r#"{"operator":"new","role":"admin"}"#);
    for wish in [add, Wish::new("DELETE", "/v1/operators/guest")] {
        let answer = server.ask(wish.session(&session)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "presence_needed"));
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}
