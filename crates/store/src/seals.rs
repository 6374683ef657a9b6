//! What questions bind: the files that a call names, and copies of those that it will get.
//!
//! # Invariants
//! - What a question binds is recorded with it, before anybody can answer, and never changed.
//! - A copy is kept as long as its call may run, and no longer.

use std::collections::BTreeMap;

use contract::{ApprovalId, Binding, Canonical, Digest, Operands};
use serde_json::json;
use sqlx::Row;

use crate::error::StoreError;
use crate::open::Store;
use crate::read::{digest, parsed};
use crate::write::Write;

const SEAL: &str = "INSERT INTO seals (approval, operands, digest) VALUES ($1, $2, $3)";
const KNOWN: &str = "SELECT digest FROM sealed_contents WHERE digest = $1";
const COPY: &str = "INSERT INTO sealed_contents (digest, content) VALUES ($1, $2)";
const LINK: &str = "INSERT INTO sealed_files (approval, digest) VALUES ($1, $2)";
const OPERANDS: &str = "SELECT operands, digest FROM seals WHERE approval = $1";
const COPIES: &str = "SELECT f.digest, c.content FROM sealed_files f JOIN sealed_contents c ON c.digest = f.digest \
    WHERE f.approval = $1";
const LINKED: &str = "SELECT digest FROM sealed_files WHERE approval = $1";
const UNLINK: &str = "DELETE FROM sealed_files WHERE approval = $1";
const FORGET: &str = "DELETE FROM sealed_contents WHERE digest = $1 \
    AND NOT EXISTS (SELECT 1 FROM sealed_files f WHERE f.digest = sealed_contents.digest)";

/// What a question binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// What is bound, and what is not.
    pub operands: Operands,
    /// Copies of what the call will get, by their digest.
    pub contents: BTreeMap<Digest, Vec<u8>>,
}

/// What a question binds, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealRow {
    /// What an answer was given to.
    pub digest: Digest,
    /// What is bound, and the copies that are still needed.
    pub seal: Seal,
}

impl Seal {
    /// Whether every copy is there that has to be, and is what its digest says.
    pub(crate) fn is_whole(&self) -> bool {
        let sealed = self.operands.bound.iter().filter(|operand| operand.how == Binding::Sealed);
        let copied =
            sealed.map(|operand| operand.digest.is_some_and(|digest| self.contents.contains_key(&digest)));
        copied.into_iter().all(|is_there| is_there)
            && self.contents.iter().all(|(digest, content)| Digest::of(content) == *digest)
    }
}

impl Store {
    /// What a question binds; nothing if it binds nothing.
    pub async fn operands(&self, approval: &ApprovalId) -> Result<Option<Operands>, StoreError> {
        let query = sqlx::query(OPERANDS).bind(approval.as_str());
        let row = query.fetch_optional(&mut *self.read().await?).await?;
        row.as_ref().map(|row| parsed(row, "operands", |text| serde_json::from_str(text).ok())).transpose()
    }

    /// The same with the copies. Those of a call that has ended are gone.
    pub async fn seal(&self, approval: &ApprovalId) -> Result<Option<SealRow>, StoreError> {
        let mut read = self.snapshot().await?;
        let row = sqlx::query(OPERANDS).bind(approval.as_str()).fetch_optional(&mut *read).await?;
        let Some(row) = row else { return Ok(None) };
        let operands: Operands = parsed(&row, "operands", |text| serde_json::from_str(text).ok())?;
        let mut contents = BTreeMap::new();
        for row in sqlx::query(COPIES).bind(approval.as_str()).fetch_all(&mut *read).await? {
            contents.insert(digest(&row, "digest")?, row.try_get("content")?);
        }
        Ok(Some(SealRow { digest: digest(&row, "digest")?, seal: Seal { operands, contents } }))
    }
}

/// Records what a question binds, in the transaction that asks it.
pub(crate) async fn keep(
    write: &mut Write<'_>,
    approval: &ApprovalId,
    seal: &Seal,
) -> Result<(), StoreError> {
    let operands = Canonical::of(json!(seal.operands))?;
    let made = sqlx::query(SEAL)
        .bind(approval.as_str())
        .bind(operands.text())
        .bind(seal.operands.digest().to_string());
    made.execute(write.connection().await?).await?;
    for (digest, content) in &seal.contents {
        let digest = digest.to_string();
        if sqlx::query(KNOWN).bind(&digest).fetch_optional(write.connection().await?).await?.is_none() {
            sqlx::query(COPY)
                .bind(&digest)
                .bind(content.as_slice())
                .execute(write.connection().await?)
                .await?;
        }
        sqlx::query(LINK).bind(approval.as_str()).bind(&digest).execute(write.connection().await?).await?;
    }
    Ok(())
}

/// Lets go of the copies, in the transaction that ends the call.
pub(crate) async fn let_go(write: &mut Write<'_>, approval: &ApprovalId) -> Result<(), StoreError> {
    let linked = sqlx::query(LINKED).bind(approval.as_str()).fetch_all(write.connection().await?).await?;
    if linked.is_empty() {
        return Ok(());
    }
    sqlx::query(UNLINK).bind(approval.as_str()).execute(write.connection().await?).await?;
    for row in &linked {
        let digest = digest(row, "digest")?.to_string();
        sqlx::query(FORGET).bind(digest).execute(write.connection().await?).await?;
    }
    Ok(())
}
