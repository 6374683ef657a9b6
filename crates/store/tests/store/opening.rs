//! Opening a store, whichever database keeps it.

use store::{Keys, OpenError, Store};

use crate::gate::{Gate, Raw, new_place, running};

fn home() -> (tempfile::TempDir, Keys) {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    (home, keys)
}

#[tokio::test]
async fn what_was_recorded_is_there_when_the_store_is_opened_again() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.store.close().await;
    let again = gate.again().await;
    assert!(again.call(&running(1).id).await.unwrap().is_some());
    again.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_store_of_a_newer_program_is_left_alone() {
    let gate = Gate::open().await;
    gate.store.close().await;
    gate.raw().await.run("INSERT INTO schema_version VALUES (1000)").await.unwrap();
    let error = Store::open(&gate.url, gate.store.keys().clone()).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 1000, .. }), "{error}");
    let error = store::danger::revert(&gate.url, 0).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 1000, .. }), "{error}");
}

#[tokio::test]
async fn a_store_belongs_to_one_key() {
    let gate = Gate::open().await;
    let (_home, others) = home();
    let error = Store::open(&gate.url, others).await.unwrap_err();
    assert!(matches!(error, OpenError::OtherKey { .. }), "{error}");
}

#[tokio::test]
async fn tables_of_others_are_refused_and_left_as_they_are() {
    let (home, keys) = home();
    let url = new_place(home.path()).await;
    if crate::DATABASE == super::Database::Sqlite {
        std::fs::write(home.path().join("store.db"), "").unwrap();
    }
    let mut raw = Raw::connect(&url).await;
    raw.run("CREATE TABLE accounts (id INTEGER); INSERT INTO accounts VALUES (7)").await.unwrap();
    let error = Store::open(&url, keys).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
    assert_eq!(raw.number("SELECT count(*) FROM accounts").await, 1);
    assert!(raw.run("SELECT 1 FROM schema_version").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_that_start_at_once_share_one_store() {
    let (home, keys) = home();
    let url = new_place(home.path()).await;
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (url, keys) = (url.clone(), keys.clone());
        starts.spawn(async move { Store::open(&url, keys).await.map(drop) });
    }
    while let Some(opened) = starts.join_next().await {
        opened.unwrap().unwrap();
    }
}
