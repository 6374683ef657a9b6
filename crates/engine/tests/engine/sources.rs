//! Tools that come and go while the engine runs.

use std::sync::Arc;

use contract::{CallStatus, Definition, SourceName, ToolName, TrustLabel};
use engine::{Credential, Lowering, NotListed};
use serde_json::json;
use tools::Tool;

use crate::desk::{Desk, Doer, code, request, settings};
use crate::turns::approve;

fn source(name: &str) -> SourceName {
    SourceName::parse(name).unwrap()
}

fn offered(desk: &Desk, name: &str, description: &str) -> Arc<dyn Tool> {
    let seen = Arc::clone(&desk.seen);
    let definition = Definition { description: description.to_owned(), ..Doer::definition(name) };
    Arc::new(Doer::of(definition, TrustLabel::Internal, seen))
}

fn names(desk: &Desk) -> Vec<String> {
    let tools = desk.engine.tools_for(&request("builder", "do", json!({})).agent);
    tools.iter().map(|contract| contract.name().to_string()).collect()
}

/// Somebody looks at a tool, so that its calls are not asked about.
async fn pin(desk: &Desk, name: &str) {
    let credential = Credential::load_or_create(desk.home.path()).unwrap();
    let name = ToolName::parse(name).unwrap();
    let hash = desk.engine.all_tools().iter().find(|tool| tool.facts.name == name).unwrap().facts.hash;
    let other = desk.engine.pin_tool(&name, "00000000", Lowering::default(), &credential).await;
    assert!(matches!(other, Err(engine::PinError::Another { .. })), "{other:?}");
    desk.engine.pin_tool(&name, &hash.to_string(), Lowering::default(), &credential).await.unwrap();
}

async fn replace(desk: &Desk, from: &str, tools: Vec<Arc<dyn Tool>>) -> engine::Imported {
    desk.engine.replace_source(&source(from), tools, Vec::new()).await.unwrap()
}

#[tokio::test]
async fn a_source_replaces_its_own_tools_all_at_once_and_whoever_listens_hears_of_it() {
    let desk = Desk::open(settings()).await;
    let mut changes = desk.engine.catalogue_changes();
    replace(&desk, "mcp:a", vec![offered(&desk, "a.one", "x"), offered(&desk, "a.two", "x")]).await;
    replace(&desk, "mcp:b", vec![offered(&desk, "b.one", "x")]).await;
    assert!(changes.has_changed().unwrap());
    assert_eq!(*changes.borrow_and_update(), 2);
    assert_eq!(names(&desk), ["a.one", "a.two", "b.one", "do", "do.more"]);
    assert_eq!(desk.call("a.one", json!({})).await.status, CallStatus::Waiting, "nobody has looked at it");
    pin(&desk, "a.one").await;
    assert_eq!(desk.call("a.one", json!({ "what": "x" })).await.status, CallStatus::Completed);
    replace(&desk, "mcp:a", vec![offered(&desk, "a.three", "x")]).await;
    assert_eq!(names(&desk), ["a.three", "b.one", "do", "do.more"]);
    assert_eq!(code(&desk.call("a.one", json!({})).await), "unknown_tool");
    replace(&desk, "mcp:a", Vec::new()).await;
    assert_eq!(desk.engine.tools_of_source(&source("mcp:b")), [ToolName::parse("b.one").unwrap()]);
}

#[tokio::test]
async fn a_call_under_way_goes_on_with_the_tool_that_it_was_admitted_with() {
    let desk = Desk::open(settings()).await;
    replace(&desk, "mcp:a", vec![offered(&desk, "a.one", "x")]).await;
    pin(&desk, "a.one").await;
    let engine = desk.engine.clone();
    let call = tokio::spawn(async move {
        let wait = request("builder", "a.one", json!({ "what": "wait" }));
        engine.call(wait, std::time::Duration::ZERO, Default::default()).await
    });
    while desk.runs() == 0 {
        tokio::task::yield_now().await;
    }
    replace(&desk, "mcp:a", Vec::new()).await;
    desk.seen.go_on.notify_waiters();
    assert_eq!(call.await.unwrap().status, CallStatus::Completed);
}

#[tokio::test]
async fn no_tool_takes_a_name_that_is_taken_or_looks_like_one() {
    let desk = Desk::open(settings()).await;
    replace(&desk, "mcp:a", vec![offered(&desk, "a.list", "x")]).await;
    let tried = ["do", "do_more", "a.list", "a.1ist", "b.own", "b.own"];
    let tools = tried.iter().map(|name| offered(&desk, name, "y")).collect();
    let imported = replace(&desk, "mcp:b", tools).await;
    assert_eq!(imported.listed, [ToolName::parse("b.own").unwrap()]);
    let not_listed = |name: &str, why: &str| NotListed { name: name.to_owned(), why: why.to_owned() };
    assert_eq!(
        imported.refused,
        [
            not_listed("do", "there are two tools named `do`"),
            not_listed("do_more", "the tool names `do.more` and `do_more` look the same"),
            not_listed("a.list", "there are two tools named `a.list`"),
            not_listed("a.1ist", "the tool names `a.list` and `a.1ist` look the same"),
            not_listed("b.own", "there are two tools named `b.own`"),
        ]
    );
    // It is told once, however often it is tried.
    let before = desk.engine.store().ledger_size().await.unwrap();
    let tools = tried.iter().map(|name| offered(&desk, name, "y")).collect();
    replace(&desk, "mcp:b", tools).await;
    assert_eq!(desk.engine.store().ledger_size().await.unwrap(), before);
}

#[tokio::test]
async fn a_name_stays_with_the_source_that_had_it_first_also_after_a_restart() {
    let desk = Desk::open(settings()).await;
    replace(&desk, "mcp:a", vec![offered(&desk, "one", "x")]).await;
    replace(&desk, "mcp:a", Vec::new()).await;
    let desk = desk.again(settings()).await;
    let imported = replace(&desk, "mcp:b", vec![offered(&desk, "one", "x")]).await;
    let refused = NotListed { name: "one".to_owned(), why: "`one` belongs to `mcp:a`".to_owned() };
    assert_eq!((imported.listed, imported.refused), (Vec::new(), vec![refused]));
    assert_eq!(replace(&desk, "mcp:a", vec![offered(&desk, "one", "x")]).await.refused, []);
}

#[tokio::test]
async fn what_waits_for_people_does_not_run_once_its_tool_is_another() {
    let desk = Desk::open(settings()).await;
    replace(&desk, "mcp:a", vec![offered(&desk, "a.one", "x")]).await;
    let waiting = desk.call("a.one", json!({ "what": "ask" })).await;
    replace(&desk, "mcp:a", vec![offered(&desk, "a.one", "x, and more")]).await;
    approve(&desk, &waiting).await;
    let agent = request("builder", "do", json!({})).agent;
    let result = desk
        .engine
        .collect(&agent, &waiting.call_id, std::time::Duration::ZERO, Default::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((code(&result), desk.runs()), ("expired", 0));
}

#[tokio::test]
async fn a_pinned_tool_that_changes_is_suspended_at_every_gate_until_it_is_pinned_again() {
    let desk = Desk::open(settings()).await;
    let beside = desk.beside().await;
    let offer = async |engine: &engine::Engine, description: &str| {
        let tools = vec![offered(&desk, "a.one", description)];
        engine.replace_source(&source("mcp:a"), tools, Vec::new()).await.unwrap();
    };
    offer(&desk.engine, "x").await;
    offer(&beside, "x").await;
    pin(&desk, "a.one").await;
    let call = async |engine: &engine::Engine| {
        let request = request("builder", "a.one", json!({ "what": "x" }));
        engine.call(request, std::time::Duration::ZERO, Default::default()).await
    };
    assert_eq!(call(&beside).await.status, CallStatus::Completed, "the other gate has heard of the pin");
    offer(&desk.engine, "x, and more").await;
    for engine in [&desk.engine, &beside] {
        assert_eq!(code(&call(engine).await), "tool_disabled");
    }
    pin(&desk, "a.one").await;
    assert_eq!(call(&desk.engine).await.status, CallStatus::Completed);
    assert_eq!(code(&call(&beside).await), "tool_disabled", "it offers what nobody has looked at any more");
    let versions = desk.engine.versions_of(&ToolName::parse("a.one").unwrap()).await.unwrap().unwrap();
    assert_eq!(versions.before, versions.now);
}
