//! What is looked at before a call is decided, in one trip to the database.

use std::sync::Arc;

use contract::{AgentName, Digest, TaskName, ToolName};
use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use crate::calls::{CallRow, WAITING};
use crate::error::StoreError;
use crate::later::Later;
use crate::ledger::{LAST, last_of};
use crate::open::Store;
use crate::operators::OperatorRow;
use crate::private::revealed_call;
use crate::questions::ANYTHING_DUE;
use crate::stances::Stances;

/// By what a call is known to be the same as another.
#[derive(Clone, Copy, Debug)]
pub struct Sameness<'a> {
    /// Who asked.
    pub agent: &'a AgentName,
    /// For which task.
    pub task: Option<&'a TaskName>,
    /// Which tool.
    pub tool: &'a ToolName,
    /// The digest of the canonical request.
    pub request: Digest,
}

/// What there is when a call comes in.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// Whether a question is late, or a step is due.
    pub is_anything_due: bool,
    /// The same call, if it waits for people or for someone to run it: one that an equal call can join.
    pub waiting: Option<CallRow>,
    /// Everybody who is an operator, by name.
    pub operators: Vec<OperatorRow>,
    /// What operators have said of tools.
    pub stances: Arc<Stances>,
}

impl Store {
    /// What there is when a call comes in: what [`Store::is_anything_due`], [`Store::find_waiting`] and
    /// [`Store::operators`] would say, one after the other.
    pub async fn outlook(&self, call: Sameness<'_>, now: i64) -> Result<Outlook, StoreError> {
        let mut questions = Later::default();
        questions.keep(sqlx::query(ANYTHING_DUE).bind(now))?;
        questions.keep(self.same_that_waits(call, now))?;
        questions.keep(sqlx::query(LAST))?;
        let before = self.remembered();
        let mut answers = self.look(questions).await?;
        let is_anything_due = answers.row()?.is_some();
        let waiting = answers.row()?.as_ref().map(|row| revealed_call(row, self.keys())).transpose()?;
        let last = last_of(answers.row()?)?;
        let roster = match self.roster_as_remembered(before.clone(), last) {
            Some(roster) => roster,
            None => self.roster().await?,
        };
        let stances = match self.stances_as_remembered(before, last) {
            Some(stances) => stances,
            None => self.stances().await?,
        };
        Ok(Outlook { is_anything_due, waiting, operators: roster.present(), stances })
    }

    /// The same call, if it waits for people or for someone to run it: one that an equal call can join.
    pub async fn find_waiting(
        &self,
        agent: &AgentName,
        task: Option<&TaskName>,
        tool: &ToolName,
        request: Digest,
        now: i64,
    ) -> Result<Option<CallRow>, StoreError> {
        let call = Sameness { agent, task, tool, request };
        let row = self.same_that_waits(call, now).fetch_optional(&mut *self.read().await?).await?;
        row.as_ref().map(|row| revealed_call(row, self.keys())).transpose()
    }

    fn same_that_waits<'a>(&self, call: Sameness<'a>, now: i64) -> Query<'a, Any, AnyArguments> {
        sqlx::query(WAITING)
            .bind(self.keys().wrapping().lookup("request", call.request.as_bytes()))
            .bind(call.agent.as_str())
            .bind(call.task.map(TaskName::as_str))
            .bind(call.tool.as_str())
            .bind(now)
    }
}
