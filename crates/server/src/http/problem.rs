//! Errors of the protocol, as RFC 9457 writes them. A refused call is no problem: it has an answer of its own.

use std::error::Error;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::chain;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::gate::GateError;

/// Every code of a problem, and what it means. Programs rely on these.
pub const CODES: &[(&str, &str)] = &[
    ("admin_needed", "this takes an admin"),
    ("agent_needed", "an operator asks for what an agent does, and names none with `X-Toolgate-Agent`"),
    ("already_decided", "the question was answered before, or taken back"),
    ("already_ended", "the call has ended, so that it cannot be ended"),
    ("bad_credential", "the credential is nobody's"),
    ("bad_json", "the body is not JSON, or has two meanings"),
    ("bad_request", "the request is read, and asks for something that there is not"),
    ("bad_signature", "the message is not signed as agreed, or was written more than five minutes ago"),
    ("busy", "another candidate is tried at the moment"),
    ("credential_needed", "this takes the operator's credential, and a session of the page is none"),
    ("erased", "what the call kept private was erased"),
    ("expired", "the question is too old to be answered"),
    ("insufficient_scope", "the token of an issuer lacks a scope that is needed here"),
    ("internal", "the gate failed, or cannot use its store"),
    ("invalid_token", "the token of an issuer does not count"),
    ("last_admin", "somebody has to be able to add people: the last admin stays"),
    ("may_not_decide", "this operator cannot answer this question, or end this call"),
    ("method_not_allowed", "the path does not take that method"),
    ("name_taken", "there is an operator of that name, or there was"),
    ("no_mcp", "what is behind this server does not speak MCP"),
    ("no_passkeys_here", "passkeys belong to a name, and the page was opened by an address"),
    ("not_an_agent", "calls are made by agents, not from the page, and not by tokens that are no agent's"),
    ("not_an_operator", "this takes an operator's credential, and an agent's token is none"),
    ("not_found", "there is no such thing, or not for whoever asks"),
    ("not_here", "the call cannot be ended from here"),
    ("not_signed_in", "there is no credential, and nobody is signed in"),
    ("not_so", "the answer cannot be taken so: its scope, its time, or arguments that were not shown"),
    ("not_that_agent", "an agent's token speaks for that agent alone"),
    ("not_them", "that is nobody's name and password, or passkey"),
    ("only_looks", "a viewer looks, and changes nothing"),
    ("outcome_known", "what became of the call is known already"),
    ("passkey_taken", "the passkey is in use, or there are too many"),
    (
        "presence_needed",
        "this takes a fresh proof that it is you: sign in again by passkey, password or link",
    ),
    ("rate_limited", "too many requests at a time; `Retry-After` says when to come back"),
    ("replayed", "the message was taken before"),
    ("timeout", "the body took too long to arrive, or the gate to answer"),
    ("token_taken", "the token is somebody's already"),
    ("too_large", "the body is larger than it may be"),
    ("too_many_followers", "as many follow events as there is room for"),
    ("too_many_tries", "too many tries to sign in have failed; `Retry-After` says when to come back"),
    ("unmapped_user", "somebody of the chat is no operator of this gate"),
    ("wrong_content_type", "the body must be plain `application/json`"),
    ("wrong_host", "the request names a host that is not the gate"),
    ("wrong_origin", "the request was made by a page that is not the gate's"),
];

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
    /// In how many seconds the same may fare better, where the status says that it may.
    retry_after: u64,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, code, detail: detail.into(), hint: None, retry_after: 1 }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Its stable name.
    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    /// What happened.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn retry_after(self, seconds: u64) -> Problem {
        Problem { retry_after: seconds, ..self }
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

    /// The system gives no random bytes.
    pub(super) fn no_random() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "internal", "the system gives no random bytes")
    }

    /// The store failed. Why is for operators at the gate itself, not for whoever is at the other end.
    pub(super) fn of_store(error: &(dyn Error + 'static)) -> Problem {
        tracing::error!(error = chain(error), "a request was not answered: the store failed");
        Problem::failed("the gate cannot use its store")
    }

    /// The gate itself failed. Why is for operators, too.
    fn internal(error: &(dyn Error + 'static)) -> Problem {
        tracing::error!(error = chain(error), "a request was not answered: the gate failed");
        Problem::failed("the gate failed")
    }

    fn failed(detail: &str) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "internal", detail)
            .with_hint("whoever runs the gate can look at its own messages")
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
    fn from(error: GateError) -> Problem {
        match error {
            GateError::Store(error) => Problem::of_store(&*error),
            GateError::Internal(error) => Problem::internal(&*error),
        }
    }
}

/// Why a request was not answered as it wished; RFC 9457.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemDocument<'a> {
    /// `urn:toolgate:problem:` and the code.
    r#type: String,
    title: &'a str,
    status: u16,
    /// A stable name.
    #[schemars(schema_with = "code_schema")]
    code: &'a str,
    /// What happened.
    detail: &'a str,
    /// What could be done about it.
    hint: Option<&'a str>,
}

fn code_schema(_: &mut SchemaGenerator) -> Schema {
    let codes: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    json_schema!({ "type": "string", "enum": codes })
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = ProblemDocument {
            r#type: format!("urn:toolgate:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("error"),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            hint: self.hint.as_deref(),
        };
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        let body = serde_json::to_string(&document).unwrap_or_default();
        let mut response = (self.status, kind, body).into_response();
        response.extensions_mut().insert(ProblemCode(self.code));
        if self.status == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Bearer realm=\"toolgate\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt as _};

    use super::*;

    /// What operators are told.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<String>>);

    impl<S: Subscriber> Layer<S> for Heard {
        fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
            event.record(&mut self.clone());
        }
    }

    impl Visit for Heard {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.lock().unwrap().push_str(&format!("{}={value:?} ", field.name()));
        }
    }

    #[test]
    fn why_the_gate_failed_is_told_to_operators_and_not_to_whoever_asks() {
        let failed = || io::Error::other("disk I/O error in toolgate.db");
        for error in [GateError::Store(failed().into()), GateError::Internal(failed().into())] {
            let heard = Heard::default();
            let layers = tracing_subscriber::registry().with(heard.clone());
            let problem = tracing::subscriber::with_default(layers, || Problem::from(error));
            assert!(heard.0.lock().unwrap().contains("disk I/O error in toolgate.db"));
            assert_eq!((problem.status, problem.code), (StatusCode::SERVICE_UNAVAILABLE, "internal"));
            assert!(!format!("{problem:?}").contains("disk"), "{problem:?}");
        }
    }

    /// Names of functions whose first text is the code of a problem.
    const MAKERS: [&str; 3] = ["Problem::new(", "forbidden(", "conflict("];

    fn codes_in(text: &str) -> Vec<&str> {
        let places =
            MAKERS.iter().flat_map(|maker| text.match_indices(maker).map(|(at, maker)| at + maker.len()));
        let calls = places.filter_map(|at| text.get(at..at + 240.min(text.len() - at)));
        // One that is named later, after the call has ended, is no code of it.
        let codes = calls.filter_map(|call| {
            let (before, rest) = call.split_once('"')?;
            (!before.contains(';')).then_some(rest.split('"').next()?)
        });
        codes.filter(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect()
    }

    #[test]
    fn every_code_that_is_used_is_listed_and_every_one_that_is_listed_is_used() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
        let mut all = String::new();
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let text = fs::read_to_string(path).unwrap();
                all.push_str(text.split("#[cfg(test)]").next().unwrap());
            }
        }
        let used = codes_in(&all);
        let unlisted: Vec<&&str> =
            used.iter().filter(|code| CODES.iter().all(|(known, _)| known != *code)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
        let stated = all.replace("pub const CODES", "").split("];").skip(1).collect::<String>();
        let unused: Vec<&str> = CODES
            .iter()
            .map(|(code, _)| *code)
            .filter(|code| !stated.contains(&format!("\"{code}\"")))
            .collect();
        assert!(unused.is_empty(), "{unused:?}");
        assert!(CODES.is_sorted());
    }
}
