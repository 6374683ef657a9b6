//! The names of built-in tools, so that a slip in a pattern is noticed: a rule about `shel` would guard nothing.

use contract::ToolName;
use engine::{CALL_STATUS, DISCOVERY_NAMES};
use policy::ToolGlob;

use super::at::{At, Place};
use super::problem::Problem;

/// Every tool that a rule can be about: the built-in ones, those of ours that ask servers of others, and the one that the
/// gate adds for MCP clients.
fn ours() -> impl Iterator<Item = &'static str> + Clone {
    tools::NAMES.iter().chain(tools::mcp::NAMES).copied().chain([CALL_STATUS])
}

/// The built-in tools.
pub(crate) fn built_in() -> Vec<ToolName> {
    ours().filter_map(|name| ToolName::parse(name).ok()).collect()
}

/// Those of later versions: rules about them may be written already.
const LATER: &[&str] = &[
    "browser.act",
    "browser.open",
    "browser.pdf",
    "browser.screenshot",
    "code.run",
    "db.admin",
    "db.migrate",
    "db.mutate",
    "db.query",
    "deploy.container",
    "deploy.rollout",
    "deploy.trigger",
    "design.diagram",
    "design.image",
    "memory.recall",
    "memory.search",
    "memory.store",
    "metrics.query",
    "metrics.record",
    "metrics.report",
    "notify.email",
    "notify.slack",
    "notify.webhook",
    "web.scrape",
    "web.search",
];

/// Whole groups of them, and what other systems call them.
const GROUPS: &[&str] = &[
    "bash",
    "browser",
    "browser.*",
    "code.*",
    "database",
    "db.*",
    "deploy.*",
    "design.*",
    "filesystem",
    "fs.*",
    "git",
    "git.*",
    "http",
    "http.*",
    "mcp.*",
    "mcp_*",
    "memory.*",
    "metrics.*",
    "notify.*",
    "web.*",
];

/// Reads a pattern over tools. One that means no built-in tool but nearly does is a slip; any other may mean a tool of a later
/// version, or one that is registered later, and is said aloud.
pub(crate) fn pattern(text: &At<String>, warnings: &mut Vec<Problem>) -> Result<ToolGlob, Problem> {
    let glob = ToolGlob::parse(&text.value).map_err(|_| {
        let message = format!("`{}` is not a pattern over tool names", super::problem::shown(&text.value));
        Problem::new(text.place, message)
    })?;
    let means = |name: &str| ToolName::parse(name).is_ok_and(|name| glob.matches(&name));
    if ours().any(means) || text.value.starts_with("mcp_") {
        return Ok(glob);
    }
    // What is permitted is a matter of the tools that these tell of, or call.
    if DISCOVERY_NAMES.into_iter().any(means) {
        warnings.push(Problem::new(text.place, no_rule_about(&text.value)));
        return Ok(glob);
    }
    if LATER.iter().copied().any(means) {
        let message = format!("`{}` is read, but this version has no such tool", text.value);
        warnings.push(Problem::new(text.place, message));
        return Ok(glob);
    }
    let names = ours().chain(DISCOVERY_NAMES).chain(LATER.iter().chain(GROUPS).copied());
    match contract::nearest(&text.value, names) {
        Some(near) => Err(Problem {
            nearest: Some(near.to_owned()),
            ..Problem::new(text.place, format!("there is no tool `{}`", text.value))
        }),
        None => {
            let message = format!("`{}` is no built-in tool; it means one that is added later", text.value);
            warnings.push(Problem::new(text.place, message));
            Ok(glob)
        }
    }
}

/// Checks the name of one tool. One that nearly is a built-in tool's is a slip; any other may be that of a tool which is
/// registered from a file, now or later, and is said aloud.
pub(crate) fn check(name: &str, place: Place, warnings: &mut Vec<Problem>) -> Result<(), Problem> {
    if ours().any(|known| known == name) || (name.starts_with("mcp_") && ToolName::parse(name).is_ok()) {
        return Ok(());
    }
    if DISCOVERY_NAMES.contains(&name) {
        warnings.push(Problem::new(place, no_rule_about(name)));
        return Ok(());
    }
    if LATER.contains(&name) {
        warnings.push(Problem::new(place, format!("`{name}` is read, but this version has no such tool")));
        return Ok(());
    }
    let known = ours().chain(DISCOVERY_NAMES).chain(LATER.iter().copied());
    if ToolName::parse(name).is_err() || contract::nearest(name, known).is_some() {
        return Err(Problem::unknown(place, "there is no tool", name, ours()));
    }
    let message = format!("`{name}` is no built-in tool; it means one that is added later");
    warnings.push(Problem::new(place, message));
    Ok(())
}

fn no_rule_about(name: &str) -> String {
    format!(
        "what is said of `{name}` does nothing: it tells of other tools, or calls them, and their rules hold"
    )
}

#[cfg(test)]
mod tests {
    use policy::Settings;

    use super::*;

    #[test]
    fn every_tool_there_is_can_be_named_in_a_rule() {
        let tools = tools::built_in(&Settings::default()).unwrap();
        let names = tools.iter().map(|tool| tool.contract().name().as_str());
        let missing: Vec<&str> = names.filter(|name| !ours().any(|known| known == *name)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn the_tools_that_ask_servers_of_others_can_be_named_in_a_rule() {
        for name in ["mcp.complete", "mcp.get_prompt", "mcp.read_resource", "mcp.refresh", "mcp.subscribe"] {
            let mut warnings = Vec::new();
            assert_eq!(check(name, Place::START, &mut warnings), Ok(()));
            let text = At { value: name.to_owned(), place: Place::START };
            assert_eq!(pattern(&text, &mut warnings).unwrap().as_str(), name);
            assert_eq!(warnings, []);
        }
    }
}
