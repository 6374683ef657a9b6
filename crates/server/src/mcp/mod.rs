//! MCP inbound: an agent's client on the other end of a pipe.

mod disclosure;
mod lines;
mod tools;

use std::time::Duration;

use contract::{AgentName, CallId, CallResult, Canonical, Key, TaskName};
use engine::{Engine, Request};
use rmcp::ServiceExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam,
    RequestMetaObject, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use disclosure::{context_of, definitions, instructions};
use lines::Lines;
use tools::{CALL_STATUS, true_name};

/// How often a client that wants to know hears that a call still goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

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
    let server = Server { engine: engine.clone(), agent, patience };
    let ended = match server.serve(ends).await {
        Ok(running) => running.waiting().await.map(drop).map_err(McpError::Failed),
        Err(error) => Err(McpError::Greeting(Box::new(error))),
    };
    engine.close().await;
    lines.close().await;
    ended
}

struct Server {
    engine: Engine,
    agent: AgentName,
    patience: Duration,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolgate", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions(&self.engine, &self.agent, INSTRUCTIONS))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let task = named(&context.meta, "toolgate/task", TaskName::parse)?;
        Ok(ListToolsResult::with_all_items(definitions(&self.engine, &self.agent, task.as_ref())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let progress = Progress::of(&context);
        let loaded = self.engine.loaded_changes();
        let result = if request.name == CALL_STATUS {
            progress.beside(self.status(&arguments, context.ct.clone())).await?
        } else {
            let asked = self.understand(&request.name, arguments, &context.meta)?;
            if let Some(full) = context_of(&context.meta)? {
                self.engine.note_context(&self.agent, asked.task.as_ref(), full);
            }
            progress.beside(self.engine.call(asked, self.patience, context.ct.clone())).await
        };
        if loaded.has_changed().unwrap_or(false) {
            let _ = context.peer.notify_tool_list_changed().await;
        }
        Ok(CallToolResponse::Complete(told(&result)))
    }
}

impl Server {
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
            proposer: None,
        })
    }

    async fn status(
        &self,
        arguments: &JsonObject,
        cancel: CancellationToken,
    ) -> Result<CallResult, ErrorData> {
        let invalid = |why: String| ErrorData::invalid_params(why, None);
        let text = arguments.get("call_id").and_then(Value::as_str).unwrap_or_default();
        let id = CallId::parse(text).map_err(|error| invalid(error.to_string()))?;
        let found = self.engine.collect(&self.agent, &id, self.patience, cancel).await;
        match found {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(invalid(format!("there is no call `{id}` of this agent"))),
            Err(_) => Err(ErrorData::internal_error("the store cannot be read", None)),
        }
    }
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
fn told(result: &CallResult) -> CallToolResult {
    let content = vec![ContentBlock::text(result.content.clone())];
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

/// Tells the client that a call still goes on, if it asked to be told.
struct Progress {
    context: Option<(rmcp::service::Peer<RoleServer>, rmcp::model::ProgressToken)>,
}

impl Progress {
    fn of(context: &RequestContext<RoleServer>) -> Progress {
        Progress { context: context.meta.get_progress_token().map(|token| (context.peer.clone(), token)) }
    }

    async fn beside<T>(self, work: impl Future<Output = T>) -> T {
        let done = CancellationToken::new();
        let telling = async {
            let Some((peer, token)) = self.context else { return };
            let mut seconds = 0.0;
            while !done.is_cancelled() {
                tokio::select! {
                    () = done.cancelled() => return,
                    () = tokio::time::sleep(PROGRESS_EVERY) => {}
                }
                seconds += PROGRESS_EVERY.as_secs_f64();
                let mut told = ProgressNotificationParam::new(token.clone(), seconds);
                told.message = Some("the call still goes on".to_owned());
                let _ = peer.notify_progress(told).await;
            }
        };
        let work = async {
            let result = work.await;
            done.cancel();
            result
        };
        let (result, ()) = tokio::join!(work, telling);
        result
    }
}
