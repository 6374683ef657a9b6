//! What people look over: bounded, whatever the ledger holds.

use contract::{CallId, CallStatus, Digest, ToolName};
use store::{ApprovalState, NewCall};

use crate::gate::{Gate, NOW, asking, call_id, refused, running};

fn kinds(entries: &[store::LedgerEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.kind.as_str()).collect()
}

#[tokio::test]
async fn calls_are_counted_newest_first_since_a_time_and_no_more_than_asked_for() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.record(running(2)).await;
    gate.settle(&running(2), CallStatus::Completed).await;
    gate.record(asking(3)).await;
    gate.record(refused(4)).await;
    let counted = gate.store.pulses(NOW + 2, 10).await.unwrap();
    let seen: Vec<_> =
        counted.iter().map(|pulse| (pulse.asked_at - NOW, pulse.status, pulse.was_asked)).collect();
    assert_eq!(
        seen,
        [(4, CallStatus::Refused, false), (3, CallStatus::Waiting, true), (2, CallStatus::Completed, false)]
    );
    assert_eq!(gate.store.pulses(NOW, 2).await.unwrap(), counted[..2]);
}

#[tokio::test]
async fn settled_calls_are_read_backwards_from_a_place() {
    let gate = Gate::open().await;
    let mut places = Vec::new();
    for number in 1..=3 {
        gate.record(running(number)).await;
        places.push(gate.settle(&running(number), CallStatus::Completed).await);
    }
    let seqs = async |before, most| -> Vec<i64> {
        gate.store.settled_before(before, most).await.unwrap().iter().map(|entry| entry.seq).collect()
    };
    assert_eq!(seqs(i64::MAX, 2).await, [places[2], places[1]]);
    assert_eq!(seqs(places[1], 2).await, [places[0]]);
}

#[tokio::test]
async fn the_ledger_tells_of_one_call_from_its_planning_to_its_receipt_and_of_no_other() {
    let gate = Gate::open().await;
    gate.record(running(9)).await;
    gate.approved(1).await;
    gate.record(running(2)).await;
    gate.settle(&running(2), CallStatus::Completed).await;
    let waiting = gate.store.chapter(&call_id(1)).await.unwrap().unwrap();
    assert_eq!(kinds(&waiting.entries), ["call.planned", "approval.asked", "approval.answered"]);
    assert!(waiting.is_partial, "it has not ended");
    let settled = gate.store.chapter(&call_id(2)).await.unwrap().unwrap();
    assert_eq!(kinds(&settled.entries), ["call.planned", "call.started", "call.settled"]);
    assert!(!settled.is_partial);
    assert_eq!(gate.store.chapter(&CallId::from_random([77; 16])).await.unwrap(), None);
}

#[tokio::test]
async fn what_stands_far_from_a_call_is_not_looked_at_and_that_is_told() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    for number in 2..120 {
        gate.record(running(number)).await;
    }
    gate.settle(&running(1), CallStatus::Completed).await;
    let told = gate.store.chapter(&call_id(1)).await.unwrap().unwrap();
    assert_eq!(kinds(&told.entries), ["call.planned", "call.started", "call.settled"]);
    assert!(told.is_partial);
}

#[tokio::test]
async fn similar_calls_are_those_of_the_same_agent_and_tool_and_equal_arguments_are_told() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    let same =
        NewCall { arguments: asking(1).arguments, arguments_json: asking(1).arguments_json, ..refused(2) };
    gate.record(same).await;
    gate.record(NewCall { tool: ToolName::parse("fs.read").unwrap(), ..running(3) }).await;
    gate.record(NewCall { request: Digest::of(b"other"), ..asking(4) }).await;
    let similar = gate.store.similar(&call_id(1), 10).await.unwrap();
    let seen: Vec<_> = similar.iter().map(|call| (call.id.clone(), call.is_same, call.question)).collect();
    assert_eq!(seen, [(call_id(4), false, Some(ApprovalState::Pending)), (call_id(2), true, None)]);
    let other = gate.store.similar(&call_id(4), 10).await.unwrap();
    assert_eq!(
        other.last().map(|call| (call.question, call.is_same)),
        Some((Some(ApprovalState::Approved), false))
    );
    assert_eq!(gate.store.similar(&call_id(1), 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_spent_is_added_up_by_the_day() {
    let gate = Gate::open().await;
    assert_eq!(gate.store.spent_since(0).await.unwrap(), []);
    let mut raw = gate.raw().await;
    for (day, tool, spent) in [(7, "a", 5), (7, "b", 6), (8, "a", 1), (6, "a", 9)] {
        let sql = format!(
            "INSERT INTO spending (what, day, agent, task, tool, spent, reserved) VALUES ('cost', {day}, 'x', '', '{tool}', {spent}, 0)"
        );
        raw.run(&sql).await.unwrap();
    }
    raw.run("INSERT INTO spending (what, day, agent, task, tool, spent, reserved) VALUES ('calls', 8, 'x', '', 'a', 50, 0)")
        .await
        .unwrap();
    assert_eq!(gate.store.spent_since(7).await.unwrap(), [(8, 1), (7, 11)]);
}
