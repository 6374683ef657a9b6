//! Gates and the calls that are theirs: who sees a call through, and which calls nobody sees through any more.
//!
//! # Invariants
//! - That the effect of a call may begin is durable before it does: until then the call is `planned`, after that
//!   `running`.
//! - A call is begun by its owner, and only while nobody has found the owner to be lost.
//! - A gate's calls are settled by that gate alone, unless it is on record as lost.

use contract::{CallId, GateId};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::calls::{CallRow, read_call, select_calls};
use crate::error::StoreError;
use crate::later::{Answers, Later};
use crate::open::Store;
use crate::private::{committed_authority, revealed_call};
use crate::read::parsed_if_any;
use crate::write::Write;

const GATE: &str = "SELECT lost_at FROM gates WHERE id = $1";
const ADD_GATE: &str = "INSERT INTO gates (id, began_at) VALUES ($1, $2)";
const LOSE_GATE: &str = "UPDATE gates SET lost_at = $2 WHERE id = $1 AND lost_at IS NULL";
const BEGIN: &str = "UPDATE calls SET status = 'running' WHERE id = $1 AND status = 'planned' AND owner = $2";
const OWNERS: &str = "SELECT DISTINCT owner FROM calls WHERE status IN ('planned', 'running')";
const UNDER_WAY: &str = select_calls!(
    "WHERE c.status IN ('planned', 'running') AND c.owner IS NOT DISTINCT FROM $1 ORDER BY c.asked_at, c.id LIMIT $2"
);
const UNRESOLVED: &str =
    select_calls!("WHERE c.status = 'unknown' AND x.call IS NULL ORDER BY c.asked_at, c.id LIMIT $1");

/// What has become of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is this one.
    Own,
    /// It lives.
    Lives,
    /// It is no more.
    Lost,
}

impl Store {
    /// Begins a planned call of this gate: from now on its effect may happen. Durable when it returns.
    ///
    /// False if it may not begin: it has ended meanwhile, or others have found this gate to be lost.
    pub async fn begin_call(&self, call: &CallId, authority: Value, now: i64) -> Result<bool, StoreError> {
        let Some(own) = self.life().own_if_any() else { return Ok(false) };
        let mut write = self.write().await?;
        if is_lost(&mut write, &own).await? {
            return Ok(false);
        }
        let begin = sqlx::query(BEGIN).bind(call.as_str()).bind(own.as_str());
        if begin.execute(write.connection().await?).await?.rows_affected() != 1 {
            return Ok(false);
        }
        let Some(row) = read_call(write.connection().await?, call).await? else { return Ok(false) };
        let authority = committed_authority(authority, &row.arguments);
        write.append(now, "call.started", json!({ "call": call, "authority": authority })).await?;
        write.commit().await?;
        Ok(true)
    }

    /// The gates that have calls under way. Those from before gates had ids are one without.
    pub async fn owners(&self) -> Result<Vec<Option<GateId>>, StoreError> {
        let rows = sqlx::query(OWNERS).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| parsed_if_any(row, "owner", |text| GateId::parse(text).ok())).collect()
    }

    /// What has become of an owner. One without an id is of a program that can no longer write to this store.
    pub async fn fate(&self, owner: Option<&GateId>) -> Result<Fate, StoreError> {
        let Some(owner) = owner else { return Ok(Fate::Lost) };
        if self.life().own_if_any().as_ref() == Some(owner) {
            return Ok(Fate::Own);
        }
        if self.is_alive(owner).await? {
            return Ok(Fate::Lives);
        }
        tokio::time::sleep(self.life().grace()).await;
        Ok(if self.is_alive(owner).await? { Fate::Lives } else { Fate::Lost })
    }

    /// Writes down that a gate is no more, so that nothing is begun in its name from now on. False if that is known,
    /// or not so.
    pub async fn lose(&self, gate: &GateId, now: i64) -> Result<bool, StoreError> {
        let mut write = self.write().await?;
        // ATTACK(living-owner): looked at while nobody else can write.
        if self.is_alive(gate).await? {
            return Ok(false);
        }
        let lose = sqlx::query(LOSE_GATE).bind(gate.as_str()).bind(now);
        if lose.execute(write.connection().await?).await?.rows_affected() != 1 {
            return Ok(false);
        }
        write.append(now, "gate.lost", json!({ "gate": gate })).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Takes away what gates that are no more have left beside the database.
    pub fn sweep(&self) -> Result<(), StoreError> {
        self.life().sweep()
    }

    /// The calls that a gate has under way, oldest first.
    pub async fn under_way(&self, owner: Option<&GateId>, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let query = sqlx::query(UNDER_WAY).bind(owner.map(GateId::as_str)).bind(i64::from(limit));
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| revealed_call(row, self.keys())).collect()
    }

    /// The calls whose outcome nobody knows and nobody has found out yet, oldest first.
    pub async fn unresolved(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let rows = sqlx::query(UNRESOLVED).bind(i64::from(limit)).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| revealed_call(row, self.keys())).collect()
    }
}

/// A gate, and whether nobody has found it to be lost. Nothing if the database does not know it.
pub(crate) type OnRecord = (GateId, Option<bool>);

/// The question whether this gate lives on record, where it has an id already.
pub(crate) struct OwnGate(Option<GateId>);

impl OwnGate {
    pub(crate) fn ask(store: &Store, questions: &mut Later) -> Result<OwnGate, StoreError> {
        let own = store.life().own_if_any();
        if let Some(own) = &own {
            questions.keep(sqlx::query(GATE).bind(own.as_str()))?;
        }
        Ok(OwnGate(own))
    }

    pub(crate) fn hear(self, answers: &mut Answers) -> Result<Option<OnRecord>, StoreError> {
        let Some(own) = self.0 else { return Ok(None) };
        Ok(Some((own, lives(answers.row()?)?)))
    }
}

/// The id under which this gate makes a call, known to the database; by what was answered already, if anything was.
pub(crate) async fn own_gate(
    write: &mut Write<'_>,
    answered: Option<OnRecord>,
    now: i64,
) -> Result<GateId, StoreError> {
    let mut own = write.store().life().own().await?;
    let mut known = match answered.filter(|(gate, _)| *gate == own) {
        Some((_, known)) => known,
        None => lives_on_record(write, &own).await?,
    };
    if known == Some(false) {
        own = write.store().life().renew(&own).await?;
        known = lives_on_record(write, &own).await?;
    }
    if known.is_none() {
        write.say(sqlx::query(ADD_GATE).bind(own.as_str()).bind(now))?;
    }
    Ok(own)
}

/// Whether a call belongs to a gate that lives, and is not this one.
pub(crate) async fn is_of_another(write: &mut Write<'_>, call: &CallRow) -> Result<bool, StoreError> {
    let Some(owner) = &call.owner else { return Ok(false) };
    let is_own = write.store().life().own_if_any().as_ref() == Some(owner);
    Ok(!is_own && !is_lost(write, owner).await?)
}

async fn is_lost(write: &mut Write<'_>, gate: &GateId) -> Result<bool, StoreError> {
    Ok(lives_on_record(write, gate).await? == Some(false))
}

/// Whether nobody has found a gate to be lost. Nothing if the database does not know it.
async fn lives_on_record(write: &mut Write<'_>, gate: &GateId) -> Result<Option<bool>, StoreError> {
    lives(sqlx::query(GATE).bind(gate.as_str()).fetch_optional(write.connection().await?).await?)
}

fn lives(row: Option<AnyRow>) -> Result<Option<bool>, StoreError> {
    row.map(|row| Ok(row.try_get::<Option<i64>, _>("lost_at")?.is_none())).transpose()
}
