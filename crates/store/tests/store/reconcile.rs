//! What people find out about calls whose outcome nobody knew.

use contract::{CallStatus, Found, Reason, ReceiptBody, Reconciled};
use serde_json::json;
use store::{By, NewCall, ReconcileError, Reconciliation, Recorded, verify_export, verify_receipt};

use crate::gate::{Gate, NOW, call_id, insertions, operator, removals, running, settlement};

fn lost() -> NewCall {
    NewCall { claim: Some("key".into()), ..running(1) }
}

/// A gate with a call whose outcome nobody knows.
async fn with_a_lost_call() -> Gate {
    let gate = Gate::open().await;
    gate.record(lost()).await;
    gate.settle(&lost(), CallStatus::Unknown).await;
    gate
}

fn word(found: Found, by: &str) -> Reconciliation {
    let status = match found {
        Found::Happened => CallStatus::Completed,
        Found::DidNot => CallStatus::Failed,
    };
    let mut body = settlement(&lost(), status).body;
    body.reason = (found == Found::DidNot).then(|| Reason::interrupted("it did not happen"));
    body.reconciled = Some(Reconciled { found, by: operator(by), reason: Some("I looked".into()) });
    Reconciliation { call: call_id(1), body, result: json!({ "content": found.as_str() }), now: NOW + 9000 }
}

async fn same_call_again(gate: &Gate) -> Recorded {
    gate.store.record_call(NewCall { id: call_id(2), ..lost() }).await.unwrap()
}

#[tokio::test]
async fn what_nobody_knows_is_listed_until_somebody_finds_out() {
    let gate = with_a_lost_call().await;
    let listed = async || {
        let rows = gate.store.unresolved(9).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [call_id(1)]);
    gate.store.reconcile(word(Found::Happened, "me")).await.unwrap();
    assert_eq!(listed().await, []);
}

#[tokio::test]
async fn what_happened_keeps_its_claim_and_the_same_call_is_told_so() {
    let gate = with_a_lost_call().await;
    gate.store.reconcile(word(Found::Happened, "me")).await.unwrap();
    let Recorded::Existing(row) = same_call_again(&gate).await else { panic!() };
    assert_eq!((row.status, row.reconciled), (CallStatus::Completed, Some(Found::Happened)));
    assert_eq!(gate.store.result(&call_id(1)).await.unwrap(), Some(json!({ "content": "happened" })));
}

#[tokio::test]
async fn what_did_not_happen_gives_its_claim_back() {
    let gate = with_a_lost_call().await;
    gate.store.reconcile(word(Found::DidNot, "you")).await.unwrap();
    assert!(matches!(same_call_again(&gate).await, Recorded::New { .. }));
    assert_eq!(gate.store.call(&call_id(1)).await.unwrap().unwrap().status, CallStatus::Failed);
}

#[tokio::test]
async fn it_is_found_out_once_and_only_where_nobody_knew() {
    let gate = with_a_lost_call().await;
    gate.store.reconcile(word(Found::DidNot, "me")).await.unwrap();
    let twice = gate.store.reconcile(word(Found::Happened, "you")).await.unwrap_err();
    assert!(matches!(twice, ReconcileError::Reconciled { found: Found::DidNot, .. }), "{twice}");

    let gate = Gate::open().await;
    let missing = gate.store.reconcile(word(Found::DidNot, "me")).await.unwrap_err();
    assert!(matches!(missing, ReconcileError::Unknown { .. }), "{missing}");
    gate.record(lost()).await;
    let runs = gate.store.reconcile(word(Found::DidNot, "me")).await.unwrap_err();
    assert!(matches!(runs, ReconcileError::Known { status: CallStatus::Running, .. }), "{runs}");
    gate.settle(&lost(), CallStatus::Completed).await;
    let known = gate.store.reconcile(word(Found::DidNot, "me")).await.unwrap_err();
    assert!(matches!(known, ReconcileError::Known { status: CallStatus::Completed, .. }), "{known}");
}

#[tokio::test]
async fn only_those_who_may_approve_may_say_what_happened() {
    let gate = with_a_lost_call().await;
    gate.store.remove_operator(&operator("you"), By::Operator(&operator("me")), NOW).await.unwrap();
    for by in ["guest", "nobody", "you"] {
        let error = gate.store.reconcile(word(Found::DidNot, by)).await.unwrap_err();
        assert!(matches!(error, ReconcileError::NotAllowed { .. }), "{error}");
    }
    let silent =
        Reconciliation { body: settlement(&lost(), CallStatus::Failed).body, ..word(Found::DidNot, "me") };
    assert!(matches!(gate.store.reconcile(silent).await, Err(ReconcileError::Mismatch { .. })));
    assert!(matches!(same_call_again(&gate).await, Recorded::Existing(_)), "nothing was given back");
}

#[tokio::test]
async fn a_second_receipt_names_who_found_what_and_both_verify_here_and_elsewhere() {
    let gate = with_a_lost_call().await;
    gate.store.reconcile(word(Found::Happened, "me")).await.unwrap();
    let key = gate.store.keys().public();
    let first = verify_receipt(&gate.store.receipt(&call_id(1)).await.unwrap().unwrap(), key).unwrap();
    assert_eq!((first.status, first.reconciled), (CallStatus::Unknown, None));
    let second = gate.store.second_receipt(&call_id(1)).await.unwrap().unwrap();
    let second = verify_receipt(&second, key).unwrap();
    // Both name what was asked by the same commitments.
    let named = ReceiptBody {
        request: first.request,
        arguments: first.arguments,
        ..word(Found::Happened, "me").body
    };
    assert_eq!(second, named);
    assert!(first.request != lost().request && first.arguments != lost().arguments);
    let verified = gate.store.verify(None).await.unwrap();
    assert_eq!(verified.receipts, 2);
    let mut export = Vec::new();
    gate.store.export(&mut export).await.unwrap();
    assert_eq!(verify_export(export.as_slice(), key, None).unwrap(), verified);
}

#[tokio::test]
async fn a_second_receipt_that_was_changed_or_taken_away_is_found() {
    for change in ["UPDATE reconciliations SET envelope = '{}'", "DELETE FROM reconciliations"] {
        let gate = with_a_lost_call().await;
        gate.store.reconcile(word(Found::Happened, "me")).await.unwrap();
        let mut raw = gate.raw().await;
        assert!(raw.run(change).await.is_err(), "{change}");
        raw.drop_rules().await;
        raw.run(change).await.unwrap();
        assert!(gate.store.verify(None).await.is_err(), "{change}");
    }
}

#[tokio::test]
async fn the_database_itself_lets_no_claim_go_that_nobody_answers_for() {
    let gate = with_a_lost_call().await;
    gate.record(running(3)).await;
    let mut raw = gate.raw().await;
    assert_eq!(
        raw.run("DELETE FROM claims").await.unwrap_err(),
        "a claim is kept until its call has a known end"
    );
    let insert = |call: u8, by: &str| {
        format!(
            "INSERT INTO reconciliations VALUES ('{}', 'did_not', '{by}', NULL, 1, 0, '{{}}', '')",
            call_id(call)
        )
    };
    assert_eq!(
        raw.run(&insert(3, "me")).await.unwrap_err(),
        "only a call whose outcome is unknown is reconciled"
    );
    gate.store.remove_operator(&operator("you"), By::Operator(&operator("me")), NOW).await.unwrap();
    for by in ["guest", "you"] {
        assert_eq!(raw.run(&insert(1, by)).await.unwrap_err(), "only an approver or an admin reconciles");
    }
    gate.store.reconcile(word(Found::Happened, "me")).await.unwrap();
    for sql in [
        "UPDATE reconciliations SET found = 'did_not'".to_owned(),
        "DELETE FROM reconciliations".to_owned(),
        "DELETE FROM claims".to_owned(),
    ] {
        assert!(raw.run(&sql).await.is_err(), "{sql}");
    }
    for (verb, end) in insertions() {
        let sql = format!("{}{end}", insert(1, "me").replacen("INSERT", verb, 1));
        assert_eq!(raw.run(&sql).await.unwrap_err(), "a call is reconciled once", "{sql}");
    }
    for sql in removals("reconciliations").into_iter().chain(removals("gates")) {
        assert!(raw.run(&sql).await.is_err(), "{sql}");
    }
}
