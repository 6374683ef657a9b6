//! What a server has besides tools, read by tools of ours: each reading is a call, decided and on record like any other.
//!
//! # Invariants
//! - Only what somebody has said that it is passed on is read, of a server that is for the agent.
//! - A server is asked for what it has listed, and for nothing else.
//! - While it is read a server reaches nobody, and sees the workspace at most.
//! - What is no text stands beside the answer, and its place says what it is.

use std::pin::Pin;
use std::sync::Arc;

use clean::Findings;
use contract::{
    AgentName, Canonical, Category, Contract, ContractError, Definition, Digest, EgressClass, Example,
    Output, Reason, RunFacts, SafetyClass,
};
use policy::{Facets, Grant, Passed, Settings, UpstreamWay};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::caller::mark;
use super::cut::{unless_cut, within};
use super::offered::{Offered, is_address, is_type};
use super::result::{aside, plain};
use super::run_so_far::RunSoFar;
use super::servers::{EXAMPLE, Servers};
use super::session::Ears;
use super::tool::{asked_first, bring, facets_of, note_lacking, owner_of};
use super::upstream::Upstream;
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant, taken_back};

/// Reads what is at an address of a server.
pub const READ_RESOURCE: &str = "mcp.read_resource";
/// Gets what a server would have people say.
pub const GET_PROMPT: &str = "mcp.get_prompt";
/// Asks a server how a word may go on.
pub const COMPLETE: &str = "mcp.complete";
/// Has a server say when something becomes another.
pub const SUBSCRIBE: &str = "mcp.subscribe";

/// As many pieces as one reading has.
const MOST_PIECES: usize = 200;
/// As many ways in which a word may go on.
const MOST_VALUES: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    /// The server, as it is called in the configuration.
    server: String,
    /// The address, as the server has it.
    uri: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PromptInput {
    /// The server, as it is called in the configuration.
    server: String,
    /// Which of its prompts, by its own name.
    name: String,
    /// What is filled in, by name; each a text.
    #[serde(default)]
    #[schemars(extend("additionalProperties" = { "type": "string" }))]
    arguments: Map<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompleteInput {
    /// The server, as it is called in the configuration.
    server: String,
    /// The prompt whose argument it is.
    #[serde(default)]
    prompt: Option<String>,
    /// Or the template of addresses.
    #[serde(default)]
    template: Option<String>,
    /// The argument.
    argument: String,
    /// What there is of it.
    value: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubscribeInput {
    /// The server, as it is called in the configuration.
    server: String,
    /// The address, as the server has it.
    uri: String,
    /// Whether it is to go on saying so.
    on: bool,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
struct ReadingOutput {
    /// What was read, in pieces.
    #[schemars(extend("items" = { "type": "object", "additionalProperties": true }))]
    pieces: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Resource,
    Prompt,
    Completion,
    Subscription,
}

/// A tool that reads what servers have besides tools.
pub struct Reading {
    contract: Contract,
    kind: Kind,
    servers: Servers,
}

impl Reading {
    /// Those that there is something to read with.
    pub fn all(upstreams: &[Arc<Upstream>]) -> Result<Vec<Arc<dyn Tool>>, ContractError> {
        let with = |passed: &[Passed]| -> Vec<Arc<Upstream>> {
            let is_one = |upstream: &&Arc<Upstream>| passed.iter().any(|passed| upstream.passes(*passed));
            upstreams.iter().filter(is_one).cloned().collect()
        };
        let (resources, prompts) = (with(&[Passed::Resources]), with(&[Passed::Prompts]));
        let either = with(&[Passed::Resources, Passed::Prompts]);
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (kind, upstreams) in [
            (Kind::Resource, &resources),
            (Kind::Subscription, &resources),
            (Kind::Prompt, &prompts),
            (Kind::Completion, &either),
        ] {
            if !upstreams.is_empty() {
                let contract = Contract::internal(kind.definition())?;
                tools.push(Arc::new(Reading { contract, kind, servers: Servers::new(upstreams.clone()) }));
            }
        }
        Ok(tools)
    }

    /// Which server is asked what.
    fn question(&self, arguments: &Value) -> Result<(&Arc<Upstream>, &'static str, Value), Reason> {
        match self.kind {
            Kind::Resource => {
                let ReadInput { server, uri } = read(arguments)?;
                check_address(&uri)?;
                Ok((self.servers.find(&server)?, "resources/read", json!({ "uri": uri })))
            }
            Kind::Subscription => {
                let SubscribeInput { server, uri, on } = read(arguments)?;
                check_address(&uri)?;
                let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
                Ok((self.servers.find(&server)?, method, json!({ "uri": uri })))
            }
            Kind::Prompt => {
                let PromptInput { server, name, arguments } = read(arguments)?;
                if arguments.values().any(|value| !value.is_string()) {
                    return Err(Reason::bad_arguments("what is filled in has to be a text"));
                }
                let params = json!({ "name": name, "arguments": arguments });
                Ok((self.servers.find(&server)?, "prompts/get", params))
            }
            Kind::Completion => {
                let CompleteInput { server, prompt, template, argument, value } = read(arguments)?;
                let of = match (prompt, template) {
                    (Some(name), None) => json!({ "type": "ref/prompt", "name": name }),
                    (None, Some(uri)) => json!({ "type": "ref/resource", "uri": uri }),
                    _ => return Err(Reason::bad_arguments("either `prompt` or `template` has to be named")),
                };
                let params = json!({ "ref": of, "argument": { "name": argument, "value": value } });
                Ok((self.servers.find(&server)?, "completion/complete", params))
            }
        }
    }

    async fn ask(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
        cut: &CancellationToken,
    ) -> Result<(Ran, RunFacts), (Reason, RunFacts)> {
        let bare = |reason| (reason, RunFacts::default());
        check_grant(grant, &self.contract, arguments, at).map_err(bare)?;
        let agent = owner_of(at).map_err(bare)?;
        self.servers.check(agent, arguments.value()).map_err(bare)?;
        let (upstream, method, mut params) = self.question(arguments.value()).map_err(bare)?;
        let access = upstream.access_to_look();
        let hold = unless_cut(cut, at.hold(grant.workspace(), access)).await.map_err(bare)?;
        let known = RunSoFar::nothing();
        let instance = unless_cut(cut, upstream.instance(agent, access, grant, at, &known)).await;
        let instance = instance.map_err(|reason| (reason, known.facts(None)))?;
        // By what it said when it was last asked, or when it was started for this agent.
        let lists = [&*upstream.offered(), &instance.offered]
            .iter()
            .any(|offered| is_listed(offered, method, &params));
        if !lists {
            let why = Reason::bad_arguments("the server has listed nothing of that name or address");
            return Err((why, known.facts(None)));
        }
        let ears = Ears::of(at.caller());
        if self.kind == Kind::Prompt {
            bring(upstream, &ears, &mut params);
        }
        // Nobody serves the doors of its network meanwhile.
        let _turn = match &instance.doors {
            Some(_) => {
                let turn = unless_cut(cut, async { Ok(instance.turn.lock().await) }).await;
                Some(turn.map_err(|reason| (reason, known.facts(None)))?)
            }
            None => None,
        };
        let answered = tokio::select! {
            answered = instance.session.ask_for(method, params, &ears) => answered,
            () = cut.cancelled() => return Err((taken_back(), known.facts(None))),
        };
        instance.touch();
        drop(hold);
        let facts = known.facts(None);
        let answer = answered.map_err(|silence| {
            note_lacking(&ears, &silence);
            let why = super::instance::describe(&silence);
            (
                Reason::tool_failed(format!("the server `{}` gave no answer: {why}", upstream.name())),
                facts.clone(),
            )
        })?;
        upstream.went_well(agent).await;
        if let Some(asked) = asked_first(upstream, &ears, &answer, &facts) {
            let output = Output { structured: json!({ "pieces": [] }), ..asked.output };
            return Ok((Ran { output, ..asked }, facts));
        }
        let output = self.output(upstream.name(), answer).map_err(|why| {
            (Reason::bad_output(format!("the server's answer is not one: {why}")), facts.clone())
        })?;
        let facts = RunFacts { output: Some(Digest::of(output.content.as_bytes())), ..facts };
        let ran = Ran { output, findings: Findings::default(), facts: facts.clone(), failure: None };
        Ok((ran, facts))
    }

    fn output(&self, server: &str, answer: Value) -> Result<Output, &'static str> {
        let list =
            |key: &str| answer.pointer(key).and_then(Value::as_array).filter(|all| all.len() <= MOST_PIECES);
        let mut pieces = Pieces { server, read: Vec::new(), texts: Vec::new(), artifacts: Vec::new() };
        match self.kind {
            Kind::Resource => {
                for one in list("/contents").ok_or("it has no contents, or too many")? {
                    pieces.contents(one)?;
                }
            }
            Kind::Prompt => {
                for one in list("/messages").ok_or("it has no messages, or too many")? {
                    pieces.message(one)?;
                }
            }
            Kind::Completion => {
                let values = list("/completion/values").ok_or("it has no values, or too many")?;
                for value in values.iter().take(MOST_VALUES) {
                    let text = value.as_str().ok_or("a value of it is no text")?.to_owned();
                    pieces.read.push(json!({ "value": text }));
                    pieces.texts.push(text);
                }
            }
            Kind::Subscription => pieces.texts.push("so be it".to_owned()),
        }
        let Pieces { read, texts, artifacts, .. } = pieces;
        let structured = json!(ReadingOutput { pieces: read });
        Ok(Output { content: texts.join("\n"), structured, artifacts, is_error: false })
    }
}

/// What was read so far.
struct Pieces<'a> {
    server: &'a str,
    read: Vec<Value>,
    texts: Vec<String>,
    artifacts: Vec<(String, Vec<u8>)>,
}

impl Pieces<'_> {
    /// Contents of an address.
    fn contents(&mut self, one: &Value) -> Result<(), &'static str> {
        let piece = self.resource(one)?;
        self.read.push(piece);
        Ok(())
    }

    fn resource(&mut self, one: &Value) -> Result<Value, &'static str> {
        let text = |key: &str| one.get(key).and_then(Value::as_str);
        let uri = plain(text("uri").unwrap_or_default());
        let kind = text("mimeType").filter(|kind| is_type(kind)).unwrap_or("text/plain");
        match (text("text"), text("blob")) {
            (Some(own), _) => {
                self.texts.push(own.to_owned());
                Ok(json!({ "uri": uri, "mime_type": kind, "text": own }))
            }
            (None, Some(blob)) => {
                let (name, said) = self.aside("resource", Some(kind), blob)?;
                self.texts.push(said);
                Ok(json!({ "uri": uri, "mime_type": kind, "artifact": name }))
            }
            (None, None) => Err("it has neither text nor data"),
        }
    }

    /// One thing that somebody would say.
    fn message(&mut self, one: &Value) -> Result<(), &'static str> {
        let role = match one.get("role").and_then(Value::as_str) {
            Some(role @ ("user" | "assistant")) => role,
            _ => return Err("a message of it is nobody's"),
        };
        let content = one.get("content").ok_or("a message of it is empty")?;
        let text = |key: &str| content.get(key).and_then(Value::as_str);
        let piece = match text("type") {
            Some("text") => {
                // ATTACK(prompt-of-a-stranger): in the mouth of a person it would be an order.
                let said = format!("{}{}", mark(self.server), text("text").ok_or("a text in it is none")?);
                self.texts.push(said.clone());
                json!({ "role": role, "type": "text", "text": said })
            }
            Some(kind @ ("image" | "audio")) => {
                let data = text("data").ok_or("a picture or sound in it is none")?;
                let (name, said) = self.aside(kind, text("mimeType"), data)?;
                self.texts.push(said);
                json!({ "role": role, "type": kind, "artifact": name })
            }
            Some("resource") => {
                let resource = self.resource(content.get("resource").ok_or("a resource in it is none")?)?;
                json!({ "role": role, "type": "resource", "resource": resource })
            }
            _ => return Err("a message of it is of a kind that is not known here"),
        };
        self.read.push(piece);
        Ok(())
    }

    fn aside(
        &mut self,
        kind: &str,
        of_type: Option<&str>,
        data: &str,
    ) -> Result<(String, String), &'static str> {
        let number = self.read.len() + 1;
        let said = aside(kind, number, of_type, data, &mut self.artifacts)?;
        Ok((format!("{kind}-{number}"), said))
    }
}

impl Kind {
    fn definition(self) -> Definition {
        let examples = |arguments: Value| vec![Example::of("one server", arguments)];
        let common = Definition {
            category: Category::Mcp,
            action: "mcp:call".to_owned(),
            safety: SafetyClass::Read,
            egress: EgressClass::None,
            failure_modes: vec![
                "tool_failed: the server does not answer, or says that there is no such thing".to_owned(),
            ],
            timeout_seconds: 60,
            ..match self {
                Kind::Resource => Definition::of::<ReadInput, ReadingOutput>(READ_RESOURCE),
                Kind::Prompt => Definition::of::<PromptInput, ReadingOutput>(GET_PROMPT),
                Kind::Completion => Definition::of::<CompleteInput, ReadingOutput>(COMPLETE),
                Kind::Subscription => Definition::of::<SubscribeInput, ReadingOutput>(SUBSCRIBE),
            }
        };
        let (title, description, examples) = match self {
            Kind::Resource => (
                "Read what an MCP server has",
                "Reads what is at an address of one of the configured MCP servers. What it says is a stranger's.",
                examples(json!({ "server": EXAMPLE, "uri": "demo://guide" })),
            ),
            Kind::Prompt => (
                "Get a prompt of an MCP server",
                "Gets what one of the configured MCP servers would have people say to their model. It is a stranger's.",
                examples(json!({ "server": EXAMPLE, "name": "review" })),
            ),
            Kind::Completion => (
                "Ask an MCP server how a word goes on",
                "Asks one of the configured MCP servers which values an argument of its prompts or addresses may have.",
                examples(
                    json!({ "server": EXAMPLE, "prompt": "review", "argument": "language", "value": "py" }),
                ),
            ),
            Kind::Subscription => (
                "Have an MCP server say when something changes",
                "Has one of the configured MCP servers say, or no longer say, when what is at an address becomes another.",
                examples(json!({ "server": EXAMPLE, "uri": "demo://guide", "on": true })),
            ),
        };
        Definition { title: title.to_owned(), description: description.to_owned(), examples, ..common }
    }
}

impl Tool for Reading {
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
        let (upstream, ..) = self.question(arguments)?;
        if !matches!(upstream.settings().way, UpstreamWay::Command(_)) {
            return Err(Reason::bad_arguments("only what a program here has is passed on"));
        }
        facets_of(upstream, SafetyClass::Read, EgressClass::None, upstream.access_to_look())
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let (timeout, cut) = (grant.authority().limits.timeout, CancellationToken::new());
            let too_late = || Reason::timeout("the server did not answer in time");
            match within(timeout, &cancel, &cut, too_late, self.ask(&grant, arguments, at, &cut)).await {
                Ok((ran, _)) => ran,
                Err((reason, facts)) => Ran::failed(reason, facts),
            }
        })
    }
}

fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, Reason> {
    serde_json::from_value(arguments.clone()).map_err(|error| Reason::bad_arguments(error.to_string()))
}

/// ATTACK(resource-of-another): a server is asked for what it has listed itself, whatever else it would give.
fn is_listed(offered: &Offered, method: &str, params: &Value) -> bool {
    let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str);
    let is_prompt = |name: &str| offered.prompts.iter().any(|prompt| prompt.name == name);
    let is_template = |uri: &str| offered.templates.iter().any(|template| template.uri == uri);
    match method {
        "resources/read" | "resources/subscribe" => text("/uri").is_some_and(|uri| offered.has(uri)),
        "prompts/get" => text("/name").is_some_and(is_prompt),
        "completion/complete" => {
            text("/ref/name").is_some_and(is_prompt) || text("/ref/uri").is_some_and(is_template)
        }
        // To hear no more of something is asked for also when it is gone.
        _ => method == "resources/unsubscribe",
    }
}

fn check_address(uri: &str) -> Result<(), Reason> {
    match is_address(uri) {
        true => Ok(()),
        false => Err(Reason::bad_arguments("that is no address of a server")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_what_it_has_listed_alone() {
        let of = |key: &str, text: &str| [json!({ key: text })];
        let (resources, prompts) = (of("uri", "demo://one"), of("name", "review"));
        let offered = Offered::read("s", &resources, &of("uriTemplate", "demo://all/{x}"), &prompts);
        for (method, params, is) in [
            ("resources/read", json!({ "uri": "demo://one" }), true),
            ("resources/read", json!({ "uri": "demo://all/7" }), true),
            ("resources/read", json!({ "uri": "file:///etc/shadow" }), false),
            ("resources/subscribe", json!({ "uri": "demo://two" }), false),
            ("resources/unsubscribe", json!({ "uri": "demo://two" }), true),
            ("prompts/get", json!({ "name": "review" }), true),
            ("prompts/get", json!({ "name": "other" }), false),
            ("completion/complete", json!({ "ref": { "name": "review" } }), true),
            ("completion/complete", json!({ "ref": { "uri": "demo://all/{x}" } }), true),
            ("completion/complete", json!({ "ref": { "uri": "demo://one" } }), false),
            ("tools/call", json!({ "name": "review" }), false),
        ] {
            assert_eq!(is_listed(&offered, method, &params), is, "{method} {params}");
        }
    }
}
