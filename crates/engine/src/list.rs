//! Calls as people look through them: which, when, what, and where each is.

use contract::{AgentName, CallId, CallStatus, Canonical, Found, TaskName, ToolName};
use serde::Serialize;
use store::{CallRow, Receipt};

use crate::approve::command_of;
use crate::engine::Engine;
use crate::error::EngineError;

/// The longest line that says what a call does, in characters.
const LONGEST: usize = 120;

/// What stands for what is gone.
const ERASED: &str = "(erased)";

/// One call in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedCall {
    /// Which call.
    pub call_id: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// Which tool.
    pub tool: ToolName,
    /// The command, the path, or the beginning of the arguments, with everything hidden made visible.
    pub what: String,
    /// Where it is.
    pub status: CallStatus,
    /// What people found out about it, if nobody knew at first.
    pub reconciled: Option<Found>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// When it was settled, in milliseconds since 1970.
    pub settled_at: Option<i64>,
    /// By which its receipt is found.
    pub receipt: Option<String>,
}

impl Engine {
    /// The latest calls, newest first.
    pub async fn latest(&self, limit: u32) -> Result<Vec<ListedCall>, EngineError> {
        let mut calls = Vec::new();
        for line in self.inner.store.calls(limit, None).await? {
            calls.extend(self.inner.store.call(&line.id).await?.map(listed));
        }
        Ok(calls)
    }

    /// The calls whose outcome nobody knows and nobody has found out yet, oldest first.
    pub async fn unresolved(&self, limit: u32) -> Result<Vec<ListedCall>, EngineError> {
        Ok(self.inner.store.unresolved(limit).await?.into_iter().map(listed).collect())
    }
}

pub(crate) fn listed(row: CallRow) -> ListedCall {
    ListedCall {
        what: if row.is_erased { ERASED.to_owned() } else { what(&row.arguments_json) },
        receipt: row.receipt_seq.map(|_| Receipt::id_of(&row.id)),
        call_id: row.id,
        agent: row.agent,
        task: row.task,
        tool: row.tool,
        status: row.status,
        reconciled: row.reconciled,
        asked_at: row.asked_at,
        settled_at: row.settled_at,
    }
}

fn what(arguments: &str) -> String {
    let value = Canonical::parse(arguments).map(Canonical::into_value).unwrap_or_default();
    let path = || value.get("path").and_then(|path| path.as_str()).map(str::to_owned);
    let said = command_of(&value).map(|words| words.join(" ")).or_else(path);
    let said = contract::show_hidden(said.as_deref().unwrap_or(arguments)).replace('\n', "␊");
    match said.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", said.get(..end).unwrap_or_default()),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_its_command_or_path_or_else_by_its_arguments_on_one_line() {
        assert_eq!(what(r#"{"args":["-la","a b"],"command":"ls"}"#), "ls -la a b");
        assert_eq!(what(r#"{"content":"x","path":"a/b"}"#), "a/b");
        assert_eq!(what(r#"{"amount":7}"#), r#"{"amount":7}"#);
        assert_eq!(what(r#"{"path":"a\nb"}"#), "a␊b");
        assert_eq!(what(&format!(r#"{{"path":"{}"}}"#, "é".repeat(200))).chars().count(), LONGEST + 1);
        assert!(!what("{\"path\":\"\u{202e}\"}").contains('\u{202e}'));
    }
}
