//! The ledger, and those who would change it behind our backs.

use contract::CallStatus;
use serde_json::{Value, json};
use store::{
    Checkpoint, EventError, ExportError, Fault, InclusionProof, PublicKey, Store, VerifyError, verify_export,
};

use super::Database;
use crate::gate::{Gate, NOW, Raw, asking, bytes_in_sql, call_id, refused, running};

/// A ledger with entries of all kinds, two of them with receipts.
async fn ledger() -> Gate {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.settle(&running(1), CallStatus::Completed).await;
    gate.approved(2).await;
    gate.record(refused(3)).await;
    gate.settle(&refused(3), CallStatus::Refused).await;
    gate.record(asking(4)).await;
    gate
}

async fn broken(store: &Store, checkpoint: Option<&str>) -> (Option<i64>, Fault) {
    match store.verify(checkpoint).await {
        Err(VerifyError::Broken(broken)) => (broken.seq, broken.fault),
        other => panic!("{other:?}"),
    }
}

async fn export(store: &Store) -> String {
    let mut bytes = Vec::new();
    store.export(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

fn check(text: &str, key: &PublicKey, checkpoint: Option<&str>) -> Result<u64, ExportError> {
    verify_export(text.as_bytes(), key, checkpoint).map(|verified| verified.entries)
}

#[tokio::test]
async fn a_ledger_begins_with_whose_it_is() {
    let gate = ledger().await;
    let first = &gate.store.latest_event(-1).await.unwrap()[0];
    assert_eq!(
        (first.seq, first.kind.as_str(), first.prev.as_str()),
        (0, "gate.opened", "0".repeat(64).as_str())
    );
    assert_eq!(first.body["public_key"], json!(gate.store.keys().public().to_string()));
}

#[tokio::test]
async fn others_tell_of_their_own_events_only() {
    let gate = ledger().await;
    let seq =
        gate.store.record_event("backend.proved", json!({ "write_outside": "stopped" }), NOW).await.unwrap();
    assert_eq!(gate.store.latest_event(seq - 1).await.unwrap()[0].body["write_outside"], "stopped");
    for kind in
        ["call.settled", "approval.answered", "gate.opened", "tool.registered", "x", "", "A.b", "a.b.c"]
    {
        let told = gate.store.record_event(kind, json!({}), NOW).await;
        assert!(matches!(told, Err(EventError::Kind { .. })), "{kind}");
    }
    let unsafe_number = json!({ "bytes": u64::MAX });
    assert!(gate.store.record_event("backend.proved", unsafe_number, NOW).await.is_err());
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn an_untouched_ledger_is_valid() {
    let gate = ledger().await;
    let verified = gate.store.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.receipts), (gate.store.ledger_size().await.unwrap(), 2));
    let empty = Gate::open_empty().await;
    assert_eq!(empty.store.verify(None).await.unwrap().entries, 0);
}

/// Sets one value, and returns the statement that sets it back.
async fn set(raw: &mut Raw, table: &str, seq: i64, column: &str, bytes: &[u8], as_text: bool) {
    let value = bytes_in_sql(bytes);
    let value = match (as_text, crate::DATABASE) {
        (true, Database::Sqlite) => format!("CAST({value} AS TEXT)"),
        (true, Database::Postgres) => format!("convert_from({value}, 'UTF8')"),
        (false, _) => value,
    };
    raw.run(&format!("UPDATE {table} SET {column} = {value} WHERE seq = {seq}")).await.unwrap();
}

#[tokio::test]
async fn any_changed_byte_of_any_entry_is_found_and_the_entry_is_named() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    let size = i64::try_from(gate.store.ledger_size().await.unwrap()).unwrap();
    for seq in 0..size {
        for (column, as_text) in [("kind", true), ("body", true), ("prev", false), ("hashes", false)] {
            let bytes = match (as_text, crate::DATABASE) {
                (true, Database::Postgres) => format!("convert_to({column}, 'UTF8')"),
                (true, Database::Sqlite) => format!("CAST({column} AS BLOB)"),
                (false, _) => column.to_owned(),
            };
            let sql = format!("SELECT {bytes} FROM ledger WHERE seq = {seq}");
            let original = raw.bytes(&sql).await;
            // One in 13, beginning elsewhere in each entry, so that every place is met somewhere.
            let step = if original.len() > 13 { 13 } else { 1 };
            for at in (usize::try_from(seq).unwrap() % step..original.len()).step_by(step) {
                let mut changed = original.clone();
                changed[at] ^= 1;
                set(&mut raw, "ledger", seq, column, &changed, as_text).await;
                let (named, _) = broken(&gate.store, None).await;
                assert_eq!(named, Some(seq), "{column}, byte {at}");
            }
            set(&mut raw, "ledger", seq, column, &original, as_text).await;
        }
        raw.run(&format!("UPDATE ledger SET time = time + 1 WHERE seq = {seq}")).await.unwrap();
        assert_eq!(broken(&gate.store, None).await.0, Some(seq), "time");
        raw.run(&format!("UPDATE ledger SET time = time - 1 WHERE seq = {seq}")).await.unwrap();
    }
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn white_space_that_means_nothing_is_a_change_too() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw.run("UPDATE ledger SET body = body || ' ' WHERE seq = 5").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(5), Fault::Changed)));
}

#[tokio::test]
async fn a_value_that_is_not_even_readable_is_a_fault_of_its_entry() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    if crate::DATABASE == Database::Postgres {
        let sql = format!("UPDATE ledger SET body = convert_from({}, 'UTF8')", bytes_in_sql(&[0xff]));
        assert!(raw.run(&sql).await.is_err(), "there it cannot even be written");
        return;
    }
    raw.run("UPDATE ledger SET body = CAST(x'ff' AS TEXT) WHERE seq = 5").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(5), Fault::Unreadable { .. })));
}

#[tokio::test]
async fn a_changed_entry_whose_hash_was_made_to_fit_is_found() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    // What entry 5 would have been hashed to, had it been another.
    let entry = &gate.store.latest_event(4).await.unwrap()[0];
    let forged = json!({
        "body": { "call": "another" }, "kind": entry.kind, "prev": entry.prev, "seq": 5, "time": entry.time,
    });
    let bytes = [&[0], contract::Canonical::of(forged).unwrap().text().as_bytes()].concat();
    let leaf: [u8; 32] = <sha2::Sha256 as sha2::Digest>::digest(bytes).into();
    let rest = raw.bytes("SELECT substr(hashes, 33) FROM ledger WHERE seq = 5").await;
    set(&mut raw, "ledger", 5, "hashes", &[leaf.to_vec(), rest].concat(), false).await;
    raw.run(r#"UPDATE ledger SET body = '{"call":"another"}' WHERE seq = 5"#).await.unwrap();
    let (seq, fault) = broken(&gate.store, None).await;
    assert_eq!(seq, Some(5));
    assert!(matches!(fault, Fault::Tree | Fault::Rewritten), "{fault}");
}

#[tokio::test]
async fn a_removed_entry_is_named() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw.run("DELETE FROM ledger WHERE seq = 6; DELETE FROM ledger WHERE seq = 9").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(6), Fault::Missing)));
    raw.run("UPDATE ledger SET seq = seq - 1 WHERE seq > 6").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(6), Fault::Moved { from: 7 })), "gap closed");
}

#[tokio::test]
async fn swapped_entries_are_named_and_so_is_where_they_belong() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    let swap = "UPDATE ledger SET seq = -1 WHERE seq = 4; UPDATE ledger SET seq = 4 WHERE seq = 7; \
        UPDATE ledger SET seq = 7 WHERE seq = -1";
    assert!(raw.run(swap).await.is_err(), "the table has a rule of its own");
    raw.run(&swap.replace("-1", "1000")).await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(4), Fault::Moved { from: 7 })));
}

#[tokio::test]
async fn reversed_entries_are_found() {
    let gate = ledger().await;
    let size = gate.store.ledger_size().await.unwrap();
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw.run("UPDATE ledger SET seq = seq + 1000").await.unwrap();
    raw.run(&format!("UPDATE ledger SET seq = {size} - 1 - (seq - 1000)")).await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(0), Fault::Moved { .. })));
}

#[tokio::test]
async fn an_entry_put_in_between_is_found() {
    let gate = ledger().await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw.run("UPDATE ledger SET seq = seq + 1000 WHERE seq >= 6").await.unwrap();
    raw.run("UPDATE ledger SET seq = seq - 999 WHERE seq >= 1000").await.unwrap();
    raw.run("INSERT INTO ledger SELECT 6, time, kind, body, prev, hashes FROM ledger WHERE seq = 5")
        .await
        .unwrap();
    assert_eq!(broken(&gate.store, None).await.0, Some(6));
}

#[tokio::test]
async fn a_cut_ledger_is_found_by_what_belonged_to_it() {
    let gate = ledger().await;
    let size = i64::try_from(gate.store.ledger_size().await.unwrap()).unwrap();
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw.run(&format!("DELETE FROM ledger WHERE seq >= {}", size - 2)).await.unwrap();
    assert!(matches!(broken(&gate.store, None).await, (Some(seq), Fault::Missing) if seq == size - 2));
}

#[tokio::test]
async fn a_cut_ledger_is_found_against_a_checkpoint_that_was_kept_elsewhere() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let older = gate.store.checkpoint(NOW).await.unwrap();
    gate.record(asking(4)).await;
    let note = gate.store.checkpoint(NOW).await.unwrap();
    gate.store.verify(Some(&note)).await.unwrap();
    let size = i64::try_from(gate.store.ledger_size().await.unwrap()).unwrap();
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    // Cut clean: nothing is left that could tell.
    raw.run(&format!("DELETE FROM ledger WHERE seq >= {}", size - 2)).await.unwrap();
    raw.run(&format!("DELETE FROM calls WHERE id = '{}'", call_id(4))).await.unwrap();
    raw.run("DELETE FROM approvals").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await.1, Fault::Truncated { .. }), "the store's own copy");
    raw.run("DELETE FROM checkpoints").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await.1, Fault::Truncated { .. }), "the store's own head");
    raw.run(&format!("UPDATE head SET size = {}, note = '{older}'", size - 2)).await.unwrap();
    gate.store.verify(None).await.expect("with the head of then nobody can know");
    let (seq, fault) = broken(&gate.store, Some(&note)).await;
    assert_eq!(seq, Some(size - 2));
    assert_eq!(
        fault.to_string(),
        format!("the ledger was cut: a checkpoint is of {size} entries, and there are {}", size - 2)
    );
}

#[tokio::test]
async fn a_fork_is_found_against_a_checkpoint_that_was_kept_elsewhere() {
    let gate = ledger().await;
    let fork = gate.copy().await;
    gate.record(running(10)).await;
    let note = gate.store.checkpoint(NOW).await.unwrap();

    // The old file comes back, and another history goes on from it with the same key: valid in itself.
    for number in 11..15 {
        fork.record_call(running(number)).await.unwrap();
    }
    fork.verify(None).await.unwrap();
    assert!(matches!(broken(&fork, Some(&note)).await.1, Fault::Fork { .. }));
    let text = export(&fork).await;
    let key = fork.keys().public();
    check(&text, key, None).unwrap();
    let error = check(&text, key, Some(&note)).unwrap_err();
    assert!(matches!(error, ExportError::Broken(broken) if matches!(broken.fault, Fault::Fork { .. })));
}

#[tokio::test]
async fn another_history_without_the_key_is_found_without_any_checkpoint() {
    let gate = ledger().await;
    let size = gate.store.ledger_size().await.unwrap();
    let mut raw = gate.raw().await;
    let head = raw.text("SELECT note FROM head").await;
    gate.record(running(10)).await;
    raw.drop_rules().await;
    raw.run(&format!("UPDATE head SET note = '{head}'")).await.unwrap();
    // An old head: someone without the key has gone on from there.
    assert!(matches!(broken(&gate.store, None).await, (Some(seq), Fault::Unsigned) if seq as u64 == size));
    raw.run("UPDATE head SET note = substr(note, 1, 30) || 'x' || substr(note, 32)").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await.1, Fault::CheckpointInvalid { .. }));
    raw.run("DELETE FROM head").await.unwrap();
    assert!(matches!(broken(&gate.store, None).await.1, Fault::HeadMissing));
}

#[tokio::test]
async fn a_checkpoint_of_another_gate_is_no_measure() {
    let (gate, other) = (ledger().await, ledger().await);
    let note = other.store.checkpoint(NOW).await.unwrap();
    assert!(matches!(gate.store.verify(Some(&note)).await, Err(VerifyError::Checkpoint(_))));
    assert!(matches!(gate.store.verify(Some("")).await, Err(VerifyError::Checkpoint(_))));
}

#[tokio::test]
async fn a_receipt_that_is_changed_missing_exchanged_or_too_many_is_named() {
    let gate = ledger().await;
    let settled: Vec<i64> = gate
        .store
        .latest_event(-1)
        .await
        .unwrap()
        .into_iter()
        .filter(|entry| entry.kind == "call.settled")
        .map(|entry| entry.seq)
        .collect();
    let &[first, second] = settled.as_slice() else { panic!("{settled:?}") };
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    let mut tamper = async |change: &str, expected: i64| {
        raw.run("CREATE TEMP TABLE kept AS SELECT * FROM receipts").await.unwrap();
        raw.run(change).await.unwrap();
        let (seq, fault) = broken(&gate.store, None).await;
        assert_eq!(seq, Some(expected), "{change}");
        raw.run("DELETE FROM receipts; INSERT INTO receipts SELECT * FROM kept; DROP TABLE kept")
            .await
            .unwrap();
        fault
    };
    let fault = tamper(&format!("DELETE FROM receipts WHERE seq = {second}"), second).await;
    assert!(matches!(fault, Fault::ReceiptMissing), "{fault}");
    let change =
        format!("UPDATE receipts SET envelope = replace(envelope, 'eyJ', 'eyK') WHERE seq = {first}");
    let fault = tamper(&change, first).await;
    assert!(matches!(fault, Fault::ReceiptInvalid(_)), "{fault}");
    let change = format!(
        "UPDATE receipts SET envelope = (SELECT envelope FROM receipts WHERE seq = {first}) WHERE seq = {second}"
    );
    let fault = tamper(&change, second).await;
    assert!(matches!(fault, Fault::ReceiptDiffers), "{fault}");
    let fault = tamper("INSERT INTO receipts VALUES ('x', 1, '{}')", 1).await;
    assert!(matches!(fault, Fault::ReceiptStray), "{fault}");
    let fault = tamper("INSERT INTO receipts VALUES ('x', 1000, '{}')", 1000).await;
    assert!(matches!(fault, Fault::Missing), "{fault}");
    let fault = tamper(&format!("UPDATE receipts SET call = 'x' WHERE seq = {first}"), first).await;
    assert!(matches!(fault, Fault::ReceiptDiffers), "{fault}");
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn every_entry_is_proved_with_nothing_but_the_public_key() {
    let gate = ledger().await;
    let key = gate.store.keys().public();
    let size = gate.store.ledger_size().await.unwrap();
    for seq in 0..i64::try_from(size).unwrap() {
        let proof = gate.store.prove(seq).await.unwrap();
        let read: InclusionProof = serde_json::from_str(&json!(proof).to_string()).unwrap();
        read.verify(key).unwrap();
        let mut other = read.clone();
        other.entry.body = Value::Null;
        assert!(other.verify(key).is_err(), "another entry");
        let other = InclusionProof { index: read.index + 1, ..read.clone() };
        assert!(other.verify(key).is_err(), "another place");
        let other = InclusionProof { tree_size: read.tree_size + 1, ..read };
        assert!(other.verify(key).is_err(), "another tree");
    }
    assert!(gate.store.prove(i64::try_from(size).unwrap()).await.is_err());
    assert!(gate.store.prove(-1).await.is_err());
}

#[tokio::test]
async fn a_ledger_is_proved_to_have_grown_out_of_each_of_its_checkpoints() {
    let gate = Gate::open().await;
    let key = gate.store.keys().public().clone();
    let mut notes = Vec::new();
    for number in 1..=6 {
        gate.record(running(number)).await;
        notes.push(Checkpoint::open(&gate.store.checkpoint(NOW).await.unwrap(), &key).unwrap());
    }
    for old in &notes {
        for new in notes.iter().filter(|new| new.size >= old.size) {
            let proof = gate.store.consistency(old.size, new.size).await.unwrap();
            proof.verify(old, new).unwrap();
            let forked = Checkpoint { root: [0; 32], ..*old };
            assert!(proof.verify(&forked, new).is_err());
        }
    }
    let last = notes.last().unwrap().size;
    assert!(gate.store.consistency(last, last + 1).await.is_err());
    assert!(gate.store.consistency(last, last - 1).await.is_err());
    assert_eq!(gate.store.checkpoint(NOW + 1).await.unwrap(), gate.store.checkpoint(NOW + 2).await.unwrap());
}

#[tokio::test]
async fn an_exported_ledger_is_checked_without_the_store() {
    let gate = ledger().await;
    let note = gate.store.checkpoint(NOW).await.unwrap();
    gate.record(running(9)).await;
    let size = gate.store.ledger_size().await.unwrap();
    let text = export(&gate.store).await;
    let key =
        PublicKey::parse(&std::fs::read_to_string(gate.home.path().join("signing.pub")).unwrap()).unwrap();
    assert_eq!(check(&text, &key, Some(&note)).unwrap(), size);
    let other = ledger().await;
    let error = check(&text, other.store.keys().public(), None).unwrap_err();
    assert!(matches!(error, ExportError::OtherKey { .. }), "{error}");
}

#[tokio::test]
async fn any_changed_byte_of_an_export_is_found() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.settle(&running(1), CallStatus::Completed).await;
    let key = gate.store.keys().public();
    let text = export(&gate.store).await;
    for at in (0..text.len()).step_by(5) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(verify_export(bytes.as_slice(), key, None).is_err(), "byte {at}");
    }
}

#[tokio::test]
async fn lines_of_an_export_that_are_missing_swapped_or_too_many_are_found() {
    let gate = ledger().await;
    let key = gate.store.keys().public();
    let text = export(&gate.store).await;
    let lines: Vec<&str> = text.lines().collect();
    let named = |lines: &[&str]| match check(&format!("{}\n", lines.join("\n")), key, None) {
        Err(ExportError::Broken(broken)) => broken.seq,
        other => panic!("{other:?}"),
    };
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    // The first line is the header, so that entry 5 stands in line 6.
    assert_eq!(named(&without(6)), Some(5));
    let mut swapped = lines.clone();
    swapped.swap(6, 8);
    assert_eq!(named(&swapped), Some(5));
    let twice = [&lines[..7], &lines[6..]].concat();
    assert_eq!(named(&twice), Some(5));
    let last = lines.len() - 1;
    assert_eq!(named(&without(last - 1)), Some(i64::try_from(last).unwrap() - 2), "the last entry");
    for wrong in [without(0), without(last), [&lines[..], &lines[last..]].concat(), vec![], vec![""]] {
        let error = check(&wrong.join("\n"), key, None).unwrap_err();
        assert!(matches!(error, ExportError::Form { .. }), "{error}");
    }
}
