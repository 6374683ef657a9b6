//! Calls as tasks, for clients of the newest revision that follow them so.
//!
//! A task is a call: its id is the call's, it is in the store as long as the call is, and following it is what
//! `call_status` does.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use contract::{CallId, CallResult, CallStatus};
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, ProtocolVersion, Task, TaskPayload, TaskStatus,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use store::CallRow;
use tokio_util::sync::CancellationToken;

use super::{Server, no_store, told};

/// After how long a call that is not over is answered as a task.
pub(super) const AS_A_TASK_AFTER: Duration = Duration::from_secs(1);
/// How long a look at a task takes at most: one that was approved begins with it, and goes on without it.
const LOOK: Duration = Duration::from_secs(1);
/// How often clients should look.
const LOOK_EVERY_MS: u64 = 2000;

/// Whether the client follows tasks.
pub(super) fn are_followed(context: &RequestContext<RoleServer>) -> bool {
    let is_new = context.protocol_version().is_some_and(|version| !version.has_initialize());
    is_new && context.client_capabilities().is_some_and(|able| able.supports_tasks())
}

/// Whether a call is not over.
pub(super) fn goes_on(result: &CallResult) -> bool {
    matches!(result.status, CallStatus::Planned | CallStatus::Running | CallStatus::Waiting)
}

impl Server {
    /// A call that is not over, as a task. Nothing if the store does not have it.
    pub(super) async fn as_task(&self, result: &CallResult) -> Result<Option<CreateTaskResult>, ErrorData> {
        let row = self.own_call(&result.call_id).await?;
        Ok(row.map(|row| CreateTaskResult::new(task_of(&row, Some(result)))))
    }

    /// How a task stands. One that people have said yes to begins.
    pub(super) async fn look_at_task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let row = self.own_task(id).await?;
        // Not ended when the client stops waiting for this answer: the call is the task's, not the request's.
        let looking = self.engine.collect(&self.agent, &row.id, Duration::ZERO, CancellationToken::new());
        let result = match tokio::time::timeout(LOOK, Box::pin(looking)).await {
            Ok(found) => found.map_err(no_store)?,
            Err(_) => None,
        };
        let payload = match &result {
            None => TaskPayload::Working,
            Some(result) if goes_on(result) => TaskPayload::Working,
            Some(result) if result.status == CallStatus::Cancelled => TaskPayload::Cancelled,
            Some(result) => {
                let told = serde_json::to_value(told(result, Some(ProtocolVersion::V_2026_07_28)));
                match told {
                    Ok(Value::Object(result)) => TaskPayload::Completed { result },
                    _ => return Err(ErrorData::internal_error("the result cannot be written", None)),
                }
            }
        };
        // It may have ended by now.
        let row = self.own_task(id).await?;
        Ok(GetTaskResult::new(DetailedTask::new(task_of(&row, result.as_ref()), payload)))
    }

    /// Ends a task that runs here. One that waits ends when people deny it, or with its time.
    pub(super) async fn end_task(&self, id: &str) -> Result<(), ErrorData> {
        let row = self.own_task(id).await?;
        self.engine.cancel(&row.id);
        Ok(())
    }

    // ATTACK(task-of-another): one of another agent is as unknown as one that never was.
    async fn own_task(&self, id: &str) -> Result<CallRow, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such task of this agent", None);
        let id = CallId::parse(id).map_err(|_| unknown())?;
        self.own_call(&id).await?.ok_or_else(unknown)
    }

    async fn own_call(&self, id: &CallId) -> Result<Option<CallRow>, ErrorData> {
        let row = self.engine.store().call(id).await.map_err(no_store)?;
        Ok(row.filter(|row| row.agent == self.agent))
    }
}

fn task_of(row: &CallRow, result: Option<&CallResult>) -> Task {
    let changed = row.settled_at.unwrap_or(row.asked_at);
    let task = Task::new(row.id.as_str(), TaskStatus::Working, written(row.asked_at), written(changed));
    let task = task.with_poll_interval_ms(LOOK_EVERY_MS);
    match result {
        Some(result) if goes_on(result) => task.with_status_message(result.content.clone()),
        _ => task,
    }
}

fn written(time: i64) -> String {
    let time = DateTime::from_timestamp_millis(time).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_protocol_has_them() {
        assert_eq!(written(1_790_000_000_123), "2026-09-21T14:13:20.123Z");
    }
}
