//! What questions bind, and for how long.

use contract::{Binding, CallStatus, Digest, NotBound, Operand, Operands};
use store::{Course, NewApproval, NewCall, RecordError, Seal};

use crate::gate::{Gate, approval, asking, call_id, insertions, removals, settlement, yes, zeros};

fn operand(name: &str, content: &str, how: Binding) -> Operand {
    Operand {
        named: name.into(),
        path: name.into(),
        digest: Some(Digest::of(content.as_bytes())),
        bytes: content.len() as u64,
        executable: false,
        how,
    }
}

/// A question that binds two files, of which one is copied.
fn seal(content: &str) -> Seal {
    let bound = vec![operand("run.sh", content, Binding::Sealed), operand("out", "data", Binding::Unchanged)];
    let not_bound = vec![NotBound { what: "sh".into(), why: "what it reads by itself".into() }];
    let contents = [(Digest::of(content.as_bytes()), content.as_bytes().to_vec())].into();
    Seal { operands: Operands { bound, not_bound, ..Operands::default() }, contents }
}

fn sealing(number: u8, seal: Seal) -> NewCall {
    let call = asking(number);
    let Course::Ask(question) = call.course.clone() else { panic!("it asks") };
    NewCall { course: Course::Ask(NewApproval { seal: Some(seal), ..question }), ..call }
}

#[tokio::test]
async fn what_a_question_binds_is_kept_with_it_and_told_in_the_ledger() {
    let gate = Gate::open().await;
    gate.record(sealing(1, seal("good"))).await;
    let row = gate.store.seal(&approval(1)).await.unwrap().unwrap();
    assert_eq!(row.seal, seal("good"));
    assert_eq!(row.digest, seal("good").operands.digest());
    assert_eq!(gate.store.operands(&approval(1)).await.unwrap(), Some(row.seal.operands.clone()));
    let asked = gate
        .store
        .latest_event(-1)
        .await
        .unwrap()
        .into_iter()
        .find(|entry| entry.kind == "approval.asked")
        .unwrap();
    assert_eq!(asked.body["operands"], serde_json::to_value(&row.seal.operands).unwrap());
    assert_eq!(asked.body["operands_digest"], serde_json::to_value(row.digest).unwrap());
    assert_eq!(gate.store.seal(&approval(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_question_whose_copies_are_not_what_it_says_is_not_asked() {
    let gate = Gate::open().await;
    let none = Seal { contents: [].into(), ..seal("good") };
    let other = Seal { contents: [(Digest::of(b"good"), b"evil".to_vec())].into(), ..seal("good") };
    for seal in [none, other] {
        let refused = gate.store.record_call(sealing(1, seal)).await;
        assert!(matches!(refused, Err(RecordError::NotSealed)), "{refused:?}");
    }
    assert_eq!(gate.store.call(&call_id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn copies_go_with_the_last_call_that_needs_them() {
    let gate = Gate::open().await;
    for number in [1, 2] {
        gate.record(sealing(number, seal("same"))).await;
    }
    let mut raw = gate.raw().await;
    let count = "SELECT count(*) FROM sealed_contents";
    assert_eq!(raw.number(count).await, 1);
    gate.store.settle(&settlement(&sealing(1, seal("same")), CallStatus::Refused)).await.unwrap();
    assert_eq!(raw.number(count).await, 1);
    assert_eq!(gate.store.seal(&approval(2)).await.unwrap().unwrap().seal, seal("same"));
    gate.store.settle(&settlement(&sealing(2, seal("same")), CallStatus::Refused)).await.unwrap();
    assert_eq!(raw.number(count).await, 0);
    // What was bound is still known; what it was is not.
    let row = gate.store.seal(&approval(1)).await.unwrap().unwrap();
    assert_eq!((row.seal.operands, row.seal.contents.len()), (seal("same").operands, 0));
}

#[tokio::test]
async fn nobody_changes_what_a_question_binds() {
    let gate = Gate::open().await;
    gate.record(sealing(1, seal("good"))).await;
    gate.record(asking(2)).await;
    gate.store.answer(&approval(2), yes("me")).await.unwrap();
    let mut raw = gate.raw().await;
    let (one, two, digest) = (approval(1), approval(2), Digest::of(b"good"));
    let never = "what a question binds is never changed";
    let before = "what a question binds is said before anybody answers";
    let same = "a sealed copy is never changed";
    let mut refused = vec![
        ("UPDATE seals SET operands = '{}'".to_owned(), never),
        ("UPDATE sealed_files SET approval = approval".to_owned(), never),
        (format!("UPDATE sealed_contents SET content = {}", zeros(1)), same),
    ];
    for (insert, end) in insertions() {
        refused.extend([
            (format!("{insert} INTO seals VALUES ('{one}', '{{}}', '{digest}'){end}"), never),
            (format!("{insert} INTO seals VALUES ('{two}', '{{}}', '{digest}'){end}"), before),
            (format!("{insert} INTO sealed_files VALUES ('{two}', '{digest}'){end}"), before),
            (format!("{insert} INTO sealed_contents VALUES ('{digest}', {}){end}", zeros(1)), same),
        ]);
    }
    for (sql, why) in refused {
        assert_eq!(raw.run(&sql).await, Err(why.to_owned()), "{sql}");
    }
    for table in ["seals", "sealed_files", "sealed_contents"] {
        for sql in removals(table) {
            assert!(raw.run(&sql).await.is_err(), "{sql}");
        }
    }
    assert_eq!(gate.store.seal(&approval(1)).await.unwrap().unwrap().seal, seal("good"));
}
