//! What the console looks into, before a gate that answers from memory.

use contract::{ApprovalId, CallId, ToolName};
use engine::Credential;
use serde_json::{Value, json};
use server::{Desk, GateError, Pending, ReadingError};

use crate::client::Wish;
use crate::stub::{OPERATOR, Server, Stub, VIEWER, approval_id, call_id, ready};

impl Desk for Stub {
    fn review<'a>(&'a self, id: &'a ApprovalId) -> Pending<'a, Result<Option<Value>, GateError>> {
        ready(Ok((*id == approval_id()).then(|| json!({ "approval_id": id }))))
    }

    fn story<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>> {
        ready(Ok((*id == call_id()).then(|| json!({ "call_id": id }))))
    }

    fn receipt<'a>(&'a self, id: &'a CallId) -> Pending<'a, Result<Option<Value>, GateError>> {
        ready(Ok((*id == call_id()).then(|| json!({ "receipt": format!("r-{id}") }))))
    }

    fn reading<'a>(&'a self, id: &'a CallId, _: &'a Credential) -> Pending<'a, Result<Value, ReadingError>> {
        self.note(format!("reading {}", id.as_str().get(..8).unwrap_or_default()));
        ready(if *id == call_id() { Ok(json!({ "call_id": id })) } else { Err(ReadingError::Unknown) })
    }

    fn registry(&self) -> Pending<'_, Result<Vec<Value>, GateError>> {
        ready(Ok(vec![json!({ "name": "fs.read" })]))
    }

    fn registered<'a>(&'a self, name: &'a ToolName) -> Pending<'a, Result<Option<Value>, GateError>> {
        ready(Ok((name.as_str() == "fs.read").then(|| json!({ "name": name }))))
    }

    fn agents(&self) -> Pending<'_, Result<Vec<Value>, GateError>> {
        ready(Ok(vec![json!({ "name": "builder" })]))
    }

    fn egress(&self, before: Option<u64>) -> Pending<'_, Result<Value, GateError>> {
        ready(Ok(json!({ "before": before, "places": [] })))
    }

    fn overview(&self) -> Pending<'_, Result<Value, GateError>> {
        ready(Ok(json!({ "hours": [] })))
    }

    fn policy(&self) -> Pending<'_, Result<Value, GateError>> {
        ready(Ok(json!({ "history": [] })))
    }

    fn entries(&self, before: Option<u64>, most: u32) -> Pending<'_, Result<Value, GateError>> {
        ready(Ok(json!({ "before": before, "most": most, "entries": [] })))
    }

    fn verify(&self) -> Pending<'_, Result<Value, GateError>> {
        ready(Ok(json!({ "state": "verified", "entries": 7 })))
    }
}

#[tokio::test]
async fn what_a_call_keeps_private_is_shown_to_admins_alone() {
    let server = Server::start().await;
    let path = format!("/v1/calls/{}/reading", call_id());
    let wish = || Wish::new("POST", &path);
    let answer = server.ask(wish().bearer(VIEWER)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "admin_needed"));
    assert_eq!(server.gate.asked(), Vec::<String>::new());
    assert_eq!(server.ask(wish().bearer(OPERATOR)).await.status, 200);
    assert_eq!(server.gate.asked(), ["reading 01010101"]);
}

#[tokio::test]
async fn what_is_not_there_is_said_not_to_be() {
    let server = Server::start().await;
    let other = CallId::from_random([9; 16]);
    for path in [
        format!("/v1/calls/{other}/story"),
        format!("/v1/calls/{other}/receipt"),
        "/v1/calls/x/story".to_owned(),
        format!("/v1/approvals/{other}"),
        "/v1/registry/no.such".to_owned(),
        "/v1/registry/..%2f".to_owned(),
    ] {
        let answer = server.ask(Wish::get(&path).bearer(OPERATOR)).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn lists_have_a_limit_whatever_is_asked_for() {
    let server = Server::start().await;
    let ask = async |path: &str| server.ask(Wish::get(path).bearer(OPERATOR)).await.body;
    assert!(ask("/v1/ledger?limit=100000&before=40").await.contains("\"before\":40,"));
    assert!(ask("/v1/ledger?limit=100000").await.contains("\"most\":200,"));
    assert!(ask("/v1/ledger?limit=0").await.contains("\"most\":1,"));
    let wrong = server.ask(Wish::get("/v1/ledger?before=-1").bearer(OPERATOR)).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

#[tokio::test]
async fn going_through_the_ledger_is_not_for_those_who_only_look_and_its_end_is_told() {
    let server = Server::start().await;
    let refused = server.ask(Wish::new("POST", "/v1/ledger/verification").bearer(VIEWER)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "only_looks"));
    let before = server.ask(Wish::get("/v1/ledger").bearer(VIEWER)).await.body;
    assert!(before.contains("{\"state\":\"never\"}"), "{before}");
    let begun = server.ask(Wish::new("POST", "/v1/ledger/verification").bearer(OPERATOR)).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    for _ in 0..100 {
        let told = server.ask(Wish::get("/v1/ledger").bearer(VIEWER)).await.body;
        if told.contains("\"state\":\"verified\"") {
            assert!(told.contains("\"ended_at\":"), "{told}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("it never ended");
}
