//! What calls take of budgets: reserved, counted or given back, whatever happens meanwhile.

use std::collections::BTreeMap;

use contract::{
    AgentName, Amount, CallStatus, Cost, Measure, OfTask, Pot, SafetyClass, Tally, TaskName, ToolName,
};
use serde_json::json;
use store::{Basis, Charge, Durable, NewCall, Recorded, Store, Within};
use tokio::task::JoinSet;

use crate::gate::{self, Gate, NOW, approval, call_id, settlement, yes};

const DAY: i64 = NOW / 86_400_000;

fn all_of(measure: Measure) -> Pot {
    Pot { measure, agent: None, task: OfTask::Any, tools: None, since: DAY }
}

/// A call that may cost so much, within so much.
fn costing(cost: u64, most: u64) -> Charge {
    let within = Within { pot: all_of(Measure::Cost), take: cost, most };
    Charge { cost, currency: "USD".to_owned(), arguments: BTreeMap::new(), day: DAY, within: vec![within] }
}

fn cost(measured: Option<u64>) -> Option<Cost> {
    let measured = measured.map(Amount::of_millionths);
    Some(Cost { currency: "USD".to_owned(), quoted: Amount::of_millionths(40), measured, reported: None })
}

fn tally(spent: u64, reserved: u64) -> Tally {
    Tally { spent, reserved }
}

async fn taken(store: &Store, measure: Measure) -> Tally {
    *store.tallies(&[all_of(measure)]).await.unwrap().first().unwrap()
}

async fn record(store: &Store, call: NewCall, charge: &Charge) -> Recorded {
    store.record_charged(call, &[], Some(charge), Durable::Now).await.unwrap()
}

fn is_new(recorded: &Recorded) -> bool {
    matches!(recorded, Recorded::New { .. })
}

async fn settle(gate: &Gate, call: &NewCall, status: CallStatus, cost: Option<Cost>) {
    let mut settlement = settlement(call, status);
    settlement.body.cost = cost;
    gate.store.settle(&settlement).await.unwrap();
}

#[tokio::test]
async fn what_is_reserved_counts_until_it_is_known_what_it_cost() {
    let gate = Gate::open().await;
    let charge = costing(40, 100);
    for number in [1, 2] {
        assert!(is_new(&record(&gate.store, gate::running(number), &charge).await));
    }
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(0, 80));
    assert_eq!(record(&gate.store, gate::running(3), &charge).await, Recorded::OverBudget);
    assert!(gate.store.call(&call_id(3)).await.unwrap().is_none(), "nothing is recorded");
    settle(&gate, &gate::running(1), CallStatus::Completed, cost(Some(7))).await;
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(7, 40));
    assert_eq!(taken(&gate.store, Measure::Calls).await, tally(1, 1));
    assert!(is_new(&record(&gate.store, gate::running(4), &charge).await));
}

#[tokio::test]
async fn what_nobody_knows_counts_as_all_that_was_reserved() {
    let gate = Gate::open().await;
    record(&gate.store, gate::running(1), &costing(40, 100)).await;
    settle(&gate, &gate::running(1), CallStatus::Unknown, cost(None)).await;
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(40, 0));
    record(&gate.store, gate::running(2), &costing(40, 100)).await;
    // A gate that recovers the call of another does not know what was reserved for it, and need not.
    settle(&gate, &gate::running(2), CallStatus::Unknown, None).await;
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(80, 0));
}

#[tokio::test]
async fn what_never_began_gives_back_exactly_what_it_had_reserved() {
    let gate = Gate::open().await;
    let planned = || NewCall { safety: SafetyClass::Write, ..gate::running(1) };
    let charge = Charge { arguments: BTreeMap::from([("amount".to_owned(), 5)]), ..costing(40, 100) };
    record(&gate.store, planned(), &charge).await;
    let amount = || Measure::Argument("amount".to_owned());
    assert_eq!(taken(&gate.store, amount()).await, tally(0, 5));
    settle(&gate, &planned(), CallStatus::Failed, cost(None)).await;
    for measure in [Measure::Cost, Measure::Calls, amount()] {
        assert_eq!(taken(&gate.store, measure).await, tally(0, 0));
    }
}

#[tokio::test]
async fn a_receipt_says_what_was_quoted_and_what_was_measured() {
    let gate = Gate::open().await;
    record(&gate.store, gate::running(1), &costing(40, 100)).await;
    settle(&gate, &gate::running(1), CallStatus::Completed, cost(Some(7))).await;
    let receipt = gate.store.receipt(&call_id(1)).await.unwrap().unwrap();
    let body = store::verify_receipt(&receipt, gate.store.keys().public()).unwrap();
    assert_eq!(json!(body.cost), json!({ "currency": "USD", "quoted": "0.00004", "measured": "0.000007" }));
}

#[tokio::test]
async fn a_call_that_is_refused_or_asked_about_takes_nothing() {
    let gate = Gate::open().await;
    let charge = costing(40, 10);
    assert!(is_new(&record(&gate.store, gate::refused(1), &charge).await));
    assert!(is_new(&record(&gate.store, gate::asking(2), &charge).await));
    assert_eq!(taken(&gate.store, Measure::Calls).await, tally(0, 0));
}

#[tokio::test]
async fn what_people_approved_is_reserved_when_it_starts_and_not_beyond_what_is_left() {
    let gate = Gate::open().await;
    for number in [1, 2] {
        gate.record(gate::asking(number)).await;
        gate.store.answer(&approval(number), yes("me")).await.unwrap();
    }
    let start = async |number: u8| {
        let call = gate.store.call(&call_id(number)).await.unwrap().unwrap();
        let approval = gate.store.approval(&approval(number)).await.unwrap().unwrap();
        let basis = Basis { call: &call, approval: &approval, operands: None };
        let charge = costing(40, 50);
        let started = gate.store.start_approved_charged(basis, json!({}), NOW, &[], Some(&charge));
        started.await.unwrap()
    };
    assert!(start(1).await);
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(0, 40));
    assert!(!start(2).await);
    assert_eq!(gate.store.call(&call_id(2)).await.unwrap().unwrap().status, CallStatus::Waiting);
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(0, 40));
}

#[tokio::test]
async fn the_same_call_again_is_counted_once() {
    let gate = Gate::open().await;
    let call = |number| NewCall {
        claim: Some("same".to_owned()),
        request: gate::running(1).request,
        ..gate::running(number)
    };
    assert!(is_new(&record(&gate.store, call(1), &costing(40, 100)).await));
    assert!(matches!(record(&gate.store, call(2), &costing(40, 100)).await, Recorded::Existing(_)));
    assert_eq!(taken(&gate.store, Measure::Calls).await, tally(0, 1));
}

#[tokio::test]
async fn sixty_four_at_once_stay_within_the_budget_through_two_gates() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    let mut tasks = JoinSet::new();
    for number in 1..=64 {
        let store = if number % 2 == 0 { gate.store.clone() } else { other.clone() };
        tasks.spawn(async move { record(&store, gate::running(number), &costing(7, 75)).await });
    }
    let recorded = tasks.join_all().await;
    assert_eq!(recorded.iter().filter(|recorded| is_new(recorded)).count(), 10);
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(0, 70));
}

#[tokio::test]
async fn agents_tasks_tools_and_days_are_told_apart_where_a_budget_does() {
    let gate = Gate::open().await;
    let call = |number, agent, task: Option<&str>, tool| NewCall {
        agent: AgentName::parse(agent).unwrap(),
        task: task.map(|task| TaskName::parse(task).unwrap()),
        tool: ToolName::parse(tool).unwrap(),
        ..gate::running(number)
    };
    let charge = Charge { within: Vec::new(), ..costing(1, 0) };
    record(&gate.store, call(1, "a", Some("t"), "shell"), &charge).await;
    record(&gate.store, call(2, "a", None, "shell"), &charge).await;
    record(&gate.store, call(3, "b", Some("t"), "fs.read"), &charge).await;
    record(&gate.store, call(4, "b", None, "shell"), &Charge { day: DAY + 1, ..charge.clone() }).await;
    let counted = async |pot: Pot| gate.store.tallies(&[pot]).await.unwrap()[0].taken();
    let calls = || all_of(Measure::Calls);
    let named = |agent: &str| AgentName::parse(agent).ok();
    let tools = |names: &[&str]| Some(names.iter().map(|name| ToolName::parse(name).unwrap()).collect());
    assert_eq!(counted(calls()).await, 4);
    assert_eq!(counted(Pot { agent: named("a"), ..calls() }).await, 2);
    assert_eq!(counted(Pot { task: OfTask::Unnamed, ..calls() }).await, 2);
    let task = OfTask::Named(TaskName::parse("t").unwrap());
    assert_eq!(counted(Pot { agent: named("b"), task, ..calls() }).await, 1);
    assert_eq!(counted(Pot { tools: tools(&["fs.read", "fs.list"]), ..calls() }).await, 1);
    assert_eq!(counted(Pot { tools: tools(&[]), ..calls() }).await, 0);
    assert_eq!(counted(Pot { since: DAY + 1, ..calls() }).await, 1);
}

#[tokio::test]
async fn a_clock_that_is_set_back_opens_no_other_day() {
    let gate = Gate::open().await;
    record(&gate.store, gate::running(1), &costing(40, 100)).await;
    let yesterday = |charge: Charge| {
        let within = charge.within.into_iter();
        let within = within.map(|within| Within { pot: Pot { since: DAY - 1, ..within.pot }, ..within });
        Charge { day: DAY - 1, within: within.collect(), ..charge }
    };
    assert!(is_new(&record(&gate.store, gate::running(2), &yesterday(costing(40, 100))).await));
    // It counts for today, and today's budget knows it.
    assert_eq!(taken(&gate.store, Measure::Cost).await, tally(0, 80));
    assert_eq!(
        record(&gate.store, gate::running(3), &yesterday(costing(40, 100))).await,
        Recorded::OverBudget
    );
}

#[tokio::test]
async fn what_was_spent_outlives_the_gate_and_no_amount_of_a_call_that_has_ended_is_kept() {
    let gate = Gate::open().await;
    let charge = Charge { arguments: BTreeMap::from([("amount".to_owned(), 5)]), ..costing(40, 100) };
    record(&gate.store, gate::running(1), &charge).await;
    settle(&gate, &gate::running(1), CallStatus::Completed, cost(Some(7))).await;
    let again = gate.again().await;
    assert_eq!(taken(&again, Measure::Cost).await, tally(7, 0));
    assert_eq!(taken(&again, Measure::Argument("amount".to_owned())).await, tally(5, 0));
    assert_eq!(gate.raw().await.number("SELECT count(*) FROM charges").await, 0);
}

#[tokio::test]
async fn the_database_itself_keeps_what_is_reserved_and_what_was_spent() {
    let gate = Gate::open().await;
    record(&gate.store, gate::running(1), &costing(40, 100)).await;
    record(&gate.store, gate::running(2), &costing(40, 100)).await;
    settle(&gate, &gate::running(2), CallStatus::Completed, cost(Some(7))).await;
    let mut raw = gate.raw().await;
    let id = call_id(1);
    let kept = "what is reserved is kept until it is counted";
    let once = "what a call takes is counted once";
    let spent = "what was spent stays spent";
    for (sql, refusal) in [
        (format!("DELETE FROM charges WHERE call = '{id}'"), kept),
        (format!("UPDATE charges SET quoted = 1 WHERE call = '{id}'"), once),
        (format!("UPDATE charges SET counted = 1, day = 1 WHERE call = '{id}'"), once),
        ("UPDATE spending SET spent = spent - 1 WHERE what = 'cost'".to_owned(), spent),
        ("UPDATE spending SET day = day - 40".to_owned(), spent),
        ("DELETE FROM spending".to_owned(), spent),
    ] {
        assert_eq!(raw.try_out(&sql).await, Err(refusal.to_owned()), "{sql}");
    }
    for (insert, end) in gate::insertions() {
        let sql = format!("{insert} INTO charges SELECT * FROM charges WHERE call = '{id}'{end}");
        assert_eq!(raw.try_out(&sql).await, Err("what a call takes is reserved once".to_owned()), "{sql}");
        let sql = format!(
            "{insert} INTO spending (what, day, agent, task, tool, spent, reserved) \
             SELECT what, day, agent, task, tool, 0, 0 FROM spending{end}"
        );
        assert_eq!(raw.try_out(&sql).await, Err(spent.to_owned()), "{sql}");
    }
    for (table, refusal) in [("charges", kept), ("spending", spent)] {
        for sql in gate::removals(table) {
            assert_eq!(raw.try_out(&sql).await, Err(refusal.to_owned()), "{sql}");
        }
    }
}

/// Numbers that look like chance and are the same each time.
fn scattered(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[tokio::test]
async fn however_calls_come_and_end_no_more_is_spent_than_there_is_and_what_is_given_back_is_what_was_reserved()
 {
    const MOST: u64 = 200;
    for seed in 1..=3 {
        let gate = Gate::open().await;
        let other = gate.again().await;
        let mut below = scattered(seed);
        let mut tasks = JoinSet::new();
        for number in 1..=48 {
            let store = if number % 2 == 0 { gate.store.clone() } else { other.clone() };
            let quoted = below(40);
            let (measured, ends) = (below(quoted + 1), below(4));
            let safety = if ends == 0 { SafetyClass::Write } else { SafetyClass::Read };
            tasks.spawn(async move {
                let call = NewCall { safety, ..gate::running(number) };
                if !is_new(&record(&store, call.clone(), &costing(quoted, MOST)).await) {
                    return 0;
                }
                let taken = taken(&store, Measure::Cost).await.taken();
                assert!(taken <= MOST, "{taken} of {MOST}");
                // It never began, nobody knows, or it is known.
                let (status, measured, counts) = match ends {
                    0 => (CallStatus::Failed, None, 0),
                    1 => (CallStatus::Unknown, None, quoted),
                    _ => (CallStatus::Completed, Some(measured), measured),
                };
                let mut settlement = settlement(&call, status);
                settlement.body.cost = cost(measured);
                store.settle(&settlement).await.unwrap();
                counts
            });
        }
        let spent: u64 = tasks.join_all().await.into_iter().sum();
        assert_eq!(taken(&gate.store, Measure::Cost).await, tally(spent, 0), "seed {seed}");
        assert!(spent <= MOST);
    }
}
