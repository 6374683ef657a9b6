//! Several at once: tasks, and pools as different processes have them.

use contract::{CallId, CallStatus};
use serde_json::json;
use store::{ApprovalFilter, Course, NewCall, Recorded, SettleError};
use tokio::task::JoinSet;

use crate::gate::{Gate, NOW, approval, asking, asking_for, call_id, running, settlement, yes};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_tasks_on_two_pools_leave_one_valid_chain() {
    let gate = Gate::open().await;
    let stores = [gate.store.clone(), gate.again().await];
    let before = gate.store.ledger_size().await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..20u8 {
        let store = stores[usize::from(task % 2)].clone();
        tasks.spawn(async move {
            for round in 0..5u8 {
                let call = NewCall {
                    id: CallId::from_random([task, round, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
                    ..running(task)
                };
                assert!(matches!(store.record_call(call.clone()).await.unwrap(), Recorded::New { .. }));
                store.settle(&settlement(&call, CallStatus::Completed)).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let verified = stores[1].verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.receipts), (before + 20 * 5 * 3, 100));
    assert_eq!(stores[0].verify(None).await.unwrap(), verified);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_would_use_an_approval_one_does() {
    let gate = Gate::open().await;
    let stores = [gate.store.clone(), gate.again().await];
    for number in 1..=5 {
        let call = gate.approved(number).await;
        let mut tasks = JoinSet::new();
        for task in 0..10 {
            let (store, call) = (stores[task % 2].clone(), call.id.clone());
            tasks.spawn(async move {
                store.start_approved(&call, &approval(number), json!({}), NOW + 2000).await.unwrap()
            });
        }
        let won = tasks.join_all().await.into_iter().filter(|won| *won).count();
        assert_eq!(won, 1);
    }
    let started = gate.store.latest_event(-1).await.unwrap();
    assert_eq!(started.iter().filter(|entry| entry.kind == "call.started").count(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_questions_at_once_no_more_are_asked_than_may_wait() {
    let gate = Gate::open().await;
    let stores = [gate.store.clone(), gate.again().await];
    let mut tasks = JoinSet::new();
    for task in 0..40u8 {
        let store = stores[usize::from(task % 2)].clone();
        let mut call = asking(task + 1);
        let Course::Ask(question) = &mut call.course else { panic!("it asks") };
        question.most_open = 7;
        tasks.spawn(async move { store.record_call(call).await.unwrap() });
    }
    let recorded = tasks.join_all().await;
    let new = recorded.iter().filter(|recorded| matches!(recorded, Recorded::New { .. })).count();
    let too_many = |recorded: &&Recorded| matches!(recorded, Recorded::TooManyQuestions { open: 7 });
    assert_eq!((new, recorded.iter().filter(too_many).count()), (7, 33));
    assert_eq!(gate.store.open_questions(&asking(1).agent).await.unwrap(), 7);
    assert_eq!(gate.store.calls(99, None).await.unwrap().len(), 7, "nothing is recorded of the others");
    // One that is answered makes room for one.
    let first = gate.store.approvals(ApprovalFilter::Pending, 1).await.unwrap().remove(0);
    gate.store.answer(&first.id, yes("me")).await.unwrap();
    let mut late = asking(50);
    let Course::Ask(question) = &mut late.course else { panic!("it asks") };
    question.most_open = 7;
    assert!(matches!(gate.store.record_call(late).await.unwrap(), Recorded::New { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_make_the_same_claim_one_runs() {
    let gate = Gate::open().await;
    let stores = [gate.store.clone(), gate.again().await];
    let mut tasks = JoinSet::new();
    for task in 0..10u8 {
        let store = stores[usize::from(task % 2)].clone();
        let call = NewCall { id: call_id(task), claim: Some("key".into()), ..running(1) };
        tasks.spawn(async move { store.record_call(call).await.unwrap() });
    }
    let recorded = tasks.join_all().await;
    let new = recorded.iter().filter(|recorded| matches!(recorded, Recorded::New { .. })).count();
    let existing = recorded.iter().filter(|recorded| matches!(recorded, Recorded::Existing(_))).count();
    assert_eq!((new, existing), (1, 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_settle_one_does() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    gate.record(running(1)).await;
    let mut tasks = JoinSet::new();
    for task in 0..10 {
        let store = if task % 2 == 0 { gate.store.clone() } else { other.clone() };
        tasks.spawn(async move { store.settle(&settlement(&running(1), CallStatus::Completed)).await });
    }
    let (done, refused): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    // Before its owner has settled it, it is not the other gate's to settle; afterwards it is nobody's.
    let is_refused = |error: &Result<_, SettleError>| {
        matches!(error, Err(SettleError::Settled { .. } | SettleError::NotOurs { .. }))
    };
    assert!(refused.iter().all(is_refused), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_that_come_at_once_are_counted_one_by_one() {
    let gate = Gate::open().await;
    let other = gate.again().await;
    gate.record(asking_for(1, 2)).await;
    gate.record(asking(2)).await;
    let (one, same) = (approval(1), approval(1));
    let (first, second) = tokio::join!(gate.store.answer(&one, yes("me")), other.answer(&same, yes("you")));
    assert!(first.is_ok() && second.is_ok());
    let (one, same) = (approval(2), approval(2));
    let (first, second) = tokio::join!(gate.store.answer(&one, yes("me")), other.answer(&same, yes("you")));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1, "one decides, the other is too late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_is_given_up_in_the_middle_leaves_nothing_half_done() {
    let gate = Gate::open().await;
    for number in 0..40u8 {
        let store = gate.store.clone();
        let task = tokio::spawn(async move { store.record_call(running(number)).await });
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
    }
    gate.record(running(100)).await;
    gate.store.verify(None).await.unwrap();
    let planned = gate.store.latest_event(-1).await.unwrap();
    let planned = planned.iter().filter(|entry| entry.kind == "call.planned").count();
    assert_eq!(gate.store.calls(1000, None).await.unwrap().len(), planned);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_who_fails_or_goes_away_among_many_takes_nobody_with_it() {
    let gate = Gate::open().await;
    gate.record(running(0)).await;
    let before = gate.store.ledger_size().await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 1..=60u8 {
        let store = gate.store.clone();
        tasks.spawn(async move {
            match number % 3 {
                // On record already: it stops in the middle of its turn.
                0 => Some((number, store.record_call(running(0)).await.is_ok())),
                1 => {
                    let gone = tokio::spawn(async move { store.record_call(running(number)).await });
                    tokio::task::yield_now().await;
                    gone.abort();
                    let _ = gone.await;
                    None
                }
                _ => Some((number, store.record_call(running(number)).await.is_ok())),
            }
        });
    }
    let heard = tasks.join_all().await.into_iter().flatten();
    assert!(heard.into_iter().all(|(number, is_ok)| is_ok == (number % 3 == 2)));
    let calls = gate.store.calls(1000, None).await.unwrap();
    let is_kept = |number: u8| calls.iter().any(|call| call.id == call_id(number));
    assert!((1..=60).filter(|number| number % 3 == 2).all(is_kept));
    // Each is planned and started, and nothing else was written.
    let verified = gate.store.verify(None).await.unwrap();
    assert_eq!(verified.entries, before + 2 * (calls.len() as u64 - 1));
}
