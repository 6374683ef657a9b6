//! Operators come and go, and what they said with them.

use contract::{Digest, OperatorName};
use serde_json::json;
use store::{
    AddOperatorError, AnswerError, ApprovalState, By, ChangeOperatorError, Course, Passkey, PresenceError,
    Role,
};

use crate::gate::{Gate, NOW, approval, asking_for, call_id, insertions, operator, yes};

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

#[tokio::test]
async fn only_an_admin_adds_and_removes_people_and_the_ledger_says_who() {
    let gate = Gate::open().await;
    let (me, you, guest) = (operator("me"), operator("you"), operator("guest"));
    for by in [&you, &guest, &operator("nobody")] {
        let added =
            gate.store.appoint(&operator("new"), Role::Viewer, digest("n"), By::Operator(by), NOW).await;
        assert!(matches!(added, Err(AddOperatorError::NotAdmin { .. })), "{by}");
        let removed = gate.store.remove_operator(&guest, By::Operator(by), NOW).await;
        assert!(matches!(removed, Err(ChangeOperatorError::NotAdmin { .. })), "{by}");
    }
    gate.store.appoint(&operator("new"), Role::Approver, digest("n"), By::Operator(&me), NOW).await.unwrap();
    gate.store.remove_operator(&you, By::Operator(&me), NOW + 1).await.unwrap();
    let entries = gate.store.latest_event(-1).await.unwrap();
    let last: Vec<_> = entries.iter().rev().take(2).map(|entry| (entry.kind.as_str(), &entry.body)).collect();
    assert_eq!(
        last,
        [
            ("operator.removed", &json!({ "operator": "you", "by": "me", "after": 4 })),
            (
                "operator.added",
                &json!({ "operator": "new", "role": "approver", "credential": digest("n"), "by": "me", "after": 3 })
            ),
        ]
    );
    let names: Vec<String> =
        gate.store.operators().await.unwrap().iter().map(|row| row.name.to_string()).collect();
    assert_eq!(names, ["guest", "me", "new"]);
    // Somebody else does not become them.
    let again = gate.store.appoint(&you, Role::Admin, digest("y2"), By::Operator(&me), NOW).await;
    assert!(matches!(again, Err(AddOperatorError::NameTaken { .. })));
    let error = gate.store.remove_operator(&me, By::Operator(&me), NOW).await.unwrap_err();
    assert!(matches!(error, ChangeOperatorError::LastAdmin { .. }), "{error}");
}

#[tokio::test]
async fn a_new_credential_ends_the_old_one() {
    let gate = Gate::open().await;
    let you = operator("you");
    let by_guest = gate.store.rotate_operator(&you, digest("x"), By::Operator(&operator("guest")), NOW).await;
    assert!(matches!(by_guest, Err(ChangeOperatorError::NotAdmin { .. })));
    gate.store.rotate_operator(&you, digest("own"), By::Operator(&you), NOW).await.unwrap();
    assert_eq!(gate.store.operator_by_credential(&digest("you")).await.unwrap(), None);
    assert_eq!(gate.store.operator_by_credential(&digest("own")).await.unwrap().unwrap().name, you);
    let taken = gate.store.rotate_operator(&you, digest("me"), By::Owner, NOW).await;
    assert!(matches!(taken, Err(ChangeOperatorError::CredentialTaken)));
}

#[tokio::test]
async fn a_new_credential_ends_the_password_and_the_passkeys_that_were_set_by_the_old_one() {
    let gate = Gate::open().await;
    let (me, you) = (operator("me"), operator("you"));
    let passkey = |id: &str, operator: &OperatorName| Passkey {
        id: id.to_owned(),
        operator: operator.clone(),
        algorithm: -7,
        public_key: "AAAA".to_owned(),
        label: "a key".to_owned(),
        added_at: NOW,
    };
    for (name, id) in [(&me, "mine"), (&you, "yours")] {
        gate.store.set_password(name, "$argon2id$one", NOW).await.unwrap();
        gate.store.add_passkey(&passkey(id, name), 0).await.unwrap();
    }
    gate.store.rotate_operator(&you, digest("own"), By::Owner, NOW).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap(), None);
    assert_eq!(gate.store.passkey("yours").await.unwrap(), None);
    assert!(!gate.store.use_passkey("yours", 1).await.unwrap());
    assert_eq!(gate.store.password_of(&me).await.unwrap().as_deref(), Some("$argon2id$one"));
    assert_eq!(gate.store.passkeys_of(&me).await.unwrap().len(), 1);
    // What is set afterwards counts.
    gate.store.set_password(&you, "$argon2id$two", NOW).await.unwrap();
    gate.store.add_passkey(&passkey("yours", &you), 0).await.unwrap();
    assert_eq!(gate.store.password_of(&you).await.unwrap().as_deref(), Some("$argon2id$two"));
    assert_eq!(gate.store.passkeys_of(&you).await.unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_was_removed_answers_nothing_and_their_yes_no_longer_counts() {
    let gate = Gate::open().await;
    let me = operator("me");
    gate.store.add_operator(&operator("third"), Role::Approver, digest("third"), NOW).await.unwrap();
    gate.record(asking_for(1, 2)).await;
    gate.record(asking_for(2, 1)).await;
    gate.store.answer(&approval(1), yes("you")).await.unwrap();
    gate.store.answer(&approval(2), yes("you")).await.unwrap();
    gate.store.remove_operator(&operator("you"), By::Operator(&me), NOW + 1000).await.unwrap();
    let error = gate.store.answer(&approval(1), yes("you")).await.unwrap_err();
    assert!(matches!(error, AnswerError::NotAllowed { .. }), "{error}");
    // One of the two is gone: the other alone is not enough.
    let row = gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!((row.state, row.approvers), (ApprovalState::Pending, vec![operator("me")]));
    let row = gate.store.answer(&approval(1), yes("third")).await.unwrap();
    assert_eq!(row.state, ApprovalState::Approved);
    // Nor does a yes that was enough, and was not used.
    let started = gate.store.start_approved(&call_id(2), &approval(2), json!({}), NOW + 1001).await.unwrap();
    assert!(!started);
    assert_eq!(gate.store.approval(&approval(2)).await.unwrap().unwrap().approvers, []);
    assert_eq!(gate.store.operator_by_credential(&digest("you")).await.unwrap(), None);
}

#[tokio::test]
async fn whoever_proposed_a_call_does_not_answer_for_it() {
    let gate = Gate::open().await;
    let mut call = asking_for(1, 1);
    let Course::Ask(question) = &mut call.course else { panic!("it asks") };
    question.about.as_mut().unwrap().proposer = Some(operator("me"));
    gate.record(call).await;
    for answer in [yes("me"), crate::gate::no("me")] {
        let error = gate.store.answer(&approval(1), answer).await.unwrap_err();
        assert!(matches!(error, AnswerError::Proposer { .. }), "{error}");
    }
    assert_eq!(gate.store.answer(&approval(1), yes("you")).await.unwrap().state, ApprovalState::Approved);
}

#[tokio::test]
async fn whoever_makes_a_call_that_waits_does_not_answer_for_it_and_is_told_of_once() {
    let gate = Gate::open().await;
    let you = operator("you");
    gate.record(asking_for(1, 1)).await;
    gate.record(asking_for(2, 1)).await;
    for _ in 0..2 {
        gate.store.join_question(&approval(1), &you, NOW).await.unwrap();
    }
    let error = gate.store.answer(&approval(1), yes("you")).await.unwrap_err();
    assert!(matches!(error, AnswerError::Proposer { .. }), "{error}");
    let joined = gate.again().await.joined_after(-1).await.unwrap();
    assert_eq!(joined.into_iter().collect::<Vec<_>>(), [(approval(1), you.clone())]);
    let entries = gate.store.latest_event(-1).await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.kind == "approval.joined").count(), 1);
    // Another's answer counts, and another question is open to them.
    assert_eq!(gate.store.answer(&approval(1), yes("me")).await.unwrap().state, ApprovalState::Approved);
    let started = gate.store.start_approved(&call_id(1), &approval(1), json!({}), NOW).await.unwrap();
    assert!(started, "the yes of somebody else is not taken back by it");
    assert_eq!(gate.store.answer(&approval(2), yes("you")).await.unwrap().state, ApprovalState::Approved);
    // Whoever has answered comes to see what became of it.
    gate.store.join_question(&approval(2), &you, NOW).await.unwrap();
    assert!(gate.store.start_approved(&call_id(2), &approval(2), json!({}), NOW).await.unwrap());
}

#[tokio::test]
async fn whoever_was_not_there_when_it_was_asked_does_not_say_yes() {
    let gate = Gate::open().await;
    let (me, you) = (operator("me"), operator("you"));
    gate.record(asking_for(1, 2)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    gate.store.appoint(&operator("sock"), Role::Approver, digest("s"), By::Operator(&me), NOW).await.unwrap();
    gate.store.rotate_operator(&you, digest("y2"), By::Operator(&me), NOW).await.unwrap();
    for by in ["sock", "you"] {
        let error = gate.store.answer(&approval(1), yes(by)).await.unwrap_err();
        assert!(matches!(error, AnswerError::TooNew { .. }), "{by}: {error}");
    }
    // To what is asked from now on they may, and a no is always taken.
    gate.record(asking_for(2, 2)).await;
    for by in ["sock", "you"] {
        gate.store.answer(&approval(2), yes(by)).await.unwrap();
    }
    assert_eq!(
        gate.store.answer(&approval(1), crate::gate::no("sock")).await.unwrap().state,
        ApprovalState::Rejected
    );
    // One's own new credential is nobody else's, and neither is what the owner of the gate lets them back in with.
    gate.record(asking_for(3, 1)).await;
    gate.store.rotate_operator(&you, digest("y3"), By::Operator(&you), NOW).await.unwrap();
    gate.store.rotate_operator(&you, digest("y4"), By::Owner, NOW).await.unwrap();
    assert_eq!(gate.store.answer(&approval(3), yes("you")).await.unwrap().state, ApprovalState::Approved);
}

#[tokio::test]
async fn what_is_heard_one_by_one_is_what_is_heard_at_once_and_changes_have_an_end() {
    let gate = Gate::open().await;
    let guest = operator("guest");
    let passkey = |id: usize| Passkey {
        id: format!("key-{id}"),
        operator: guest.clone(),
        algorithm: -7,
        public_key: "AAAA".to_owned(),
        label: "a key".to_owned(),
        added_at: NOW,
    };
    let mut refused = None;
    for id in 0..40 {
        if let Err(error) = gate.store.add_passkey(&passkey(id), 0).await {
            refused = Some((id, error));
            break;
        }
        let one_by_one = gate.store.passkeys_of(&guest).await.unwrap();
        assert_eq!(one_by_one, gate.again().await.passkeys_of(&guest).await.unwrap());
        gate.store.remove_passkey(&format!("key-{id}"), &guest, NOW).await.unwrap();
    }
    assert!(matches!(refused, Some((30, PresenceError::TooOften))), "{refused:?}");
    let error = gate.store.set_password(&guest, "$argon2id$one", NOW).await.unwrap_err();
    assert!(matches!(error, PresenceError::TooOften), "{error}");
    // Nobody else is held up by it, and neither are they tomorrow.
    gate.store.set_password(&operator("you"), "$argon2id$one", NOW).await.unwrap();
    gate.store.set_password(&guest, "$argon2id$one", NOW + 24 * 60 * 60 * 1000).await.unwrap();
    let all = gate.again().await.all_operators().await.unwrap();
    assert_eq!(gate.store.all_operators().await.unwrap(), all);
}

#[tokio::test]
async fn the_database_itself_keeps_people_as_they_are() {
    let gate = Gate::open().await;
    let mut call = asking_for(1, 1);
    let Course::Ask(question) = &mut call.course else { panic!("it asks") };
    question.about.as_mut().unwrap().proposer = Some(operator("me"));
    gate.record(call).await;
    gate.store.remove_operator(&operator("you"), By::Owner, NOW).await.unwrap();
    let mut raw = gate.raw().await;
    let stays = "an operator stays who they are, and one who was removed stays removed";
    let answer = |who: &str| {
        let (id, at) = (approval(1), NOW + 1000);
        format!("INSERT INTO answers VALUES ('{id}', '{who}', 'approve', 'sql', NULL, {at})")
    };
    let refused = [
        ("UPDATE operators SET role = 'admin' WHERE name = 'guest'".to_owned(), stays),
        ("UPDATE operators SET name = 'guest2' WHERE name = 'guest'".to_owned(), stays),
        ("UPDATE operators SET revoked_at = NULL WHERE name = 'you'".to_owned(), stays),
        ("UPDATE operators SET revoked_at = 1 WHERE name = 'me'".to_owned(), "the last admin is not removed"),
        ("DELETE FROM operators WHERE name = 'guest'".to_owned(), "operators are never forgotten"),
        (answer("you"), "only an approver or an admin answers"),
        (answer("guest"), "only an approver or an admin answers"),
        (answer("me"), "whoever proposed a call does not answer for it"),
    ];
    for (sql, why) in refused {
        assert_eq!(raw.run(&sql).await.unwrap_err(), why, "{sql}");
    }
    for (verb, end) in insertions() {
        let values = format!("('guest', 'admin', '{}', 1, NULL){end}", digest("new"));
        let error = raw.run(&format!("{verb} INTO operators VALUES {values}")).await.unwrap_err();
        assert_eq!(error, "operators are never replaced", "{verb}");
    }
}
