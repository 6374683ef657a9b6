//! What operators have said of tools: which they have looked at and pinned, how dangerous those are, which are switched off.
//!
//! # Invariants
//! - A tool is pinned if the signed ledger tells so, for the definition and the classes that it tells. The table is for the
//!   database's own rules: a row of which no entry tells pins nothing.
//! - A pin is for one definition. Any other that is registered under the name suspends the tool, until it is pinned again.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::{Digest, EgressClass, OperatorName, SafetyClass, ToolName, ToolStatus, TrustLabel};
use serde_json::json;
use sqlx::Row;
use thiserror::Error;

use crate::error::StoreError;
use crate::ledger::Told;
use crate::open::Store;
use crate::operators::Role;
use crate::read::digest;

const CURRENT: &str = "SELECT hash FROM tools WHERE name = $1";
const SEEN: &str = "SELECT definition FROM tool_versions WHERE name = $1 AND hash = $2";
const PIN: &str = "UPDATE tools SET trust = 'pinned', status = 'active', hash = $2, safety = $3, egress = $4, \
    requires_approval = $5, definition = $6 WHERE name = $1";
const SET_STATUS: &str = "UPDATE tools SET status = $2 WHERE name = $1";

/// What operators have said of every tool of which they said something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stances {
    by_tool: BTreeMap<ToolName, Stance>,
}

/// What operators have said of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stance {
    /// The definition that somebody has looked at last.
    pub pin: Option<Pin>,
    /// Whether another has been registered since.
    pub is_suspended: bool,
    /// Whether it is switched off.
    pub is_disabled: bool,
}

/// A definition that somebody has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Which.
    pub hash: Digest,
    /// How dangerous they say that its calls are.
    pub safety: SafetyClass,
    /// What they say that leaves the machine.
    pub egress: EgressClass,
    /// Who.
    pub by: OperatorName,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// Why nothing was said of a tool.
#[derive(Debug, Error)]
pub enum StanceError {
    /// There is none.
    #[error("no tool `{name}` was ever registered, or not in this version")]
    Unknown {
        /// Which name.
        name: ToolName,
    },
    /// Only an admin does that.
    #[error("`{by}` is not an admin")]
    NotAdmin {
        /// Who tried.
        by: OperatorName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Stances {
    /// What they have said of a tool.
    pub fn of(&self, tool: &ToolName) -> Stance {
        self.by_tool.get(tool).cloned().unwrap_or_default()
    }

    /// Takes in an entry; nothing if it is not understood.
    pub(crate) fn hear(&mut self, entry: &Told) -> Option<()> {
        let tool = ToolName::parse(entry.text("tool")?).ok()?;
        let stance = self.by_tool.entry(tool).or_default();
        match entry.kind.as_str() {
            "tool.pinned" => {
                stance.pin = Some(Pin {
                    hash: Digest::parse(entry.text("hash")?)?,
                    safety: SafetyClass::parse(entry.text("safety")?)?,
                    egress: EgressClass::parse(entry.text("egress")?)?,
                    by: OperatorName::parse(entry.text("by")?).ok()?,
                    at: entry.time,
                });
                stance.is_suspended = false;
            }
            "tool.suspended" => stance.is_suspended = true,
            "tool.disabled" => stance.is_disabled = true,
            "tool.enabled" => stance.is_disabled = false,
            _ => return None,
        }
        Some(())
    }
}

impl Pin {
    /// Whether people are asked about each call all the same.
    pub fn asks(&self) -> bool {
        self.egress == EgressClass::Write || self.safety.is_grave()
    }
}

impl Store {
    /// What operators have said of tools, as the ledger is now.
    pub async fn stances(&self) -> Result<Arc<Stances>, StoreError> {
        self.with_records(async |mut records| records.stances().await).await
    }

    /// Pins a definition of a tool that was registered at some time, as one whose calls are of these classes.
    pub async fn pin_tool(&self, name: &ToolName, pin: &Pin) -> Result<(), StanceError> {
        let Pin { hash, safety, egress, by, at } = pin;
        let mut write = self.write().await?;
        if write.roster().await?.role_of(by) != Some(Role::Admin) {
            return Err(StanceError::NotAdmin { by: by.clone() });
        }
        let seen = sqlx::query(SEEN).bind(name.as_str()).bind(hash.to_string());
        let seen = seen.fetch_optional(write.connection().await?).await.map_err(StoreError::from)?;
        let seen = seen.ok_or_else(|| StanceError::Unknown { name: name.clone() })?;
        let definition: String = seen.try_get("definition").map_err(StoreError::from)?;
        let change = sqlx::query(PIN)
            .bind(name.as_str())
            .bind(hash.to_string())
            .bind(safety.as_str())
            .bind(egress.as_str())
            .bind(i64::from(pin.asks()))
            .bind(definition);
        change.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let body = json!({ "tool": name, "hash": hash, "safety": safety, "egress": egress, "by": by });
        write.append(*at, "tool.pinned", body).await?;
        Ok(write.commit().await?)
    }

    /// Switches a tool off, or on again. One that is suspended stays so.
    pub async fn switch_tool(
        &self,
        name: &ToolName,
        status: ToolStatus,
        by: &OperatorName,
        now: i64,
    ) -> Result<(), StanceError> {
        let mut write = self.write().await?;
        if write.roster().await?.role_of(by) != Some(Role::Admin) {
            return Err(StanceError::NotAdmin { by: by.clone() });
        }
        let known = sqlx::query(CURRENT).bind(name.as_str());
        let known = known.fetch_optional(write.connection().await?).await.map_err(StoreError::from)?;
        let row = known.ok_or_else(|| StanceError::Unknown { name: name.clone() })?;
        let hash = digest(&row, "hash")?;
        let is_suspended = write.stances().await?.of(name).is_suspended;
        let kind = if status == ToolStatus::Disabled { "tool.disabled" } else { "tool.enabled" };
        let status = match (status, is_suspended) {
            (ToolStatus::Disabled, _) => ToolStatus::Disabled,
            (_, true) => ToolStatus::Suspended,
            (status, false) => status,
        };
        let set = sqlx::query(SET_STATUS).bind(name.as_str()).bind(status.as_str());
        set.execute(write.connection().await?).await.map_err(StoreError::from)?;
        write.append(now, kind, json!({ "tool": name, "hash": hash, "by": by })).await?;
        Ok(write.commit().await?)
    }
}

/// The label of a tool whose definition has this hash, by what operators have said of it.
pub fn label_of(stance: &Stance, hash: &Digest, own: TrustLabel) -> TrustLabel {
    match &stance.pin {
        Some(pin) if pin.hash == *hash && !stance.is_suspended => TrustLabel::Pinned,
        _ => own,
    }
}
