//! A policy that changes while the engine runs, and one beside it.

use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, Autonomy, CallStatus};
use engine::{Audience, Cause, Credential, Hearing, Hook, Objection, OnBadReload, PolicySource, Proposed};
use policy::{Agent, Settings, ToolGlob};
use serde_json::{Value, json};
use store::Vote;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, code, request, settings};

fn source() -> PolicySource {
    PolicySource { name: "test.yaml".to_owned(), files: None }
}

/// Agents that change nothing.
fn locked() -> Settings {
    let mut settings = settings();
    settings.agents.values_mut().for_each(|agent| agent.autonomy = Autonomy::Locked);
    settings
}

async fn replace(desk: &Desk, settings: Settings) {
    desk.engine.replace_policy(settings, None, &source(), Cause::Reload).await.unwrap();
}

async fn suspend(desk: &Desk, then: OnBadReload) {
    desk.engine.reject_policy("test.yaml:3:1: nonsense", &source(), Cause::Reload, then).await.unwrap();
}

/// What the ledger tells of policies, oldest first.
async fn history(desk: &Desk) -> Vec<(String, Value)> {
    let entries = desk.engine.store().policy_history(100).await.unwrap();
    entries.into_iter().rev().map(|entry| (entry.kind, entry.body)).collect()
}

#[tokio::test]
async fn another_policy_decides_from_the_moment_it_is_in_force_and_what_runs_goes_on() {
    let desk = Desk::open(settings()).await;
    desk.engine.tell_policy(&source()).await.unwrap();
    let engine = desk.engine.clone();
    let running = tokio::spawn(async move {
        let request = request("builder", "do", json!({ "what": "wait" }));
        engine.call(request, Duration::ZERO, CancellationToken::new()).await
    });
    while desk.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    replace(&desk, locked()).await;
    assert_eq!(code(&desk.call("do", json!({})).await), "locked");
    desk.seen.go_on.notify_one();
    assert_eq!(running.await.unwrap().status, CallStatus::Completed);
    let [first, second] = <[_; 2]>::try_from(history(&desk).await).unwrap();
    assert_eq!((first.0.as_str(), &first.1["by"]), ("policy.in_force", &json!("start")));
    assert_eq!((second.0.as_str(), &second.1["by"]), ("policy.in_force", &json!("reload")));
    assert_eq!(second.1["previous"], first.1["policy"]);
    assert_eq!(second.1["policy"], json!(locked().hash().unwrap()));
    desk.engine.store().verify(None).await.unwrap();
}

/// A hook that keeps calls waiting until it is told to let them go.
struct Slow {
    heard: Arc<Notify>,
    lets_go: Arc<Semaphore>,
}

impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn before<'a>(&'a self, _call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async move {
            self.heard.notify_one();
            let _ = self.lets_go.acquire().await;
            Ok(Objection::None)
        })
    }
}

#[tokio::test]
async fn a_call_that_was_kept_waiting_is_decided_anew_by_what_is_in_force_by_then() {
    let desk = Desk::open(settings()).await;
    let (heard, lets_go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    assert!(
        desk.engine
            .set_hooks(vec![Arc::new(Slow { heard: Arc::clone(&heard), lets_go: Arc::clone(&lets_go) })])
    );
    let engine = desk.engine.clone();
    let call = tokio::spawn(async move {
        engine.call(request("builder", "do", json!({})), Duration::ZERO, CancellationToken::new()).await
    });
    heard.notified().await;
    replace(&desk, locked()).await;
    lets_go.add_permits(100);
    let result = call.await.unwrap();
    assert_eq!((code(&result), desk.runs()), ("locked", 0));
}

#[tokio::test]
async fn the_tools_that_are_shown_follow_the_policy() {
    let desk = Desk::open(settings()).await;
    let builder = AgentName::parse("builder").unwrap();
    let names = || {
        let tools = desk.engine.tools_for(&builder);
        tools.into_iter().map(|contract| contract.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["do", "do.more"]);
    let denied = Agent { denied: vec![ToolGlob::parse("do.*").unwrap()], ..Agent::default() };
    replace(&desk, Settings { agents: [(builder.clone(), denied)].into(), ..settings() }).await;
    assert_eq!(names(), ["do"]);
}

#[tokio::test]
async fn while_the_policy_cannot_be_read_nothing_begins_and_nothing_that_waits_is_lost() {
    let desk = Desk::open(settings()).await;
    let ask = json!({ "what": "ask" });
    let waiting = desk.call("do", ask.clone()).await;
    let approval = waiting.approval.clone().unwrap();
    suspend(&desk, OnBadReload::Refuse).await;
    assert!(desk.engine.is_suspended());
    let refused = desk.call("do.more", json!({})).await;
    assert_eq!(code(&refused), "policy_unreadable");
    assert!(refused.receipt.is_some(), "it is on record as any refusal is");
    let explained = desk.engine.explain(&request("builder", "do", json!({})), Audience::Agent).await.unwrap();
    assert_eq!(explained.reason.unwrap().code.as_str(), "policy_unreadable");
    // People can answer; what they said yes to waits.
    let me = Credential::load_or_create(desk.home.path()).unwrap();
    desk.engine.answer(approval.id.as_str(), Vote::Approve, None, &me, "test").await.unwrap();
    let agent = AgentName::parse("builder").unwrap();
    let collect = || desk.engine.collect(&agent, &waiting.call_id, Duration::ZERO, CancellationToken::new());
    collect().await.unwrap();
    assert_eq!(desk.runs(), 0);
    // The same policy again: the yes is good.
    replace(&desk, settings()).await;
    assert!(!desk.engine.is_suspended());
    assert_eq!(collect().await.unwrap().unwrap().status, CallStatus::Completed);
    let told: Vec<String> = history(&desk).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(told, ["policy.rejected", "policy.in_force"]);
}

#[tokio::test]
async fn whoever_wants_the_last_good_policy_keeps_it() {
    let desk = Desk::open(settings()).await;
    suspend(&desk, OnBadReload::Keep).await;
    assert!(!desk.engine.is_suspended());
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    let (kind, body) = history(&desk).await.remove(0);
    assert_eq!((kind.as_str(), &body["calls"]), ("policy.rejected", &json!("go on")));
    assert_eq!(body["why"], json!("test.yaml:3:1: nonsense"));
}

#[tokio::test]
async fn a_shadow_says_where_it_differs_and_nothing_where_it_does_not() {
    let desk = Desk::open(settings()).await;
    desk.engine.set_shadow(Some(locked())).await.unwrap();
    let ran = desk.call("do", json!({ "what": "a" })).await;
    assert_eq!(ran.status, CallStatus::Completed);
    // Unknown to both.
    desk.call("nothing", json!({})).await;
    let shadowed = desk.engine.store().shadowed(0, 10).await.unwrap();
    let [told] = <[_; 1]>::try_from(shadowed).unwrap();
    assert_eq!(told.call, ran.call_id);
    let expected = json!({
        "layer": "shadow",
        "says": "deny",
        "why": "the agent is locked, and the tool does nothing but change things",
        "from": "allow",
        "policy": locked().hash().unwrap(),
        "by": "autonomy",
        "code": "locked",
    });
    assert_eq!(told.step, expected);
    // A tool that its agent does not see is refused before it is decided; the shadow shows it.
    let builder = AgentName::parse("builder").unwrap();
    let denied = Agent { denied: vec![ToolGlob::parse("do.*").unwrap()], ..Agent::default() };
    let blind = Settings { agents: [(builder, denied)].into(), ..settings() };
    desk.engine.replace_policy(blind, Some(settings()), &source(), Cause::Reload).await.unwrap();
    let refused = desk.call("do.more", json!({})).await;
    assert_eq!(refused.status, CallStatus::Refused);
    let told = desk.engine.store().shadowed(0, 1).await.unwrap().remove(0);
    assert_eq!((&told.step["from"], &told.step["says"]), (&json!("deny"), &json!("allow")));
    assert_eq!((&told.step["by"], &told.step["code"]), (&json!("admit"), &json!("denied_by_list")));
}

#[tokio::test]
async fn a_shadow_uses_up_nothing_and_asks_nobody() {
    let desk = Desk::open(settings()).await;
    let mut asking = settings();
    asking.agents.values_mut().for_each(|agent| agent.autonomy = Autonomy::Supervised);
    asking.rates.each_agent.max_calls = 1;
    desk.engine.set_shadow(Some(asking)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    }
    assert!(desk.engine.waiting().await.unwrap().is_empty());
    assert_eq!(desk.engine.store().shadowed(0, 10).await.unwrap().len(), 3);
}
