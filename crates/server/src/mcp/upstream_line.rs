//! The line between a client and the server of somebody else that is at work for one of its calls.
//!
//! What such a server says on the way is told; what it asks is asked, where somebody has said that it may and the client
//! says that it can. Revisions with sessions are asked while the call is under way. The newest answers the call with the
//! questions, and the client makes the call again with the answers: those are for that call, its arguments and its agent.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{Canonical, Digest};
use engine::Engine;
use engine::upstream::{Able, Brought, Caller, Passed, Said};
use rmcp::model::{
    ClientCapabilities, CreateMessageRequestParams, ElicitRequestParams, ErrorData, InputRequest,
    InputRequiredResult, InputResponses, LoggingMessageNotificationParam, ProgressNotificationParam,
    SealOptions,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::Server;
use super::elicit::codec;
use super::logging::{level_of, named};
use super::progress::Furthest;

/// As often as a server's questions are answered in one request.
pub(super) const MOST_ROUNDS: usize = 8;
/// For how long answers are taken.
const ASKED_FOR: Duration = Duration::from_secs(60 * 60);
/// The longest that a client may bring along, in bytes.
const MOST_BROUGHT: usize = 256 << 10;
/// What the state of a server begins with; those of our own questions do not.
const OF_A_SERVER: &str = "server:";

/// What a server has left open.
#[derive(Default)]
pub(super) struct Left {
    /// What has to be answered first, and what it wants to be told again.
    pub(super) needs: Option<(Map<String, Value>, Option<String>)>,
    /// What the client would have to be able to.
    pub(super) lacks: Option<Value>,
}

/// One call, and what is heard of it.
pub(super) struct Line<'a> {
    server: &'a Server,
    context: &'a RequestContext<RoleServer>,
    heard: mpsc::Receiver<Said>,
    told: Arc<Mutex<Furthest>>,
}

impl Server {
    /// A line for a call, and the engine that makes it.
    pub(super) fn line<'a>(
        &'a self,
        context: &'a RequestContext<RoleServer>,
        brought: Brought,
        told: Arc<Mutex<Furthest>>,
    ) -> (Engine, Line<'a>) {
        let (caller, heard) = Caller::new(able(context), brought, named(self.log.wanted(context)));
        (self.engine.with_caller(caller), Line { server: self, context, heard, told })
    }

    /// What a client brings along for the server that a tool or prompt comes from.
    // A state that was given for another call, or that somebody has touched, is none.
    pub(super) fn brought(
        &self,
        asked: &Asked<'_>,
        answers: Option<&InputResponses>,
        state: Option<&str>,
    ) -> Result<Brought, ErrorData> {
        let is_long = |answers: &InputResponses| {
            serde_json::to_string(answers).map_or(0, |text| text.len()) > MOST_BROUGHT
        };
        if answers.is_some_and(is_long) {
            return Err(ErrorData::invalid_params("the answers are too long", None));
        }
        let answers = answers.map(|answers| answers.clone().into_iter().collect());
        let Some(state) = state else { return Ok(Brought { answers, state: None }) };
        let opened = codec().and_then(|codec| codec.open_with(state, &asked.associated(self)).ok());
        let text = opened.and_then(|bytes| String::from_utf8(bytes).ok());
        match text.as_deref().and_then(|text| text.strip_prefix(OF_A_SERVER)) {
            Some(own) => {
                let state = serde_json::from_str(own).unwrap_or_default();
                Ok(Brought { answers, state })
            }
            None if asked.is_asked => {
                Err(ErrorData::invalid_params("the state is not the one that was given for this call", None))
            }
            // One of our own questions.
            None => Ok(Brought::default()),
        }
    }

    /// The questions of a server, for a client that makes the call again with the answers.
    pub(super) fn questions(
        &self,
        asked: &Asked<'_>,
        questions: Map<String, Value>,
        state: Option<String>,
    ) -> Result<InputRequiredResult, ErrorData> {
        let none = || ErrorData::internal_error("the questions of the server cannot be passed on", None);
        let mut read: BTreeMap<String, InputRequest> = BTreeMap::new();
        for (name, question) in questions {
            read.insert(name, serde_json::from_value(question).map_err(|_| none())?);
        }
        let associated = asked.associated(self);
        let sealing = SealOptions::new().associated_data(&associated).ttl(ASKED_FOR);
        let payload = format!("{OF_A_SERVER}{}", serde_json::json!(state));
        let state = codec().ok_or_else(none)?.seal_with(payload.as_bytes(), &sealing);
        Ok(InputRequiredResult::new(Some(read), Some(state)))
    }
}

/// What is asked of a server of others: answers are for this and nothing else.
pub(super) struct Asked<'a> {
    pub(super) what: &'a str,
    pub(super) arguments: Digest,
    /// Whether the server may ask something first.
    pub(super) is_asked: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of(server: &Server, tool: &'a str, arguments: &Canonical) -> Asked<'a> {
        let asks = [Passed::Elicitation, Passed::Sampling, Passed::Roots];
        let upstream = server.engine.upstream_of(tool);
        let is_asked = upstream.is_some_and(|upstream| asks.iter().any(|asks| upstream.passes(*asks)));
        Asked { what: tool, arguments: arguments.digest(), is_asked }
    }

    fn associated(&self, server: &Server) -> Vec<u8> {
        format!("{}\n{}\n{}", server.agent, self.what, self.arguments).into_bytes()
    }
}

/// Whether a client makes the call again instead of being asked meanwhile.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

fn able(context: &RequestContext<RoleServer>) -> Able {
    let able = context.client_capabilities().unwrap_or_default();
    Able {
        elicitation: able.elicitation.is_some_and(|able| able.form.is_some() || able.url.is_none()),
        sampling: able.sampling.is_some(),
        roots: able.roots.is_some(),
    }
}

/// What a client lacks, in the protocol's words.
pub(super) fn lacking(lacks: Value) -> ErrorData {
    let needed: ClientCapabilities = serde_json::from_value(lacks).unwrap_or_default();
    ErrorData::missing_required_client_capability(needed)
}

impl Line<'_> {
    /// Hears what is said while the work is done.
    pub(super) async fn beside<T>(mut self, work: impl Future<Output = T>) -> (T, Left) {
        let mut left = Left::default();
        let mut work = Box::pin(work);
        let mut waiting: VecDeque<(String, Value, oneshot::Sender<Value>)> = VecDeque::new();
        // Asked here and not by another task: the SDK has to know for which request it is asked.
        let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        let mut is_open = true;
        loop {
            if asking.is_none()
                && let Some((method, params, answer)) = waiting.pop_front()
            {
                asking = Some(Box::pin(ask(self.context.peer.clone(), method, params, answer)));
            }
            tokio::select! {
                biased;
                said = self.heard.recv(), if is_open => match said {
                    Some(Said::Ask { method, params, answer }) if !is_stateless(self.context) => {
                        waiting.push_back((method, params, answer));
                    }
                    Some(said) => self.hear(said, &mut left).await,
                    None => is_open = false,
                },
                () = async { match asking.as_mut() { Some(asking) => asking.await, None => std::future::pending().await } } => {
                    asking = None;
                }
                done = &mut work => {
                    while let Ok(said) = self.heard.try_recv() {
                        self.hear(said, &mut left).await;
                    }
                    return (done, left);
                }
            }
        }
    }

    async fn hear(&self, said: Said, left: &mut Left) {
        match said {
            Said::Progress { progress, total, message } => {
                let is_more = {
                    let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.by_the_server(progress)
                };
                let Some(token) = self.context.meta.get_progress_token().filter(|_| is_more) else { return };
                let mut told = ProgressNotificationParam::new(token, progress);
                (told.total, told.message) = (total, message);
                let _ = self.context.peer.notify_progress(told).await;
            }
            Said::Log { level, data } => {
                let level = level_of(&level);
                if self.server.log.wants(level, self.context) {
                    let told =
                        LoggingMessageNotificationParam::new(level, data).with_logger("toolgate/server");
                    let _ = self.context.peer.notify_logging_message(told).await;
                }
            }
            // Whoever asks is told that there is no answer.
            Said::Ask { .. } => {}
            Said::Needs { questions, state } => left.needs = Some((questions, state)),
            Said::Lacks(lacks) => left.lacks = Some(lacks),
        }
    }
}

/// Answers to the questions of a server, from a client that is asked now. Nothing if one is not answered.
pub(super) async fn answers(
    context: &RequestContext<RoleServer>,
    questions: Map<String, Value>,
) -> Option<BTreeMap<String, Value>> {
    let mut answers = BTreeMap::new();
    for (name, mut question) in questions {
        let method = question.get("method")?.as_str()?.to_owned();
        let params = question.get_mut("params").map(Value::take).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        ask(context.peer.clone(), method, params, answer).await;
        answers.insert(name, answered.await.ok()?);
    }
    Some(answers)
}

/// Asks a client, and passes on what it says. What cannot be asked is not answered.
async fn ask(peer: Peer<RoleServer>, method: String, params: Value, answer: oneshot::Sender<Value>) {
    let said = match method.as_str() {
        "elicitation/create" => match read::<ElicitRequestParams>(params) {
            Some(params) => written(peer.create_elicitation(params).await),
            None => None,
        },
        "sampling/createMessage" => match read::<CreateMessageRequestParams>(params) {
            Some(params) => written(peer.create_message(params).await),
            None => None,
        },
        "roots/list" => written(peer.list_roots().await),
        _ => None,
    };
    if let Some(said) = said {
        let _ = answer.send(said);
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}

fn written<T: Serialize, E>(said: Result<T, E>) -> Option<Value> {
    serde_json::to_value(said.ok()?).ok()
}
