//! Who owns a call, and what others may do with it.

use std::time::Duration;

use contract::{CallStatus, Code, GateId, Reason, SafetyClass};
use serde_json::json;
use store::{Course, Fate, NewCall, Recorded, SettleError, Settlement, Store};

use crate::gate::{Gate, NOW, approval, asking, call_id, insertions, refused, running, settlement};

/// A call that changes something, so that it is planned first and begun after.
fn writing(number: u8) -> NewCall {
    NewCall { safety: SafetyClass::Write, claim: Some(format!("key {number}")), ..running(number) }
}

fn interrupted(call: &NewCall) -> Settlement {
    let mut end = settlement(call, CallStatus::Failed);
    end.body.reason = Some(Reason::interrupted("the gate ended"));
    end
}

async fn status(store: &Store, number: u8) -> CallStatus {
    store.call(&call_id(number)).await.unwrap().unwrap().status
}

async fn owner(store: &Store, number: u8) -> GateId {
    store.call(&call_id(number)).await.unwrap().unwrap().owner.unwrap()
}

/// A server takes a moment to notice that a session has ended. Far more than that.
const NOTICED: Duration = Duration::from_secs(30);

/// The gate whose store was closed and dropped has died, as far as anybody can tell. Returns when another knows.
async fn die(gate: Gate, id: &GateId) -> (tempfile::TempDir, Store) {
    let other = gate.again().await;
    let Gate { home, store, .. } = gate;
    store.close().await;
    drop(store);
    let known = async { while other.fate(Some(id)).await.unwrap() != Fate::Lost {} };
    tokio::time::timeout(NOTICED, known).await.unwrap();
    (home, other)
}

#[tokio::test]
async fn what_changes_something_is_planned_before_it_is_begun_and_both_are_in_the_ledger() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    assert_eq!(status(&gate.store, 1).await, CallStatus::Planned);
    assert!(gate.store.begin_call(&call_id(1), json!({ "root": "/w" }), NOW).await.unwrap());
    assert_eq!(status(&gate.store, 1).await, CallStatus::Running);
    let kinds: Vec<String> =
        gate.store.latest_event(-1).await.unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["call.planned", "call.started"]);
}

#[tokio::test]
async fn a_call_is_begun_once() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    assert!(gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
    assert!(!gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
    gate.store.settle(&settlement(&writing(1), CallStatus::Completed)).await.unwrap();
    assert!(!gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
}

#[tokio::test]
async fn what_was_refused_and_what_waits_are_not_begun() {
    let gate = Gate::open().await;
    gate.record(refused(1)).await;
    gate.record(asking(2)).await;
    for number in [2, 3] {
        assert!(!gate.store.begin_call(&call_id(number), json!({}), NOW).await.unwrap());
    }
    assert!(gate.store.begin_call(&call_id(1), json!({}), NOW).await.is_err(), "the database itself refuses");
    assert_eq!(status(&gate.store, 1).await, CallStatus::Refused);
}

#[tokio::test]
async fn another_gates_calls_are_neither_begun_nor_settled_while_it_lives() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    gate.record(writing(1)).await;
    gate.record(running(2)).await;
    assert!(!other.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
    for call in [writing(1), running(2)] {
        let error = other.settle(&interrupted(&call)).await.unwrap_err();
        assert!(matches!(error, SettleError::NotOurs { .. }), "{error}");
    }
    let of = owner(&gate.store, 1).await;
    assert_eq!(other.fate(Some(&of)).await.unwrap(), Fate::Lives);
    assert_eq!(gate.store.fate(Some(&of)).await.unwrap(), Fate::Own);
    assert!(!other.lose(&of, NOW).await.unwrap(), "one that lives is not lost");
    assert!(gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
}

#[tokio::test]
async fn the_calls_of_one_that_died_are_found_and_ended_by_another() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    gate.record(writing(2)).await;
    assert!(gate.store.begin_call(&call_id(2), json!({}), NOW).await.unwrap());
    gate.record(asking(3)).await;
    let of = owner(&gate.store, 1).await;
    let (_home, other) = die(gate, &of).await;

    assert_eq!(other.owners().await.unwrap(), [Some(of.clone())]);
    let error = other.settle(&interrupted(&writing(1))).await.unwrap_err();
    assert!(matches!(error, SettleError::NotOurs { .. }), "not before it is on record that it is lost");
    assert!(other.lose(&of, NOW).await.unwrap());
    assert!(!other.lose(&of, NOW).await.unwrap(), "once");
    let left: Vec<_> = other.under_way(Some(&of), 9).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(left, [call_id(1), call_id(2)], "what waits belongs to nobody");

    other.settle(&interrupted(&writing(1))).await.unwrap();
    other.settle(&settlement(&writing(2), CallStatus::Unknown)).await.unwrap();
    assert_eq!(other.owners().await.unwrap(), []);
    let again = |number, id| NewCall { id: call_id(id), ..writing(number) };
    assert!(matches!(other.record_call(again(1, 11)).await.unwrap(), Recorded::New { .. }), "given back");
    assert!(matches!(other.record_call(again(2, 12)).await.unwrap(), Recorded::Existing(_)), "kept");
    other.verify(None).await.unwrap();
}

#[tokio::test]
async fn one_that_was_taken_for_dead_begins_nothing_and_goes_on_as_another() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    let before = owner(&gate.store, 1).await;
    let other = gate.again().await;
    // Whatever made others believe it.
    let mut raw = gate.raw().await;
    raw.run(&format!("UPDATE gates SET lost_at = 5 WHERE id = '{before}'")).await.unwrap();
    assert!(!gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap());
    other.settle(&interrupted(&writing(1))).await.unwrap();

    gate.record(writing(2)).await;
    assert_ne!(owner(&gate.store, 2).await, before);
    assert!(gate.store.begin_call(&call_id(2), json!({}), NOW).await.unwrap());
}

#[tokio::test]
async fn what_another_has_ended_is_not_ended_again_by_whoever_has_begun_it() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let owner = owner(&gate.store, 1).await;
    let other = gate.again().await;
    let mut raw = gate.raw().await;
    raw.run(&format!("UPDATE gates SET lost_at = 5 WHERE id = '{owner}'")).await.unwrap();
    other.settle(&interrupted(&running(1))).await.unwrap();
    let entries = gate.store.ledger_size().await.unwrap();

    let error = gate.store.settle(&settlement(&running(1), CallStatus::Completed)).await.unwrap_err();
    assert!(matches!(error, SettleError::Settled { status: CallStatus::Failed, .. }), "{error}");
    assert_eq!(gate.store.ledger_size().await.unwrap(), entries);
    assert_eq!(gate.store.verify(None).await.unwrap().receipts, 1);
}

#[tokio::test]
async fn what_only_reads_gives_its_claim_back_when_its_gate_died() {
    let gate = Gate::open().await;
    let call = NewCall { claim: Some("key".into()), ..running(1) };
    gate.record(call.clone()).await;
    let of = owner(&gate.store, 1).await;
    let (_home, other) = die(gate, &of).await;
    assert!(other.lose(&of, NOW).await.unwrap());
    other.settle(&interrupted(&call)).await.unwrap();
    let again = NewCall { id: call_id(2), ..call };
    assert!(matches!(other.record_call(again).await.unwrap(), Recorded::New { .. }));
}

#[tokio::test]
async fn a_call_that_changes_something_and_has_begun_keeps_its_claim_whatever_is_said_of_it() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    gate.store.begin_call(&call_id(1), json!({}), NOW).await.unwrap();
    let end = interrupted(&writing(1));
    assert_eq!(end.body.reason.as_ref().unwrap().code, Code::Interrupted);
    gate.store.settle(&end).await.unwrap();
    let again = NewCall { id: call_id(2), ..writing(1) };
    assert!(matches!(gate.store.record_call(again).await.unwrap(), Recorded::Existing(_)));
}

#[tokio::test]
async fn the_database_itself_keeps_owners_and_decisions() {
    let gate = Gate::open().await;
    gate.record(writing(1)).await;
    gate.record(refused(2)).await;
    gate.record(asking(3)).await;
    let of = owner(&gate.store, 1).await;
    let mut raw = gate.raw().await;
    let (one, two, three) = (call_id(1), call_id(2), call_id(3));
    raw.run(&format!("INSERT INTO gates VALUES ('{}', 1, NULL)", "f".repeat(32))).await.unwrap();
    let stranger = "f".repeat(32);
    let refusals = [
        (format!("UPDATE calls SET status = 'running' WHERE id = '{two}'"), "what was refused does not run"),
        (format!("UPDATE calls SET owner = '{stranger}' WHERE id = '{one}'"), "a call keeps its owner"),
        (format!("UPDATE calls SET owner = '{stranger}' WHERE id = '{three}'"), "a call keeps its owner"),
        (format!("UPDATE calls SET owner = NULL WHERE id = '{one}'"), "a call keeps its owner"),
        (format!("UPDATE calls SET decision = 'run' WHERE id = '{two}'"), "a call stays what was decided"),
        (format!("UPDATE calls SET safety = 'read' WHERE id = '{one}'"), "a call stays what was decided"),
        (format!("UPDATE gates SET began_at = 9 WHERE id = '{of}'"), "a gate is lost once, and stays lost"),
        (format!("DELETE FROM gates WHERE id = '{of}'"), "gates are never removed"),
        (format!("INSERT INTO gates VALUES ('{}', 1, 1)", "e".repeat(32)), "a gate begins living"),
        ("DELETE FROM claims".to_owned(), "a claim is kept until its call has a known end"),
    ];
    for (verb, end) in insertions() {
        let sql = format!("{verb} INTO gates VALUES ('{of}', 1, NULL){end}");
        assert_eq!(raw.run(&sql).await.unwrap_err(), "gates are never replaced", "{sql}");
    }
    for (sql, why) in refusals {
        assert_eq!(raw.run(&sql).await.unwrap_err(), why, "{sql}");
    }
    raw.run(&format!("UPDATE gates SET lost_at = 5 WHERE id = '{of}'")).await.unwrap();
    for sql in [
        format!("UPDATE gates SET lost_at = 6 WHERE id = '{of}'"),
        format!("UPDATE gates SET lost_at = NULL WHERE id = '{of}'"),
    ] {
        assert_eq!(raw.run(&sql).await.unwrap_err(), "a gate is lost once, and stays lost");
    }
    let begin = format!("UPDATE calls SET status = 'running' WHERE id = '{one}'");
    assert_eq!(raw.run(&begin).await.unwrap_err(), "a call is begun by a gate that lives");
}

#[tokio::test]
async fn a_call_is_inserted_only_by_a_gate_that_lives() {
    let gate = Gate::open().await;
    let seq = gate.record(running(1)).await;
    let mut raw = gate.raw().await;
    let insert = |status: &str, owner: &str| {
        format!(
            "INSERT INTO calls SELECT '{}', agent, task, tool, contract, request, arguments, arguments_json, policy, \
             purpose, trace, asked_at, {}, '{status}', NULL, NULL, {owner}, 'run', safety FROM calls",
            call_id(9),
            seq - 1
        )
    };
    let mut refused = async |status: &str, owner: &str| raw.run(&insert(status, owner)).await.unwrap_err();
    assert_eq!(refused("running", "NULL").await, "a call is made by a gate that lives");
    assert_eq!(
        refused("planned", &format!("'{}'", "a".repeat(32))).await,
        "a call is made by a gate that lives"
    );
    assert_eq!(refused("waiting", "owner").await, "a call that waits belongs to nobody");
}

#[tokio::test]
async fn an_approved_call_belongs_to_whoever_starts_it() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    gate.approved(1).await;
    assert_eq!(gate.store.call(&call_id(1)).await.unwrap().unwrap().owner, None);
    assert!(other.start_approved(&call_id(1), &approval(1), json!({}), NOW + 2000).await.unwrap());
    let of = owner(&gate.store, 1).await;
    assert_eq!(other.fate(Some(&of)).await.unwrap(), Fate::Own);
    let call = NewCall { course: Course::Refuse, ..asking(1) };
    let error = gate.store.settle(&settlement(&call, CallStatus::Completed)).await.unwrap_err();
    assert!(matches!(error, SettleError::NotOurs { .. }), "{error}");
}
