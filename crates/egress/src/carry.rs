//! The one path of every connection: which place is meant, whether it may be reached, what is spoken, and then the bytes.
//!
//! # Invariants
//! - What goes to a host goes by [`Checked::dial`], after the permit and the host's addresses were looked at.
//! - TLS that is passed through names the granted host in its ClientHello, in the open; the claim ends there. A host whose
//!   requests have to be seen gets no TLS of the sandbox's at all: the gate ends it (`tls`).
//! - HTTP without TLS goes request by request (`http`). Port 443 is for TLS, and port 80 for HTTP.

use std::sync::Arc;
use std::time::Duration;

use contract::{Host, Target};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::events::{Denial, Way};
use crate::grant::Grant;
use crate::guards::Guard;
use crate::hello::{Hello, Hides};
use crate::opening::{Opening, recognise};
use crate::pipe::{self, End, Watch};
use crate::resolve::Checked;
use crate::{hello, http, refuse, retry, tls};

/// A connection from the sandbox, and what was read of it already.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) early: Vec<u8>,
}

/// Serves a connection that came in by a granted port: the address that was dialled says which host is meant.
pub(crate) async fn serve(grant: Arc<Grant>, stream: TcpStream, port: u16) {
    let Ok(dialled) = stream.local_addr() else { return };
    let client = Client { stream, early: Vec::new() };
    match grant.check(Host::from(dialled.ip().to_canonical()), port).await {
        Ok(checked) => carry(&grant, client, checked).await,
        Err((host, denial)) => {
            grant.deny(&host.to_string(), port, Way::Tcp, denial.clone());
            refuse::politely(client, &denial).await;
        }
    }
}

/// Serves a connection to a place that was checked.
pub(crate) async fn carry(grant: &Arc<Grant>, client: Client, checked: Checked) {
    let target = checked.target.clone();
    if let Err(Refused { client, denial, way }) = try_to_carry(grant, client, checked).await {
        grant.deny(&target.host.to_string(), target.port, way, denial.clone());
        refuse::politely(client, &denial).await;
    }
}

/// A client that has to be told no.
struct Refused {
    client: Client,
    denial: Denial,
    way: Way,
}

async fn try_to_carry(grant: &Arc<Grant>, mut client: Client, checked: Checked) -> Result<(), Refused> {
    let target = &checked.target;
    let (opening, host) = match listen(grant, &mut client, &checked).await {
        Ok(heard) => heard,
        Err(denial) => return Err(Refused { client, denial, way: Way::Tcp }),
    };
    let way = match &opening {
        Opening::Tls(_) => Way::Tls,
        Opening::Http => Way::Http,
        Opening::Other | Opening::Unclear => Way::Tcp,
    };
    if let Err(denial) = may_speak(grant, target, &opening) {
        return Err(Refused { client, denial, way });
    }
    if matches!(opening, Opening::Tls(_)) && grant.gate.sees_requests(&grant.permit, target) {
        tls::terminate(grant, client, checked).await;
        return Ok(());
    }
    let mut host = match host {
        Some(host) => host,
        None => match checked.dial(grant.gate.patience.dial).await {
            Ok(host) => host,
            Err(denial) => return Err(Refused { client, denial, way }),
        },
    };
    if opening == Opening::Http {
        http::serve_plain(grant, client, host, checked.target).await;
        return Ok(());
    }
    grant.allow(target, way);
    let meter = grant.record.meter(&target.host.to_string());
    if matches!(opening, Opening::Tls(_)) {
        // A server may want another hello, and that one could name another host.
        let patience = (grant.permit.limits.idle, grant.gate.patience.handshake);
        let check = |hello: &Hello| names_target(grant, hello, target, false);
        if let Err(denial) = retry::pass_hello(&mut client, &mut host, &meter, patience, check).await {
            return Err(Refused { client, denial, way });
        }
    }
    let watch = if opening == Opening::Unclear { Watch::FirstLine } else { Watch::Nothing };
    let end = pipe::join(client.stream, host, &client.early, watch, &meter, grant.permit.limits.idle).await;
    let denial = match end {
        End::Over => return Ok(()),
        End::Idle => Denial::Idle,
        End::TooManyBytes => Denial::TooManyBytes,
        End::Http => Denial::TooSlow,
    };
    grant.deny(&target.host.to_string(), target.port, way, denial);
    Ok(())
}

/// Whether the protocol may be spoken to this place.
fn may_speak(grant: &Grant, target: &Target, opening: &Opening) -> Result<(), Denial> {
    match opening {
        Opening::Tls(hello) => {
            let ends_here = grant.gate.sees_requests(&grant.permit, target);
            names_target(grant, hello, target, ends_here)
        }
        _ if target.port == TLS_PORT => Err(Denial::NotTls),
        Opening::Http => Ok(()),
        Opening::Other | Opening::Unclear if demands_client_first(grant, target) => Err(Denial::NotHttp),
        Opening::Other | Opening::Unclear => Ok(()),
    }
}

/// Whether only TLS or HTTP may be spoken there, which clients begin.
fn demands_client_first(grant: &Grant, target: &Target) -> bool {
    matches!(target.port, TLS_PORT | HTTP_PORT) || grant.gate.sees_requests(&grant.permit, target)
}

pub(crate) const TLS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

fn names_target(grant: &Grant, hello: &Hello, target: &Target, ends_here: bool) -> Result<(), Denial> {
    if !grant.gate.guards.stands(Guard::ServerNames) {
        return Ok(());
    }
    // A hidden hello is for whoever holds the key; where TLS ends at the gate, that is nobody, and the open one counts.
    if hello.hides == Hides::AnotherHello && !ends_here {
        return Err(Denial::HiddenServerName);
    }
    match (&hello.server_name, target.host.name()) {
        (Some(named), _) => match Host::parse(named) {
            Ok(named) if named == target.host => Ok(()),
            _ => Err(Denial::OtherServerName),
        },
        (None, Some(_)) => Err(Denial::NoServerName),
        // An address is never in the indication.
        (None, None) => Ok(()),
    }
}

/// Hears what the client begins with. Where the host may speak first, it is dialled before, and comes back as well.
async fn listen(
    grant: &Grant,
    client: &mut Client,
    checked: &Checked,
) -> Result<(Opening, Option<TcpStream>), Denial> {
    let limits = &grant.gate.patience;
    if demands_client_first(grant, &checked.target) {
        return match tokio::time::timeout(limits.handshake, client.begin()).await {
            Ok(opening) => Ok((opening?, None)),
            Err(_elapsed) => Err(Denial::TooSlow),
        };
    }
    let host = checked.dial(limits.dial).await?;
    if client.early.is_empty() {
        let mut byte = [0];
        let mut other_byte = [0];
        tokio::select! {
            biased;
            _ = client.stream.peek(&mut byte) => {}
            _ = host.peek(&mut other_byte) => return Ok((Opening::Other, Some(host))),
            () = tokio::time::sleep(grant.permit.limits.idle) => return Err(Denial::Idle),
        }
    }
    match tokio::time::timeout(limits.handshake.min(LINE_PATIENCE), client.begin()).await {
        Ok(opening) => Ok((opening?, Some(host))),
        Err(_elapsed) if !client.early.first().copied().is_some_and(hello::begins_tls) => {
            Ok((Opening::Unclear, Some(host)))
        }
        Err(_elapsed) => match tokio::time::timeout(limits.handshake, client.begin()).await {
            Ok(opening) => Ok((opening?, Some(host))),
            Err(_elapsed) => Err(Denial::TooSlow),
        },
    }
}

/// So long is waited for the end of a first line before it is passed on without one.
const LINE_PATIENCE: Duration = Duration::from_millis(500);

impl Client {
    /// Reads until it is clear what is spoken. A client that ends before that speaks something else.
    async fn begin(&mut self) -> Result<Opening, Denial> {
        loop {
            if let Some(opening) = recognise(&self.early)? {
                return Ok(opening);
            }
            match self.stream.read_buf(&mut self.early).await {
                Ok(0) | Err(_) => return Ok(Opening::Other),
                Ok(_) => {}
            }
        }
    }
}
