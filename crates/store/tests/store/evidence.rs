//! Approvals that nobody gave, written by someone with a SQL prompt, and keys that join.

use contract::CallStatus;
use serde_json::json;
use store::{Fault, Joined, NewCall, Recorded, StoreError, VerifyError};

use crate::gate::{
    Gate, LATER, NOW, approval, asking, asking_for, bytes_in_sql, call_id, no, running, settlement, yes,
};

/// Writes a yes of `you` and all that follows from it, as a gate would; only the ledger does not hear of it.
async fn forge(gate: &Gate, number: u8) {
    let (mut raw, id) = (gate.raw().await, approval(number));
    raw.run(&format!(
        "INSERT INTO answers (approval, operator, verdict, via, answered_at) \
         VALUES ('{id}', 'you', 'approve', 'cli', {NOW})"
    ))
    .await
    .unwrap();
    raw.run(&format!(
        "UPDATE approvals SET state = 'approved', decided_at = {NOW}, usable_until = {LATER} WHERE id = '{id}'"
    ))
    .await
    .unwrap();
}

async fn start(gate: &Gate, number: u8) -> Result<bool, StoreError> {
    gate.store.start_approved(&call_id(number), &approval(number), json!({}), NOW + 2000).await
}

#[tokio::test]
async fn an_approval_that_no_entry_tells_of_runs_nothing_and_is_found() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    assert!(start(&gate, 1).await.unwrap(), "the control");
    gate.record(asking(2)).await;
    gate.store.verify(None).await.unwrap();
    forge(&gate, 2).await;
    let size = gate.store.ledger_size().await.unwrap();
    assert!(
        matches!(start(&gate, 2).await, Err(StoreError::Unproved { approval: id, .. }) if id == approval(2))
    );
    assert_eq!(gate.store.ledger_size().await.unwrap(), size);
    let row = gate.store.call(&call_id(2)).await.unwrap().unwrap();
    assert_eq!(row.status, CallStatus::Waiting);
    match gate.store.verify(None).await {
        Err(VerifyError::Broken(broken)) => {
            assert!(
                matches!(broken.fault, Fault::Unproved { approval: id } if id == approval(2).to_string())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_real_yes_does_not_carry_a_forged_one() {
    let gate = Gate::open().await;
    gate.record(asking_for(1, 2)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    forge(&gate, 1).await;
    assert!(matches!(start(&gate, 1).await, Err(StoreError::Unproved { .. })));
}

#[tokio::test]
async fn an_entry_about_something_else_proves_nothing() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    gate.record(asking(2)).await;
    forge(&gate, 2).await;
    let mut raw = gate.raw().await;
    let id = approval(2);
    for kind in ["approval.asked", "call.planned"] {
        let seq = raw.number(&format!("SELECT max(seq) FROM ledger WHERE kind = '{kind}'")).await;
        let link =
            format!("INSERT INTO answer_entries (seq, approval, operator) VALUES ({seq}, '{id}', 'you')");
        raw.run(&format!("BEGIN; {link}; COMMIT")).await.unwrap();
        assert!(matches!(start(&gate, 2).await, Err(StoreError::Unproved { .. })), "{kind}");
        raw.drop_rules().await;
        raw.run(&format!("DELETE FROM answer_entries WHERE seq = {seq}")).await.unwrap();
    }
    // Nor does the entry of the other's yes, even when it is taken from the other.
    raw.run(&format!("UPDATE answer_entries SET approval = '{id}', operator = 'you'")).await.unwrap();
    assert!(matches!(start(&gate, 2).await, Err(StoreError::Unproved { .. })));
    assert!(start(&gate, 1).await.unwrap(), "which counts as before, whatever the links say");
}

#[tokio::test]
async fn nothing_is_built_on_an_entry_that_the_gate_has_not_signed() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let mut raw = gate.raw().await;
    let size = gate.store.ledger_size().await.unwrap();
    // Chained as it should be, so that only the signature is missing.
    let last = &gate.store.latest_event(i64::try_from(size).unwrap() - 2).await.unwrap()[0];
    let bytes = [&[0], contract::Canonical::of(json!(last)).unwrap().text().as_bytes()].concat();
    let prev: [u8; 32] = <sha2::Sha256 as sha2::Digest>::digest(bytes).into();
    raw.run(&format!(
        "INSERT INTO ledger (seq, time, kind, body, prev, hashes) \
         VALUES ({size}, 1, 'approval.answered', '{{}}', {}, {})",
        bytes_in_sql(&prev),
        bytes_in_sql(&[7; 32])
    ))
    .await
    .unwrap();
    for store in [gate.store.clone(), gate.again().await] {
        let error = store.record_call(running(2)).await.unwrap_err();
        assert!(matches!(error, store::RecordError::Store(StoreError::Unsigned)), "{error}");
    }
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_key_that_joins_a_call_that_waits_stands_for_it_from_then_on() {
    let gate = Gate::open().await;
    let first = NewCall { claim: Some("first".into()), ..asking(1) };
    gate.record(first.clone()).await;
    let join = async |claim: &'static str, request| {
        gate.store.join_call(&call_id(1), claim, request, NOW + 5).await.unwrap()
    };
    let size = gate.store.ledger_size().await.unwrap();
    assert_eq!(join("second", first.request).await, Joined::Here);
    assert_eq!(gate.store.ledger_size().await.unwrap(), size + 1, "and the ledger tells of it");
    assert_eq!(join("second", first.request).await, Joined::Here);
    assert_eq!(gate.store.ledger_size().await.unwrap(), size + 1, "once");
    assert_eq!(join("second", running(9).request).await, Joined::KeyConflict);

    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert!(start(&gate, 1).await.unwrap());
    gate.settle(&first, CallStatus::Completed).await;
    for claim in ["first", "second"] {
        let again = NewCall { id: call_id(2), claim: Some(claim.into()), ..running(1) };
        let recorded = gate.store.record_call(again).await.unwrap();
        assert!(
            matches!(&recorded, Recorded::Existing(row) if row.id == call_id(1)),
            "{claim}: {recorded:?}"
        );
    }
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn all_keys_of_a_call_that_did_nothing_are_free_again() {
    let gate = Gate::open().await;
    let first = NewCall { claim: Some("first".into()), ..asking(1) };
    gate.record(first.clone()).await;
    gate.store.join_call(&call_id(1), "second", first.request, NOW).await.unwrap();
    gate.store.answer(&approval(1), no("me")).await.unwrap();
    gate.store.settle(&settlement(&first, CallStatus::Refused)).await.unwrap();
    let late = gate.store.join_call(&call_id(1), "third", first.request, NOW).await.unwrap();
    assert_eq!(late, Joined::Gone);
    for (number, claim) in [(2, "first"), (3, "second"), (4, "third")] {
        gate.record(NewCall { claim: Some(claim.into()), ..running(number) }).await;
    }
}
