//! Calls: made by agents, seen by whoever asked and by operators.

use std::time::Duration;

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use contract::{AgentName, CallId, CallResult, CallStatus, Canonical, Code, Key, OperatorName, TaskName};
use engine::MOST_TOGETHER;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::app::App;
use super::approvals::read_reason;
use super::body;
use super::caller::{Caller, single};
use super::gate::{CallRecord, Cancelled, Word, WordError};
use super::problem::Problem;
use super::shapes::{Calls, Ending, Results};

/// How long a waiting call blocks at most, in seconds.
const MOST_PATIENCE: u64 = 60;
/// How many calls are listed unless the reader says otherwise, and at most.
const LISTED: u32 = 50;
const MOST_LISTED: u32 = 500;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A call, as it is asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Which tool.
    tool: String,
    /// What its schema asks for; nothing means `{}`.
    #[serde(default)]
    arguments: Option<Value>,
    /// Calls of one task belong together.
    task: Option<TaskName>,
    /// Makes the call idempotent, where its tool takes one.
    key: Option<Key>,
    /// What it is for, in the agent's words.
    purpose: Option<String>,
    /// How long one that waits for people blocks.
    #[schemars(range(max = 60))]
    wait_seconds: Option<u64>,
}

impl Asked {
    pub(super) fn into_request(
        self,
        agent: AgentName,
        proposer: Option<OperatorName>,
    ) -> Result<engine::Request, Problem> {
        let arguments = self.arguments.unwrap_or_else(|| Value::Object(Map::new()));
        let arguments = Canonical::of(arguments).map_err(|error| Problem::bad_request(error.to_string()))?;
        let purpose = engine::Request::purpose_of(self.purpose.as_deref(), &arguments);
        Ok(engine::Request {
            agent,
            task: self.task,
            tool: self.tool,
            arguments,
            key: self.key,
            purpose,
            proposer,
        })
    }
}

pub(super) async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    let mut asked: Asked = body::read(request).await?;
    match (&key, &asked.key) {
        (Some(key), Some(other)) if key != other => {
            return Err(Problem::bad_request("`Idempotency-Key` and `key` name two different keys"));
        }
        (Some(_), None) => asked.key = key,
        _ => {}
    }
    let patience = patience_of(&app, asked.wait_seconds)?;
    let request = asked.into_request(caller.acting_agent()?.clone(), caller.proposer().cloned())?;
    // Nothing keeps running for a client that has gone, nor for a server that has waited long enough.
    let cancel = app.ending.child_token();
    let gone = cancel.clone().drop_guard();
    let result = app.gate.call(request, patience, cancel).await;
    gone.disarm();
    Ok(told(&result))
}

/// The key of a call, where it stands in a header.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    if !headers.contains_key(&IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let text = single(headers, &IDEMPOTENCY_KEY).unwrap_or_default();
    Key::parse(text).map(Some).map_err(|error| Problem::bad_request(format!("Idempotency-Key: {error}")))
}

/// Many calls at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedTogether {
    #[schemars(length(max = 1000))]
    calls: Vec<Asked>,
    /// How long those that wait for people block.
    #[schemars(range(max = 60))]
    wait_seconds: Option<u64>,
}

pub(super) async fn make_all(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: AskedTogether = body::read(request).await?;
    if asked.calls.len() > MOST_TOGETHER {
        return Err(Problem::bad_request(format!("{MOST_TOGETHER} calls at most are taken together")));
    }
    let patience = patience_of(&app, asked.wait_seconds)?;
    let agent = caller.acting_agent()?;
    let own_patience = |call: &Asked| call.wait_seconds.is_some();
    if asked.calls.iter().any(own_patience) {
        return Err(Problem::bad_request("`wait_seconds` is said once, for all calls"));
    }
    let requests: Result<Vec<_>, _> = asked
        .calls
        .into_iter()
        .map(|call| call.into_request(agent.clone(), caller.proposer().cloned()))
        .collect();
    let cancel = app.ending.child_token();
    let gone = cancel.clone().drop_guard();
    let batch = app.gate.call_all(requests?, patience, cancel).await;
    gone.disarm();
    Ok(body::json(StatusCode::OK, &Results { results: batch.results, panicked: batch.panicked }))
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wish): Query<ListWish>,
) -> Result<Response, Problem> {
    let most = wish.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED);
    // One more than is told says whether there are more.
    let mut calls = app.gate.calls(caller.only_own(), most + 1, wish.cursor.as_ref()).await?;
    let more = calls.len() > most as usize;
    calls.truncate(most as usize);
    let next = calls.last().filter(|_| more).map(|last| last.call_id.clone());
    Ok(body::json(StatusCode::OK, &Calls { calls, next }))
}

/// Which calls are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListWish {
    /// How many at most; 50 unless given.
    limit: Option<u32>,
    /// Those before a page: its `next`.
    cursor: Option<CallId>,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(wish): Query<ShowWish>,
) -> Result<Response, Problem> {
    let mut record = find(&app, &caller, &id).await?;
    // The agent collects its call, which may be due to run; an operator only looks.
    if let Some(agent) = caller.only_own() {
        let patience = patience(wish.wait_seconds.unwrap_or(0))?;
        let joined = app.gate.status(agent, &record.result.call_id, patience).await?;
        record.result = joined.ok_or_else(|| Problem::not_found("call"))?;
    }
    Ok(body::json(StatusCode::OK, &record))
}

/// How a call is looked at.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowWish {
    /// How long an agent waits for it to end.
    wait_seconds: Option<u64>,
}

pub(super) async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let record = find(&app, &caller, &id).await?;
    caller.check_changes()?;
    let id = &record.result.call_id;
    let conflict = |code, why: &str| Problem::new(StatusCode::CONFLICT, code, why);
    let by = match &caller {
        Caller::Agent(_) => None,
        Caller::Operator(operator) => Some((operator.credential.as_ref(), operator.via())),
    };
    match app.gate.cancel(id, by).await? {
        Cancelled::Ending => {
            Ok(body::json(StatusCode::ACCEPTED, &Ending { call_id: id.clone(), status: "ending" }))
        }
        Cancelled::Ended => Err(conflict("already_ended", "the call has ended")),
        Cancelled::NotHere => Err(conflict("not_here", "the call cannot be ended from here")
            .with_hint("one that waits ends when a person denies it, or when its time is over")),
        Cancelled::NotAllowed => {
            Err(Problem::new(StatusCode::FORBIDDEN, "may_not_decide", "they may not end calls of others"))
        }
    }
}

pub(super) async fn reconcile(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    let id = CallId::parse(&id).map_err(|_| Problem::not_found("call"))?;
    let mut word: Word = body::read(request).await?;
    word.reason = read_reason(word.reason)?;
    match app.gate.reconcile(&id, word, &operator.credential).await {
        Ok(result) => Ok(body::json(StatusCode::OK, &result)),
        Err(error) => {
            let told = error.to_string();
            Err(match error {
                WordError::Unknown => Problem::not_found("call"),
                WordError::Known { .. } => Problem::new(StatusCode::CONFLICT, "outcome_known", told),
                WordError::Forbidden { .. } => Problem::new(StatusCode::FORBIDDEN, "may_not_decide", told),
                WordError::Gate(error) => error.into(),
            })
        }
    }
}

/// A call, for those who may see it. One of another agent is as unknown as one that never was.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<CallRecord, Problem> {
    let unknown = || Problem::not_found("call");
    let id = CallId::parse(id).map_err(|_| unknown())?;
    let record = app.gate.record(&id).await?;
    // ATTACK(call-of-another)
    record.filter(|record| caller.only_own().is_none_or(|agent| *agent == record.agent)).ok_or_else(unknown)
}

/// How long a caller waits: as it says, else as is configured.
fn patience_of(app: &App, said: Option<u64>) -> Result<Duration, Problem> {
    match said {
        Some(seconds) => patience(seconds),
        None => Ok(app.gate.patience().min(Duration::from_secs(MOST_PATIENCE))),
    }
}

fn patience(seconds: u64) -> Result<Duration, Problem> {
    if seconds > MOST_PATIENCE {
        return Err(Problem::bad_request(format!("`wait_seconds` is {MOST_PATIENCE} at most")));
    }
    Ok(Duration::from_secs(seconds))
}

/// An answer to a call, with the status that says the same.
fn told(result: &CallResult) -> Response {
    let status = status_of(result);
    let mut response = body::json(status, result);
    if status == StatusCode::TOO_MANY_REQUESTS {
        let wait = result.reason.as_ref().and_then(|reason| reason.retry_after_ms).unwrap_or(1000);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000)));
    }
    response
}

fn status_of(result: &CallResult) -> StatusCode {
    let is_internal = result.reason.as_ref().is_some_and(|reason| reason.code == Code::Internal);
    match result.status {
        // Not even a receipt could be kept: the store is to blame, and nothing ran.
        CallStatus::Failed if result.receipt.is_none() && is_internal => StatusCode::SERVICE_UNAVAILABLE,
        CallStatus::Completed | CallStatus::Failed | CallStatus::Cancelled => StatusCode::OK,
        CallStatus::Planned | CallStatus::Waiting | CallStatus::Running => StatusCode::ACCEPTED,
        CallStatus::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        CallStatus::Refused => match result.reason.as_ref().map(|reason| reason.code) {
            Some(Code::BadArguments | Code::BadRequest) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(Code::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Some(Code::UnknownTool) => StatusCode::NOT_FOUND,
            Some(Code::KeyConflict) => StatusCode::CONFLICT,
            Some(Code::RateLimited | Code::OverBudget) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::FORBIDDEN,
        },
    }
}
