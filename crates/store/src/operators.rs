//! The people who decide.

use contract::{Digest, OperatorName};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::Row;
use sqlx::any::AnyRow;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;
use crate::read::{digest, parsed};

const ADD: &str = "INSERT INTO operators (name, role, credential, added_at) VALUES ($1, $2, $3, $4)";
const TAKEN: &str = "SELECT name, credential FROM operators WHERE name = $1 OR credential = $2";
const ALL: &str = "SELECT name, role, credential, added_at FROM operators ORDER BY name";
const BY_CREDENTIAL: &str = "SELECT name, role, credential, added_at FROM operators WHERE credential = $1";

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// And answer questions.
    Approver,
    /// And change who may do what.
    Admin,
}

impl Role {
    /// The name used on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Approver => "approver",
            Role::Admin => "admin",
        }
    }

    /// Reads the name used on the wire and in the store.
    pub fn parse(text: &str) -> Option<Role> {
        [Role::Viewer, Role::Approver, Role::Admin].into_iter().find(|role| role.as_str() == text)
    }
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRow {
    /// Who.
    pub name: OperatorName,
    /// What they may do.
    pub role: Role,
    /// The hash of what they sign in with.
    pub credential: Digest,
    /// Since when, in milliseconds since 1970.
    pub added_at: i64,
}

/// Why an operator was not added.
#[derive(Debug, Error)]
pub enum AddOperatorError {
    /// There is one of that name.
    #[error("there is an operator `{name}` already")]
    NameTaken {
        /// Which name.
        name: OperatorName,
    },
    /// Somebody has that credential.
    #[error("the credential belongs to somebody else")]
    CredentialTaken,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Adds an operator. Of the credential only its hash is known here.
    pub async fn add_operator(
        &self,
        name: &OperatorName,
        role: Role,
        credential_hash: Digest,
        now: i64,
    ) -> Result<(), AddOperatorError> {
        let mut write = self.write().await?;
        let credential = credential_hash.to_string();
        let taken = sqlx::query(TAKEN).bind(name.as_str()).bind(&credential);
        let taken = taken.fetch_optional(write.connection()).await.map_err(StoreError::from)?;
        if let Some(row) = taken {
            let taken: &str = row.try_get("name").map_err(StoreError::from)?;
            return Err(if taken == name.as_str() {
                AddOperatorError::NameTaken { name: name.clone() }
            } else {
                AddOperatorError::CredentialTaken
            });
        }
        let add = sqlx::query(ADD).bind(name.as_str()).bind(role.as_str()).bind(credential).bind(now);
        add.execute(write.connection()).await.map_err(StoreError::from)?;
        write.append(now, "operator.added", json!({ "operator": name, "role": role })).await?;
        Ok(write.commit().await?)
    }

    /// All operators, by name.
    pub async fn operators(&self) -> Result<Vec<OperatorRow>, StoreError> {
        let rows = sqlx::query(ALL).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(operator).collect()
    }

    /// Whose credential has this hash.
    pub async fn operator_by_credential(&self, hash: &Digest) -> Result<Option<OperatorRow>, StoreError> {
        let query = sqlx::query(BY_CREDENTIAL).bind(hash.to_string());
        query.fetch_optional(&mut *self.read().await?).await?.as_ref().map(operator).transpose()
    }
}

fn operator(row: &AnyRow) -> Result<OperatorRow, StoreError> {
    Ok(OperatorRow {
        name: parsed(row, "name", |text| OperatorName::parse(text).ok())?,
        role: parsed(row, "role", Role::parse)?,
        credential: digest(row, "credential")?,
        added_at: row.try_get("added_at")?,
    })
}
