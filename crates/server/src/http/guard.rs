//! What every request passes on its way in, and every response on its way out.
//!
//! # Invariants
//! - Nothing is answered under a name that is neither the loopback's nor the gate's own: another is somebody else's page.
//! - Nothing is changed for another origin.
//! - Every response carries the same strict headers, and every error is a problem document.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contract::Digest;

use super::app::App;
use super::body_room::Allowance;
use super::caller::{Caller, Who, bearer, single};
use super::ended::{self, Bearer};
use super::guards::Guard;
use super::mcp;
use super::problem::{PROBLEM_JSON, Problem};
use super::room::{NoPlace, Seat};

/// What the page may load: our own files, nothing else, and nothing inline.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// How long a request may take that is not a call. Those end by their tool's own limit.
const LONGEST: Duration = Duration::from_secs(75);

/// The longest body that is named by its digest.
const MOST_VALIDATED: u64 = 8 * 1024 * 1024;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks where a request comes from, and dresses the response.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let checked = check_host(&app, request.uri(), request.headers())
        .and_then(|()| check_origin(&app, request.method(), request.uri(), request.headers()));
    let path = request.uri().path();
    let is_mcp = path == mcp::PATH;
    let is_call =
        request.method() == Method::POST && (is_mcp || matches!(path, "/v1/calls" | "/v1/calls:batch"));
    let has =
        (request.method() == Method::GET).then(|| request.headers().get(header::IF_NONE_MATCH).cloned());
    let mut response = match checked {
        Err(problem) => problem.into_response(),
        Ok(()) if is_call => next.run(request).await,
        Ok(()) => tokio::time::timeout(LONGEST, next.run(request)).await.unwrap_or_else(|_| {
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", "the gate took too long").into_response()
        }),
    };
    if is_unspoken(&response) {
        response = Problem::of_status(response.status()).into_response();
    }
    if is_mcp {
        mcp::say_what_is_needed(&app, &mut response);
    }
    if let Some(has) = has {
        response = validate(response, has.as_ref()).await;
    }
    dress(response.headers_mut());
    if !app.guards.stands(Guard::Frames) {
        response.headers_mut().remove(header::X_FRAME_OPTIONS);
        response.headers_mut().remove(header::CONTENT_SECURITY_POLICY);
    }
    if app.outside.tls.is_some() {
        let always = HeaderValue::from_static("max-age=31536000");
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, always);
    }
    response
}

/// Names what a body is by its digest, and leaves it out if whoever asks has it. What follows events has no end to name.
async fn validate(response: Response, has: Option<&HeaderValue>) -> Response {
    let length = response.body().size_hint().exact().filter(|length| *length <= MOST_VALIDATED);
    if response.status() != StatusCode::OK || length.is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR).into_response();
    };
    let tag = format!("\"{}\"", Digest::of(&bytes).to_string().chars().take(32).collect::<String>());
    let Ok(value) = HeaderValue::from_str(&tag) else {
        return Response::from_parts(parts, bytes.into());
    };
    parts.headers.insert(header::ETAG, value);
    let is_it = |had: &str| matches!(had.trim(), had if had == "*" || had.trim_start_matches("W/") == tag);
    if has.and_then(|has| has.to_str().ok()).is_some_and(|has| has.split(',').any(is_it)) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, bytes.into())
}

/// Lets those pass whom a route is for.
pub(super) async fn admit(
    State((app, who)): State<(App, Who)>,
    mut request: Request,
    next: Next,
) -> Response {
    // What is signed is checked where it is read, over its bytes.
    if matches!(who, Who::Anyone | Who::Signed) || (who == Who::Counter && counts(&app, request.headers())) {
        request.extensions_mut().insert(Allowance::of_anyone());
        return next.run(request).await;
    }
    // ATTACK(token-in-a-link): an address is kept in histories and logs.
    app.guards.read_address(&mut request);
    let caller = match request.uri().path() {
        mcp::PATH => mcp::caller(&app, request.headers()).await,
        _ => Caller::read(&app, request.headers()).await,
    };
    let may = |caller: &Caller| match app.guards.stands(Guard::Roles) {
        true => caller.check(who),
        false => Ok(()),
    };
    match caller.and_then(|caller| may(&caller).map(|()| caller)) {
        Ok(caller) => {
            let seat = request.extensions().get::<Seat>().cloned();
            let Some(seat) = seat else { return no_place(NoPlace::Full).into_response() };
            let held = match seat.hold(caller.holder()) {
                Ok(held) => held,
                Err(why) => return no_place(why).into_response(),
            };
            let bearer = Bearer::of(&app, &request, &caller);
            let allowance = Allowance::of(&app.bodies, caller.holder());
            request.extensions_mut().insert(allowance.clone());
            request.extensions_mut().insert(caller);
            // Kept here too: a handler that has read its request has thrown it away.
            let held = Arc::new(held);
            request.extensions_mut().insert(Arc::clone(&held));
            let response = match bearer {
                Some(bearer) => {
                    request.extensions_mut().insert(Arc::clone(&bearer));
                    run_for(&bearer, request, next).await
                }
                None => next.run(request).await,
            };
            drop((held, allowance));
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Answers for as long as whoever asks is let in.
async fn run_for(bearer: &Bearer, request: Request, next: Next) -> Response {
    let answered = tokio::select! {
        biased;
        () = bearer.ended() => None,
        response = next.run(request) => Some(response),
    };
    match answered {
        Some(response) => response,
        None => {
            bearer.leave().await;
            ended::problem().into_response()
        }
    }
}

/// Whether they have the token by which numbers are looked at.
fn counts(app: &App, headers: &HeaderMap) -> bool {
    bearer(headers).is_some_and(|token| app.elsewhere.may_count(Digest::of(token.as_bytes())))
}

fn no_place(why: NoPlace) -> Problem {
    let detail = match why {
        NoPlace::TooMany { most } => format!("{most} requests of yours are under way already"),
        NoPlace::Full => "as many requests of agents are under way as there is room for".to_owned(),
    };
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail)
        .with_hint("wait until some have ended")
}

// ATTACK(dns-rebinding): a page of another name that points at us is not ours.
fn check_host(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let wrong = || {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            "the gate answers under its own names only",
        )
        .with_hint(format!("use {}/", app.base_url()))
    };
    if !app.guards.stands(Guard::Hosts) {
        return Ok(());
    }
    let host = single(headers, &header::HOST).ok_or_else(wrong)?;
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    if is_ours(app, host) && is_ours(app, authority) { Ok(()) } else { Err(wrong()) }
}

fn is_ours(app: &App, host: &str) -> bool {
    let port = app.address.port();
    let usual = if app.outside.tls.is_some() { 443 } else { 80 };
    let is_name = |name: &str| {
        matches!(name.to_ascii_lowercase().as_str(), "127.0.0.1" | "localhost" | "[::1]")
            || app.outside.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    match host.strip_suffix(&format!(":{port}")) {
        Some(name) => is_name(name),
        None => port == usual && is_name(host),
    }
}

fn check_origin(app: &App, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    // What only looks is for whoever may look, except where looking is listening in.
    if (method.is_safe() && uri.path() != mcp::PATH) || !app.guards.stands(Guard::Origins) {
        return Ok(());
    }
    let wrong = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "wrong_origin",
            "the request was made by a page that is not the gate's",
        )
    };
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, &header::ORIGIN).ok_or_else(wrong)?;
        let host = origin.strip_prefix(app.scheme()).and_then(|rest| rest.strip_prefix("://"));
        let host = host.ok_or_else(wrong)?;
        // Ours under another of our names is another origin.
        let same = single(headers, &header::HOST).is_some_and(|own| own.eq_ignore_ascii_case(host));
        if !is_ours(app, host) || !same {
            return Err(wrong());
        }
    }
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(wrong()),
    }
}

/// Whether a layer below made an error without words of ours.
fn is_unspoken(response: &Response) -> bool {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let ours = [PROBLEM_JSON.as_bytes(), b"application/json"];
    (status.is_client_error() || status.is_server_error()) && !kind.is_some_and(|kind| ours.contains(&kind))
}

fn dress(headers: &mut HeaderMap) {
    let always: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
