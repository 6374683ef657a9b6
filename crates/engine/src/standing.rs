//! A yes for more than one call: what can be offered, what covers a call, and how one is taken back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use contract::{Action, AgentName, ApprovalId, Digest, OperatorName, Reason, Scope};
use policy::{Admitted, Question, Ruling, Standing, Verdict, asks_to_exceed, decide};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{
    About, AnswerError, ApprovalRow, ApprovalState, FindError, NewApproval, NewEscalation, NewStanding,
    OperatorRow, Revocation, RevokeError, Seal,
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tools::InForce;

use crate::approve::{AnswerRefused, shown_call};
use crate::call::random_bytes;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::in_force::Snapshot;
use crate::operator::Credential;
use crate::request::Request;
use crate::seal::{Bound, NotInForce};

/// How long a call under an earlier yes waits for its workspace, and how often it tries.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// How many questions of one agent may wait at once.
const MOST_QUESTIONS: u64 = 20;

/// How far a yes is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// How far.
    pub scope: Scope,
    /// Until when, in milliseconds since 1970; nothing is as long as the configuration lets it.
    pub until: Option<i64>,
}

impl Reach {
    /// The very call that was asked about.
    pub const ONCE: Reach = Reach { scope: Scope::Once, until: None };
}

/// A scope that a question can be approved for, and what that would cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Offer {
    /// Which.
    pub scope: Scope,
    /// What it covers, in words.
    pub covers: String,
}

/// A yes for more than one call, as people see it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownStanding {
    /// The question that it answered first.
    #[serde(flatten)]
    pub approval: ApprovalRow,
    /// What it covers, in words.
    pub covers: String,
    /// The arguments that it was given to, with everything hidden made visible.
    pub shown_arguments: String,
    /// For commands: the words of the command.
    pub command: Option<Vec<String>>,
    /// Whether the policy has changed since, so that it covers nothing.
    pub other_policy: bool,
}

/// Why a yes was not taken back.
#[derive(Debug, Error)]
pub enum RevokeRefused {
    /// Whoever asks is no operator.
    #[error("only an operator can take a yes back, and this credential is nobody's")]
    NotAnOperator,
    /// The question is not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be taken back, or not by them.
    #[error(transparent)]
    Revoke(#[from] RevokeError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What was decided about a call that nobody was asked about yet.
pub(crate) struct Ruled {
    /// The decision.
    pub(crate) ruling: Ruling,
    /// The files that the call names, where an earlier yes may cover it.
    pub(crate) seal: Option<Seal>,
    /// The earlier answers that were looked at. It is these that are proved when the call begins, not what the store says
    /// by then.
    pub(crate) standing: Vec<ApprovalRow>,
    /// What the shadow would have said, where that is worth a word.
    pub(crate) shadow: Option<Value>,
}

impl Engine {
    /// Ends every yes for more than one call that was given under another policy where an agent works, before the first
    /// call there is decided by this one.
    ///
    /// ATTACK(policy-restored): for good. What had ended would else be good again as soon as the old policy is.
    pub(crate) async fn come_into_force(&self, agent: &AgentName) -> Result<(), EngineError> {
        self.end_standing_of_others(&self.snapshot(), place_of(self.workspace_of(agent))).await
    }

    /// The same for one place and one policy, if it was not done yet.
    pub(crate) async fn end_standing_of_others(
        &self,
        snapshot: &Snapshot,
        place: Digest,
    ) -> Result<(), EngineError> {
        let in_force = || snapshot.in_force_at.lock().unwrap_or_else(PoisonError::into_inner);
        if in_force().contains(&place) {
            return Ok(());
        }
        self.inner.store.end_standing_of_others(place, snapshot.policy.hash(), self.now()).await?;
        in_force().insert(place);
        Ok(())
    }

    /// Every yes for more than one call that is good now, newest first, also those that today's policy does not heed.
    pub async fn standing(&self) -> Result<Vec<ShownStanding>, EngineError> {
        let rows = self.inner.store.standing(None, self.now()).await?;
        Ok(rows.into_iter().map(|row| self.shown_standing(row)).collect())
    }

    fn shown_standing(&self, approval: ApprovalRow) -> ShownStanding {
        let scope = approval.standing.as_ref().map_or(Scope::Once, |standing| standing.scope);
        let covers = offer(&approval, scope).unwrap_or_default();
        let (shown_arguments, command) = shown_call(&approval);
        let other_policy = approval.policy != self.policy().hash();
        ShownStanding { approval, covers, shown_arguments, command, other_policy }
    }

    /// Takes a yes back. When this has returned, nothing begins with it any more, at any gate of this store.
    pub async fn revoke(
        &self,
        prefix: &str,
        reason: Option<String>,
        credential: &Credential,
    ) -> Result<ApprovalRow, RevokeRefused> {
        let operator = self.operator_of(credential).await?.ok_or(RevokeRefused::NotAnOperator)?;
        let row = self.inner.store.find_approval(prefix).await?;
        let revocation = Revocation { by: operator.name, reason, now: self.now() };
        let row = self.inner.store.revoke(&row.id, revocation).await?;
        if row.state == ApprovalState::Approved {
            self.settle_revoked(&row).await?;
        }
        Ok(row)
    }

    /// The operators who want a call, as far as that is known: whoever makes it, and for whom its agent works.
    pub(crate) fn proposers_of(&self, request: &Request) -> BTreeSet<OperatorName> {
        request.proposer.clone().into_iter().chain(self.works_for(&request.agent)).collect()
    }

    /// The same, of a call that was asked about. None of them answers.
    pub(crate) fn proposers_about(&self, row: &ApprovalRow) -> BTreeSet<OperatorName> {
        let known = row.about.as_ref().and_then(|about| about.proposer.as_ref());
        known.cloned().into_iter().chain(self.works_for(&row.agent)).collect()
    }

    /// The operator for whom an agent works.
    fn works_for(&self, agent: &AgentName) -> Option<OperatorName> {
        self.settings().agents.get(agent).and_then(|agent| agent.operator.clone())
    }

    /// Decides a call that nobody was asked about yet. An earlier yes is looked for only where people would be asked; with
    /// it comes a seal of the files that the call names, which is put in force when it runs.
    pub(crate) async fn rule(
        &self,
        request: &Request,
        call: &Admitted,
        operators: &[OperatorRow],
    ) -> Result<Ruled, EngineError> {
        let mut facts = self.facts(request, None, operators);
        self.tell_spent(call, &mut facts).await?;
        let policy = self.policy();
        let ruling = decide(call, &facts, &policy);
        // Before anybody's earlier yes: that was given under the policy in force.
        let shadow = self.shadow_of_ruled(request, &ruling, operators).await;
        if !matches!(ruling.verdict, Verdict::Ask(_)) {
            return Ok(Ruled { ruling, seal: None, standing: Vec::new(), shadow });
        }
        let standing = self.standing_for(call, request, facts.now).await?;
        facts.standing = standing.iter().cloned().filter_map(as_fact).collect();
        if facts.standing.is_empty() {
            return Ok(Ruled { ruling, seal: None, standing, shadow });
        }
        // What cannot be bound is covered by nothing, and the question says why.
        let Ok(seal) = self.bind(request).await else {
            return Ok(Ruled { ruling, seal: None, standing, shadow });
        };
        let operands = seal.as_ref().map(|seal| seal.operands.digest());
        facts.content = content_of(seal.as_ref());
        let call = Admitted { operands, ..call.clone() };
        Ok(Ruled { ruling: decide(&call, &facts, &policy), seal, standing, shadow })
    }

    /// Puts in force what was sealed for a call under an earlier yes, once nobody else works in its workspace.
    pub(crate) async fn wait_in_force(
        &self,
        seal: Option<Seal>,
        request: &Request,
        cancel: &CancellationToken,
    ) -> Result<Option<InForce>, Reason> {
        let Some(seal) = seal else { return Ok(None) };
        let until = tokio::time::Instant::now() + LONGEST_WAIT;
        loop {
            match self.put_in_force(Some(Bound::fresh(seal.clone())), request) {
                Ok(in_force) => return Ok(in_force),
                Err(NotInForce::Refused(reason)) => return Err(reason),
                Err(NotInForce::Busy) if cancel.is_cancelled() => {
                    return Err(Reason::cancelled("the caller went away"));
                }
                Err(NotInForce::Busy) if tokio::time::Instant::now() >= until => {
                    return Err(Reason::busy("others work in the workspace"));
                }
                Err(NotInForce::Busy) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
    }

    /// Earlier answers that may cover a call: those of its agent, for its tool.
    async fn standing_for(
        &self,
        call: &Admitted,
        request: &Request,
        now: i64,
    ) -> Result<Vec<ApprovalRow>, EngineError> {
        let rows = self.inner.store.standing(Some(&call.agent), now).await?;
        // ATTACK(two-proposers): nobody's earlier yes covers what they want themselves.
        let proposers = self.proposers_of(request);
        let covers = |row: &ApprovalRow| {
            row.tool == call.tool.name && !row.approvers.iter().any(|name| proposers.contains(name))
        };
        Ok(rows.into_iter().filter(covers).collect())
    }

    /// A question, with everything that it is about.
    pub(crate) async fn question(
        &self,
        call: &Admitted,
        request: &Request,
        question: Question,
    ) -> Result<Result<NewApproval, Reason>, EngineError> {
        let seal = match self.bind(request).await {
            Ok(seal) => seal,
            Err(reason) => return Ok(Err(reason)),
        };
        let workspace = self.workspace_of(&request.agent);
        // Whoever made it; for whom the agent works is known without a record.
        let proposer = request.proposer.clone().or_else(|| self.proposers_of(request).pop_first());
        let content = content_of(seal.as_ref());
        let place = place_of(workspace);
        let about = About {
            workspace: contract::show_hidden(&workspace.to_string_lossy()),
            place,
            action: call.facets.action.to_string(),
            safety: call.facets.safety,
            egress: call.facets.egress,
            profile: call.facets.profile,
            content,
            proposer,
        };
        let settings = self.settings();
        let steps = &settings.asking.escalation;
        Ok(Ok(NewApproval {
            id: ApprovalId::from_random(random_bytes()?),
            why: question.why,
            quorum: u32::try_from(question.quorum).unwrap_or(u32::MAX),
            expires_at: question.expires_at,
            about: Some(Box::new(about)),
            escalation: steps
                .iter()
                .map(|step| NewEscalation {
                    due_at: call.asked_at.saturating_add(step.after),
                    to: step.to.clone(),
                })
                .collect(),
            seal,
            most_open: MOST_QUESTIONS,
        }))
    }

    /// What a yes to a question would become, or why it cannot.
    pub(crate) fn standing_by(
        &self,
        row: &ApprovalRow,
        reach: Reach,
        now: i64,
    ) -> Result<Option<NewStanding>, AnswerRefused> {
        if reach.scope == Scope::Once {
            return match reach.until {
                None => Ok(None),
                Some(_) => Err(AnswerRefused::NoTime),
            };
        }
        if let Err(why) = offer(row, reach.scope) {
            return Err(AnswerError::OnceOnly { why }.into());
        }
        let longest = now.saturating_add(self.settings().asking.longest_standing);
        let expires_at = reach.until.unwrap_or(longest);
        if expires_at <= now || expires_at > longest {
            let minutes = self.settings().asking.longest_standing / 60_000;
            return Err(AnswerRefused::Until { minutes });
        }
        Ok(Some(NewStanding { scope: reach.scope, expires_at }))
    }
}

/// By which a workspace is known.
pub(crate) fn place_of(workspace: &Path) -> Digest {
    Digest::of(workspace.as_os_str().as_encoded_bytes())
}

/// The scopes that a question can be approved for.
pub(crate) fn offers(row: &ApprovalRow) -> Vec<Offer> {
    let offered = Scope::ALL.iter().filter_map(|scope| Some((*scope, offer(row, *scope).ok()?)));
    offered.map(|(scope, covers)| Offer { scope, covers }).collect()
}

/// What approving a question for a scope would cover, or why that cannot be.
fn offer(row: &ApprovalRow, scope: Scope) -> Result<String, &'static str> {
    if scope == Scope::Once {
        return Ok("this very call".to_owned());
    }
    let about = row.about.as_ref().ok_or("it was asked by an earlier version")?;
    if about.safety.is_grave() {
        return Err("it spends money, or can change what guards");
    }
    if row.quorum > 1 {
        return Err("it takes several people");
    }
    if row.why.iter().any(|why| asks_to_exceed(why)) {
        return Err("it exceeds a budget, as each call after it does anew");
    }
    let files = "; it ends when a file that it names changes";
    match (scope, &row.task) {
        (Scope::Once, _) => Ok("this very call".to_owned()),
        (Scope::Task | Scope::Agent, _) if about.content.is_none() => {
            Err("it names more files than can be bound")
        }
        (Scope::Task, None) => Err("it belongs to no task"),
        (Scope::Task, Some(task)) => Ok(format!("this very call again, for task `{task}`{files}")),
        (Scope::Agent, _) => Ok(format!("this very call again, by agent `{}`{files}", row.agent)),
        (Scope::Type, _) => Ok(format!(
            "every call of `{}` that is `{}`, by agent `{}`, whatever its arguments",
            row.tool, about.action, row.agent
        )),
    }
}

/// A yes on record, as a fact to decide by.
fn as_fact(row: ApprovalRow) -> Option<Standing> {
    let (about, standing) = (row.about?, row.standing?);
    Some(Standing {
        approval: row.id,
        scope: standing.scope,
        by: row.approvers,
        agent: row.agent,
        task: row.task,
        contract: row.contract,
        action: about.action,
        profile: about.profile,
        arguments: row.arguments,
        content: about.content,
        place: about.place,
        policy: row.policy,
        why: row.why,
        expires_at: standing.expires_at,
    })
}

/// One digest for the files that a call names, also where it names none.
///
/// Nothing if it names more than could be looked at: what nobody sees change must not stay approved.
fn content_of(seal: Option<&Seal>) -> Option<Digest> {
    match seal {
        None => Some(Digest::of(b"no files")),
        // ATTACK(standing-for-too-many-files)
        Some(seal) => (!seal.operands.unseen).then(|| seal.operands.digest()),
    }
}

/// An action, as it was asked about.
pub(crate) fn action_of(about: &About) -> Option<Action> {
    serde_json::from_value(json!(about.action)).ok()
}
