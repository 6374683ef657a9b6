//! The servers that a tool of ours asks, and for whom each of them is.
//!
//! # Invariants
//! - Of a server that is for others nobody learns that there is one: it is answered like a name that no server has.

use std::sync::Arc;

use contract::{AgentName, Reason};
use serde_json::Value;

use super::upstream::Upstream;

/// The server in examples: which ones there are is told to nobody.
pub(super) const EXAMPLE: &str = "files";

/// The servers that a tool asks.
pub(super) struct Servers(Vec<Arc<Upstream>>);

impl Servers {
    pub(super) fn new(upstreams: Vec<Arc<Upstream>>) -> Servers {
        Servers(upstreams)
    }

    /// Whether one of them is for an agent, or there is none for anybody.
    pub(super) fn is_for(&self, agent: &AgentName) -> bool {
        self.0.is_empty() || self.0.iter().any(|upstream| upstream.is_for(agent))
    }

    /// The server of a name.
    pub(super) fn find(&self, name: &str) -> Result<&Arc<Upstream>, Reason> {
        self.0.iter().find(|upstream| upstream.name() == name).ok_or_else(no_such_server)
    }

    /// Whether the `server` that arguments name is for an agent.
    // ATTACK(server-of-others-found): a server is asked for those alone whom it is for.
    pub(super) fn check(&self, agent: &AgentName, arguments: &Value) -> Result<(), Reason> {
        let name = arguments.get("server").and_then(Value::as_str).unwrap_or_default();
        match self.find(name)?.is_for(agent) {
            true => Ok(()),
            false => Err(no_such_server()),
        }
    }
}

fn no_such_server() -> Reason {
    Reason::bad_arguments("you have no such server").with_hint(
        "`mcp.servers` of whoever runs this gate says which there are, and what of each is passed on",
    )
}

#[cfg(test)]
mod tests {
    use policy::{UpstreamSettings, UpstreamWay};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_of_others_is_answered_like_one_that_there_is_not() {
        let [mine, other] = ["mine", "other"].map(|name| AgentName::parse(name).unwrap());
        let server = |name: &str, agent: &AgentName| {
            let settings = UpstreamSettings {
                agents: Some([agent.clone()].into()),
                ..UpstreamSettings::of(UpstreamWay::Command(vec!["true".to_owned()]))
            };
            Upstream::new(name, settings).unwrap()
        };
        let servers = Servers::new(vec![server("here", &mine), server("there", &other)]);
        let check = |name: &str| servers.check(&mine, &json!({ "server": name }));
        assert_eq!(check("here"), Ok(()));
        assert_eq!(check("there").unwrap_err(), check("nowhere").unwrap_err());
        assert!(servers.is_for(&mine));
        assert!(!Servers::new(vec![server("there", &other)]).is_for(&mine));
    }
}
