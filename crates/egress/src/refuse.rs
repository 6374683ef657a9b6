//! Tells a client that it is refused, in the protocol it speaks, with one reason that a person can read.
//!
//! HTTP gets a problem document (RFC 9457), TLS the alert `access_denied`; others are closed.

use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::carry::Client;
use crate::events::Denial;
use crate::hello::begins_tls;

/// So long is waited for a client to say what it speaks, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A fatal alert, `access_denied`.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// What kind of document a refusal is.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// Answers as the client's protocol allows, and closes.
pub(crate) async fn politely(client: Client, denial: &Denial) {
    let _ = tokio::time::timeout(PATIENCE, answer(client, denial)).await;
}

async fn answer(mut client: Client, denial: &Denial) -> std::io::Result<()> {
    if client.early.is_empty() {
        client.stream.read_buf(&mut client.early).await?;
    }
    match client.early.first() {
        Some(first) if begins_tls(*first) => client.stream.write_all(&ACCESS_DENIED).await?,
        Some(first) if first.is_ascii_alphabetic() => {
            let document = problem(denial);
            let head = format!(
                "HTTP/1.1 {}\r\ncontent-type: {PROBLEM}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                status(denial),
                document.len(),
            );
            client.stream.write_all(head.as_bytes()).await?;
            client.stream.write_all(document.as_bytes()).await?;
        }
        _ => return Ok(()),
    }
    client.stream.shutdown().await?;
    // Unread bytes would turn the end into a reset, which can overtake the answer.
    let mut rest = [0; 4096];
    while client.stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// The status that goes with a reason.
pub(crate) fn status(denial: &Denial) -> StatusCode {
    match denial {
        Denial::BadRequest | Denial::NoHost => StatusCode::BAD_REQUEST,
        Denial::NotFound | Denial::Unreachable | Denial::Untrusted | Denial::NoCredential => {
            StatusCode::BAD_GATEWAY
        }
        Denial::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
        Denial::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Denial::TooManyConnections | Denial::TooManyBytes => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    }
}

/// The document that says why.
pub(crate) fn problem(denial: &Denial) -> String {
    serde_json::json!({
        "type": "about:blank",
        "title": "refused by the gate",
        "status": status(denial).as_u16(),
        "detail": denial.to_string(),
        "code": denial.code(),
    })
    .to_string()
}
