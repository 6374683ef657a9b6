//! Questions to people, and their answers.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use contract::ApprovalId;
use serde_json::json;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::gate::{DecideError, Decision};
use super::problem::Problem;

/// The longest reason, in characters.
const MAX_REASON: usize = 2000;

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let questions = app.gate.questions().await?;
    Ok(body::json(StatusCode::OK, &json!({ "now": app.gate.now(), "approvals": questions })))
}

pub(super) async fn decide(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    // Whole ids only: a prefix that meant one question may mean another when it arrives.
    let id = ApprovalId::parse(&id).map_err(|_| Problem::not_found("question"))?;
    let mut decision: Decision = body::read(request).await?;
    decision.reason = decision.reason.filter(|reason| !reason.trim().is_empty());
    if decision.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(Problem::bad_request(format!("the reason is longer than {MAX_REASON} characters")));
    }
    let answered = app.gate.decide(&id, decision, &operator.credential, operator.via()).await;
    answered.map(|answered| body::json(StatusCode::OK, &answered)).map_err(problem_of)
}

fn problem_of(error: DecideError) -> Problem {
    let told = error.to_string();
    match error {
        DecideError::Unknown => Problem::not_found("question"),
        DecideError::Closed { .. } => Problem::new(StatusCode::CONFLICT, "already_decided", told),
        DecideError::Expired => Problem::new(StatusCode::GONE, "expired", told)
            .with_hint("the agent can make the call again, which asks anew"),
        DecideError::Forbidden { .. } => Problem::new(StatusCode::FORBIDDEN, "may_not_decide", told),
        DecideError::Gate(error) => error.into(),
    }
}
