//! Tools told step by step, through the engine as its ways in use it.

use std::collections::BTreeSet;

use contract::{AgentName, CallResult, CallStatus, TaskName};
use engine::{Context, Request, Shown};
use policy::{DisclosureSettings, Settings, ToolGlob};
use serde_json::{Value, json};

use crate::desk::{Desk, code, request, settings};

const NAMES: [&str; 6] = ["files.read", "files.write", "mail.send", "mail.read", "time.now", "paint"];

/// Few tools, and told step by step all the same.
fn step_by_step() -> Settings {
    Settings {
        disclosure: DisclosureSettings { min_tools: 3, ..DisclosureSettings::default() },
        ..settings()
    }
}

async fn desk(settings: Settings) -> Desk {
    Desk::open(settings.clone()).await.again_with(&NAMES, settings).await
}

fn of_task(task: &str, tool: &str, arguments: Value) -> Request {
    Request { task: Some(TaskName::parse(task).unwrap()), ..request("builder", tool, arguments) }
}

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn shown(desk: &Desk, name: &str, task: Option<&str>) -> Vec<String> {
    let task = task.map(|task| TaskName::parse(task).unwrap());
    match desk.engine.shown_to(&agent(name), task.as_ref()) {
        Shown::Everything => vec!["everything".to_owned()],
        Shown::Loaded(names) => names.iter().map(ToString::to_string).collect(),
    }
}

fn structured(result: &CallResult) -> Value {
    result.structured.clone().unwrap_or_default()
}

#[tokio::test]
async fn with_few_tools_everything_is_shown_and_nothing_else_is_said() {
    let desk = desk(settings()).await;
    assert_eq!(shown(&desk, "builder", None), ["everything"]);
    assert_eq!(desk.engine.level_one_for(&agent("builder"), ""), None);
    // Whoever asks all the same is answered, and calls without loading.
    assert_eq!(
        desk.call("search_tools", json!({ "query": "send mail" })).await.status,
        CallStatus::Completed
    );
    let called = desk.call("call_tool", json!({ "name": "paint", "arguments": { "what": "x" } })).await;
    assert_eq!((called.status, called.tool.as_str()), (CallStatus::Completed, "paint"));
}

#[tokio::test]
async fn what_is_loaded_belongs_to_one_agent_and_task() {
    let desk = desk(step_by_step()).await;
    let changes = desk.engine.loaded_changes();
    assert_eq!(shown(&desk, "builder", None), Vec::<String>::new());
    let loaded = desk.make(of_task("one", "load_tool", json!({ "name": "files_read" }))).await;
    assert_eq!(structured(&loaded)["loaded"], json!(["files.read"]));
    assert!(
        loaded.content.contains("\"what\"") && loaded.content.contains("call it as `files_read`"),
        "{}",
        loaded.content
    );
    assert!(changes.has_changed().unwrap());
    assert_eq!(shown(&desk, "builder", Some("one")), ["files.read"]);
    for (agent, task) in [("builder", None), ("builder", Some("two")), ("tester", Some("one"))] {
        assert_eq!(shown(&desk, agent, task), Vec::<String>::new(), "{agent} {task:?}");
    }
    let call = |task: &str| {
        of_task(task, "call_tool", json!({ "name": "files.read", "arguments": { "what": "x" } }))
    };
    let called = desk.make(call("one")).await;
    assert_eq!(
        (called.status, called.content.as_str(), called.tool.as_str()),
        (CallStatus::Completed, "did: x", "files.read")
    );
    assert!(called.receipt.is_some());
    let refused = desk.make(call("two")).await;
    assert_eq!((code(&refused), refused.tool.as_str(), desk.runs()), ("bad_request", "files.read", 1));
    assert!(refused.receipt.is_some(), "it is on record");
}

#[tokio::test]
async fn a_call_through_call_tool_is_the_same_call_and_is_explained_as_it() {
    let desk = desk(step_by_step()).await;
    desk.call("load_tool", json!({ "name": "paint" })).await;
    let arguments = json!({ "what": "ask first" });
    let direct = desk.call("paint", arguments.clone()).await;
    let around = json!({ "name": "paint", "arguments": arguments });
    let through = desk.call("call_tool", around.clone()).await;
    assert_eq!(
        (direct.status, &direct.call_id),
        (CallStatus::Waiting, &through.call_id),
        "people are asked once"
    );
    let asked = request("builder", "call_tool", around);
    let explained = desk.engine.explain(&asked, engine::Audience::Agent).await.unwrap();
    assert_eq!((explained.tool.as_str(), explained.verdict), ("paint", "ask"));
}

#[tokio::test]
async fn a_tool_that_an_agent_may_not_see_any_more_is_not_loaded_any_more() {
    let desk = desk(step_by_step()).await;
    desk.call("load_tool", json!({ "name": "paint" })).await;
    let mut denied = step_by_step();
    let builder = denied.agents.get_mut(&agent("builder")).unwrap();
    builder.denied.push(ToolGlob::parse("paint").unwrap());
    let source = engine::PolicySource { name: "a test".to_owned(), files: None };
    desk.engine.replace_policy(denied, None, &source, engine::Cause::Reload).await.unwrap();
    assert_eq!(shown(&desk, "builder", None), Vec::<String>::new());
    let called = desk.call("call_tool", json!({ "name": "paint", "arguments": { "what": "x" } })).await;
    assert_eq!((code(&called), desk.runs()), ("denied_by_list", 0));
}

#[tokio::test]
async fn the_oldest_gives_way_to_the_budget_and_to_a_context_that_fills_up() {
    let disclosure =
        DisclosureSettings { min_tools: 3, l2_token_budget: 400, ..DisclosureSettings::default() };
    let desk = desk(Settings { disclosure, ..settings() }).await;
    let mut tokens = 0;
    for name in NAMES {
        let loaded = desk.call("load_tool", json!({ "name": name })).await;
        let said = structured(&loaded);
        tokens = said["tokens"].as_u64().unwrap();
        assert!(said["loaded_tokens"].as_u64().unwrap() <= 400, "{said}");
        assert_eq!(
            said["loaded"].as_array().unwrap().last(),
            Some(&json!(name)),
            "the one just loaded stays"
        );
    }
    let left = shown(&desk, "builder", None).len();
    assert_eq!(left as u64, 400 / tokens, "as many as fit of {tokens} tokens each");
    assert!(left > 1);
    let changes = desk.engine.loaded_changes();
    let full = Context { used: 199_000, window: 200_000 };
    desk.engine.note_context(&agent("builder"), None, full);
    assert_eq!(shown(&desk, "builder", None), ["paint"]);
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn lists_and_searches_tell_of_all_tools_and_say_when_there_are_more() {
    let disclosure =
        DisclosureSettings { min_tools: 3, l1_token_budget: 60, ..DisclosureSettings::default() };
    let desk = desk(Settings { disclosure, ..settings() }).await;
    let (mut seen, mut after, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let mut arguments = json!({});
        if let Some(after) = &after {
            arguments["after"] = json!(after);
        }
        let listed = structured(&desk.call("list_tools", arguments).await);
        let names: Vec<String> = listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        after = names.last().cloned();
        seen.extend(names);
        pages += 1;
        if listed["left"] == 0 {
            break;
        }
    }
    assert_eq!(seen, NAMES.iter().map(|name| (*name).to_owned()).collect());
    assert!(pages > 1, "it did not fit at once");
    let found = structured(&desk.call("search_tools", json!({ "query": "send a mail" })).await);
    assert_eq!(found["tools"][0]["name"], "mail.send");
    for odd in [json!({}), json!({ "Query": "mail" }), json!({ "query": 5 })] {
        assert_eq!(code(&desk.call("search_tools", odd).await), "bad_arguments");
    }
}
