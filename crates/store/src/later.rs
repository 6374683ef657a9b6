//! Statements that need not wait for each other's answers: kept back, and given to the database together.
//!
//! A statement costs a way to the database and back, and most of what a call writes is told and not asked; what it asks, it
//! mostly knows to ask from the beginning. It knows nothing of what the statements say.
//!
//! # Invariants
//! - They are executed in the order in which they were kept back; after one that fails, none.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::vec;

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Either, Execute, Executor, SqlStr};

use crate::error::StoreError;
use crate::place::Database;

/// More statements than this are not often the same ones again, and are not kept prepared.
const MOST_PREPARED: usize = 32;

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

    /// Keeps others back, behind these.
    pub(crate) fn append(&mut self, mut others: Later) {
        self.statements.append(&mut others.statements);
    }

    /// Executes them all, and says what each was answered.
    pub(crate) async fn ask(
        self,
        connection: &mut AnyConnection,
        database: Database,
    ) -> Result<Answers, StoreError> {
        let mut answers = Vec::with_capacity(self.statements.len());
        match database {
            Database::Sqlite => {
                let mut answering = connection.fetch_many(self.joined_query());
                let mut rows = Vec::new();
                while let Some(part) = poll_fn(|context| answering.as_mut().poll_next(context)).await {
                    match part? {
                        Either::Right(row) => rows.push(row),
                        Either::Left(_) => answers.push(std::mem::take(&mut rows)),
                    }
                }
            }
            Database::Postgres => {
                for (sql, arguments) in self.statements {
                    answers.push(sqlx::query_with(sql, arguments).fetch_all(&mut *connection).await?);
                }
            }
        }
        Ok(Answers(answers.into_iter()))
    }

    /// Executes them all.
    pub(crate) async fn tell(
        self,
        connection: &mut AnyConnection,
        database: Database,
    ) -> Result<(), StoreError> {
        match database {
            Database::Sqlite => {
                self.joined_query().execute(connection).await?;
            }
            // A prepared statement is one statement there.
            Database::Postgres => {
                for (sql, arguments) in self.statements {
                    sqlx::query_with(sql, arguments).execute(&mut *connection).await?;
                }
            }
        }
        Ok(())
    }

    fn joined_query(self) -> Query<'static, Any, AnyArguments> {
        let is_usual = self.statements.len() <= MOST_PREPARED;
        let (sql, arguments) = self.joined();
        sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(is_usual)
    }

    /// One text, whose statements have their arguments one behind the other. The same statements make the same text, which
    /// is prepared once.
    fn joined(self) -> (String, AnyArguments) {
        let mut text = String::new();
        let mut all = AnyArguments::default();
        for (sql, mut arguments) in self.statements {
            renumber(sql.as_str(), all.values.0.len(), &mut text);
            text.push_str(";\n");
            all.values.0.append(&mut arguments.values.0);
        }
        (text, all)
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

/// Writes a statement with its parameters counted from later on. The statements are constants: a `$` with a number is the
/// mark of a parameter, wherever it stands.
fn renumber(sql: &str, from: usize, text: &mut String) {
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|mark: char| !mark.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        // Nothing can go wrong when text is written to text.
        let _ = match number.parse::<usize>() {
            Ok(number) => write!(text, "${}{rest}", from + number),
            Err(_) => write!(text, "${part}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_joined_with_their_arguments_one_behind_the_other() {
        let mut later = Later::default();
        later.keep(sqlx::query("INSERT INTO a VALUES ($1, $2)").bind("x").bind(7_i64)).unwrap();
        later.keep(sqlx::query("DELETE FROM b")).unwrap();
        later
            .keep(sqlx::query("UPDATE c SET d = $2 WHERE e = $1 AND f <> $1").bind("y").bind(8_i64))
            .unwrap();
        let (text, arguments) = later.joined();
        let expected =
            "INSERT INTO a VALUES ($1, $2);\nDELETE FROM b;\nUPDATE c SET d = $4 WHERE e = $3 AND f <> $3;\n";
        assert_eq!(text, expected);
        assert_eq!(arguments.values.0.len(), 4);
    }
}
