//! What another configuration would have said of recorded calls.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::gate::{Simulate, SimulateError};
use super::problem::Problem;

/// Decides recorded calls by a candidate, and runs nothing; one at a time, since it takes every processor.
pub(super) async fn simulate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_more_than_looks()?;
    let by = operator.person.name.clone();
    let wish: Simulate = body::read(request).await?;
    let busy = || {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", "another candidate is tried at the moment")
            .with_hint("try again when it has been answered")
    };
    let turn = Arc::clone(&app.simulations).try_acquire_owned().map_err(|_| busy())?;
    // In a task of its own: the turn is over when the work is, and not when whoever asked hangs up.
    let work = tokio::spawn(async move {
        let _turn = turn;
        app.gate.simulate(wish, &by).await
    });
    let simulated =
        work.await.map_err(|_| Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR))?.map_err(|error| {
            match error {
                SimulateError::NotSo { why } => Problem::bad_request(why),
                SimulateError::Gate(error) => error.into(),
            }
        })?;
    Ok(body::json(StatusCode::OK, &simulated))
}
