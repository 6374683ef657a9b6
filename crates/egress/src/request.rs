//! Looks at one request of HTTP, and makes of it what may go on to the host.
//!
//! Knows no connection. What goes on is written anew: one host, one framing, no word to a proxy.
//!
//! # Invariants
//! - Every place of a request that names a host names the granted one.
//! - What is meant for the next hop only goes no further, in both directions.

use contract::{Host, Target};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, Uri, Version};

use crate::credentials::{Mask, Masked};
use crate::events::Denial;
use crate::permit::Methods;
use crate::refuse;

/// What can go wrong on the way of a body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body that goes through piece by piece.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// How a place is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Https,
}

impl Speaks {
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Speaks::Http => 80,
            Speaks::Https => 443,
        }
    }

    fn scheme(self) -> Scheme {
        match self {
            Speaks::Http => Scheme::HTTP,
            Speaks::Https => Scheme::HTTPS,
        }
    }
}

/// Headers for the next hop only, besides those that `Connection` names, and those that would lead around the gate.
const HOP_BY_HOP: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
    "alt-svc",
];

/// Headers by which a server takes a request for one of another method.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Whether a request may go to the place.
pub(crate) fn check<B>(
    request: &Request<B>,
    target: &Target,
    speaks: Speaks,
    methods: Methods,
) -> Result<(), Denial> {
    if request.method() == Method::CONNECT {
        return Err(Denial::ConnectNotHere);
    }
    names_host(request, target, speaks)?;
    // A change of protocol, also to HTTP/2 in the clear, would take the next requests out of sight.
    if request.headers().contains_key(header::UPGRADE) || is_named(request.headers(), "upgrade") {
        return Err(Denial::Upgrade);
    }
    if methods.only_reads() {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD)
            || (methods == Methods::GitFetch && is_fetch(request))
            || (methods == Methods::ToolCall && is_tool_call(request));
        if !is_read {
            return Err(Denial::Method);
        }
        // Some servers take `_` for `-` in the name of a header.
        let overrides = |name: &HeaderName| OVERRIDES.contains(&name.as_str().replace('_', "-").as_str());
        if request.headers().keys().any(overrides) {
            return Err(Denial::MethodOverride);
        }
    }
    Ok(())
}

/// Whether git asks for objects. What it sends then says which it has and wants; a server changes nothing for it.
fn is_fetch<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    *request.method() == Method::POST
        && request.uri().path().ends_with("/git-upload-pack")
        && kind == Some(b"application/x-git-upload-pack-request")
}

/// Whether a server of tools is asked.
fn is_tool_call<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    *request.method() == Method::POST && kind == Some(b"application/json")
}

fn names_host<B>(request: &Request<B>, target: &Target, speaks: Speaks) -> Result<(), Denial> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let authority = request.uri().authority();
    let is_missing = match request.version() {
        Version::HTTP_2 => host.is_none() && authority.is_none(),
        _ => host.is_none(),
    };
    if is_missing || second.is_some() {
        return Err(Denial::NoHost);
    }
    if request.uri().scheme().is_some_and(|scheme| *scheme != speaks.scheme()) {
        return Err(Denial::OtherHost);
    }
    let texts = [host.map(HeaderValue::as_bytes), authority.map(|authority| authority.as_str().as_bytes())];
    for text in texts.into_iter().flatten() {
        if read_authority(text, speaks.default_port()).as_ref() != Some(target) {
            return Err(Denial::OtherHost);
        }
    }
    Ok(())
}

/// Reads `host` or `host:port`.
pub(crate) fn read_authority(text: &[u8], default_port: u16) -> Option<Target> {
    let text = std::str::from_utf8(text).ok()?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            (host, is_plain.then(|| port.parse().ok()).flatten()?)
        }
        _ => (text, default_port),
    };
    Some(Target { host: Host::parse(host).ok()?, port })
}

/// The request as it goes on: to this place, with nothing of the hop.
pub(crate) fn forward(
    request: Request<Body>,
    target: &Target,
    speaks: Speaks,
    version: Version,
) -> Result<Request<Body>, Denial> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let authority = authority_of(target, speaks);
    strip(&mut parts.headers);
    parts.headers.remove(header::HOST);
    let mut uri = hyper::http::uri::Parts::default();
    uri.path_and_query = Some(path);
    if version == Version::HTTP_2 {
        uri.scheme = Some(speaks.scheme());
        uri.authority = Some(Authority::try_from(authority).map_err(|_odd| Denial::BadRequest)?);
    } else {
        let host = HeaderValue::from_str(&authority).map_err(|_odd| Denial::BadRequest)?;
        parts.headers.insert(header::HOST, host);
    }
    parts.uri = Uri::from_parts(uri).map_err(|_odd| Denial::BadRequest)?;
    parts.version = version;
    parts.extensions.clear();
    Ok(Request::from_parts(parts, body))
}

/// The answer as it goes back to the client, without the secrets of its request.
pub(crate) fn back(response: Response<Incoming>, mask: Mask) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    strip(&mut parts.headers);
    parts.version = Version::default();
    parts.extensions.clear();
    if mask.is_empty() {
        return Response::from_parts(parts, through(body));
    }
    mask.headers(&mut parts.headers);
    Response::from_parts(parts, Masked::new(through(body), mask).boxed_unsync())
}

/// The answer that says why not.
pub(crate) fn refusal(denial: &Denial) -> Response<Body> {
    let document = Full::new(Bytes::from(refuse::problem(denial)));
    let mut response = Response::new(document.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = refuse::status(denial);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(refuse::PROBLEM));
    response
}

/// A body that goes on as it comes.
pub(crate) fn through(body: Incoming) -> Body {
    body.map_err(BodyError::from).boxed_unsync()
}

/// As it stands in `Host` and in `:authority`.
pub(crate) fn authority_of(target: &Target, speaks: Speaks) -> String {
    let whole = target.to_string();
    match whole.strip_suffix(&format!(":{}", speaks.default_port())) {
        Some(host) => host.to_owned(),
        None => whole,
    }
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_words(headers).filter_map(|word| word.parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn is_named(headers: &HeaderMap, wanted: &str) -> bool {
    connection_words(headers).any(|word| word.eq_ignore_ascii_case(wanted))
}

fn connection_words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    fn checked(request: &Request<()>, methods: Methods) -> Result<(), Denial> {
        check(request, &Target::parse("a.test:443").unwrap(), Speaks::Https, methods)
    }

    #[test]
    fn a_request_names_its_host_once_and_everywhere_the_same() {
        let any = |uri, headers: &[_]| checked(&request("POST", uri, headers), Methods::Any);
        for host in ["a.test", "A.test", "a.test:443", "a.test."] {
            assert_eq!(any("/", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(any("https://a.test/", &[("host", "a.test")]), Ok(()));
        for host in
            ["b.test", "a.test:80", "a.test:", "a.test:+443", "a.test@b.test", "a.test, b.test", "", "[::1]"]
        {
            assert_eq!(any("/", &[("host", host)]), Err(Denial::OtherHost), "{host}");
        }
        assert_eq!(any("/", &[]), Err(Denial::NoHost));
        assert_eq!(any("/", &[("host", "a.test"), ("host", "a.test")]), Err(Denial::NoHost));
        for uri in ["https://b.test/", "http://a.test/", "https://a.test:8443/", "https://u@a.test/"] {
            assert_eq!(any(uri, &[("host", "a.test")]), Err(Denial::OtherHost), "{uri}");
        }
    }

    #[test]
    fn a_server_of_tools_is_asked_by_a_post_of_json_and_nothing_else_is_written() {
        let json = [("host", "a.test"), ("content-type", "application/json")];
        assert_eq!(checked(&request("POST", "/mcp", &json), Methods::ToolCall), Ok(()));
        assert_eq!(checked(&request("POST", "/mcp", &json), Methods::ReadOnly), Err(Denial::Method));
        for (method, headers) in [("PUT", json.as_slice()), ("DELETE", &json), ("POST", &json[..1])] {
            assert_eq!(
                checked(&request(method, "/mcp", headers), Methods::ToolCall),
                Err(Denial::Method),
                "{method}"
            );
        }
    }

    #[test]
    fn a_grant_for_fetching_has_one_more_request_and_that_is_no_push() {
        let host = ("host", "a.test");
        let kind = |of| ("content-type", of);
        let fetch = [host, kind("application/x-git-upload-pack-request")];
        assert_eq!(checked(&request("POST", "/r.git/git-upload-pack", &fetch), Methods::GitFetch), Ok(()));
        assert_eq!(checked(&request("GET", "/r.git/info/refs", &[host]), Methods::GitFetch), Ok(()));
        let push = [host, kind("application/x-git-receive-pack-request")];
        for (uri, headers) in [
            ("/r.git/git-receive-pack", push.as_slice()),
            ("/r.git/git-upload-pack", &push),
            ("/r.git/git-upload-pack?x", &[host]),
            ("/git-upload-pack/other", &fetch),
        ] {
            assert_eq!(
                checked(&request("POST", uri, headers), Methods::GitFetch),
                Err(Denial::Method),
                "{uri}"
            );
        }
        assert_eq!(
            checked(&request("POST", "/r.git/git-upload-pack", &fetch), Methods::ReadOnly),
            Err(Denial::Method)
        );
    }

    #[test]
    fn a_grant_that_reads_has_two_methods_and_no_other_by_the_back_door() {
        let host = ("host", "a.test");
        for method in ["GET", "HEAD"] {
            assert_eq!(checked(&request(method, "/", &[host]), Methods::ReadOnly), Ok(()));
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "FROB"] {
            assert_eq!(checked(&request(method, "/", &[host]), Methods::ReadOnly), Err(Denial::Method));
        }
        for name in OVERRIDES {
            let asked = request("GET", "/", &[host, (name, "DELETE")]);
            assert_eq!(checked(&asked, Methods::ReadOnly), Err(Denial::MethodOverride));
        }
    }

    #[test]
    fn a_change_of_protocol_and_a_tunnel_are_refused() {
        let host = ("host", "a.test");
        for headers in [
            vec![host, ("upgrade", "h2c"), ("connection", "Upgrade, HTTP2-Settings")],
            vec![host, ("upgrade", "websocket")],
            vec![host, ("connection", "close, UPGRADE")],
        ] {
            assert_eq!(checked(&request("GET", "/", &headers), Methods::Any), Err(Denial::Upgrade));
        }
        let tunnel = request("CONNECT", "a.test:443", &[host]);
        assert_eq!(checked(&tunnel, Methods::Any), Err(Denial::ConnectNotHere));
    }

    #[test]
    fn what_is_for_the_hop_goes_no_further() {
        let headers = [
            ("connection", "close, X-Inner"),
            ("x-inner", "1"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("accept", "*/*"),
            ("host", "A.TEST:443"),
        ];
        let empty = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        let asked = request("GET", "https://a.test/x?y=1", &headers).map(|()| empty);
        let target = Target::parse("a.test:443").unwrap();
        let sent = forward(asked, &target, Speaks::Https, Version::HTTP_11).unwrap();
        assert_eq!(sent.uri(), "/x?y=1");
        let left: Vec<_> =
            sent.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(left, [("accept", "*/*"), ("host", "a.test")]);
    }
}
