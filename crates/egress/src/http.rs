//! Serves HTTP between a client and the one host that its connection is for, request by request.
//!
//! The connection to the host was made before; when either ends, both do. Bodies go through piece by piece.
//!
//! # Invariants
//! - Every request of a connection is looked at (`request::check`), the second like the first.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::Target;
use hyper::body::Incoming;
use hyper::client::conn::{http1 as host_http1, http2 as host_http2};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::carry::Client;
use crate::credentials::Mask;
use crate::events::{Denial, Way};
use crate::grant::Grant;
use crate::guards::Guard;
use crate::pipe::Activity;
use crate::request::{self, Body, Speaks};
use crate::stream::{Metered, Rewound};

/// No head of a request is longer.
const MAX_HEAD: usize = 64 * 1024;
/// So many requests at once on a connection of HTTP/2, and so many bytes ahead of whoever reads: of each connection, and of
/// each request.
const MAX_STREAMS: u32 = 32;
const WINDOW: u32 = 1 << 20;
const SENT_AHEAD: usize = 1 << 15;

/// Serves HTTP without TLS.
pub(crate) async fn serve_plain(grant: &Arc<Grant>, client: Client, host: TcpStream, target: Target) {
    let activity = Arc::new(Activity::begin());
    let is_this_machine = host.peer_addr().is_ok_and(|address| address.ip().is_loopback());
    let host = grant.metered(host, &target, &activity);
    let talk = Talk { grant: Arc::clone(grant), target, speaks: Speaks::Http, is_this_machine, activity };
    match Upstream::begin(grant, host, Protocol::Http1).await {
        Ok((upstream, connection)) => {
            talk.serve(Rewound::from(client), upstream, connection, Protocol::Http1).await
        }
        Err(denial) => {
            let upstream = Upstream::Refused(denial);
            talk.serve(Rewound::from(client), upstream, std::future::pending(), Protocol::Http1).await;
        }
    }
}

/// Which HTTP is spoken, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) fn version(self) -> Version {
        match self {
            Protocol::Http1 => Version::HTTP_11,
            Protocol::Http2 => Version::HTTP_2,
        }
    }
}

/// The way to the host.
pub(crate) enum Upstream {
    Http1(Mutex<host_http1::SendRequest<Body>>),
    Http2(host_http2::SendRequest<Body>),
    /// There is none, and this is what every request is told.
    Refused(Denial),
}

impl Upstream {
    /// Begins to speak HTTP to a host. What comes beside it has to be polled for as long as it is used.
    pub(crate) async fn begin<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        grant: &Arc<Grant>,
        stream: S,
        protocol: Protocol,
    ) -> Result<(Upstream, impl Future<Output = ()> + Send + use<S>), Denial> {
        let stream = TokioIo::new(stream);
        let tasks = Tasks(Arc::clone(grant));
        let (upstream, one, two) = match protocol {
            Protocol::Http1 => {
                let mut builder = host_http1::Builder::new();
                builder.max_buf_size(MAX_HEAD * 2);
                let (sender, connection) =
                    builder.handshake(stream).await.map_err(|_gone| Denial::Unreachable)?;
                (Upstream::Http1(Mutex::new(sender)), Some(connection), None)
            }
            Protocol::Http2 => {
                let mut builder = host_http2::Builder::new(tasks);
                builder.timer(TokioTimer::new());
                builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
                builder.max_send_buf_size(SENT_AHEAD);
                let (sender, connection) =
                    builder.handshake(stream).await.map_err(|_gone| Denial::Unreachable)?;
                (Upstream::Http2(sender), None, Some(connection))
            }
        };
        let connection = async move {
            if let Some(connection) = one {
                let _ = connection.await;
            }
            if let Some(connection) = two {
                let _ = connection.await;
            }
        };
        Ok((upstream, connection))
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Denial> {
        let sent = match self {
            Upstream::Http1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await.map_err(|_gone| Denial::Unreachable)?;
                let sent = sender.send_request(request);
                drop(sender);
                sent.await
            }
            Upstream::Http2(sender) => sender.clone().send_request(request).await,
            Upstream::Refused(denial) => return Err(denial.clone()),
        };
        sent.map_err(|_gone| Denial::Unreachable)
    }
}

/// One connection of a client, and the place it is for.
pub(crate) struct Talk {
    pub(crate) grant: Arc<Grant>,
    pub(crate) target: Target,
    pub(crate) speaks: Speaks,
    /// Whether what is said in the clear stays on this machine.
    pub(crate) is_this_machine: bool,
    pub(crate) activity: Arc<Activity>,
}

impl Talk {
    /// Answers requests until the client or the host has ended, or nothing has moved for too long.
    pub(crate) async fn serve(
        self,
        client: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        upstream: Upstream,
        connection: impl Future<Output = ()> + Send,
        protocol: Protocol,
    ) {
        let grant = Arc::clone(&self.grant);
        let (target, activity) = (self.target.clone(), Arc::clone(&self.activity));
        let talk = Arc::new((self, upstream));
        let has_asked = Arc::new(AtomicBool::new(false));
        let asks = Arc::clone(&has_asked);
        let answer = service_fn(move |request| {
            let talk = Arc::clone(&talk);
            asks.store(true, Ordering::Relaxed);
            async move {
                let (talk, upstream) = &*talk;
                Ok::<_, Infallible>(talk.answer(request, upstream, protocol).await)
            }
        });
        let client = TokioIo::new(client);
        let handshake = grant.gate.patience.handshake;
        let serving = async {
            let mut connection = pin!(connection);
            match protocol {
                Protocol::Http1 => {
                    let mut builder = http1::Builder::new();
                    builder
                        .timer(TokioTimer::new())
                        .header_read_timeout(handshake)
                        .max_buf_size(MAX_HEAD * 2);
                    let mut serving = pin!(builder.serve_connection(client, answer));
                    tokio::select! {
                        served = serving.as_mut() => return served,
                        () = connection.as_mut() => serving.as_mut().graceful_shutdown(),
                    }
                    serving.await
                }
                Protocol::Http2 => {
                    let mut builder = http2::Builder::new(Tasks(Arc::clone(&grant)));
                    builder.timer(TokioTimer::new());
                    builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
                    builder.max_send_buf_size(SENT_AHEAD);
                    builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD as u32);
                    let mut serving = pin!(builder.serve_connection(client, answer));
                    tokio::select! {
                        served = serving.as_mut() => return served,
                        () = connection.as_mut() => serving.as_mut().graceful_shutdown(),
                    }
                    serving.await
                }
            }
        };
        let served = tokio::select! {
            served = serving => served.map_err(|error| reason(&error, has_asked.load(Ordering::Relaxed))),
            () = activity.lapse(grant.permit.limits.idle) => Err(Some(Denial::Idle)),
        };
        let host = target.host.to_string();
        let denial = match served {
            _ if grant.record.meter(&host).left() == 0 => Some(Denial::TooManyBytes),
            Ok(()) => None,
            Err(denial) => denial,
        };
        if let Some(denial) = denial {
            grant.deny(&host, target.port, Way::Http, denial);
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
        protocol: Protocol,
    ) -> Response<Body> {
        match self.pass_on(request, upstream, protocol).await {
            Ok((response, mask)) => request::back(response, mask),
            Err(denial) => {
                self.grant.deny(&self.target.host.to_string(), self.target.port, Way::Http, denial.clone());
                request::refusal(&denial)
            }
        }
    }

    async fn pass_on(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
        protocol: Protocol,
    ) -> Result<(Response<Incoming>, Mask), Denial> {
        self.grant.may_send(&request, &self.target, self.speaks)?;
        let request = request.map(request::through);
        let request = request::forward(request, &self.target, self.speaks, protocol.version())?;
        // What has a credential may be held whole until it is sent.
        let has_credential = self.grant.gate.has_credential(&self.grant.permit, &self.target);
        let _turn = if has_credential { self.grant.turns.acquire().await.ok() } else { None };
        // ATTACK(token-in-the-clear): over TLS, or by no wire.
        let is_private = self.speaks == Speaks::Https || self.is_this_machine;
        let (request, mask) = match self.speaks {
            speaks if has_credential && is_private => {
                let gate = &self.grant.gate;
                let injecting =
                    gate.credentials.inject(request, &self.target, speaks, &gate.resolver, &gate.tls);
                // Boxed: it is long, and most requests have none of it.
                let injecting: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(injecting);
                injecting.await?
            }
            Speaks::Http | Speaks::Https => (request, Mask::default()),
        };
        // Before it is sent: a host that takes a request and says nothing has it all the same.
        if !matches!(upstream, Upstream::Refused(_)) {
            self.grant.allow(&self.target, Way::Http);
        }
        let response = upstream.send(request).await?;
        let is_covered = self.grant.gate.guards.stands(Guard::Masks);
        Ok((response, if is_covered { mask } else { Mask::default() }))
    }
}

/// What a fault of the client's is called. That it has gone is none, nor that it has no more to ask.
fn reason(error: &hyper::Error, has_asked: bool) -> Option<Denial> {
    if error.is_timeout() {
        return (!has_asked).then_some(Denial::TooSlow);
    }
    error.is_parse().then_some(Denial::BadRequest)
}

/// Runs what HTTP/2 needs beside a connection as tasks of the grant.
#[derive(Clone)]
pub(crate) struct Tasks(Arc<Grant>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, work: F) {
        self.0.spawn(work);
    }
}

impl Grant {
    /// Whether a request may go to the place.
    pub(crate) fn may_send<B>(
        &self,
        request: &Request<B>,
        target: &Target,
        speaks: Speaks,
    ) -> Result<(), Denial> {
        match request::check(request, target, speaks, self.permit.methods) {
            Err(Denial::OtherHost) if !self.gate.guards.stands(Guard::Hosts) => Ok(()),
            checked => checked,
        }
    }

    /// A host's stream whose bytes count for the host.
    pub(crate) fn metered(&self, stream: TcpStream, target: &Target, activity: &Arc<Activity>) -> Metered {
        Metered::new(stream, self.record.meter(&target.host.to_string()), Arc::clone(activity))
    }
}
