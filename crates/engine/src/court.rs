//! A policy with everything around it that a decision about a past call takes: tools, workspaces, people.
//!
//! It decides nothing; it says what there is to decide.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use contract::{AgentName, OperatorName, Reason, ToolStatus};
use policy::{Admitted, Facts, PastCall, Policy, unspent};
use store::{OperatorRow, PastRow, Role};

use crate::call::admit;
use crate::catalogue::{Catalogue, Listed, SetByOperators};
use crate::engine::Engine;
use crate::past::{Candidate, PastError};
use crate::request::Request;

/// A policy, and what is around it.
pub(crate) struct Court {
    pub(crate) policy: Arc<Policy>,
    pub(crate) catalogue: Arc<Catalogue>,
    workspace: PathBuf,
    workspaces: BTreeMap<AgentName, PathBuf>,
    /// Those who may approve.
    approvers: BTreeSet<OperatorName>,
    /// What is true of this gate at any time.
    facts: Facts,
}

impl Court {
    /// The policy in force.
    pub(crate) fn in_force(engine: &Engine, operators: &[OperatorRow]) -> Court {
        Court {
            policy: Arc::clone(&engine.snapshot().policy),
            catalogue: engine.catalogue(),
            workspace: engine.inner.workspace.clone(),
            workspaces: engine.inner.workspaces.clone(),
            approvers: approvers(operators),
            facts: engine.facts_of_gate(),
        }
    }

    /// A candidate, at the same gate and with the same people.
    pub(crate) fn of(
        candidate: Candidate,
        engine: &Engine,
        operators: &[OperatorRow],
    ) -> Result<Court, PastError> {
        let Candidate { settings, workspaces, timeouts, tools } = candidate;
        let present = engine.catalogue();
        let listed = tools.into_iter().map(|tool| {
            // What operators have set in the registry is no part of a configuration, and stays.
            let known = present.find(tool.contract().name().as_str()).map(|known| &known.facts);
            let set = SetByOperators {
                status: known.map_or(ToolStatus::Active, |known| known.status),
                requires_approval: known.is_some_and(|known| known.requires_approval),
            };
            Listed::of(tool, set, &timeouts)
        });
        let catalogue = Arc::new(Catalogue::new(listed.collect())?.with_imports_of(&present));
        let facts = Facts { ask_for: settings.ask_for, ..engine.facts_of_gate() };
        Ok(Court {
            policy: Arc::new(Policy::of(settings).map_err(PastError::Settings)?),
            catalogue,
            workspace: engine.inner.workspace.clone(),
            workspaces,
            approvers: approvers(operators),
            facts,
        })
    }

    /// A past call, as it was asked for.
    pub(crate) fn request(row: PastRow) -> Request {
        Request {
            agent: row.agent,
            task: row.task,
            tool: row.tool.as_str().to_owned(),
            arguments: row.arguments,
            key: None,
            purpose: None,
            proposer: None,
        }
    }

    /// What there is to decide of a past call, with the time of its asking and the people of today.
    pub(crate) fn hear(&self, call: &PastCall, request: &Request) -> Result<(Admitted, Facts), Reason> {
        let settings = self.policy.settings();
        let admitted = admit(&self.catalogue, settings, call.call.clone(), request, call.asked_at)?;
        let works_for = settings.agents.get(&call.agent).and_then(|agent| agent.operator.as_ref());
        let operators = self.approvers.iter().filter(|name| Some(*name) != works_for).count();
        let workspace = self.workspaces.get(&call.agent).unwrap_or(&self.workspace).clone();
        let facts = Facts { now: call.asked_at, workspace, operators, ..self.facts.clone() };
        // What was spent then is not asked for: budgets are no part of it.
        let tallies = unspent(&admitted, &facts, &self.policy);
        Ok((admitted, Facts { tallies, ..facts }))
    }
}

fn approvers(operators: &[OperatorRow]) -> BTreeSet<OperatorName> {
    let may = operators.iter().filter(|operator| operator.role >= Role::Approver);
    may.map(|operator| operator.name.clone()).collect()
}
