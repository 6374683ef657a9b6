//! The tokens of agents: another one, and none.

use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contract::AgentName;
use schemars::JsonSchema;
use serde::Serialize;
use store::TokenError;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::problem::Problem;

/// An agent's new token. It is not kept, and cannot be shown again.
#[derive(Serialize, JsonSchema)]
pub(super) struct NewToken {
    agent: AgentName,
    token: String,
}

/// Issues another token; the one before is nobody's when this has answered.
pub(super) async fn rotate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_admin()?;
    operator.check_there(&app)?;
    let agent = AgentName::parse(&name).map_err(|_| Problem::not_found("agent"))?;
    let token = app.gate.rotate_token(&agent, &operator.credential).await.map_err(problem_of)?;
    let token = token.ok_or_else(|| Problem::not_found("agent"))?.reveal().to_owned();
    Ok(body::json(StatusCode::CREATED, &NewToken { agent, token }))
}

/// Revokes it; it is nobody's when this has answered.
pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_admin()?;
    let agent = AgentName::parse(&name).map_err(|_| Problem::not_found("agent"))?;
    app.gate.revoke_token(&agent, &operator.credential).await.map_err(problem_of)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn problem_of(error: TokenError) -> Problem {
    let told = error.to_string();
    match error {
        TokenError::NotAdmin { .. } => Problem::new(StatusCode::FORBIDDEN, "admin_needed", told),
        TokenError::None { .. } => Problem::not_found("token"),
        TokenError::Taken { .. } | TokenError::Known => {
            Problem::new(StatusCode::CONFLICT, "token_taken", told)
        }
        TokenError::Random => Problem::no_random(),
        TokenError::Store(error) => Problem::of_store(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_random_bytes_is_not_blamed_on_the_store() {
        assert_eq!(problem_of(TokenError::Random).detail(), "the system gives no random bytes");
    }
}
