//! `http.request`: one request to the web, asked by a worker whose network leads to the places of its grant.
//!
//! What a call would do is read from its arguments: the method says whether it only asks, the URL whom. Nothing of an answer
//! is read in this process before it was parsed behind walls.

mod address;
mod ask;
mod definition;
mod headers;
mod types;

pub(crate) use address::{Address, Scheme, read_host, read_place};
pub(crate) use ask::{Heard, WebRequest};
pub(crate) use headers::{headers_of, is_for_anybody};
#[cfg(test)]
pub(crate) use types::SentPlaces;
pub(crate) use types::{Got, HttpInput, HttpOutput, Order, Places, Redirect};

use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clean::Findings;
use contract::{Canonical, Contract, ContractError, EgressClass, Output, Reason, RunFacts, SafetyClass};
use policy::{Facets, Grant, HttpSettings, Settings};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::path::shown;
use crate::pipeline::{SHOWN, cut};
use crate::surroundings::Surroundings;
use crate::tool::{CallKind, Ran, Tool, check_grant};
use definition::definition;
use types::BodyEncoding;

/// Milliseconds that a request may take at most.
const MAX_TIMEOUT: u64 = 30_000;
/// As much of an answer as is read where nobody says.
const USUAL_BYTES: u64 = 1024 * 1024;
/// As many redirects as are followed at most.
const MAX_REDIRECTS: u8 = 5;

/// Asks the web.
pub(crate) struct HttpRequest {
    contract: Contract,
    settings: HttpSettings,
}

impl HttpRequest {
    pub(crate) fn new(settings: &HttpSettings) -> Result<HttpRequest, ContractError> {
        Ok(HttpRequest { contract: Contract::internal(definition())?, settings: settings.clone() })
    }
}

/// What a call asks for, read from its arguments.
fn asked_by(arguments: &Value, settings: &HttpSettings) -> Result<WebRequest, Reason> {
    let input =
        HttpInput::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))?;
    if !settings.methods.contains(&input.method) {
        let known: Vec<&str> = settings.methods.iter().map(String::as_str).collect();
        let why = format!("the method `{}` is not one that may be used", shown(&input.method));
        return Err(Reason::bad_arguments(why).with_hint(format!("there are {}", known.join(", "))));
    }
    let reads = reads(&input.method);
    let body = match (&input.body, input.body_encoding) {
        (None, _) => Vec::new(),
        (Some(_), _) if reads => {
            let why = format!("`{}` asks for something and sends nothing: it has no body", input.method);
            return Err(Reason::bad_arguments(why));
        }
        (Some(text), BodyEncoding::Text) => text.clone().into_bytes(),
        (Some(text), BodyEncoding::Base64) => {
            STANDARD.decode(text).map_err(|_| Reason::bad_arguments("the body is not base64"))?
        }
    };
    if input.timeout_ms.is_some_and(|timeout| timeout == 0 || timeout > MAX_TIMEOUT) {
        return Err(Reason::bad_arguments("the timeout is between 1 and 30000 milliseconds"));
    }
    let redirects = input.follow_redirects.unwrap_or(if reads { MAX_REDIRECTS } else { 0 });
    if redirects > MAX_REDIRECTS {
        return Err(Reason::bad_arguments("at most 5 redirects are followed"));
    }
    Ok(WebRequest {
        until: None,
        address: Address::parse(&input.url)?,
        headers: headers_of(&input.headers, &settings.headers)?,
        method: input.method,
        body,
        redirects,
        max_bytes: input.max_bytes.unwrap_or(USUAL_BYTES).min(settings.max_response),
        timeout_ms: input.timeout_ms.unwrap_or(MAX_TIMEOUT),
    })
}

/// Whether a method only asks.
fn reads(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

impl Tool for HttpRequest {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn kinds(&self) -> Vec<CallKind> {
        let safety = SafetyClass::Network;
        let kind = |word: &'static str| {
            let egress = if reads(word) { EgressClass::ReadOnly } else { EgressClass::Write };
            CallKind { word, safety, egress }
        };
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map(kind).into()
    }

    fn actions(&self) -> Vec<&str> {
        vec!["web:read", "web:write"]
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let asked = asked_by(arguments, &settings.egress.http)?;
        let (action, egress) = if reads(&asked.method) {
            ("web:read", EgressClass::ReadOnly)
        } else {
            ("web:write", EgressClass::Write)
        };
        asked.facets(action, egress)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let asked = check_grant(&grant, &self.contract, arguments, at)
                .and_then(|()| asked_by(arguments.value(), &self.settings));
            match asked {
                Ok(question) => heard(question.ask(&grant, at, &cancel).await),
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

/// The answer to a question, as a call gives it.
pub(crate) fn heard(heard: Heard) -> Ran {
    match heard {
        Heard { said: Ok((got, body)), facts } => answer(got, body, facts),
        Heard { said: Err(reason), facts } => Ran::failed(reason, facts),
    }
}

fn answer(got: Got, body: Vec<u8>, facts: RunFacts) -> Ran {
    let is_text = str::from_utf8(&body).is_ok() && !body.contains(&0);
    let is_short = body.len() <= SHOWN / 2;
    let cut = cut(&body, body.len() as u64, SHOWN - 2048, "body");
    let bytes = body.len() as u64;
    let (text, encoding, is_cut, findings) = match (is_text, is_short) {
        (true, _) => (cut.text, BodyEncoding::Text, cut.truncated, cut.findings),
        (false, true) => (STANDARD.encode(&body), BodyEncoding::Base64, false, Findings::default()),
        (false, false) => (String::new(), BodyEncoding::Base64, true, Findings::default()),
    };
    let Got { status, url, headers, whole, redirects } = got;
    let told = ["content-type", "location", "retry-after", "www-authenticate"];
    let lines = told.iter().filter_map(|name| Some((name, headers.get(*name)?.first()?)));
    let lines: String = lines.map(|(name, value)| format!("{name}: {value}\n")).collect();
    let led: String = redirects.iter().map(|step| format!("{} led to {}\n", step.status, step.to)).collect();
    let shown = if is_text { text.clone() } else { format!("{bytes} bytes that are not text\n") };
    let more = if whole { "" } else { "\n… there is more than was read" };
    let content = format!("{led}{status} {url}\n{lines}\n{shown}{more}");
    let artifacts = if is_cut { vec![("body".to_owned(), body)] } else { Vec::new() };
    let structured = HttpOutput {
        status,
        url,
        headers,
        body: text,
        encoding,
        bytes,
        truncated: is_cut || !whole,
        redirects,
    };
    match serde_json::to_value(structured) {
        Ok(structured) => {
            let output = Output { content, is_error: status >= 400, structured, artifacts };
            Ran { output, findings, facts, failure: None }
        }
        Err(error) => Ran::failed(Reason::bad_output(error.to_string()), facts),
    }
}

#[cfg(test)]
mod tests;
