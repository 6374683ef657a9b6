//! The gate that is killed: makes one call, and says what came of it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use contract::{AgentName, CallResult, CallStatus, Canonical, Found, Idempotency, Key, SafetyClass};
use engine::{Credential, Engine, Request};
use policy::{Over, Settings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::gate::calls;
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Opening, open, runtime, trusted};

/// The argument that makes our binary such a gate.
pub(crate) const ARGUMENT: &str = "__storm";

/// What a gate is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) home: PathBuf,
    pub(crate) workspace: PathBuf,
    /// Where payments are written down.
    pub(crate) book: PathBuf,
    pub(crate) store: String,
    pub(crate) deed: Deed,
    /// By which this round's call is told from others.
    pub(crate) round: u32,
    /// Where to be killed.
    pub(crate) point: Option<String>,
    /// What to do wrong.
    pub(crate) mistake: Option<String>,
    /// How many calls its budget has; nothing means that it has none.
    pub(crate) budget: Option<u64>,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Deed {
    Pay,
    Append,
    Make,
    /// Pays, and says yes to it.
    PayWithApproval,
    /// Says of every call whose outcome nobody knows that it happened.
    Reconcile,
}

impl Deed {
    /// The arguments of the call. No two rounds have the same.
    pub(crate) fn arguments(self, round: u32) -> Value {
        match self {
            Deed::Pay | Deed::PayWithApproval | Deed::Reconcile => json!({ "amount": round }),
            Deed::Append => json!({ "path": "effects", "content": format!("{round}\n") }),
            Deed::Make => {
                json!({ "command": "make", "args": ["-s", format!("ROUND={round}")], "profile": "build" })
            }
        }
    }

    fn tool(self) -> &'static str {
        match self {
            Deed::Pay | Deed::Reconcile => "pay",
            Deed::PayWithApproval => "wire",
            Deed::Append => "fs.append",
            Deed::Make => "shell",
        }
    }

    pub(crate) fn request(self, round: u32) -> Try<Request> {
        // Payments have a key of their own accord; the others have their caller's.
        let key = match self {
            Deed::Append | Deed::Make => Some(Key::parse(&format!("round-{round}"))?),
            Deed::Pay | Deed::PayWithApproval | Deed::Reconcile => None,
        };
        Ok(Request {
            agent: AgentName::parse(AGENT)?,
            task: None,
            tool: self.tool().to_owned(),
            arguments: Canonical::of(self.arguments(round))?,
            key,
            purpose: None,
            proposer: None,
        })
    }
}

/// Becomes such a gate if the arguments say so, and does not return then.
pub fn serve_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(ARGUMENT) {
        let done = drive(&arguments.next().unwrap_or_default());
        if let Err(error) = &done {
            let _ = writeln!(std::io::stderr(), "error: {error}");
        }
        std::process::exit(i32::from(done.is_err()));
    }
}

fn drive(orders: &str) -> Try<()> {
    let orders: Orders = serde_json::from_str(orders)?;
    if let Some(point) = &orders.point {
        store::crash::arm(point);
    }
    if let Some(mistake) = &orders.mistake {
        store::crash::seed(mistake);
    }
    tools::watch_points(store::crash::reach);
    let pay = Payment { idempotency: Idempotency::Required, ..Payment::into(orders.book.clone()) };
    let wire = Payment { name: "wire", safety: SafetyClass::Financial, ..Payment::into(orders.book.clone()) };
    let budgets = match orders.budget {
        Some(most) => calls(most, Over::Deny)?.budgets,
        None => Vec::new(),
    };
    let opening = Opening {
        tools: vec![pay.tool()?, wire.tool()?],
        store: Some(orders.store.clone()),
        ..Opening::with(Settings { budgets, ..trusted() })
    };
    let binary = std::env::current_exe()?;
    runtime()?.block_on(async {
        let engine = open(&binary, &orders.home, orders.workspace.clone(), opening).await?;
        let result = match orders.deed {
            Deed::Reconcile => {
                reconcile(&engine, &orders).await?;
                return Ok(());
            }
            Deed::PayWithApproval => pay_with_approval(&engine, &orders).await?,
            deed => call(&engine, deed.request(orders.round)?).await,
        };
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&result)?)?;
        Ok(())
    })
}

async fn call(engine: &Engine, request: Request) -> CallResult {
    engine.call(request, Duration::from_secs(5), CancellationToken::new()).await
}

async fn pay_with_approval(engine: &Engine, orders: &Orders) -> Try<CallResult> {
    let request = orders.deed.request(orders.round)?;
    let asked = engine.call(request.clone(), Duration::ZERO, CancellationToken::new()).await;
    if asked.status == CallStatus::Waiting {
        let credential = Credential::load_or_create(&orders.home)?;
        for question in engine.waiting().await? {
            let id = question.approval.id.as_str().to_owned();
            engine.answer(&id, store::Vote::Approve, None, &credential, "storm").await?;
        }
    }
    Ok(call(engine, request).await)
}

async fn reconcile(engine: &Engine, orders: &Orders) -> Try<()> {
    let credential = Credential::load_or_create(&orders.home)?;
    for call in engine.unresolved(100).await? {
        engine.reconcile(call.call_id.as_str(), Found::Happened, None, &credential).await?;
    }
    Ok(())
}
