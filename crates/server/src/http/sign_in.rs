//! Signing in by a link, and out again.

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::app::App;
use super::body;
use super::caller::{Caller, session_cookie};
use super::guards::Guard;
use super::page;
use super::problem::Problem;
use super::shapes::{Me, SignInLink};

/// What stands in a sign-in link.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Code {
    /// Of a link that `toolgate up` has printed; without it, there is the page to sign in by passkey or password.
    code: Option<String>,
}

/// Uses a sign-in link up. The cookie goes where scripts cannot read it; the page token goes into the fragment, which
/// no server sees, and from there into the page's own storage. Without a link there is the page to sign in otherwise.
pub(super) async fn open(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    query: Query<Code>,
) -> Result<Response, Problem> {
    let Some(code) = &query.code else { return Ok(page::sign_in()) };
    if method != Method::GET {
        return Err(Problem::of_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let opened = app.sessions.open(code, app.gate.now()).map_err(|_| Problem::no_random())?;
    let Some((opened, whose)) = opened else {
        return Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/#link-used-up")]).into_response());
    };
    // Whatever the browser had before is not what it has now.
    if app.guards.stands(Guard::Sessions)
        && let Some(cookie) = session_cookie(&headers, &app.cookie_name)
    {
        app.sessions.close_of_cookie(cookie);
    }
    // Who comes in is on record before they are in.
    app.gate.came_by_link(&whose).await?;
    let cookie = HeaderValue::try_from(app.cookie(&opened.cookie)).map_err(|_| Problem::no_random())?;
    let location =
        HeaderValue::try_from(format!("/#page={}", opened.page)).map_err(|_| Problem::no_random())?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location), (header::SET_COOKIE, cookie)]).into_response())
}

/// A new link, for an operator who can prove to be one by credential: a session cannot make another.
pub(super) async fn new_link(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    if operator.session.is_some() {
        let detail = "a new link takes the operator's credential, not a session";
        return Err(Problem::new(StatusCode::FORBIDDEN, "credential_needed", detail));
    }
    let sign_in_url = app.new_link(operator.credential.clone()).await?;
    Ok(body::json(StatusCode::CREATED, &SignInLink { sign_in_url }))
}

/// Who is signed in, and what they may do.
pub(super) async fn whoami(Extension(caller): Extension<Caller>) -> Result<Response, Problem> {
    let person = &caller.operator()?.person;
    Ok(body::json(StatusCode::OK, &Me { operator: person.name.clone(), role: person.role }))
}

pub(super) async fn close(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    if let Some(session) = operator.session {
        app.sessions.close(session);
        app.gate.sign_out(&operator.credential).await?;
    }
    let cookie = HeaderValue::try_from(app.no_cookie()).map_err(|_| Problem::no_random())?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
