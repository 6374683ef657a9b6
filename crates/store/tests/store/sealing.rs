//! A store of an earlier version: what it kept in the clear is sealed when it is opened, and nothing is lost.

use contract::{CallStatus, Digest, Found, Reconciled};
use serde_json::json;
use store::{EraseError, Keys, NewCall, Reconciliation, Recorded, Store, danger, verify_receipt};

use super::Database;
use crate::gate::{
    Gate, LATER, NOW, Raw, approval, asking, bytes_in_sql, call_id, operator, refused, running, settlement,
};

const TEXT: &str = "PLAIN-3f9ab1";

fn ended() -> NewCall {
    NewCall { claim: Some("builder/fs.write/key:one".into()), ..running(1) }
}

fn lost() -> NewCall {
    NewCall { claim: Some("builder/fs.write/key:three".into()), ..running(3) }
}

/// A store of an earlier version, which nobody has opened since.
struct Old {
    home: tempfile::TempDir,
    url: String,
    keys: Keys,
}

impl Old {
    async fn open(&self) -> Store {
        Store::open(&self.url, self.keys.clone()).await.unwrap()
    }

    async fn raw(&self) -> Raw {
        Raw::connect(&self.url).await
    }
}

/// A store as the version before left it: one call that ended, one that waits, one that was lost and found, and one
/// whose refusal was not settled.
async fn old() -> Old {
    let gate = Gate::open().await;
    gate.record(ended()).await;
    gate.settle(&ended(), CallStatus::Completed).await;
    gate.record(asking(2)).await;
    gate.record(lost()).await;
    gate.settle(&lost(), CallStatus::Unknown).await;
    let mut body = settlement(&lost(), CallStatus::Completed).body;
    body.reconciled = Some(Reconciled { found: Found::Happened, by: operator("me"), reason: None });
    let word =
        Reconciliation { call: call_id(3), body, result: json!({ "content": "found" }), now: NOW + 9000 };
    gate.store.reconcile(word).await.unwrap();
    gate.record(refused(4)).await;
    // Earlier versions named calls by plain digests, told nothing of credentials, and kept no lists.
    let mut names = Vec::new();
    for call in [ended(), asking(2), lost(), refused(4)] {
        for (column, digest) in [("request", call.request), ("arguments", call.arguments)] {
            let sql = format!("SELECT {column} FROM calls WHERE id = '{}'", call.id);
            names.push((gate.raw().await.text(&sql).await, digest.to_string()));
        }
    }
    let mut plain = as_before(&gate.store, &names).await;
    gate.store.close().await;
    danger::revert(&gate.url, 5).await.unwrap();

    for call in [ended(), asking(2), lost(), refused(4)] {
        let text = if call.id == call_id(4) { "" } else { &call.arguments_json };
        plain.push(format!(
            "UPDATE calls SET request = '{}', arguments = '{}', arguments_json = '{text}' WHERE id = '{}'",
            call.request, call.arguments, call.id
        ));
    }
    plain
        .push(format!("UPDATE calls SET result = '{{\"content\":\"{TEXT}\"}}' WHERE settled_at IS NOT NULL"));
    plain.push("UPDATE reconciliations SET result = '{\"content\":\"found\"}'".to_owned());
    for call in [ended(), lost()] {
        let (claim, request) = (call.claim.unwrap(), call.request);
        plain.push(format!(
            "UPDATE claims SET claim = '{claim}', request = '{request}' WHERE call = '{}'",
            call.id
        ));
    }
    let digest = Digest::of(TEXT.as_bytes());
    plain.push(format!("INSERT INTO artifacts VALUES ('{digest}', {})", bytes_in_sql(TEXT.as_bytes())));
    plain.push(format!("INSERT INTO call_artifacts VALUES ('{}', 'stdout', '{digest}')", call_id(1)));
    without_rules(&mut gate.raw().await, &plain).await;
    let Gate { home, store, url } = gate;
    // Whoever made them is no more.
    Old { home, url, keys: store.keys().clone() }
}

/// What makes the ledger one of an earlier version.
pub(crate) async fn as_before(store: &Store, names: &[(String, String)]) -> Vec<String> {
    let edit = |_: &str, mut body: serde_json::Value| {
        for key in ["after", "credential"] {
            body.as_object_mut().unwrap().remove(key);
        }
        let text = names.iter().fold(body.to_string(), |text, (name, plain)| text.replace(name, plain));
        serde_json::from_str(&text).unwrap()
    };
    let (entries, head) = danger::retold(store, edit).await.unwrap();
    let mut changes = vec!["DELETE FROM checkpoints".to_owned(), format!("UPDATE head SET note = '{head}'")];
    for danger::Retold { seq, body, prev, hashes, envelope } in entries {
        let (prev, hashes) = (bytes_in_sql(&prev), bytes_in_sql(&hashes));
        changes.push(format!(
            "UPDATE ledger SET body = '{}', prev = {prev}, hashes = {hashes} WHERE seq = {seq}",
            body.replace('\'', "''")
        ));
        let Some(envelope) = envelope else { continue };
        for table in ["receipts", "reconciliations"] {
            changes.push(format!("UPDATE {table} SET envelope = '{envelope}' WHERE seq = {seq}"));
        }
    }
    changes
}

/// Changes what the database itself would not let anybody change; its rules are as before afterwards.
pub(crate) async fn without_rules(raw: &mut Raw, changes: &[String]) {
    let rules = match crate::DATABASE {
        Database::Sqlite => raw.texts("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").await,
        Database::Postgres => {
            let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
            let enable = |table: String| format!("ALTER TABLE {table} ENABLE TRIGGER ALL");
            raw.texts(tables).await.into_iter().map(enable).collect()
        }
    };
    raw.drop_rules().await;
    for sql in changes.iter().chain(&rules) {
        raw.run(sql).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_kept_in_the_clear_is_sealed_and_reads_as_before() {
    let gate = old().await;
    let store = gate.open().await;
    for call in [ended(), asking(2), lost()] {
        let row = store.call(&call.id).await.unwrap().unwrap();
        let asked = (row.request, row.arguments, row.arguments_json);
        assert_eq!(asked, (call.request, call.arguments, call.arguments_json));
    }
    assert_eq!(store.result(&call_id(1)).await.unwrap(), Some(json!({ "content": TEXT })));
    assert_eq!(store.result(&call_id(3)).await.unwrap(), Some(json!({ "content": "found" })));
    let artifact = store.artifact(&Digest::of(TEXT.as_bytes())).await.unwrap();
    assert_eq!(artifact.as_deref(), Some(TEXT.as_bytes()));
    store.verify(None).await.unwrap();

    let mut raw = gate.raw().await;
    let left = "SELECT count(*) FROM calls WHERE arguments_json <> '' OR result IS NOT NULL";
    for sql in [left, "SELECT count(*) FROM artifacts", "SELECT count(*) FROM call_artifacts"] {
        assert_eq!(raw.number(sql).await, 0, "{sql}");
    }
    assert_eq!(raw.number("SELECT count(*) FROM reconciliations WHERE result <> ''").await, 0);
    assert_eq!(raw.number("SELECT count(*) FROM claims WHERE length(claim) = 64").await, 2);
    if crate::DATABASE == Database::Sqlite {
        store.close().await;
        for name in ["store.db", "store.db-wal"] {
            let file = std::fs::read(gate.home.path().join(name)).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&file).contains(TEXT), "{name}");
        }
    }
}

#[tokio::test]
async fn calls_of_before_go_on_and_are_settled_and_erased_like_others() {
    let gate = old().await;
    let store = gate.open().await;
    // The same call is still the same, and the same question is found.
    let again = NewCall { id: call_id(5), ..ended() };
    assert!(matches!(store.record_call(again).await.unwrap(), Recorded::Existing(_)));
    let call = asking(2);
    let same = store.find_waiting(&call.agent, call.task.as_ref(), &call.tool, call.request, NOW + 5).await;
    assert_eq!(same.unwrap().unwrap().id, call.id);
    // It is answered, runs and ends, and its receipt names it as its other records do.
    store.answer(&approval(2), crate::gate::yes("me")).await.unwrap();
    assert!(store.start_approved(&call.id, &approval(2), json!({}), NOW + 1500).await.unwrap());
    store.settle(&settlement(&call, CallStatus::Completed)).await.unwrap();
    let envelope = store.receipt(&call.id).await.unwrap().unwrap();
    let body = verify_receipt(&envelope, store.keys().public()).unwrap();
    assert_eq!((body.request, body.arguments), (call.request, call.arguments));
    let owner = store.call(&call_id(4)).await.unwrap().unwrap().owner.unwrap();
    assert!(store.lose(&owner, NOW + 2000).await.unwrap());
    store.settle(&settlement(&refused(4), CallStatus::Refused)).await.unwrap();
    store.erase(&call.id, &operator("me"), None, LATER).await.unwrap();
    assert_eq!(store.result(&call.id).await.unwrap(), None);
    let claimed = store.erase(&call_id(1), &operator("me"), None, LATER).await;
    assert!(matches!(claimed, Err(EraseError::Claimed { .. })), "{claimed:?}");
    store.verify(None).await.unwrap();
}

#[tokio::test]
async fn several_who_open_it_at_once_seal_it_once() {
    let gate = old().await;
    let opened = (0..4).map(|_| {
        let (url, keys) = (gate.url.clone(), gate.keys.clone());
        tokio::spawn(async move { Store::open(&url, keys).await.map(drop) })
    });
    for opened in opened.collect::<Vec<_>>() {
        opened.await.unwrap().unwrap();
    }
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM call_keys").await, 4);
}
