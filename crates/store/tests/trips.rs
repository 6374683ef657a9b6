//! How much a call says to the database: to a server each statement is a way there and back.
//!
//! A program of its own, because it listens to all that is said to any database.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

use std::sync::{Arc, Mutex};

use contract::{AgentName, CallId, CallStatus, Digest, Rate, ReceiptBody, SafetyClass, ToolName};
use serde_json::json;
use store::{Allowance, Course, Keys, NewCall, Recorded, Sameness, Settlement, Store};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// The texts that went to the database, each of them by itself.
#[derive(Clone, Default)]
struct Trips(Arc<Mutex<Vec<String>>>);

impl Trips {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// One text: as a summary if it is short, else as a statement.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, text: &str) {
        let is_longer = field.name() == "db.statement" && !text.is_empty();
        if field.name() == "summary" || is_longer {
            text.trim().clone_into(&mut self.0);
        }
    }
}

impl<S: Subscriber> Layer<S> for Trips {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "sqlx::query" {
            let mut text = Text::default();
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }
    }
}

fn call(number: u8) -> NewCall {
    NewCall {
        id: CallId::from_random([number; 16]),
        agent: AgentName::parse("a").unwrap(),
        task: None,
        tool: ToolName::parse("fs.read").unwrap(),
        contract: Digest::of(b"contract"),
        request: Digest::of(b"request"),
        arguments: Digest::of(b"{}"),
        arguments_json: "{}".to_owned(),
        policy: Digest::of(b"policy"),
        purpose: None,
        trace: json!([]),
        safety: SafetyClass::Read,
        asked_at: 1,
        claim: Some(format!("key {number}")),
        course: Course::Run { authority: json!({}) },
    }
}

fn settlement(call: &NewCall) -> Settlement {
    let body = ReceiptBody {
        version: 2,
        call_id: call.id.clone(),
        agent: call.agent.clone(),
        task: None,
        purpose: None,
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
        asked_at: 1,
        settled_at: 2,
        reconciled: None,
    };
    let (id, status, result) = (call.id.clone(), CallStatus::Completed, json!("done").to_string());
    Settlement { call: id, status, body, result, raw: None, artifacts: Vec::new(), now: 2 }
}

/// All that is said to the database of a new store by so many calls, from its opening to its closing.
async fn said_by(calls: u8, trips: &Trips) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", home.path().join("store.db").display());
    let store = Store::open(&url, Keys::load_or_create(home.path()).unwrap()).await.unwrap();
    let rate = Rate { max_calls: 50, window_ms: 60_000 };
    let allowances = [Allowance { tools: None, rate }, Allowance { tools: None, rate }];
    for number in 0..calls {
        let next = call(number);
        let same = Sameness { agent: &next.agent, task: None, tool: &next.tool, request: next.request };
        let outlook = store.outlook(same, 1).await.unwrap();
        assert_eq!((outlook.is_anything_due, outlook.waiting), (false, None));
        let recorded = store.record_within(next.clone(), &allowances).await.unwrap();
        assert!(matches!(recorded, Recorded::New { .. }), "{recorded:?}");
        store.settle(&settlement(&next)).await.unwrap();
    }
    store.close().await;
    let mut said = trips.take();
    // How many connections there are is a matter of chance, and so is how often one is told how to behave.
    // That a look begins is told to a file, which takes one lock for it, and not to a server.
    said.retain(|text| !text.starts_with("PRAGMA") && text != "BEGIN");
    said
}

#[tokio::test]
async fn a_call_takes_3_statements_to_be_decided_18_to_be_recorded_and_9_to_be_settled() {
    let trips = Trips::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(trips.clone())).unwrap();
    // The first ones prove what the ledger tells of people, and write down which gate this is. Among eight calls one forgets
    // what is old.
    let (fewer, more) = (said_by(3, &trips).await, said_by(11, &trips).await);
    let added = |is_such: fn(&&String) -> bool| {
        more.iter().filter(is_such).count() - fewer.iter().filter(is_such).count()
    };
    assert_eq!(added(|_| true), 8 * 30 + 1, "{more:#?}");
    assert_eq!(added(|text| text.starts_with("DELETE FROM spent")), 1, "{more:#?}");
    // What this gate has begun is not read again.
    assert_eq!(added(|text| text.contains("WHERE c.id = $1")), 0, "{more:#?}");
    // Two transactions, in which nothing waits but for the lock.
    assert_eq!(added(|text| *text == "BEGIN IMMEDIATE"), 2 * 8, "{more:#?}");
    assert_eq!(added(|text| *text == "COMMIT"), 2 * 8, "{more:#?}");
}
