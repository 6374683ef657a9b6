//! The people who decide: who they are, who lets them in, and what to do when the key is lost.

use std::path::{Path, PathBuf};

use contract::OperatorName;
use store::{AddOperatorError, By, ChangeOperatorError, OperatorRow, Role, Store};
use thiserror::Error;

use crate::engine::{Engine, OpenError};
use crate::error::EngineError;
use crate::operator::{Credential, CredentialError};

/// The operator that exists from the first start on: whoever owns Toolgate's home.
const LOCAL_OPERATOR: &str = "me";

/// Whether the credential in Toolgate's home is somebody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalOperator {
    /// It is this operator's.
    Known(OperatorName),
    /// There is none, and there was one.
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// There is one, and it is nobody's.
    KeyOfNobody {
        /// Where it is.
        path: PathBuf,
    },
}

/// Why nothing was changed about who decides.
#[derive(Debug, Error)]
pub enum PeopleError {
    /// Whoever asks is no operator.
    #[error("this takes an admin's credential, and this one is nobody's")]
    NotAnOperator,
    /// They were not added.
    #[error(transparent)]
    Add(#[from] AddOperatorError),
    /// They were not changed.
    #[error(transparent)]
    Change(#[from] ChangeOperatorError),
    /// There is no new credential.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Finds out whose the local credential is; makes the local operator if this is the first start.
pub(crate) async fn local_operator(store: &Store, home: &Path, now: i64) -> Result<LocalOperator, OpenError> {
    let path = Credential::local(home);
    let name = OperatorName::parse(LOCAL_OPERATOR).map_err(|_| OpenError::Name)?;
    let known = async |credential: &Credential| -> Result<Option<LocalOperator>, OpenError> {
        let known = store.operator_by_credential(&credential.digest()).await?;
        Ok(known.map(|operator| LocalOperator::Known(operator.name)))
    };
    if store.operator(&name).await?.is_none() {
        let credential = Credential::load_or_create(home)?;
        if let Some(known) = known(&credential).await? {
            return Ok(known);
        }
        match store.add_operator(&name, Role::Admin, credential.digest(), now).await {
            Ok(()) => return Ok(LocalOperator::Known(name)),
            // Another process was faster; perhaps with the same credential.
            Err(AddOperatorError::NameTaken { .. } | AddOperatorError::CredentialTaken) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Whoever replaces the credential does not become the operator by it.
    match Credential::load(&path)? {
        None => Ok(LocalOperator::KeyMissing { path }),
        Some(credential) => Ok(known(&credential).await?.unwrap_or(LocalOperator::KeyOfNobody { path })),
    }
}

impl Engine {
    /// Whether the credential in Toolgate's home is somebody's.
    pub fn local_operator(&self) -> &LocalOperator {
        &self.inner.local_operator
    }

    /// Whose credential it is.
    pub async fn operator_of(&self, credential: &Credential) -> Result<Option<OperatorRow>, EngineError> {
        let digest = credential.digest();
        match self.inner.store.operator_by_credential(&digest).await? {
            Some(operator) => Ok(Some(operator)),
            None => self.vouched_for(&digest).await,
        }
    }

    /// Adds somebody, and returns what they sign in with. It is not kept, and cannot be shown again.
    pub async fn add_operator(
        &self,
        name: &OperatorName,
        role: Role,
        by: &Credential,
    ) -> Result<Credential, PeopleError> {
        let by = self.known(by).await?;
        let credential = Credential::random()?;
        let digest = credential.digest();
        self.inner.store.appoint(name, role, digest, By::Operator(&by), self.now()).await?;
        Ok(credential)
    }

    /// Takes somebody's authority, at once.
    pub async fn remove_operator(&self, name: &OperatorName, by: &Credential) -> Result<(), PeopleError> {
        let by = self.known(by).await?;
        Ok(self.inner.store.remove_operator(name, By::Operator(&by), self.now()).await?)
    }

    /// Gives somebody another credential, and returns it; the old one is nobody's from now on.
    pub async fn rotate_operator(
        &self,
        name: &OperatorName,
        by: &Credential,
    ) -> Result<Credential, PeopleError> {
        let by = self.known(by).await?;
        let credential = Credential::random()?;
        let digest = credential.digest();
        self.inner.store.rotate_operator(name, digest, By::Operator(&by), self.now()).await?;
        Ok(credential)
    }

    /// Lets the owner of Toolgate's home back in when the local operator's credential is lost, and returns the new one.
    ///
    /// Whoever can do this can write the store and sign with the gate's key; the ledger tells of it all the same.
    pub async fn recover_local_operator(&self) -> Result<(OperatorName, Credential), PeopleError> {
        let name = OperatorName::parse(LOCAL_OPERATOR).map_err(|_| EngineError::Missing)?;
        let credential = Credential::random()?;
        self.inner.store.rotate_operator(&name, credential.digest(), By::Owner, self.now()).await?;
        Ok((name, credential))
    }

    async fn known(&self, credential: &Credential) -> Result<OperatorName, PeopleError> {
        let known = self.operator_of(credential).await?;
        Ok(known.ok_or(PeopleError::NotAnOperator)?.name)
    }
}
