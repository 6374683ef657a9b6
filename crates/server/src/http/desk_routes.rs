//! The routes behind the console's pages. They look; but for a reading of what a call keeps private, which the ledger has
//! first, and the verification of the whole ledger, which goes on by itself, they change nothing.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use contract::{ApprovalId, CallId, ToolName, chain};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::desk::ReadingError;
use super::problem::Problem;

/// How many entries of the ledger are listed unless somebody says otherwise, and at most.
const LISTED: u32 = 50;
const MOST_LISTED: u32 = 200;

pub(super) async fn question(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let unknown = || Problem::not_found("question");
    let id = ApprovalId::parse(&id).map_err(|_| unknown())?;
    let review = app.gate.review(&id).await?.ok_or_else(unknown)?;
    Ok(body::json(StatusCode::OK, &review))
}

pub(super) async fn story(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let story = app.gate.story(&call(&id)?).await?.ok_or_else(no_call)?;
    Ok(body::json(StatusCode::OK, &story))
}

pub(super) async fn receipt(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let receipt = app.gate.receipt(&call(&id)?).await?;
    let receipt = receipt.ok_or_else(|| Problem::not_found("receipt"))?;
    Ok(body::json(StatusCode::OK, &receipt))
}

/// What a call keeps private is for admins, and the ledger has it that they looked.
pub(super) async fn reading(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    // ATTACK(reads-private)
    operator.check_admin()?;
    let reading = app.gate.reading(&call(&id)?, &operator.credential).await.map_err(|error| {
        let told = error.to_string();
        match error {
            ReadingError::Unknown => no_call(),
            ReadingError::Erased => Problem::new(StatusCode::GONE, "erased", told),
            ReadingError::Forbidden { .. } => Problem::new(StatusCode::FORBIDDEN, "admin_needed", told),
            ReadingError::Gate(error) => error.into(),
        }
    })?;
    Ok(body::json(StatusCode::OK, &reading))
}

pub(super) async fn registry(State(app): State<App>) -> Result<Response, Problem> {
    Ok(body::json(StatusCode::OK, &json!({ "tools": app.gate.registry().await? })))
}

pub(super) async fn registered(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found("tool");
    let name = ToolName::parse(&name).map_err(|_| unknown())?;
    let tool = app.gate.registered(&name).await?.ok_or_else(unknown)?;
    Ok(body::json(StatusCode::OK, &tool))
}

pub(super) async fn agents(State(app): State<App>) -> Result<Response, Problem> {
    let agents = app.gate.agents().await?;
    Ok(body::json(StatusCode::OK, &json!({ "now": app.gate.now(), "agents": agents })))
}

pub(super) async fn egress(
    State(app): State<App>,
    Query(wish): Query<PageWish>,
) -> Result<Response, Problem> {
    Ok(body::json(StatusCode::OK, &app.gate.egress(wish.before).await?))
}

pub(super) async fn overview(State(app): State<App>) -> Result<Response, Problem> {
    Ok(body::json(StatusCode::OK, &app.gate.overview().await?))
}

pub(super) async fn policy(State(app): State<App>) -> Result<Response, Problem> {
    Ok(body::json(StatusCode::OK, &app.gate.policy().await?))
}

/// The newest entries of the ledger, and what the last verification found.
pub(super) async fn entries(
    State(app): State<App>,
    Query(wish): Query<PageWish>,
) -> Result<Response, Problem> {
    let most = wish.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED);
    let mut told = app.gate.entries(wish.before, most).await?;
    if let Some(members) = told.as_object_mut() {
        members.insert("verification".to_owned(), app.verification.told());
    }
    Ok(body::json(StatusCode::OK, &told))
}

/// Begins to go through the whole ledger, one at a time: it takes longer the longer that is. `GET` says what was found.
pub(super) async fn verify(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    caller.operator()?.check_more_than_looks()?;
    let Ok(turn) = Arc::clone(&app.verification.turn).try_acquire_owned() else {
        return Ok(body::json(StatusCode::ACCEPTED, &app.verification.told()));
    };
    app.verification.set(json!({ "state": "running", "began_at": app.gate.now() }));
    let begun = app.verification.told();
    let owner = app.clone();
    app.tasks.spawn(async move {
        let _turn = turn;
        let stop = owner.shutdown.clone();
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = owner.gate.verify() => found,
        };
        let mut found = found.unwrap_or_else(|error| {
            tracing::error!(error = chain(&error), "the ledger was not verified");
            json!({ "state": "failed", "why": "the store did not answer" })
        });
        if let Some(members) = found.as_object_mut() {
            members.insert("ended_at".to_owned(), json!(owner.gate.now()));
        }
        owner.verification.set(found);
    });
    Ok(body::json(StatusCode::ACCEPTED, &begun))
}

/// What the last verification of this gate found.
pub(super) struct Verification {
    turn: Arc<Semaphore>,
    found: Mutex<Value>,
}

impl Default for Verification {
    fn default() -> Verification {
        Verification { turn: Arc::new(Semaphore::new(1)), found: Mutex::new(json!({ "state": "never" })) }
    }
}

impl Verification {
    fn told(&self) -> Value {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, found: Value) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

/// Which page of a list is shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageWish {
    before: Option<u64>,
    limit: Option<u32>,
}

fn call(id: &str) -> Result<CallId, Problem> {
    CallId::parse(id).map_err(|_| no_call())
}

fn no_call() -> Problem {
    Problem::not_found("call")
}
