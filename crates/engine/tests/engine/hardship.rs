//! What a gate does when there is too much of something, or nothing to record it with.

use std::time::Duration;

use contract::{CallStatus, Rate};
use policy::{RateSettings, Settings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, code, request, settings};

fn unlimited() -> Settings {
    let plenty = Rate { max_calls: 1_000_000, window_ms: 1000 };
    Settings { rates: RateSettings { each_agent: plenty, ..RateSettings::default() }, ..settings() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_calls_at_once_each_runs_once_and_has_its_receipt() {
    let desk = Desk::open(unlimited()).await;
    let requests = (0..1000).map(|number| request("builder", "do", json!({ "what": number.to_string() })));
    let calls = desk.engine.call_all(requests.collect(), 1000, Duration::ZERO, CancellationToken::new());
    let batch = calls.await;
    for (number, result) in batch.results.iter().enumerate() {
        assert_eq!(result.status, CallStatus::Completed, "{number}: {}", result.content);
        assert!(result.content.contains(&format!("did: {number}")), "{number}: {}", result.content);
        assert!(result.receipt.is_some(), "{number}");
    }
    assert_eq!((batch.results.len(), desk.runs()), (1000, 1000));
    let verified = desk.engine.store().verify(None).await.unwrap();
    assert_eq!(verified.receipts, 1000);
}

#[tokio::test]
async fn a_megabyte_of_arguments_goes_all_the_way_and_one_byte_more_goes_nowhere() {
    let desk = Desk::open(Settings { max_arguments: 1 << 20, ..settings() }).await;
    let fits = (1 << 20) - json!({ "what": "" }).to_string().len();
    let result = desk.call("do", json!({ "what": "x".repeat(fits) })).await;
    assert_eq!((result.status, desk.runs()), (CallStatus::Completed, 1), "{}", result.content.len());
    let row = desk.engine.store().call(&result.call_id).await.unwrap().unwrap();
    assert_eq!(row.arguments_json.len(), 1 << 20);
    // Asked about, too, and shown whole to whoever answers.
    let question = desk.call("do", json!({ "what": format!("ask{}", "x".repeat(fits - 3)) })).await;
    assert_eq!(question.status, CallStatus::Waiting, "{}", question.content.len());
    let shown = desk.engine.waiting().await.unwrap().remove(0).shown_arguments;
    assert!(shown.len() > 1 << 20, "{}", shown.len());
    let result = desk.call("do", json!({ "what": "x".repeat(fits + 1) })).await;
    assert_eq!((result.status, code(&result), desk.runs()), (CallStatus::Refused, "too_large", 1));
    desk.engine.store().verify(None).await.unwrap();
}

#[tokio::test]
async fn a_gate_whose_store_is_gone_runs_nothing_and_goes_on_when_it_is_back() {
    let desk = Desk::open(settings()).await;
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    let (there, away) = (desk.home.path().join("toolgate.db"), desk.home.path().join("away.db"));
    std::fs::rename(&there, &away).unwrap();
    let result = desk.call("do", json!({})).await;
    assert_eq!((result.status, code(&result)), (CallStatus::Failed, "internal"), "{}", result.content);
    assert!(result.content.contains("nothing ran"), "{}", result.content);
    assert_eq!(desk.runs(), 1, "nothing ran");
    std::fs::rename(&away, &there).unwrap();
    let result = desk.call("do", json!({})).await;
    assert_eq!((result.status, desk.runs()), (CallStatus::Completed, 2), "{}", result.content);
    assert_eq!(desk.engine.store().verify(None).await.unwrap().receipts, 2);
}
