//! What servers of others have besides tools, as clients see it: resources, prompts, and how words go on.
//!
//! Lists are what the servers said when they were last asked. To read is a call, with all that this means.
//!
//! # Invariants
//! - An agent sees what is for it, of servers of which somebody has said that it is passed on.
//! - An address or a name means one server's: what two of them have is had under longer names alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{CallResult, CallStatus, Canonical};
use engine::Request;
use engine::upstream::{
    COMPLETE, GET_PROMPT, NamePrefix, Offered, OfferedPrompt, OfferedResource, Passed, READ_RESOURCE,
    SUBSCRIBE, Upstream,
};
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceContents,
    ResourceTemplate, Role,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::Server;
use super::changes::Following;
use super::media::{Medium, medium_of};
use super::progress::Furthest;
use super::resources::{decoded, encoded};
use super::upstream_line::{Asked, MOST_ROUNDS, answers, is_stateless, lacking};

/// Addresses of servers of others.
const SERVERS: &str = "toolgate://server/";

impl Server {
    /// The servers of which this is passed on to this agent.
    fn passing(&self, passed: Passed) -> Vec<Arc<Upstream>> {
        let all = self.engine.upstreams_of(&self.agent).into_iter();
        all.filter(|upstream| upstream.passes(passed)).collect()
    }

    /// Whether any server passes this on to this agent.
    pub(super) fn has_passed(&self, passed: Passed) -> bool {
        !self.passing(passed).is_empty()
    }

    /// What of other servers can be read.
    pub(super) fn resources_of_others(&self) -> Vec<Resource> {
        let servers = self.passing(Passed::Resources);
        let listed = |upstream: &Arc<Upstream>| {
            let shared = upstream.shared_with(&servers);
            let of = |resource: &OfferedResource| {
                let uri = shown_address(upstream, &resource.uri, &shared);
                let shown =
                    Resource::new(uri, resource.name.clone()).with_description(resource.description.clone());
                match &resource.mime_type {
                    Some(kind) => shown.with_mime_type(kind.clone()),
                    None => shown,
                }
            };
            upstream.offered().resources.iter().map(of).collect::<Vec<_>>()
        };
        servers.iter().flat_map(listed).collect()
    }

    /// How addresses of more are made.
    pub(super) fn templates_of_others(&self) -> Vec<ResourceTemplate> {
        let servers = self.passing(Passed::Resources);
        let listed = |upstream: &Arc<Upstream>| {
            let shared = upstream.shared_with(&servers);
            let of = |template: &OfferedResource| {
                let uri = shown_address(upstream, &template.uri, &shared);
                let shown = ResourceTemplate::new(uri, template.name.clone());
                let shown = shown.with_description(template.description.clone());
                match &template.mime_type {
                    Some(kind) => shown.with_mime_type(kind.clone()),
                    None => shown,
                }
            };
            upstream.offered().templates.iter().map(of).collect::<Vec<_>>()
        };
        servers.iter().flat_map(listed).collect()
    }

    /// Whose an address is, and what they call it.
    fn whose(&self, uri: &str) -> Option<(Arc<Upstream>, String)> {
        let servers = self.passing(Passed::Resources);
        if let Some(rest) = uri.strip_prefix(SERVERS) {
            let (name, own) = rest.split_once('/')?;
            let own = decoded(own)?;
            let upstream = servers.into_iter().find(|upstream| upstream.name() == name)?;
            return upstream.offered().has(&own).then_some((upstream, own));
        }
        let mut having = servers.into_iter().filter(|upstream| upstream.offered().has(uri));
        let (first, second) = (having.next()?, having.next());
        let is_plain = second.is_none() && first.settings().prefix == NamePrefix::Auto;
        is_plain.then(|| (first, uri.to_owned()))
    }

    /// Reads what is at an address of another server. Nothing if it is nobody's.
    pub(super) async fn read_of_others(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        let (upstream, own) = self.whose(uri)?;
        let arguments = json!({ "server": upstream.name(), "uri": own });
        Some(match self.fetch(READ_RESOURCE, arguments, context).await {
            Ok(result) => self.contents(uri, &upstream, &result).await,
            Err(error) => Err(error),
        })
    }

    async fn contents(
        &self,
        uri: &str,
        upstream: &Upstream,
        result: &CallResult,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let mut contents = Vec::new();
        for piece in pieces(result) {
            contents.push(self.content(uri, upstream, result, piece).await?);
        }
        if contents.is_empty() {
            return Err(ErrorData::invalid_params("there is nothing there", Some(json!({ "uri": uri }))));
        }
        let mut read = ReadResourceResult::new(contents);
        read.ttl_ms = Some(0);
        read.cache_scope = Some(CacheScope::Private);
        Ok(ReadResourceResponse::Complete(read))
    }

    async fn content(
        &self,
        uri: &str,
        upstream: &Upstream,
        result: &CallResult,
        piece: &Value,
    ) -> Result<ResourceContents, ErrorData> {
        let text = |key: &str| piece.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(artifact) = piece.get("artifact").and_then(Value::as_str) else {
            return Ok(ResourceContents::text(text("text"), uri).with_mime_type(text("mime_type")));
        };
        let bytes = match upstream.passes(Passed::Media) {
            true => self.bytes(result, artifact).await,
            false => None,
        };
        let medium = bytes.as_deref().and_then(medium_of);
        let (Some(bytes), Some(Medium::Image(kind) | Medium::Audio(kind))) = (bytes, medium) else {
            let why = "it is no text, and not passed on as what it is";
            return Err(ErrorData::invalid_params(why, Some(json!({ "uri": uri }))));
        };
        Ok(ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(kind.to_owned()),
            blob: STANDARD.encode(bytes),
            meta: None,
        })
    }

    /// Has a server say when what is at an address becomes another, or no longer.
    pub(super) async fn subscribe_to(
        &self,
        uri: &str,
        following: Following,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such resource", Some(json!({ "uri": uri })));
        let (upstream, own) = self.whose(uri).ok_or_else(unknown)?;
        let arguments =
            json!({ "server": upstream.name(), "uri": own, "on": following == Following::Begins });
        self.fetch(SUBSCRIBE, arguments, context).await?;
        self.followed.set(upstream.name(), &own, uri, following);
        Ok(())
    }

    pub(super) fn prompts(&self) -> ListPromptsResult {
        let of = |(name, _, prompt): (String, Arc<Upstream>, OfferedPrompt)| {
            let argument = |argument: &engine::upstream::OfferedArgument| {
                PromptArgument::new(argument.name.clone())
                    .with_description(argument.description.clone())
                    .with_required(argument.required)
            };
            let arguments = prompt.arguments.iter().map(argument).collect();
            Prompt::new(name, Some(prompt.description.clone()), Some(arguments))
        };
        let shown = shown_prompts(&self.passing(Passed::Prompts)).into_iter();
        let mut listed = ListPromptsResult::with_all_items(shown.map(of).collect());
        (listed.ttl_ms, listed.cache_scope) = (Some(0), Some(CacheScope::Private));
        listed
    }

    /// Whose a prompt is, and what they call it.
    fn whose_prompt(&self, name: &str) -> Option<(Arc<Upstream>, String)> {
        let mut shown = shown_prompts(&self.passing(Passed::Prompts)).into_iter();
        shown.find(|(shown, ..)| shown == name).map(|(_, upstream, prompt)| (upstream, prompt.name))
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such prompt", None);
        let (upstream, own) = self.whose_prompt(&request.name).ok_or_else(unknown)?;
        let arguments = json!({ "server": upstream.name(), "name": own, "arguments": request.arguments.unwrap_or_default() });
        let canonical = Canonical::of(arguments.clone())
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let asks = [Passed::Elicitation, Passed::Sampling, Passed::Roots];
        let asked = Asked {
            what: GET_PROMPT,
            arguments: canonical.digest(),
            is_asked: asks.iter().any(|asks| upstream.passes(*asks)),
        };
        let state = request.request_state.as_deref();
        let mut brought = self.brought(&asked, request.input_responses.as_ref(), state)?;
        for _ in 0..MOST_ROUNDS {
            let (engine, line) = self.line(context, brought, Arc::default());
            let call = engine.call(
                self.request(GET_PROMPT, canonical.clone()),
                self.patience(context),
                context.ct.clone(),
            );
            let (result, left) = line.beside(call).await;
            if let Some(lacks) = left.lacks {
                return Err(lacking(lacks));
            }
            let Some((questions, state)) = left.needs else {
                let result = finished(result)?;
                return Ok(GetPromptResponse::Complete(self.messages(&upstream, &result).await?));
            };
            if is_stateless(context) {
                return Ok(GetPromptResponse::InputRequired(self.questions(&asked, questions, state)?));
            }
            let said = answers(context, questions).await;
            brought = engine::upstream::Brought { answers: said, state };
        }
        Err(ErrorData::internal_error("the server asks and asks", None))
    }

    async fn messages(&self, upstream: &Upstream, result: &CallResult) -> Result<GetPromptResult, ErrorData> {
        let mut messages = Vec::new();
        for piece in pieces(result) {
            let text = |key: &str| piece.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let role = if text("role") == "assistant" { Role::Assistant } else { Role::User };
            let content = match text("type").as_str() {
                "image" | "audio" if upstream.passes(Passed::Media) => {
                    let block = self.block(result, &text("artifact")).await;
                    block.unwrap_or_else(|| ContentBlock::text("(left out: of a kind that is not passed on)"))
                }
                "resource" => {
                    let resource = piece.get("resource").unwrap_or(&Value::Null);
                    let uri = resource.get("uri").and_then(Value::as_str).unwrap_or_default();
                    ContentBlock::resource(self.content(uri, upstream, result, resource).await?)
                }
                "text" => ContentBlock::text(text("text")),
                kind => ContentBlock::text(format!("(left out: {kind})")),
            };
            messages.push(PromptMessage::new(role, content));
        }
        Ok(GetPromptResult::new(messages))
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is nothing of that name", None);
        let (argument, value) = (request.argument.name, request.argument.value);
        let arguments = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let (upstream, own) = self.whose_prompt(&prompt.name).ok_or_else(unknown)?;
                json!({ "server": upstream.name(), "prompt": own, "argument": argument, "value": value })
            }
            Reference::Resource(resource) => {
                let (upstream, own) = self.whose_template(&resource.uri).ok_or_else(unknown)?;
                json!({ "server": upstream.name(), "template": own, "argument": argument, "value": value })
            }
            _ => return Err(unknown()),
        };
        let result = self.fetch(COMPLETE, arguments, context).await?;
        let value = |piece: &Value| piece.get("value").and_then(Value::as_str).map(str::to_owned);
        let values = pieces(&result).iter().filter_map(value).take(CompletionInfo::MAX_VALUES).collect();
        let completion =
            CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    fn whose_template(&self, uri: &str) -> Option<(Arc<Upstream>, String)> {
        let servers = self.passing(Passed::Resources);
        servers.iter().find_map(|upstream| {
            let templates = upstream.offered().templates.clone().into_iter();
            let mut own = templates.map(|template| template.uri);
            let shared = upstream.shared_with(&servers);
            let own = own.find(|own| shown_address(upstream, own, &shared) == uri)?;
            Some((Arc::clone(upstream), own))
        })
    }

    fn request(&self, tool: &str, arguments: Canonical) -> Request {
        Request {
            agent: self.agent.clone(),
            task: None,
            tool: tool.to_owned(),
            arguments,
            key: None,
            purpose: None,
            proposer: self.proposer.clone(),
        }
    }

    /// Makes a call that reads, to its end.
    async fn fetch(
        &self,
        tool: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallResult, ErrorData> {
        let arguments =
            Canonical::of(arguments).map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let told: Arc<Mutex<Furthest>> = Arc::default();
        let (engine, line) = self.line(context, Default::default(), told);
        let call = engine.call(self.request(tool, arguments), self.patience(context), context.ct.clone());
        let (result, left) = line.beside(call).await;
        match left.lacks {
            Some(lacks) => Err(lacking(lacks)),
            None => finished(result),
        }
    }
}

/// A call that has come to a good end; else why not, for a client that reads.
fn finished(result: CallResult) -> Result<CallResult, ErrorData> {
    if result.status == CallStatus::Completed && !result.is_error {
        return Ok(result);
    }
    let code = result.reason.as_ref().map(|reason| reason.code);
    let data = json!({ "call_id": result.call_id, "status": result.status, "code": code });
    Err(ErrorData::invalid_request(result.content, Some(data)))
}

fn pieces(result: &CallResult) -> &[Value] {
    let pieces = result.structured.as_ref().and_then(|read| read.get("pieces")).and_then(Value::as_array);
    pieces.map(Vec::as_slice).unwrap_or_default()
}

/// An address as clients have it.
fn shown_address(upstream: &Upstream, own: &str, shared: &HashSet<String>) -> String {
    match upstream.settings().prefix == NamePrefix::Auto && !shared.contains(own) {
        true => own.to_owned(),
        // What stands for something in a template goes on doing so.
        false => {
            let encoded = encoded(own).replace("%7B", "{").replace("%7D", "}");
            format!("{SERVERS}{}/{encoded}", upstream.name())
        }
    }
}

/// All prompts, by their names as clients have them. What two would have is had by neither.
// ATTACK(prompt-of-another)
fn shown_prompts(servers: &[Arc<Upstream>]) -> Vec<(String, Arc<Upstream>, OfferedPrompt)> {
    let all: Vec<(&Arc<Upstream>, Arc<Offered>)> =
        servers.iter().map(|upstream| (upstream, upstream.offered())).collect();
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for prompt in all.iter().flat_map(|(_, offered)| &offered.prompts) {
        *owners.entry(&prompt.name).or_default() += 1;
    }
    let shown = |upstream: &Upstream, own: &str| {
        let is_only = owners.get(own) == Some(&1) && !looks_prefixed(own);
        match upstream.settings().prefix == NamePrefix::Auto && is_only {
            true => own.to_owned(),
            false => format!("mcp_{}_{own}", upstream.name()),
        }
    };
    let named = |(upstream, offered): &(&Arc<Upstream>, Arc<Offered>)| -> Vec<_> {
        let of =
            |prompt: &OfferedPrompt| (shown(upstream, &prompt.name), Arc::clone(upstream), prompt.clone());
        offered.prompts.iter().map(of).collect()
    };
    let mut named: Vec<(String, Arc<Upstream>, OfferedPrompt)> = all.iter().flat_map(named).collect();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (name, ..) in &named {
        *times.entry(name.clone()).or_default() += 1;
    }
    named.retain(|(name, ..)| times.get(name) == Some(&1));
    named
}

/// Whether a name would be taken for one of a certain server.
fn looks_prefixed(own: &str) -> bool {
    own.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("mcp_"))
}
