//! The HTTP API and the page where people decide, on loopback.
//!
//! It knows who asks and what was asked; what is decided, and what happens then, is the gate's.
//!
//! # Invariants
//! - It listens on loopback, or speaks TLS, unless whoever starts it says otherwise in so many words.
//! - Every connection and every task has an owner: when the server is told to stop, nobody new is let in, calls that
//!   run have a while to end, and then all of them end.

mod agent_tokens;
mod app;
mod approvals;
mod body;
mod body_room;
mod budgets;
mod caller;
mod calls;
mod chat;
mod chats;
mod desk;
mod desk_routes;
mod ended;
mod engine_desk;
mod engine_entrance;
mod engine_gate;
mod entrance;
mod events;
mod gate;
mod guard;
mod guards;
mod ledger;
mod limits;
mod links;
mod look_again;
mod mcp;
mod numbers;
mod oauth;
mod openapi;
mod operators;
mod outside;
mod page;
mod password_and_passkey;
mod policy;
mod problem;
mod refusals;
mod room;
mod routes;
mod sessions;
mod shapes;
mod sign_in;
mod standing;
mod tools;
mod webauthn;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{Credential, Engine};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use caller::{TokenBook, Who};
pub use chats::{ChatKey, ChatWay, Elsewhere, NobodyElsewhere};
pub use desk::{Desk, ReadingError};
pub use entrance::Entrance;
pub use gate::{
    Also, Answered, CallRecord, CallSummary, Cancelled, DecideError, Decision, Event, Gate, GateError,
    Pending, Person, Question, Questions, Simulate, SimulateError, Stands, Word, WordError,
};
pub use guards::Guard;
pub(crate) use guards::Guards;
pub use limits::Limits;
pub use links::link_socket;
pub use oauth::{AccessTokenSettings, AccessTokens, KeyReader};
pub use openapi::openapi;
pub use outside::{Outside, OutsideError, TlsFiles};
pub use page::ASSETS;
pub use problem::CODES;
pub use routes::ROUTES;

use app::App;
use events::Tidings;
use links::LinkSocket;
use look_again::LookAgain;
use outside::shake;
use room::{Room, Seat};

use crate::mcp::Door;

/// How long to wait when a connection cannot be taken, out of file handles say.
const TAKE_BREATH: Duration = Duration::from_millis(200);

/// What the server is started with.
pub struct HttpOptions {
    /// Where to listen; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// How it is reached from outside, if it is.
    pub outside: Outside,
    /// Whose the first sign-in link is: the local operator's.
    pub operator_credential: Credential,
    /// Whose token is whose.
    pub agent_tokens: Arc<dyn TokenBook>,
    /// Tokens of an issuer that agents may come in with over MCP; none, unless it is configured.
    pub access_tokens: Option<Arc<AccessTokens>>,
    /// What comes in by other ways.
    pub elsewhere: Arc<dyn Elsewhere>,
    /// Toolgate's home, where its owner gets new sign-in links; nothing if they are not handed out there.
    pub home: Option<PathBuf>,
    /// How long somebody may take.
    pub limits: Limits,
    /// Stops the server.
    pub shutdown: CancellationToken,
}

/// What is known once the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReady {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it is, for those who come.
    pub url: String,
    /// Opens the page once, within ten minutes. A secret until it is used.
    pub sign_in_url: String,
    /// The socket in the home that hands out more of them, if it could be made.
    pub link_socket: Option<PathBuf>,
}

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum HttpError {
    /// It cannot be reached so.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// It cannot listen there.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// No secrets can be made.
    #[error("the system gives no random bytes")]
    Random,
}

/// Serves the engine until it is told to stop, and ends what still runs for its clients then.
pub async fn serve_http(
    engine: Engine,
    options: HttpOptions,
    ready: impl FnOnce(HttpReady),
) -> Result<(), HttpError> {
    let door = Door::new(engine.clone(), options.shutdown.clone(), Guards::default());
    serve(Arc::new(engine), Some(door), Guards::default(), options, ready).await
}

/// The same with a guard switched off, for whoever wants to see that it is missed.
#[cfg(feature = "weaken")]
pub async fn serve_http_without(
    guard: Guard,
    engine: Engine,
    options: HttpOptions,
    ready: impl FnOnce(HttpReady),
) -> Result<(), HttpError> {
    let guards = Guards::without(guard);
    let door = Door::new(engine.clone(), options.shutdown.clone(), guards);
    serve(Arc::new(engine), Some(door), guards, options, ready).await
}

/// Serves a gate until it is told to stop, and ends what still runs for its clients then. MCP is the engine's alone.
pub async fn serve_gate(
    gate: Arc<dyn Gate>,
    options: HttpOptions,
    ready: impl FnOnce(HttpReady),
) -> Result<(), HttpError> {
    serve(gate, None, Guards::default(), options, ready).await
}

async fn serve(
    gate: Arc<dyn Gate>,
    door: Option<Door>,
    guards: Guards,
    options: HttpOptions,
    ready: impl FnOnce(HttpReady),
) -> Result<(), HttpError> {
    let HttpOptions {
        listen,
        outside,
        operator_credential,
        agent_tokens,
        access_tokens,
        elsewhere,
        home,
        limits,
        shutdown,
    } = options;
    let tls = outside.check(listen)?;
    let failed = |source| HttpError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Whatever way this ends, what belongs to it ends, too.
    let stop = shutdown.child_token();
    let stopping = stop.clone().drop_guard();
    let (reached, brought) = ((address, outside), (access_tokens, elsewhere));
    let app = App::new(gate.clone(), door.clone(), agent_tokens, brought, reached, guards, stop.clone());
    let whose = Arc::new(operator_credential);
    let sign_in_url = app.sign_in_url(whose.clone()).map_err(|_| HttpError::Random)?;
    let path = home.map(|home| link_socket(&home, address.port()));
    let socket = path.as_ref().and_then(|path| LinkSocket::open(path.clone()).ok());
    let path = path.filter(|_| socket.is_some());
    if let Some(socket) = socket {
        app.tasks.spawn(socket.serve(app.clone(), whose, stop.clone()));
    }
    app.tasks.spawn(Tidings::watch(app.clone()));
    ready(HttpReady { address, url: app.base_url(), sign_in_url, link_socket: path });
    let mut connections = take_connections(&listener, tls, &app, limits, &stop).await;
    drop(listener);
    // What waits for people is told so now; what runs has its time.
    app.gate.leave();
    all_end_within(&mut connections, limits.drain).await;
    app.ending.cancel();
    all_end_within(&mut connections, limits.last_words).await;
    connections.shutdown().await;
    app.tasks.close();
    app.tasks.wait().await;
    drop(stopping);
    if let Some(door) = door {
        door.close().await;
    }
    gate.close().await;
    Ok(())
}

async fn all_end_within(connections: &mut JoinSet<()>, limit: Duration) {
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limit, all_ended).await;
}

/// Takes connections until it is told to stop; returns those that are still open.
async fn take_connections(
    listener: &TcpListener,
    tls: Option<TlsAcceptor>,
    app: &App,
    limits: Limits,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let router = routes::router(app.clone());
    let (room, ways) = (Room::default(), (limits, app.guards));
    let mut connections = JoinSet::new();
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => return connections,
            Some(_) = connections.join_next() => continue,
            taken = listener.accept() => taken,
        };
        let Ok((stream, _)) = taken else {
            tokio::time::sleep(TAKE_BREATH).await;
            continue;
        };
        let seat = tokio::select! {
            () = stop.cancelled() => return connections,
            seat = room.take() => seat,
        };
        let service = TowerToHyperService::new(router.clone());
        let _ = stream.set_nodelay(true);
        let stop = stop.clone();
        match tls.clone() {
            None => connections.spawn(LookAgain::new(serve_connection(stream, seat, service, ways, stop))),
            Some(acceptor) => connections.spawn(LookAgain::new(async move {
                let shaken = tokio::select! {
                    () = stop.cancelled() => return,
                    () = seat.leave() => return,
                    shaken = shake(acceptor, stream) => shaken,
                };
                if let Ok(stream) = shaken {
                    serve_connection(stream, seat, service, ways, stop).await;
                }
            })),
        };
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    seat: Seat,
    service: TowerToHyperService<axum::Router>,
    (limits, guards): (Limits, Guards),
    stop: CancellationToken,
) {
    let own = seat.clone();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(own.clone());
        request.extensions_mut().insert(limits);
        request.extensions_mut().insert(guards);
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // What goes wrong on a connection is its client's to notice.
        _ = connection.as_mut() => return,
        () = seat.leave() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
