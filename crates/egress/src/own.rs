//! What the gate itself says to the outside: that a question waits, what happened in numbers. No sandbox has a part in it.
//!
//! # Invariants
//! - Where it goes was named by an operator, and is checked as for anybody else: the addresses that are dialled were checked by
//!   the lookup that found them, and a special one has to be listed.
//! - Without TLS nothing leaves but to a place that is listed as private.
//! - Nothing is followed: an answer that leads elsewhere is an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contract::{Private, Target};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::Egress;
use crate::credentials::{Secret, SecretSource};
use crate::events::Denial;
use crate::request::{Speaks, authority_of};
use crate::resolve::Checked;
use crate::smtp::{self, Mail};
use crate::tls::server_name;

/// How long one message may take.
const LONGEST: Duration = Duration::from_secs(20);
/// How much of an answer is read.
const MAX_ANSWER: usize = 64 << 10;

/// A place on the web that an operator named.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnUrl {
    speaks: Speaks,
    target: Target,
    path: String,
}

/// Why a text is no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnUrlError {
    /// It has another form.
    #[error("a place is such as `https://host.example/path`, without a name or password in it")]
    Form,
    /// It would be readable on the way.
    #[error("without TLS only a host is spoken to that `egress.private` lists")]
    Plain,
}

impl OwnUrl {
    /// Reads a place.
    pub fn parse(text: &str, private: &Private) -> Result<OwnUrl, OwnUrlError> {
        let (speaks, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (Speaks::Https, rest),
            (None, Some(rest)) => (Speaks::Http, rest),
            (None, None) => return Err(OwnUrlError::Form),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (place, path) = rest.split_at_checked(end).ok_or(OwnUrlError::Form)?;
        let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains('#');
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let with_port = || Target::parse(&format!("{place}:{}", speaks.default_port()));
        let target = Target::parse(place).or_else(|_| with_port()).map_err(|_| OwnUrlError::Form)?;
        if !is_plain || path.len() > 2048 {
            return Err(OwnUrlError::Form);
        }
        // A place that may lie at a private address is one that is listed; no other is.
        let is_listed = match target.host.address() {
            Some(address) => private.entries().iter().any(|entry| entry.covers(&address.into())),
            None => private.entries().iter().any(|entry| entry.covers(&target.host)),
        };
        if speaks == Speaks::Http && !is_listed {
            return Err(OwnUrlError::Plain);
        }
        Ok(OwnUrl { speaks, target, path })
    }

    /// The host and port alone: the path may be a secret.
    pub fn place(&self) -> String {
        self.target.to_string()
    }

    /// The same place, with more behind its path.
    #[must_use]
    pub fn join(&self, more: &str) -> OwnUrl {
        OwnUrl { path: format!("{}{more}", self.path.trim_end_matches('/')), ..self.clone() }
    }
}

impl fmt::Debug for OwnUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnUrl({}, ..)", self.target)
    }
}

/// What is posted.
#[derive(Clone, Debug)]
pub struct Post<'a> {
    /// What kind of thing it is.
    pub content_type: &'static str,
    /// The thing.
    pub body: Vec<u8>,
    /// What it is signed with, and when, in seconds since 1970.
    pub signed: Option<(&'a SecretSource, i64)>,
    /// A header whose value is a secret.
    pub secret_header: Option<(&'a str, &'a SecretSource)>,
}

/// Where something is posted to.
#[derive(Clone, Copy, Debug)]
pub enum PostTo<'a> {
    /// There.
    Url(&'a OwnUrl),
    /// Where a secret says.
    Secret(&'a SecretSource),
}

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// It was not let out, or nobody was there.
    #[error("{0}")]
    Refused(Denial),
    /// A secret cannot be had.
    #[error("the secret for it cannot be had")]
    NoSecret,
    /// The place that a secret names is none.
    #[error("the place is not one to send to: {0}")]
    Url(OwnUrlError),
    /// It took too long.
    #[error("it took too long")]
    TooSlow,
    /// They broke off.
    #[error("the connection broke off")]
    BrokenOff,
    /// They did not want it.
    #[error("it was answered with {status}")]
    Status {
        /// With what.
        status: u16,
    },
    /// A server for mail did not want it.
    #[error("the mail server said {code} to `{to}`")]
    Mail {
        /// With what.
        code: u16,
        /// To which command.
        to: &'static str,
    },
    /// A server for mail does not speak TLS.
    #[error("the mail server offers no TLS")]
    NoTls,
}

impl OwnError {
    /// Whether there is no sense in trying again.
    pub fn is_final(&self) -> bool {
        match self {
            OwnError::Refused(denial) => {
                matches!(denial, Denial::SpecialAddress { .. } | Denial::SpecialName { .. } | Denial::BadName)
            }
            OwnError::Url(_) | OwnError::NoTls => true,
            OwnError::Status { status } => matches!(status, 300..=407 | 409..=428 | 430..=499),
            OwnError::Mail { code, .. } => *code >= 500,
            OwnError::NoSecret | OwnError::TooSlow | OwnError::BrokenOff => false,
        }
    }
}

impl Egress {
    /// A secret of the gate's own. Whoever gets it has to keep it.
    pub async fn own_secret(&self, source: &SecretSource) -> Option<Zeroizing<Vec<u8>>> {
        let secret = self.fetch_own(source).await.ok()?;
        Some(Zeroizing::new(secret.expose().as_bytes().to_vec()))
    }

    /// Posts something. Any answer of success is one; no other is.
    pub async fn post(&self, to: PostTo<'_>, post: Post<'_>, private: &Private) -> Result<(), OwnError> {
        let posting = self.post_now(to, post, private);
        tokio::time::timeout(LONGEST, posting).await.unwrap_or(Err(OwnError::TooSlow))
    }

    /// Hands a mail to a server.
    pub async fn mail(&self, mail: &Mail<'_>, private: &Private) -> Result<(), OwnError> {
        let mailing = async {
            let password = match mail.login {
                Some((user, source)) => Some((user, self.fetch_own(source).await?)),
                None => None,
            };
            let stream = self.reach(mail.server.clone(), private).await?;
            let config = self.gate.tls.client(&[]).await.map_err(OwnError::Refused)?;
            smtp::hand_over(stream, mail, password, TlsConnector::from(Arc::new(config))).await
        };
        tokio::time::timeout(LONGEST, mailing).await.unwrap_or(Err(OwnError::TooSlow))
    }

    async fn post_now(&self, to: PostTo<'_>, post: Post<'_>, private: &Private) -> Result<(), OwnError> {
        let of_secret;
        let url = match to {
            PostTo::Url(url) => url,
            PostTo::Secret(source) => {
                let text = self.fetch_own(source).await?;
                of_secret = OwnUrl::parse(text.expose(), private).map_err(OwnError::Url)?;
                &of_secret
            }
        };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&url.path)
            .header(header::HOST, authority_of(&url.target, url.speaks))
            .header(header::CONTENT_TYPE, post.content_type)
            .header(header::USER_AGENT, concat!("toolgate/", env!("CARGO_PKG_VERSION")));
        if let Some((source, at)) = post.signed {
            let key = self.fetch_own(source).await?;
            let mac = signature(key.expose().as_bytes(), at, &post.body).ok_or(OwnError::NoSecret)?;
            request = request.header("x-toolgate-timestamp", at).header("x-toolgate-signature", mac);
        }
        if let Some((name, source)) = post.secret_header {
            let secret = self.fetch_own(source).await?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| OwnError::NoSecret)?;
            let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| OwnError::NoSecret)?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(post.body))).map_err(|_| OwnError::BrokenOff)?;
        let stream = self.reach(url.target.clone(), private).await?;
        match url.speaks {
            Speaks::Http => exchange(stream, request).await,
            Speaks::Https => {
                let config = self.gate.tls.client(&[b"http/1.1"]).await.map_err(OwnError::Refused)?;
                let name = server_name(&url.target.host).map_err(OwnError::Refused)?;
                let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
                let stream = connecting.await.map_err(|_| OwnError::Refused(Denial::Untrusted))?;
                exchange(stream, request).await
            }
        }
    }

    async fn fetch_own(&self, source: &SecretSource) -> Result<Secret, OwnError> {
        let gate = &self.gate;
        gate.credentials.own(source, &gate.resolver, &gate.tls).await.map_err(|_| OwnError::NoSecret)
    }

    // ATTACK(notice-to-private): wherever a name leads today, a special address is not dialled unless it is listed.
    async fn reach(&self, target: Target, private: &Private) -> Result<tokio::net::TcpStream, OwnError> {
        let gate = &self.gate;
        let checked: Checked =
            gate.resolver.check_own(target, private, gate.guards).await.map_err(OwnError::Refused)?;
        checked.dial(gate.patience.dial).await.map_err(OwnError::Refused)
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(), OwnError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let begun = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = begun.map_err(|_| OwnError::BrokenOff)?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(|_| OwnError::BrokenOff)?;
        let status = response.status();
        // Read to its end, so that nobody sees a connection that was cut; what it says is of no interest.
        let _ = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        if status.is_success() { Ok(()) } else { Err(OwnError::Status { status: status.as_u16() }) }
    };
    tokio::select! {
        answer = asking => answer,
        _ = async { let _ = connection.await; std::future::pending::<()>().await } => Err(OwnError::BrokenOff),
    }
}

/// What proves that a message is the gate's, and when it was written: the same form as messages of chats have.
fn signature(key: &[u8], at: i64, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("v1:{at}:").as_bytes());
    mac.update(body);
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("v1={digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_a_port_and_a_path_and_without_tls_it_is_listed() {
        let mut private = Private::none();
        private.add("127.0.0.1").unwrap();
        let read = |text: &str| OwnUrl::parse(text, &private).map(|url| (url.place(), url.path));
        let place = |place: &str, path: &str| Ok((place.to_owned(), path.to_owned()));
        assert_eq!(read("https://hooks.example.com/a/b?c=d"), place("hooks.example.com:443", "/a/b?c=d"));
        assert_eq!(read("https://hooks.example.com"), place("hooks.example.com:443", "/"));
        assert_eq!(read("https://hooks.example.com:8443?x"), place("hooks.example.com:8443", "/?x"));
        assert_eq!(read("http://127.0.0.1:8080/x"), place("127.0.0.1:8080", "/x"));
        for plain in ["http://hooks.example.com/x", "http://127.0.0.2/x"] {
            assert_eq!(read(plain), Err(OwnUrlError::Plain), "{plain}");
        }
        for odd in [
            "",
            "ftp://a.example/",
            "https://",
            "https://a b/",
            "https://u:p@a.example/",
            "https://a.example/\r\nX: y",
            "https://a.example/#x",
        ] {
            assert_eq!(read(odd), Err(OwnUrlError::Form), "{odd:?}");
        }
    }

    #[test]
    fn a_place_does_not_show_its_path() {
        let url = OwnUrl::parse("https://hooks.example.com/services/T0/B0/secret", &Private::none()).unwrap();
        assert_eq!(format!("{url:?}"), "OwnUrl(hooks.example.com:443, ..)");
    }
}
