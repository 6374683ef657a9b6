//! The people who decide: shown to each other, let in and removed by admins.
//!
//! # Invariants
//! - Nobody becomes an operator, and none stops being one, but by an admin who has proved a moment ago to be there.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contract::OperatorName;
use engine::PeopleError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{AddOperatorError, ChangeOperatorError, OperatorRow, Role};

use super::app::App;
use super::body;
use super::caller::Caller;
use super::problem::Problem;

/// Everybody who decides.
#[derive(Serialize, JsonSchema)]
pub(super) struct Operators {
    /// By name.
    operators: Vec<ShownOperator>,
}

/// Somebody who decides, or did.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownOperator {
    operator: OperatorName,
    role: Role,
    /// Since when, in milliseconds since 1970.
    added_at: i64,
    /// Since when not any more; nothing for those who are.
    removed_at: Option<i64>,
}

/// Somebody who is to decide, or to look.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOperator {
    /// What they are called from then on; a name is not given twice.
    #[schemars(length(min = 1, max = 64))]
    operator: String,
    role: Role,
}

/// Somebody who was added. What they come in with is not kept, and cannot be shown again.
#[derive(Serialize, JsonSchema)]
pub(super) struct AddedOperator {
    operator: OperatorName,
    role: Role,
    /// Their credential.
    credential: String,
    /// Signs them in once, within ten minutes.
    sign_in_url: String,
}

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let operators = app.gate.operators().await?.into_iter().map(shown).collect();
    Ok(body::json(StatusCode::OK, &Operators { operators }))
}

/// Adds somebody; they are one when this has answered.
pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let by = caller.operator()?;
    by.check_admin()?;
    // ATTACK(left-open): a page that was left open lets nobody in.
    by.check_there(&app)?;
    let NewOperator { operator, role } = body::read(request).await?;
    let operator = OperatorName::parse(&operator).map_err(|error| Problem::bad_request(error.to_string()))?;
    let credential = app.gate.add_operator(&operator, role, &by.credential).await.map_err(problem_of)?;
    let credential = Arc::new(credential);
    let sign_in_url = app.new_link(Arc::clone(&credential)).await?;
    let credential = credential.reveal().to_owned();
    Ok(body::json(StatusCode::CREATED, &AddedOperator { operator, role, credential, sign_in_url }))
}

/// Removes somebody; nothing they say counts when this has answered, and their sessions are over.
pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let by = caller.operator()?;
    by.check_admin()?;
    by.check_there(&app)?;
    let name = OperatorName::parse(&name).map_err(|_| Problem::not_found("operator"))?;
    app.gate.remove_operator(&name, &by.credential).await.map_err(problem_of)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn shown(row: OperatorRow) -> ShownOperator {
    let OperatorRow { name, role, added_at, revoked_at, .. } = row;
    ShownOperator { operator: name, role, added_at, removed_at: revoked_at }
}

fn problem_of(error: PeopleError) -> Problem {
    let told = error.to_string();
    match error {
        PeopleError::NotAnOperator
        | PeopleError::Add(AddOperatorError::NotAdmin { .. })
        | PeopleError::Change(ChangeOperatorError::NotAdmin { .. }) => {
            Problem::new(StatusCode::FORBIDDEN, "admin_needed", told)
        }
        PeopleError::Add(AddOperatorError::NameTaken { .. } | AddOperatorError::CredentialTaken)
        | PeopleError::Change(ChangeOperatorError::CredentialTaken) => {
            Problem::new(StatusCode::CONFLICT, "name_taken", told)
        }
        PeopleError::Change(ChangeOperatorError::Unknown { .. }) => Problem::not_found("operator"),
        PeopleError::Change(ChangeOperatorError::LastAdmin { .. }) => {
            Problem::new(StatusCode::CONFLICT, "last_admin", told)
        }
        PeopleError::Credential(_) => Problem::no_random(),
        PeopleError::Add(AddOperatorError::Store(error))
        | PeopleError::Change(ChangeOperatorError::Store(error)) => Problem::of_store(&error),
        PeopleError::Engine(error) => Problem::of_store(&error),
    }
}
