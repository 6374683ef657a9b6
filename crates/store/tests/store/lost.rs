//! A server that goes away and comes back.

use std::time::Duration;

use contract::CallStatus;
use store::{Keys, RecordError, Recorded, SettleError, Store, StoreError, danger};

use crate::gate::{Gate, Raw, call_id, running, settlement};
use crate::wire::{Cluster, Mode, Wire};

/// A store by way of a wire that can be cut.
async fn wired() -> (Gate, Wire, Store) {
    let (gate, wire) = (Gate::open().await, Wire::new().await);
    let store = Store::open(&wire.to(&gate.url), gate.store.keys().clone()).await.unwrap();
    (gate, wire, store)
}

#[tokio::test]
async fn a_commit_that_never_arrived_did_not_happen() {
    let (gate, wire, store) = wired().await;
    let before = gate.store.ledger_size().await.unwrap();
    wire.set(Mode::LosesCommit);
    let error = store.record_call(running(1)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unreachable(_))), "{error}");
    assert_eq!(gate.store.call(&call_id(1)).await.unwrap(), None);
    assert_eq!(gate.store.ledger_size().await.unwrap(), before);
    assert!(matches!(store.record_call(running(1)).await.unwrap(), Recorded::New { .. }), "it recovers");
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_has_happened() {
    let (gate, wire, store) = wired().await;
    wire.set(Mode::LosesAnswer);
    let recorded = store.record_call(running(1)).await.unwrap();
    assert!(matches!(recorded, Recorded::New { .. }), "{recorded:?}");
    wire.set(Mode::LosesAnswer);
    store.settle(&settlement(&running(1), CallStatus::Completed)).await.unwrap();
    let again = store.settle(&settlement(&running(1), CallStatus::Completed)).await;
    assert!(matches!(again, Err(SettleError::Settled { .. })), "{again:?}");
    assert_eq!(gate.store.verify(None).await.unwrap().receipts, 1);
}

#[tokio::test]
async fn a_commit_of_which_nothing_can_be_heard_is_neither_taken_for_done_nor_for_undone() {
    let (gate, wire, store) = wired().await;
    wire.set(Mode::LosesAnswerAndStaysCut);
    let error = store.record_call(running(1)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unknown(_))), "{error}");
    // Others see it: it is on record, and without an end.
    let open = gate.store.calls(9, None).await.unwrap();
    assert_eq!(open.iter().map(|call| call.id.clone()).collect::<Vec<_>>(), [call_id(1)]);
    wire.set(Mode::Whole);
    assert_eq!(store.calls(9, None).await.unwrap(), open, "it recovers");
    store.record_call(running(2)).await.unwrap();
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_line_that_falls_silent_is_an_error_and_keeps_nobody_waiting_when_it_is_whole_again() {
    let (gate, wire) = (Gate::open().await, Wire::new().await);
    let patience = Duration::from_millis(500);
    let keys = gate.store.keys().clone();
    let store = danger::open_impatiently(&wire.to(&gate.url), keys, patience).await.unwrap();
    store.record_call(running(1)).await.unwrap();

    wire.set(Mode::SilentAtCommit);
    let error = store.record_call(running(2)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unknown(_))), "{error}");
    let error = store.record_call(running(3)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unreachable(_))), "{error}");
    let error = store.calls(9, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");

    wire.set(Mode::Whole);
    let mut again = store.record_call(running(4)).await;
    // The old session may still hold the lock until the server hears of its end.
    while matches!(again, Err(RecordError::Store(StoreError::Locked(_) | StoreError::Unreachable(_)))) {
        again = store.record_call(running(4)).await;
    }
    assert!(matches!(again.unwrap(), Recorded::New { .. }));
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap(), None, "its commit never arrived");
    assert_eq!(gate.store.calls(9, None).await.unwrap().len(), 2);
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_writer_that_is_killed_in_the_middle_leaves_nothing() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let before = gate.store.verify(None).await.unwrap();
    let (mut holder, mut raw) = (gate.raw().await, gate.raw().await);
    // It has written its entry and waits to write the call.
    holder.run("BEGIN; LOCK TABLE calls IN SHARE MODE").await.unwrap();
    let store = gate.store.clone();
    let write = tokio::spawn(async move { store.record_call(running(2)).await });
    let schema = gate.url.rsplit_once("%3D").unwrap().1;
    let kill = format!(
        "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l WHERE NOT l.granted \
         AND l.relation = '{schema}.calls'::regclass"
    );
    while raw.number(&kill).await == 0 {
        tokio::task::yield_now().await;
    }
    let error = write.await.unwrap().unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unreachable(_))), "{error}");
    holder.run("ROLLBACK").await.unwrap();
    assert_eq!(gate.store.verify(None).await.unwrap(), before);
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap(), None);
    gate.record(running(2)).await;
    gate.store.verify(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_stops_or_crashes_and_starts_again_is_used_again() {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    let cluster = Cluster::start().await;
    let store = Store::open(&cluster.url(), keys).await.unwrap();
    for (number, how) in (1u8..).step_by(2).zip(["fast", "immediate"]) {
        store.record_call(running(number)).await.unwrap();
        cluster.end(how);
        let error = store.call(&call_id(number)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{how}: {error}");
        let error = store.record_call(running(number + 1)).await.unwrap_err();
        assert!(matches!(error, RecordError::Store(StoreError::Unreachable(_))), "{how}: {error}");
        cluster.begin();
        assert!(store.call(&call_id(number)).await.unwrap().is_some(), "what was recorded is there");
        assert_eq!(store.call(&call_id(number + 1)).await.unwrap(), None, "what was not is not");
        store.record_call(running(number + 1)).await.unwrap();
        store.verify(None).await.unwrap();
    }
    let mut raw = Raw::connect(&cluster.url()).await;
    assert_eq!(raw.number("SELECT count(*) FROM calls").await, 4);
}
