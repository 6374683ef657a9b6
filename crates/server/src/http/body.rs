//! Bodies, read strictly: what has two meanings has none.

use std::pin::Pin;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::Canonical;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body_room::Allowance;
use super::caller::single;
use super::guards::{Guard, Guards};
use super::limits::Limits;
use super::problem::Problem;

/// What is longer is parsed beside the requests of others.
const LONG: usize = 64 << 10;
/// The most values that a body holds: each takes many times the byte or two that it is written with.
const MOST_VALUES: usize = 200_000;

/// Reads a JSON body into what it should be. Unknown keys are the type's to refuse.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(request: Request) -> Result<T, Problem> {
    let allowance = allowance(&request);
    let text = read_text(request).await?;
    if text.len() <= LONG {
        return parse(&text);
    }
    let parsed = allowance.parsing(move || parse(&text)).await;
    parsed.unwrap_or_else(|| Err(Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR)))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    // ATTACK(duplicate-key): never by a parser that keeps the last of two keys.
    let parsed = Canonical::parse(text).map_err(|error| bad_json(error.to_string()))?;
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
    // ATTACK(oversized-body, anonymous-bodies): by what it says of itself, and by what comes.
    let guarded = request.extensions().get::<Guards>().copied().unwrap_or_default().stands(Guard::Bodies);
    let allowance = allowance(&request);
    let most = if guarded { allowance.most } else { usize::MAX };
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let declared =
        single(request.headers(), &header::CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > most) {
        return Err(too_large());
    }
    let longest = request.extensions().get::<Limits>().copied().unwrap_or_default().body;
    let mut body = request.into_body();
    let arriving = async {
        let mut bytes = Vec::new();
        while let Some(frame) = std::future::poll_fn(|task| Pin::new(&mut body).poll_frame(task)).await {
            let frame = frame.map_err(|_| bad_json("the body ended early"))?;
            let Some(data) = frame.data_ref() else { continue };
            if bytes.len().saturating_add(data.len()) > most {
                return Err(too_large());
            }
            if guarded && !allowance.take(data.len()) {
                let detail = "as much is being sent as there is room for";
                return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail));
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    };
    let bytes = match tokio::time::timeout(longest, arriving).await {
        Ok(bytes) => bytes?,
        Err(_) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long")),
    };
    let text = String::from_utf8(bytes).map_err(|_| bad_json("the body is not UTF-8"))?;
    if guarded && text.len() > LONG && !has_few_values(&text) {
        let detail = format!("the body holds more than {MOST_VALUES} values");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
    }
    Ok(text)
}

/// What a request may send; one that nobody has looked at, the least.
fn allowance(request: &Request) -> Allowance {
    request.extensions().get::<Allowance>().cloned().unwrap_or_else(Allowance::of_anyone)
}

/// Whether a JSON text holds few values, by what separates them. It need not be JSON.
fn has_few_values(text: &str) -> bool {
    let (mut values, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values <= MOST_VALUES
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_what_stands_in_texts_is_none() {
        assert!(has_few_values(&format!("[{}0]", "0,".repeat(MOST_VALUES - 1))));
        assert!(!has_few_values(&format!("[{}0]", "0,".repeat(MOST_VALUES))));
        assert!(!has_few_values(&"[".repeat(MOST_VALUES + 1)));
        assert!(has_few_values(&format!("{{\"a\":\"\\\"{}\"}}", ",[{".repeat(MOST_VALUES))));
    }
}
