//! One question to the web, put by a worker whose network leads to the places of its call's grant.
//!
//! Knows neither which tool asks nor what an answer means.

use std::time::Duration;

use contract::{Actions, Code, Digest, EgressClass, Reason, RunFacts, SafetyClass};
use jail::{ChangeReport, Limits, Outcome, Program, Report, Strictness};
use policy::{Facets, Grant, WorkspaceAccess};
use sandbox::PlanRequest;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::types::{Got, Order, Places};
use crate::facts::{facts_of_report, not_enforced};
use crate::inside::Trade;
use crate::pipeline::{Launch, Launched, stopped};
use crate::reach::{Methods, WayOut, why_not_reached, with_usage};
use crate::surroundings::Surroundings;
use crate::wire::{read_frame, write_frame};

/// For what is around the request itself.
const AROUND: Duration = Duration::from_secs(5);

/// What a call asks for, as far as its arguments say.
pub(crate) struct WebRequest {
    pub(crate) method: String,
    pub(crate) address: Address,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) redirects: u8,
    pub(crate) max_bytes: u64,
    pub(crate) timeout_ms: u64,
    /// The number of the answer after which nothing more of a stream is waited for.
    pub(crate) until: Option<u64>,
}

/// What came of it.
pub(crate) struct Heard {
    /// The answer and its body, which are a stranger's.
    pub(crate) said: Result<(Got, Vec<u8>), Reason>,
    pub(crate) facts: RunFacts,
}

impl WebRequest {
    /// What it does, of which only the kind is up to the tool.
    pub(crate) fn facets(self, action: &str, egress: EgressClass) -> Result<Facets, Reason> {
        Ok(Facets {
            action: Actions::built_in().parse(action).map_err(|error| Reason::internal(error.to_string()))?,
            safety: SafetyClass::Network,
            egress,
            access: WorkspaceAccess::None,
            profile: None,
            commands: Vec::new(),
            trees: Vec::new(),
            reaches: Vec::new(),
            hosts: vec![self.address.target],
        })
    }

    /// Asks. Whoever calls this has checked that the grant is for the call.
    pub(crate) async fn ask(self, grant: &Grant, at: &Surroundings, cancel: &CancellationToken) -> Heard {
        self.ask_by(Methods::ReadOnly, grant, at, cancel).await
    }

    /// The same for a question to a server of tools, which is a POST also where it only reads.
    pub(crate) async fn ask_server(
        self,
        grant: &Grant,
        at: &Surroundings,
        cancel: &CancellationToken,
    ) -> Heard {
        self.ask_by(Methods::ToolCall, grant, at, cancel).await
    }

    async fn ask_by(
        self,
        reading: Methods,
        grant: &Grant,
        at: &Surroundings,
        cancel: &CancellationToken,
    ) -> Heard {
        let launched = match self.prepare(reading, grant, at) {
            Ok(launch) => launch.run(at, cancel).await,
            Err(reason) => Err(reason),
        };
        match launched {
            Ok(launched) => hear(grant, launched),
            Err(reason) => Heard { said: Err(reason), facts: RunFacts::default() },
        }
    }

    fn prepare(self, reading: Methods, grant: &Grant, at: &Surroundings) -> Result<Launch, Reason> {
        let authority = grant.authority();
        let way = WayOut::of(grant, at, reading, None)?
            .ok_or_else(|| Reason::host_not_allowed("the grant names no host that could be reached"))?;
        let places = Places { reach: authority.hosts.clone(), blocked: authority.blocked.clone() };
        let order = Order {
            method: self.method,
            address: self.address,
            headers: self.headers,
            redirects: self.redirects,
            max_bytes: self.max_bytes,
            timeout_ms: self.timeout_ms,
            until: self.until,
            places: places.sent(),
        };
        let timeout = Duration::from_millis(self.timeout_ms) + AROUND;
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
                output: self.max_bytes.saturating_add(1 << 20),
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
            .and_then(|()| write_frame(&mut input, &self.body))
            .map_err(|_| Reason::internal("the request cannot be sent to its worker"))?;
        let root = grant.workspace().to_owned();
        let access = WorkspaceAccess::None;
        Ok(Launch { plan, sealed: Vec::new(), input, root, access, timeout, way: Some(way) })
    }
}

fn hear(grant: &Grant, launched: Launched) -> Heard {
    let Launched { report, usage, worker } = launched;
    let not_reached = why_not_reached(&usage);
    let facts = with_usage(facts_of_report(&report, grant.workspace(), worker), usage);
    let said = match (said(&report), not_reached) {
        // The guard of the network has answered in the host's place, or not at all.
        (Ok((got, _)), Some(reason)) if GUARD_SAYS.contains(&got.status) => Err(reason),
        (Err(failed), Some(reason)) if failed.code == Code::ToolFailed => Err(reason),
        (said, _) => said,
    };
    let output = said.as_ref().ok().map(|(_, body)| Digest::of(body));
    Heard { said, facts: RunFacts { output: output.or(facts.output), ..facts } }
}

/// As the guard of the network answers over HTTP where it has not passed a request on (`egress::refuse`).
const GUARD_SAYS: [u16; 6] = [400, 403, 408, 413, 429, 502];

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
