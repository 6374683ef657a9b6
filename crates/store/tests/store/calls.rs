use contract::{AgentName, CallId, CallStatus, Digest, ReceiptBody, TaskName};
use serde_json::json;
use store::{CLAIM_KEPT_MS, Course, NewCall, Receipt, RecordError, Recorded, SettleError, verify_receipt};

use crate::gate::{Gate, LATER, NOW, approval, asking, call_id, no, refused, running, settlement, yes};

fn claiming(call: NewCall) -> NewCall {
    NewCall { claim: Some("builder/task/key".into()), ..call }
}

async fn kinds(gate: &Gate) -> Vec<String> {
    let entries = gate.store.latest_event(-1).await.unwrap();
    entries.into_iter().map(|entry| entry.kind).filter(|kind| !kind.starts_with("operator")).collect()
}

#[tokio::test]
async fn a_call_and_what_was_decided_are_in_the_ledger_before_anything_happens() {
    let gate = Gate::open().await;
    let seq = gate.record(running(1)).await;
    gate.record(asking(2)).await;
    gate.record(refused(3)).await;
    assert_eq!(
        kinds(&gate).await,
        ["gate.opened", "call.planned", "call.started", "call.planned", "approval.asked", "call.planned"]
    );
    let planned = &gate.store.latest_event(seq - 1).await.unwrap()[0];
    assert_eq!(planned.body["purpose"], "to test");
    assert_eq!(planned.body["decision"], "run");
    assert_eq!(planned.body["call"], json!(call_id(1)));
    assert_eq!(gate.store.call(&call_id(1)).await.unwrap().unwrap().planned_seq, seq);
    assert!(
        !json!(gate.store.latest_event(-1).await.unwrap()).to_string().contains("file-1"),
        "no arguments"
    );
}

#[tokio::test]
async fn a_call_reads_back_as_it_was_recorded() {
    let gate = Gate::open().await;
    let call = asking(1);
    gate.record(call.clone()).await;
    let row = gate.store.call(&call.id).await.unwrap().unwrap();
    assert_eq!((row.id, row.agent, row.task, row.tool), (call.id, call.agent, call.task, call.tool));
    assert_eq!((row.contract, row.request, row.arguments), (call.contract, call.request, call.arguments));
    assert_eq!((row.arguments_json, row.policy), (call.arguments_json, call.policy));
    assert_eq!((row.purpose, row.trace, row.asked_at), (call.purpose, call.trace, call.asked_at));
    assert_eq!((row.status, row.settled_at), (CallStatus::Waiting, None));
    assert_eq!((row.approval, row.receipt_seq), (Some(approval(1)), None));
    assert_eq!(gate.store.call(&call_id(9)).await.unwrap(), None);
}

#[tokio::test]
async fn what_people_would_see_is_what_they_would_bind() {
    let gate = Gate::open().await;
    for call in [running(1), asking(1)] {
        let call = NewCall { arguments_json: "{}".into(), ..call };
        assert!(matches!(gate.store.record_call(call).await, Err(RecordError::ArgumentsDiffer)));
    }
    // Of what is refused there may be no canonical text at all.
    gate.record(NewCall { arguments_json: "{".into(), ..refused(1) }).await;
}

#[tokio::test]
async fn an_id_is_used_once() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let size = gate.store.ledger_size().await.unwrap();
    assert!(matches!(gate.store.record_call(running(1)).await, Err(RecordError::Exists { .. })));
    assert_eq!(gate.store.ledger_size().await.unwrap(), size);
}

#[tokio::test]
async fn the_same_claim_is_the_same_call() {
    let gate = Gate::open().await;
    gate.record(claiming(running(1))).await;
    let size = gate.store.ledger_size().await.unwrap();
    let same = NewCall { id: call_id(2), ..claiming(running(1)) };
    let Recorded::Existing(row) = gate.store.record_call(same).await.unwrap() else { panic!() };
    assert_eq!(row.id, call_id(1));
    assert_eq!(gate.store.record_call(claiming(running(3))).await.unwrap(), Recorded::KeyConflict);
    assert_eq!(gate.store.ledger_size().await.unwrap(), size, "nothing was recorded");
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_claim_lapses_after_a_day_but_never_while_its_call_may_still_happen() {
    let gate = Gate::open().await;
    let call = claiming(running(1));
    gate.record(call.clone()).await;
    let at = |asked_at| NewCall { id: call_id(2), asked_at, ..claiming(running(1)) };
    let day = call.asked_at + CLAIM_KEPT_MS;
    assert!(matches!(gate.store.record_call(at(day)).await.unwrap(), Recorded::Existing(_)), "it runs");
    gate.settle(&call, CallStatus::Completed).await;
    assert!(matches!(gate.store.record_call(at(day - 1)).await.unwrap(), Recorded::Existing(_)), "too early");
    assert!(matches!(gate.store.record_call(at(day)).await.unwrap(), Recorded::New { .. }));
}

#[tokio::test]
async fn a_claim_whose_outcome_nobody_knows_is_never_given_away() {
    let gate = Gate::open().await;
    let call = claiming(running(1));
    gate.record(call.clone()).await;
    gate.settle(&call, CallStatus::Unknown).await;
    let much_later = NewCall { id: call_id(2), asked_at: NOW + 100 * CLAIM_KEPT_MS, ..call };
    assert!(matches!(gate.store.record_call(much_later).await.unwrap(), Recorded::Existing(_)));
}

#[tokio::test]
async fn a_call_that_never_ran_gives_its_claim_back() {
    let gate = Gate::open().await;
    let call = claiming(asking(1));
    gate.record(call.clone()).await;
    gate.store.answer(&approval(1), no("me")).await.unwrap();
    gate.settle(&call, CallStatus::Refused).await;
    let again = NewCall { id: call_id(2), ..claiming(running(1)) };
    assert!(matches!(gate.store.record_call(again).await.unwrap(), Recorded::New { .. }));
}

#[tokio::test]
async fn a_refusal_neither_takes_a_claim_nor_tells_what_another_call_gave() {
    let gate = Gate::open().await;
    gate.record(claiming(refused(1))).await;
    gate.record(claiming(running(2))).await;
    gate.record(claiming(refused(3))).await;
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM claims").await, 1);
}

#[tokio::test]
async fn an_equal_call_finds_the_one_that_waits() {
    let gate = Gate::open().await;
    let call = asking(1);
    gate.record(call.clone()).await;
    let find = async |now| {
        let found = gate.store.find_waiting(&call.agent, call.task.as_ref(), &call.tool, call.request, now);
        found.await.unwrap().map(|row| row.id)
    };
    assert_eq!(find(NOW).await, Some(call_id(1)));
    assert_eq!(find(LATER).await, None, "nobody can answer any more");
    let other = AgentName::parse("other").unwrap();
    let task = TaskName::parse("other").unwrap();
    let miss = async |agent, task, request| {
        gate.store.find_waiting(agent, task, &call.tool, request, NOW).await.unwrap().is_none()
    };
    assert!(miss(&other, call.task.as_ref(), call.request).await);
    assert!(miss(&call.agent, Some(&task), call.request).await);
    assert!(miss(&call.agent, None, call.request).await);
    assert!(miss(&call.agent, call.task.as_ref(), Digest::of(b"")).await);

    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!(find(LATER).await, Some(call_id(1)), "it is approved and has not run");
    assert!(gate.store.start_approved(&call.id, &approval(1), json!({}), LATER).await.unwrap());
    assert_eq!(find(LATER).await, None, "it runs");
}

#[tokio::test]
async fn a_call_without_a_task_is_found_too() {
    let gate = Gate::open().await;
    let call = NewCall { task: None, ..asking(1) };
    gate.record(call.clone()).await;
    let found = gate.store.find_waiting(&call.agent, None, &call.tool, call.request, NOW).await.unwrap();
    assert_eq!(found.unwrap().id, call.id);
}

#[tokio::test]
async fn a_settled_call_has_a_receipt_that_anyone_with_the_public_key_can_check() {
    let gate = Gate::open().await;
    let call = running(1);
    gate.record(call.clone()).await;
    let mut end = settlement(&call, CallStatus::Completed);
    end.artifacts = vec![("stdout".into(), b"long".to_vec()), ("copy".into(), b"long".to_vec())];
    let receipt = gate.store.settle(&end).await.unwrap();
    assert_eq!(receipt, Receipt { id: format!("r-{}", call.id), seq: receipt.seq });
    let row = gate.store.call(&call.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.settled_at), (CallStatus::Completed, Some(end.now)));
    assert_eq!(row.receipt_seq, Some(receipt.seq));
    assert_eq!(gate.store.result(&call.id).await.unwrap(), Some(json!({ "content": "done" })));
    assert_eq!(gate.store.artifact(&Digest::of(b"long")).await.unwrap().unwrap(), b"long");
    assert_eq!(gate.store.artifact(&Digest::of(b"none")).await.unwrap(), None);

    let envelope = gate.store.receipt(&call.id).await.unwrap().unwrap();
    let body = verify_receipt(&envelope, gate.store.keys().public()).unwrap();
    // What is private stands in it as commitments.
    let named = ReceiptBody { request: call.request, arguments: call.arguments, ..body.clone() };
    assert_eq!(named, end.body);
    assert!(body.request != call.request && body.arguments != call.arguments);
    let entry = &gate.store.latest_event(receipt.seq - 1).await.unwrap()[0];
    assert_eq!((entry.kind.as_str(), &entry.body), ("call.settled", &json!(body)));
}

#[tokio::test]
async fn a_call_is_settled_once_and_only_in_ways_there_are() {
    let gate = Gate::open().await;
    use CallStatus::{Cancelled, Completed, Failed, Refused, Running, Unknown, Waiting};
    let all = [Waiting, Running, Completed, Failed, Refused, Cancelled, Unknown];
    let ends = |call: &NewCall| match call.course {
        Course::Refuse => vec![Refused],
        Course::Ask(_) => vec![Refused, Cancelled],
        Course::Run { .. } | Course::RunUnder { .. } => vec![Completed, Failed, Cancelled, Unknown],
    };
    for (number, status) in (0..).step_by(3).zip(all) {
        for call in [refused(number), asking(number + 1), running(number + 2)] {
            gate.record(call.clone()).await;
            let size = gate.store.ledger_size().await.unwrap();
            let settled = gate.store.settle(&settlement(&call, status)).await;
            if ends(&call).contains(&status) {
                settled.unwrap();
                let again = gate.store.settle(&settlement(&call, status)).await;
                assert!(matches!(again, Err(SettleError::Settled { .. })));
            } else {
                assert!(matches!(settled, Err(SettleError::NoSuchWay { .. })), "{status:?}");
                assert_eq!(gate.store.ledger_size().await.unwrap(), size);
            }
        }
    }
    let unknown = gate.store.settle(&settlement(&running(200), Completed)).await;
    assert!(matches!(unknown, Err(SettleError::Unknown { .. })));
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_receipt_about_something_else_is_not_signed() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let other = NewCall { id: call_id(1), ..running(2) };
    let settled = gate.store.settle(&settlement(&other, CallStatus::Completed)).await;
    assert!(matches!(settled, Err(SettleError::Mismatch { what: "request" })));
    let mut end = settlement(&running(1), CallStatus::Completed);
    end.body.status = CallStatus::Failed;
    assert!(matches!(gate.store.settle(&end).await, Err(SettleError::Mismatch { what: "status" })));
    let mut end = settlement(&running(1), CallStatus::Completed);
    end.artifacts = vec![("a".into(), vec![]), ("a".into(), vec![])];
    assert!(matches!(gate.store.settle(&end).await, Err(SettleError::DuplicateArtifact { .. })));
}

#[tokio::test]
async fn calls_are_listed_newest_first_page_by_page() {
    let gate = Gate::open().await;
    for number in 1..=5 {
        gate.record(NewCall { asked_at: NOW, ..running(number) }).await;
    }
    let ids = async |before: Option<CallId>| {
        let rows = gate.store.calls(2, before.as_ref()).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None).await, [call_id(5), call_id(4)]);
    assert_eq!(ids(Some(call_id(4))).await, [call_id(3), call_id(2)]);
    assert_eq!(ids(Some(call_id(2))).await, [call_id(1)]);
}
