//! The schema, there and back and there again.

use contract::CallStatus;
use store::{Store, danger};

use super::Database;
use crate::gate::{Gate, NOW, Raw, call_id, running, settlement};

/// Everything that the database knows of the schema, as text.
async fn schema(raw: &mut Raw) -> Vec<String> {
    raw.texts(match crate::DATABASE {
        Database::Sqlite => {
            "SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name"
        }
        Database::Postgres => {
            "SELECT format('column %s.%s %s %s %s %s', table_name, column_name, data_type, is_nullable, \
               coalesce(column_default, ''), coalesce(collation_name, '')) AS line FROM information_schema.columns \
               WHERE table_schema = current_schema() \
             UNION ALL SELECT format('rule %s on %s: %s', conname, conrelid::regclass, pg_get_constraintdef(oid)) \
               FROM pg_constraint WHERE connamespace = current_schema()::regnamespace \
             UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = current_schema() \
             UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
               WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace \
             UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc \
               WHERE pronamespace = current_schema()::regnamespace \
             ORDER BY line"
        }
    })
    .await
}

/// Whether rows of a table whose definition SQLite's steps rewrite are checked against a list.
fn is_checked_by_lists(line: &str) -> bool {
    ["table calls:", "table private:"].iter().any(|table| line.starts_with(table))
        && line.split_whitespace().any(|word| word == "IN" || word.starts_with("IN("))
}

#[tokio::test]
async fn up_and_down_and_up_again_gives_the_same_schema() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.store.checkpoint(NOW).await.unwrap();
    gate.store.close().await;
    let mut raw = gate.raw().await;
    let first = schema(&mut raw).await;
    assert!(first.len() > 60, "it is looked at: {first:#?}");
    danger::revert(&gate.url, 0).await.unwrap();
    let left: Vec<String> =
        schema(&mut raw).await.into_iter().filter(|line| !line.contains("schema_version")).collect();
    assert_eq!(left, Vec::<String>::new());
    let again = Store::open(&gate.url, gate.store.keys().clone()).await.unwrap();
    assert_eq!(schema(&mut raw).await, first);
    assert_eq!(again.ledger_size().await.unwrap(), 0);
    again.record_call(running(1)).await.unwrap();
    again.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_store_of_the_version_before_keeps_everything_and_is_the_same_as_a_new_one() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.settle(&running(1), CallStatus::Completed).await;
    gate.record(running(2)).await;
    let mut raw = gate.raw().await;
    let new = schema(&mut raw).await;
    assert!(!new.iter().any(|line| is_checked_by_lists(line)), "{new:#?}");
    gate.store.close().await;
    danger::revert(&gate.url, 15).await.unwrap();
    let before = schema(&mut raw).await;
    assert!(before.iter().any(|line| line.contains("calls_unsettled")), "{before:#?}");
    assert_ne!(before, new);
    // On the other database it never was a matter of words.
    let were = before.iter().filter(|line| is_checked_by_lists(line)).count();
    assert_eq!(were, if crate::DATABASE == Database::Sqlite { 2 } else { 0 }, "{before:#?}");
    let store = gate.again().await;
    assert_eq!(schema(&mut raw).await, new);
    // Other connections learn of it too, and the rules hold.
    let elsewhere = format!("UPDATE calls SET status = 'elsewhere' WHERE id = '{}'", call_id(2));
    assert!(raw.try_out(&elsewhere).await.is_err());
    store.record_call(running(3)).await.unwrap();
    store.settle(&settlement(&running(3), CallStatus::Failed)).await.unwrap();
    store.verify(None).await.unwrap();
    assert!(store.result(&call_id(1)).await.unwrap().is_some());
    raw.drop_rules().await;
    assert!(raw.try_out(&elsewhere).await.is_err(), "nor is it one of the words");
}
