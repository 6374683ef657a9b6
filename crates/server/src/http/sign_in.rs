//! Signing in by a link, and out again.

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Code {
    code: String,
}

/// Uses a sign-in link up. The cookie goes where scripts cannot read it; the page token goes into the fragment, which
/// no server sees, and from there into the page's own storage.
pub(super) async fn open(
    State(app): State<App>,
    method: Method,
    query: Query<Code>,
) -> Result<Response, Problem> {
    if method != Method::GET {
        return Err(Problem::of_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let opened = app.doors.open(&query.code, app.gate.now()).map_err(|_| Problem::no_random())?;
    let Some(opened) = opened else {
        return Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/#link-used-up")]).into_response());
    };
    let cookie =
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200", app.cookie_name, opened.cookie);
    let cookie = HeaderValue::try_from(cookie).map_err(|_| Problem::no_random())?;
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
    let url = app.sign_in_url(operator.credential.clone()).map_err(|_| Problem::no_random())?;
    Ok(body::json(StatusCode::CREATED, &json!({ "sign_in_url": url })))
}

/// Who is signed in, and what they may do.
pub(super) async fn whoami(Extension(caller): Extension<Caller>) -> Result<Response, Problem> {
    let person = &caller.operator()?.person;
    Ok(body::json(StatusCode::OK, &json!({ "operator": person.name, "role": person.role })))
}

pub(super) async fn close(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    if let Some(session) = caller.operator()?.session {
        app.doors.close(session);
    }
    let cookie = format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", app.cookie_name);
    let cookie = HeaderValue::try_from(cookie).map_err(|_| Problem::no_random())?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
