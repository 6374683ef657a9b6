//! Signs a request in the way of AWS, version 4.
//!
//! What the caller has signed is thrown away: it had no key.

use chrono::DateTime;
use contract::Target;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Request;
use hyper::header::{self, HeaderValue};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::Secret;
use super::inject::{gather, percent_decode, percent_encode, with_body};
use crate::events::Denial;
use crate::request::{Body, Speaks, authority_of};

/// What a signature names besides its key.
pub(super) struct Scope<'a> {
    pub(super) access_key: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// S3 takes bodies unsigned over TLS, so that they need not be gathered.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

pub(super) async fn sign(
    request: Request<Body>,
    target: &Target,
    scope: &Scope<'_>,
    secret: &Secret,
    now: i64,
) -> Result<Request<Body>, Denial> {
    let is_storage = scope.service == "s3";
    let (payload, mut request) = if is_storage {
        (UNSIGNED.to_owned(), request)
    } else {
        let (parts, body) = request.into_parts();
        let whole = gather(body).await?;
        (hex(&Sha256::digest(&whole)), with_body(parts, whole))
    };
    let time = DateTime::from_timestamp_millis(now).ok_or(Denial::NoCredential)?;
    let (day, second) = (time.format("%Y%m%d").to_string(), time.format("%Y%m%dT%H%M%SZ").to_string());
    let headers = request.headers_mut();
    for name in ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256", "date"] {
        headers.remove(name);
    }
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_odd| Denial::NoCredential);
    headers.insert("x-amz-date", value(&second)?);
    let mut signed = vec![("host", authority_of(target, Speaks::Https)), ("x-amz-date", second.clone())];
    if is_storage {
        headers.insert("x-amz-content-sha256", value(&payload)?);
        signed.insert(1, ("x-amz-content-sha256", payload.clone()));
    }
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{names}\n{payload}",
        request.method(),
        canonical_path(request.uri().path(), is_storage),
        canonical_query(request.uri().query().unwrap_or_default()),
    );
    let place = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign = format!("{ALGORITHM}\n{second}\n{place}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = Zeroizing::new(format!("AWS4{}", secret.expose()).into_bytes());
    for part in [day.as_str(), scope.region, scope.service, "aws4_request"] {
        key = Zeroizing::new(mac(&key, part)?);
    }
    let signature = hex(&mac(&key, &to_sign)?);
    let line = format!(
        "{ALGORITHM} Credential={}/{place}, SignedHeaders={names}, Signature={signature}",
        scope.access_key
    );
    request.headers_mut().insert(header::AUTHORIZATION, value(&line)?);
    Ok(request)
}

/// Services but S3 have every part of the path encoded once more.
fn canonical_path(path: &str, is_storage: bool) -> String {
    if is_storage {
        return path.to_owned();
    }
    path.split('/').map(|part| percent_encode(part).to_string()).collect::<Vec<_>>().join("/")
}

fn canonical_query(query: &str) -> String {
    let encode = |text: &str| {
        let decoded = percent_decode(text);
        percent_encode(&String::from_utf8_lossy(&decoded)).to_string()
    };
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (encode(key), encode(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}

fn mac(key: &[u8], text: &str) -> Result<Vec<u8>, Denial> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_length| Denial::NoCredential)?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::Bytes;

    use super::*;

    /// The moment of the published examples: 2015-08-30 12:36:00.
    const THEN: i64 = 1_440_938_160_000;

    async fn signature(method: &str, uri: &str, service: &str) -> (Request<Body>, String) {
        let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("authorization", "forged")
            .header("x-amz-security-token", "forged")
            .body(body)
            .unwrap();
        let target = Target::parse("example.amazonaws.com:443").unwrap();
        let scope = Scope { access_key: "AKIDEXAMPLE", region: "us-east-1", service };
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into());
        let signed = sign(request, &target, &scope, &secret, THEN).await.unwrap();
        let line = signed.headers()["authorization"].to_str().unwrap().to_owned();
        (signed, line)
    }

    #[tokio::test]
    async fn signatures_are_those_of_the_published_examples() {
        let before = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
            SignedHeaders=host;x-amz-date, Signature=";
        for (method, uri, wanted) in [
            ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let (signed, line) = signature(method, uri, "service").await;
            assert_eq!(line, format!("{before}{wanted}"), "{method} {uri}");
            assert_eq!(signed.headers()["x-amz-date"], "20150830T123600Z");
            assert!(!signed.headers().contains_key("x-amz-security-token"));
        }
    }

    #[tokio::test]
    async fn a_storage_service_takes_its_body_unsigned() {
        let (signed, line) = signature("PUT", "/bucket/a%20b", "s3").await;
        assert_eq!(signed.headers()["x-amz-content-sha256"], "UNSIGNED-PAYLOAD");
        assert!(line.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date"), "{line}");
    }
}
