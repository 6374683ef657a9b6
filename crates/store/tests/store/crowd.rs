//! Much at once: questions, arguments, callers; and a clock that goes back.

use contract::{CallId, CallStatus, Digest};
use store::{ApprovalFilter, CLAIM_KEPT_MS, NewCall, RecordError, Recorded, StoreError};
use tokio::task::JoinSet;

use crate::gate::{Gate, LATER, NOW, approval, asking, call_id, running, settlement, yes};

/// Questions by the thousand: the oldest 20 are about a megabyte each, the others come straight into the tables.
async fn ask_often(gate: &Gate, count: u32) {
    for number in 1..=20 {
        let arguments_json = format!("{{\"text\":\"{}\"}}", "x".repeat(1 << 20));
        let arguments = Digest::of(arguments_json.as_bytes());
        gate.record(NewCall { arguments, arguments_json, ..asking(number) }).await;
    }
    let mut raw = gate.raw().await;
    let call = asking(1);
    raw.drop_rules().await;
    let digest = Digest::of(b"");
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 21 UNION ALL SELECT i + 1 FROM n WHERE i < {count})");
    let id = "'000000000000000000000000000' || (10000 + i)";
    raw.run(&format!(
        "{numbers} INSERT INTO calls (id, agent, tool, contract, request, arguments, arguments_json, policy, trace, \
         asked_at, planned_seq, status) SELECT {id}, '{}', '{}', '{digest}', '{digest}', '{digest}', \
         '', '{digest}', '[]', {NOW} + i, 100000 + i, 'waiting' FROM n",
        call.agent, call.tool
    ))
    .await
    .unwrap();
    raw.run(&format!(
        "{numbers} INSERT INTO approvals (id, call, why, quorum, state, asked_at, expires_at) \
         SELECT {id}, {id}, '[]', 1, 'pending', {NOW} + i, {LATER} FROM n"
    ))
    .await
    .unwrap();
}

#[tokio::test]
async fn ten_thousand_questions_are_counted_and_listed_in_part_without_their_arguments() {
    let gate = Gate::open().await;
    ask_often(&gate, 10_000).await;
    let call = asking(1);
    assert_eq!(gate.store.open_questions(&call.agent).await.unwrap(), 10_000);
    let other = contract::AgentName::parse("other").unwrap();
    assert_eq!(gate.store.open_questions(&other).await.unwrap(), 0);
    for filter in [ApprovalFilter::Pending, ApprovalFilter::All] {
        let rows = gate.store.approvals(filter, 200).await.unwrap();
        assert_eq!(rows.len(), 200);
        let carried: usize = rows.iter().filter_map(|row| row.arguments_json.as_ref()).map(String::len).sum();
        assert!(carried < 1000, "{carried}");
    }
    let oldest = &gate.store.approvals(ApprovalFilter::Pending, 1).await.unwrap()[0];
    assert_eq!(oldest.arguments_json, None, "too long for a list");
    let alone = gate.store.approval(&oldest.id).await.unwrap().unwrap();
    assert!(alone.arguments_json.unwrap().len() > 1 << 20, "alone it has them");
    assert_eq!(gate.store.calls(50, None).await.unwrap().len(), 50);
    assert_eq!(gate.store.calls_of(&call.agent, 50, None).await.unwrap().len(), 50);
    assert_eq!(gate.store.calls_of(&other, 50, None).await.unwrap(), []);

    let late = gate.store.expire(LATER).await.unwrap();
    assert_eq!(late.len(), 100, "so many at once");
    assert_eq!(gate.store.open_questions(&call.agent).await.unwrap(), 9_900);
}

#[tokio::test]
async fn a_megabyte_of_arguments_is_kept_and_found_whole() {
    let gate = Gate::open().await;
    let text = format!("{{\"text\":\"{}\"}}", "é\u{1F600}x".repeat(150_000));
    let call = NewCall { arguments: Digest::of(text.as_bytes()), arguments_json: text.clone(), ..asking(1) };
    gate.record(call.clone()).await;
    let row = gate.store.call(&call.id).await.unwrap().unwrap();
    assert!(row.arguments_json == text, "{} bytes", row.arguments_json.len());
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert!(
        gate.store.start_approved(&call.id, &approval(1), serde_json::json!({}), NOW + 2000).await.unwrap()
    );
    let mut end = settlement(&call, CallStatus::Completed);
    end.artifacts = vec![("stdout".into(), vec![7; 8 << 20])];
    gate.store.settle(&end).await.unwrap();
    assert_eq!(gate.store.artifact(&Digest::of(&vec![7; 8 << 20])).await.unwrap().unwrap().len(), 8 << 20);
    gate.store.verify(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_calls_at_once_each_is_recorded_or_its_caller_is_told() {
    let gate = Gate::open().await;
    let mut tasks = JoinSet::new();
    for number in 0..1000u16 {
        let [high, low] = number.to_be_bytes();
        let id = CallId::from_random([high, low, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let store = gate.store.clone();
        tasks.spawn(async move { store.record_call(NewCall { id, ..running(1) }).await });
    }
    let (mut recorded, mut told) = (0, 0);
    for result in tasks.join_all().await {
        match result {
            Ok(Recorded::New { .. }) => recorded += 1,
            // On a machine that is slow enough.
            Err(RecordError::Store(StoreError::Locked(_))) => told += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(recorded + told, 1000);
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM calls").await, recorded);
    gate.store.record_call(running(2)).await.unwrap();
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_clock_that_goes_back_a_day_frees_no_claim_and_breaks_no_chain() {
    let gate = Gate::open().await;
    let day = CLAIM_KEPT_MS;
    let claiming = |number, asked_at| NewCall { claim: Some("key".into()), asked_at, ..running(number) };
    let first = claiming(1, NOW);
    gate.record(first.clone()).await;
    gate.settle(&first, CallStatus::Completed).await;
    let same = NewCall { id: call_id(2), ..claiming(1, NOW - day) };
    assert!(matches!(gate.store.record_call(same).await.unwrap(), Recorded::Existing(_)));
    gate.record(NewCall { asked_at: NOW - day, ..running(3) }).await;
    // A question of today is answered by yesterday's clock: it has not expired, and is used within its time.
    gate.record(asking(4)).await;
    let answer = store::Answer { now: NOW - day, ..yes("me") };
    let row = gate.store.answer(&approval(4), answer).await.unwrap();
    let until = row.usable_until.unwrap();
    assert!(until < NOW, "{until}");
    let start = |now| gate.store.start_approved(&row.call, &row.id, serde_json::json!({}), now);
    assert!(!start(NOW).await.unwrap(), "not when the clock is right again");
    assert!(start(NOW - day).await.unwrap());
    let newest: Vec<_> = gate.store.calls(9, None).await.unwrap().into_iter().map(|line| line.id).collect();
    assert_eq!(newest, [call_id(4), call_id(1), call_id(3)]);
    gate.store.verify(None).await.unwrap();
}
