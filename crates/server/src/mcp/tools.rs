//! Our tools as MCP clients see them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use contract::{Contract, Digest, EgressClass, Idempotency, SafetyClass};
use engine::{CALL_STATUS, wire_name};
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool's name as clients see it.
fn shown_name(contract: &Contract) -> String {
    wire_name(contract.name())
}

/// The true name of what a client calls so; the name itself if nothing is.
pub(super) fn true_name(name: &str, contracts: &[Contract]) -> String {
    let meant = contracts.iter().find(|contract| shown_name(contract) == name);
    meant.map_or_else(|| name.to_owned(), |contract| contract.name().to_string())
}

/// Tools as they are shown, by what they are made of: a list of hundreds is asked for again and again.
static MADE: LazyLock<Mutex<HashMap<(Digest, String), Tool>>> = LazyLock::new(Mutex::default);
/// As many as are kept.
const MOST_MADE: usize = 4096;

pub(super) fn shown_tool(contract: &Contract) -> Tool {
    // The hash is of all that its author wrote; what was found in it beside others is told as well.
    let findings = match contract.findings() {
        [] => String::new(),
        findings => json!(findings).to_string(),
    };
    let key = (contract.hash(), findings);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.len() > MOST_MADE {
        made.clear();
    }
    made.entry(key).or_insert_with(|| make_tool(contract)).clone()
}

fn make_tool(contract: &Contract) -> Tool {
    let definition = contract.definition();
    let input = object(contract.input().definition().clone());
    let output = object(answer_schema(contract.output().definition().clone()));
    let mut meta = JsonObject::new();
    meta.insert("toolgate/name".to_owned(), Value::String(definition.name.clone()));
    meta.insert("toolgate/hash".to_owned(), Value::String(contract.hash().to_string()));
    meta.insert("toolgate/findings".to_owned(), json!(contract.findings()));
    Tool::new_with_raw(shown_name(contract), Some(contract.shown_description().into()), Arc::new(input))
        .with_title(definition.title.clone())
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(annotations(contract))
        .with_meta(MetaObject(meta))
}

fn annotations(contract: &Contract) -> ToolAnnotations {
    let definition = contract.definition();
    let reads = definition.safety == SafetyClass::Read;
    ToolAnnotations::with_title(definition.title.clone())
        .read_only(reads)
        .destructive(!reads)
        .idempotent(reads || definition.idempotency == Idempotency::Required)
        .open_world(definition.egress != EgressClass::None)
}

pub(super) fn call_status_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": { "call_id": { "type": "string", "description": "The call_id of the earlier answer." } },
        "required": ["call_id"],
        "additionalProperties": false,
    });
    let description = "Collects a call that was answered with `waiting`: waits a while, runs it if people have said yes, and says where it is.";
    Tool::new_with_raw(CALL_STATUS, Some(description.into()), Arc::new(object(input)))
        .with_title("Status of a call")
        .with_raw_output_schema(Arc::new(object(answer_schema(json!({ "type": "object" })))))
        .with_annotations(
            ToolAnnotations::with_title("Status of a call")
                .read_only(false)
                .destructive(true)
                .open_world(false),
        )
}

/// The shape of every answer: one that waits or was refused has no result, and fits all the same.
fn answer_schema(result: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "call_id": { "type": "string" },
            "status": { "enum": ["waiting", "running", "completed", "failed", "refused", "cancelled", "unknown"] },
            "result": { "anyOf": [result, { "type": "null" }] },
            "artifacts": { "type": "array" },
            "reason": { "type": ["object", "null"] },
            "approval": { "type": ["object", "null"] },
            "receipt": { "type": ["string", "null"] },
        },
        "required": ["call_id", "status"],
    })
}

pub(super) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}
