//! The tool that asks a server what it offers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clean::Findings;
use contract::{
    AgentName, Canonical, Category, Contract, ContractError, Definition, EgressClass, Output, Reason,
    RunFacts, SafetyClass,
};
use policy::{Facets, Grant, Settings, UpstreamWay};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cut::{unless_cut, within};
use super::run_so_far::RunSoFar;
use super::servers::{EXAMPLE, Servers};
use super::tool::{facets_of, owner_of};
use super::upstream::Upstream;
use super::web;
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant};

/// For what is around a call itself.
const AROUND: Duration = Duration::from_secs(35);

/// Which server to ask.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefreshInput {
    /// The server, as it is called in the configuration.
    server: String,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
struct RefreshOutput {
    /// The server.
    server: String,
    /// How many tools it offers.
    offers: usize,
}

/// The name of the tool that asks a server what it offers.
pub const REFRESH: &str = "mcp.refresh";

/// Asks a server what it offers. What becomes of the answer is up to whoever holds the catalogue.
pub struct Refresh {
    contract: Contract,
    servers: Servers,
}

impl Refresh {
    /// For these servers.
    pub fn new(upstreams: Vec<Arc<Upstream>>) -> Result<Refresh, ContractError> {
        let definition = Definition {
            title: "Ask an MCP server what it offers".to_owned(),
            description: "Asks one of the configured MCP servers which tools it offers, and takes them in. What has changed \
                since is shown as changed; a tool that was pinned is suspended then."
                .to_owned(),
            category: Category::Mcp,
            action: "mcp:call".to_owned(),
            safety: SafetyClass::Read,
            egress: EgressClass::ReadOnly,
            examples: vec![contract::Example::of("one server", json!({ "server": EXAMPLE }))],
            failure_modes: vec![
                "tool_failed: the server does not start, or does not speak MCP; the reason says how it ended".to_owned(),
            ],
            timeout_seconds: 60,
            ..Definition::of::<RefreshInput, RefreshOutput>(REFRESH)
        };
        Ok(Refresh { contract: Contract::internal(definition)?, servers: Servers::new(upstreams) })
    }

    fn find(&self, arguments: &Value) -> Result<&Arc<Upstream>, Reason> {
        let input =
            RefreshInput::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))?;
        self.servers.find(&input.server)
    }

    async fn refresh(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
        cut: &CancellationToken,
    ) -> Result<(usize, RunFacts), (Reason, RunFacts)> {
        let bare = |reason| (reason, RunFacts::default());
        check_grant(grant, &self.contract, arguments, at).map_err(bare)?;
        self.servers.check(owner_of(at).map_err(bare)?, arguments.value()).map_err(bare)?;
        let upstream = self.find(arguments.value()).map_err(bare)?;
        let (offers, facts) = match &upstream.settings().way {
            UpstreamWay::Url(_) => match web::offers(upstream, grant, at, cut).await {
                (Ok(offers), facts) => (offers, facts),
                (Err(reason), facts) => return Err((reason, facts)),
            },
            UpstreamWay::Command(_) => {
                let known = RunSoFar::nothing();
                let started = upstream.start(upstream.access_to_look(), grant, at, &known);
                let started = unless_cut(cut, started).await;
                let instance = started.map_err(|reason| (reason, known.facts(None)))?;
                upstream.heard_besides(instance.offered.clone());
                (instance.offers.clone(), known.facts(None))
            }
        };
        let count = offers.len();
        upstream.heard(offers);
        Ok((count, facts))
    }
}

impl Tool for Refresh {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn is_for(&self, agent: &AgentName) -> bool {
        self.servers.is_for(agent)
    }

    fn check_for(&self, agent: &AgentName, arguments: &Value) -> Result<(), Reason> {
        self.servers.check(agent, arguments)
    }

    fn facets(&self, arguments: &Value, _settings: &Settings) -> Result<Facets, Reason> {
        let upstream = self.find(arguments)?;
        let egress = match upstream.settings().way {
            UpstreamWay::Command(_) => EgressClass::None,
            UpstreamWay::Url(_) => EgressClass::ReadOnly,
        };
        facets_of(upstream, SafetyClass::Read, egress, upstream.access_to_look())
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let cut = CancellationToken::new();
            let refreshing = self.refresh(&grant, arguments, at, &cut);
            let too_late = || Reason::timeout("the server did not say what it offers in time");
            match within(AROUND, &cancel, &cut, too_late, refreshing).await {
                Ok((offers, facts)) => {
                    let server = arguments.value().get("server").cloned().unwrap_or_default();
                    let server = server.as_str().unwrap_or_default().to_owned();
                    let content = format!("`{server}` offers {offers} tools");
                    let structured = json!(RefreshOutput { server, offers });
                    let output = Output { content, structured, ..Output::default() };
                    Ran { output, findings: Findings::default(), facts, failure: None }
                }
                Err((reason, facts)) => Ran::failed(reason, facts),
            }
        })
    }
}
