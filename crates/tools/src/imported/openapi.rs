//! OpenAPI documents: each operation is a tool, classed by its method.
//!
//! References lead within the document alone. What cannot be asked with one encoded part for each argument is left out where it
//! is optional, and makes no tool where it is not.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::ReadSpec;
use super::request::{Body, Request};
use super::spec::{Call, PermissionLevel, Spec, USUAL_SECONDS};
use super::template::{Argument, Kind, Part};

const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];
/// So deep references are followed; a schema that leads to itself ends there.
const DEEPEST: usize = 24;
/// How many parts one operation has with its references resolved, and all operations of a document together.
const MOST_PARTS: usize = 10_000;
const MOST_PARTS_TOGETHER: usize = 500_000;
/// As long as the name of an operation is.
const LONGEST_NAME: usize = 64;

/// The operations of a document, in the order of their paths and methods.
pub(super) fn read(document: &Value) -> Result<Vec<ReadSpec>, String> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err("only OpenAPI 3 is read".to_owned());
    }
    let servers = document.get("servers").and_then(Value::as_array);
    let url = servers
        .and_then(|servers| servers.first())
        .and_then(|server| server.get("url"))
        .and_then(Value::as_str);
    let url = url
        .filter(|url| url.starts_with("https://"))
        .ok_or("`servers` has no URL that begins with `https://`")?;
    let title = document.pointer("/info/title").and_then(Value::as_str).unwrap_or_default();
    let group = plain_name(title);
    if group.is_empty() {
        return Err("`info.title` gives no name to the tools".to_owned());
    }
    let paths = document.get("paths").and_then(Value::as_object).ok_or("there are no `paths`")?;
    let mut read = Vec::new();
    let together = Cell::new(0);
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let own = operation
                .get("operationId")
                .and_then(Value::as_str)
                .map(plain_name)
                .filter(|name| !name.is_empty());
            let name = format!("{group}.{}", own.unwrap_or_else(|| plain_name(&format!("{method} {path}"))));
            let url = url.trim_end_matches('/');
            let parts = Cell::new(0);
            let at = At { document, url, path, method, item, operation, parts: &parts, together: &together };
            read.push(at.spec(&name).map_err(|why| (name, why)));
        }
    }
    Ok(read)
}

/// One operation.
struct At<'a> {
    document: &'a Value,
    url: &'a str,
    path: &'a str,
    method: &'a str,
    item: &'a Value,
    operation: &'a Value,
    /// How many parts were resolved, of this one and of all.
    parts: &'a Cell<usize>,
    together: &'a Cell<usize>,
}

impl At<'_> {
    fn spec(&self, name: &str) -> Result<Spec, String> {
        let text = |key: &str| self.operation.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (summary, description) = (text("summary"), text("description"));
        let mut request = Request::to(self.method, &format!("{}{}", self.url, self.plain_path()?))?;
        let mut arguments: Vec<Argument> = Vec::new();
        let parameters = self.parameters()?;
        for parameter in &parameters {
            let (place, given) = (string(parameter, "in"), string(parameter, "name"));
            let required =
                parameter.get("required").and_then(Value::as_bool).unwrap_or(false) || place == "path";
            let argument = match self.argument(parameter, &given, required) {
                Ok(argument) => argument,
                Err(why) if required => return Err(why),
                Err(_) => continue,
            };
            let part = Part::Argument(argument.name.clone());
            match place.as_str() {
                "path" => {}
                "query" => request.query.push((given, part)),
                "header" => request.headers.push((given, part)),
                _ if required => return Err(format!("`{given}` is in `{place}`, where nothing is put")),
                _ => continue,
            }
            arguments.push(argument);
        }
        let sent = self.operation.get("requestBody").map(|body| self.resolved(body, 0)).transpose()?;
        if let Some(body) = body_of(sent.as_ref())? {
            request.body = Body::Whole(body.name.clone());
            arguments.push(body);
        }
        let description = match (summary.is_empty(), description.is_empty()) {
            (false, false) => format!("{}. {description}", summary.trim_end_matches('.')),
            (false, true) => summary.clone(),
            (true, false) => description,
            (true, true) => format!("{} {}", self.method.to_ascii_uppercase(), self.path),
        };
        Ok(Spec {
            name: name.to_owned(),
            title: Some(summary).filter(|summary| !summary.is_empty()),
            description,
            level: PermissionLevel::Network,
            arguments,
            call: Call::Http(Box::new(request)),
            failure_modes: Vec::new(),
            timeout_seconds: USUAL_SECONDS,
            guide: None,
            // ATTACK(changed-behind-a-reference): what references lead to is part of what was written.
            original: json!({ "url": self.url, "path": self.path, "method": self.method, "description": self.operation.get("description"),
                "parameters": self.item.get("parameters"), "operation": self.operation,
                "resolved": { "parameters": parameters, "body": sent } }),
        })
    }

    /// The path with the names that its arguments have here.
    fn plain_path(&self) -> Result<String, String> {
        let part = |part: &str| match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if !name.contains(['{', '}']) => Ok(format!("{{{}}}", plain_name(name))),
            _ if part.contains(['{', '}']) => Err(format!("`{part}`: an argument is a whole part of a path")),
            _ => Ok(part.to_owned()),
        };
        let parts: Result<Vec<String>, String> = self.path.split('/').map(part).collect();
        Ok(parts?.join("/"))
    }

    /// Those of the path, and those of the operation, which come before them.
    fn parameters(&self) -> Result<Vec<Value>, String> {
        let mut parameters: Vec<Value> = Vec::new();
        for owner in [self.operation, self.item] {
            for parameter in owner.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let parameter = self.resolved(parameter, 0)?;
                let same = |known: &Value| {
                    string(known, "name") == string(&parameter, "name")
                        && string(known, "in") == string(&parameter, "in")
                };
                if !parameters.iter().any(same) {
                    parameters.push(parameter);
                }
            }
        }
        Ok(parameters)
    }

    fn argument(&self, parameter: &Value, given: &str, required: bool) -> Result<Argument, String> {
        let schema = parameter.get("schema").cloned().unwrap_or_else(|| json!({ "type": "string" }));
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("string") => Kind::Text,
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            _ => {
                return Err(format!(
                    "`{}` is no single text, number or boolean",
                    contract::show_hidden(given)
                ));
            }
        };
        let choices = match (&kind, schema.get("enum").and_then(Value::as_array)) {
            (Kind::Text, Some(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let description = string(parameter, "description");
        Ok(Argument { name: plain_name(given), kind, description, required, choices })
    }

    /// A value with what its references lead to in their places, and of schemas only what we check.
    fn resolved(&self, value: &Value, depth: usize) -> Result<Value, String> {
        // ATTACK(endless-document): a few references to themselves are a schema that nobody ever finishes.
        self.parts.set(self.parts.get() + 1);
        self.together.set(self.together.get() + 1);
        if self.parts.get() > MOST_PARTS || self.together.get() > MOST_PARTS_TOGETHER {
            return Err(format!(
                "with its references resolved it has more than {MOST_PARTS} parts, or the document more than {MOST_PARTS_TOGETHER}"
            ));
        }
        if depth > DEEPEST {
            // What leads to itself is anything from here on.
            return Ok(json!({}));
        }
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    // ATTACK(openapi-reference): nothing outside of the document is read.
                    let pointer = reference
                        .strip_prefix('#')
                        .ok_or_else(|| format!("`{reference}` leads elsewhere"))?;
                    let target = self
                        .document
                        .pointer(pointer)
                        .ok_or_else(|| format!("`{reference}` leads nowhere"))?;
                    return self.resolved(target, depth + 4);
                }
                let kept = members
                    .iter()
                    .filter(|(name, _)| !name.starts_with("x-") && !SKIPPED.contains(&name.as_str()));
                let mut resolved = Map::new();
                for (name, member) in kept {
                    resolved.insert(name.clone(), self.resolved(member, depth + 1)?);
                }
                Ok(Value::Object(resolved))
            }
            Value::Array(items) => items
                .iter()
                .map(|item| self.resolved(item, depth + 1))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            plain => Ok(plain.clone()),
        }
    }
}

/// The argument that is sent as the body, where there is one.
fn body_of(body: Option<&Value>) -> Result<Option<Argument>, String> {
    let Some(body) = body else { return Ok(None) };
    let required = body.get("required").and_then(Value::as_bool).unwrap_or(false);
    let json = body.get("content").and_then(|content| content.get("application/json"));
    match json {
        Some(media) => {
            let schema = media.get("schema").cloned().unwrap_or_else(|| json!({}));
            let description = string(body, "description");
            let kind = Kind::Json(schema);
            Ok(Some(Argument { name: "body".to_owned(), kind, description, required, choices: Vec::new() }))
        }
        None if required => Err("it has to be sent something that is not JSON".to_owned()),
        None => Ok(None),
    }
}

/// What is about documentation alone, or is no JSON schema.
const SKIPPED: [&str; 8] =
    ["example", "examples", "externalDocs", "xml", "discriminator", "deprecated", "nullable", "readOnly"];

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A name of ours from somebody else's: `listPets` and `List pets` are `list_pets`.
fn plain_name(text: &str) -> String {
    let mut name = String::new();
    let mut before = '_';
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && before.is_ascii_lowercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        before = letter;
    }
    name.truncate(LONGEST_NAME);
    name.trim_end_matches('_').to_owned()
}
