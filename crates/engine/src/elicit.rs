//! Answers that come by the client of the agent that asked.
//!
//! An agent's client is the agent's: what it says of a person it may have made up. So none is asked unless the
//! configuration names the operator who sits there, none about what is financial or privileged, and the receipt says
//! which way the answer came.

use contract::{AgentName, ApprovalId, CallId, OperatorName, SafetyClass};
use store::{ApprovalRow, ApprovalState, Vote};

use crate::approve::{AnswerRefused, Reply, Waiting};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::standing::Reach;

/// How it is recorded that an answer came so.
const VIA: &str = "elicitation";

impl Engine {
    /// Whether the client of this agent is ever asked.
    pub fn asks_client_of(&self, agent: &AgentName) -> bool {
        self.at_client_of(agent).is_some()
    }

    /// The question that a call waits for, if the client of its agent may be asked it.
    pub async fn question_for_client(
        &self,
        agent: &AgentName,
        call: &CallId,
    ) -> Result<Option<Waiting>, EngineError> {
        let asked = self.question_of(call).await?;
        Ok(asked.filter(|asked| self.may_answer_in_client(agent, asked)))
    }

    /// Takes what the client of an agent says that its operator has answered.
    pub async fn answer_from_client(
        &self,
        agent: &AgentName,
        id: &ApprovalId,
        vote: Vote,
    ) -> Result<ApprovalRow, AnswerRefused> {
        let row = self.store().find_approval(id.as_str()).await?;
        // Once more, now: the configuration may be another than when it was asked.
        let asked = self.question_for_client(agent, &row.call).await?;
        let by = self.at_client_of(agent).filter(|_| asked.is_some_and(|asked| asked.approval.id == *id));
        // ATTACK(client-answers-unasked)
        let by = by.ok_or(AnswerRefused::NotInClient)?;
        self.take_answer(row, Reply { vote, reason: None, reach: Reach::ONCE }, by, VIA).await
    }

    fn at_client_of(&self, agent: &AgentName) -> Option<OperatorName> {
        self.settings().agents.get(agent).and_then(|agent| agent.elicitation.clone())
    }

    fn may_answer_in_client(&self, agent: &AgentName, asked: &Waiting) -> bool {
        let Some(by) = self.at_client_of(agent) else { return false };
        // ATTACK(client-answers-privileged): what is not known to be less counts as that.
        let is_grave = asked.safety.is_none_or(SafetyClass::is_grave);
        !is_grave
            && asked.approval.agent == *agent
            && asked.approval.state == ApprovalState::Pending
            && asked.approval.arguments_json.is_some()
            && !asked.proposers.contains(&by)
    }
}
