//! Who may do what: every route, with every kind of credential.

use server::{ROUTES, Who};

use crate::client::{Response, Wish};
use crate::stub::{AGENT, APPROVER, COUNTER, OPERATOR, OTHER_AGENT, Server, VIEWER, approval_id, call_id};

/// A good request for a route, without a credential. A new route fails here until it has one.
pub(crate) fn wish(method: &str, path: &str) -> Wish {
    let path = path
        .replace("/calls/{id}", &format!("/calls/{}", call_id()))
        .replace("/approvals/{id}", &format!("/approvals/{}", approval_id()))
        .replace("/passkeys/{id}", "/passkeys/none")
        .replace("/agents/{name}", "/agents/builder")
        .replace("/operators/{name}", "/operators/guest")
        .replace("{name}", "fs.read")
        .replace("{file}", "console.js")
        .replace("{seq}", "0");
    assert!(!path.contains('{'), "say how `{method} {path}` is asked for");
    let wish = Wish::new(method, &path);
    match (method, path.as_str()) {
        ("POST", "/v1/calls:batch") => wish.body(r#"{"calls":[{"tool":"fs.read","arguments":{}}]}"#),
        ("POST", "/v1/policy/simulate") => wish.body(r#"{"policy":"{}"}"#),
        ("POST", "/v1/calls" | "/v1/explain") => wish.body(r#"{"tool":"fs.read","arguments":{}}"#),
        ("POST", path) if path.ends_with("/decision") => wish.body(r#"{"verdict":"approve"}"#),
        ("POST", path) if path.ends_with("/reconciliation") => wish.body(r#"{"found":"did_not"}"#),
        ("POST", path) if path.ends_with("/revocation") => wish.body("{}"),
        ("POST", "/v1/sign-in/password") => {
            wish.body(r#"{"operator":"me","password":"correct horse battery"}"#)
        }
        ("POST", "/v1/operators") => wish.body(r#"{"operator":"new","role":"viewer"}"#),
        ("PUT", "/v1/me/password") => wish.body(r#"{"password":"correct horse battery"}"#),
        ("POST", path) if path.ends_with("/passkey/challenge") || path.ends_with("/passkeys/challenge") => {
            wish.body("{}")
        }
        // What no authenticator has signed; whoever is told so was let in.
        ("POST", "/v1/sign-in/passkey") => {
            wish.body(r#"{"id":"","client_data":"","authenticator_data":"","signature":""}"#)
        }
        ("POST", "/v1/me/passkeys") => wish.body(r#"{"label":"mine","client_data":"","attestation":""}"#),
        ("POST", "/v1/answers") => wish.body(r#"{"text":"/approve 02020202"}"#),
        // Its body never ends; asked for without a body it is answered all the same.
        ("GET", "/v1/events") => Wish::new("HEAD", "/v1/events"),
        _ => wish,
    }
}

/// Who among operators may ask for a route, and who sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Every operator: it shows something, or is their own.
    Anybody,
    /// Whoever does more than look; the server says so before it asks the gate.
    Approver,
    /// An admin; the server says so before it asks the gate.
    Admin,
    /// The gate, which is told whose credential it is, in what begins so.
    Gate(&'static str),
}

/// What a route takes. A new one that changes something fails here until it is known who may.
fn takes(method: &str, path: &str) -> Takes {
    match (method, path) {
        ("GET", _) => Takes::Anybody,
        (
            "POST" | "PUT" | "DELETE",
            "/v1/me/password"
            | "/v1/me/passkeys/challenge"
            | "/v1/me/passkeys"
            | "/v1/me/passkeys/{id}"
            | "/v1/sign-in-links"
            | "/v1/sign-out"
            | "/v1/explain",
        ) => Takes::Anybody,
        (
            "POST" | "DELETE",
            "/v1/calls"
            | "/v1/calls:batch"
            | "/v1/calls/{id}"
            | "/v1/policy/simulate"
            | "/v1/ledger/verification"
            | "/mcp",
        ) => Takes::Approver,
        (
            _,
            "/v1/agents/{name}/token" | "/v1/operators" | "/v1/operators/{name}" | "/v1/calls/{id}/reading",
        ) => Takes::Admin,
        ("POST", "/v1/approvals/{id}/decision" | "/v1/answers") => Takes::Gate("decide"),
        ("POST", "/v1/approvals/{id}/revocation") => Takes::Gate("revoke"),
        ("POST", "/v1/calls/{id}/reconciliation") => Takes::Gate("reconcile"),
        _ => panic!("say who may ask for `{method} {path}`"),
    }
}

#[tokio::test]
async fn every_route_is_closed_to_operators_whose_role_does_not_reach_so_far() {
    for (credential, may_more) in [(VIEWER, false), (APPROVER, true)] {
        let server = Server::start().await;
        let people = |who: &Who| !matches!(who, Who::Anyone | Who::Signed);
        for (method, path, _) in ROUTES.iter().filter(|(_, _, who)| people(who)) {
            let before = server.gate.asked().len();
            let asked = wish(method, path).bearer(credential).with("X-Toolgate-Agent", "builder");
            // Only those who do more than look speak for agents.
            let listens = *path == "/mcp" && !may_more;
            let answer = server.ask_by_name(asked).await;
            let heard: Vec<String> = server.gate.asked().into_iter().skip(before).collect();
            let refused = match takes(method, path) {
                Takes::Anybody => listens,
                Takes::Approver => !may_more,
                Takes::Admin => true,
                Takes::Gate(word) => {
                    let told = heard.iter().any(|asked| asked.starts_with(word));
                    let as_admin = heard.iter().any(|asked| asked.contains("operator=true"));
                    assert!(told && !as_admin, "{method} {path}: {heard:?}");
                    continue;
                }
            };
            if !refused {
                assert!(is_good(&answer), "{credential} {method} {path}: {answer:?}");
                continue;
            }
            assert_eq!(answer.status, 403, "{credential} {method} {path}: {answer:?}");
            if *method != "GET" {
                let code = answer.problem();
                assert!(["only_looks", "admin_needed"].contains(&code.as_str()), "{method} {path}: {code}");
            }
            assert_eq!(heard, Vec::<String>::new(), "{credential} {method} {path}");
        }
    }
}

fn is_good(answer: &Response) -> bool {
    // The gate of these tests speaks no MCP; whoever is told so was let in.
    matches!(answer.status, 200..=399)
        || (answer.status == 404 && answer.problem() == "no_mcp")
        || (answer.status == 401 && answer.problem() == "not_them")
}

#[tokio::test]
async fn without_a_credential_only_what_is_for_anyone_answers() {
    let server = Server::start().await;
    for (method, path, who) in ROUTES {
        let answer = server.ask_by_name(wish(method, path)).await;
        if *who == Who::Anyone {
            assert!(is_good(&answer), "{method} {path}: {answer:?}");
        } else {
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.header("www-authenticate").is_some_and(|ask| ask.starts_with("Bearer")));
        }
    }
    assert_eq!(server.gate.asked(), ["password me"]);
}

#[tokio::test]
async fn a_credential_of_nobody_is_refused_everywhere() {
    let server = Server::start().await;
    for (method, path, who) in ROUTES.iter().filter(|(_, _, who)| *who != Who::Anyone) {
        for credential in ["guess", "", "operator-credential2"] {
            let answer = server.ask_by_name(wish(method, path).bearer(credential)).await;
            assert_eq!(answer.status, 401, "{method} {path} {who:?} `{credential}`");
        }
        let basic = wish(method, path).with("Authorization", &format!("Basic {OPERATOR}"));
        assert_eq!(server.ask(basic).await.status, 401, "{method} {path}");
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_agent_gets_what_is_for_agents_and_nothing_of_operators() {
    let server = Server::start().await;
    for (method, path, who) in ROUTES.iter().filter(|(_, _, who)| *who != Who::Anyone) {
        let answer = server.ask_by_name(wish(method, path).bearer(AGENT)).await;
        match who {
            Who::Signed => assert_eq!(answer.status, 401, "{method} {path}"),
            Who::Operator | Who::Counter => {
                assert_eq!(answer.status, 403, "{method} {path}");
                if *method != "GET" {
                    assert_eq!(answer.problem(), "not_an_operator");
                }
            }
            _ => assert!(is_good(&answer), "{method} {path}: {answer:?}"),
        }
    }
    assert!(!server.gate.asked().iter().any(|asked| asked.starts_with("decide")));
}

#[tokio::test]
async fn an_operator_gets_everything_but_is_no_agent_unless_one_is_named() {
    let server = Server::start().await;
    for (method, path, who) in ROUTES.iter().filter(|(_, _, who)| *who != Who::Anyone) {
        let asked = wish(method, path).bearer(OPERATOR);
        let speaks_as_agent = *who == Who::Agent || path.starts_with("/v1/tools") || *path == "/v1/explain";
        if speaks_as_agent {
            let answer = server.ask(asked.clone()).await;
            assert_eq!((answer.status, answer.problem().as_str()), (403, "agent_needed"), "{method} {path}");
        }
        let answer = server.ask_by_name(asked.with("X-Toolgate-Agent", "builder")).await;
        // Nobody's credential stands for a signature.
        match who {
            Who::Signed => assert_eq!(answer.status, 401, "{method} {path}"),
            _ => assert!(is_good(&answer), "{method} {path}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn whoever_counts_sees_numbers_and_nothing_else() {
    let server = Server::start().await;
    for (method, path, who) in ROUTES.iter().filter(|(_, _, who)| *who != Who::Anyone) {
        let answer = server.ask(wish(method, path).bearer(COUNTER)).await;
        let expected = if *who == Who::Counter { 200 } else { 401 };
        assert_eq!(answer.status, expected, "{method} {path}");
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn the_page_decides_but_makes_no_calls_and_no_new_links() {
    let server = Server::start().await;
    let session = server.sign_in().await;
    for (method, path, who) in ROUTES.iter().filter(|(_, _, who)| *who != Who::Anyone) {
        if *path == "/v1/sign-out" {
            continue;
        }
        let answer = server
            .ask_by_name(wish(method, path).session(&session).with("X-Toolgate-Agent", "builder"))
            .await;
        if *who == Who::Agent || *path == "/v1/sign-in-links" {
            assert_eq!(answer.status, 403, "{method} {path}");
        } else if *who == Who::Signed {
            assert_eq!(answer.status, 401, "{method} {path}");
        } else {
            assert!(is_good(&answer), "{method} {path}: {answer:?}");
        }
    }
    let asked = server.gate.asked();
    assert!(
        asked.contains(&"decide 02020202 Approve reason=- operator=true via=page".to_owned()),
        "{asked:?}"
    );
    assert!(!asked.iter().any(|asked| asked.starts_with("call ")));
}

#[tokio::test]
async fn an_agent_sees_its_own_calls_only() {
    let server = Server::start().await;
    let path = format!("/v1/calls/{}", call_id());
    for method in ["GET", "DELETE"] {
        let answer = server.ask(Wish::new(method, &path).bearer(OTHER_AGENT)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"));
    }
    server.ask(Wish::get("/v1/calls?limit=3").bearer(OTHER_AGENT)).await;
    server.ask(Wish::get("/v1/calls").bearer(OPERATOR)).await;
    assert_eq!(server.gate.asked(), ["calls of=tester most=4", "calls of=all most=51"]);
}

#[tokio::test]
async fn an_agent_collects_its_call_and_an_operator_only_looks() {
    let server = Server::start().await;
    let path = format!("/v1/calls/{}?wait_seconds=7", call_id());
    let seen = server.ask(Wish::get(&path).bearer(OPERATOR)).await.json();
    assert_eq!((&seen["status"], &seen["agent"]), (&"waiting".into(), &"builder".into()));
    assert_eq!(server.gate.asked(), Vec::<String>::new());
    let collected = server.ask(Wish::get(&path).bearer(AGENT)).await.json();
    assert_eq!(collected["status"], "completed");
    assert_eq!(server.gate.asked(), ["status builder 01010101 patience=7"]);
}

#[tokio::test]
async fn an_agent_cannot_speak_for_another() {
    let server = Server::start().await;
    let asked = wish("POST", "/v1/calls").bearer(AGENT);
    let answer = server.ask(asked.clone().with("X-Toolgate-Agent", "tester")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "not_that_agent"));
    assert_eq!(server.ask_by_name(asked.with("X-Toolgate-Agent", "builder")).await.status, 200);
    assert_eq!(server.gate.asked().len(), 1);
}

#[tokio::test]
async fn the_list_of_routes_is_all_there_is() {
    let server = Server::start().await;
    for path in
        ["/v1", "/v1/", "/v1/nothing", "/v1/calls/", "/v2/calls", "/assets/", "/assets/../healthz", "//"]
    {
        let answer = server.ask(Wish::get(path).bearer(OPERATOR)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"), "{path}");
    }
    for (_, path, _) in ROUTES {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            if !ROUTES.iter().any(|(known, other, _)| *known == method && other == path) {
                let asked = wish("POST", path);
                let answer = server.ask(asked.method(method).bearer(OPERATOR)).await;
                assert_eq!(
                    (answer.status, answer.problem().as_str()),
                    (405, "method_not_allowed"),
                    "{method} {path}"
                );
            }
        }
    }
}
