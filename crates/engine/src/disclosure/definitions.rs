//! The tools that find, load and call other tools, as clients are shown them, and how what a client asks of them is read.

use contract::{Category, Reason};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request::Request;

/// One of the tools that are there whatever is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    List,
    Search,
    Load,
    Resource,
    Call,
}

/// A discovery tool as clients are shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveryTool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does.
    pub description: &'static str,
    /// A JSON schema of its arguments.
    pub input: Value,
    /// Whether it does nothing but tell. The other one does what the tool does that it calls.
    pub only_tells: bool,
}

/// The names of the discovery tools.
pub const DISCOVERY_NAMES: [&str; 5] = [
    Discovery::List.as_str(),
    Discovery::Search.as_str(),
    Discovery::Load.as_str(),
    Discovery::Resource.as_str(),
    Discovery::Call.as_str(),
];

/// The name of the tool by which MCP clients collect a call that was answered with `waiting`.
pub const CALL_STATUS: &str = "call_status";

/// The discovery tools.
pub fn discovery_tools() -> Vec<DiscoveryTool> {
    Discovery::ALL.into_iter().map(Discovery::definition).collect()
}

/// As many tools as one search gives, where nobody says, and at most.
pub(super) const USUAL_FINDS: usize = 5;
pub(super) const MOST_FINDS: usize = 20;
/// The longest request that is searched for, in characters.
pub(super) const LONGEST_QUERY: usize = 1024;
/// As much as is told of why arguments do not fit, in characters: it repeats what a caller wrote.
const LONGEST_WHY: usize = 512;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListInput {
    pub(super) category: Option<Category>,
    pub(super) after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchInput {
    pub(super) query: String,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadInput {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceInput {
    pub(super) name: String,
    pub(super) resource: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallInput {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: serde_json::Map<String, Value>,
}

impl Discovery {
    const ALL: [Discovery; 5] =
        [Discovery::List, Discovery::Search, Discovery::Load, Discovery::Resource, Discovery::Call];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Discovery::List => "list_tools",
            Discovery::Search => "search_tools",
            Discovery::Load => "load_tool",
            Discovery::Resource => "load_tool_resource",
            Discovery::Call => "call_tool",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Discovery> {
        Discovery::ALL.into_iter().find(|discovery| discovery.as_str() == name)
    }

    /// What no other tool may be called: those names are taken, and so is that of the tool by which calls are collected.
    pub(crate) fn takes(look: &str) -> Option<&'static str> {
        let mut taken = DISCOVERY_NAMES.into_iter().chain([CALL_STATUS]);
        taken.find(|name| contract::ToolName::parse(name).is_ok_and(|name| name.look() == look))
    }

    fn definition(self) -> DiscoveryTool {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let (title, description, input) = match self {
            Discovery::List => (
                "List tools",
                "Lists all tools there are for you, one line each.",
                object(
                    json!({
                        "category": text("only this category"),
                        "after": text("go on after this tool, where a list was cut"),
                    }),
                    &[],
                ),
            ),
            Discovery::Search => (
                "Search tools",
                "Finds the tools for what you want to do, the best first.",
                object(
                    json!({
                        "query": {
                            "type": "string",
                            "description": "what you want to do, in plain words",
                            "maxLength": LONGEST_QUERY,
                        },
                        "limit": { "type": "integer", "minimum": 1, "maximum": MOST_FINDS },
                    }),
                    &["query"],
                ),
            ),
            Discovery::Load => (
                "Load a tool",
                "Loads a tool by its name: says what it takes and gives, and lets you call it.",
                object(json!({ "name": text("the tool") }), &["name"]),
            ),
            Discovery::Resource => (
                "Read a tool's guide",
                "Gives the guide of a tool: how it is used well.",
                object(
                    json!({ "name": text("the tool"), "resource": text("which one, if it has several") }),
                    &["name"],
                ),
            ),
            Discovery::Call => (
                "Call a loaded tool",
                "Calls a tool that you have loaded, if it is not in your own list. Rules, approvals and records are those of that tool.",
                object(
                    json!({
                        "name": text("the tool"),
                        "arguments": { "type": "object", "description": "its arguments" },
                    }),
                    &["name"],
                ),
            ),
        };
        DiscoveryTool { name: self.as_str(), title, description, input, only_tells: self != Discovery::Call }
    }
}

/// What a client asks of a discovery tool, or why that is nothing.
pub(super) fn read<'a, T: Deserialize<'a>>(request: &'a Request) -> Result<T, Reason> {
    T::deserialize(request.arguments.value()).map_err(|error| {
        let why: String = error.to_string().chars().take(LONGEST_WHY).collect();
        let why = format!("the arguments do not fit: {}", contract::show_hidden(&why));
        Reason::bad_arguments(why).with_hint("the tool's input schema says what it takes")
    })
}
