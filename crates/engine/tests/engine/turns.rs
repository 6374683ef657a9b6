//! How often hooks are heard, how many at once, and what a no is worth that comes late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::{CallId, CallResult, CallStatus, Key, Rate, TaskName};
use engine::{Credential, Engine, Hearing, Hook, Objection, Proposed};
use policy::{RateSettings, Settings};
use serde_json::json;
use store::Vote;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, code, request, settings};

/// So many hooks may be heard at once for one agent.
const AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts how often it is heard, and keeps those of `builder` waiting while its gate is shut.
struct Porter {
    heard: AtomicUsize,
    now: AtomicUsize,
    most_at_once: AtomicUsize,
    entered: Semaphore,
    gate: Semaphore,
    says: Objection,
}

impl Porter {
    fn with(says: Objection, open: usize) -> Arc<Porter> {
        Arc::new(Porter {
            heard: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            entered: Semaphore::new(0),
            gate: Semaphore::new(open),
            says,
        })
    }

    fn content() -> Arc<Porter> {
        Porter::with(Objection::None, Semaphore::MAX_PERMITS)
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }
}

impl Hook for Porter {
    fn name(&self) -> &str {
        "porter"
    }

    fn before<'a>(&'a self, call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async move {
            self.heard.fetch_add(1, Ordering::SeqCst);
            if call.agent.as_str() == "builder" {
                let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most_at_once.fetch_max(now, Ordering::SeqCst);
                self.entered.add_permits(1);
                drop(self.gate.acquire().await);
                self.now.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(self.says.clone())
        })
    }
}

fn each_agent(max_calls: u64, window_ms: u64) -> Settings {
    let rates = RateSettings { each_agent: Rate { max_calls, window_ms }, ..RateSettings::default() };
    Settings { rates, ..settings() }
}

async fn desk(settings: Settings, porter: &Arc<Porter>) -> Desk {
    let desk = Desk::open(settings).await;
    assert!(desk.engine.set_hooks(vec![Arc::clone(porter) as Arc<dyn Hook>]));
    desk
}

/// A call that people have said yes to.
async fn approved(desk: &Desk, what: &str) -> CallId {
    let waiting = desk.call("do", json!({ "what": what })).await;
    approve(desk, &waiting).await;
    waiting.call_id
}

pub(crate) async fn approve(desk: &Desk, waiting: &CallResult) {
    let approval = waiting.approval.as_ref().unwrap();
    let credential = Credential::load_or_create(desk.home.path()).unwrap();
    desk.engine.answer(approval.id.as_str(), Vote::Approve, None, &credential, "test").await.unwrap();
}

async fn collect(engine: Engine, call: CallId, patience: Duration) -> CallResult {
    let agent = request("builder", "do", json!({})).agent;
    engine.collect(&agent, &call, patience, CancellationToken::new()).await.unwrap().unwrap()
}

#[tokio::test]
async fn no_hook_hears_of_a_call_that_is_over_the_limit() {
    let porter = Porter::content();
    let desk = desk(each_agent(2, 3_600_000), &porter).await;
    for _ in 0..2 {
        assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    }
    for _ in 0..4 {
        let result = desk.call("do", json!({})).await;
        assert_eq!((result.status, code(&result)), (CallStatus::Refused, "rate_limited"));
        assert!(result.receipt.is_some() && result.reason.unwrap().retry_after_ms.is_some());
    }
    assert_eq!((porter.heard(), desk.runs()), (2, 2));
    // The limit is this agent's.
    assert_eq!(desk.make(request("tester", "do", json!({}))).await.status, CallStatus::Completed);
}

#[tokio::test]
async fn a_call_that_is_made_again_under_its_key_has_its_answer_also_over_the_limit() {
    let porter = Porter::content();
    let desk = desk(each_agent(1, 3_600_000), &porter).await;
    let keyed =
        || engine::Request { key: Some(Key::parse("k").unwrap()), ..request("builder", "do", json!({})) };
    let first = desk.make(keyed()).await;
    let again = desk.make(keyed()).await;
    assert_eq!((again.status, again.call_id), (CallStatus::Completed, first.call_id));
    assert_eq!(desk.runs(), 1);
}

#[tokio::test]
async fn an_approved_call_that_waits_for_its_allowance_is_heard_once_whoever_waits_for_it() {
    let porter = Porter::content();
    let desk = desk(each_agent(1, 2000), &porter).await;
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    let call = approved(&desk, "ask").await;
    let before = porter.heard();
    let mut callers = JoinSet::new();
    for _ in 0..3 {
        callers.spawn(collect(desk.engine.clone(), call.clone(), PATIENCE));
    }
    for result in callers.join_all().await {
        assert_eq!(result.status, CallStatus::Completed, "{}", result.content);
    }
    assert_eq!((porter.heard() - before, desk.runs()), (1, 2));
}

#[tokio::test]
async fn one_agent_has_no_more_hooks_heard_at_once_than_its_share_and_another_passes_meanwhile() {
    let porter = Porter::with(Objection::None, 0);
    let desk = desk(settings(), &porter).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let engine = desk.engine.clone();
        let made = request("builder", "do", json!({}));
        calls.spawn(async move { engine.call(made, PATIENCE, CancellationToken::new()).await });
    }
    porter.entered.acquire_many(AT_ONCE as u32).await.unwrap().forget();
    let others = desk.make(request("tester", "do", json!({}))).await;
    assert_eq!(others.status, CallStatus::Completed, "{}", others.content);
    porter.gate.add_permits(20);
    calls.join_all().await;
    assert_eq!((porter.heard(), porter.most_at_once.load(Ordering::SeqCst)), (21, AT_ONCE));
}

#[tokio::test]
async fn an_approved_call_waits_for_a_hook_as_long_as_it_has_to() {
    let porter = Porter::with(Objection::None, 1);
    let desk = desk(settings(), &porter).await;
    let call = approved(&desk, "ask").await;
    porter.entered.acquire().await.unwrap().forget();
    porter.gate.acquire().await.unwrap().forget();
    let mut others = JoinSet::new();
    for _ in 0..AT_ONCE {
        let engine = desk.engine.clone();
        let made = request("builder", "do", json!({}));
        others.spawn(async move { engine.call(made, PATIENCE, CancellationToken::new()).await });
    }
    porter.entered.acquire_many(AT_ONCE as u32).await.unwrap().forget();
    let waiting = collect(desk.engine.clone(), call.clone(), Duration::ZERO).await;
    assert_eq!((waiting.status, porter.heard()), (CallStatus::Waiting, 1 + AT_ONCE));
    porter.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    others.join_all().await;
    assert_eq!(collect(desk.engine.clone(), call, PATIENCE).await.status, CallStatus::Completed);
}

#[tokio::test]
async fn approved_calls_that_run_take_up_no_place() {
    let porter = Porter::content();
    let desk = desk(settings(), &porter).await;
    let mut running = JoinSet::new();
    for number in 0..AT_ONCE {
        let request = engine::Request {
            task: Some(TaskName::parse(&format!("t{number}")).unwrap()),
            ..request("builder", "do", json!({ "what": "ask, then wait" }))
        };
        let waiting = desk.make(request).await;
        approve(&desk, &waiting).await;
        running.spawn(collect(desk.engine.clone(), waiting.call_id, PATIENCE));
    }
    while desk.runs() < AT_ONCE {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    for _ in 0..AT_ONCE {
        desk.seen.go_on.notify_one();
        let result = running.join_next().await.unwrap().unwrap();
        assert_eq!(result.status, CallStatus::Completed, "{}", result.content);
    }
}

#[tokio::test]
async fn a_no_that_comes_when_another_gate_runs_the_call_leaves_its_end_to_that_gate() {
    let (content, against) = (Porter::content(), Porter::with(Objection::Deny("no".to_owned()), 0));
    let desk = desk(settings(), &content).await;
    let other = desk.beside().await;
    assert!(other.set_hooks(vec![Arc::clone(&against) as Arc<dyn Hook>]));
    let call = approved(&desk, "ask, then wait").await;
    let mut late = tokio::spawn(collect(other.clone(), call.clone(), PATIENCE));
    against.entered.acquire().await.unwrap().forget();
    let first = tokio::spawn(collect(desk.engine.clone(), call, PATIENCE));
    while desk.runs() == 0 {
        tokio::task::yield_now().await;
    }
    against.gate.add_permits(1);
    let said = tokio::time::timeout(Duration::from_secs(1), &mut late).await;
    assert!(said.is_err(), "it has an answer before the call has an end: {said:?}");
    desk.seen.go_on.notify_one();
    for result in [first.await.unwrap(), late.await.unwrap()] {
        assert_eq!(result.status, CallStatus::Completed, "{}", result.content);
    }
    assert_eq!((desk.runs(), against.heard()), (1, 1));
}

#[tokio::test]
async fn a_no_before_the_call_begins_is_final_for_all_who_wait() {
    let porter = Porter::with(Objection::Deny("no".to_owned()), 0);
    let desk = desk(settings(), &Porter::content()).await;
    let call = approved(&desk, "ask").await;
    let desk = Desk { engine: desk.beside().await, ..desk };
    assert!(desk.engine.set_hooks(vec![Arc::clone(&porter) as Arc<dyn Hook>]));
    let mut callers = JoinSet::new();
    for _ in 0..3 {
        callers.spawn(collect(desk.engine.clone(), call.clone(), PATIENCE));
    }
    porter.entered.acquire().await.unwrap().forget();
    porter.gate.add_permits(3);
    for result in callers.join_all().await {
        assert_eq!((result.status, code(&result)), (CallStatus::Refused, "denied_by_hook"));
    }
    assert_eq!((porter.heard(), desk.runs()), (1, 0));
}
