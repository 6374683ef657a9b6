//! Asks a store of secrets that speaks as HashiCorp's Vault does. It is the operator's own: its address is not checked.

use std::sync::Arc;

use contract::Target;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::Secret;
use crate::request::{Speaks, authority_of};
use crate::resolve::Resolver;
use crate::tls::{Tls, server_name};

const MAX_ANSWER: usize = 1 << 20;

/// A field of an entry; none if it cannot be had.
pub(super) async fn ask(
    address: &Target,
    token: &Secret,
    path: &str,
    field: &str,
    resolver: &Arc<Resolver>,
    tls: &Tls,
) -> Option<Secret> {
    let mut token = HeaderValue::from_str(token.expose()).ok()?;
    token.set_sensitive(true);
    let request = Request::builder()
        .uri(format!("/v1/{}", path.trim_start_matches('/')))
        .header(header::HOST, authority_of(address, Speaks::Https))
        .header("x-vault-token", token)
        .header("x-vault-request", "true")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let config = tls.client(&[b"http/1.1"]).await.ok()?;
    let name = server_name(&address.host).ok()?;
    let stream = resolver.dial_own(address).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let answer = exchange(stream, request).await?;
    find(&answer, field)
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Option<Value>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let asking = async {
        let response = sender.send_request(request).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    };
    // The connection does the work of the question, and ends with it.
    tokio::select! {
        answer = asking => answer,
        _ = async { let _ = connection.await; std::future::pending::<()>().await } => None,
    }
}

/// Both versions of its store of keys and values are known.
fn find(answer: &Value, field: &str) -> Option<Secret> {
    let data = answer.get("data")?;
    let entry = match data.get("data") {
        Some(inner) if inner.is_object() => inner,
        _ => data,
    };
    entry.get(field)?.as_str().map(|text| Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_an_entry_are_read() {
        let first = serde_json::json!({"data": {"token": "one"}});
        let second = serde_json::json!({"data": {"data": {"token": "two"}, "metadata": {"version": 3}}});
        assert_eq!(find(&first, "token"), Some(Secret::new("one".into())));
        assert_eq!(find(&second, "token"), Some(Secret::new("two".into())));
        assert_eq!(find(&second, "metadata"), None);
        assert_eq!(find(&serde_json::json!({"errors": []}), "token"), None);
    }
}
