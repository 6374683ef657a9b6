//! A yes for more than one call, a yes that is taken back, and a question that nobody answers.

use contract::{AgentName, Digest, SafetyClass, Scope, TaskName, ToolName};
use serde_json::json;
use store::{
    AnswerError, ApprovalState, By, Course, NewApproval, NewCall, NewEscalation, NewStanding, Recorded,
    Revocation, RevokeError, Role, Vote,
};

use crate::gate::{
    Gate, LATER, NOW, about, approval, asking, asking_for, call_id, insertions, no, operator, removals,
    running, yes,
};

const UNTIL: i64 = NOW + 3_600_000;

fn standing(scope: Scope) -> store::Answer {
    store::Answer { standing: Some(NewStanding { scope, expires_at: UNTIL }), ..yes("me") }
}

fn revocation(by: &str) -> Revocation {
    Revocation { by: operator(by), reason: None, now: NOW + 2000 }
}

/// A gate with one yes, given to call 1.
async fn with(scope: Scope) -> Gate {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.store.answer(&approval(1), standing(scope)).await.unwrap();
    gate
}

/// The same call again, under the yes that was given to the first.
async fn again(gate: &Gate, number: u8) -> NewCall {
    let first = running(1);
    let under = Box::new(gate.store.approval(&approval(1)).await.unwrap().unwrap());
    let course = Course::RunUnder { authority: json!({}), under };
    NewCall { arguments: first.arguments, arguments_json: first.arguments_json, course, ..running(number) }
}

async fn is_covered(gate: &Gate, call: NewCall) -> Result<bool, String> {
    match gate.store.record_call(call).await {
        Ok(Recorded::New { .. }) => Ok(true),
        Ok(Recorded::NotCovered) => Ok(false),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(format!("{error:?}")),
    }
}

#[tokio::test]
async fn a_yes_for_more_runs_what_it_covers_and_each_use_is_in_the_ledger() {
    let gate = with(Scope::Agent).await;
    assert_eq!(is_covered(&gate, again(&gate, 2).await).await, Ok(true));
    assert_eq!(is_covered(&gate, again(&gate, 3).await).await, Ok(true));
    let entries = gate.store.latest_event(-1).await.unwrap();
    let uses: Vec<_> = entries.iter().filter(|entry| entry.kind == "approval.used").collect();
    assert_eq!(uses.len(), 2);
    assert_eq!(uses[0].body["approval"], json!(approval(1)));
    assert_eq!(uses[0].body["call"], json!(call_id(2)));
    let rows = gate.store.standing(None, NOW + 2000).await.unwrap();
    let row = rows[0].standing.clone().unwrap();
    assert_eq!(
        (row.scope, row.granted_by, row.expires_at, row.uses),
        (Scope::Agent, operator("me"), UNTIL, 2)
    );
    assert_eq!(gate.store.standing(None, UNTIL).await.unwrap(), []);
    assert_eq!(gate.store.standing(Some(&AgentName::parse("x").unwrap()), NOW).await.unwrap(), []);
    let answered = entries.iter().find(|entry| entry.kind == "approval.answered").unwrap();
    assert_eq!((&answered.body["scope"], &answered.body["until"]), (&json!("agent"), &json!(UNTIL)));
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn the_database_itself_starts_nothing_that_a_yes_does_not_cover() {
    let other = Digest::of(b"other");
    type Change = (&'static str, fn(&mut NewCall, Digest));
    let changes: [Change; 6] = [
        ("agent", |call, _| call.agent = AgentName::parse("other").unwrap()),
        ("tool", |call, _| call.tool = ToolName::parse("shell").unwrap()),
        ("contract", |call, other| call.contract = other),
        ("policy", |call, other| call.policy = other),
        ("task", |call, _| call.task = Some(TaskName::parse("other").unwrap())),
        ("arguments", |call, _| {
            call.arguments_json = "{}".into();
            call.arguments = Digest::of(b"{}");
        }),
    ];
    for scope in [Scope::Task, Scope::Agent, Scope::Type] {
        let gate = with(scope).await;
        for (number, (what, change)) in (2..).zip(changes) {
            let mut call = again(&gate, number).await;
            change(&mut call, other);
            let covered = matches!(
                (scope, what),
                (Scope::Agent, "task") | (Scope::Type, "task") | (Scope::Type, "arguments")
            );
            match is_covered(&gate, call).await {
                Ok(true) => assert!(covered, "{scope} {what}"),
                Ok(false) => panic!("{scope} {what}: it is usable"),
                Err(why) => {
                    assert!(!covered && why.contains("does not cover"), "{scope} {what}: {why}");
                }
            }
        }
        let late = NewCall { asked_at: UNTIL, ..again(&gate, 9).await };
        assert_eq!(is_covered(&gate, late).await, Ok(false), "{scope}");
    }
}

#[tokio::test]
async fn a_yes_ends_with_its_policy_and_does_not_come_back_with_it() {
    let gate = with(Scope::Type).await;
    let place = about().place;
    let (own, other) = (asking(1).policy, Digest::of(b"another policy"));
    let end =
        async |place, policy| gate.store.end_standing_of_others(place, policy, NOW + 2000).await.unwrap();
    assert_eq!(end(place, own).await, 0, "it is the same policy");
    assert_eq!(end(Digest::of(b"elsewhere"), other).await, 0, "it is another workspace");
    assert_eq!(is_covered(&gate, again(&gate, 2).await).await, Ok(true));
    assert_eq!(end(place, other).await, 1);
    assert_eq!(is_covered(&gate, again(&gate, 3).await).await, Ok(false));
    assert_eq!(gate.store.standing(None, NOW + 2000).await.unwrap(), []);
    assert_eq!((end(place, other).await, end(place, own).await), (0, 0), "once");
    assert_eq!(is_covered(&gate, again(&gate, 4).await).await, Ok(false), "the old policy is in force again");
    let entries = gate.store.latest_event(-1).await.unwrap();
    let ended: Vec<_> = entries.iter().filter(|entry| entry.kind == "approval.ended").collect();
    assert_eq!(ended.len(), 1);
    let answered = entries.iter().find(|entry| entry.kind == "approval.answered").unwrap().seq;
    let told = json!({ "approval": approval(1), "call": call_id(1), "policy": other, "after": answered });
    assert_eq!(ended[0].body, told);
    gate.store.verify(None).await.unwrap();

    // Nor around this code: the database itself starts nothing under it, and keeps that it has ended.
    let mut raw = gate.raw().await;
    let call = running(5);
    gate.record(NewCall { safety: SafetyClass::Read, ..call }).await;
    let used = format!("INSERT INTO standing_uses VALUES ('{}', '{}', {})", call_id(5), approval(1), NOW + 2);
    assert_eq!(raw.run(&used).await.unwrap_err(), "this yes does not cover the call");
    for sql in
        removals("standing_ends").into_iter().chain(["UPDATE standing_ends SET ended_at = 0".to_owned()])
    {
        assert_eq!(raw.run(&sql).await.unwrap_err(), "what has ended stays so", "{sql}");
    }
    for (verb, end) in insertions() {
        let sql = format!("{verb} INTO standing_ends VALUES ('{}', '{other}', 1){end}", approval(1));
        assert_eq!(raw.run(&sql).await.unwrap_err(), "what has ended stays so", "{sql}");
    }
}

#[tokio::test]
async fn what_was_taken_back_starts_nothing_and_cannot_be_given_back() {
    let gate = with(Scope::Type).await;
    let error = gate.store.revoke(&approval(1), revocation("guest")).await.unwrap_err();
    assert!(matches!(error, RevokeError::NotAllowed { .. }), "{error}");
    let row = gate.store.revoke(&approval(1), revocation("you")).await.unwrap();
    assert_eq!(row.revoked.unwrap().by, operator("you"));
    assert_eq!(is_covered(&gate, again(&gate, 2).await).await, Ok(false));
    assert_eq!(gate.store.standing(None, NOW + 2000).await.unwrap(), []);
    // Nor does the call itself that it answered.
    assert!(!gate.store.start_approved(&call_id(1), &approval(1), json!({}), NOW + 2001).await.unwrap());
    let error = gate.store.revoke(&approval(1), revocation("me")).await.unwrap_err();
    assert!(matches!(error, RevokeError::Revoked { .. }), "{error}");
    let entry = gate.store.latest_event(-1).await.unwrap().pop().unwrap();
    assert_eq!((entry.kind.as_str(), &entry.body["by"]), ("approval.revoked", &json!("you")));

    let mut raw = gate.raw().await;
    let id = approval(1);
    let stays = "what was taken back stays so";
    let refused = [
        ("DELETE FROM revocations".to_owned(), stays),
        ("UPDATE revocations SET revoked_at = 9".to_owned(), stays),
        ("DELETE FROM standing".to_owned(), "a yes is taken back, never removed"),
        (format!("UPDATE standing SET expires_at = {}", UNTIL + 1), "a yes is never changed"),
        (format!("UPDATE approvals SET state = 'running' WHERE id = '{id}'"), "the yes was taken back"),
    ];
    for (sql, why) in refused {
        assert_eq!(raw.run(&sql).await.unwrap_err(), why, "{sql}");
    }
    for (verb, end) in insertions() {
        let revocation = format!("{verb} INTO revocations VALUES ('{id}', 'me', NULL, 1){end}");
        assert_eq!(raw.run(&revocation).await.unwrap_err(), stays);
        let standing = format!("{verb} INTO standing VALUES ('{id}', 'type', 'me', {NOW}, {UNTIL}){end}");
        assert!(raw.run(&standing).await.is_err());
    }
    for sql in ["standing", "revocations"].into_iter().flat_map(removals) {
        assert!(raw.run(&sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn only_a_yes_that_can_still_be_used_is_taken_back() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let error = gate.store.revoke(&approval(1), revocation("me")).await.unwrap_err();
    assert!(matches!(error, RevokeError::Nothing { state: ApprovalState::Pending }), "{error}");
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    gate.store.revoke(&approval(1), revocation("me")).await.unwrap();
    gate.record(asking(2)).await;
    gate.store.answer(&approval(2), no("me")).await.unwrap();
    let error = gate.store.revoke(&approval(2), revocation("me")).await.unwrap_err();
    assert!(matches!(error, RevokeError::Nothing { .. }), "{error}");
    let error = gate.store.revoke(&approval(9), revocation("me")).await.unwrap_err();
    assert!(matches!(error, RevokeError::Unknown { .. }), "{error}");
}

#[tokio::test]
async fn a_yes_ends_with_the_authority_of_whoever_gave_it() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let by_you = store::Answer { by: operator("you"), ..standing(Scope::Type) };
    gate.store.answer(&approval(1), by_you).await.unwrap();
    assert_eq!(is_covered(&gate, again(&gate, 2).await).await, Ok(true));
    gate.store.remove_operator(&operator("you"), By::Operator(&operator("me")), NOW).await.unwrap();
    assert_eq!(is_covered(&gate, again(&gate, 3).await).await, Ok(false));
    assert_eq!(gate.store.standing(None, NOW).await.unwrap(), []);
}

#[tokio::test]
async fn money_guards_and_what_takes_several_people_are_approved_one_by_one() {
    let gate = Gate::open().await;
    let asked = |number: u8, quorum: u32, safety: SafetyClass| {
        let mut call = asking_for(number, quorum);
        let Course::Ask(question) = &mut call.course else { panic!("it asks") };
        question.about.as_mut().unwrap().safety = safety;
        call
    };
    gate.record(asked(1, 1, SafetyClass::Financial)).await;
    gate.record(asked(2, 2, SafetyClass::Privileged)).await;
    gate.record(asked(3, 2, SafetyClass::Write)).await;
    for number in 1..=3 {
        let error = gate.store.answer(&approval(number), standing(Scope::Task)).await.unwrap_err();
        assert!(matches!(error, AnswerError::OnceOnly { .. }), "{error}");
        assert_eq!(gate.store.approval(&approval(number)).await.unwrap().unwrap().answers, []);
    }
    // One person is not enough for what can change what guards, whatever the code says.
    let error = gate.store.record_call(asked(4, 1, SafetyClass::Privileged)).await.unwrap_err();
    assert!(format!("{error:?}").contains("a privileged call takes two people"), "{error:?}");

    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    gate.store.answer(&approval(3), yes("me")).await.unwrap();
    gate.store.answer(&approval(3), yes("you")).await.unwrap();
    let mut raw = gate.raw().await;
    let mut insert = async |number: u8, by: &str, until: i64| {
        let id = approval(number);
        let sql = format!("INSERT INTO standing VALUES ('{id}', 'type', '{by}', {NOW}, {until})");
        raw.run(&sql).await.unwrap_err()
    };
    assert_eq!(insert(1, "me", UNTIL).await, "such calls are approved one by one");
    assert_eq!(insert(3, "me", UNTIL).await, "it takes the yes of the one person who was asked");
    gate.record(asking(5)).await;
    assert_eq!(insert(5, "me", UNTIL).await, "it takes the yes of the one person who was asked");
    gate.store.answer(&approval(5), yes("me")).await.unwrap();
    assert_eq!(insert(5, "you", UNTIL).await, "it takes the yes of the one person who was asked");
    let too_long = insert(5, "me", NOW + 2_592_000_001).await.to_lowercase();
    assert!(too_long.contains("check constraint"), "{too_long}");
}

#[tokio::test]
async fn revoking_and_using_at_once_never_starts_a_call_after_the_revocation() {
    let gate = with(Scope::Type).await;
    let other = gate.again().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 2..40 {
        let store = if number % 2 == 0 { gate.store.clone() } else { other.clone() };
        let call = again(&gate, number).await;
        calls.spawn(async move { store.record_call(call).await.unwrap() });
    }
    gate.store.revoke(&approval(1), revocation("me")).await.unwrap();
    let size = gate.store.ledger_size().await.unwrap();
    calls.join_all().await;
    let after = gate.store.latest_event(i64::try_from(size).unwrap() - 1).await.unwrap();
    let kinds: Vec<&str> = after.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, Vec::<&str>::new(), "nothing begins after it was taken back");
}

#[tokio::test]
async fn approving_and_revoking_at_once_leaves_nothing_that_was_taken_back() {
    for _ in 0..8 {
        let gate = Gate::open().await;
        gate.record(asking(1)).await;
        let (approving, revoking) = (gate.store.clone(), gate.again().await);
        let approved =
            tokio::spawn(async move { approving.answer(&approval(1), standing(Scope::Type)).await });
        let revoked = tokio::spawn(async move { revoking.revoke(&approval(1), revocation("you")).await });
        let (approved, revoked) = (approved.await.unwrap(), revoked.await.unwrap());
        assert!(approved.is_ok());
        assert_eq!(is_covered(&gate, again(&gate, 2).await).await, Ok(revoked.is_err()));
    }
}

#[tokio::test]
async fn two_operators_at_once_make_one_decision() {
    for vote in [Vote::Approve, Vote::Reject] {
        let gate = Gate::open().await;
        gate.store.add_operator(&operator("third"), Role::Approver, Digest::of(b"3"), NOW).await.unwrap();
        gate.record(asking(1)).await;
        let answers = ["me", "you", "third"].map(|by| {
            let store = gate.store.clone();
            let vote = if by == "you" { Vote::Approve } else { vote };
            let answer = store::Answer { vote, ..yes(by) };
            tokio::spawn(async move { store.answer(&approval(1), answer).await })
        });
        let mut taken = 0;
        for answer in answers {
            match answer.await.unwrap() {
                Ok(_) => taken += 1,
                Err(AnswerError::Decided { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(taken, 1);
        let row = gate.store.approval(&approval(1)).await.unwrap().unwrap();
        assert_eq!(row.answers.len(), 1);
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_reaches_the_next_ones_each_once() {
    let gate = Gate::open().await;
    let mut call = asking(1);
    let Course::Ask(NewApproval { escalation, .. }) = &mut call.course else { panic!("it asks") };
    *escalation = vec![
        NewEscalation { due_at: NOW + 10, to: vec![operator("you")] },
        NewEscalation { due_at: NOW + 20, to: vec![operator("boss"), operator("you")] },
    ];
    gate.record(call).await;
    assert_eq!(gate.store.escalate(NOW + 9).await.unwrap(), 0);
    assert_eq!(gate.store.escalate(NOW + 10).await.unwrap(), 1);
    assert_eq!(gate.store.escalate(NOW + 10).await.unwrap(), 0);
    let told = async || gate.store.approval(&approval(1)).await.unwrap().unwrap().escalated_to;
    assert_eq!(told().await, [operator("you")]);
    assert_eq!(gate.again().await.escalate(NOW + 30).await.unwrap(), 1);
    assert_eq!(told().await, [operator("you"), operator("boss")]);
    let entries = gate.store.latest_event(-1).await.unwrap();
    let steps: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind == "approval.escalated")
        .map(|entry| &entry.body["to"])
        .collect();
    assert_eq!(steps, [&json!(["you"]), &json!(["boss", "you"])]);

    let mut raw = gate.raw().await;
    for sql in ["UPDATE escalations SET reached_at = NULL", "UPDATE escalations SET operators = '[]'"] {
        let error = raw.run(sql).await.unwrap_err();
        assert_eq!(error, "a step is taken once, while the question waits", "{sql}");
    }
    assert_eq!(raw.run("DELETE FROM escalations").await.unwrap_err(), "steps are never removed");
}

#[tokio::test]
async fn a_question_that_was_answered_reaches_nobody_else() {
    let gate = Gate::open().await;
    let mut call = asking(1);
    let Course::Ask(NewApproval { escalation, .. }) = &mut call.course else { panic!("it asks") };
    *escalation = vec![NewEscalation { due_at: NOW + 2000, to: vec![operator("you")] }];
    gate.record(call).await;
    gate.store.answer(&approval(1), no("me")).await.unwrap();
    assert_eq!(gate.store.escalate(LATER).await.unwrap(), 0);
}

#[tokio::test]
async fn what_a_question_is_about_is_never_changed() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    assert_eq!(gate.store.approval(&approval(1)).await.unwrap().unwrap().about, Some(about()));
    let mut raw = gate.raw().await;
    let refused = [
        ("UPDATE questions SET safety = 'read'", "questions are never changed"),
        ("UPDATE questions SET proposer = NULL", "questions are never changed"),
        ("DELETE FROM questions", "questions are never removed"),
        ("INSERT INTO questions SELECT * FROM questions", "questions are never changed"),
    ];
    for (sql, why) in refused {
        assert_eq!(raw.run(sql).await.unwrap_err(), why, "{sql}");
    }
    assert_eq!(gate.store.latest_time().await.unwrap(), Some(NOW + 1));
}
