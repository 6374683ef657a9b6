//! The OpenAPI document of every route, made from the table of routes and from the types that handlers read and answer
//! with. Nothing in it is written twice.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::caller::Who;
use super::problem::{PROBLEM_JSON, ProblemDocument};
use super::routes::operations;

/// Makes the schema of a type.
type Maker = fn(&mut SchemaGenerator) -> Schema;

/// What a route does, takes and gives.
pub(super) struct Operation {
    does: &'static str,
    query: Option<Maker>,
    headers: Vec<(&'static str, &'static str)>,
    takes: Option<Maker>,
    gives: Vec<(u16, Content)>,
    /// Media types of errors besides problems.
    other_errors: &'static [&'static str],
}

enum Content {
    Json(Maker),
    Other(&'static [&'static str]),
}

/// A row of the table: method, path, whom it is for, the handler's name, and what it does.
pub(super) type Row = (&'static str, &'static str, Who, &'static str, Operation);

/// What a route does, in a few words.
pub(super) fn does(what: &'static str) -> Operation {
    Operation {
        does: what,
        query: None,
        headers: Vec::new(),
        takes: None,
        gives: Vec::new(),
        other_errors: &[],
    }
}

impl Operation {
    /// The JSON body that it reads.
    pub(super) fn takes<T: JsonSchema>(self) -> Operation {
        Operation { takes: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// What may stand behind the `?`.
    pub(super) fn query<T: JsonSchema>(self) -> Operation {
        Operation { query: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// A header of its own.
    pub(super) fn header(mut self, name: &'static str, what: &'static str) -> Operation {
        self.headers.push((name, what));
        self
    }

    /// JSON that it answers with.
    pub(super) fn gives<T: JsonSchema>(mut self, status: u16) -> Operation {
        self.gives.push((status, Content::Json(SchemaGenerator::subschema_for::<T>)));
        self
    }

    /// The same JSON with each of these statuses.
    pub(super) fn gives_all<T: JsonSchema>(mut self, statuses: &[u16]) -> Operation {
        for status in statuses {
            self.gives.push((*status, Content::Json(SchemaGenerator::subschema_for::<T>)));
        }
        self
    }

    /// Something else that it answers with; nothing, if no media type is named.
    pub(super) fn gives_other(mut self, status: u16, kinds: &'static [&'static str]) -> Operation {
        self.gives.push((status, Content::Other(kinds)));
        self
    }

    /// Errors that are no problem documents.
    pub(super) fn fails_as(self, kinds: &'static [&'static str]) -> Operation {
        Operation { other_errors: kinds, ..self }
    }
}

/// The document, as it is served and as it stands in the documentation.
pub fn openapi() -> Value {
    let mut reads = settings().for_deserialize().into_generator();
    let mut tells = settings().for_serialize().into_generator();
    let problem = tells.subschema_for::<ProblemDocument>();
    let mut paths = Map::new();
    let mut names = BTreeSet::new();
    for (method, path, who, handler, operation) in operations() {
        let mut name = handler.replace("::", ".");
        while !names.insert(name.clone()) {
            name.push_str(".too");
        }
        let told = describe(path, who, &name, operation, &problem, &mut reads, &mut tells);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(method.to_ascii_lowercase(), told);
        }
    }
    // Where a type is both read and told, what is told has everything.
    let mut schemas = reads.take_definitions(true);
    schemas.extend(tells.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "summary": "The gate between an AI agent and the world",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas, "securitySchemes": security_schemes() },
    })
}

static TEXT: LazyLock<String> = LazyLock::new(|| openapi().to_string());

/// Serves the document.
pub(super) async fn show() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    })
}

fn describe(
    path: &str,
    who: Who,
    name: &str,
    operation: Operation,
    problem: &Schema,
    reads: &mut SchemaGenerator,
    tells: &mut SchemaGenerator,
) -> Value {
    let mut parameters = path_parameters(path);
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query));
    }
    let header = |name: &str, what: &str| json!({ "name": name, "in": "header", "description": what, "schema": { "type": "string" } });
    parameters.extend(operation.headers.iter().map(|(name, what)| header(name, what)));
    if matches!(who, Who::Agent | Who::Either) {
        let what = "the agent that is meant, where an operator asks";
        parameters.push(header("X-Toolgate-Agent", what));
    }
    let mut responses = Map::new();
    for (status, content) in operation.gives {
        let mut content: Map<String, Value> = match content {
            Content::Json(make) => {
                [("application/json".to_owned(), json!({ "schema": make(tells) }))].into_iter().collect()
            }
            Content::Other(kinds) => kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect(),
        };
        // A call that is refused is answered as a call; a request that is, with a problem.
        if status >= 400 {
            content.insert(PROBLEM_JSON.to_owned(), json!({ "schema": problem }));
        }
        let told = json!({ "description": meaning_of(status), "content": content });
        responses.insert(status.to_string(), told);
    }
    let mut errors = json!({ PROBLEM_JSON: { "schema": problem } });
    if let Some(errors) = errors.as_object_mut() {
        errors.extend(operation.other_errors.iter().map(|kind| ((*kind).to_owned(), json!({}))));
    }
    responses.insert("default".to_owned(), json!({ "description": "why not", "content": errors }));
    let mut told = json!({
        "operationId": name,
        "summary": operation.does,
        "security": security_of(who),
        "parameters": parameters,
        "responses": responses,
    });
    if let (Some(make), Some(members)) = (operation.takes, told.as_object_mut()) {
        let body = json!({ "required": true, "content": { "application/json": { "schema": make(reads) } } });
        members.insert("requestBody".to_owned(), body);
    }
    told
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }))
        .collect()
}

fn query_parameters(make: Maker) -> Vec<Value> {
    let mut own =
        settings().for_deserialize().with(|settings| settings.inline_subschemas = true).into_generator();
    let schema = make(&mut own);
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties
        .into_iter()
        .map(|(name, schema)| json!({ "required": required.contains(&json!(name)), "name": name, "in": "query", "schema": schema }))
        .collect()
}

fn security_of(who: Who) -> Value {
    match who {
        Who::Anyone => json!([]),
        Who::Signed => json!([{ "signature": [] }]),
        Who::Agent => json!([{ "agent": [] }, { "operator": [] }]),
        Who::Operator => json!([{ "operator": [] }, { "cookie": [], "page": [] }]),
        Who::Counter => json!([{ "counter": [] }, { "operator": [] }, { "cookie": [], "page": [] }]),
        Who::Either => json!([{ "agent": [] }, { "operator": [] }, { "cookie": [], "page": [] }]),
    }
}

fn security_schemes() -> Value {
    json!({
        "agent": { "type": "http", "scheme": "bearer", "description": "the token of one agent" },
        "operator": { "type": "http", "scheme": "bearer", "description": "the credential of an operator" },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "toolgate_7433",
            "description": "the session of the page; its name ends with the gate's port, and begins with `__Host-` under TLS" },
        "page": { "type": "apiKey", "in": "header", "name": "X-Toolgate-Page",
            "description": "the page token, which goes with the cookie" },
        "signature": { "type": "apiKey", "in": "header", "name": "X-Toolgate-Signature",
            "description": "the signature of a chat, over the time and the bytes of its message; `X-Slack-Signature` for Slack" },
        "counter": { "type": "http", "scheme": "bearer", "description": "the token of `metrics.token`" },
    })
}

fn meaning_of(status: u16) -> &'static str {
    match status {
        200 => "done",
        201 => "made",
        202 => "it waits, or goes on",
        204 => "done; there is nothing to tell",
        303 => "elsewhere",
        403 | 404 | 409 | 413 | 422 | 429 => "refused; the answer says why",
        500 => "it may have happened, and is not on record",
        503 => "it could not be recorded, so nothing ran",
        _ => "an answer",
    }
}
