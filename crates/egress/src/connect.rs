//! The HTTP door, for programs that want a proxy: CONNECT, and requests with a whole URL.
//!
//! It leads nowhere that the granted ports do not lead: the same permit, the same checks, the same path (`carry`). What is
//! spoken inside a tunnel is for the host: another CONNECT in there meets no proxy.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use contract::Target;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::carry::{self, Client, TLS_PORT};
use crate::credentials::Mask;
use crate::events::{Denial, Way};
use crate::grant::Grant;
use crate::http::{Protocol, Upstream};
use crate::pipe::Activity;
use crate::request::{self, Body, Speaks};
use crate::resolve::Checked;

/// A tunnel that was promised, and begins when the promise has been sent.
type Promised = Arc<Mutex<Option<(OnUpgrade, Checked)>>>;

pub(crate) async fn serve(grant: Arc<Grant>, stream: TcpStream) {
    let promised = Promised::default();
    let door = (Arc::clone(&grant), Arc::clone(&promised));
    let answer = service_fn(move |request| {
        let (grant, promised) = door.clone();
        async move { Ok::<_, Infallible>(answer(&grant, request, &promised).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(grant.gate.patience.handshake);
    let served = builder.serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
    if let Err(error) = served {
        if error.is_parse() {
            grant.deny("", 0, Way::Connect, Denial::BadRequest);
        }
        return;
    }
    let tunnel = promised.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((upgrade, checked)) = tunnel else { return };
    let Ok(upgraded) = upgrade.await else { return };
    if let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() {
        let client = Client { stream: parts.io.into_inner(), early: parts.read_buf.to_vec() };
        carry::carry(&grant, client, checked).await;
    }
}

async fn answer(grant: &Arc<Grant>, request: Request<Incoming>, promised: &Promised) -> Response<Body> {
    let (way, asked) = match *request.method() {
        Method::CONNECT => (Way::Connect, promise(grant, request, promised).await),
        _ => (Way::Http, pass_on(grant, request).await),
    };
    match asked {
        Ok(response) => response,
        Err(Refused { host, port, denial }) => {
            grant.deny(&host, port, way, denial.clone());
            request::refusal(&denial)
        }
    }
}

/// What was asked for, and why it is refused.
struct Refused {
    host: String,
    port: u16,
    denial: Denial,
}

impl Refused {
    fn new(target: &Target, denial: Denial) -> Refused {
        Refused { host: target.host.to_string(), port: target.port, denial }
    }

    /// For what names no place.
    fn nowhere(request: &Request<Incoming>, denial: Denial) -> Refused {
        // The host alone: what else a URL holds may be private.
        Refused { host: request.uri().host().unwrap_or_default().to_owned(), port: 0, denial }
    }
}

/// Promises a tunnel to a place of the permit, all of whose addresses were checked.
async fn promise(
    grant: &Arc<Grant>,
    mut request: Request<Incoming>,
    promised: &Promised,
) -> Result<Response<Body>, Refused> {
    // There is no port that goes without saying: 0 is none.
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let target =
        authority.and_then(|text| request::read_authority(text, 0)).filter(|target| target.port != 0);
    let Some(target) = target else { return Err(Refused::nowhere(&request, Denial::BadName)) };
    let checked = check(grant, target).await?;
    grant.allow(&checked.target, Way::Connect);
    let upgrade = hyper::upgrade::on(&mut request);
    *promised.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, checked));
    Ok(Response::new(Body::default()))
}

/// Passes on a request that has a whole URL, on a connection of its own.
async fn pass_on(grant: &Arc<Grant>, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    let speaks = Speaks::Http;
    let is_http = request.uri().scheme_str() == Some("http");
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let target = authority.and_then(|text| request::read_authority(text, speaks.default_port()));
    let Some(target) = target.filter(|_| is_http) else {
        return Err(Refused::nowhere(&request, Denial::NotOffered));
    };
    let checked = check(grant, target).await?;
    let target = checked.target.clone();
    let refused = |denial| Refused::new(&target, denial);
    if target.port == TLS_PORT {
        return Err(refused(Denial::NotTls));
    }
    grant.may_send(&request, &target, speaks).map_err(refused)?;
    let request = request.map(request::through);
    let request = request::forward(request, &target, speaks, Protocol::Http1.version()).map_err(refused)?;
    let stream = checked.dial(grant.gate.patience.dial).await.map_err(refused)?;
    let activity = Arc::new(Activity::begin());
    let stream = grant.metered(stream, &target, &activity);
    let (upstream, connection) = Upstream::begin(grant, stream, Protocol::Http1).await.map_err(refused)?;
    let idle = grant.permit.limits.idle;
    grant.spawn(async move {
        tokio::select! {
            () = connection => {}
            () = activity.lapse(idle) => {}
        }
    });
    // Before it is sent: a host that takes a request and says nothing has it all the same.
    grant.allow(&target, Way::Http);
    let response = upstream.send(request).await.map_err(refused)?;
    Ok(request::back(response, Mask::default()))
}

async fn check(grant: &Arc<Grant>, target: Target) -> Result<Checked, Refused> {
    let port = target.port;
    let checked = grant.check(target.host, port).await;
    checked.map_err(|(host, denial)| Refused { host: host.to_string(), port, denial })
}
