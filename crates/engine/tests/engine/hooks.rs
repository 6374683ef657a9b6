//! Hooks before and after a call.

use std::sync::Arc;

use contract::{CallStatus, Output};
use engine::{Credential, Finished, Hearing, Hook, HookError, Objection, Proposed, Remark};
use policy::{HookSettings, HookTime, Settings, ToolGlob};
use serde_json::json;
use store::{Vote, verify_receipt};

use crate::desk::{Desk, code, settings};

const TOKEN: &str = "ghp_7Kq2mZx9LbT4vWc8RnY1sHd6PfJ3aGuE5oQi";

/// Says what the argument `what` names.
struct Minder;

impl Hook for Minder {
    fn name(&self) -> &str {
        "minder"
    }

    fn before<'a>(&'a self, call: &'a Proposed) -> Hearing<'a, Objection> {
        let what = call.arguments.value()["what"].as_str().unwrap_or_default().to_owned();
        assert!(what != "trips", "SECRET of the hook, before there is a future");
        Box::pin(async move {
            match what.as_str() {
                "deny" => Ok(Objection::Deny("not \u{202e}today".to_owned())),
                "please" => Ok(Objection::Ask("look at it".to_owned())),
                "broken" => Err(HookError { why: "SECRET of the hook".to_owned() }),
                "falls" => panic!("SECRET of the hook"),
                "silent" => std::future::pending().await,
                _ => Ok(Objection::None),
            }
        })
    }

    fn after<'a>(&'a self, _call: &'a Finished, output: &'a Output) -> Hearing<'a, Remark> {
        assert!(output.content != "did: trip", "SECRET of the hook, before there is a future");
        Box::pin(async move {
            match output.content.as_str() {
                "did: remark" => Ok(Remark::Found(vec!["odd".to_owned(); 99])),
                "did: repeat" => Ok(Remark::Found(vec![format!("{}{TOKEN}", "x ".repeat(235))])),
                "did: withhold" => Ok(Remark::Withhold("it is odd".to_owned())),
                "did: break" => Err(HookError { why: "SECRET of the hook".to_owned() }),
                "did: fall" => panic!("SECRET of the hook"),
                _ => Ok(Remark::None),
            }
        })
    }
}

async fn desk() -> Desk {
    let desk = Desk::open(settings()).await;
    assert!(desk.engine.set_hooks(vec![Arc::new(Minder)]));
    assert!(!desk.engine.set_hooks(Vec::new()), "nobody takes them away");
    desk
}

#[tokio::test]
async fn a_hook_can_deny_and_one_that_fails_has_denied() {
    let desk = desk().await;
    for (what, expected) in [
        ("deny", "denied_by_hook"),
        ("broken", "hook_failed"),
        ("falls", "hook_failed"),
        ("trips", "hook_failed"),
    ] {
        let result = desk.call("do", json!({ "what": what })).await;
        assert_eq!((result.status, code(&result)), (CallStatus::Refused, expected), "{what}");
        assert!(result.receipt.is_some() && !result.content.contains("SECRET"), "{}", result.content);
        assert!(!result.content.contains('\u{202e}'));
    }
    assert_eq!(desk.runs(), 0);
    assert_eq!(desk.call("do", json!({ "what": "x" })).await.status, CallStatus::Completed);
}

#[tokio::test]
async fn a_hook_that_never_answers_has_denied() {
    let desk = desk().await;
    let result = desk.call("do", json!({ "what": "silent" })).await;
    assert_eq!((code(&result), desk.runs()), ("hook_failed", 0));
}

#[tokio::test]
async fn a_hook_can_have_people_asked_and_their_yes_is_enough() {
    let desk = desk().await;
    let waiting = desk.call("do", json!({ "what": "please" })).await;
    assert_eq!((waiting.status, desk.runs()), (CallStatus::Waiting, 0));
    let approval = waiting.approval.unwrap();
    assert_eq!(approval.why, "hook `minder`: look at it");
    let credential = Credential::load_or_create(desk.home.path()).unwrap();
    desk.engine.answer(approval.id.as_str(), Vote::Approve, None, &credential, "test").await.unwrap();
    let result = desk.call("do", json!({ "what": "please" })).await;
    assert_eq!((result.status, desk.runs()), (CallStatus::Completed, 1));
}

#[tokio::test]
async fn no_hook_allows_what_is_denied_or_asked() {
    let desk = desk().await;
    assert_eq!(code(&desk.call("nothing", json!({})).await), "unknown_tool");
    assert_eq!(desk.call("do", json!({ "what": "ask" })).await.status, CallStatus::Waiting);
    assert_eq!(desk.runs(), 0);
}

#[tokio::test]
async fn a_hook_can_remark_and_withhold_and_one_that_fails_has_withheld() {
    let desk = desk().await;
    let result = desk.call("do", json!({ "what": "remark" })).await;
    assert_eq!((result.status, result.content.as_str()), (CallStatus::Completed, "did: remark"));
    let store = desk.engine.store();
    let envelope = store.receipt(&result.call_id).await.unwrap().unwrap();
    let remarks = verify_receipt(&envelope, store.keys().public()).unwrap().run.unwrap().remarks;
    assert_eq!(remarks["minder"].len(), 32);
    for (what, expected) in
        [("withhold", "withheld"), ("break", "hook_failed"), ("fall", "hook_failed"), ("trip", "hook_failed")]
    {
        let result = desk.call("do", json!({ "what": what })).await;
        assert_eq!((result.status, code(&result)), (CallStatus::Failed, expected), "{what}");
        assert!(!result.content.contains("did:") && !result.content.contains("SECRET"), "{}", result.content);
        assert_eq!(result.structured, None);
    }
}

#[tokio::test]
async fn what_a_hook_repeats_is_cleaned_before_it_is_cut() {
    let desk = desk().await;
    let result = desk.call("do", json!({ "what": "repeat" })).await;
    let store = desk.engine.store();
    let envelope = store.receipt(&result.call_id).await.unwrap().unwrap();
    let remarks = verify_receipt(&envelope, store.keys().public()).unwrap().run.unwrap().remarks;
    let remark = &remarks["minder"][0];
    assert!(remark.starts_with("x x ") && !remark.contains("ghp_7Kq2"), "{remark}");
}

#[tokio::test]
async fn where_no_walls_can_be_raised_a_program_has_denied_and_others_calls_run() {
    let command = std::path::PathBuf::from("/usr/bin/env");
    let hook = HookSettings {
        name: "minder".to_owned(),
        digest: tools::examine_program(&command).unwrap(),
        command,
        arguments: vec!["echo".to_owned(), "{}".to_owned()],
        when: HookTime::Before,
        tools: vec![ToolGlob::parse("do").unwrap()],
        timeout: 1000,
    };
    // The desk has no program that could build a sandbox.
    let desk = Desk::open(Settings { hooks: vec![hook], ..settings() }).await;
    let result = desk.call("do", json!({ "what": "x" })).await;
    assert_eq!((result.status, code(&result), desk.runs()), (CallStatus::Refused, "hook_failed", 0));
    assert_eq!(desk.call("do.more", json!({ "what": "x" })).await.status, CallStatus::Completed);
}
