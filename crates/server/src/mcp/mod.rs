//! MCP inbound: an agent's client on the other end of a pipe, or of HTTP.
#![expect(
    deprecated,
    reason = "logging is on its way out, and clients of every revision before that have it"
)]

mod changes;
mod disclosure;
mod door;
mod elicit;
#[cfg(feature = "fixtures")]
mod fixtures;
mod logging;
mod media;
mod message;
mod progress;
mod resources;
mod stdio;
mod tasks;
mod tools;
mod upstream_content;
mod upstream_line;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contract::{AgentName, CallId, CallResult, Canonical, Key, OperatorName, TaskName, chain};
use engine::{CALL_STATUS, Engine, Request};
use rmcp::ServiceExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, ContentBlock, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, RequestMetaObject, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use thiserror::Error;

use crate::http::Gate;

use changes::{Followed, Following};
use disclosure::{context_of, definitions, instructions};
pub(crate) use door::{Door, Visitor};
use elicit::{CallEnd, ClientBrought};
use engine::upstream::Passed;
use logging::Log;
use progress::Progress;
use stdio::Lines;
use tools::{shown_tool, true_name};
use upstream_line::{Asked, MOST_ROUNDS, answers, is_stateless, lacking};

/// How long a call that waits blocks at most over HTTP, where clients give up after a while.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

const INSTRUCTIONS: &str = "\
Toolgate runs your tool calls behind walls and asks people about the risky ones. A call that waits for approval \
returns `waiting` after a while: make the same call again to join it, or use `call_status` with its call_id. \
A refused call says why; another way to the same effect will be refused too. Paths are relative to the workspace.";

/// Why the server stopped.
#[derive(Debug, Error)]
pub enum McpError {
    /// The client did not introduce itself as MCP clients do.
    #[error("the MCP client could not be greeted")]
    Greeting(#[source] Box<rmcp::service::ServerInitializeError>),
    /// The server's own task failed.
    #[error("the MCP server failed")]
    Failed(#[source] tokio::task::JoinError),
}

/// Serves one client on standard input and output until it hangs up, and ends what still runs for it then.
///
/// A call that waits for people blocks for `patience` before its client is told so.
pub async fn serve_stdio(engine: Engine, agent: AgentName, patience: Duration) -> Result<(), McpError> {
    let (lines, ends) = Lines::of_stdio();
    let server = Server { patience: Some(patience), ..Server::new(engine.clone(), agent, Way::Stdio) };
    let ended = match served(server).serve(ends).await {
        Ok(running) => running.waiting().await.map(drop).map_err(McpError::Failed),
        Err(error) => Err(McpError::Greeting(Box::new(error))),
    };
    engine.close().await;
    lines.close().await;
    ended
}

/// What is served.
#[cfg(not(feature = "fixtures"))]
type Served = Server;
#[cfg(not(feature = "fixtures"))]
fn served(server: Server) -> Served {
    server
}

#[cfg(feature = "fixtures")]
use fixtures::{Fixtures as Served, served};

/// By which way a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Stdio,
    Http,
}

struct Server {
    engine: Engine,
    agent: AgentName,
    /// The operator who asks for the agent, if it is one.
    proposer: Option<OperatorName>,
    way: Way,
    /// How long a call that waits for people blocks; as it is configured, unless whoever started us says otherwise.
    patience: Option<Duration>,
    log: Arc<Log>,
    /// What its client follows.
    followed: Followed,
}

impl ServerHandler for Server {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        match self.way {
            Way::Stdio => Cow::Borrowed(known),
            // Over HTTP the oldest one has a transport of its own, which is not here.
            Way::Http => {
                known.iter().filter(|known| **known != ProtocolVersion::V_2024_11_05).cloned().collect()
            }
        }
    }

    fn get_info(&self) -> ServerConfig {
        let able = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_tasks();
        let mut able = able.build();
        let (resources, prompts) = (self.has_passed(Passed::Resources), self.has_passed(Passed::Prompts));
        if let Some(of) = able.resources.as_mut().filter(|_| resources) {
            of.subscribe = Some(true);
        }
        if prompts {
            able.prompts =
                ServerCapabilities::builder().enable_prompts().enable_prompts_list_changed().build().prompts;
        }
        if resources || prompts {
            able.completions = ServerCapabilities::builder().enable_completions().build().completions;
        }
        ServerConfig::new(able)
            .with_server_info(Implementation::new("toolgate", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions(&self.engine, &self.agent, INSTRUCTIONS))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let task = named(&context.meta, "toolgate/task", TaskName::parse)?;
        let shown = definitions(&self.engine, &self.agent, task.as_ref());
        let mut listed = ListToolsResult::with_all_items(shown);
        // Another agent sees other tools, and this one may see others by the next time.
        (listed.ttl_ms, listed.cache_scope) = (Some(0), Some(CacheScope::Private));
        Ok(listed)
    }

    /// For the headers that repeat arguments: whether they do.
    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        let contracts = self.engine.tools_for(&self.agent);
        contracts.iter().map(shown_tool).find(|tool| tool.name == name)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(self.resources())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(self.resource_templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match Box::pin(self.read_of_others(&request.uri, &context)).await {
            Some(read) => read,
            None => self.read(&request.uri).await,
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Box::pin(self.subscribe_to(&request.uri, Following::Begins, &context)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Box::pin(self.subscribe_to(&request.uri, Following::Ends, &context)).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.has_passed(Passed::Prompts) {
            true => Ok(self.prompts()),
            false => Err(ErrorData::method_not_found::<rmcp::model::ListPromptsRequestMethod>()),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self.has_passed(Passed::Prompts) {
            true => Box::pin(self.prompt(request, &context)).await,
            false => Err(ErrorData::method_not_found::<rmcp::model::GetPromptRequestMethod>()),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        match self.has_passed(Passed::Prompts) || self.has_passed(Passed::Resources) {
            true => Box::pin(self.completion(request, &context)).await,
            false => Err(ErrorData::method_not_found::<rmcp::model::CompleteRequestMethod>()),
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.follow(context.peer);
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(self.told_of(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.tell_listener(&context).await;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.look_at_task(&request.task_id).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.end_task(&request.task_id).await
    }

    async fn update_task(
        &self,
        _request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(ErrorData::invalid_params("nothing was asked in a task", None))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.log.set(request.level);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = arguments.unwrap_or_default();
        let progress = Progress::of(&context);
        let loaded = self.engine.loaded_changes();
        let mut task = None;
        let result = if name == CALL_STATUS {
            progress.beside(Box::pin(self.status(&arguments, &context))).await?
        } else {
            let asked = self.understand(&name, arguments, &context.meta)?;
            task.clone_from(&asked.task);
            if let Some(full) = context_of(&context.meta)? {
                self.engine.note_context(&self.agent, asked.task.as_ref(), full);
            }
            let brought = ClientBrought { answers: input_responses, state: request_state };
            let told = progress.told();
            let calling = self.call_in_rounds(asked, brought, &context, told);
            match progress.beside(Box::pin(calling)).await? {
                CallEnd::Result(result) => *result,
                CallEnd::Ask(question) => return Ok(CallToolResponse::InputRequired(question)),
            }
        };
        self.log.tell(&result, &context).await;
        if loaded.has_changed().unwrap_or(false) && (self.tools_are_news() || task.is_some()) {
            let _ = context.peer.notify_tool_list_changed().await;
        }
        if tasks::goes_on(&result)
            && tasks::are_followed(&context)
            && let Some(task) = self.as_task(&result).await?
        {
            return Ok(CallToolResponse::Task(task));
        }
        let mut told = told(&result, context.protocol_version());
        told.content.extend(Box::pin(self.blocks(&self.engine, &result)).await);
        Ok(CallToolResponse::Complete(told))
    }
}

impl Server {
    fn new(engine: Engine, agent: AgentName, way: Way) -> Server {
        let engine = engine.in_session();
        let (log, followed) = (Arc::default(), Followed::default());
        Server { engine, agent, proposer: None, way, patience: None, log, followed }
    }

    /// Another one for the same client.
    fn like(&self) -> Server {
        Server {
            engine: self.engine.clone(),
            agent: self.agent.clone(),
            proposer: self.proposer.clone(),
            way: self.way,
            patience: self.patience,
            log: Arc::clone(&self.log),
            followed: Followed::default(),
        }
    }

    /// Takes a call to its answer. What a server of others asks first is answered by a client that can be asked now, and
    /// else put to it as the answer.
    async fn call_in_rounds(
        &self,
        request: Request,
        brought: ClientBrought,
        context: &RequestContext<RoleServer>,
        told: Arc<Mutex<progress::Furthest>>,
    ) -> Result<CallEnd, ErrorData> {
        let tool = request.tool.clone();
        let asked = Asked::of(self, &tool, &request.arguments);
        let mut for_server = self.brought(&asked, brought.answers.as_ref(), brought.state.as_deref())?;
        for _ in 0..MOST_ROUNDS {
            let (engine, line) = self.line(context, for_server, Arc::clone(&told));
            let calling = self.call(&engine, request.clone(), brought.clone(), context);
            let (called, left) = line.beside(calling).await;
            if let Some(lacks) = left.lacks.filter(|_| is_stateless(context)) {
                return Err(lacking(lacks));
            }
            let Some((questions, state)) = left.needs else { return called };
            if is_stateless(context) {
                return Ok(CallEnd::Ask(self.questions(&asked, questions, state)?));
            }
            let said = Box::pin(answers(context, questions)).await;
            for_server = engine::upstream::Brought { answers: said, state };
        }
        Err(ErrorData::internal_error("the server asks and asks", None))
    }

    /// The same for a client behind which there is an operator.
    fn proposed_by(self, proposer: Option<OperatorName>) -> Server {
        Server { proposer, ..self }
    }

    fn patience(&self, context: &RequestContext<RoleServer>) -> Duration {
        let patience = self.patience.unwrap_or_else(|| Gate::patience(&self.engine).min(LONGEST_WAIT));
        if tasks::are_followed(context) { patience.min(tasks::AS_A_TASK_AFTER) } else { patience }
    }

    fn understand(
        &self,
        name: &str,
        arguments: JsonObject,
        meta: &RequestMetaObject,
    ) -> Result<Request, ErrorData> {
        let tool = true_name(name, &self.engine.tools_for(&self.agent));
        let invalid = |why: String| ErrorData::invalid_params(why, None);
        let arguments =
            Canonical::of(Value::Object(arguments)).map_err(|error| invalid(error.to_string()))?;
        let purpose = Request::purpose_of(None, &arguments);
        Ok(Request {
            agent: self.agent.clone(),
            task: named(meta, "toolgate/task", TaskName::parse)?,
            tool,
            arguments,
            key: named(meta, "toolgate/key", Key::parse)?,
            purpose,
            proposer: self.proposer.clone(),
        })
    }

    async fn status(
        &self,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallResult, ErrorData> {
        let invalid = |why: String| ErrorData::invalid_params(why, None);
        let text = arguments.get("call_id").and_then(Value::as_str).unwrap_or_default();
        let id = CallId::parse(text).map_err(|error| invalid(error.to_string()))?;
        let patience = self.patience(context);
        let found = self.engine.collect(&self.agent, &id, patience, context.ct.clone()).await;
        match found {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(invalid(format!("there is no call `{id}` of this agent"))),
            Err(error) => Err(no_store(error)),
        }
    }
}

/// What a client is told where the store failed. Why is for operators.
fn no_store(error: impl std::error::Error + 'static) -> ErrorData {
    tracing::error!(error = chain(&error), "a client was not answered: the store failed");
    ErrorData::internal_error("the store cannot be read", None)
}

/// A name in the request's metadata, if there is one.
fn named<T, E: std::fmt::Display>(
    meta: &RequestMetaObject,
    key: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, ErrorData> {
    let invalid = |why: String| ErrorData::invalid_params(why, None);
    match meta.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => parse(text).map(Some).map_err(|error| invalid(error.to_string())),
        Some(_) => Err(invalid(format!("`{key}` is not a text"))),
    }
}

/// A result in MCP's terms. Structured content has the same shape whatever happened, so that it fits its schema.
fn told(result: &CallResult, to: Option<ProtocolVersion>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(result.content.clone())];
    if to.is_some_and(|version| version >= ProtocolVersion::V_2025_06_18) {
        content.extend(resources::links(result));
    }
    let mut told =
        if result.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    told.structured_content = Some(json!({
        "call_id": result.call_id,
        "status": result.status,
        "result": result.structured,
        "artifacts": result.artifacts,
        "reason": result.reason,
        "approval": result.approval,
        "receipt": result.receipt,
    }));
    let mut meta = JsonObject::new();
    meta.insert("toolgate/tool".to_owned(), Value::String(result.tool.to_string()));
    // For whoever watches the client, not for its model.
    if let Some(cleaning) = &result.cleaning {
        meta.insert("toolgate/cleaning".to_owned(), json!(cleaning));
    }
    told.meta = Some(MetaObject(meta));
    told
}
