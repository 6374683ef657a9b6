//! How often, how much and how long.

use contract::{CallStatus, Key, Rate};
use policy::{
    Budget, BudgetLimit, Over, Per, Period, RateSettings, Resources, Settings, ToolGlob, ToolRate,
    ToolResources,
};
use serde_json::{Value, json};
use store::verify_receipt;
use tokio::task::JoinSet;

use crate::desk::{Desk, code, request, settings};

fn limited(tools: &str, max_calls: u64) -> Settings {
    let limit = ToolRate {
        tools: ToolGlob::parse(tools).unwrap(),
        rate: Rate { max_calls, window_ms: 3_600_000 },
        place: "toolgate.yaml:7".to_owned(),
    };
    Settings { rates: RateSettings { tools: vec![limit], ..RateSettings::default() }, ..settings() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_calls_at_once_stay_within_the_limit() {
    let desk = Desk::open(limited("do", 10)).await;
    let mut calls = JoinSet::new();
    for _ in 0..64 {
        let engine = desk.engine.clone();
        calls.spawn(async move {
            let request = request("builder", "do", json!({}));
            engine.call(request, std::time::Duration::ZERO, Default::default()).await
        });
    }
    let results = calls.join_all().await;
    let refused: Vec<_> = results.iter().filter(|result| result.status == CallStatus::Refused).collect();
    assert_eq!((desk.runs(), refused.len()), (10, 54));
    for result in refused {
        assert_eq!(code(result), "rate_limited");
        let wait = result.reason.as_ref().unwrap().retry_after_ms.unwrap();
        assert!((1..=3_600_000).contains(&wait), "{wait}");
        assert!(result.receipt.is_some());
    }
    // Another agent, and another tool, are not concerned.
    assert_eq!(desk.make(request("tester", "do", json!({}))).await.status, CallStatus::Completed);
    assert_eq!(desk.call("do.more", json!({})).await.status, CallStatus::Completed);
    desk.engine.store().verify(None).await.unwrap();
}

#[tokio::test]
async fn a_limit_outlives_a_restart_and_a_new_name_for_it() {
    let desk = Desk::open(limited("do", 1)).await;
    desk.call("do", json!({})).await;
    let desk = desk.again(limited("do*", 1)).await;
    assert_eq!(code(&desk.call("do", json!({})).await), "rate_limited");
    assert_eq!(code(&desk.call("do.more", json!({})).await), "rate_limited");
    assert_eq!(desk.runs(), 1);
}

#[tokio::test]
async fn what_was_spent_with_a_tool_that_is_gone_is_spent() {
    let budget = Budget {
        tools: ToolGlob::parse("do*").unwrap(),
        agent: None,
        task: None,
        per: Per::All,
        limit: BudgetLimit::Calls(1),
        period: Period::Monthly,
        over: Over::Deny,
        place: "toolgate.yaml:9".to_owned(),
    };
    let budgeted = Settings { budgets: vec![budget], ..settings() };
    for (settings, refusal) in [(limited("do*", 1), "rate_limited"), (budgeted, "over_budget")] {
        let desk = Desk::open(settings.clone()).await;
        assert_eq!(desk.call("do.more", json!({})).await.status, CallStatus::Completed);
        let desk = desk.again_with(&["do"], settings).await;
        assert_eq!(code(&desk.call("do", json!({})).await), refusal);
    }
}

#[tokio::test]
async fn nobody_gets_ready_for_an_agent_that_calls_too_often() {
    let desk = Desk::open(limited("do", 2)).await;
    for _ in 0..2 {
        assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    }
    // The first that is one too many is only known when it is recorded.
    for _ in 0..5 {
        assert_eq!(code(&desk.call("do", json!({})).await), "rate_limited");
    }
    assert_eq!((desk.asked_to_be_ready(), desk.runs()), (3, 2));
    // Another agent, and another tool, are not concerned, and change nothing.
    desk.make(request("tester", "do", json!({}))).await;
    desk.call("do.more", json!({})).await;
    assert_eq!(code(&desk.call("do", json!({})).await), "rate_limited");
    assert_eq!((desk.asked_to_be_ready(), desk.runs()), (5, 4));
}

#[tokio::test]
async fn nobody_gets_ready_for_a_call_that_may_have_been_made_before() {
    let desk = Desk::open(settings()).await;
    for _ in 0..3 {
        let key = Some(Key::parse("k").unwrap());
        desk.make(engine::Request { key, ..request("builder", "do", json!({})) }).await;
    }
    assert_eq!((desk.asked_to_be_ready(), desk.runs()), (0, 1));
}

#[tokio::test]
async fn a_tool_that_fails_to_get_ready_is_run_all_the_same() {
    let desk = Desk::open(settings()).await;
    let result = desk.call("do", json!({ "what": "panic when it gets ready" })).await;
    assert_eq!((result.status, desk.asked_to_be_ready(), desk.runs()), (CallStatus::Completed, 1, 1));
}

#[tokio::test]
async fn what_is_refused_uses_up_nothing() {
    let desk = Desk::open(limited("do", 2)).await;
    for _ in 0..5 {
        assert_eq!(code(&desk.call("do", json!({ "other": 1 })).await), "bad_arguments");
    }
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed);
    assert_eq!(code(&desk.call("do", json!({})).await), "rate_limited");
}

#[tokio::test]
async fn a_flood_of_refused_calls_is_answered_and_not_recorded_one_by_one() {
    let rates =
        RateSettings { refused: Rate { max_calls: 3, window_ms: 3_600_000 }, ..RateSettings::default() };
    let desk = Desk::open(Settings { rates, ..settings() }).await;
    for _ in 0..3 {
        desk.call("nothing", json!({})).await;
    }
    let before = desk.engine.store().verify(None).await.unwrap().entries;
    for _ in 0..20 {
        let result = desk.call("nothing", json!({})).await;
        assert_eq!((result.status, code(&result)), (CallStatus::Refused, "rate_limited"));
        assert!(result.content.contains("there is no tool `nothing`"), "{}", result.content);
        assert_eq!(result.receipt, None);
    }
    assert_eq!(desk.engine.store().verify(None).await.unwrap().entries, before + 1);
    assert_eq!(desk.call("do", json!({})).await.status, CallStatus::Completed, "what is good goes on");
}

#[tokio::test]
async fn an_agent_has_a_limit_where_nobody_configured_one() {
    let rates =
        RateSettings { each_agent: Rate { max_calls: 2, window_ms: 3_600_000 }, ..RateSettings::default() };
    let mut limited = Settings { rates, ..settings() };
    limited.origins.insert(policy::Setting::AgentRate, "toolgate.yaml:4");
    let desk = Desk::open(limited).await;
    desk.call("do", json!({})).await;
    let asked = request("builder", "do", json!({}));
    assert_eq!(desk.engine.explain(&asked, engine::Audience::People).await.unwrap().verdict, "allow");
    desk.call("do.more", json!({})).await;
    // What would be refused is said before it is.
    let explained = desk.engine.explain(&asked, engine::Audience::People).await.unwrap();
    let last = explained.trace.last().unwrap();
    assert_eq!((explained.verdict, last.layer, last.says), ("deny", "rate", "deny"));
    assert_eq!(last.place.as_deref(), Some("toolgate.yaml:4"));
    assert_eq!(explained.reason.unwrap().code, contract::Code::RateLimited);
    assert_eq!(explained.authority, None);
    let result = desk.call("do", json!({})).await;
    assert!(result.content.contains("all tools together"), "{}", result.content);
    assert_eq!(RateSettings::default().each_agent.max_calls, 6000);
}

#[tokio::test]
async fn arguments_that_are_too_long_are_refused_and_not_kept() {
    let desk = Desk::open(Settings { max_arguments: 1024, ..settings() }).await;
    let long = "x".repeat(2000);
    let result = desk.call("do", json!({ "what": long })).await;
    assert_eq!((result.status, code(&result)), (CallStatus::Refused, "too_large"));
    assert_eq!(desk.runs(), 0);
    let files = std::fs::read_dir(desk.home.path()).unwrap();
    for file in files.flatten().filter(|file| file.file_type().unwrap().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(&long), "{:?}", file.path());
    }
    assert_eq!(desk.call("do", json!({ "what": "x".repeat(900) })).await.status, CallStatus::Completed);
}

#[tokio::test]
async fn the_receipt_says_how_much_a_call_was_granted() {
    let most = Resources { memory: Some(64 << 20), duration_ms: Some(1500), ..Resources::default() };
    let resources = vec![ToolResources { tools: ToolGlob::parse("do").unwrap(), most }];
    let desk = Desk::open(Settings { resources, ..settings() }).await;
    let result = desk.call("do", json!({})).await;
    let store = desk.engine.store();
    let envelope = store.receipt(&result.call_id).await.unwrap().unwrap();
    let body = verify_receipt(&envelope, store.keys().public()).unwrap();
    let limits = body.run.unwrap().limits;
    let said: Value = serde_json::to_value(limits).unwrap();
    let expected = json!({
        "timeout_ms": 1500, "memory": 64 << 20, "cpu_millis": 4000, "processes": 512,
        "disk": 1 << 30, "output": 10 << 20,
    });
    assert_eq!(said, expected);
}
