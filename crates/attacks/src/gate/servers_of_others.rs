//! A server that is for other agents, as an agent looks for it that it is not for.

use std::sync::Arc;

use contract::AgentName;
use policy::{Passed, UpstreamSettings};
use serde_json::json;
use tools::mcp::{Reading, Refresh, Upstream};

use crate::Try;
use crate::case::Effect;
use crate::gate::stand::{Ending, Stand, runtime};
use crate::gate::upstreams::{NAME, open, open_guarded, opening_of};

/// Looks for a server that is for others, by every tool that tells of servers.
pub(super) fn find(stand: &Stand<'_>) -> Try<Effect> {
    let before = open(stand, "honest")?;
    runtime()?.block_on(before.engine.close());
    let others = |server: &mut UpstreamSettings| {
        server.agents = AgentName::parse("other").ok().map(|other| [other].into());
        server.passes = [Passed::Resources].into();
    };
    let gate = open_guarded(stand, "honest", others, None, None)?;
    for (tool, arguments) in
        [("list_tools", json!({})), ("search_tools", json!({ "query": "mcp_s_echo echo", "limit": 20 }))]
    {
        let told = gate.send(gate.request(tool, arguments)?)?;
        if told.content.contains("mcp_s_echo") {
            return Ok(Effect::Through(format!("`{tool}` tells of it")));
        }
    }
    gate.call("load_tool", json!({ "name": "mcp_s_echo" }), Ending::Refused("unknown_tool"))?;
    let read = json!({ "server": NAME, "uri": "demo://one" });
    for (tool, arguments) in [("mcp.refresh", json!({ "server": NAME })), ("mcp.read_resource", read)] {
        let asked = gate.call(tool, arguments, Ending::Refused("unknown_tool"))?;
        if asked.content.contains("offers") || asked.content == "read" {
            return Ok(Effect::Through(format!("`{tool}` asks the server")));
        }
    }
    runtime()?.block_on(gate.engine.close());
    tell_apart(stand, others)
}

/// Whether an agent that has a server can tell one that is for others from one that there is not.
fn tell_apart(stand: &Stand<'_>, others: impl FnOnce(&mut UpstreamSettings)) -> Try<Effect> {
    let (mut opening, theirs) = opening_of(stand, "honest", others, None)?;
    let own = UpstreamSettings { agents: None, ..theirs.settings().clone() };
    let own = Upstream::new("own", own).ok_or("the server has no name")?;
    let both = [theirs, own];
    opening.tools = Reading::all(&both)?;
    opening.tools.push(Arc::new(Refresh::new(both.to_vec())?));
    let gate = stand.open(opening)?;
    runtime()?.block_on(gate.engine.set_upstreams(both.to_vec()))?;
    gate.call("mcp.read_resource", json!({ "server": "own", "uri": "demo://one" }), Ending::Done)?;
    for tool in ["mcp.read_resource", "mcp.refresh"] {
        let loaded = gate.send(gate.request("load_tool", json!({ "name": tool }))?)?;
        if loaded.content.contains(&format!("\"{NAME}\"")) {
            return Ok(Effect::Through(format!("`{tool}` names it")));
        }
        let answer = |server: &str| {
            let arguments = match tool {
                "mcp.refresh" => json!({ "server": server }),
                _ => json!({ "server": server, "uri": "demo://one" }),
            };
            gate.call(tool, arguments, Ending::Refused("bad_arguments"))
        };
        let (theirs, nobodys) = (answer(NAME)?, answer("nowhere")?);
        if (theirs.status, &theirs.reason) != (nobodys.status, &nobodys.reason) {
            return Ok(Effect::Through(format!("`{tool}` tells them apart: {}", theirs.content)));
        }
    }
    Ok(Effect::Held("they are answered alike".to_owned()))
}
