use contract::{ApprovalId, CallStatus, Digest};
use serde_json::json;
use store::{
    AddOperatorError, Answer, AnswerError, ApprovalFilter, ApprovalState, CancelError, Course, FindError,
    NewCall, RecordError, Role,
};

use crate::gate::{Gate, LATER, NOW, approval, asking, asking_for, call_id, no, operator, running, yes};

async fn state(gate: &Gate, number: u8) -> ApprovalState {
    gate.store.approval(&approval(number)).await.unwrap().unwrap().state
}

#[tokio::test]
async fn a_question_shows_everything_it_binds() {
    let gate = Gate::open().await;
    let call = asking(1);
    gate.record(call.clone()).await;
    let row = gate.store.find_approval("0101").await.unwrap();
    assert_eq!(
        (&row.id, &row.call, &row.agent, &row.tool),
        (&approval(1), &call.id, &call.agent, &call.tool)
    );
    assert_eq!((row.contract, row.arguments, row.policy), (call.contract, call.arguments, call.policy));
    assert_eq!(
        (&row.arguments_json, &row.why),
        (&Some(call.arguments_json.clone()), &vec!["it deletes".to_owned()])
    );
    assert_eq!((row.quorum, row.state, row.asked_at), (1, ApprovalState::Pending, call.asked_at));
    assert_eq!((row.expires_at, row.decided_at, row.reason), (LATER, None, None));
    assert_eq!((row.answers, row.approvers), (vec![], vec![]));
}

#[tokio::test]
async fn a_yes_keeps_who_said_it_when_how_and_why() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let row = gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!((row.state, row.decided_at), (ApprovalState::Approved, Some(NOW + 1000)));
    assert_eq!((row.approvers, row.reason), (vec![operator("me")], Some("because".into())));
    assert_eq!((row.answers[0].via.as_str(), row.answers[0].at), ("cli", NOW + 1000));
    let entry = gate.store.latest_event(-1).await.unwrap().pop().unwrap();
    assert_eq!(entry.kind, "approval.answered");
    assert_eq!((&entry.body["by"], &entry.body["state"]), (&json!("me"), &json!("approved")));
}

#[tokio::test]
async fn deciding_twice_is_an_error_and_changes_nothing() {
    let gate = Gate::open().await;
    for (number, first) in [(1, yes("me")), (2, no("me"))] {
        gate.record(asking(number)).await;
        let before = gate.store.answer(&approval(number), first).await.unwrap();
        let size = gate.store.ledger_size().await.unwrap();
        for second in [yes("you"), no("you"), yes("me")] {
            let error = gate.store.answer(&approval(number), second).await.unwrap_err();
            assert!(matches!(error, AnswerError::Decided { state } if state == before.state));
        }
        assert_eq!(gate.store.approval(&approval(number)).await.unwrap(), Some(before));
        assert_eq!(gate.store.ledger_size().await.unwrap(), size);
    }
}

#[tokio::test]
async fn two_different_people_make_a_quorum_of_two_and_one_person_does_not() {
    let gate = Gate::open().await;
    gate.record(asking_for(1, 2)).await;
    let row = gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!((row.state, row.decided_at), (ApprovalState::Pending, None));
    for again in [yes("me"), no("me")] {
        let error = gate.store.answer(&approval(1), again).await.unwrap_err();
        assert!(matches!(error, AnswerError::SameOperator { .. }));
    }
    assert!(!gate.store.start_approved(&call_id(1), &approval(1), json!({}), NOW + 1001).await.unwrap());
    let row = gate.store.answer(&approval(1), yes("you")).await.unwrap();
    assert_eq!((row.state, row.approvers), (ApprovalState::Approved, vec![operator("me"), operator("you")]));
}

#[tokio::test]
async fn one_no_outweighs_a_yes() {
    let gate = Gate::open().await;
    gate.record(asking_for(1, 2)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!(gate.store.answer(&approval(1), no("you")).await.unwrap().state, ApprovalState::Rejected);
}

#[tokio::test]
async fn only_operators_who_may_answer_do() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    for by in ["guest", "nobody"] {
        let error = gate.store.answer(&approval(1), yes(by)).await.unwrap_err();
        assert!(matches!(error, AnswerError::NotAllowed { .. }), "{by}");
    }
    assert_eq!(state(&gate, 1).await, ApprovalState::Pending);
    let error = gate.store.answer(&approval(9), yes("me")).await.unwrap_err();
    assert!(matches!(error, AnswerError::Unknown { .. }));
}

#[tokio::test]
async fn too_late_is_no_even_before_anyone_has_looked_at_the_clock() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let late = Answer { now: LATER, ..yes("me") };
    assert!(matches!(gate.store.answer(&approval(1), late).await, Err(AnswerError::Expired)));
    assert_eq!(gate.store.expire(LATER - 1).await.unwrap(), []);
    let expired = gate.store.expire(LATER).await.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(Some(&expired[0]), gate.store.approval(&approval(1)).await.unwrap().as_ref());
    assert_eq!(state(&gate, 1).await, ApprovalState::Expired);
    assert_eq!(gate.store.expire(LATER).await.unwrap(), [], "once");
    let error = gate.store.answer(&approval(1), yes("me")).await.unwrap_err();
    assert!(matches!(error, AnswerError::Decided { state: ApprovalState::Expired }));
    assert_eq!(gate.store.latest_event(-1).await.unwrap().pop().unwrap().kind, "approval.expired");
}

#[tokio::test]
async fn a_question_can_be_taken_back_until_it_is_answered() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    assert_eq!(gate.store.cancel(&approval(1), NOW).await.unwrap().state, ApprovalState::Cancelled);
    assert_eq!(state(&gate, 1).await, ApprovalState::Cancelled);
    let again = gate.store.cancel(&approval(1), NOW).await;
    assert!(matches!(again, Err(CancelError::Decided { state: ApprovalState::Cancelled })));
    assert!(matches!(gate.store.cancel(&approval(7), NOW).await, Err(CancelError::Unknown { .. })));
}

#[tokio::test]
async fn an_approval_is_used_once() {
    let gate = Gate::open().await;
    let call = gate.approved(1).await;
    let id = approval(1);
    let start = || gate.store.start_approved(&call.id, &id, json!({ "a": 1 }), NOW + 2000);
    assert!(start().await.unwrap());
    assert!(!start().await.unwrap());
    assert_eq!(state(&gate, 1).await, ApprovalState::Running);
    gate.settle(&call, CallStatus::Completed).await;
    assert_eq!(state(&gate, 1).await, ApprovalState::Completed);
    assert!(!start().await.unwrap());
}

#[tokio::test]
async fn an_approval_serves_its_own_call_alone() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    gate.record(asking(2)).await;
    assert!(!gate.store.start_approved(&call_id(2), &approval(1), json!({}), NOW + 2000).await.unwrap());
    assert!(!gate.store.start_approved(&call_id(2), &approval(2), json!({}), NOW + 2000).await.unwrap());
    assert_eq!(state(&gate, 1).await, ApprovalState::Approved);
}

#[tokio::test]
async fn an_approval_that_nobody_used_for_an_hour_is_stale() {
    let gate = Gate::open().await;
    let call = gate.approved(1).await;
    let hour = NOW + 1000 + 3_600_000;
    assert!(!gate.store.start_approved(&call.id, &approval(1), json!({}), hour).await.unwrap());
    assert!(gate.store.start_approved(&call.id, &approval(1), json!({}), hour - 1).await.unwrap());
}

#[tokio::test]
async fn the_end_of_a_call_is_the_end_of_its_question() {
    let gate = Gate::open().await;
    let failing = gate.approved(1).await;
    assert!(gate.store.start_approved(&failing.id, &approval(1), json!({}), NOW + 2000).await.unwrap());
    gate.settle(&failing, CallStatus::Failed).await;
    assert_eq!(state(&gate, 1).await, ApprovalState::Failed);

    gate.record(asking(2)).await;
    gate.settle(&asking(2), CallStatus::Cancelled).await;
    assert_eq!(state(&gate, 2).await, ApprovalState::Cancelled);

    let approved = gate.approved(3).await;
    gate.settle(&approved, CallStatus::Cancelled).await;
    assert!(!gate.store.start_approved(&approved.id, &approval(3), json!({}), NOW + 3000).await.unwrap());
    assert_eq!(state(&gate, 3).await, ApprovalState::Approved, "never used");
}

#[tokio::test]
async fn a_question_that_nobody_could_answer_is_not_asked() {
    let gate = Gate::open().await;
    let expired = match asking(1).course {
        Course::Ask(question) => store::NewApproval { expires_at: NOW, ..question },
        other => panic!("{other:?}"),
    };
    let expired = NewCall { course: Course::Ask(expired), ..running(1) };
    for call in [asking_for(1, 0), expired] {
        assert!(matches!(gate.store.record_call(call).await, Err(RecordError::Unanswerable)));
    }
}

#[tokio::test]
async fn a_question_is_found_by_the_beginning_of_its_id() {
    let gate = Gate::open().await;
    let with_id = |number: u8, id: [u8; 16]| {
        let Course::Ask(question) = asking(number).course else { panic!() };
        let question = store::NewApproval { id: ApprovalId::from_random(id), ..question };
        NewCall { course: Course::Ask(question), ..running(number) }
    };
    let mut id = [0xff; 16];
    gate.record(with_id(1, id)).await;
    id[15] = 0xfe;
    gate.record(with_id(2, id)).await;
    gate.record(asking(3)).await;
    assert_eq!(gate.store.find_approval("0303").await.unwrap().call, call_id(3));
    assert_eq!(gate.store.find_approval(&"ff".repeat(16)).await.unwrap().call, call_id(1));
    assert!(matches!(gate.store.find_approval("ffff").await, Err(FindError::Ambiguous { .. })));
    assert!(matches!(gate.store.find_approval("0404").await, Err(FindError::None { .. })));
    for prefix in ["", "030", "030x", "FFFF", "%%%%", "____", &"f".repeat(33), "0303'; --", "éééé"] {
        assert!(
            matches!(gate.store.find_approval(prefix).await, Err(FindError::NotAPrefix { .. })),
            "{prefix}"
        );
    }
}

#[tokio::test]
async fn questions_that_wait_are_listed_oldest_first_and_all_newest_first() {
    let gate = Gate::open().await;
    for number in 1..=3 {
        gate.record(asking(number)).await;
    }
    gate.store.answer(&approval(2), no("me")).await.unwrap();
    let list = async |filter, limit| {
        let rows = gate.store.approvals(filter, limit).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list(ApprovalFilter::Pending, 10).await, [approval(1), approval(3)]);
    assert_eq!(list(ApprovalFilter::Pending, 1).await, [approval(1)], "new ones push nobody out of sight");
    assert_eq!(list(ApprovalFilter::All, 10).await, [approval(3), approval(2), approval(1)]);
    assert_eq!(list(ApprovalFilter::All, 1).await, [approval(3)]);
}

#[tokio::test]
async fn an_operator_is_known_by_the_hash_of_a_credential() {
    let gate = Gate::open().await;
    let row = gate.store.operator_by_credential(&Digest::of(b"you")).await.unwrap().unwrap();
    assert_eq!((row.name, row.role, row.added_at), (operator("you"), Role::Approver, NOW));
    assert_eq!(gate.store.operator_by_credential(&Digest::of(b"")).await.unwrap(), None);
    let names: Vec<_> = gate.store.operators().await.unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, [operator("guest"), operator("me"), operator("you")]);
    let add = async |name: &str, credential: &[u8]| {
        gate.store.add_operator(&operator(name), Role::Admin, Digest::of(credential), NOW).await.unwrap_err()
    };
    assert!(matches!(add("you", b"new").await, AddOperatorError::NameTaken { .. }));
    assert!(matches!(add("new", b"you").await, AddOperatorError::CredentialTaken));
    assert!(matches!(
        add("you", b"me").await,
        AddOperatorError::NameTaken { .. } | AddOperatorError::CredentialTaken
    ));
}

#[tokio::test]
async fn what_waits_is_listed_page_by_page_and_counted() {
    let gate = Gate::open().await;
    for number in 1..=5 {
        // Two of them in one moment.
        gate.record(NewCall { asked_at: NOW + i64::from(number / 2), ..asking(number) }).await;
    }
    gate.store.answer(&approval(4), no("me")).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let from = after.as_ref().map(|(asked_at, id)| (*asked_at, id));
        let (rows, open) = gate.store.pending_after(from, 2).await.unwrap();
        assert_eq!(open, 4);
        let Some(last) = rows.last() else { break };
        after = Some((last.asked_at, last.id.clone()));
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(seen, [1, 2, 3, 5].map(approval));
}
