//! Many calls at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::CallStatus;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, code, request, settings};

#[tokio::test]
async fn no_call_ends_another_and_each_has_its_answer_in_its_place() {
    let desk = Desk::open(settings()).await;
    let wishes = ["a", "fail", "panic", "b", "panic at once", "ask", "c"];
    let mut requests: Vec<_> =
        wishes.iter().map(|what| request("builder", "do", json!({ "what": what }))).collect();
    requests.push(request("builder", "nothing", json!({})));
    let batch = desk.engine.call_all(requests, 3, Duration::ZERO, CancellationToken::new()).await;
    use CallStatus::{Completed, Failed, Refused, Unknown, Waiting};
    let statuses: Vec<CallStatus> = batch.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Completed, Failed, Unknown, Completed, Refused, Waiting, Completed, Refused]);
    let codes: Vec<&str> = batch.results.iter().map(code).collect();
    assert_eq!(codes, ["", "tool_failed", "outcome_unknown", "", "internal", "", "", "unknown_tool"]);
    assert_eq!(batch.panicked, [2, 4]);
    for result in &batch.results {
        assert!(!result.content.contains("SECRET"), "{}", result.content);
        assert_eq!(result.receipt.is_some(), result.status != Waiting, "{result:?}");
    }
    desk.engine.store().verify(None).await.unwrap();
}

#[tokio::test]
async fn no_more_run_at_a_time_than_was_said() {
    let desk = Desk::open(settings()).await;
    let requests = (0..20).map(|_| request("builder", "do", json!({ "what": "wait" }))).collect();
    let engine = desk.engine.clone();
    let calls =
        tokio::spawn(
            async move { engine.call_all(requests, 4, Duration::ZERO, CancellationToken::new()).await },
        );
    while desk.runs() < 4 {
        tokio::task::yield_now().await;
    }
    while !calls.is_finished() {
        desk.seen.go_on.notify_one();
        tokio::task::yield_now().await;
    }
    assert_eq!(calls.await.unwrap().results.len(), 20);
    assert_eq!((desk.runs(), desk.seen.most_at_once.load(Ordering::SeqCst)), (20, 4));
}

#[tokio::test]
async fn none_are_answered_at_once() {
    let desk = Desk::open(settings()).await;
    let batch = desk.engine.call_all(Vec::new(), 0, Duration::ZERO, CancellationToken::new()).await;
    assert_eq!((batch.results.len(), batch.panicked.len()), (0, 0));
}
