//! The people who decide.
//!
//! # Invariants
//! - Somebody is an operator if the signed ledger tells so, with the credential and the role that it tells. The table
//!   is for the database's own rules: a row of which no entry tells makes nobody an operator.

use contract::{Digest, OperatorName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::Row;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;
use crate::write::Write;

const ADD: &str = "INSERT INTO operators (name, role, credential, added_at) VALUES ($1, $2, $3, $4)";
const TAKEN: &str = "SELECT name, credential FROM operators WHERE name = $1 OR credential = $2";
const REMOVE: &str = "UPDATE operators SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL";
const FORGET_PASSWORD: &str = "DELETE FROM operator_passwords WHERE operator = $1";
const FORGET_PASSKEYS: &str = "DELETE FROM passkey_uses WHERE operator = $1";
const ROTATE: &str = "UPDATE operators SET credential = $2 WHERE name = $1 AND revoked_at IS NULL";

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
    /// Since when not any more, in milliseconds since 1970.
    pub revoked_at: Option<i64>,
}

/// Who changes who may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By<'a> {
    /// Whoever owns this gate: at the first start, and to get back in when a credential is lost.
    Owner,
    /// An operator.
    Operator(&'a OperatorName),
}

/// Why an operator was not added.
#[derive(Debug, Error)]
pub enum AddOperatorError {
    /// There is one of that name, or was.
    #[error("there is an operator `{name}` already, or there was: names are not given twice")]
    NameTaken {
        /// Which name.
        name: OperatorName,
    },
    /// Only an admin adds people.
    #[error("`{by}` is not an admin")]
    NotAdmin {
        /// Who tried.
        by: OperatorName,
    },
    /// Somebody has that credential.
    #[error("the credential belongs to somebody else")]
    CredentialTaken,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operator was not changed.
#[derive(Debug, Error)]
pub enum ChangeOperatorError {
    /// There is none.
    #[error("there is no operator `{name}`")]
    Unknown {
        /// Which name.
        name: OperatorName,
    },
    /// Only an admin does that.
    #[error("`{by}` is not an admin")]
    NotAdmin {
        /// Who tried.
        by: OperatorName,
    },
    /// Then nobody could add or remove people.
    #[error("`{name}` is the last admin: add another first")]
    LastAdmin {
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
    /// Adds an operator for the owner of this gate. Of the credential only its hash is known here.
    pub async fn add_operator(
        &self,
        name: &OperatorName,
        role: Role,
        credential_hash: Digest,
        now: i64,
    ) -> Result<(), AddOperatorError> {
        self.appoint(name, role, credential_hash, By::Owner, now).await
    }

    /// Adds an operator.
    pub async fn appoint(
        &self,
        name: &OperatorName,
        role: Role,
        credential_hash: Digest,
        by: By<'_>,
        now: i64,
    ) -> Result<(), AddOperatorError> {
        let mut write = self.write().await?;
        if let By::Operator(by) = by
            && write.roster().await?.role_of(by) != Some(Role::Admin)
        {
            return Err(AddOperatorError::NotAdmin { by: by.clone() });
        }
        let credential = credential_hash.to_string();
        // Told, also where the row is gone.
        let roster = write.roster().await?;
        if roster.named(name).is_some() {
            return Err(AddOperatorError::NameTaken { name: name.clone() });
        }
        if roster.all().any(|other| other.credential == credential_hash) {
            return Err(AddOperatorError::CredentialTaken);
        }
        let taken = sqlx::query(TAKEN).bind(name.as_str()).bind(&credential);
        let taken = taken.fetch_optional(write.connection().await?).await.map_err(StoreError::from)?;
        if let Some(row) = taken {
            let taken: &str = row.try_get("name").map_err(StoreError::from)?;
            return Err(if taken == name.as_str() {
                AddOperatorError::NameTaken { name: name.clone() }
            } else {
                AddOperatorError::CredentialTaken
            });
        }
        let add = sqlx::query(ADD).bind(name.as_str()).bind(role.as_str()).bind(credential).bind(now);
        add.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let body = json!({ "operator": name, "role": role, "credential": credential_hash, "by": by.name() });
        write.append(now, "operator.added", body).await?;
        Ok(write.commit().await?)
    }

    /// Takes an operator's authority. When this has returned, nothing they say counts, and no yes of theirs is used.
    pub async fn remove_operator(
        &self,
        name: &OperatorName,
        by: By<'_>,
        now: i64,
    ) -> Result<(), ChangeOperatorError> {
        let mut write = self.write().await?;
        let role = self.check_change(&mut write, name, by).await?;
        let roster = write.roster().await?;
        let admins =
            roster.all().filter(|operator| roster.role_of(&operator.name) == Some(Role::Admin)).count();
        if role == Role::Admin && admins <= 1 {
            return Err(ChangeOperatorError::LastAdmin { name: name.clone() });
        }
        let remove = sqlx::query(REMOVE).bind(name.as_str()).bind(now);
        remove.execute(write.connection().await?).await.map_err(StoreError::from)?;
        write.append(now, "operator.removed", json!({ "operator": name, "by": by.name() })).await?;
        Ok(write.commit().await?)
    }

    /// Gives an operator another credential. When this has returned, the old one is nobody's, and so are the password and
    /// the passkeys that they had.
    pub async fn rotate_operator(
        &self,
        name: &OperatorName,
        credential_hash: Digest,
        by: By<'_>,
        now: i64,
    ) -> Result<(), ChangeOperatorError> {
        let mut write = self.write().await?;
        // Everybody may change their own.
        let own = by == By::Operator(name);
        self.check_change(&mut write, name, if own { By::Owner } else { by }).await?;
        let credential = credential_hash.to_string();
        let taken =
            sqlx::query(TAKEN).bind("").bind(&credential).fetch_optional(write.connection().await?).await;
        let told = write.roster().await?;
        let told = told.all().any(|other| other.credential == credential_hash);
        if told || taken.map_err(StoreError::from)?.is_some() {
            return Err(ChangeOperatorError::CredentialTaken);
        }
        let rotate = sqlx::query(ROTATE).bind(name.as_str()).bind(credential);
        rotate.execute(write.connection().await?).await.map_err(StoreError::from)?;
        for forget in [FORGET_PASSWORD, FORGET_PASSKEYS] {
            let forget = sqlx::query(forget).bind(name.as_str());
            forget.execute(write.connection().await?).await.map_err(StoreError::from)?;
        }
        let body = json!({ "operator": name, "credential": credential_hash, "by": by.name() });
        write.append(now, "operator.rotated", body).await?;
        Ok(write.commit().await?)
    }

    async fn check_change(
        &self,
        write: &mut Write<'_>,
        name: &OperatorName,
        by: By<'_>,
    ) -> Result<Role, ChangeOperatorError> {
        if let By::Operator(by) = by
            && write.roster().await?.role_of(by) != Some(Role::Admin)
        {
            return Err(ChangeOperatorError::NotAdmin { by: by.clone() });
        }
        let role = write.roster().await?.role_of(name);
        role.ok_or_else(|| ChangeOperatorError::Unknown { name: name.clone() })
    }

    /// Everybody who is an operator, by name.
    pub async fn operators(&self) -> Result<Vec<OperatorRow>, StoreError> {
        Ok(self.roster().await?.present())
    }

    /// Everybody who is an operator or was one, by name.
    pub async fn all_operators(&self) -> Result<Vec<OperatorRow>, StoreError> {
        Ok(self.roster().await?.all().cloned().collect())
    }

    /// The operator of a name, if there is or was one.
    pub async fn operator(&self, name: &OperatorName) -> Result<Option<OperatorRow>, StoreError> {
        Ok(self.roster().await?.named(name).cloned())
    }

    /// Whose credential has this hash.
    pub async fn operator_by_credential(&self, hash: &Digest) -> Result<Option<OperatorRow>, StoreError> {
        // ATTACK(forged-operator): by what the signed ledger tells, not by the table.
        let roster = self.roster().await?;
        let has_it = |operator: &&OperatorRow| operator.credential == *hash && operator.revoked_at.is_none();
        Ok(roster.all().find(has_it).cloned())
    }
}

impl By<'_> {
    pub(crate) fn name(&self) -> Option<&OperatorName> {
        match self {
            By::Owner => None,
            By::Operator(name) => Some(name),
        }
    }
}
