//! Statements that need not wait for each other's answers: kept back, and given to the database together.
//!
//! A statement costs a way to the database and back, and most of what a call writes is told and not asked; what it asks, it
//! mostly knows to ask from the beginning. It knows nothing of what the statements say.
//!
//! # Invariants
//! - They are executed in the order in which they were kept back; after one that fails, none.

use std::vec;

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, Execute, SqlStr};

use crate::error::StoreError;

/// Statements that are kept back.
#[derive(Default)]
pub(crate) struct Later {
    statements: Vec<(SqlStr, AnyArguments)>,
}

impl Later {
    /// Keeps one back.
    pub(crate) fn keep(&mut self, mut query: Query<'_, Any, AnyArguments>) -> Result<(), StoreError> {
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        self.statements.push((query.sql(), arguments.unwrap_or_default()));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Whether it is a single one, which sees one moment by itself.
    pub(crate) fn is_one(&self) -> bool {
        self.statements.len() == 1
    }

    /// Keeps others back, behind these.
    pub(crate) fn append(&mut self, mut others: Later) {
        self.statements.append(&mut others.statements);
    }

    /// Executes them all, and says what each was answered.
    pub(crate) async fn ask(self, connection: &mut AnyConnection) -> Result<Answers, StoreError> {
        let mut answers = Vec::with_capacity(self.statements.len());
        for (sql, arguments) in self.statements {
            answers.push(sqlx::query_with(sql, arguments).fetch_all(&mut *connection).await?);
        }
        Ok(Answers(answers.into_iter()))
    }

    /// Executes them all.
    pub(crate) async fn tell(self, connection: &mut AnyConnection) -> Result<(), StoreError> {
        for (sql, arguments) in self.statements {
            sqlx::query_with(sql, arguments).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// What statements were answered, to be taken in the order in which they were kept back.
pub(crate) struct Answers(vec::IntoIter<Vec<AnyRow>>);

impl Answers {
    /// The rows of the next one.
    pub(crate) fn rows(&mut self) -> Result<Vec<AnyRow>, StoreError> {
        self.0.next().ok_or(StoreError::Unreadable { what: "answer" })
    }

    /// The first row of the next one, if it has any.
    pub(crate) fn row(&mut self) -> Result<Option<AnyRow>, StoreError> {
        Ok(self.rows()?.into_iter().next())
    }
}
