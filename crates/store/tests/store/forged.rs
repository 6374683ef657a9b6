//! Rows that somebody writes past the gate, with every rule of the database taken away. They have no key, so the signed
//! ledger does not tell of them: nothing runs by them, and `verify` names them.

use contract::{AgentName, CallStatus, Digest, SafetyClass, Scope, TaskName, ToolName};
use serde_json::json;
use store::{
    Answer, AnswerError, ApprovalRow, Basis, By, CallRow, Course, Fault, NewCall, NewStanding, RecordError,
    Recorded, Revocation, Role, Store, StoreError, VerifyError,
};

use crate::gate::{Gate, LATER, NOW, Raw, approval, asking, asking_for, call_id, no, operator, running, yes};

async fn without_rules(gate: &Gate) -> Raw {
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    raw
}

async fn start(store: &Store, number: u8) -> Result<bool, StoreError> {
    store.start_approved(&call_id(number), &approval(number), json!({}), NOW + 2000).await
}

/// Why nothing runs by an approval, in this process and in one that knows nothing yet.
async fn why_not(gate: &Gate, number: u8) -> &'static str {
    let mut found = None;
    for store in [gate.store.clone(), gate.again().await] {
        let size = store.ledger_size().await.unwrap();
        match start(&store, number).await {
            Err(StoreError::Unproved { what, .. }) => {
                assert!(found.is_none_or(|before| before == what));
                found = Some(what);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.ledger_size().await.unwrap(), size);
    }
    found.unwrap()
}

async fn fault(gate: &Gate) -> String {
    match gate.store.verify(None).await {
        Err(VerifyError::Broken(broken)) => broken.fault.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_entry_that_is_overwritten_for_a_moment_tells_nothing() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let (mut raw, id, call) = (without_rules(&gate).await, approval(1), call_id(1));
    let answer = json!({ "approval": id, "by": "me", "verdict": "approve", "call": call, "state": "approved",
        "via": "cli", "reason": null, "scope": "once", "until": null, "after": null });
    for sql in [
        format!("UPDATE ledger SET kind = 'approval.answered', body = '{answer}' WHERE seq = 2"),
        format!(
            "INSERT INTO answers (approval, operator, verdict, via, answered_at) \
             VALUES ('{id}', 'me', 'approve', 'cli', {NOW})"
        ),
        format!("INSERT INTO answer_entries (seq, approval, operator) VALUES (2, '{id}', 'me')"),
        format!("UPDATE approvals SET state = 'approved', decided_at = {NOW}, usable_until = {LATER}"),
    ] {
        raw.run(&sql).await.unwrap();
    }
    // In a process that knows nothing yet not even the operators can be proved.
    let known = start(&gate.store, 1).await;
    assert!(matches!(known, Err(StoreError::Unproved { .. })), "{known:?}");
    let fresh = start(&gate.again().await, 1).await;
    assert!(matches!(fresh, Err(StoreError::Unproved { .. } | StoreError::Unsigned)), "{fresh:?}");
    assert_eq!(gate.store.call(&call).await.unwrap().unwrap().status, CallStatus::Waiting);
}

#[tokio::test]
async fn a_yes_does_not_go_over_to_another_call() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    gate.record(asking(2)).await;
    let mut raw = without_rules(&gate).await;
    let (one, two) = (approval(1), approval(2));
    for (id, call) in [(&one, "x".repeat(32)), (&two, call_id(1).to_string()), (&one, call_id(2).to_string())]
    {
        raw.run(&format!("UPDATE approvals SET call = '{call}' WHERE id = '{id}'")).await.unwrap();
    }
    let started = gate.store.start_approved(&call_id(2), &one, json!({}), NOW + 2000).await;
    assert!(
        matches!(started, Err(StoreError::Unproved { what: "the question is another", .. })),
        "{started:?}"
    );
    assert_eq!(
        fault(&gate).await,
        format!("the store says something else of approval {one} than the ledger")
    );
}

/// Starts call 1 with rows as somebody has read them who was shown others for a moment.
async fn start_with(
    gate: &Gate,
    change: impl Fn(&mut CallRow, &mut ApprovalRow),
) -> Result<bool, StoreError> {
    let mut call = gate.store.call(&call_id(1)).await.unwrap().unwrap();
    let mut given = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    change(&mut call, &mut given);
    let basis = Basis { call: &call, approval: &given, operands: None };
    gate.store.start_approved_within(basis, json!({}), NOW + 2000, &[]).await
}

#[tokio::test]
async fn rows_that_were_others_when_they_were_read_start_nothing_although_they_were_put_back() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    type Change = (&'static str, fn(&mut CallRow, &mut ApprovalRow));
    let changes: [Change; 12] = [
        ("agent", |call, given| {
            call.agent = AgentName::parse("other").unwrap();
            given.agent = call.agent.clone();
        }),
        ("task", |call, given| {
            call.task = Some(TaskName::parse("other").unwrap());
            given.task = call.task.clone();
        }),
        ("tool", |call, given| {
            call.tool = ToolName::parse("shell").unwrap();
            given.tool = call.tool.clone();
        }),
        ("contract", |call, given| (call.contract, given.contract) = (Digest::of(b"x"), Digest::of(b"x"))),
        ("request", |call, given| (call.request, given.request) = (Digest::of(b"x"), Digest::of(b"x"))),
        ("arguments", |call, given| (call.arguments, given.arguments) = (Digest::of(b"x"), Digest::of(b"x"))),
        ("policy", |call, given| (call.policy, given.policy) = (Digest::of(b"x"), Digest::of(b"x"))),
        ("purpose", |call, given| (call.purpose, given.purpose) = (None, None)),
        ("safety", |call, _| call.safety = SafetyClass::Financial),
        ("proposer", |_, given| given.about.as_mut().unwrap().proposer = Some(operator("you"))),
        ("approvers", |_, given| given.approvers.push(operator("you"))),
        ("quorum", |_, given| given.quorum = 0),
    ];
    for (what, change) in changes {
        let started = start_with(&gate, change).await;
        assert!(matches!(started, Err(StoreError::Unproved { .. })), "{what}: {started:?}");
    }
    assert!(start_with(&gate, |_, _| {}).await.unwrap(), "the control");
}

#[tokio::test]
async fn a_call_gets_the_files_that_people_were_shown_or_does_not_run() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    let call = gate.store.call(&call_id(1)).await.unwrap().unwrap();
    let given = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    let operands = Some(Digest::of(b"other files"));
    let basis = Basis { call: &call, approval: &given, operands };
    let started = gate.store.start_approved_within(basis, json!({}), NOW + 2000, &[]).await;
    assert!(matches!(started, Err(StoreError::Unproved { what: "the files are others", .. })), "{started:?}");
    let basis = Basis { operands: None, ..basis };
    assert!(
        gate.store.start_approved_within(basis, json!({}), NOW + 2000, &[]).await.unwrap(),
        "the control"
    );
}

#[tokio::test]
async fn fewer_people_than_were_asked_for_are_not_enough_whatever_the_row_says() {
    let gate = Gate::open().await;
    gate.record(asking_for(1, 2)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    let mut raw = without_rules(&gate).await;
    let given = format!("state = 'approved', decided_at = {NOW}, usable_until = {LATER}");
    raw.run(&format!("UPDATE approvals SET quorum = 1, {given}")).await.unwrap();
    assert_eq!(why_not(&gate, 1).await, "the question is another");
    raw.run("UPDATE approvals SET quorum = 2").await.unwrap();
    // Nor does one person become two.
    raw.run("DELETE FROM answers").await.unwrap();
    raw.run("DELETE FROM answer_entries").await.unwrap();
    raw.run("UPDATE approvals SET state = 'pending', decided_at = NULL, usable_until = NULL").await.unwrap();
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    raw.run(&format!("UPDATE approvals SET {given}")).await.unwrap();
    raw.run(&format!(
        "INSERT INTO answers (approval, operator, verdict, via, answered_at) \
         VALUES ('{}', 'you', 'approve', 'cli', {NOW})",
        approval(1)
    ))
    .await
    .unwrap();
    assert_eq!(why_not(&gate, 1).await, "no signed entry tells of the answers");
}

#[tokio::test]
async fn a_no_stays_a_no_when_its_rows_are_gone() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.store.answer(&approval(1), no("me")).await.unwrap();
    let mut raw = without_rules(&gate).await;
    raw.run("DELETE FROM answers").await.unwrap();
    raw.run("UPDATE approvals SET state = 'pending', decided_at = NULL").await.unwrap();
    gate.store.answer(&approval(1), yes("you")).await.unwrap();
    assert_eq!(why_not(&gate, 1).await, "the yes was taken back");
}

#[tokio::test]
async fn a_yes_that_was_taken_back_stays_so_when_the_row_is_gone() {
    let gate = Gate::open().await;
    let far = NewStanding { scope: Scope::Agent, expires_at: NOW + 3_600_000 };
    gate.record(asking(1)).await;
    gate.store.answer(&approval(1), Answer { standing: Some(far), ..yes("me") }).await.unwrap();
    let under = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    let again = |number| {
        let first = running(1);
        let course = Course::RunUnder { authority: json!({}), under: Box::new(under.clone()) };
        NewCall {
            arguments: first.arguments,
            arguments_json: first.arguments_json,
            course,
            ..running(number)
        }
    };
    let control = gate.store.record_call(again(2)).await.unwrap();
    assert!(matches!(control, Recorded::New { .. }), "{control:?}");

    let revocation = Revocation { by: operator("you"), reason: None, now: NOW + 1500 };
    gate.store.revoke(&approval(1), revocation).await.unwrap();
    let mut raw = without_rules(&gate).await;
    raw.run("DELETE FROM revocations").await.unwrap();
    assert_eq!(why_not(&gate, 1).await, "the yes was taken back");
    for store in [gate.store.clone(), gate.again().await] {
        let recorded = store.record_call(again(3)).await;
        assert!(matches!(recorded, Err(RecordError::Store(StoreError::Unproved { .. }))), "{recorded:?}");
    }
    let id = approval(1);
    assert_eq!(fault(&gate).await, format!("the store says something else of approval {id} than the ledger"));
}

#[tokio::test]
async fn a_yes_that_ended_with_its_policy_stays_so_when_the_row_is_gone() {
    let gate = Gate::open().await;
    let far = NewStanding { scope: Scope::Agent, expires_at: NOW + 3_600_000 };
    gate.record(asking(1)).await;
    gate.store.answer(&approval(1), Answer { standing: Some(far), ..yes("me") }).await.unwrap();
    let under = Box::new(gate.store.approval(&approval(1)).await.unwrap().unwrap());
    let place = Digest::of(b"/work");
    gate.store.end_standing_of_others(place, Digest::of(b"other policy"), NOW + 1500).await.unwrap();
    without_rules(&gate).await.run("DELETE FROM standing_ends").await.unwrap();
    let first = running(1);
    let course = Course::RunUnder { authority: json!({}), under };
    let again =
        NewCall { arguments: first.arguments, arguments_json: first.arguments_json, course, ..running(2) };
    let recorded = gate.store.record_call(again).await;
    assert!(matches!(recorded, Err(RecordError::Store(StoreError::Unproved { .. }))), "{recorded:?}");
    let id = approval(1);
    assert_eq!(fault(&gate).await, format!("the store says something else of approval {id} than the ledger"));
}

#[tokio::test]
async fn a_yes_reaches_as_far_as_was_said() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    let mut raw = without_rules(&gate).await;
    let until = NOW + 3_600_000;
    raw.run(&format!(
        "INSERT INTO standing (approval, scope, granted_by, granted_at, expires_at) \
         VALUES ('{}', 'type', 'me', {NOW}, {until})",
        approval(1)
    ))
    .await
    .unwrap();
    let under = Box::new(gate.store.approval(&approval(1)).await.unwrap().unwrap());
    let call = NewCall { course: Course::RunUnder { authority: json!({}), under }, ..running(2) };
    let recorded = gate.store.record_call(call).await;
    assert!(matches!(recorded, Err(RecordError::Store(StoreError::Unproved { .. }))), "{recorded:?}");
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_yes_is_used_once_also_if_its_rows_are_set_back() {
    let gate = Gate::open().await;
    let call = gate.approved(1).await;
    assert!(start(&gate.store, 1).await.unwrap());
    gate.settle(&call, CallStatus::Completed).await;
    let mut raw = without_rules(&gate).await;
    raw.run("DELETE FROM receipts").await.unwrap();
    raw.run("UPDATE approvals SET state = 'approved'").await.unwrap();
    raw.run("UPDATE calls SET status = 'waiting', settled_at = NULL, owner = NULL").await.unwrap();
    assert_eq!(why_not(&gate, 1).await, "the yes was used before");
}

#[tokio::test]
async fn a_yes_is_good_for_an_hour_whatever_the_row_says() {
    let gate = Gate::open().await;
    gate.approved(1).await;
    let mut raw = without_rules(&gate).await;
    let far = NOW + 1_000_000_000;
    raw.run(&format!("UPDATE approvals SET usable_until = {far}")).await.unwrap();
    let late = gate.store.start_approved(&call_id(1), &approval(1), json!({}), far - 1).await;
    assert!(matches!(late, Err(StoreError::Unproved { what: "the yes is too old", .. })), "{late:?}");
}

#[tokio::test]
async fn a_row_makes_nobody_an_operator() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let (mut raw, eve) = (gate.raw().await, Digest::of(b"eve"));
    raw.run(&format!(
        "INSERT INTO operators (name, role, credential, added_at) VALUES ('eve', 'admin', '{eve}', 1)"
    ))
    .await
    .unwrap();
    for store in [gate.store.clone(), gate.again().await] {
        assert_eq!(store.operator_by_credential(&eve).await.unwrap(), None);
        assert_eq!(store.operators().await.unwrap().len(), 3);
        let answered = store.answer(&approval(1), yes("eve")).await;
        assert!(matches!(answered, Err(AnswerError::NotAllowed { .. })), "{answered:?}");
        let by = operator("eve");
        let added =
            store.appoint(&operator("mallory"), Role::Admin, Digest::of(b"m"), By::Operator(&by), NOW).await;
        assert!(added.is_err());
    }
    assert_eq!(fault(&gate).await, "operator `eve` is not one of whom the ledger tells, or not so");
}

#[tokio::test]
async fn role_credential_and_leaving_are_as_was_told() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.store.remove_operator(&operator("you"), By::Owner, NOW + 1).await.unwrap();
    let mut raw = without_rules(&gate).await;
    let other = Digest::of(b"other");
    for (sql, name) in [
        ("UPDATE operators SET role = 'admin' WHERE name = 'guest'".to_owned(), "guest"),
        ("UPDATE operators SET revoked_at = NULL WHERE name = 'you'".to_owned(), "you"),
        (format!("UPDATE operators SET credential = '{other}' WHERE name = 'me'"), "me"),
    ] {
        raw.run("BEGIN").await.unwrap();
        raw.run(&sql).await.unwrap();
        raw.run("COMMIT").await.unwrap();
        if name != "me" {
            let answered = gate.store.answer(&approval(1), yes(name)).await;
            assert!(matches!(answered, Err(AnswerError::NotAllowed { .. })), "{name}: {answered:?}");
        }
        assert!(fault(&gate).await.starts_with("operator `"), "{name}");
    }
    assert_eq!(gate.store.operator_by_credential(&other).await.unwrap(), None);
    assert_eq!(gate.store.operator_by_credential(&Digest::of(b"you")).await.unwrap(), None);
    let me = gate.store.operator_by_credential(&Digest::of(b"me")).await.unwrap().unwrap();
    assert_eq!((me.name, me.role), (operator("me"), Role::Admin));
}

#[tokio::test]
async fn an_operator_whose_row_is_gone_is_named() {
    let gate = Gate::open().await;
    without_rules(&gate).await.run("DELETE FROM operators WHERE name = 'you'").await.unwrap();
    assert_eq!(fault(&gate).await, "the store says something else of operator `you` than the ledger");
    let again = gate.store.add_operator(&operator("you"), Role::Admin, Digest::of(b"x"), NOW).await;
    assert!(again.is_err(), "the name was given");
}

#[tokio::test]
async fn rows_of_calls_and_questions_that_say_something_else_are_named() {
    let (call, id) = (call_id(1), approval(1));
    let of_call = format!("the store says something else of call {call} than the ledger");
    let of_approval = format!("the store says something else of approval {id} than the ledger");
    let other = Digest::of(b"other");
    for (sql, named) in [
        (format!("UPDATE calls SET arguments = '{other}'"), &of_call),
        (format!("UPDATE calls SET request = '{other}'"), &of_call),
        (format!("UPDATE calls SET policy = '{other}'"), &of_call),
        ("UPDATE calls SET agent = 'other'".to_owned(), &of_call),
        ("UPDATE calls SET task = NULL".to_owned(), &of_call),
        ("UPDATE calls SET safety = 'financial'".to_owned(), &of_call),
        ("UPDATE approvals SET quorum = 2".to_owned(), &of_approval),
        (format!("UPDATE approvals SET expires_at = {}", LATER + 1), &of_approval),
    ] {
        let gate = Gate::open().await;
        gate.approved(1).await;
        gate.store.verify(None).await.unwrap();
        without_rules(&gate).await.run(&sql).await.unwrap();
        assert_eq!(fault(&gate).await, *named, "{sql}");
    }
}

#[tokio::test]
async fn a_ledger_that_has_become_shorter_is_not_built_on_by_whoever_has_seen_it_longer() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let mut raw = without_rules(&gate).await;
    let size = gate.store.ledger_size().await.unwrap();
    let head = raw.text("SELECT note FROM head").await;
    gate.record(running(2)).await;
    raw.run(&format!("DELETE FROM ledger WHERE seq >= {size}")).await.unwrap();
    raw.run("DELETE FROM calls WHERE id <> 'x'").await.unwrap();
    raw.run(&format!("UPDATE head SET size = {size}, note = '{head}'")).await.unwrap();
    let error = gate.store.record_call(running(3)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::RolledBack)), "{error}");
    let error = gate.store.operators().await.unwrap_err();
    assert!(matches!(error, StoreError::RolledBack), "{error}");
    // Who comes later cannot know, without a checkpoint that was kept elsewhere.
    gate.again().await.record_call(running(3)).await.unwrap();
}

#[tokio::test]
async fn a_receipt_that_names_an_answer_of_which_nobody_heard_is_found_in_the_ledger_itself() {
    let gate = Gate::open().await;
    let call = gate.approved(1).await;
    assert!(start(&gate.store, 1).await.unwrap());
    // As a gate would sign it that believes its tables.
    let mut end = crate::gate::settlement(&call, CallStatus::Completed);
    let by = vec![contract::Approver { name: operator("you"), at: NOW, via: "cli".into() }];
    end.body.approval = Some(contract::Approved { id: approval(1), scope: Scope::Once, by });
    gate.store.settle(&end).await.unwrap();
    let id = approval(1);
    match gate.store.verify(None).await {
        Err(VerifyError::Broken(broken)) => {
            assert!(broken.seq.is_some());
            assert!(matches!(broken.fault, Fault::Unproved { approval } if approval == id.to_string()));
        }
        other => panic!("{other:?}"),
    }
}
