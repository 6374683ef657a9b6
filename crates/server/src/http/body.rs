//! Bodies, read strictly: what has two meanings has none.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::{Canonical, MAX_JSON_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::caller::single;
use super::guards::{Guard, Guards};
use super::limits::Limits;
use super::problem::Problem;

/// Reads a JSON body into what it should be. Unknown keys are the type's to refuse.
pub(super) async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let text = read_text(request).await?;
    // ATTACK(duplicate-key): never by a parser that keeps the last of two keys.
    let parsed = Canonical::parse(&text).map_err(|error| bad_json(error.to_string()))?;
    let value = parsed.into_value();
    // A list would be taken for an object whose keys are left out.
    if !value.is_object() {
        return Err(Problem::bad_request("the body is not a JSON object"));
    }
    serde_json::from_value(value).map_err(|error| Problem::bad_request(error.to_string()))
}

/// Reads the text of a JSON body, whatever it says.
pub(super) async fn read_text(request: Request) -> Result<String, Problem> {
    check_kind(request.headers())?;
    let too_large = || {
        let detail = format!("the body is larger than {MAX_JSON_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    // ATTACK(oversized-body): by what it says of itself, and by what comes.
    let guarded = request.extensions().get::<Guards>().copied().unwrap_or_default().stands(Guard::Bodies);
    let declared =
        single(request.headers(), &header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if guarded && declared.is_some_and(|bytes| bytes > MAX_JSON_BYTES as u64) {
        return Err(too_large());
    }
    let longest = request.extensions().get::<Limits>().copied().unwrap_or_default().body;
    let mut request = request;
    if !guarded {
        DefaultBodyLimit::disable().apply(&mut request);
    }
    let bytes = match tokio::time::timeout(longest, Bytes::from_request(request, &())).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => return Err(too_large()),
        Ok(Err(_)) => return Err(bad_json("the body ended early")),
        Err(_) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long")),
    };
    String::from_utf8(bytes.into()).map_err(|_| bad_json("the body is not UTF-8"))
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR).into_response(),
    }
}

fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = single(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") || headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "the body must be plain `application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong_content_type", detail));
    }
    Ok(())
}

fn bad_json(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_json", why)
}
