//! MCP over HTTP: one address, every revision that has it, and the SDK's transport behind our own checks.
//!
//! It knows who asks, because it is told: whoever calls it has authenticated the request.
//!
//! # Invariants
//! - A session belongs to the credential that opened it. Each has sessions of its own, so that one of another is not
//!   refused but unknown.
//! - What reaches the SDK was read strictly, and is what its headers say it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use contract::{AgentName, Digest, MAX_JSON_BYTES, OperatorName};
use engine::Engine;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::message::{self, SESSION, Unread, VERSION};
use super::{Served, Server, Way, served};
use crate::http::{Guard, Guards};

/// How long a session is kept in which nobody says anything.
const SESSION_LASTS: Duration = Duration::from_secs(60 * 60);
/// How many sessions one credential has open at once.
const MOST_SESSIONS: usize = 64;
/// For how many credentials sessions are kept.
const MOST_VISITORS: usize = 256;

/// Whoever is at the other end, authenticated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Visitor {
    /// The agent that asks, or for which an operator does.
    pub(crate) agent: AgentName,
    /// That operator.
    pub(crate) proposer: Option<OperatorName>,
    /// By what they are known.
    pub(crate) credential: Digest,
}

/// The way in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Door(Arc<Inner>);

struct Inner {
    engine: Engine,
    shutdown: CancellationToken,
    halls: Mutex<HashMap<Visitor, Hall>>,
    /// Counts visits, so that it is known who came last.
    visits: AtomicU64,
    guards: Guards,
}

/// What one visitor talks to, with their sessions.
#[derive(Clone)]
struct Hall {
    transport: StreamableHttpService<Served, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    /// The visit at which they were last here.
    last: Arc<AtomicU64>,
}

impl Door {
    pub(crate) fn new(engine: Engine, shutdown: CancellationToken, guards: Guards) -> Door {
        let (halls, visits) = (Mutex::default(), AtomicU64::new(0));
        Door(Arc::new(Inner { engine, shutdown, halls, visits, guards }))
    }

    /// Answers a message. The text is that of the body.
    pub(crate) async fn answer(&self, visitor: Visitor, mut parts: Parts, text: String) -> Response<Body> {
        let read = message::read(&text).and_then(|message| {
            if self.0.guards.stands(Guard::Agreement) {
                message::check_headers(&parts.headers, &message)?;
            }
            Ok(message)
        });
        let message = match read {
            Ok(message) => message,
            Err(unread) => return refuse(StatusCode::BAD_REQUEST, &unread),
        };
        if let Some(refused) = check_version(&parts.headers) {
            return refused;
        }
        let hall = self.hall(visitor).await;
        let opens = message.get("method").and_then(Value::as_str) == Some("initialize");
        if opens && hall.sessions.sessions.read().await.len() >= MOST_SESSIONS {
            let unread = Unread::because("so many sessions are open already: end one first");
            return refuse(StatusCode::TOO_MANY_REQUESTS, &unread);
        }
        bare(&mut parts);
        hall.answer(Request::from_parts(parts, Body::from(text))).await
    }

    /// Answers a request that has no message: to listen, or to end a session.
    pub(crate) async fn answer_without_message(&self, visitor: Visitor, mut parts: Parts) -> Response<Body> {
        if let Err(why) = message::check_single(&parts.headers) {
            return refuse(StatusCode::BAD_REQUEST, &Unread::because(&why));
        }
        if let Some(refused) = check_version(&parts.headers) {
            return refused;
        }
        let hall = self.hall(visitor).await;
        bare(&mut parts);
        let ends = parts.method == Method::DELETE;
        // The SDK would say of any session that it has ended.
        if ends && !hall.has(&parts.headers).await {
            return refuse(StatusCode::NOT_FOUND, &Unread::because("there is no such session"));
        }
        let mut response = hall.answer(Request::from_parts(parts, Body::empty())).await;
        // The SDK says that it will end; it has, and some clients complain of anything else.
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// Ends every session.
    pub(crate) async fn close(&self) {
        let halls: Vec<Hall> = self.halls().drain().map(|(_, hall)| hall).collect();
        for hall in halls {
            hall.close().await;
        }
    }

    /// Ends every session that was opened by a credential.
    pub(crate) async fn forget(&self, credential: Digest) {
        let is_theirs = |visitor: &Visitor| visitor.credential == credential;
        let gone: Vec<Hall> = {
            let mut halls = self.halls();
            let theirs: Vec<Visitor> = halls.keys().filter(|visitor| is_theirs(visitor)).cloned().collect();
            theirs.iter().filter_map(|visitor| halls.remove(visitor)).collect()
        };
        for hall in gone {
            hall.close().await;
        }
    }

    /// What this visitor talks to.
    // ATTACK(session-of-another): sessions are looked up among the visitor's own, and nowhere else.
    async fn hall(&self, visitor: Visitor) -> Hall {
        let found = match self.0.guards.stands(Guard::Owners) {
            true => self.halls().get(&visitor).cloned(),
            false => self.halls().values().next().cloned(),
        };
        let visit = self.0.visits.fetch_add(1, Ordering::Relaxed);
        if let Some(hall) = found {
            hall.last.store(visit, Ordering::Relaxed);
            return hall;
        }
        self.make_room().await;
        let hall = self.0.build(&visitor);
        hall.last.store(visit, Ordering::Relaxed);
        self.halls().entry(visitor).or_insert(hall).clone()
    }

    /// Lets those go who have no session, and if that is not enough, whoever was not here for the longest time.
    async fn make_room(&self) {
        if self.halls().len() < MOST_VISITORS {
            return;
        }
        let all: Vec<(Visitor, Hall)> =
            self.halls().iter().map(|(visitor, hall)| (visitor.clone(), hall.clone())).collect();
        let mut leaving = Vec::new();
        for (visitor, hall) in &all {
            if hall.sessions.sessions.read().await.is_empty() {
                leaving.push(visitor.clone());
            }
        }
        if leaving.is_empty() {
            // ATTACK(session-pushed-out)
            let longest = all.into_iter().min_by_key(|(_, hall)| hall.last.load(Ordering::Relaxed));
            leaving.extend(longest.map(|(visitor, _)| visitor));
        }
        for visitor in leaving {
            let hall = self.halls().remove(&visitor);
            if let Some(hall) = hall {
                hall.close().await;
            }
        }
    }

    fn halls(&self) -> MutexGuard<'_, HashMap<Visitor, Hall>> {
        // Whoever panicked with it in hand has left it whole.
        self.0.halls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn build(&self, visitor: &Visitor) -> Hall {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_LASTS);
        let sessions = Arc::new(sessions);
        let (engine, visitor) = (self.engine.clone(), visitor.clone());
        // Host and Origin were looked at before anybody was let in here; the SDK knows neither our port nor our names.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_JSON_BYTES)
            .with_cancellation_token(self.shutdown.child_token());
        let serve = move || {
            let server = Server::new(engine.clone(), visitor.agent.clone(), Way::Http);
            Ok(served(server.proposed_by(visitor.proposer.clone())))
        };
        let transport = StreamableHttpService::new(serve, sessions.clone(), config);
        Hall { transport, sessions, last: Arc::default() }
    }
}

impl Hall {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        // What the SDK does with a request is too large to be carried about on the stack.
        Box::pin(self.transport.handle(request)).await.map(Body::new)
    }

    /// Whether the session that a request names is one of theirs.
    async fn has(&self, headers: &HeaderMap) -> bool {
        let named = headers.get(SESSION).and_then(|id| id.to_str().ok());
        let sessions = self.sessions.sessions.read().await;
        named.is_some_and(|id| sessions.contains_key(id))
    }

    async fn close(&self) {
        let open: Vec<_> = self.sessions.sessions.read().await.keys().cloned().collect();
        for session in open {
            // What cannot be closed has ended by itself.
            let _ = self.sessions.close_session(&session).await;
        }
    }
}

/// The oldest revision knows another way over HTTP, and this is not it.
// ATTACK(older-revision)
fn check_version(headers: &HeaderMap) -> Option<Response<Body>> {
    let said = headers.get(VERSION)?;
    let old = ProtocolVersion::V_2024_11_05;
    let why = "that revision is spoken over standard input and output only";
    let is_old = said.as_bytes() == old.as_str().as_bytes();
    is_old.then(|| refuse(StatusCode::BAD_REQUEST, &Unread::because(why)))
}

/// Takes away what the SDK has no business with: handlers could read it, and pass it on.
///
/// INVARIANT(token-stays-here): a client's credential goes no further than this.
fn bare(parts: &mut Parts) {
    parts.headers.remove(AUTHORIZATION);
    parts.headers.remove(COOKIE);
    parts.extensions.clear();
}

fn refuse(status: StatusCode, unread: &Unread) -> Response<Body> {
    let mut response = Response::new(Body::from(unread.answer().to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_goes_no_further_than_the_door() {
        let request =
            Request::builder().header(AUTHORIZATION, "Bearer x").header(COOKIE, "a=b").header(VERSION, "y");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(7_u8);
        bare(&mut parts);
        assert_eq!(
            parts.headers.keys().map(|name| name.as_str()).collect::<Vec<_>>(),
            ["mcp-protocol-version"]
        );
        assert_eq!(parts.extensions.get::<u8>(), None);
    }
}
