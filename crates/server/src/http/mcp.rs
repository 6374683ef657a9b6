//! Where MCP clients come in, and what those are told who may not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use contract::Digest;
use engine::RefusedToken;
use hyper::body::{Frame, SizeHint};

use super::app::App;
use super::body;
use super::caller::{Caller, bearer};
use super::ended::Bearer;
use super::guards::Guard;
use super::oauth::NotLetIn;
use super::problem::{Problem, ProblemCode};
use super::room::Held;
use super::shapes::ProtectedResource;
use crate::mcp::{Door, Visitor};

/// The one address of MCP.
pub(super) const PATH: &str = "/mcp";

/// A message.
pub(super) async fn say(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(held): Extension<Arc<Held>>,
    request: Request,
) -> Result<Response, Problem> {
    let (door, visitor) = enter(&app, &caller, request.headers())?;
    let bearer = request.extensions().get().cloned();
    let (parts, content) = request.into_parts();
    let text = body::read_text(Request::from_parts(parts.clone(), content)).await?;
    Ok(kept(door.answer(visitor, parts, text).await, held, bearer))
}

/// Waits for what the gate has to say by itself, or for the rest of an answer.
pub(super) async fn listen(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(held): Extension<Arc<Held>>,
    request: Request,
) -> Result<Response, Problem> {
    let (door, visitor) = enter(&app, &caller, request.headers())?;
    let bearer = request.extensions().get().cloned();
    Ok(kept(door.answer_without_message(visitor, request.into_parts().0).await, held, bearer))
}

/// Ends a session.
pub(super) async fn leave(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (door, visitor) = enter(&app, &caller, request.headers())?;
    Ok(door.answer_without_message(visitor, request.into_parts().0).await)
}

/// What this address is, as RFC 9728 has it.
pub(super) async fn metadata(State(app): State<App>) -> Response {
    let settings = app.access_tokens.as_ref().map(|tokens| &tokens.settings);
    let about = ProtectedResource {
        resource: resource(&app),
        resource_name: "Toolgate",
        bearer_methods_supported: ["header"],
        authorization_servers: settings.map(|settings| vec![settings.issuer.to_string()]),
        scopes_supported: settings.map(|settings| settings.scopes.clone()),
    };
    body::json(StatusCode::OK, &about)
}

/// Who is at the door. A token that lets nobody in is on record, as long as there are not too many of them.
pub(super) async fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let caller = who(app, headers).await;
    // Whatever they have left open ends with the credential.
    if let (Err(problem), Some(token), Some(door)) = (&caller, bearer(headers), &app.mcp)
        && problem.status() == StatusCode::UNAUTHORIZED
        && app.guards.stands(Guard::Endings)
    {
        door.forget(Digest::of(token.as_bytes())).await;
    }
    if let (Err(problem), Some(_)) = (&caller, bearer(headers))
        // ATTACK(flood-of-tokens): anybody can have a token refused, and the ledger is forever.
        && let Some(unrecorded) = app.refused_tokens.take(app.gate.now())
    {
        let (code, why) = (problem.code(), problem.detail());
        // It is refused whether or not that can be recorded.
        let _ = app.gate.tell_refused_token(RefusedToken { door: "mcp", code, why, unrecorded }).await;
    }
    caller
}

/// Whoever they are elsewhere, or an agent by a token of the issuer that is let in here.
pub(super) async fn who(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let read = Caller::read(app, headers).await;
    let (Err(_), Some(tokens), Some(token)) = (&read, &app.access_tokens, bearer(headers)) else {
        return read;
    };
    if !token.contains('.') {
        return read;
    }
    match tokens.agent_of(token, &resource(app), app.gate.now()).await {
        Ok(agent) => Caller::agent(agent, headers),
        Err(NotLetIn::Invalid(why)) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "invalid_token",
            format!("the token does not count: {why}"),
        )),
        Err(NotLetIn::Scope) => {
            Err(Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", "the token lacks a scope"))
        }
        Err(NotLetIn::Nobody) => {
            Err(Problem::new(StatusCode::FORBIDDEN, "not_an_agent", "the token is no agent's of this gate"))
        }
    }
}

/// Tells whoever is not let in what is needed, and where that is said.
pub(super) fn say_what_is_needed(app: &App, response: &mut Response) {
    let code = response.extensions().get::<ProblemCode>().map_or("", |code| code.0);
    let error = match (response.status(), code) {
        (StatusCode::UNAUTHORIZED, "invalid_token") => Some("invalid_token"),
        (StatusCode::UNAUTHORIZED, _) => None,
        (StatusCode::FORBIDDEN, "insufficient_scope") => Some("insufficient_scope"),
        _ => return,
    };
    let where_to = format!("{}/.well-known/oauth-protected-resource/mcp", app.base_url());
    let mut ask = format!("Bearer realm=\"toolgate\", resource_metadata=\"{where_to}\"");
    if let Some(error) = error {
        ask.push_str(&format!(", error=\"{error}\""));
    }
    let scopes = app.access_tokens.as_ref().map(|tokens| tokens.settings.scopes.join(" "));
    if let Some(scopes) = scopes.filter(|scopes| !scopes.is_empty()) {
        ask.push_str(&format!(", scope=\"{scopes}\""));
    }
    if let Ok(ask) = HeaderValue::from_str(&ask) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
    }
}

fn resource(app: &App) -> String {
    let named = app.access_tokens.as_ref().and_then(|tokens| tokens.settings.audience.clone());
    named.unwrap_or_else(|| format!("{}{PATH}", app.base_url()))
}

fn enter<'a>(app: &'a App, caller: &Caller, headers: &HeaderMap) -> Result<(&'a Door, Visitor), Problem> {
    let door = app.mcp.as_ref().ok_or_else(no_mcp)?;
    let nobody =
        || Problem::new(StatusCode::UNAUTHORIZED, "bad_credential", "MCP clients give a bearer token");
    let credential = caller.credential(headers).ok_or_else(nobody)?;
    let agent = caller.acting_agent()?.clone();
    Ok((door, Visitor { agent, proposer: caller.proposer().cloned(), credential }))
}

fn no_mcp() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_mcp", "what is behind this server does not speak MCP")
}

/// The request goes on for as long as its answer does, and its answer for as long as whoever asked is let in.
fn kept(response: Response, held: Arc<Held>, bearer: Option<Arc<Bearer>>) -> Response {
    let ended = bearer.map(|bearer| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            bearer.ended().await;
            bearer.leave_soon();
        })
    });
    response.map(|body| Body::new(Kept { body, ended, is_over: false, _held: held }))
}

struct Kept {
    body: Body,
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_over: bool,
    _held: Arc<Held>,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.is_over && self.ended.as_mut().is_some_and(|ended| ended.as_mut().poll(context).is_ready()) {
            self.is_over = true;
            self.body = Body::empty();
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
