//! The ledger's proofs. A checkpoint is a size, a hash and a signature, for anyone who wants to keep it; a proof holds
//! the entry itself, which is for operators.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::body;
use super::problem::Problem;

pub(super) async fn checkpoint(State(app): State<App>) -> Result<Response, Problem> {
    let note = app.gate.checkpoint().await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], note).into_response())
}

pub(super) async fn proof(State(app): State<App>, Path(seq): Path<String>) -> Result<Response, Problem> {
    let unknown = || Problem::not_found("ledger entry");
    let seq = seq.parse::<u64>().map_err(|_| unknown())?;
    let proof = app.gate.proof(seq).await?.ok_or_else(unknown)?;
    Ok(body::json(StatusCode::OK, &proof))
}
