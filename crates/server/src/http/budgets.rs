//! Every budget, and what is left of it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::app::App;
use super::body;
use super::problem::Problem;

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let budgets = app.gate.budgets().await?;
    Ok(body::json(StatusCode::OK, &json!({ "now": app.gate.now(), "budgets": budgets })))
}
