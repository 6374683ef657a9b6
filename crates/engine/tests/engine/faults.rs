//! A store that fails, at every operation in turn: nothing runs unrecorded, nothing is told that did not happen, and the
//! gate goes on.

use std::time::Duration;

use contract::{CallResult, CallStatus};
use engine::Credential;
use serde_json::json;
use store::{Vote, danger};
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, code, request, settings};

/// What may be answered where the store failed, by whether the tool has run.
fn check(result: &CallResult, runs: usize, at: u32) {
    let told = (result.status, code(result));
    match runs {
        0 => assert!(
            matches!(
                told,
                (CallStatus::Failed | CallStatus::Refused, "internal" | "interrupted")
                    | (CallStatus::Unknown, "outcome_unknown")
            ),
            "{at}: {result:?}"
        ),
        1 => assert_eq!(told, (CallStatus::Unknown, "outcome_unknown"), "{at}: {result:?}"),
        more => panic!("{at}: it ran {more} times"),
    }
    assert!(!result.content.contains("PoolClosed"), "what the database says is for operators: {result:?}");
}

/// The gate ends by itself what the failure has left, and says of it what it knows.
async fn check_recovered(desk: &Desk, result: &CallResult, at: u32) {
    desk.engine.recover().await.unwrap();
    let store = desk.engine.store();
    assert_eq!(store.owners().await.unwrap(), [], "{at}: nothing is left under way");
    let row = store.call(&result.call_id).await.unwrap();
    match (row.map(|row| row.status), desk.runs()) {
        (Some(CallStatus::Completed | CallStatus::Unknown), 1) => {}
        (None | Some(CallStatus::Failed | CallStatus::Refused | CallStatus::Unknown), 0) => {}
        (status, runs) => panic!("{at}: it is {status:?} and ran {runs} times"),
    }
}

#[tokio::test]
async fn a_call_is_recorded_or_does_not_run_whatever_fails_and_when() {
    let mut failures = 0;
    for at in 0.. {
        let desk = Desk::open(settings()).await;
        danger::fail_at(desk.engine.store(), at);
        let result = desk.call("do", json!({ "what": "x" })).await;
        if danger::spare(desk.engine.store()) {
            assert_eq!(result.status, CallStatus::Completed, "nothing failed");
            break;
        }
        failures += 1;
        check(&result, desk.runs(), at);
        desk.engine.store().verify(None).await.unwrap();
        check_recovered(&desk, &result, at).await;
        assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed, "{at}: it goes on");
    }
    assert!(failures >= 8, "only {failures} operations were tried");
}

#[tokio::test]
async fn a_refusal_stays_one_whatever_fails_and_when() {
    let mut failures = 0;
    for at in 0.. {
        let desk = Desk::open(settings()).await;
        danger::fail_at(desk.engine.store(), at);
        let result = desk.call("nothing", json!({})).await;
        if danger::spare(desk.engine.store()) {
            assert_eq!(code(&result), "unknown_tool");
            break;
        }
        failures += 1;
        assert_eq!(desk.runs(), 0);
        assert_ne!(result.status, CallStatus::Completed);
        desk.engine.store().verify(None).await.unwrap();
    }
    assert!(failures >= 5, "only {failures} operations were tried");
}

#[tokio::test]
async fn what_people_approved_runs_once_or_not_at_all_whatever_fails_and_when() {
    let mut failures = 0;
    for at in 0.. {
        let desk = Desk::open(settings()).await;
        let waiting = desk.call("do", json!({ "what": "ask" })).await;
        let approval = waiting.approval.unwrap();
        let credential = Credential::load_or_create(desk.home.path()).unwrap();
        danger::fail_at(desk.engine.store(), at);
        let answered =
            desk.engine.answer(approval.id.as_str(), Vote::Approve, None, &credential, "test").await;
        let again = request("builder", "do", json!({ "what": "ask" }));
        let first = desk.engine.call(again.clone(), Duration::ZERO, CancellationToken::new()).await;
        let spared = danger::spare(desk.engine.store());
        assert!(desk.runs() <= 1, "{at}");
        if spared {
            assert!(answered.is_ok());
            assert_eq!(first.status, CallStatus::Completed);
            break;
        }
        failures += 1;
        match first.status {
            CallStatus::Completed => assert_eq!(desk.runs(), 1),
            CallStatus::Unknown => assert_eq!(code(&first), "outcome_unknown", "{at}"),
            // Nothing has run, and the question is still there, or there is a new one.
            CallStatus::Waiting | CallStatus::Failed => assert_eq!(desk.runs(), 0, "{at}: {first:?}"),
            other => panic!("{at}: {other:?}"),
        }
        desk.engine.store().verify(None).await.unwrap();
        let _ = desk.engine.call(again, Duration::ZERO, CancellationToken::new()).await;
        assert!(desk.runs() <= 1 || first.status == CallStatus::Completed, "{at}");
    }
    assert!(failures >= 12, "only {failures} operations were tried");
}
