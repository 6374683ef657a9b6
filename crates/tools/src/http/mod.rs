//! `http.request`: one request to the web, asked by a worker whose network leads to the places of its grant.
//!
//! What a call would do is read from its arguments: the method says whether it only asks, the URL whom. Nothing of an answer
//! is read in this process before it was parsed behind walls.

mod address;
mod definition;
mod headers;
mod types;

pub(crate) use address::{Address, Scheme};
pub(crate) use headers::is_for_anybody;
#[cfg(test)]
pub(crate) use types::SentPlaces;
pub(crate) use types::{Got, Order, Places, Redirect};

use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clean::Findings;
use contract::{
    Actions, Canonical, Code, Contract, ContractError, Digest, EgressClass, Output, Reason, RunFacts,
    SafetyClass,
};
use jail::{ChangeReport, Limits, Outcome, Program, Report, Strictness};
use policy::{Facets, Grant, HttpSettings, Settings, WorkspaceAccess};
use sandbox::PlanRequest;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::facts::{facts_of_report, not_enforced};
use crate::inside::Trade;
use crate::path::shown;
use crate::pipeline::{Launch, Launched, SHOWN, cut, stopped};
use crate::reach::{Methods, Way, why_not_reached, with_usage};
use crate::surroundings::Surroundings;
use crate::tool::{CallKind, Ran, Tool, check_grant};
use crate::wire::{read_frame, write_frame};
use definition::definition;
use types::{BodyEncoding, HttpInput, HttpOutput};

/// Milliseconds that a request may take at most.
const MAX_TIMEOUT: u64 = 30_000;
/// As much of an answer as is read where nobody says.
const USUAL_BYTES: u64 = 1024 * 1024;
/// As many redirects as are followed at most.
const MAX_REDIRECTS: u8 = 5;
/// For what is around the request itself.
const AROUND: Duration = Duration::from_secs(5);

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

/// A call, as far as its arguments say.
struct Asked {
    method: String,
    address: Address,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    redirects: u8,
    max_bytes: u64,
    timeout_ms: u64,
}

impl Asked {
    fn parse(arguments: &Value, settings: &HttpSettings) -> Result<Asked, Reason> {
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
        Ok(Asked {
            address: Address::parse(&input.url)?,
            headers: headers::headers_of(&input.headers, &settings.headers)?,
            method: input.method,
            body,
            redirects,
            max_bytes: input.max_bytes.unwrap_or(USUAL_BYTES).min(settings.max_response),
            timeout_ms: input.timeout_ms.unwrap_or(MAX_TIMEOUT),
        })
    }
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

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let asked = Asked::parse(arguments, &settings.egress.http)?;
        let (action, egress) = if reads(&asked.method) {
            ("web:read", EgressClass::ReadOnly)
        } else {
            ("web:write", EgressClass::Write)
        };
        Ok(Facets {
            action: Actions::default().parse(action).map_err(|error| Reason::internal(error.to_string()))?,
            safety: SafetyClass::Network,
            egress,
            access: WorkspaceAccess::None,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            hosts: vec![asked.address.target],
        })
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let launched = match self.prepare(&grant, arguments, at) {
                Ok(launch) => launch.run(at, &cancel).await,
                Err(reason) => Err(reason),
            };
            match launched {
                Ok(launched) => conclude(&grant, launched),
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl HttpRequest {
    fn prepare(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Result<Launch, Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        let asked = Asked::parse(arguments.value(), &self.settings)?;
        let authority = grant.authority();
        let way = Way::of(grant, at, Methods::ReadOnly)?
            .ok_or_else(|| Reason::host_not_allowed("the grant names no host that could be reached"))?
            // ATTACK(redirect-that-spends): where an answer leads, the gate's credentials do not go along.
            .spending_for(&asked.address.target);
        let places = Places { reach: authority.hosts.clone(), blocked: authority.blocked.clone() };
        let order = Order {
            method: asked.method,
            address: asked.address,
            headers: asked.headers,
            redirects: asked.redirects,
            max_bytes: asked.max_bytes,
            timeout_ms: asked.timeout_ms,
            places: places.sent(),
        };
        let timeout = Duration::from_millis(asked.timeout_ms) + AROUND;
        let plan = PlanRequest {
            guarded: Some(way.guarded()),
            profile: sandbox::Profile::Inspect,
            program: Program::Own,
            arguments: vec![Trade::Http.as_str().into()],
            working_directory: "/".into(),
            read: Vec::new(),
            workspace: None,
            write: Vec::new(),
            variables: Vec::new(),
            names: at.names().clone(),
            limits: Limits {
                memory: authority.limits.memory,
                pids: authority.limits.pids,
                cpu_millis: authority.limits.cpu_millis,
                disk: authority.limits.disk,
                // The answer, and its head.
                output: asked.max_bytes.saturating_add(1 << 20),
                timeout: timeout.min(authority.limits.timeout),
                ..Limits::default()
            },
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        };
        let plan = plan.into_plan(at.host()).map_err(|error| not_enforced(&error.into()))?;
        let mut input = Vec::new();
        let order = serde_json::to_vec(&order).map_err(std::io::Error::from);
        order
            .and_then(|order| write_frame(&mut input, &order))
            .and_then(|()| write_frame(&mut input, &asked.body))
            .map_err(|_| Reason::internal("the request cannot be sent to its worker"))?;
        let root = grant.workspace().to_owned();
        let access = WorkspaceAccess::None;
        Ok(Launch { plan, sealed: Vec::new(), input, root, access, timeout, way: Some(way) })
    }
}

fn conclude(grant: &Grant, launched: Launched) -> Ran {
    let Launched { report, usage, worker } = launched;
    let not_reached = why_not_reached(&usage);
    let facts = with_usage(facts_of_report(&report, grant.workspace(), worker), usage);
    let said = match (said(&report), not_reached) {
        // The guard of the network has answered in the host's place, or not at all.
        (Ok((got, _)), Some(reason)) if GUARD_SAYS.contains(&got.status) => Err(reason),
        (Err(failed), Some(reason)) if failed.code == Code::ToolFailed => Err(reason),
        (said, _) => said,
    };
    match said {
        Ok((got, body)) => {
            let facts = RunFacts { output: Some(Digest::of(&body)), ..facts };
            answer(got, body, facts)
        }
        Err(reason) => Ran::failed(reason, facts),
    }
}

/// As the guard of the network answers over HTTP where it has not passed a request on.
const GUARD_SAYS: [u16; 5] = [400, 403, 408, 413, 502];

/// What the worker said, if it came to its end.
fn said(report: &Report) -> Result<(Got, Vec<u8>), Reason> {
    let odd = || Reason::tool_failed("its worker was ended from inside");
    if report.outcome != Outcome::Exit(0) {
        return Err(stopped(&report.outcome, report.timings.run));
    }
    let mut bytes = report.stdout.bytes.as_slice();
    let head = read_frame(&mut bytes).ok().flatten().ok_or_else(odd)?;
    let got: Result<Got, Reason> = serde_json::from_slice(&head).map_err(|_| odd())?;
    let body = read_frame(&mut bytes).ok().flatten().ok_or_else(odd)?;
    got.map(|got| (got, body))
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
