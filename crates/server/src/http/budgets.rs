//! Every budget, and what is left of it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::app::App;
use super::body;
use super::problem::Problem;
use super::shapes::Budgets;

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let budgets = app.gate.budgets().await?;
    Ok(body::json(StatusCode::OK, &Budgets { now: app.gate.now(), budgets }))
}
