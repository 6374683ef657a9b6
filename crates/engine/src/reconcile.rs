//! Takes a person's word on a call whose outcome nobody knows.

use contract::{CallResult, CallStatus, Found, Reason, ReceiptBody, Reconciled};
use store::{FindCallError, ReconcileError, Reconciliation};
use thiserror::Error;

use crate::engine::Engine;
use crate::error::{EngineError, written};
use crate::operator::Credential;
use crate::settle::{approved, without_effect};
use clean::{MAX_CONTENT, clean_text};

/// Why a person's word was not taken.
#[derive(Debug, Error)]
pub enum ReconcileRefused {
    /// Whoever says it is no operator.
    #[error("only an operator can reconcile, and this credential is nobody's")]
    NotAnOperator,
    /// The call is not there.
    #[error(transparent)]
    Find(#[from] FindCallError),
    /// There is nothing to find out, or not for them.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Records what an operator has found out about the call whose id begins with `prefix`. What it counts as now.
    pub async fn reconcile(
        &self,
        prefix: &str,
        found: Found,
        reason: Option<String>,
        credential: &Credential,
    ) -> Result<CallResult, ReconcileRefused> {
        let store = &self.inner.store;
        let operator = self.operator_of(credential).await?;
        let operator = operator.ok_or(ReconcileRefused::NotAnOperator)?;
        let id = store.find_call(prefix).await?;
        let row = store.call(&id).await.map_err(EngineError::from)?.ok_or(EngineError::Missing)?;
        let approval = self.approval_of(&row).await?;
        let operands = match &approval {
            Some(approval) => store.operands(&approval.id).await.map_err(EngineError::from)?,
            None => None,
        };
        let by = operator.name;
        let how = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let result = match found {
            Found::Happened => {
                let said = format!("it happened: `{by}` found out{how}\nWhat it gave is lost.");
                CallResult {
                    content: clean_text(&said, MAX_CONTENT).text,
                    is_error: false,
                    reason: None,
                    ..without_effect(&id, &row.tool, CallStatus::Completed, Reason::interrupted(""))
                }
            }
            Found::DidNot => {
                let why = Reason::interrupted(format!("it did not happen: `{by}` found out{how}"))
                    .with_hint("make the call again");
                without_effect(&id, &row.tool, CallStatus::Failed, why)
            }
        };
        let result = CallResult { receipt: Some(store::Receipt::id_of(&id)), ..result };
        let now = self.now();
        let body = ReceiptBody {
            version: 2,
            call_id: id.clone(),
            agent: row.agent,
            task: row.task,
            purpose: row.purpose,
            tool: row.tool,
            contract: row.contract,
            request: row.request,
            arguments: row.arguments,
            policy: row.policy,
            approval: approval.as_ref().and_then(approved),
            operands,
            status: result.status,
            reason: result.reason.clone(),
            run: None,
            // The first receipt says what it may have cost, and that stays counted.
            cost: None,
            asked_at: row.asked_at,
            settled_at: now,
            reconciled: Some(Reconciled { found, by, reason }),
        };
        let recorded = written("result", &result)?;
        store.reconcile(Reconciliation { call: id, body, result: recorded, now }).await?;
        Ok(result)
    }
}
