//! The tools there are, and the versions of them that were seen.
//!
//! - INVARIANT(versions-kept): of our own tools every version is kept; of one that comes from somewhere what is listed, what was
//!   pinned, and the newest [`MOST_VERSIONS`]. The database refuses to remove those, but for what only the ledger knows: the pin.

use std::collections::{HashMap, HashSet};

use contract::{
    Canonical, Category, Contract, Digest, EgressClass, SafetyClass, SourceName, ToolName, ToolStatus,
    TrustLabel,
};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::any::AnyRow;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;
use crate::read::{digest, flag, json as json_of, parsed};
use crate::write::Write;

/// Without what authors wrote, which is long and nobody who asks about all tools needs.
const STATES: &str = "SELECT name, category, auth, requires_approval, is_dangerous, status, egress, safety, hash, trust, source \
    FROM tools";
const STATE: &str = "SELECT name, category, auth, requires_approval, is_dangerous, status, egress, safety, hash, trust, source \
    FROM tools WHERE name = $1";
const BY_NAME: &str = "SELECT * FROM tools WHERE name = $1";
const BY_SOURCE: &str = "SELECT * FROM tools WHERE source = $1 ORDER BY registered_at DESC, name LIMIT $2";
const ALIKE: &str = "SELECT name FROM tools WHERE look = $1 AND name <> $2";
const ADD: &str = "INSERT INTO tools (name, look, category, input_schema, output_schema, auth, requires_approval, \
    is_dangerous, status, egress, safety, hash, trust, definition, registered_at, source) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
const CHANGE: &str = "UPDATE tools SET category = $2, input_schema = $3, output_schema = $4, auth = $5, \
    requires_approval = $6, is_dangerous = $7, egress = $8, safety = $9, hash = $10, trust = $11, \
    definition = $12, registered_at = $13, source = $14 WHERE name = $1";
const SET_STATUS: &str = "UPDATE tools SET status = $2 WHERE name = $1";
const VERSION: &str = "SELECT 1 FROM tool_versions WHERE name = $1 AND hash = $2";
const VERSIONS: &str =
    "SELECT hash, definition, seen_at FROM tool_versions WHERE name = $1 ORDER BY seen_at, hash";
const ADD_VERSION: &str =
    "INSERT INTO tool_versions (name, hash, definition, seen_at) VALUES ($1, $2, $3, $4)";
const NEWEST_FIRST: &str = "SELECT hash FROM tool_versions WHERE name = $1 ORDER BY seen_at DESC, hash DESC";
const REMOVE_VERSION: &str = "DELETE FROM tool_versions WHERE name = $1 AND hash = $2";

/// As many versions as are kept of a tool that comes from somewhere. The number stands in the database's rules, too.
pub const MOST_VERSIONS: usize = 20;

/// As many names as one source ever has: a name is registered for good.
pub const MOST_NAMES: usize = 4000;

/// A tool as it is registered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRow {
    /// Its name.
    pub name: ToolName,
    /// What it works on.
    pub category: Category,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// The schema of its structured result.
    pub output_schema: Value,
    /// How it signs in where it goes; `none` if it does not.
    pub auth: String,
    /// Whether people are asked first. For egress `write` they are, whatever stands here.
    pub requires_approval: bool,
    /// Whether it is shown as dangerous.
    pub is_dangerous: bool,
    /// Whether it may be called. Of a tool that is known already, what operators set stays.
    pub status: ToolStatus,
    /// What leaves the machine.
    pub egress: EgressClass,
    /// How dangerous it is.
    pub safety: SafetyClass,
    /// The hash of its definition.
    pub hash: Digest,
    /// Where its definition comes from.
    pub trust: TrustLabel,
    /// All that its author wrote.
    pub definition: Value,
    /// Where it comes from; nothing for those of our own.
    pub source: Option<SourceName>,
}

/// What the registry has about a tool besides what its author wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolState {
    /// Whether people are asked first.
    pub requires_approval: bool,
    /// Whether it may be called.
    pub status: ToolStatus,
    category: Category,
    auth: String,
    is_dangerous: bool,
    egress: EgressClass,
    safety: SafetyClass,
    hash: Digest,
    trust: TrustLabel,
    source: Option<SourceName>,
}

/// What came of registering the tools of a source.
#[derive(Debug)]
pub struct Registered {
    /// What the registry has about every tool that it knows.
    pub states: HashMap<ToolName, ToolState>,
    /// Those that were not taken, and why.
    pub refused: Vec<(ToolName, RegisterError)>,
}

/// Why a tool was not registered.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// Two of that name at once.
    #[error("`{name}` is registered twice")]
    Duplicate {
        /// Which name.
        name: ToolName,
    },
    /// It looks like another.
    #[error("`{name}` looks like `{other}`, which is registered already")]
    LooksLike {
        /// Which name.
        name: ToolName,
        /// What it looks like.
        other: String,
    },
    /// The name is another's.
    #[error("`{name}` belongs to {}", owner(other.as_ref()))]
    Shadows {
        /// Which name.
        name: ToolName,
        /// Where the tool comes from that has it; nothing if it is our own.
        other: Option<SourceName>,
    },
    /// The source has brought too many names.
    #[error("its source has brought {MOST_NAMES} names, and no other is taken")]
    TooMany {
        /// Which name.
        name: ToolName,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn owner(source: Option<&SourceName>) -> String {
    source.map_or_else(|| "a built-in tool".to_owned(), |source| format!("`{source}`"))
}

impl ToolRow {
    /// The row of a contract, with the defaults of its classes.
    pub fn of(contract: &Contract) -> ToolRow {
        let definition = contract.definition();
        ToolRow {
            name: contract.name().clone(),
            category: definition.category,
            input_schema: definition.input.clone(),
            output_schema: definition.output.clone(),
            auth: "none".to_owned(),
            requires_approval: definition.egress == EgressClass::Write || definition.safety.is_grave(),
            is_dangerous: definition.safety.is_grave(),
            status: ToolStatus::Active,
            egress: definition.egress,
            safety: definition.safety,
            hash: contract.hash(),
            trust: contract.trust(),
            definition: json!(definition),
            source: None,
        }
    }

    /// The same for a tool from somewhere.
    #[must_use]
    pub fn from_source(self, source: &SourceName) -> ToolRow {
        ToolRow { source: Some(source.clone()), ..self }
    }

    /// Whether a row says the same already.
    fn is_recorded_in(&self, row: &ToolState) -> bool {
        let asks = self.requires_approval || self.egress == EgressClass::Write;
        // What an operator has pinned is as they left it, for as long as the definition is the same.
        if row.trust == TrustLabel::Pinned {
            return self.hash == row.hash && self.source == row.source;
        }
        self.hash == row.hash
            && self.source == row.source
            && (self.category, self.egress, self.safety, self.trust)
                == (row.category, row.egress, row.safety, row.trust)
            && (asks, self.is_dangerous) == (row.requires_approval, row.is_dangerous)
            && self.auth == row.auth
    }
}

impl Store {
    /// Registers tools, all or none, and says what the registry has about every tool that it knows. What is known already
    /// stays; what has changed becomes a new version.
    ///
    /// A tool that an operator has pinned is not replaced: it is suspended until somebody has looked at the new version.
    pub async fn register_tools(
        &self,
        tools: &[ToolRow],
        now: i64,
    ) -> Result<HashMap<ToolName, ToolState>, RegisterError> {
        let mut names = HashSet::new();
        if let Some(twice) = tools.iter().find(|tool| !names.insert(&tool.name)) {
            return Err(RegisterError::Duplicate { name: twice.name.clone() });
        }
        let known = self.tool_states().await?;
        let is_recorded = |tool: &&ToolRow| known.get(&tool.name).is_some_and(|row| tool.is_recorded_in(row));
        let (_, unrecorded): (Vec<&ToolRow>, Vec<&ToolRow>) = tools.iter().partition(is_recorded);
        if unrecorded.is_empty() {
            return Ok(known);
        }
        let mut write = self.write().await?;
        for tool in unrecorded {
            register(&mut write, tool, now).await?;
        }
        write.commit().await?;
        Ok(self.tool_states().await?)
    }

    /// Registers the tools of one source, each by itself: what one of them is refused for is nothing to the others. A name
    /// stays with the source that had it first, and nobody takes one of our own tools'.
    pub async fn register_from(
        &self,
        source: &SourceName,
        tools: &[ToolRow],
        now: i64,
    ) -> Result<Registered, StoreError> {
        let mut refused = Vec::new();
        let known = self.tool_states().await?;
        let rows: Vec<ToolRow> = tools.iter().map(|tool| tool.clone().from_source(source)).collect();
        let is_recorded = |tool: &ToolRow| known.get(&tool.name).is_some_and(|row| tool.is_recorded_in(row));
        if rows.iter().all(is_recorded) {
            return Ok(Registered { states: known, refused });
        }
        // ATTACK(endless-names): what is known stays; of what is new as many are taken as there is room for.
        let mut room = MOST_NAMES
            .saturating_sub(known.values().filter(|row| row.source.as_ref() == Some(source)).count());
        let mut write = self.write().await?;
        for tool in &rows {
            if !known.contains_key(&tool.name) {
                let Some(left) = room.checked_sub(1) else {
                    refused.push((tool.name.clone(), RegisterError::TooMany { name: tool.name.clone() }));
                    continue;
                };
                room = left;
            }
            match register(&mut write, tool, now).await {
                Ok(()) => {}
                Err(RegisterError::Store(error)) => return Err(error),
                Err(error) => refused.push((tool.name.clone(), error)),
            }
        }
        write.commit().await?;
        Ok(Registered { states: self.tool_states().await?, refused })
    }

    /// The tools of one source, as they were registered last: those that are new or have changed first, and no more than `most`.
    pub async fn tools_from(&self, source: &SourceName, most: usize) -> Result<Vec<ToolRow>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let query = sqlx::query(BY_SOURCE).bind(source.as_str()).bind(most);
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(tool_row).collect()
    }

    /// Tells the ledger of tools that a source offers and that are not taken: what each is called, and why not.
    pub async fn record_refused_tools(
        &self,
        source: &SourceName,
        refused: &[(String, String)],
        now: i64,
    ) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        for (name, why) in refused {
            write.append(now, "tool.refused", json!({ "tool": name, "source": source, "why": why })).await?;
        }
        write.commit().await
    }

    /// The versions of a tool that are kept, oldest first: the hash, the definition, and when.
    pub async fn tool_versions(&self, name: &ToolName) -> Result<Vec<(Digest, Value, i64)>, StoreError> {
        let query = sqlx::query(VERSIONS).bind(name.as_str());
        let rows = query.fetch_all(&mut *self.read().await?).await?;
        rows.iter()
            .map(|row| Ok((digest(row, "hash")?, json_of(row, "definition")?, row.try_get("seen_at")?)))
            .collect()
    }

    /// One tool.
    pub async fn tool(&self, name: &ToolName) -> Result<Option<ToolRow>, StoreError> {
        let query = sqlx::query(BY_NAME).bind(name.as_str());
        query.fetch_optional(&mut *self.read().await?).await?.as_ref().map(tool_row).transpose()
    }

    /// All tools in one statement: a gate that starts has to know about each of them.
    async fn tool_states(&self) -> Result<HashMap<ToolName, ToolState>, StoreError> {
        let rows = sqlx::query(STATES).fetch_all(&mut *self.read().await?).await?;
        rows.iter().map(|row| Ok((tool_name(row)?, tool_state(row)?))).collect()
    }
}

async fn register(write: &mut Write<'_>, tool: &ToolRow, now: i64) -> Result<(), RegisterError> {
    register_as(write, tool, now).await?;
    if tool.source.is_some() {
        forget_old_versions(write, &tool.name).await?;
    }
    Ok(())
}

async fn register_as(write: &mut Write<'_>, tool: &ToolRow, now: i64) -> Result<(), RegisterError> {
    let name = tool.name.as_str();
    let known = sqlx::query(STATE).bind(name).fetch_optional(write.connection().await?).await;
    let known = known.map_err(StoreError::from)?.as_ref().map(tool_state).transpose()?;
    let definition = Canonical::of(tool.definition.clone()).map_err(StoreError::from)?.text().to_owned();
    // ATTACK(shadowed-tool): a name stays with whoever had it first; only our own tools take theirs back.
    if let Some(row) = known.as_ref().filter(|row| tool.source.is_some() && row.source != tool.source) {
        return Err(RegisterError::Shadows { name: tool.name.clone(), other: row.source.clone() });
    }
    keep_version(write, tool, &definition, now).await?;
    // ATTACK(rug-pull): by what the signed ledger tells of the pin, whatever the row says.
    if let Some(row) = known.as_ref().filter(|_| tool.source.is_some()) {
        let stance = write.stances().await?.of(&tool.name);
        if stance.pin.is_some_and(|pin| pin.hash != tool.hash) {
            if !stance.is_suspended {
                suspend(write, tool, row, now).await?;
            }
            // What somebody has to look at is what is offered now.
            if row.hash != tool.hash {
                change(write, tool, definition, now).await?;
            }
            return Ok(());
        }
    }
    match known {
        Some(row) if tool.is_recorded_in(&row) => Ok(()),
        Some(row)
            if row.trust == TrustLabel::Pinned && row.hash != tool.hash && row.source == tool.source =>
        {
            if row.status == ToolStatus::Suspended {
                return Ok(());
            }
            Ok(suspend(write, tool, &row, now).await?)
        }
        Some(_) => {
            change(write, tool, definition, now).await?;
            Ok(tell(write, tool, now).await?)
        }
        None => {
            let look = tool.name.look();
            let alike =
                sqlx::query(ALIKE).bind(&look).bind(name).fetch_optional(write.connection().await?).await;
            if let Some(row) = alike.map_err(StoreError::from)? {
                let other = row.try_get("name").map_err(StoreError::from)?;
                return Err(RegisterError::LooksLike { name: tool.name.clone(), other });
            }
            add(write, tool, look, definition, now).await?;
            Ok(tell(write, tool, now).await?)
        }
    }
}

async fn keep_version(
    write: &mut Write<'_>,
    tool: &ToolRow,
    definition: &str,
    now: i64,
) -> Result<(), StoreError> {
    let (name, hash) = (tool.name.as_str(), tool.hash.to_string());
    let known = sqlx::query(VERSION).bind(name).bind(&hash).fetch_optional(write.connection().await?).await?;
    if known.is_none() {
        let keep = sqlx::query(ADD_VERSION).bind(name).bind(hash).bind(definition).bind(now);
        keep.execute(write.connection().await?).await?;
    }
    Ok(())
}

/// Lets go of old versions, of which a server could make more than a disk holds.
// ATTACK(endless-versions)
async fn forget_old_versions(write: &mut Write<'_>, name: &ToolName) -> Result<(), StoreError> {
    let rows = sqlx::query(NEWEST_FIRST).bind(name.as_str());
    let rows = rows.fetch_all(write.connection().await?).await?;
    if rows.len() <= MOST_VERSIONS {
        return Ok(());
    }
    let listed = sqlx::query(STATE).bind(name.as_str()).fetch_optional(write.connection().await?).await?;
    let Some(listed) = listed.as_ref().map(tool_state).transpose()? else { return Ok(()) };
    let pinned = write.stances().await?.of(name).pin.map(|pin| pin.hash);
    // The oldest first: the database counts those that are newer.
    for row in rows.iter().skip(MOST_VERSIONS).rev() {
        let hash = digest(row, "hash")?;
        if hash != listed.hash && Some(hash) != pinned {
            let remove = sqlx::query(REMOVE_VERSION).bind(name.as_str()).bind(hash.to_string());
            remove.execute(write.connection().await?).await?;
        }
    }
    Ok(())
}

async fn suspend(write: &mut Write<'_>, tool: &ToolRow, row: &ToolState, now: i64) -> Result<(), StoreError> {
    let suspend = sqlx::query(SET_STATUS).bind(tool.name.as_str()).bind(ToolStatus::Suspended.as_str());
    suspend.execute(write.connection().await?).await?;
    let body = json!({ "tool": tool.name, "pinned": row.hash, "found": tool.hash });
    write.append(now, "tool.suspended", body).await?;
    Ok(())
}

async fn add(
    write: &mut Write<'_>,
    tool: &ToolRow,
    look: String,
    definition: String,
    now: i64,
) -> Result<(), StoreError> {
    sqlx::query(ADD)
        .bind(tool.name.as_str())
        .bind(look)
        .bind(tool.category.as_str())
        .bind(tool.input_schema.to_string())
        .bind(tool.output_schema.to_string())
        .bind(&tool.auth)
        .bind(i64::from(tool.requires_approval))
        .bind(i64::from(tool.is_dangerous))
        .bind(tool.status.as_str())
        .bind(tool.egress.as_str())
        .bind(tool.safety.as_str())
        .bind(tool.hash.to_string())
        .bind(tool.trust.as_str())
        .bind(definition)
        .bind(now)
        .bind(tool.source.as_ref().map_or("", SourceName::as_str))
        .execute(write.connection().await?)
        .await?;
    Ok(())
}

async fn change(
    write: &mut Write<'_>,
    tool: &ToolRow,
    definition: String,
    now: i64,
) -> Result<(), StoreError> {
    sqlx::query(CHANGE)
        .bind(tool.name.as_str())
        .bind(tool.category.as_str())
        .bind(tool.input_schema.to_string())
        .bind(tool.output_schema.to_string())
        .bind(&tool.auth)
        .bind(i64::from(tool.requires_approval))
        .bind(i64::from(tool.is_dangerous))
        .bind(tool.egress.as_str())
        .bind(tool.safety.as_str())
        .bind(tool.hash.to_string())
        .bind(tool.trust.as_str())
        .bind(definition)
        .bind(now)
        .bind(tool.source.as_ref().map_or("", SourceName::as_str))
        .execute(write.connection().await?)
        .await?;
    Ok(())
}

async fn tell(write: &mut Write<'_>, tool: &ToolRow, now: i64) -> Result<(), StoreError> {
    let body = json!({
        "tool": tool.name,
        "hash": tool.hash,
        "category": tool.category,
        "safety": tool.safety,
        "egress": tool.egress,
        "trust": tool.trust,
        "requires_approval": tool.requires_approval || tool.egress == EgressClass::Write,
        "source": tool.source,
    });
    write.append(now, "tool.registered", body).await?;
    Ok(())
}

fn tool_name(row: &AnyRow) -> Result<ToolName, StoreError> {
    parsed(row, "name", |text| ToolName::parse(text).ok())
}

fn source(row: &AnyRow) -> Result<Option<SourceName>, StoreError> {
    parsed(row, "source", |text| match text {
        "" => Some(None),
        text => SourceName::parse(text).ok().map(Some),
    })
}

fn tool_state(row: &AnyRow) -> Result<ToolState, StoreError> {
    Ok(ToolState {
        requires_approval: flag(row, "requires_approval")?,
        status: parsed(row, "status", ToolStatus::parse)?,
        category: parsed(row, "category", Category::parse)?,
        auth: row.try_get("auth")?,
        is_dangerous: flag(row, "is_dangerous")?,
        egress: parsed(row, "egress", EgressClass::parse)?,
        safety: parsed(row, "safety", SafetyClass::parse)?,
        hash: digest(row, "hash")?,
        trust: parsed(row, "trust", TrustLabel::parse)?,
        source: source(row)?,
    })
}

fn tool_row(row: &AnyRow) -> Result<ToolRow, StoreError> {
    Ok(ToolRow {
        name: tool_name(row)?,
        category: parsed(row, "category", Category::parse)?,
        input_schema: json_of(row, "input_schema")?,
        output_schema: json_of(row, "output_schema")?,
        auth: row.try_get("auth")?,
        requires_approval: flag(row, "requires_approval")?,
        is_dangerous: flag(row, "is_dangerous")?,
        status: parsed(row, "status", ToolStatus::parse)?,
        egress: parsed(row, "egress", EgressClass::parse)?,
        safety: parsed(row, "safety", SafetyClass::parse)?,
        hash: digest(row, "hash")?,
        trust: parsed(row, "trust", TrustLabel::parse)?,
        definition: json_of(row, "definition")?,
        source: source(row)?,
    })
}
