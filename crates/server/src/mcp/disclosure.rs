//! Tools told step by step: what a client is sent of them at the start, and what it says of its context.

use std::sync::Arc;

use contract::{AgentName, TaskName};
use engine::{Context, DiscoveryTool, Engine, Shown, discovery_tools};
use rmcp::model::{ErrorData, RequestMetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::tools::{call_status_tool, object, shown_tool};

/// Where a client says how full its context is: `{"used": 120000, "window": 200000}`, in tokens.
const CONTEXT: &str = "toolgate/context";

const STEPS: &str = "\
There are more tools here than you are shown. `search_tools` finds them by what you want to do, `load_tool` says what one \
takes and lets you call it; if it does not appear among your tools then, use `call_tool`. ";

/// What a client is told at the start: with many tools, also a line of each.
pub(super) fn instructions(engine: &Engine, agent: &AgentName, instructions: &str) -> String {
    let begin = format!("{STEPS}{instructions}\n");
    let definitions = serde_json::to_string(&always_shown()).unwrap_or_default();
    match engine.level_one_for(agent, &format!("{definitions}{begin}")) {
        Some(level_one) => begin + &level_one,
        None => instructions.to_owned(),
    }
}

/// The definitions that a client is sent for a task.
pub(super) fn definitions(engine: &Engine, agent: &AgentName, task: Option<&TaskName>) -> Vec<Tool> {
    let visible = engine.tools_for(agent).into_iter();
    match engine.shown_to(agent, task) {
        Shown::Everything => {
            visible.map(|contract| shown_tool(&contract)).chain([call_status_tool()]).collect()
        }
        Shown::Loaded(loaded) => {
            let loaded = visible
                .filter(|contract| loaded.contains(contract.name()))
                .map(|contract| shown_tool(&contract));
            always_shown().into_iter().chain(loaded).collect()
        }
    }
}

/// How full a client says that its context is, if it does.
pub(super) fn context_of(meta: &RequestMetaObject) -> Result<Option<Context>, ErrorData> {
    let Some(said) = meta.get(CONTEXT) else { return Ok(None) };
    let number = |key: &str| said.get(key).and_then(Value::as_u64);
    match (number("used"), number("window")) {
        (Some(used), Some(window)) if window > 0 => Ok(Some(Context { used, window })),
        _ => {
            let why = format!("`{CONTEXT}` has to be an object with `used` and `window`, in tokens");
            Err(ErrorData::invalid_params(why, None))
        }
    }
}

/// The tools that are shown whatever is loaded.
fn always_shown() -> Vec<Tool> {
    discovery_tools().into_iter().map(shown_discovery).chain([call_status_tool()]).collect()
}

fn shown_discovery(tool: DiscoveryTool) -> Tool {
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.only_tells)
        .destructive(!tool.only_tells)
        .open_world(!tool.only_tells);
    Tool::new_with_raw(tool.name, Some(tool.description.into()), Arc::new(object(tool.input)))
        .with_annotations(annotations)
}

#[cfg(test)]
mod tests;
