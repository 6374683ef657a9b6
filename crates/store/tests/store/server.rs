//! Stores that a server keeps.

use std::time::{Duration, Instant};

use contract::SafetyClass;
use store::{Fate, Keys, NewCall, OpenError, RecordError, Store, StoreError};

use crate::disk::{disk, grow, run_on_small_disk};
use crate::full::fill_and_go_on;
use crate::gate::{Gate, NOW, Raw, new_place, running, server};
use crate::wire::Cluster;

/// The server's URL with another part in it.
fn with(part: &str, other: &str) -> String {
    let url = server();
    assert!(url.contains(part), "{url}");
    url.replacen(part, other, 1)
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_the_password_is_not() {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    // Of the service that once had this port nothing is left anywhere.
    let error = Store::open("postgres://me:hunter2@127.0.0.1:1/gate", keys).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("me@127.0.0.1:1/gate") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    let error = Store::open(&with("/postgres", "/no_such_database"), keys).await.unwrap_err();
    assert!(matches!(error, OpenError::NoDatabase { .. }), "{error}");
}

#[tokio::test]
async fn commits_are_durable_whatever_the_server_would_do_otherwise() {
    let gate = Gate::open_empty().await;
    let url = format!("{} -csynchronous_commit%3Doff", gate.url).replace(' ', "%20");
    gate.store.close().await;
    let store = Store::open(&url, gate.store.keys().clone()).await.unwrap();
    let mut raw = gate.raw().await;
    // Asked of a trigger: it runs in the very transaction that writes.
    raw.run(
        "CREATE TABLE seen (setting TEXT); CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO seen VALUES (current_setting('synchronous_commit') || ' ' || current_setting('transaction_isolation')); \
           RETURN NEW; END $$; \
         CREATE TRIGGER look BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION look()",
    )
    .await
    .unwrap();
    store.record_call(running(1)).await.unwrap();
    assert_eq!(raw.texts("SELECT DISTINCT setting FROM seen").await, ["on read committed"]);
}

#[tokio::test]
async fn a_rule_looks_into_its_own_tables_and_not_into_those_of_its_caller() {
    let gate = Gate::open().await;
    gate.record(crate::gate::asking(1)).await;
    gate.record(running(2)).await;
    let mut raw = gate.raw().await;
    // Tables of the caller's own, in which everything is approved.
    raw.run(
        "CREATE TEMP TABLE approvals (id TEXT, call TEXT, state TEXT); \
         INSERT INTO pg_temp.approvals SELECT 'x', id, 'running' FROM calls",
    )
    .await
    .unwrap();
    let run =
        "UPDATE calls SET status = 'running', owner = (SELECT max(id) FROM gates) WHERE status = 'waiting'";
    let refusal = raw.run(run).await.unwrap_err();
    assert_eq!(refusal, "a call that waits runs only with an approval");
}

#[tokio::test]
async fn a_gate_whose_session_was_ended_takes_its_lock_again() {
    let gate = Gate::open().await;
    gate.record(NewCall { safety: SafetyClass::Write, ..running(1) }).await;
    let owner = gate.store.call(&running(1).id).await.unwrap().unwrap().owner.unwrap();
    let other = gate.again().await;
    assert_eq!(other.fate(Some(&owner)).await.unwrap(), Fate::Lives);
    let number =
        i64::from_ne_bytes(u64::from_str_radix(owner.as_str().get(..16).unwrap(), 16).unwrap().to_ne_bytes());
    let holders = format!(
        "FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' \
         AND ((classid::bigint << 32) | objid::bigint) = {number}"
    );
    let mut raw = gate.raw().await;
    let session = raw.number(&format!("SELECT pid::bigint {holders}")).await;
    raw.run(&format!("SELECT pg_terminate_backend({session})")).await.unwrap();
    let began = Instant::now();
    while raw.number(&format!("SELECT coalesce(max(pid)::bigint, {session}) {holders}")).await == session {
        assert!(began.elapsed() < Duration::from_secs(60), "it never takes it again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(other.fate(Some(&owner)).await.unwrap(), Fate::Lives);
    assert!(gate.store.begin_call(&running(1).id, serde_json::json!({}), NOW).await.unwrap());
}

#[tokio::test]
async fn who_may_only_read_opens_nothing() {
    let gate = Gate::open().await;
    let schema = gate.url.rsplit_once("%3D").unwrap().1.to_owned();
    let mut raw = gate.raw().await;
    raw.run(&format!(
        "CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    ))
    .await
    .unwrap();
    let (before, after) = gate.url.split_once('@').unwrap();
    let scheme = before.split_once("://").unwrap().0;
    let url = format!("{scheme}://{schema}@{after}");
    let error = Store::open(&url, gate.store.keys().clone()).await.unwrap_err();
    assert!(matches!(error, OpenError::NoRights { .. }), "{error}");
}

#[tokio::test]
async fn a_database_that_is_dropped_is_missed() {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    let mut raw = Raw::connect(&server()).await;
    let name = new_place(home.path()).await.rsplit_once("%3D").unwrap().1.to_owned();
    raw.run(&format!("CREATE DATABASE {name}")).await.unwrap();
    let store = Store::open(&with("/postgres", &format!("/{name}")), keys).await.unwrap();
    store.record_call(running(1)).await.unwrap();
    raw.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    let error = store.record_call(running(2)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Unreachable(_))), "{error}");
    let error = store.calls(1, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}

#[test]
fn a_full_disk_stops_the_call_loses_nothing_and_is_used_again_when_there_is_room() {
    run_on_small_disk("server::a_disk_that_fills", &["--mount"], "root");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs a small disk: the test above runs it"]
async fn a_disk_that_fills() {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    let cluster = Cluster::start().await;
    let disk = disk();
    cluster.give(&disk);
    let mut raw = Raw::connect(&cluster.url()).await;
    raw.run(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.display())).await.unwrap();
    let url = format!("{}?options=-cdefault_tablespace%3Dsmall", cluster.url());
    let store = Store::open(&url, keys).await.unwrap();
    fill_and_go_on(&store, || grow(&disk)).await;
}
