//! What the database itself refuses, whoever asks: every statement here is raw SQL.

use contract::CallStatus;
use serde_json::json;

use crate::gate::{
    Gate, LATER, NOW, approval, asking, asking_for, call_id, insertions, no, operator, refused, removals,
    running, yes, zeros,
};

const CALL_STATES: [&str; 8] =
    ["planned", "waiting", "running", "completed", "failed", "refused", "cancelled", "unknown"];
const APPROVAL_STATES: [&str; 8] =
    ["pending", "approved", "running", "completed", "failed", "rejected", "expired", "cancelled"];

/// One call in each state, by the state's place in [`CALL_STATES`].
async fn a_call_in_each_state() -> Gate {
    let gate = Gate::open().await;
    gate.record(refused(0)).await;
    gate.record(asking(1)).await;
    gate.record(running(2)).await;
    use CallStatus::{Cancelled, Completed, Failed, Refused, Unknown};
    for (number, status) in [(3, Completed), (4, Failed), (6, Cancelled), (7, Unknown)] {
        gate.record(running(number)).await;
        gate.settle(&running(number), status).await;
    }
    gate.record(refused(5)).await;
    gate.settle(&refused(5), Refused).await;
    gate
}

#[tokio::test]
async fn a_call_takes_no_way_that_is_not_drawn() {
    let gate = a_call_in_each_state().await;
    let mut raw = gate.raw().await;
    let drawn = [
        ("planned", "running"),
        ("planned", "refused"),
        ("planned", "failed"),
        ("planned", "cancelled"),
        ("waiting", "running"),
        ("waiting", "refused"),
        ("waiting", "cancelled"),
        ("running", "completed"),
        ("running", "failed"),
        ("running", "cancelled"),
        ("running", "unknown"),
    ];
    // Other rules refuse some of these too; here the state machine is on its own.
    for other in [
        "calls_end_with_a_receipt",
        "calls_run_once_approved",
        "calls_stay_what_was_asked",
        "calls_run_if_so_decided",
        "calls_are_begun_by_the_living",
    ] {
        raw.drop_rule("calls", other).await;
    }
    for (number, from) in (0u8..).zip(CALL_STATES) {
        let id = call_id(number);
        for to in CALL_STATES {
            let found = raw.text(&format!("SELECT status FROM calls WHERE id = '{id}'")).await;
            assert_eq!(found, from);
            let settled = if ["planned", "waiting", "running"].contains(&to) { "NULL" } else { "1" };
            let sql = format!("UPDATE calls SET status = '{to}', settled_at = {settled} WHERE id = '{id}'");
            let done = raw.try_out(&sql).await;
            let expected = match drawn.contains(&(from, to)) {
                true => Ok(()),
                false => Err("a call cannot take this way".to_owned()),
            };
            assert_eq!(done, expected, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn a_call_needs_an_approval_to_stop_waiting_and_a_receipt_to_end() {
    let gate = a_call_in_each_state().await;
    let mut raw = gate.raw().await;
    let mut set = async |number: u8, status: &str, settled: &str| {
        let id = call_id(number);
        let sql = format!(
            "UPDATE calls SET status = '{status}', settled_at = {settled}, \
             owner = coalesce(owner, (SELECT max(id) FROM gates)) WHERE id = '{id}'"
        );
        raw.run(&sql).await.unwrap_err()
    };
    assert_eq!(set(0, "refused", "1").await, "a call ends with a receipt");
    assert_eq!(set(1, "running", "NULL").await, "a call that waits runs only with an approval");
    assert_eq!(set(2, "completed", "1").await, "a call ends with a receipt");
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    assert_eq!(
        set(1, "running", "NULL").await,
        "a call that waits runs only with an approval",
        "not used yet"
    );
}

#[tokio::test]
async fn a_call_begins_where_calls_begin() {
    let gate = Gate::open().await;
    let seq = gate.record(running(1)).await;
    let mut raw = gate.raw().await;
    for state in CALL_STATES {
        let settled = if ["planned", "waiting", "running"].contains(&state) { "NULL" } else { "1" };
        let sql = format!(
            "INSERT INTO calls SELECT '{}', agent, task, tool, contract, request, arguments, arguments_json, policy, \
             purpose, trace, asked_at, {}, '{state}', {settled}, result, \
             CASE WHEN '{state}' = 'waiting' THEN NULL ELSE owner END, decision, safety FROM calls",
            call_id(9),
            seq - 1
        );
        let inserted = raw.try_out(&sql).await;
        let begins = ["planned", "waiting", "running"].contains(&state);
        assert_eq!(inserted.is_ok(), begins, "{state}: {inserted:?}");
    }
}

#[tokio::test]
async fn a_receipt_is_of_an_entry_that_somebody_named() {
    let gate = a_call_in_each_state().await;
    let mut raw = gate.raw().await;
    let of = |seq: &str| {
        format!("INSERT INTO receipts (call, seq, envelope) VALUES ('{}', {seq}, '{{}}')", call_id(2))
    };
    for seq in ["NULL", "-1", "1000"] {
        assert!(raw.try_out(&of(seq)).await.is_err(), "{seq}");
    }
    assert_eq!(raw.try_out(&of("0")).await, Ok(()));
    let taken = raw.text("SELECT CAST(max(seq) AS TEXT) FROM receipts").await;
    assert_eq!(raw.try_out(&of(&taken)).await, Err("receipts are never replaced".to_owned()));
}

/// One approval in each state, by the state's place in [`APPROVAL_STATES`].
async fn an_approval_in_each_state() -> Gate {
    let gate = Gate::open().await;
    for number in 0..8 {
        gate.record(asking(number)).await;
    }
    for number in 1..=4 {
        gate.store.answer(&approval(number), yes("me")).await.unwrap();
    }
    for number in 2..=4 {
        let (call, question) = (call_id(number), approval(number));
        assert!(gate.store.start_approved(&call, &question, json!({}), NOW + 2000).await.unwrap());
    }
    gate.settle(&asking(3), CallStatus::Completed).await;
    gate.settle(&asking(4), CallStatus::Failed).await;
    gate.store.answer(&approval(5), no("me")).await.unwrap();
    gate.store.cancel(&approval(7), NOW).await.unwrap();
    let mut raw = gate.raw().await;
    let id = approval(6);
    raw.run(&format!("UPDATE approvals SET state = 'expired', decided_at = {LATER} WHERE id = '{id}'"))
        .await
        .unwrap();
    gate
}

#[tokio::test]
async fn an_approval_takes_no_way_that_is_not_drawn() {
    let gate = an_approval_in_each_state().await;
    let mut raw = gate.raw().await;
    let drawn = [
        ("pending", "expired"),
        ("pending", "cancelled"),
        ("approved", "running"),
        ("running", "completed"),
        ("running", "failed"),
    ];
    for (number, from) in (0u8..).zip(APPROVAL_STATES) {
        let id = approval(number);
        for to in APPROVAL_STATES {
            let found = raw.text(&format!("SELECT state FROM approvals WHERE id = '{id}'")).await;
            assert_eq!(found, from);
            let sql = format!("UPDATE approvals SET state = '{to}' WHERE id = '{id}'");
            let done = raw.try_out(&sql).await;
            let expected = match (from, to) {
                ("pending", "approved") => Err("too few people have approved".to_owned()),
                ("pending", "rejected") => Err("nobody has rejected it".to_owned()),
                way if drawn.contains(&way) => Ok(()),
                _ => Err("an approval cannot take this way".to_owned()),
            };
            assert_eq!(done, expected, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn an_approval_begins_as_a_question_of_a_call_that_waits() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.record(running(2)).await;
    let mut raw = gate.raw().await;
    for state in APPROVAL_STATES {
        let sql = format!(
            "INSERT INTO approvals (id, call, why, quorum, state, asked_at, expires_at) \
             VALUES ('x', '{}', '[]', 1, '{state}', 1, 2)",
            call_id(2)
        );
        assert!(raw.run(&sql).await.is_err(), "{state}");
    }
    for (approval_id, call) in [(approval(1).to_string(), call_id(1)), ("y".into(), call_id(1))] {
        for (verb, end) in insertions() {
            let sql = format!(
                "{verb} INTO approvals (id, call, why, quorum, state, asked_at, expires_at) \
                 VALUES ('{approval_id}', '{call}', '[]', 1, 'pending', 1, 2){end}"
            );
            assert_eq!(raw.run(&sql).await.unwrap_err(), "approvals are never replaced");
        }
    }
}

#[tokio::test]
async fn an_answer_comes_from_one_who_may_in_time_and_once() {
    let gate = Gate::open().await;
    gate.record(asking_for(1, 2)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    let mut raw = gate.raw().await;
    let mut answer = async |(verb, end): (&str, &str), by: &str, at: i64| {
        let id = approval(1);
        let sql = format!(
            "{verb} INTO answers (approval, operator, verdict, via, answered_at) \
             VALUES ('{id}', '{by}', 'approve', 'sql', {at}){end}"
        );
        raw.run(&sql).await
    };
    for &verb in insertions() {
        assert_eq!(answer(verb, "me", NOW).await.unwrap_err(), "one person answers once");
        assert_eq!(answer(verb, "guest", NOW).await.unwrap_err(), "only an approver or an admin answers");
        assert_eq!(answer(verb, "nobody", NOW).await.unwrap_err(), "only an approver or an admin answers");
        assert_eq!(answer(verb, "you", LATER).await.unwrap_err(), "only what is pending can be answered");
    }
    gate.store.answer(&approval(1), no("you")).await.unwrap();
    gate.store
        .add_operator(&operator("third"), store::Role::Admin, contract::Digest::of(b"3"), NOW)
        .await
        .unwrap();
    assert_eq!(
        answer(("INSERT", ""), "third", NOW).await.unwrap_err(),
        "only what is pending can be answered"
    );
    assert!(raw.run("UPDATE answers SET verdict = 'approve'").await.is_err());
    assert!(raw.run("DELETE FROM answers").await.is_err());
}

#[tokio::test]
async fn what_was_asked_stays_what_was_asked() {
    let gate = Gate::open().await;
    gate.record(asking(1)).await;
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    let mut raw = gate.raw().await;
    for column in [
        "id",
        "agent",
        "tool",
        "contract",
        "request",
        "arguments",
        "arguments_json",
        "policy",
        "trace",
        "purpose",
    ] {
        // One that keeps the length, where a check would refuse another; one that changes what is empty.
        for other in [format!("replace({column}, substr({column}, 1, 1), 'x')"), format!("{column} || 'x'")] {
            let refused = raw.run(&format!("UPDATE calls SET {column} = {other}")).await.is_err();
            assert!(
                refused || (column == "arguments_json" && other.starts_with("replace")),
                "{column} {other}"
            );
        }
    }
    assert!(raw.run("UPDATE calls SET task = NULL").await.is_err());
    assert!(raw.run("UPDATE calls SET asked_at = 1").await.is_err());
    for change in [
        "id = 'x'",
        "call = 'x'",
        "why = '[]'",
        "quorum = 3",
        "asked_at = 1",
        "expires_at = 9",
        "decided_at = 9",
        "usable_until = 9999999999999",
        "reason = 'x'",
    ] {
        assert!(raw.run(&format!("UPDATE approvals SET {change}")).await.is_err(), "{change}");
    }
    gate.store.start_approved(&call_id(1), &approval(1), json!({}), NOW + 2000).await.unwrap();
    gate.settle(&asking(1), CallStatus::Completed).await;
    assert!(raw.run("UPDATE calls SET result = '{}'").await.is_err(), "what it gave");
    assert!(raw.run("UPDATE calls SET settled_at = 1").await.is_err(), "when it ended");
}

#[tokio::test]
async fn what_only_grows_is_neither_changed_nor_removed_nor_replaced() {
    let gate = an_approval_in_each_state().await;
    gate.record(crate::gate::running(20)).await;
    gate.store.checkpoint(NOW).await.unwrap();
    let mut raw = gate.raw().await;
    for table in ["ledger", "receipts", "checkpoints", "gate", "head"] {
        let column = match table {
            "ledger" => "kind = 'x'",
            "receipts" => "envelope = '{}'",
            "checkpoints" | "head" => "note = ''",
            _ => "public_key = ''",
        };
        assert!(raw.run(&format!("UPDATE {table} SET {column}")).await.is_err(), "{table}");
    }
    for table in ["ledger", "receipts", "checkpoints", "gate", "head", "calls", "approvals", "answers"] {
        let before = raw.number(&format!("SELECT count(*) FROM {table}")).await;
        assert!(before > 0, "{table}");
        for removal in removals(table) {
            assert!(raw.run(&removal).await.is_err(), "{removal}");
        }
        for (verb, end) in insertions() {
            let sql = format!("{verb} INTO {table} SELECT * FROM {table}{end}");
            assert!(raw.run(&sql).await.is_err(), "{table}: {verb}");
        }
        assert_eq!(raw.number(&format!("SELECT count(*) FROM {table}")).await, before, "{table}");
    }
    gate.store.verify(None).await.unwrap();
}

#[tokio::test]
async fn the_ledger_has_no_gaps_and_no_other_kinds_of_values() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let mut raw = gate.raw().await;
    let next = raw.number("SELECT max(seq) + 1 FROM ledger").await;
    let sql = |seq: i64, hashes: usize| {
        format!(
            "INSERT INTO ledger (seq, time, kind, body, prev, hashes) \
             VALUES ({seq}, 1, 'x', '{{}}', {}, {})",
            zeros(32),
            zeros(hashes)
        )
    };
    for seq in [-1, 0, next - 1, next + 1] {
        assert!(raw.run(&sql(seq, 32)).await.is_err(), "{seq}");
    }
    assert!(raw.run(&sql(next, 33)).await.is_err());
    assert!(raw.run(&sql(next, 32).replace("1, 'x'", "'now', 'x'")).await.is_err());
    assert!(raw.try_out(&sql(next, 32)).await.is_ok(), "the control");
}

#[tokio::test]
async fn a_claim_is_taken_once_and_kept_while_its_call_is_open() {
    let gate = Gate::open().await;
    let claiming = |number| store::NewCall { claim: Some("key".into()), ..running(number) };
    gate.record(claiming(1)).await;
    gate.record(running(2)).await;
    let mut raw = gate.raw().await;
    for (verb, end) in insertions() {
        let taken = raw.text("SELECT claim FROM claims").await;
        let sql = format!("{verb} INTO claims VALUES ('{taken}', '{}', '', 0){end}", call_id(2));
        assert_eq!(raw.run(&sql).await.unwrap_err(), "the claim is taken");
    }
    assert!(raw.run("DELETE FROM claims").await.is_err());
    assert!(raw.run("UPDATE claims SET claim = 'other'").await.is_err());
    gate.settle(&running(1), CallStatus::Completed).await;
    assert!(raw.run("DELETE FROM claims").await.is_ok(), "the control");
}
