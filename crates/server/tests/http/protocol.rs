//! What is understood, what is not, and how both are answered.

use std::time::Duration;

use server::{Limits, Outside};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Wish, exchange};
use crate::stub::{AGENT, OPERATOR, Server, approval_id, call_id};

fn call(body: &str) -> Wish {
    Wish::post("/v1/calls", body).bearer(AGENT)
}

#[tokio::test]
async fn each_end_of_a_call_has_its_status_and_always_the_whole_answer() {
    let server = Server::start().await;
    let ends = [
        ("completed", 200),
        ("failed", 200),
        ("failed.internal", 503),
        ("cancelled", 200),
        ("waiting", 202),
        ("running", 202),
        ("unknown", 500),
        ("refused.denied_by_list", 403),
        ("refused.rejected", 403),
        ("refused.expired", 403),
        ("refused.locked", 403),
        ("refused.unknown_tool", 404),
        ("refused.key_conflict", 409),
        ("refused.bad_arguments", 422),
        ("refused.bad_request", 422),
        ("refused.too_large", 413),
        ("refused.rate_limited", 429),
    ];
    for (tool, status) in ends {
        let answer = server.ask(call(&format!(r#"{{"tool":"{tool}"}}"#))).await;
        assert_eq!(answer.status, status, "{tool}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let result = answer.json();
        assert_eq!(result["call_id"], "01".repeat(16), "{tool}");
        assert_eq!(result["status"], tool.split('.').next().unwrap());
        assert_eq!(answer.header("retry-after").is_some(), status == 429);
    }
}

#[tokio::test]
async fn a_call_reaches_the_gate_as_it_was_asked() {
    let server = Server::start().await;
    let whole = r#"{"tool":"shell","arguments":{"b":1.0,"a":"é"},"task":"t","key":"k","purpose":"p","wait_seconds":0}"#;
    assert_eq!(server.ask(call(whole)).await.status, 200);
    assert_eq!(server.ask(call(r#"{"tool":"shell"}"#)).await.status, 200);
    assert_eq!(
        server.gate.asked(),
        [r#"call builder shell {"a":"é","b":1} key=k patience=0"#, "call builder shell {} key= patience=45"]
    );
}

#[tokio::test]
async fn what_has_two_meanings_or_none_never_reaches_the_gate() {
    let server = Server::start().await;
    let bad = [
        (r#"{"tool":"a","tool":"b"}"#, 400, "bad_json"),
        (r#"{"tool":"a","arguments":{"path":"x","p\u0061th":"y"}}"#, 400, "bad_json"),
        (r#"{"tool":"a","arguments":{"n":1e400}}"#, 400, "bad_json"),
        (r#"{"tool":"a","arguments":{"n":9007199254740993}}"#, 400, "bad_json"),
        ("", 400, "bad_json"),
        ("{", 400, "bad_json"),
        (r#"{"tool":"a"}{}"#, 400, "bad_json"),
        ("[]", 422, "bad_request"),
        (r#"["fs.read",{"path":"README.md"},null,null,null,0]"#, 422, "bad_request"),
        ("{}", 422, "bad_request"),
        (r#"{"tool":7}"#, 422, "bad_request"),
        (r#"{"Tool":"a"}"#, 422, "bad_request"),
        (r#"{"tool":"a","agent":"root"}"#, 422, "bad_request"),
        (r#"{"tool":"a","task":"no spaces"}"#, 422, "bad_request"),
        (r#"{"tool":"a","wait_seconds":61}"#, 422, "bad_request"),
        (r#"{"tool":"a","wait_seconds":-1}"#, 422, "bad_request"),
    ];
    for (body, status, code) in bad {
        let answer = server.ask(call(body)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{body}");
    }
    let deep = format!(r#"{{"tool":"a","arguments":{}}}"#, "[".repeat(50_000));
    assert_eq!(server.ask(call(&deep)).await.problem(), "bad_json");
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn another_kind_of_body_is_not_read() {
    let server = Server::start().await;
    let good = r#"{"tool":"a"}"#;
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""]
    {
        let answer = server.ask(call(good).with("Content-Type", kind)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (415, "wrong_content_type"), "{kind}");
    }
    let packed = server.ask(call(good).with("Content-Encoding", "gzip")).await;
    assert_eq!(packed.status, 415);
    assert_eq!(
        server.ask(call(good).with("Content-Type", "application/json; charset=utf-8")).await.status,
        200
    );
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_read_and_a_larger_one_is_not() {
    let server = Server::start().await;
    let body_of = |length: usize| format!(r#"{{"tool":"a","arguments":{{"x":"{}"}}}}"#, "y".repeat(length));
    assert_eq!(server.ask(call(&body_of(15 * 1024 * 1024))).await.status, 200);
    let declared = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {AGENT}\r\n\
         Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
        server.address
    );
    let answer = exchange(server.address, &declared).await;
    assert_eq!((answer.status, answer.problem().as_str()), (413, "too_large"));
    // A body that does not say how long it is.
    let chunk = "z".repeat(1024 * 1024);
    let mut endless = declared.replace("Content-Length: 99999999999", "Transfer-Encoding: chunked");
    for _ in 0..18 {
        endless.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    endless.push_str("0\r\n\r\n");
    let answer = exchange(server.address, &endless).await;
    assert_eq!((answer.status, answer.problem().as_str()), (413, "too_large"));
    assert_eq!(server.gate.asked().len(), 1);
}

#[tokio::test]
async fn a_word_on_what_happened_says_how_it_was_taken() {
    let server = Server::start().await;
    let say =
        |id: &str, body: &str| Wish::post(&format!("/v1/calls/{id}/reconciliation"), body).bearer(OPERATOR);
    let id = call_id().to_string();
    let answer = server.ask(say(&id, r#"{"found":"happened","reason":"I saw it"}"#)).await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &"completed".into()));
    for (reason, status, code) in [("twice", 409, "outcome_known"), ("viewer", 403, "may_not_decide")] {
        let answer = server.ask(say(&id, &format!(r#"{{"found":"did_not","reason":"{reason}"}}"#))).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code));
    }
    assert_eq!(server.ask(say(&"0".repeat(32), r#"{"found":"did_not"}"#)).await.status, 404);
    let asked = server.gate.asked();
    assert_eq!(asked.first().unwrap(), "reconcile 01010101 happened reason=I saw it operator=true");
    for body in [r#"{}"#, r#"{"found":"perhaps"}"#, r#"{"found":"did_not","scope":"all"}"#] {
        assert!(matches!(server.ask(say(&id, body)).await.status, 400 | 422), "{body}");
    }
    assert_eq!(server.gate.asked().len(), asked.len());
}

#[tokio::test]
async fn a_decision_says_how_it_was_taken() {
    let server = Server::start().await;
    let decide =
        |id: &str, body: &str| Wish::post(&format!("/v1/approvals/{id}/decision"), body).bearer(OPERATOR);
    let id = approval_id().to_string();
    let answer = server.ask(decide(&id, r#"{"verdict":"deny","reason":"not now"}"#)).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &"rejected".into()));
    for (reason, status, code) in
        [("twice", 409, "already_decided"), ("late", 410, "expired"), ("viewer", 403, "may_not_decide")]
    {
        let answer =
            server.ask(decide(&id, &format!(r#"{{"verdict":"approve","reason":"{reason}"}}"#))).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code));
    }
    for unknown in ["0".repeat(32).as_str(), "0202", "..", "%2e%2e", "%ff"] {
        let answer = server.ask(decide(unknown, r#"{"verdict":"approve"}"#)).await;
        assert!(matches!(answer.status, 404 | 400), "{unknown} {answer:?}");
        answer.problem();
    }
    let asked = server.gate.asked();
    assert_eq!(asked.first().unwrap(), "decide 02020202 Reject reason=not now operator=true via=http");
    let before = asked.len();
    for body in [
        r#"{}"#,
        r#"{"verdict":"yes"}"#,
        r#"{"verdict":"approve","scope":"always"}"#,
        r#"{"verdict":"deny","verdict":"approve"}"#,
    ] {
        assert!(matches!(server.ask(decide(&id, body)).await.status, 400 | 422), "{body}");
    }
    assert_eq!(server.gate.asked().len(), before);
}

#[tokio::test]
async fn every_response_carries_the_strict_headers() {
    let server = Server::start().await;
    let wishes = [
        Wish::get("/"),
        Wish::get("/assets/console.js"),
        Wish::get("/nothing"),
        Wish::new("PUT", "/"),
        Wish::get("/healthz").host("evil.example"),
        Wish::get("/v1/approvals"),
        Wish::get("/v1/approvals").bearer(OPERATOR),
        Wish::get("/v1/calls?limit=x").bearer(OPERATOR),
        Wish::get("/sign-in"),
        call("{"),
        call(r#"{"tool":"waiting"}"#),
    ];
    for wish in wishes {
        let answer = server.ask(wish).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        if answer.status >= 400 {
            answer.problem();
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_call() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let text = call(r#"{"tool":"slow"}"#).written(&server.address.to_string());
    stream.write_all(text.as_bytes()).await.unwrap();
    while server.gate.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!server.gate.cancelled.is_cancelled());
    drop(stream);
    server.gate.cancelled.cancelled().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_its_calls_and_its_gate() {
    let limits = Limits { drain: Duration::from_millis(300), ..Limits::default() };
    let server = Server::start_within(Outside::default(), limits).await;
    let text = call(r#"{"tool":"slow"}"#).written(&server.address.to_string());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    while server.gate.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    server.shutdown.cancel();
    server.gate.cancelled.cancelled().await;
    drop(stream);
    server.running.await.unwrap();
    assert_eq!(server.gate.asked().last().unwrap(), "close");
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn what_waits_comes_in_pages_and_each_says_how_many_there_are() {
    let server = Server::start().await;
    let ask = async |path: &str| server.ask(Wish::get(path).bearer(OPERATOR)).await;
    let mut seen = Vec::new();
    let mut path = "/v1/approvals?limit=2".to_owned();
    loop {
        let page = ask(&path).await.json();
        assert_eq!(page["waiting"], 3);
        let ids = page["approvals"].as_array().unwrap();
        seen.extend(
            ids.iter().map(|question| {
                question["approval_id"].as_str().unwrap().chars().take(2).collect::<String>()
            }),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/approvals?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["02", "03", "04"]);
    assert_eq!(ask("/v1/approvals").await.json()["next"], serde_json::Value::Null);
    for bad in ["cursor=x", "cursor=1.zz", "limit=x", "page=2"] {
        assert_eq!(ask(&format!("/v1/approvals?{bad}")).await.status / 100, 4, "{bad}");
    }
}
