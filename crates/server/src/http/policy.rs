//! What another configuration would have said of recorded calls.

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::gate::{Simulate, SimulateError};
use super::problem::Problem;

/// Decides recorded calls by a candidate. Runs nothing and records nothing; one at a time, since it takes every processor.
pub(super) async fn simulate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    caller.operator()?.check_more_than_looks()?;
    let wish: Simulate = body::read(request).await?;
    let busy = || {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", "another candidate is tried at the moment")
            .with_hint("try again when it has been answered")
    };
    let _turn = app.simulations.try_acquire().map_err(|_| busy())?;
    let simulated = app.gate.simulate(wish).await.map_err(|error| match error {
        SimulateError::NotSo { why } => Problem::bad_request(why),
        SimulateError::Gate(error) => error.into(),
    })?;
    Ok(body::json(StatusCode::OK, &simulated))
}
