//! Every yes for more than one call, and how one is taken back.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use contract::ApprovalId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::app::App;
use super::approvals::{problem_of, read_reason};
use super::body;
use super::caller::Caller;
use super::problem::Problem;
use super::shapes::{Revoked, Standing};

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let standing = app.gate.standing().await?;
    Ok(body::json(StatusCode::OK, &Standing { now: app.gate.now(), standing }))
}

/// Why a yes is taken back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Revocation {
    #[serde(default)]
    reason: Option<String>,
}

/// When this has answered, nothing begins with that yes any more.
pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    let id = ApprovalId::parse(&id).map_err(|_| Problem::not_found("question"))?;
    let Revocation { reason } = body::read(request).await?;
    let reason = read_reason(reason)?;
    app.gate.revoke(&id, reason, &operator.credential).await.map_err(problem_of)?;
    Ok(body::json(StatusCode::OK, &Revoked { approval_id: id, state: "revoked" }))
}
