//! How many pages of its file a call has SQLite write: each costs two writes into the log, and one into the file later.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

use std::fs;
use std::path::Path;

use contract::{AgentName, CallId, CallStatus, Digest, Rate, ReceiptBody, SafetyClass, ToolName};
use serde_json::{Value, json};
use sqlx::{AnyConnection, Connection, Executor};
use store::{Allowance, Course, Durable, Keys, NewCall, Recorded, Sameness, Settlement, Store, danger};

/// Where SQLite's index of the log says how many pages are in that.
const PAGES: std::ops::Range<usize> = 16..20;

/// Text of a length that is common where it stands.
fn text(length: usize) -> Value {
    json!("x".repeat(length))
}

fn call(number: u64) -> NewCall {
    let digest = Digest::of(&number.to_be_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    NewCall {
        id: CallId::from_random(id),
        agent: AgentName::parse("default").unwrap(),
        task: None,
        tool: ToolName::parse("fs.read").unwrap(),
        contract: Digest::of(b"contract"),
        request: Digest::of(b"request"),
        arguments: Digest::of(br#"{"path":"README.md"}"#),
        arguments_json: r#"{"path":"README.md"}"#.to_owned(),
        policy: Digest::of(b"policy"),
        purpose: None,
        trace: text(250),
        safety: SafetyClass::Read,
        asked_at: 1_790_000_000_000 + i64::try_from(number).unwrap() * 10,
        claim: None,
        course: Course::Run { authority: text(560) },
    }
}

fn settlement(call: &NewCall) -> Settlement {
    let body = ReceiptBody {
        version: 2,
        call_id: call.id.clone(),
        agent: call.agent.clone(),
        task: None,
        // For all that a run says of its sandbox.
        purpose: Some("x".repeat(2500)),
        tool: call.tool.clone(),
        contract: call.contract,
        request: call.request,
        arguments: call.arguments,
        policy: call.policy,
        approval: None,
        operands: None,
        status: CallStatus::Completed,
        reason: None,
        run: None,
        cost: None,
        asked_at: call.asked_at,
        settled_at: call.asked_at + 1,
        reconciled: None,
    };
    let (call, status, result) = (call.id.clone(), CallStatus::Completed, text(600).to_string());
    Settlement { call, status, result, raw: None, artifacts: Vec::new(), now: body.settled_at, body }
}

async fn make(store: &Store, call: NewCall) {
    let rate = Rate { max_calls: 5000, window_ms: 60_000 };
    let same = Sameness { agent: &call.agent, task: None, tool: &call.tool, request: call.request };
    store.outlook(same, call.asked_at).await.unwrap();
    let settlement = settlement(&call);
    let allowances = [Allowance { tools: None, rate }];
    let recorded = store.record_charged(call, &allowances, None, Durable::WithNext).await.unwrap();
    assert!(matches!(recorded, Recorded::New { .. }), "{recorded:?}");
    store.settle(&settlement).await.unwrap();
}

/// As long as it is not begun anew. The log itself stays as long as it ever was.
fn pages_in_log(index: &Path) -> u64 {
    let index = fs::read(index).unwrap();
    u32::from_ne_bytes(index.get(PAGES).unwrap().try_into().unwrap()).into()
}

#[tokio::test]
async fn a_call_has_35_pages_of_2_kib_written_at_most_on_average() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", home.path().join("store.db").display());
    let store = Store::open(&url, Keys::load_or_create(home.path()).unwrap()).await.unwrap();
    make(&store, call(0)).await;
    for calls in (1..2000).collect::<Vec<u64>>().chunks(500) {
        let calls = calls.iter().map(|number| call(*number));
        let calls = calls.map(|call| (call.clone(), settlement(&call))).collect();
        danger::record_many(&store, calls).await.unwrap();
    }
    // As long as somebody looks at what was before, the log only grows.
    let mut looking = AnyConnection::connect(&url).await.unwrap();
    looking.execute("BEGIN; SELECT count(*) FROM calls").await.unwrap();
    let (size,): (i64,) = sqlx::query_as("PRAGMA page_size").fetch_one(&mut looking).await.unwrap();
    assert_eq!(size, 2048);
    let index = home.path().join("store.db-shm");
    make(&store, call(2000)).await;
    let before = pages_in_log(&index);
    let made = 200;
    for number in 0..made {
        make(&store, call(3000 + number)).await;
    }
    let pages = pages_in_log(&index) - before;
    looking.close().await.unwrap();
    store.close().await;
    assert!(pages >= 10 * made, "the log was begun anew: {pages} pages for {made} calls");
    assert!(pages <= 35 * made, "{pages} pages for {made} calls");
}
