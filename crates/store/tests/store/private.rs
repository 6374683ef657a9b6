//! What calls keep private, and how it is erased.

use contract::{CallStatus, Digest, Found, GateId, Reconciled, RunFacts, SafetyClass, Scope};
use serde_json::json;
use store::{
    Answer, ApprovalState, CLAIM_KEPT_MS, Course, EraseError, Joined, Keys, KeysError, NewCall, NewStanding,
    OpenError, Reconciliation, Recorded, RevealError, Revocation, Store, verify_receipt,
};

use super::Database;
use crate::gate::{Gate, LATER, NOW, approval, asking, call_id, operator, running, settlement, yes, zeros};

const TEXT: &str = "PRIVATE-f7c1d2";

fn secret(number: u8) -> NewCall {
    let arguments = json!({ "text": TEXT }).to_string();
    NewCall { arguments: Digest::of(arguments.as_bytes()), arguments_json: arguments, ..running(number) }
}

/// A call that ran, with private text in every part of it that is kept.
async fn ended(gate: &Gate, number: u8) -> NewCall {
    let call = secret(number);
    gate.record(call.clone()).await;
    let mut end = settlement(&call, CallStatus::Completed);
    end.result = json!({ "content": TEXT }).to_string();
    end.artifacts = vec![("stdout".to_owned(), TEXT.as_bytes().to_vec())];
    end.raw = Some(json!({ "content": TEXT, "raw": true }));
    end.body.run = Some(RunFacts { output: Some(Digest::of(TEXT.as_bytes())), ..RunFacts::default() });
    gate.store.settle(&end).await.unwrap();
    call
}

/// Everything that the database holds, in every table, as text.
async fn all_of_it(gate: &Gate) -> String {
    let mut raw = gate.raw().await;
    let tables = raw.texts(match crate::DATABASE {
        Database::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table'",
        Database::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
    });
    let mut all = Vec::new();
    for table in tables.await {
        let sql = match crate::DATABASE {
            Database::Postgres => format!("SELECT row_to_json(t)::text FROM {table} t"),
            Database::Sqlite => {
                let columns = format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')");
                let columns = raw.texts(&columns).await.join(" || ' ' || ");
                format!("SELECT {columns} FROM {table}")
            }
        };
        all.extend(raw.texts(&sql).await);
    }
    all.join("\n")
}

/// What must be nowhere: the text, and whatever tells a guess from a miss.
fn telling(call: &NewCall) -> [String; 5] {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [
        TEXT.to_owned(),
        hex(TEXT.as_bytes()),
        call.arguments.to_string(),
        call.request.to_string(),
        Digest::of(TEXT.as_bytes()).to_string(),
    ]
}

async fn check_untold(gate: &Gate, call: &NewCall) {
    let all = all_of_it(gate).await;
    assert!(all.contains(call.id.as_str()), "it is looked at");
    let all = all.to_lowercase();
    for plain in telling(call) {
        assert!(!all.contains(&plain.to_lowercase()), "{plain} in {all}");
    }
}

#[tokio::test]
async fn what_is_kept_reads_back_and_is_nowhere_in_the_clear() {
    let gate = Gate::open().await;
    let call = ended(&gate, 1).await;
    let row = gate.store.call(&call.id).await.unwrap().unwrap();
    assert_eq!(
        (row.request, row.arguments, &row.arguments_json),
        (call.request, call.arguments, &call.arguments_json)
    );
    assert_eq!(gate.store.result(&call.id).await.unwrap(), Some(json!({ "content": TEXT })));
    let artifact = gate.store.artifact(&Digest::of(TEXT.as_bytes())).await.unwrap();
    assert_eq!(artifact.as_deref(), Some(TEXT.as_bytes()));
    check_untold(&gate, &call).await;
}

#[tokio::test]
async fn no_way_that_a_call_can_take_tells_what_was_asked() {
    let gate = Gate::open().await;
    let mut asked = NewCall { course: asking(1).course, ..secret(1) };
    asked.claim = Some(format!("builder/fs.write/same:{}", asked.request));
    gate.record(asked.clone()).await;
    let joined = gate.store.join_call(&asked.id, &format!("key:{TEXT}"), asked.request, NOW + 1).await;
    assert_eq!(joined.unwrap(), Joined::Here);
    let yes = Answer { standing: Some(NewStanding { scope: Scope::Agent, expires_at: LATER }), ..yes("me") };
    gate.store.answer(&approval(1), yes).await.unwrap();
    let authority = json!({ "arguments": asked.arguments });
    assert!(gate.store.start_approved(&asked.id, &approval(1), authority.clone(), NOW + 2000).await.unwrap());
    gate.settle(&asked, CallStatus::Completed).await;
    // Under that yes, which is good for the same arguments and no others.
    let under = Box::new(gate.store.approval(&approval(1)).await.unwrap().unwrap());
    let course = Course::RunUnder { authority: authority.clone(), under };
    let under = NewCall { asked_at: NOW + 3000, course: course.clone(), ..secret(2) };
    gate.record(under.clone()).await;
    let other = NewCall { asked_at: NOW + 3000, course, ..running(3) };
    assert!(gate.store.record_call(other).await.is_err());
    // Planned, begun, and never heard of again, until somebody finds out.
    let lost = NewCall {
        safety: SafetyClass::Write,
        course: Course::Run { authority: authority.clone() },
        ..secret(4)
    };
    gate.record(lost.clone()).await;
    assert!(gate.store.begin_call(&lost.id, authority, NOW).await.unwrap());
    assert_eq!(gate.store.under_way(lost_owner(&gate, &lost).await.as_ref(), 9).await.unwrap().len(), 2);
    gate.settle(&lost, CallStatus::Unknown).await;
    assert_eq!(gate.store.unresolved(9).await.unwrap()[0].arguments_json, lost.arguments_json);
    gate.store.reconcile(found(&lost)).await.unwrap();
    assert_eq!(gate.store.result(&lost.id).await.unwrap(), Some(json!({ "content": TEXT })));
    check_untold(&gate, &asked).await;
    gate.store.verify(None).await.unwrap();
    // What was reconciled has a known end.
    gate.store.erase(&lost.id, &operator("me"), None, LATER).await.unwrap();
    assert_eq!(gate.store.result(&lost.id).await.unwrap(), None);
}

async fn lost_owner(gate: &Gate, call: &NewCall) -> Option<GateId> {
    gate.store.call(&call.id).await.unwrap().unwrap().owner
}

fn found(call: &NewCall) -> Reconciliation {
    let mut body = settlement(call, CallStatus::Completed).body;
    let reconciled = Reconciled { found: Found::Happened, by: operator("me"), reason: None };
    body.reconciled = Some(reconciled);
    Reconciliation { call: call.id.clone(), body, result: json!({ "content": TEXT }), now: NOW + 9000 }
}

#[tokio::test]
async fn an_erased_call_gives_nothing_and_its_ledger_and_receipt_verify() {
    let gate = Gate::open().await;
    let call = ended(&gate, 1).await;
    let kept = ended(&gate, 2).await;
    gate.store.erase(&call.id, &operator("me"), Some("asked to"), NOW + 9).await.unwrap();
    let row = gate.store.call(&call.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.arguments_json.as_str()), (CallStatus::Completed, ""));
    assert_ne!(row.arguments, call.arguments);
    assert_eq!(gate.store.result(&call.id).await.unwrap(), None);
    assert_eq!(gate.store.reveal(&call.id, &operator("me"), NOW + 10).await.unwrap(), None);
    let mut raw = gate.raw().await;
    assert_eq!(raw.number("SELECT count(*) FROM private").await, 4, "those of the other call");
    let envelope = gate.store.receipt(&call.id).await.unwrap().unwrap();
    let body = verify_receipt(&envelope, gate.store.keys().public()).unwrap();
    assert_eq!(body.arguments, row.arguments);
    gate.store.verify(None).await.unwrap();
    let entry = raw.text("SELECT body FROM ledger ORDER BY seq DESC LIMIT 1").await;
    let entry: serde_json::Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(entry, json!({ "call": call.id, "by": "me", "reason": "asked to" }));
    // What the other call left has the same content, and is still there.
    assert!(gate.store.artifact(&Digest::of(TEXT.as_bytes())).await.unwrap().is_some());
    assert_eq!(gate.store.result(&kept.id).await.unwrap(), Some(json!({ "content": TEXT })));
    let again = gate.store.erase(&call.id, &operator("me"), None, NOW + 11).await;
    assert!(matches!(again, Err(EraseError::Erased { .. })), "{again:?}");
}

#[tokio::test]
async fn only_a_call_with_a_known_end_is_erased() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    gate.record(asking(2)).await;
    let unknown = running(3);
    gate.record(unknown.clone()).await;
    gate.settle(&unknown, CallStatus::Unknown).await;
    for number in 1..=3 {
        let erased = gate.store.erase(&call_id(number), &operator("me"), None, NOW).await;
        assert!(matches!(erased, Err(EraseError::NotEnded { .. })), "{number} {erased:?}");
    }
    let none = gate.store.erase(&call_id(9), &operator("me"), None, NOW).await;
    assert!(matches!(none, Err(EraseError::Unknown { .. })));
}

#[tokio::test]
async fn the_same_request_is_found_again_though_nothing_of_it_can_be_read() {
    let gate = Gate::open().await;
    let call = asking(1);
    gate.record(call.clone()).await;
    let find = async |request| {
        gate.store.find_waiting(&call.agent, call.task.as_ref(), &call.tool, request, NOW + 5).await.unwrap()
    };
    assert_eq!(find(call.request).await.unwrap().id, call.id);
    assert_eq!(find(Digest::of(b"another")).await, None);
    let shown = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    assert_eq!((shown.arguments_json, shown.arguments), (Some(call.arguments_json), call.arguments));
    let claimed = NewCall { claim: Some("builder/pay/same:x".into()), ..running(2) };
    gate.record(claimed.clone()).await;
    let again = NewCall { id: call_id(3), ..claimed.clone() };
    let Recorded::Existing(row) = gate.store.record_call(again.clone()).await.unwrap() else { panic!() };
    assert_eq!((row.id, row.request), (claimed.id.clone(), claimed.request));
    // The same call made again must not happen again, for as long as its key is kept.
    gate.settle(&claimed, CallStatus::Completed).await;
    let until = claimed.asked_at + CLAIM_KEPT_MS;
    let early = gate.store.erase(&claimed.id, &operator("me"), None, until - 1).await;
    assert!(matches!(early, Err(EraseError::Claimed { until: told }) if told == until), "{early:?}");
    assert_eq!(gate.store.result(&claimed.id).await.unwrap(), Some(json!({ "content": "done" })));
    gate.store.erase(&claimed.id, &operator("me"), None, until).await.unwrap();
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM claims").await, 0, "the key goes with it");
    let anew = NewCall { asked_at: until, ..again };
    assert!(matches!(gate.store.record_call(anew).await.unwrap(), Recorded::New { .. }));
}

#[tokio::test]
async fn a_call_whose_yes_is_good_for_more_is_erased_once_that_is_taken_back() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    let yes = Answer { standing: Some(NewStanding { scope: Scope::Agent, expires_at: LATER }), ..yes("me") };
    gate.store.answer(&approval(1), yes).await.unwrap();
    let me = operator("me");
    let erase = async |now| gate.store.erase(&call_id(1), &me, None, now).await;
    assert!(matches!(erase(NOW + 1500).await, Err(EraseError::NotEnded { .. })));
    gate.store.start_approved(&call_id(1), &approval(1), json!({}), NOW + 2000).await.unwrap();
    gate.settle(&asking(1), CallStatus::Completed).await;
    let stands = erase(NOW + 3000).await;
    assert!(matches!(&stands, Err(EraseError::Stands { approval: id }) if *id == approval(1)), "{stands:?}");
    let revocation = Revocation { by: me.clone(), reason: None, now: NOW + 4000 };
    gate.store.revoke(&approval(1), revocation).await.unwrap();
    erase(NOW + 5000).await.unwrap();
    let row = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    assert_eq!((row.arguments_json, row.state), (None, ApprovalState::Completed));
}

#[tokio::test]
async fn an_operator_who_reads_a_call_is_in_the_ledger() {
    let gate = Gate::open().await;
    let call = ended(&gate, 1).await;
    let shown = gate.store.reveal(&call.id, &operator("you"), NOW + 5).await.unwrap().unwrap();
    assert_eq!(shown.arguments, Some(call.arguments_json.clone()));
    assert_eq!(shown.raw, Some(json!({ "content": TEXT, "raw": true })));
    let mut raw = gate.raw().await;
    assert_eq!(raw.text("SELECT kind FROM ledger ORDER BY seq DESC LIMIT 1").await, "call.read");
    // With the salt, whoever has the arguments can check the receipt.
    let salt = Digest::parse(&shown.salt).unwrap();
    let mut hasher = blake3::Hasher::new_keyed(salt.as_bytes());
    hasher.update(b"arguments\0").update(call.arguments.as_bytes());
    let envelope = gate.store.receipt(&call.id).await.unwrap().unwrap();
    let body = verify_receipt(&envelope, gate.store.keys().public()).unwrap();
    assert_eq!(body.arguments.to_string(), hasher.finalize().to_hex().as_str());
}

#[tokio::test]
async fn only_those_who_may_look_or_erase() {
    let gate = Gate::open().await;
    let call = ended(&gate, 1).await;
    let before = gate.store.ledger_size().await.unwrap();
    for by in ["you", "guest", "nobody"] {
        let erased = gate.store.erase(&call.id, &operator(by), None, LATER).await;
        assert!(matches!(erased, Err(EraseError::NotAllowed { .. })), "{by}: {erased:?}");
    }
    for by in ["guest", "nobody"] {
        let shown = gate.store.reveal(&call.id, &operator(by), LATER).await;
        assert!(matches!(shown, Err(RevealError::NotAllowed { .. })), "{by}: {shown:?}");
    }
    assert_eq!(gate.store.ledger_size().await.unwrap(), before);
}

#[tokio::test]
async fn a_store_is_not_opened_with_another_wrapping_key() {
    let (gate, other) = (Gate::open().await, Gate::open().await);
    gate.store.close().await;
    let key = |gate: &Gate| gate.home.path().join("wrapping.key");
    std::fs::copy(key(&other), key(&gate)).unwrap();
    let keys = Keys::load_or_create(gate.home.path()).unwrap();
    let error = Store::open(&gate.url, keys).await.unwrap_err();
    assert!(matches!(error, OpenError::OtherWrappingKey { .. }), "{error}");
}

#[tokio::test]
async fn a_wrapping_key_that_is_gone_is_not_replaced_and_good_again_when_put_back() {
    let gate = Gate::open().await;
    gate.store.close().await;
    let (key, aside) = (gate.home.path().join("wrapping.key"), gate.home.path().join("aside"));
    std::fs::rename(&key, &aside).unwrap();
    for _ in 0..2 {
        let keys = Keys::load_or_create(gate.home.path()).unwrap();
        let error = Store::open(&gate.url, keys).await.unwrap_err();
        let gone = matches!(&error, OpenError::Wrapping(KeysError::WrappingGone { path }) if *path == key);
        assert!(gone && !key.exists(), "{error}");
    }
    std::fs::rename(&aside, &key).unwrap();
    Store::open(&gate.url, Keys::load_or_create(gate.home.path()).unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_database_itself_keeps_keys_and_private_text_together() {
    let gate = Gate::open().await;
    ended(&gate, 1).await;
    gate.record(running(2)).await;
    let mut raw = gate.raw().await;
    let (first, second) = (call_id(1), call_id(2));
    let refused = [
        ("UPDATE call_keys SET call = call".to_owned(), "a call keeps its key, or loses it"),
        (
            format!("DELETE FROM call_keys WHERE call = '{second}'"),
            "a call without a known end is not erased",
        ),
        ("DELETE FROM private".to_owned(), "what is private goes after its key"),
        ("UPDATE private SET name = 'x'".to_owned(), "what is private is never changed"),
        (
            format!("INSERT INTO call_keys SELECT * FROM call_keys WHERE call = '{first}'"),
            "a call has one key, from its beginning",
        ),
        ("UPDATE wrapping SET id = id".to_owned(), "a store keeps its wrapping key"),
        ("DELETE FROM wrapping".to_owned(), "a store keeps its wrapping key"),
        ("INSERT INTO wrapping SELECT * FROM wrapping".to_owned(), "a store keeps its wrapping key"),
        ("UPDATE calls SET result = 'x'".to_owned(), "a call stays what was asked, and is settled once"),
        ("INSERT INTO claims VALUES ('key', '', '', 0)".to_owned(), "what is private is sealed"),
        (
            format!("INSERT INTO artifacts VALUES ('{}', {})", "0".repeat(64), zeros(1)),
            "what is private is sealed",
        ),
    ];
    for (sql, why) in refused {
        assert_eq!(raw.run(&sql).await, Err(why.to_owned()), "{sql}");
    }
    raw.run(&format!("DELETE FROM call_keys WHERE call = '{first}'")).await.unwrap();
    let late = format!(
        "INSERT INTO private SELECT call, kind, 'late', sealed, lookup FROM private WHERE call = '{first}' AND kind = 'raw'"
    );
    let why = "what is private is sealed once, under the key of its call";
    assert_eq!(raw.run(&late).await, Err(why.to_owned()));
}

#[tokio::test]
async fn a_row_that_was_moved_to_another_call_does_not_open() {
    let gate = Gate::open().await;
    ended(&gate, 1).await;
    ended(&gate, 2).await;
    let mut raw = gate.raw().await;
    raw.drop_rules().await;
    let (first, second) = (call_id(1), call_id(2));
    raw.run(&format!(
        "UPDATE private SET sealed = (SELECT sealed FROM private WHERE call = '{second}' AND kind = 'result') \
         WHERE call = '{first}' AND kind = 'result'"
    ))
    .await
    .unwrap();
    assert!(gate.store.result(&first).await.is_err());
    assert!(gate.store.result(&second).await.is_ok());
}
