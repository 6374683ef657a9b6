//! Asks one thing of the web, inside the sandbox, whose network leads to the gate and nowhere else.
//!
//! It reads what strangers answer, and that is why it is here. Which places there are is the network's business; what is
//! decided here is what a redirect may take along.
//!
//! # Invariants
//! - A redirect leads to places of the grant only, and never from https to http.
//! - What was meant for one origin is not sent to another.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use contract::{Host, Reason};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::close_to_neighbours;
use crate::http::{Address, Got, Order, Places, Redirect, Scheme, is_for_anybody};
use crate::path::shown;
use crate::wire::{read_frame, write_frame};

/// Whom to trust: what the sandbox was given, which is the system's and what the gate adds; else the system's.
const BUNDLES: [&str; 4] = [
    jail::CERTIFICATES,
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
];

/// No head of an answer is longer.
const MAX_HEAD: usize = 128 * 1024;
/// As much of one header's value as is told.
const MAX_VALUE: usize = 4096;

/// Reads one order and its body, carries it out, tells what it got and the body of that.
pub(super) fn serve() -> io::Result<()> {
    close_to_neighbours()?;
    let Some(order) = read_frame(io::stdin().lock())? else { return Ok(()) };
    let order: Order = serde_json::from_slice(&order)?;
    let body = read_frame(io::stdin().lock())?.unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let timeout = Duration::from_millis(order.timeout_ms);
    let asked = runtime.block_on(async {
        let asked = tokio::time::timeout(timeout, ask(&order, body.into())).await;
        asked.unwrap_or_else(|_elapsed| {
            Err(Reason::timeout(format!("there was no whole answer within {} ms", order.timeout_ms)))
        })
    });
    let (got, body) = match asked {
        Ok((got, body)) => (Ok(got), body),
        Err(reason) => (Err(reason), Vec::new()),
    };
    write_frame(io::stdout().lock(), &serde_json::to_vec::<Result<Got, Reason>>(&got)?)?;
    write_frame(io::stdout().lock(), &body)
}

/// What is sent at each step.
struct Step {
    method: Method,
    address: Address,
    headers: Vec<(String, String)>,
    body: Bytes,
}

async fn ask(order: &Order, body: Bytes) -> Result<(Got, Vec<u8>), Reason> {
    let method =
        Method::from_bytes(order.method.as_bytes()).map_err(|_| Reason::internal("the method is none"))?;
    let mut step = Step { method, address: order.address.clone(), headers: order.headers.clone(), body };
    let places = order.places.read().ok_or_else(|| Reason::internal("a place of the grant is none"))?;
    let mut redirects = Vec::new();
    loop {
        let response = send(&step).await?;
        let status = response.status();
        let location = response.headers().get(LOCATION).filter(|_| is_redirect(status.as_u16()));
        match location {
            Some(location) if redirects.len() < usize::from(order.redirects) => {
                let location = location
                    .to_str()
                    .map_err(|_| Reason::tool_failed("a redirect leads to what is no URL"))?;
                step = follow(step, status.as_u16(), location, &places)?;
                redirects.push(Redirect { status: status.as_u16(), to: step.address.to_string() });
            }
            _ => {
                let headers = headers_of(&response);
                let kind = headers.get("content-type").and_then(|values| values.first());
                let is_stream = kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
                let until = order.until.filter(|_| is_stream);
                let (body, whole) = read_body(response.into_body(), order.max_bytes, until).await?;
                let url = step.address.to_string();
                return Ok((Got { status: status.as_u16(), url, headers, whole, redirects }, body));
            }
        }
    }
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The next step, if the redirect may be followed.
fn follow(step: Step, status: u16, location: &str, places: &Places) -> Result<Step, Reason> {
    let there = step.address.led_to(location)?;
    let led = format!("a redirect leads to `{}`", shown(&there.to_string()));
    // ATTACK(redirect-downgrade): what was asked for in private is not asked for in the open.
    if there.scheme < step.address.scheme {
        return Err(Reason::host_not_allowed(format!("{led}, from https to http")));
    }
    // ATTACK(redirect-elsewhere): an answer does not say which hosts a call may reach.
    if !there.is_in(&places.reach) || places.blocked.iter().any(|pattern| pattern.covers(&there.target.host))
    {
        let hint = "if you need that host, ask for it by a call of its own";
        return Err(Reason::host_not_allowed(format!("{led}, which this call may not reach")).with_hint(hint));
    }
    let reads = matches!(step.method, Method::GET | Method::HEAD);
    let becomes_get = status == 303 || (matches!(status, 301 | 302) && step.method == Method::POST);
    let same = step.address.is_same_origin(&there);
    if !reads && !becomes_get && !same {
        return Err(Reason::host_not_allowed(format!(
            "{led}, another origin, with a request that changes something"
        )));
    }
    let (method, body) = match step.method {
        Method::HEAD => (Method::HEAD, step.body),
        _ if becomes_get => (Method::GET, Bytes::new()),
        method => (method, step.body),
    };
    let is_kept =
        |name: &str| (same || is_for_anybody(name)) && !(becomes_get && name.starts_with("content-"));
    let headers = step.headers.into_iter().filter(|(name, _)| is_kept(name)).collect();
    Ok(Step { method, address: there, headers, body })
}

async fn send(step: &Step) -> Result<Response<Incoming>, Reason> {
    let place = &step.address.target;
    let failed = |why: &str| Reason::tool_failed(format!("`{place}` {why}"));
    let stream = connect(step).await?;
    match step.address.scheme {
        Scheme::Http => exchange(stream, step).await,
        Scheme::Https => {
            let name = match place.host.address() {
                Some(address) => ServerName::from(address),
                None => {
                    ServerName::try_from(place.host.to_string()).map_err(|_| failed("has no proper name"))?
                }
            };
            let connector = TlsConnector::from(Arc::new(tls_config()?));
            let stream = connector
                .connect(name, stream)
                .await
                .map_err(|error| failed(&format!("cannot be spoken to over TLS: {error}")))?;
            exchange(stream, step).await
        }
    }
}

async fn connect(step: &Step) -> Result<TcpStream, Reason> {
    let place = &step.address.target;
    let mut last = None;
    for address in addresses_of(&place.host).await? {
        #[expect(
            clippy::disallowed_methods,
            reason = "behind every wall: this network leads to the gate alone"
        )]
        match TcpStream::connect(SocketAddr::new(address, place.port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map(|error| format!(": {error}")).unwrap_or_default();
    Err(Reason::tool_failed(format!("`{place}` cannot be reached{why}")))
}

/// A static binary has none of the C library's ways to look up a name; the network's own name server is asked.
async fn addresses_of(host: &Host) -> Result<Vec<IpAddr>, Reason> {
    let Some(name) = host.name() else { return Ok(host.address().into_iter().collect()) };
    let unknown = || Reason::host_not_allowed(format!("`{name}` is not a name that this call may look up"));
    let server = NameServerConfig::new(
        Ipv4Addr::LOCALHOST.into(),
        true,
        vec![ConnectionConfig::udp(), ConnectionConfig::tcp()],
    );
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().use_hosts_file = ResolveHosts::Never;
    let resolver = builder.build().map_err(|_| Reason::internal("names cannot be looked up"))?;
    // The dot at the end: no search list makes another name of it.
    let found = resolver.lookup_ip(format!("{name}.")).await.map_err(|_| unknown())?;
    Ok(found.iter().collect())
}

fn tls_config() -> Result<ClientConfig, Reason> {
    let mut roots = RootCertStore::empty();
    for bundle in BUNDLES {
        let certificates = CertificateDer::pem_file_iter(bundle).into_iter().flatten().flatten();
        if roots.add_parsable_certificates(certificates).0 > 0 {
            break;
        }
    }
    if roots.is_empty() {
        return Err(Reason::cannot_enforce(
            "the sandbox has no certificates to trust, so no host can prove who it is",
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Reason::internal("TLS cannot be set up"))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// One request and the head of its answer.
async fn exchange<S>(stream: S, step: &Step) -> Result<Response<Incoming>, Reason>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: hyper::Error| {
        Reason::tool_failed(format!("`{}` did not answer as HTTP does: {error}", step.address.target))
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with the runtime, which is as long as this process works.
    tokio::spawn(connection);
    let host = HeaderValue::from_str(&step.address.host());
    let mut request = Request::builder().method(&step.method).uri(&step.address.path);
    if let Some(headers) = request.headers_mut() {
        headers.insert(HOST, host.map_err(|_| Reason::internal("the host is none"))?);
        for (name, value) in &step.headers {
            let header = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value));
            let (Ok(name), Ok(value)) = header else { return Err(Reason::internal("a header is none")) };
            headers.insert(name, value);
        }
    }
    let request = request.body(Full::new(step.body.clone()));
    let request = request.map_err(|_| Reason::internal("the request cannot be written"))?;
    sender.send_request(request).await.map_err(failed)
}

fn headers_of<B>(response: &Response<B>) -> BTreeMap<String, Vec<String>> {
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in response.headers() {
        let value: String = String::from_utf8_lossy(value.as_bytes()).chars().take(MAX_VALUE).collect();
        headers.entry(name.as_str().to_owned()).or_default().push(value);
    }
    headers
}

/// As much of a body as may be read, and whether that is all. Of a stream of events that has an answer to be waited for, what
/// comes after it does not count.
async fn read_body(mut body: Incoming, most: u64, until: Option<u64>) -> Result<(Vec<u8>, bool), Reason> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut read = Vec::new();
    let mut looked = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Reason::tool_failed(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = most.saturating_sub(read.len());
        read.extend(data.iter().take(room));
        if data.len() > room {
            return Ok((read, false));
        }
        if let Some(id) = until {
            let (is_there, seen) = answers(&read, looked, id);
            if is_there {
                return Ok((read, true));
            }
            looked = seen;
        }
    }
    Ok((read, true))
}

/// Whether one of the events that are whole, from this place on, is the answer with this number; and up to where they are.
fn answers(read: &[u8], from: usize, id: u64) -> (bool, usize) {
    let rest = read.get(from..).unwrap_or_default();
    let ends = |end: &[u8]| memchr::memmem::rfind(rest, end).map(|place| place + end.len());
    let Some(end) = [b"\n\n".as_slice(), b"\r\n\r\n"].into_iter().filter_map(ends).max() else {
        return (false, from);
    };
    let text = String::from_utf8_lossy(rest.get(..end).unwrap_or_default());
    let is_answer = |event: &crate::mcp::StreamEvent| {
        let message: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
        message.get("id").and_then(serde_json::Value::as_u64) == Some(id) && message.get("method").is_none()
    };
    (crate::mcp::events_of(&text).iter().any(is_answer), from + end)
}

#[cfg(test)]
mod tests {
    use contract::{HostPattern, Reach};

    use super::*;

    fn step(method: Method, url: &str) -> Step {
        let headers = ["authorization", "cookie", "x-api-key", "accept", "content-type"];
        let headers = headers.map(|name| (name.to_owned(), "x".to_owned())).into();
        Step { method, address: Address::parse(url).unwrap(), headers, body: Bytes::from_static(b"b") }
    }

    fn places() -> Places {
        let reach = ["a.example:443", "b.example:443", "*.c.example:443", "a.example:80"];
        Places {
            reach: reach.map(|text| Reach::parse(text).unwrap()).into(),
            blocked: vec![HostPattern::parse("evil.c.example").unwrap()],
        }
    }

    #[test]
    fn places_cross_to_the_worker_as_they_are() {
        let mut all = places();
        all.reach.push(Reach { host: HostPattern::Public, port: 443 });
        all.reach.push(Reach::parse("[2606:4700::1]:443").unwrap());
        let sent = serde_json::to_vec(&all.sent()).unwrap();
        let read = serde_json::from_slice::<crate::http::SentPlaces>(&sent).unwrap().read().unwrap();
        assert_eq!((read.reach, read.blocked), (all.reach, all.blocked));
    }

    fn led(method: Method, from: &str, status: u16, to: &str) -> Result<Step, String> {
        follow(step(method, from), status, to, &places()).map_err(|reason| reason.code.to_string())
    }

    fn names(step: &Step) -> Vec<&str> {
        step.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_redirect_leads_to_places_of_the_grant_only_and_never_to_plain_http() {
        let get =
            |to: &str| led(Method::GET, "https://a.example/x", 302, to).map(|step| step.address.to_string());
        assert_eq!(get("/y").unwrap(), "https://a.example/y");
        assert_eq!(get("https://b.example/").unwrap(), "https://b.example/");
        assert_eq!(get("https://x.c.example/").unwrap(), "https://x.c.example/");
        for to in [
            "https://d.example/",
            "https://a.example:444/",
            "http://a.example/",
            "https://169.254.169.254/",
            "//localhost/",
            "https://evil.c.example/",
        ] {
            assert_eq!(get(to).unwrap_err(), "host_not_allowed", "{to}");
        }
        assert!(led(Method::GET, "http://a.example/", 301, "https://a.example/").is_ok());
    }

    #[test]
    fn what_was_meant_for_one_origin_is_not_sent_to_another() {
        let same = led(Method::GET, "https://a.example/x", 302, "/y").unwrap();
        assert_eq!(names(&same).len(), 5);
        let other = led(Method::GET, "https://a.example/x", 302, "https://b.example/").unwrap();
        assert_eq!(names(&other), ["accept", "content-type"]);
        let secure = led(Method::GET, "http://a.example/x", 301, "https://a.example/x").unwrap();
        assert_eq!(names(&secure), ["accept", "content-type"]);
    }

    #[test]
    fn a_request_that_changes_something_is_repeated_at_its_origin_only() {
        let kept = led(Method::PUT, "https://a.example/x", 307, "/y").unwrap();
        assert_eq!((kept.method, kept.body.len()), (Method::PUT, 1));
        assert_eq!(
            led(Method::PUT, "https://a.example/x", 307, "https://b.example/").err().as_deref(),
            Some("host_not_allowed")
        );
        assert_eq!(
            led(Method::PUT, "https://a.example/x", 302, "https://b.example/").err().as_deref(),
            Some("host_not_allowed")
        );
        for status in [301, 302, 303] {
            let asks = led(Method::POST, "https://a.example/x", status, "https://b.example/").unwrap();
            assert_eq!(
                (asks.method.clone(), asks.body.len(), names(&asks)),
                (Method::GET, 0, vec!["accept"]),
                "{status}"
            );
        }
    }
}
