//! A yes that reaches further than one call, and which calls it reaches.
//!
//! # Invariants
//! - It covers calls of one agent, one tool as its contract was, one workspace and one policy, for a time.
//! - It covers no call that is asked about for a reason its approver did not see.
//! - Nothing that spends money or changes what guards is ever covered.

use contract::{AgentName, ApprovalId, Digest, OperatorName, Profile, Scope, TaskName};

use crate::facts::{Admitted, Facts};

/// A yes that was given for more than one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The question it answered first.
    pub approval: ApprovalId,
    /// How far it reaches.
    pub scope: Scope,
    /// Who said so.
    pub by: Vec<OperatorName>,
    /// For which agent.
    pub agent: AgentName,
    /// For which task it was asked.
    pub task: Option<TaskName>,
    /// Of which tool, as its contract was.
    pub contract: Digest,
    /// For which kind of action.
    pub action: String,
    /// For commands: in which profile.
    pub profile: Option<Profile>,
    /// With which arguments it was asked.
    pub arguments: Digest,
    /// What the files were that those arguments name; nothing if that could not be told.
    pub content: Option<Digest>,
    /// In which workspace: the digest of its path.
    pub place: Digest,
    /// Under which policy.
    pub policy: Digest,
    /// Why it was asked.
    pub why: Vec<String>,
    /// Until when it is good, in milliseconds since 1970.
    pub expires_at: i64,
}

impl Standing {
    /// Why it does not cover a call, if it does not.
    pub(crate) fn why_not(
        &self,
        call: &Admitted,
        facts: &Facts,
        policy: Digest,
        asks: &[String],
        quorum: usize,
    ) -> Option<&'static str> {
        let same_arguments = self.arguments == call.arguments;
        let place = Digest::of(facts.workspace.as_os_str().as_encoded_bytes());
        let checks = [
            (facts.now < self.expires_at, "it has expired"),
            (self.agent == call.agent, "it is another agent's"),
            // ATTACK(standing-for-money)
            (!call.facets.safety.is_grave(), "such calls are approved one by one"),
            (self.by.len() >= quorum, "more people must approve"),
            // ATTACK(standing-outlives-its-tool)
            (self.contract == call.tool.hash, "the tool has changed since"),
            // ATTACK(standing-outlives-its-policy)
            (self.policy == policy, "the policy has changed since"),
            (self.place == place, "it is for another workspace"),
            (self.action == call.facets.action.as_str(), "it is for another kind of action"),
            (self.profile == call.facets.profile, "it is for another profile"),
            (asks.iter().all(|ask| self.why.contains(ask)), "this is asked for another reason"),
            match self.scope {
                Scope::Once => (false, "it was for one call"),
                Scope::Task => (
                    same_arguments && self.task.is_some() && self.task == call.task,
                    "it is for another task or call",
                ),
                // ATTACK(standing-by-program): the same program with other arguments is another call.
                Scope::Agent => (same_arguments, "it is for other arguments"),
                Scope::Type => (true, ""),
            },
            // ATTACK(standing-outlives-its-files)
            (
                self.scope == Scope::Type || (self.content.is_some() && self.content == facts.content),
                "the files that it names have changed since",
            ),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, why)| why)
    }
}
