//! How often agents call.

use contract::{AgentName, CallStatus, Digest, Rate, ToolName};
use serde_json::json;
use store::{Allowance, Basis, NewCall, Recorded, Store, UsedUp};
use tokio::task::JoinSet;

use crate::gate::{self, Gate, NOW, approval, call_id, yes};

const MINUTE: i64 = 60_000;

fn each_minute(max_calls: u64) -> Allowance {
    Allowance { tools: None, rate: Rate { max_calls, window_ms: 60_000 } }
}

fn of(tools: &[&str], max_calls: u64) -> Allowance {
    Allowance { tools: Some(tools.iter().map(|name| tool(name)).collect()), ..each_minute(max_calls) }
}

fn tool(name: &str) -> ToolName {
    ToolName::parse(name).unwrap()
}

fn running(number: u8) -> NewCall {
    NewCall { tool: tool("shell"), ..at(gate::running(number), NOW) }
}

fn refused(number: u8) -> NewCall {
    NewCall { tool: tool("shell"), ..at(gate::refused(number), NOW) }
}

fn asking(number: u8) -> NewCall {
    NewCall { tool: tool("shell"), ..at(gate::asking(number), NOW) }
}

fn at(call: NewCall, now: i64) -> NewCall {
    NewCall { asked_at: now, ..call }
}

async fn take(store: &Store, call: NewCall, allowances: &[Allowance]) -> Option<UsedUp> {
    match store.record_within(call, allowances).await.unwrap() {
        Recorded::New { .. } => None,
        Recorded::UsedUp(used_up) => Some(used_up),
        other => panic!("{other:?}"),
    }
}

fn wait(which: usize, wait_ms: u64) -> Option<UsedUp> {
    Some(UsedUp { which, wait_ms })
}

#[tokio::test]
async fn any_stretch_of_the_window_has_so_many_calls_at_most() {
    let gate = Gate::open().await;
    let limit = [each_minute(3)];
    for (number, seconds) in [(1, 0), (2, 20), (3, 40)] {
        assert_eq!(take(&gate.store, at(running(number), NOW + seconds * 1000), &limit).await, None);
    }
    assert_eq!(take(&gate.store, at(running(4), NOW + 59_999), &limit).await, wait(0, 1));
    assert!(gate.store.call(&call_id(4)).await.unwrap().is_none(), "nothing is recorded");
    // The first has left; the second and third have not.
    assert_eq!(take(&gate.store, at(running(5), NOW + MINUTE), &limit).await, None);
    assert_eq!(take(&gate.store, at(running(6), NOW + MINUTE), &limit).await, wait(0, 20_000));
}

#[tokio::test]
async fn sixty_four_at_once_stay_within_the_limit_through_two_gates() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    let mut tasks = JoinSet::new();
    for number in 1..=64 {
        let store = if number % 2 == 0 { gate.store.clone() } else { other.clone() };
        tasks.spawn(async move { take(&store, running(number), &[each_minute(10)]).await });
    }
    let taken = tasks.join_all().await.into_iter().filter(Option::is_none).count();
    assert_eq!(taken, 10);
    assert_eq!(gate.store.calls(99, None).await.unwrap().len(), 10);
}

#[tokio::test]
async fn each_agent_has_its_own_limit_and_tools_of_a_group_share_one() {
    let gate = Gate::open().await;
    let limits = [of(&["fs.read", "fs.list"], 2), each_minute(100)];
    let call = |number, name, name_of_agent| NewCall {
        tool: tool(name),
        agent: AgentName::parse(name_of_agent).unwrap(),
        ..running(number)
    };
    assert_eq!(take(&gate.store, call(1, "fs.read", "a"), &limits).await, None);
    assert_eq!(take(&gate.store, call(2, "fs.list", "a"), &limits).await, None);
    assert_eq!(take(&gate.store, call(3, "fs.list", "a"), &limits).await, wait(0, 60_000));
    assert_eq!(take(&gate.store, call(4, "fs.list", "b"), &limits).await, None);
    assert_eq!(take(&gate.store, call(5, "shell", "a"), &[of(&["shell"], 1)]).await, None);
    // No tool at all was never called.
    assert_eq!(take(&gate.store, call(6, "shell", "a"), &[of(&[], 1)]).await, None);
}

#[tokio::test]
async fn the_limit_that_keeps_one_waiting_longest_is_named() {
    let gate = Gate::open().await;
    let hour = Allowance { rate: Rate { max_calls: 2, window_ms: 3_600_000 }, tools: None };
    let limits = [each_minute(2), hour, of(&["shell"], 2)];
    for number in 1..=2 {
        take(&gate.store, running(number), &limits).await;
    }
    assert_eq!(take(&gate.store, running(3), &limits).await, wait(1, 3_600_000));
}

#[tokio::test]
async fn what_is_refused_uses_up_nothing_of_what_runs() {
    let gate = Gate::open().await;
    for number in 1..=20 {
        assert_eq!(take(&gate.store, refused(number), &[each_minute(100)]).await, None);
    }
    assert_eq!(take(&gate.store, running(21), &[each_minute(1)]).await, None);
}

#[tokio::test]
async fn a_flood_of_refused_calls_is_counted_and_the_ledger_says_how_many() {
    let gate = Gate::open().await;
    let limit = [each_minute(2)];
    for number in 1..=2 {
        assert_eq!(take(&gate.store, refused(number), &limit).await, None);
    }
    let before = gate.store.verify(None).await.unwrap().entries;
    for number in 3..=12 {
        assert_eq!(take(&gate.store, refused(number), &limit).await, wait(0, 60_000));
    }
    let mut raw = gate.raw().await;
    // One entry that it began; ten calls that are in none.
    assert_eq!(gate.store.verify(None).await.unwrap().entries, before + 1);
    assert_eq!(raw.text("SELECT kind FROM ledger ORDER BY seq DESC LIMIT 1").await, "agent.flooding");
    assert_eq!(take(&gate.store, at(refused(13), NOW + MINUTE), &limit).await, None);
    let body = raw.text("SELECT body FROM ledger WHERE kind = 'agent.flood_over'").await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    // Whoever has what was asked can show that it was this.
    let digest = (3..=12).map(refused).fold(String::new(), |before, call| {
        Digest::of(format!("{before}\n{}\n{}", call.id, call.request).as_bytes()).to_string()
    });
    assert_eq!(body, json!({ "agent": "builder", "since": NOW, "calls_not_recorded": 10, "digest": digest }));
    // And a legitimate call was never in its way.
    assert_eq!(take(&gate.store, running(14), &limit).await, None);
}

#[tokio::test]
async fn a_call_that_waits_for_people_counts_when_it_starts_and_waits_for_its_turn() {
    let gate = Gate::open().await;
    let limit = [each_minute(1)];
    assert_eq!(take(&gate.store, asking(1), &limit).await, None);
    assert_eq!(take(&gate.store, running(2), &limit).await, None, "asking has used up nothing");
    gate.store.answer(&approval(1), yes("me")).await.unwrap();
    let row = gate.store.call(&call_id(1)).await.unwrap().unwrap();
    let given = gate.store.approval(&approval(1)).await.unwrap().unwrap();
    let basis = Basis { call: &row, approval: &given, operands: None };
    let start = async |now| gate.store.start_approved_within(basis, json!({}), now, &limit).await.unwrap();
    assert!(!start(NOW + 2000).await, "another has the minute");
    assert!(start(NOW + MINUTE).await, "the approval was not used up by waiting");
    assert_eq!(take(&gate.store, at(running(3), NOW + MINUTE), &limit).await, wait(0, 60_000));
}

#[tokio::test]
async fn a_look_says_what_counting_would_and_counts_nothing() {
    let gate = Gate::open().await;
    let limit = [each_minute(2), of(&["shell"], 1)];
    let (agent, shell, other) = (running(1).agent, tool("shell"), tool("fs.read"));
    let look = async |tool, claim, now| gate.store.used_up(&agent, tool, claim, &limit, now).await.unwrap();
    for _ in 0..3 {
        assert_eq!(look(&shell, None, NOW).await, None);
    }
    let claim = Some("k".to_owned());
    assert_eq!(take(&gate.store, NewCall { claim, ..running(1) }, &limit).await, None);
    assert_eq!(look(&shell, None, NOW + 20_000).await, wait(1, 40_000));
    assert_eq!(look(&shell, Some("other"), NOW + 20_000).await, wait(1, 40_000));
    assert_eq!(look(&shell, Some("k"), NOW + 20_000).await, None, "it is the same call made again");
    // A clock that was set back holds it as long, however often one looks.
    for _ in 0..2 {
        assert_eq!(look(&shell, None, NOW - 24 * 60 * MINUTE).await, wait(1, 60_000));
    }
    assert_eq!(look(&shell, None, NOW + MINUTE).await, None);
    assert_eq!(look(&other, None, NOW + MINUTE).await, None);
}

#[tokio::test]
async fn neither_a_restart_nor_another_limit_clears_what_was_spent() {
    let gate = Gate::open().await;
    for number in 1..=3 {
        assert_eq!(take(&gate.store, running(number), &[each_minute(3)]).await, None);
    }
    gate.store.close().await;
    let again = gate.again().await;
    // Another number, another name for the same tools, a limit that was not there before: all count what was.
    for limit in [each_minute(2), of(&["shell", "fs.read"], 3), of(&["shell"], 1)] {
        assert_eq!(take(&again, running(9), &[limit]).await, wait(0, 60_000));
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_neither_empties_the_window_nor_holds_it_shut() {
    let gate = Gate::open().await;
    let limit = [each_minute(2)];
    assert_eq!(take(&gate.store, at(running(1), NOW), &limit).await, None);
    assert_eq!(take(&gate.store, at(running(2), NOW + 30_000), &limit).await, None);
    let yesterday = NOW - 24 * 3_600_000;
    // Between the two there were thirty seconds, and there still are.
    assert_eq!(take(&gate.store, at(running(3), yesterday), &limit).await, wait(0, 30_000));
    assert_eq!(take(&gate.store, at(running(4), yesterday + 30_000), &limit).await, None);
    assert_eq!(take(&gate.store, at(running(5), yesterday + 30_000), &limit).await, wait(0, 30_000));
}

#[tokio::test]
async fn a_gate_whose_clock_is_a_little_behind_ages_nothing() {
    let gate = Gate::open().await;
    let limit = [each_minute(10)];
    for number in 1..=10 {
        let now = if number % 2 == 0 { NOW } else { NOW + 9000 };
        assert_eq!(take(&gate.store, at(running(number), now), &limit).await, None);
    }
    assert_eq!(take(&gate.store, at(running(11), NOW), &limit).await, wait(0, 60_000));
}

#[tokio::test]
async fn what_no_window_reaches_any_more_goes_by_itself() {
    let gate = Gate::open().await;
    for number in 1..=50_u8 {
        take(&gate.store, at(running(number), NOW + i64::from(number)), &[each_minute(100)]).await;
    }
    let later = NOW + 2 * 3_600_000;
    for number in 51..=90_u8 {
        take(&gate.store, at(running(number), later + i64::from(number)), &[each_minute(100)]).await;
    }
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM spent").await, 40);
}

#[tokio::test]
async fn the_database_itself_gives_nothing_back() {
    let gate = Gate::open().await;
    for number in 1..=2 {
        take(&gate.store, running(number), &[each_minute(9)]).await;
    }
    gate.settle(&running(1), CallStatus::Completed).await;
    let mut raw = gate.raw().await;
    let refused = [
        ("DELETE FROM spent", "what is spent is kept for an hour"),
        ("UPDATE spent SET tool = 'other'", "what is spent stays spent"),
        ("UPDATE spent SET at = at + 1", "what is spent stays spent"),
        (
            "INSERT INTO spent VALUES ('builder', 'run', 9, 'shell', 9999999999999)",
            "what is spent is counted without gaps",
        ),
        ("INSERT INTO spent VALUES ('builder', 'run', 3, 'shell', 9)", "what is spent later is not earlier"),
    ];
    for (sql, why) in refused {
        assert_eq!(raw.run(sql).await, Err(why.to_owned()), "{sql}");
    }
    assert!(raw.run("INSERT INTO spent VALUES ('builder', 'other', 1, 'shell', 9)").await.is_err());
}
