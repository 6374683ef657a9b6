//! Errors of the protocol, as RFC 9457 writes them. A refused call is no problem: it has an answer of its own.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::gate::GateError;

/// The media type of a problem.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// The code of the problem that a response is, for whoever dresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProblemCode(pub(super) &'static str);

/// Why a request was not understood, or not taken.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, code, detail: detail.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    pub(super) fn not_found(what: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    pub(super) fn bad_request(why: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_request", why)
    }

    pub(super) fn no_random() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "internal", "the system gives no random bytes")
    }

    /// The problem that stands for a response which some layer below made without words of ours.
    pub(super) fn of_status(status: StatusCode) -> Problem {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("not_found", "there is nothing here"),
            StatusCode::METHOD_NOT_ALLOWED => ("method_not_allowed", "this path does not take that method"),
            status if status.is_client_error() => ("bad_request", "the request is not understood"),
            _ => ("internal", "the gate failed"),
        };
        Problem::new(status, code, detail)
    }
}

impl From<GateError> for Problem {
    fn from(_: GateError) -> Problem {
        // What the store says is for operators at the gate itself, not for whoever is at the other end.
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "internal", "the gate cannot use its store")
            .with_hint("whoever runs the gate can look at its own messages")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": format!("urn:toolgate:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "hint": self.hint,
        });
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        let mut response = (self.status, kind, body.to_string()).into_response();
        response.extensions_mut().insert(ProblemCode(self.code));
        if self.status == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Bearer realm=\"toolgate\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
