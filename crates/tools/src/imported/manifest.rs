//! Manifests: a list of tools in YAML or JSON, each a command template or an HTTP call.

use std::collections::BTreeMap;

use contract::Profile;
use serde::Deserialize;
use serde_json::Value;

use super::ReadSpec;
use super::request::{Body, Request};
use super::spec::{Call, PermissionLevel, Spec, USUAL_SECONDS};
use super::template::{Argument, Kind, Part};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    tools: Vec<Value>,
}

/// One tool of a manifest, and the front matter of a `TOOL.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(alias = "permissionLevel")]
    pub(super) permission_level: String,
    #[serde(default)]
    pub(super) arguments: BTreeMap<String, ArgumentEntry>,
    pub(super) command: Option<Vec<String>>,
    pub(super) profile: Option<Profile>,
    pub(super) http: Option<HttpEntry>,
    #[serde(default, alias = "failureModes")]
    pub(super) failure_modes: Vec<String>,
    #[serde(alias = "timeoutSeconds")]
    pub(super) timeout_seconds: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    choices: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpEntry {
    method: Option<String>,
    url: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Arguments that are sent as members of a JSON object.
    body: Option<Vec<String>>,
}

/// The tools of a manifest, in its order.
pub(super) fn read(tree: Value) -> Result<Vec<ReadSpec>, String> {
    let manifest = Manifest::deserialize(tree).map_err(|error| error.to_string())?;
    let read = |(place, original): (usize, Value)| {
        let named = original.get("name").and_then(Value::as_str).map(str::to_owned);
        let name = named.unwrap_or_else(|| format!("tools[{place}]"));
        let entry = Entry::deserialize(&original).map_err(|error| error.to_string());
        entry.and_then(|entry| spec_of(entry, original)).map_err(|why| (name, why))
    };
    Ok(manifest.tools.into_iter().enumerate().map(read).collect())
}

/// What an entry says.
pub(super) fn spec_of(entry: Entry, original: Value) -> Result<Spec, String> {
    let arguments: Result<Vec<Argument>, String> =
        entry.arguments.into_iter().map(|(name, given)| argument_of(name, given)).collect();
    let call = match (entry.command, entry.http) {
        (Some(words), None) => Call::Command {
            profile: entry.profile.unwrap_or(Profile::Inspect),
            words: words.iter().map(|word| Part::of_word(word)).collect::<Result<_, _>>()?,
        },
        (None, Some(_)) if entry.profile.is_some() => return Err("a request has no profile".to_owned()),
        (None, Some(http)) => Call::Http(Box::new(request_of(http)?)),
        (None, None) => return Err("it has neither a `command` nor `http`".to_owned()),
        (Some(_), Some(_)) => return Err("it has both a `command` and `http`".to_owned()),
    };
    Ok(Spec {
        name: entry.name,
        title: entry.title,
        description: entry.description,
        level: PermissionLevel::parse(&entry.permission_level)?,
        arguments: arguments?,
        call,
        failure_modes: entry.failure_modes,
        timeout_seconds: entry.timeout_seconds.unwrap_or(USUAL_SECONDS),
        guide: None,
        original,
    })
}

fn argument_of(name: String, given: ArgumentEntry) -> Result<Argument, String> {
    let ArgumentEntry { kind, description, required, choices } = given;
    let kind = kind_of(&kind).ok_or_else(|| {
        let kind = contract::show_hidden(&kind);
        format!("`{name}` is `{kind}`: there are `string`, `path`, `integer`, `number` and `boolean`")
    })?;
    Ok(Argument { name, kind, description, required, choices })
}

/// What a word for a type means.
pub(super) fn kind_of(word: &str) -> Option<Kind> {
    match word {
        "string" => Some(Kind::Text),
        "path" => Some(Kind::Path),
        "integer" => Some(Kind::Integer),
        "number" => Some(Kind::Number),
        "boolean" => Some(Kind::Boolean),
        _ => None,
    }
}

fn request_of(http: HttpEntry) -> Result<Request, String> {
    let parts = |map: BTreeMap<String, String>| {
        map.into_iter()
            .map(|(name, value)| Ok((name, Part::of_value(&value)?)))
            .collect::<Result<Vec<_>, String>>()
    };
    let body = http.body.map_or(Body::Nothing, Body::Members);
    let request = Request::to(http.method.as_deref().unwrap_or("GET"), &http.url)?;
    Ok(Request { query: parts(http.query)?, headers: parts(http.headers)?, body, ..request })
}
