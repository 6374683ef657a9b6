//! Asks a place on the web for the gate itself: what it needs to sign in somewhere, and the keys of whoever vouches for others.
//!
//! Knows no sandbox. Who says where to ask may be a stranger, so what is dialled is checked as for a sandbox.
//!
//! # Invariants
//! - A special address is dialled only where the operator has opted in to it, and a blocked host not at all.
//! - No redirect is followed: what was meant for one place goes to no other.
//! - In the clear only this machine itself is spoken to.
//! - Of an answer no more is read than was asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contract::{Host, HostPattern, Private, Reach, Target};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::events::Denial;
use crate::permit::{Methods, Permit, PermitLimits};
use crate::request::{Speaks, authority_of, read_authority};
use crate::tls::server_name;
use crate::{Egress, Gate};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(15);
const LONGEST_URL: usize = 4096;

/// An address of the web that reads one way only, as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    speaks: Speaks,
    target: Target,
    path: String,
    query: Option<String>,
}

impl WebUrl {
    /// Reads `https://…`, or `http://…`; no user, no fragment, nothing hidden.
    // ATTACK(authorization-endpoint-scheme): neither `javascript:` nor `file:` is an address of the web.
    pub fn parse(text: &str) -> Option<WebUrl> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(&byte);
        if text.len() > LONGEST_URL || !text.bytes().all(is_plain) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let speaks = match scheme {
            "https" => Speaks::Https,
            "http" => Speaks::Http,
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let target = read_authority(authority.as_bytes(), speaks.default_port())?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        Some(WebUrl { text: text.to_owned(), speaks, target, path: path.to_owned(), query })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The place that it is at.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether what is sent there can be read on the way: it is neither over TLS nor to this machine, by its text.
    pub fn is_open_to_others(&self) -> bool {
        let is_here = match self.target.host.address() {
            Some(address) => address.is_loopback(),
            None => self.target.host.name() == Some("localhost"),
        };
        self.speaks == Speaks::Http && !is_here
    }

    /// Without the query, and empty where there is none.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    pub(crate) fn is_same_origin(&self, other: &WebUrl) -> bool {
        self.speaks == other.speaks && self.target == other.target
    }

    /// Another path at the same origin.
    pub(crate) fn at(&self, path: &str) -> Option<WebUrl> {
        let scheme = match self.speaks {
            Speaks::Http => "http",
            Speaks::Https => "https",
        };
        WebUrl::parse(&format!("{scheme}://{}{path}", authority_of(&self.target, self.speaks)))
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Whom the gate may ask for itself.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Special addresses that hosts may lie at. None means none.
    pub private: Private,
    /// Hosts that are not asked, whoever names them.
    pub blocked: Vec<HostPattern>,
}

/// What is asked.
pub(crate) struct Question<'a> {
    pub(crate) url: &'a WebUrl,
    /// What is sent, and of which kind it is; nothing is sent with a GET.
    pub(crate) body: Option<(&'static str, Zeroizing<Vec<u8>>)>,
    pub(crate) headers: Vec<(&'static str, Zeroizing<String>)>,
    /// As many bytes of the answer as are read.
    pub(crate) most: usize,
}

/// What was answered.
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// It may not be asked, or is not there.
    #[error("{0}")]
    Denied(Denial),
    /// Somebody on the way could read it.
    #[error("it is to be asked without TLS, and is not this machine")]
    InTheClear,
    /// It does not end.
    #[error("it says more than is read of it")]
    TooLong,
    /// It is none.
    #[error("it did not answer as HTTP does, or not in time")]
    Broken,
    /// It was asked for something that it does not have.
    #[error("it answers with status {0}")]
    Status(u16),
}

impl Egress {
    /// What is to be had at an address, for the gate itself.
    pub async fn read(&self, url: &WebUrl, bounds: &Bounds, most: usize) -> Result<Vec<u8>, NoAnswer> {
        let question = Question { url, body: None, headers: Vec::new(), most };
        match self.gate.fetch(question, bounds).await? {
            Said { status: 200, body, .. } => Ok(body.to_vec()),
            Said { status, .. } => Err(NoAnswer::Status(status)),
        }
    }
}

impl Gate {
    pub(crate) async fn fetch(&self, question: Question<'_>, bounds: &Bounds) -> Result<Said, NoAnswer> {
        tokio::time::timeout(PATIENCE, self.ask(question, bounds)).await.unwrap_or(Err(NoAnswer::Broken))
    }

    async fn ask(&self, question: Question<'_>, bounds: &Bounds) -> Result<Said, NoAnswer> {
        let url = question.url;
        let permit = Permit {
            reach: vec![Reach::from(url.target.clone())],
            blocked: bounds.blocked.clone(),
            methods: Methods::Any,
            spends: Vec::new(),
            by_pattern: Vec::new(),
            private: bounds.private.clone(),
            login: None,
            limits: PermitLimits::default(),
        };
        if permit.blocks(&url.target.host) {
            return Err(NoAnswer::Denied(Denial::Blocked));
        }
        // ATTACK(metadata-at-a-private-address): whoever names the place is a stranger.
        let checked = self.resolver.check(&permit, url.target.clone(), self.guards).await;
        let checked = checked.map_err(NoAnswer::Denied)?;
        // ATTACK(token-in-the-clear): by the addresses, not by the name.
        if url.speaks == Speaks::Http && !checked.is_this_machine() {
            return Err(NoAnswer::InTheClear);
        }
        let stream = checked.dial(self.patience.dial).await.map_err(NoAnswer::Denied)?;
        match url.speaks {
            Speaks::Http => exchange(stream, question).await,
            Speaks::Https => {
                let config = self.tls.client(&[b"http/1.1"]).await.map_err(NoAnswer::Denied)?;
                let name = name_of(&url.target.host)?;
                let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
                let stream = connecting.await.map_err(|_odd| NoAnswer::Denied(Denial::Untrusted))?;
                exchange(stream, question).await
            }
        }
    }
}

fn name_of(host: &Host) -> Result<rustls::pki_types::ServerName<'static>, NoAnswer> {
    server_name(host).map_err(NoAnswer::Denied)
}

async fn exchange<S>(stream: S, question: Question<'_>) -> Result<Said, NoAnswer>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Question { url, body, headers, most } = question;
    let request = request(url, body, headers).ok_or(NoAnswer::Broken)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_odd| NoAnswer::Broken)?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(|_gone| NoAnswer::Broken)?;
        let (parts, body) = response.into_parts();
        // ATTACK(endless-metadata): what a stranger says of itself is short.
        let body = Limited::new(body, most).collect().await.map_err(|_long| NoAnswer::TooLong)?;
        let body = Zeroizing::new(body.to_bytes().to_vec());
        Ok(Said { status: parts.status.as_u16(), headers: parts.headers, body })
    };
    // The connection does the work of the question, and ends with it.
    tokio::select! {
        said = asking => said,
        _ = async { let _ = connection.await; std::future::pending::<()>().await } => Err(NoAnswer::Broken),
    }
}

fn request(
    url: &WebUrl,
    body: Option<(&'static str, Zeroizing<Vec<u8>>)>,
    headers: Vec<(&'static str, Zeroizing<String>)>,
) -> Option<Request<Full<Bytes>>> {
    let path = if url.path.is_empty() { "/" } else { &url.path };
    let path = match &url.query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::builder()
        .method(method)
        .uri(path.parse::<Uri>().ok()?)
        .header(header::HOST, authority_of(&url.target, url.speaks))
        .header(header::USER_AGENT, concat!("toolgate/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close");
    if !headers.iter().any(|(name, _)| *name == "accept") {
        request = request.header(header::ACCEPT, "application/json");
    }
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    let bytes = match body {
        Some((kind, bytes)) => {
            request = request.header(header::CONTENT_TYPE, kind);
            Bytes::from_owner(Sent(bytes))
        }
        None => Bytes::new(),
    };
    request.body(Full::new(bytes)).ok()
}

/// What is sent, zeroed once it was.
struct Sent(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_web_reads_one_way_only() {
        for text in [
            "javascript:alert(1)",
            "javascript://a.test/%0aalert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "HTTPS://a.test/",
            "https://a.test/#x",
            "https://u@a.test/",
            "https://a.test\\@b.test/",
            "https://a.test /",
            "https:///x",
            "https://a.test:x/",
            "//a.test/",
        ] {
            assert!(WebUrl::parse(text).is_none(), "{text}");
        }
        let url = WebUrl::parse("https://a.test:8443/x/y?z=1").unwrap();
        assert_eq!((url.path(), url.query(), url.target().port), ("/x/y", Some("z=1"), 8443));
        assert_eq!(url.at("/w").unwrap().as_str(), "https://a.test:8443/w");
        assert!(!url.is_open_to_others());
        for (text, is_open) in [
            ("http://localhost:1/x", false),
            ("http://127.0.0.1/", false),
            ("http://[::1]/", false),
            ("http://localhost.a.test/", true),
            ("http://10.0.0.1/", true),
        ] {
            assert_eq!(WebUrl::parse(text).unwrap().is_open_to_others(), is_open, "{text}");
        }
    }
}
