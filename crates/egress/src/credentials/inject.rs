//! Puts a secret into its place of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use zeroize::Zeroizing;

use super::{Injection, Secret};
use crate::events::Denial;
use crate::request::Body;

/// A body that has to be looked at is gathered; no longer one is.
const MAX_BODY: usize = 1 << 20;

pub(super) async fn put(
    mut request: Request<Body>,
    injection: &Injection,
    secret: &Secret,
) -> Result<Request<Body>, Denial> {
    match injection {
        Injection::Header { name } => {
            let name: HeaderName = name.parse().map_err(|_odd| Denial::NoCredential)?;
            set(&mut request, name, secret.expose())?;
        }
        Injection::Bearer => {
            let value = Zeroizing::new(format!("Bearer {}", secret.expose()));
            set(&mut request, header::AUTHORIZATION, &value)?;
        }
        Injection::Basic { user } => {
            let value = Zeroizing::new(format!("Basic {}", *basic(user, secret)));
            set(&mut request, header::AUTHORIZATION, &value)?;
        }
        Injection::Query { name } => put_query(&mut request, name, secret)?,
        Injection::BodyPlaceholder { placeholder } => return put_body(request, placeholder, secret).await,
        // A signature covers the others, and is not one of them; a key for ssh is in no request.
        Injection::AwsSigV4 { .. } | Injection::SshKey => return Err(Denial::NoCredential),
    }
    Ok(request)
}

/// A user and a password as Basic has them.
pub(super) fn basic(user: &str, secret: &Secret) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{}", secret.expose()));
    Zeroizing::new(STANDARD.encode(pair.as_bytes()))
}

/// Sets a header in place of all of its name.
fn set(request: &mut Request<Body>, name: HeaderName, value: &str) -> Result<(), Denial> {
    let mut value = HeaderValue::from_str(value).map_err(|_odd| Denial::NoCredential)?;
    value.set_sensitive(true);
    request.headers_mut().insert(name, value);
    Ok(())
}

fn put_query(request: &mut Request<Body>, name: &str, secret: &Secret) -> Result<(), Denial> {
    let mut parts = request.uri().clone().into_parts();
    let path = request.uri().path();
    let others = request.uri().query().unwrap_or_default().split('&').filter(|pair| {
        let key = pair.split_once('=').map_or(*pair, |(key, _)| key);
        !pair.is_empty() && percent_decode(key) != name.as_bytes()
    });
    let own = Zeroizing::new(format!("{}={}", *percent_encode(name), *percent_encode(secret.expose())));
    let query = others.chain([own.as_str()]).collect::<Vec<_>>().join("&");
    let whole = Zeroizing::new(format!("{path}?{query}"));
    let whole = PathAndQuery::try_from(whole.as_str()).map_err(|_odd| Denial::NoCredential)?;
    parts.path_and_query = Some(whole);
    *request.uri_mut() = parts.try_into().map_err(|_odd| Denial::NoCredential)?;
    Ok(())
}

async fn put_body(
    request: Request<Body>,
    placeholder: &str,
    secret: &Secret,
) -> Result<Request<Body>, Denial> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let written = write_for(&kind, secret)?;
    let (parts, body) = request.into_parts();
    let whole = gather(body).await?;
    let replaced = replace(&whole, placeholder.as_bytes(), written.as_bytes());
    Ok(with_body(parts, Bytes::from(replaced)))
}

/// The secret as it stands in a body of this kind.
fn write_for(kind: &str, secret: &Secret) -> Result<Zeroizing<String>, Denial> {
    if kind == "application/x-www-form-urlencoded" {
        return Ok(percent_encode(secret.expose()));
    }
    if kind == "application/json" || kind.ends_with("+json") {
        let text = serde_json::to_string(secret.expose()).map_err(|_odd| Denial::NoCredential)?;
        let text = Zeroizing::new(text);
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
        return Ok(Zeroizing::new(inner.to_owned()));
    }
    Ok(Zeroizing::new(secret.expose().to_owned()))
}

/// A whole body, if it is not too long.
pub(super) async fn gather(mut body: Body) -> Result<Bytes, Denial> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_gone| Denial::BadRequest)?;
        whole.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
        if whole.len() > MAX_BODY {
            return Err(Denial::BodyTooLong);
        }
    }
    Ok(Bytes::from(whole))
}

/// The request with a body of known length.
pub(super) fn with_body(mut parts: hyper::http::request::Parts, body: Bytes) -> Request<Body> {
    parts.headers.remove(header::CONTENT_LENGTH);
    if !body.is_empty() {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Request::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

fn replace(whole: &[u8], placeholder: &[u8], written: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(whole.len());
    let mut rest = whole;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(placeholder) {
            replaced.extend_from_slice(written);
            rest = after;
        } else {
            replaced.push(*first);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    replaced
}

/// Everything but letters, digits and `-._~` as `%XX`.
pub(crate) fn percent_encode(text: &str) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(text.len() * 3));
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A key of a query as servers read it.
pub(crate) fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let ahead: Vec<u8> = bytes.clone().take(2).collect();
        let hex = std::str::from_utf8(&ahead).ok().filter(|hex| hex.len() == 2 && !hex.starts_with('+'));
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                decoded.push(value);
                bytes.nth(1);
            }
            (b'+', _) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)], body: &'static str) -> Request<Body> {
        let mut builder = Request::builder().method("POST").uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()).unwrap()
    }

    async fn put_into(request: Request<Body>, injection: Injection, secret: &str) -> Request<Body> {
        put(request, &injection, &Secret::new(secret.to_owned())).await.unwrap()
    }

    #[tokio::test]
    async fn what_the_caller_sent_in_its_place_is_gone() {
        let own =
            [("authorization", "Bearer forged"), ("authorization", "Basic forged"), ("x-key", "forged")];
        let sent = put_into(request("/", &own, ""), Injection::Bearer, "s3cret").await;
        let all: Vec<_> = sent.headers().get_all("authorization").iter().collect();
        assert_eq!(all, ["Bearer s3cret"]);
        let basic = Injection::Basic { user: "me".into() };
        let sent = put_into(request("/", &own, ""), basic, "pass").await;
        assert_eq!(sent.headers()["authorization"], "Basic bWU6cGFzcw==");
        let sent = put_into(request("/", &own, ""), Injection::Header { name: "X-Key".into() }, "k").await;
        assert_eq!(sent.headers()["x-key"], "k");
        assert!(sent.headers()["x-key"].is_sensitive());
    }

    #[tokio::test]
    async fn a_parameter_replaces_those_of_its_name_however_they_are_spelt() {
        let query = || Injection::Query { name: "api_key".into() };
        let sent = put_into(request("/x?a=1&api_key=f&%61pi_key=g&b=2", &[], ""), query(), "s&e c").await;
        assert_eq!(sent.uri(), "/x?a=1&b=2&api_key=s%26e%20c");
        let sent = put_into(request("/", &[], ""), query(), "s").await;
        assert_eq!(sent.uri(), "/?api_key=s");
    }

    #[tokio::test]
    async fn a_placeholder_is_replaced_as_the_body_s_kind_is_written() {
        let body = || Injection::BodyPlaceholder { placeholder: "{{SECRET}}".into() };
        for (kind, wanted) in [
            ("application/json; charset=utf-8", "a=s\\\"&t b=s\\\"&t {{SECRET"),
            ("application/x-www-form-urlencoded", "a=s%22%26t b=s%22%26t {{SECRET"),
            ("text/plain", "a=s\"&t b=s\"&t {{SECRET"),
        ] {
            let asked = request("/", &[("content-type", kind)], "a={{SECRET}} b={{SECRET}} {{SECRET");
            let sent = put_into(asked, body(), "s\"&t").await;
            let length = sent.headers()["content-length"].to_str().unwrap().to_owned();
            let whole = sent.into_body().collect().await.unwrap().to_bytes();
            assert_eq!((whole.as_ref(), length), (wanted.as_bytes(), wanted.len().to_string()));
        }
    }

    #[tokio::test]
    async fn a_body_too_long_to_look_at_is_refused() {
        let long =
            Full::new(Bytes::from(vec![b'x'; MAX_BODY + 1])).map_err(|never| match never {}).boxed_unsync();
        let asked = request("/", &[], "").map(|_| long);
        let injection = Injection::BodyPlaceholder { placeholder: "{{SECRET}}".into() };
        let refused = put(asked, &injection, &Secret::new("s".into())).await.unwrap_err();
        assert_eq!(refused, Denial::BodyTooLong);
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_a_header_stops_the_request() {
        let refused = put(request("/", &[], ""), &Injection::Bearer, &Secret::new("a\r\nb: c".into())).await;
        assert_eq!(refused.unwrap_err(), Denial::NoCredential);
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret".into())), "Secret(..)");
    }
}
