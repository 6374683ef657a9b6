//! Asks the agent's own client about a call that waits, where the configuration says who sits there.
//!
//! Revisions with sessions ask while the call is under way. The newest answers the call with the question, and the
//! client makes the call again with the answer.
//!
//! # Invariants
//! - What is not plainly a yes or a no is neither; the call goes on waiting for people elsewhere.
//! - An answer counts for the question that this client was asked, and for no other.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use contract::{ApprovalId, CallId, CallResult, CallStatus, quoted, show_hidden};
use engine::{Engine, Request, Waiting};
use rmcp::model::{
    BooleanSchema, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequiredResult, InputResponses, PrimitiveSchemaDefinition,
    RequestStateCodec, SealOptions,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use store::Vote;

use super::{Server, no_store};

/// Under which name the newest revision has the question and its answer.
const QUESTION: &str = "approval";
/// The one thing that is asked.
const APPROVE: &str = "approve";
/// The longest question, in bytes: nobody reads more in a dialogue, and nobody says yes to what they do not read.
const MOST_SHOWN: usize = 4000;
/// For how long an answer is taken.
const ASKED_FOR: Duration = Duration::from_secs(60 * 60);

/// What became of a call.
pub(super) enum CallEnd {
    Result(Box<CallResult>),
    /// The client is asked first.
    Ask(InputRequiredResult),
}

/// What a client brings along that makes a call again.
#[derive(Clone, Default)]
pub(super) struct ClientBrought {
    pub(super) answers: Option<InputResponses>,
    pub(super) state: Option<String>,
}

impl Server {
    /// Takes a call to its answer, or to the question that its client is asked.
    pub(super) async fn call(
        &self,
        engine: &Engine,
        request: Request,
        brought: ClientBrought,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallEnd, ErrorData> {
        let result = |result| Ok(CallEnd::Result(Box::new(result)));
        if !self.engine.asks_client_of(&self.agent) || !can_be_asked(context) {
            return result(engine.call(request, self.patience(context), context.ct.clone()).await);
        }
        let called = engine.call(request, Duration::ZERO, context.ct.clone()).await;
        if called.status != CallStatus::Waiting {
            return result(called);
        }
        let call = called.call_id.clone();
        let question = self.engine.question_for_client(&self.agent, &call).await.map_err(no_store)?;
        let Some((id, form)) = question.and_then(form_of) else {
            return result(self.wait_for(engine, &call, context).await?.unwrap_or(called));
        };
        let asks_inline = context.protocol_version().is_some_and(|version| !version.has_initialize());
        if asks_inline {
            let Some(vote) = self.brought_vote(&id, &brought) else { return self.ask_first(&id, form) };
            self.take(&id, vote).await;
            return result(self.wait_for(engine, &call, context).await?.unwrap_or(called));
        }
        let asked = context.peer.create_elicitation_with_timeout(form, Some(self.patience(context)));
        tokio::select! {
            // Somebody else has answered, or nobody for so long.
            waited = self.wait_for(engine, &call, context) => result(waited?.unwrap_or(called)),
            said = asked => {
                if let Some(vote) = said.ok().as_ref().and_then(vote_of) {
                    self.take(&id, vote).await;
                }
                result(self.wait_for(engine, &call, context).await?.unwrap_or(called))
            }
        }
    }

    async fn wait_for(
        &self,
        engine: &Engine,
        call: &CallId,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallResult>, ErrorData> {
        engine.collect(&self.agent, call, self.patience(context), context.ct.clone()).await.map_err(no_store)
    }

    async fn take(&self, id: &ApprovalId, vote: Vote) {
        // What is not taken changes nothing: the call waits for those whose answers are.
        let _ = self.engine.answer_from_client(&self.agent, id, vote).await;
    }

    fn ask_first(&self, id: &ApprovalId, form: ElicitRequestParams) -> Result<CallEnd, ErrorData> {
        let codec =
            codec().ok_or_else(|| ErrorData::internal_error("the system gives no random bytes", None))?;
        let sealing = SealOptions::new().associated_data(self.agent.as_str().as_bytes()).ttl(ASKED_FOR);
        let state = codec.seal_with(id.as_str().as_bytes(), &sealing);
        let question = InputRequest::Elicitation(ElicitRequest::new(form));
        let questions = BTreeMap::from([(QUESTION.to_owned(), question)]);
        Ok(CallEnd::Ask(InputRequiredResult::new(Some(questions), Some(state))))
    }

    /// The answer to this question, if the client was asked it and brings one.
    // ATTACK(answer-to-another-question), ATTACK(state-of-another)
    fn brought_vote(&self, id: &ApprovalId, brought: &ClientBrought) -> Option<Vote> {
        let asked = codec()?.open_with(brought.state.as_deref()?, self.agent.as_str().as_bytes()).ok()?;
        let answer = brought.answers.as_ref()?.get(QUESTION)?;
        let answer: ElicitResult = serde_json::from_value(answer.clone()).ok()?;
        if asked == id.as_str().as_bytes() { vote_of(&answer) } else { None }
    }
}

/// Whether the client can show a form.
fn can_be_asked(context: &RequestContext<RoleServer>) -> bool {
    let able = context.client_capabilities().and_then(|able| able.elicitation);
    // Older revisions have forms alone, and do not say so.
    able.is_some_and(|able| able.form.is_some() || able.url.is_none())
}

/// The question, if all that it is about can be shown.
fn form_of(asked: Waiting) -> Option<(ApprovalId, ElicitRequestParams)> {
    // ATTACK(forged-form): what an argument says begins no line of ours.
    let on_one_line = |text: &str| show_hidden(text).replace('\n', "␊").replace('\r', "␍");
    let words =
        asked.command.map(|words| format!("\n  {}", on_one_line(&quoted(&words)))).unwrap_or_default();
    let message = format!(
        "Toolgate: agent `{}` wants to call `{}`{words}\narguments: {}\nasked because {}",
        asked.approval.agent,
        asked.approval.tool,
        asked.shown_arguments,
        on_one_line(&asked.approval.why.join("; "))
    );
    if message.len() > MOST_SHOWN {
        return None;
    }
    let yes =
        BooleanSchema::new().title("Approve").description("Run this call, once, exactly as it is shown");
    let properties = BTreeMap::from([(APPROVE.to_owned(), PrimitiveSchemaDefinition::Boolean(yes))]);
    let mut requested_schema = ElicitationSchema::new(properties);
    requested_schema.required = Some(vec![APPROVE.to_owned()]);
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    Some((asked.approval.id, form))
}

/// What a person has said. Nothing if they have not decided, or if it is not what they were asked.
// ATTACK(answer-that-is-none)
fn vote_of(said: &ElicitResult) -> Option<Vote> {
    match said.action {
        ElicitationAction::Decline => Some(Vote::Reject),
        ElicitationAction::Accept => {
            let answer = said.content.as_ref()?.as_object().filter(|answer| answer.len() == 1)?;
            match answer.get(APPROVE)? {
                Value::Bool(true) => Some(Vote::Approve),
                Value::Bool(false) => Some(Vote::Reject),
                _ => None,
            }
        }
        // They have put it off; so has whoever says what nobody knows yet.
        _ => None,
    }
}

/// Seals which question was asked. The key is this process's own: after a restart it is asked again.
pub(super) fn codec() -> Option<&'static RequestStateCodec> {
    static CODEC: OnceLock<Option<RequestStateCodec>> = OnceLock::new();
    let made = CODEC.get_or_init(|| {
        let mut key = vec![0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).ok()?;
        RequestStateCodec::try_new(key).ok()
    });
    made.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let said = |answer: Value| vote_of(&serde_json::from_value(answer).unwrap());
        assert_eq!(said(json!({ "action": "accept", "content": { "approve": true } })), Some(Vote::Approve));
        assert_eq!(said(json!({ "action": "accept", "content": { "approve": false } })), Some(Vote::Reject));
        assert_eq!(said(json!({ "action": "decline" })), Some(Vote::Reject));
        assert_eq!(said(json!({ "action": "decline", "content": { "approve": true } })), Some(Vote::Reject));
        for none in [
            json!({ "action": "cancel", "content": { "approve": true } }),
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": {} }),
            json!({ "action": "accept", "content": { "approve": "true" } }),
            json!({ "action": "accept", "content": { "approve": 1 } }),
            json!({ "action": "accept", "content": { "Approve": true } }),
            json!({ "action": "accept", "content": { "approve": true, "scope": "agent" } }),
            json!({ "action": "accept", "content": [true] }),
        ] {
            assert_eq!(said(none.clone()), None, "{none}");
        }
    }
}
