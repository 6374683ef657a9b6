//! Messages that are taken once, and who is told of questions.

use contract::Digest;
use serde_json::json;
use store::{Course, DueNotice, NewApproval, NewEscalation, NoticeOutcome, Noticed};

use crate::gate::{Gate, NOW, approval, asking, no, operator};

const WANTED: Noticed<'static> = Noticed { channel: "ops", from_step: 0, most: 50 };

fn notice(number: u8, step: i64, attempts: i64) -> DueNotice {
    DueNotice { approval: approval(number), step, attempts }
}

#[tokio::test]
async fn a_message_is_taken_once_also_by_another_gate_and_after_a_restart() {
    let gate = Gate::open().await;
    let message = Digest::of(b"v0:1:body");
    assert!(gate.store.take_delivery(&message, NOW + 300, NOW).await.unwrap());
    assert!(!gate.store.take_delivery(&message, NOW + 300, NOW + 1).await.unwrap());
    let again = gate.again().await;
    assert!(!again.take_delivery(&message, NOW + 300, NOW + 299).await.unwrap());
    assert!(again.take_delivery(&Digest::of(b"v0:2:body"), NOW + 300, NOW).await.unwrap());
    let mut raw = gate.raw().await;
    let error = raw.run("UPDATE deliveries SET until = 0").await.unwrap_err();
    assert_eq!(error, "what was taken was taken");
    // It is too old by then to be taken anyway.
    assert!(again.take_delivery(&message, NOW + 900, NOW + 300).await.unwrap());
}

#[tokio::test]
async fn a_channel_is_told_of_a_question_once_and_again_if_that_failed() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let claim = async |now| gate.store.claim_notices(WANTED, now, now + 60).await.unwrap();
    assert_eq!(claim(NOW + 10).await, [notice(1, 0, 1)]);
    // It is in somebody's hands, and then it is not any more.
    assert_eq!(claim(NOW + 20).await, []);
    assert_eq!(
        gate.again().await.claim_notices(WANTED, NOW + 80, NOW + 90).await.unwrap(),
        [notice(1, 0, 2)]
    );
    gate.store.retry_notices("ops", &[notice(1, 0, 2)], NOW + 200).await.unwrap();
    assert_eq!(claim(NOW + 199).await, []);
    assert_eq!(claim(NOW + 200).await, [notice(1, 0, 3)]);
    gate.store.end_notices("ops", &[notice(1, 0, 3)], &NoticeOutcome::Sent, NOW + 201).await.unwrap();
    assert_eq!(claim(NOW + 5000).await, []);
    assert_eq!(gate.store.last_notice("ops").await.unwrap(), Some(NOW + 201));
    assert_eq!(gate.store.last_notice("others").await.unwrap(), None);
    let entries = gate.store.latest_event(-1).await.unwrap();
    let told = entries.iter().find(|entry| entry.kind == "notice.sent").unwrap();
    assert_eq!(
        told.body,
        json!({ "channel": "ops", "approvals": [approval(1)], "attempts": 3, "why": null })
    );
    let error = gate.raw().await.run("UPDATE notices SET outcome = 'failed'").await.unwrap_err();
    assert_eq!(error, "a notice ends once");
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn nobody_is_told_of_a_question_that_was_answered() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.store.claim_notices(WANTED, NOW + 10, NOW + 20).await.unwrap();
    gate.store.answer(&approval(1), no("me")).await.unwrap();
    assert_eq!(gate.store.claim_notices(WANTED, NOW + 5000, NOW + 6000).await.unwrap(), []);
}

#[tokio::test]
async fn a_channel_for_later_hears_of_the_steps_alone() {
    let gate = Gate::open().await;
    let mut call = asking(1);
    let Course::Ask(NewApproval { escalation, .. }) = &mut call.course else { panic!("it asks") };
    *escalation = vec![
        NewEscalation { due_at: NOW + 10, to: vec![operator("you")] },
        NewEscalation { due_at: NOW + 20, to: vec![operator("boss")] },
    ];
    gate.record(call).await;
    let later = Noticed { channel: "boss", from_step: 2, ..WANTED };
    let claim = async |wanted, now| gate.store.claim_notices(wanted, now, now + 1000).await.unwrap();
    assert_eq!(claim(later, NOW + 5).await, []);
    gate.store.escalate(NOW + 10).await.unwrap();
    assert_eq!(claim(later, NOW + 11).await, []);
    assert_eq!(claim(WANTED, NOW + 11).await, [notice(1, 0, 1), notice(1, 1, 1)]);
    gate.store.escalate(NOW + 20).await.unwrap();
    assert_eq!(claim(later, NOW + 21).await, [notice(1, 2, 1)]);
}
