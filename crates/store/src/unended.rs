//! Calls without an end, and what their ends need to know of them: those that this process has begun are remembered.
//!
//! # Invariants
//! - What is remembered is used where the database says that the call runs as it was left (`settle`); else its row says what
//!   has become of it (decision 0010).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::CallId;

use crate::calls::CallRow;
use crate::wrapping::Secrets;

/// More than are under way at once. Past it all are forgotten; those that still run are read from their rows when they end.
const MOST_REMEMBERED: usize = 4096;

/// A call without an end, and what its end needs to know of it.
pub(crate) struct Unended {
    /// Its row; the trace is empty where it is remembered.
    pub(crate) call: CallRow,
    pub(crate) secrets: Secrets,
}

/// Those that were begun here.
#[derive(Default)]
pub(crate) struct RememberedCalls(Mutex<HashMap<CallId, Unended>>);

impl RememberedCalls {
    pub(crate) fn remember(&self, unended: Unended) {
        let mut all = self.lock();
        if all.len() >= MOST_REMEMBERED {
            all.clear();
        }
        all.insert(unended.call.id.clone(), unended);
    }

    pub(crate) fn take(&self, call: &CallId) -> Option<Unended> {
        self.lock().remove(call)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, Unended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RememberedCalls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RememberedCalls(..)")
    }
}

#[cfg(test)]
mod tests {
    use contract::{AgentName, Digest, SafetyClass, TaskName, ToolName};
    use serde_json::{Value, json};

    use super::*;
    use crate::calls::{BY_ID, Course, NewCall, call_row};
    use crate::keys::Keys;
    use crate::open::Store;

    #[tokio::test]
    async fn what_is_remembered_of_a_call_is_what_its_row_says() {
        let home = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", home.path().join("store.db").display());
        let store = Store::open(&url, Keys::load_or_create(home.path()).unwrap()).await.unwrap();
        let id = CallId::from_random([7; 16]);
        let call = NewCall {
            id: id.clone(),
            agent: AgentName::parse("builder").unwrap(),
            task: Some(TaskName::parse("task").unwrap()),
            tool: ToolName::parse("fs.read").unwrap(),
            contract: Digest::of(b"contract"),
            request: Digest::of(b"request"),
            arguments: Digest::of(b"{}"),
            arguments_json: "{}".to_owned(),
            policy: Digest::of(b"policy"),
            purpose: Some("to test".to_owned()),
            trace: json!([{ "layer": "level" }]),
            safety: SafetyClass::Read,
            asked_at: 1,
            claim: Some("key".to_owned()),
            course: Course::Run { authority: json!({}) },
        };
        store.record_call(call).await.unwrap();
        let remembered = store.remembered_calls.take(&id).unwrap().call;
        let asking = sqlx::query(BY_ID).bind(id.as_str());
        let row = call_row(&asking.fetch_one(&mut *store.read().await.unwrap()).await.unwrap()).unwrap();
        assert_eq!(remembered, CallRow { trace: Value::Null, ..row });
    }
}
