//! What calls were asked and what they gave: sealed, opened for those inside who need it, and named where it stays.
//!
//! The ledger and the receipts name it by commitments that take the call's own key. They verify without it, before and
//! after it is gone. See `erase` for how it goes.
//!
//! # Invariants
//! - No private text, and no plain digest of one, is in any table but sealed.
//! - What is opened is what was recorded, or nothing is.

use contract::{CallId, Digest, ReceiptBody};
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::calls::{CallRow, call_row};
use crate::error::StoreError;
use crate::keys::Keys;
use crate::open::Store;
use crate::read::digest;
use crate::wrapping::{CallKey, Secrets};
use crate::write::Write;

const ADD_KEY: &str =
    "INSERT INTO call_keys (call, wrapped, same_request, same_arguments) VALUES ($1, $2, $3, $4)";
const ADD: &str = "INSERT INTO private (call, kind, name, sealed, lookup) VALUES ($1, $2, $3, $4, $5)";
const KEY: &str = "SELECT wrapped FROM call_keys WHERE call = $1";
const SEALED: &str = "SELECT k.wrapped, p.sealed FROM private p JOIN call_keys k ON k.call = p.call \
    WHERE p.call = $1 AND p.kind = $2 AND p.name = ''";
const ARTIFACT: &str = "SELECT k.call, p.name, k.wrapped, p.sealed FROM private p \
    JOIN call_keys k ON k.call = p.call WHERE p.lookup = $1 AND p.kind = 'artifact' LIMIT 1";

/// What is kept of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was asked.
    Asked,
    /// What was answered.
    Result,
    /// What is answered since somebody found out what became of it.
    Found,
    /// What the tool gave, before it was cleaned.
    Raw,
    /// What was too large to answer.
    Artifact,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Asked => "asked",
            Kind::Result => "result",
            Kind::Found => "found",
            Kind::Raw => "raw",
            Kind::Artifact => "artifact",
        }
    }
}

/// By what the records that stay name a request and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) request: Digest,
    pub(crate) arguments: Digest,
}

impl Names {
    /// Commitments: they tell nothing without the call's key.
    pub(crate) fn committed(secrets: &Secrets) -> Names {
        let Secrets { key, request, arguments } = secrets;
        Names { request: key.commit("request", request), arguments: key.commit("arguments", arguments) }
    }

    /// As the row of a call has them.
    pub(crate) fn of(call: &CallRow) -> Names {
        Names { request: call.request, arguments: call.arguments }
    }

    /// The digests themselves: what is known inside, and what calls of earlier versions are named by.
    fn plain(secrets: &Secrets) -> Names {
        Names { request: secrets.request, arguments: secrets.arguments }
    }

    pub(crate) fn are_of(&self, secrets: &Secrets) -> bool {
        *self == Names::committed(secrets) || *self == Names::plain(secrets)
    }
}

/// What was asked, opened as far as it can be.
pub(crate) struct Asked {
    pub(crate) names: Names,
    /// Nothing if it is erased, or was left out.
    pub(crate) arguments_json: Option<String>,
}

impl Store {
    /// What is answered about a call. Nothing if it has no end yet, or is erased.
    pub(crate) async fn opened_result(&self, id: &CallId) -> Result<Option<Value>, StoreError> {
        let found = self.opened(id, Kind::Found).await?;
        Ok(if found.is_some() { found } else { self.opened(id, Kind::Result).await? })
    }

    /// A value that is sealed of a call. Nothing if it is not there, or erased.
    pub(crate) async fn opened(&self, id: &CallId, kind: Kind) -> Result<Option<Value>, StoreError> {
        let query = sqlx::query(SEALED).bind(id.as_str()).bind(kind.as_str());
        let Some(row) = query.fetch_optional(&mut *self.read().await?).await? else { return Ok(None) };
        let secrets = self.keys().wrapping().unwrap(id, &bytes(&row, "wrapped")?)?;
        let text = secrets.key.open(id, kind.as_str(), "", &bytes(&row, "sealed")?)?;
        serde_json::from_slice(&text).map(Some).map_err(|_| StoreError::Unreadable { what: "private text" })
    }

    /// An artifact, by the digest of its content.
    pub(crate) async fn opened_artifact(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let lookup = self.keys().wrapping().lookup("artifact", digest.as_bytes());
        let row = sqlx::query(ARTIFACT).bind(lookup).fetch_optional(&mut *self.read().await?).await?;
        let Some(row) = row else { return Ok(None) };
        let id: &str = row.try_get("call")?;
        let id = CallId::parse(id).map_err(|_| StoreError::Unreadable { what: "call id" })?;
        let name: &str = row.try_get("name")?;
        let secrets = self.keys().wrapping().unwrap(&id, &bytes(&row, "wrapped")?)?;
        secrets.key.open(&id, Kind::Artifact.as_str(), name, &bytes(&row, "sealed")?).map(Some)
    }
}

/// A call as it was asked, from a row that has its key and what is sealed of it.
pub(crate) fn revealed_call(row: &AnyRow, keys: &Keys) -> Result<CallRow, StoreError> {
    let call = call_row(row)?;
    let Asked { names, arguments_json } = asked(row, keys, &call.id)?;
    Ok(CallRow {
        request: names.request,
        arguments: names.arguments,
        arguments_json: arguments_json.unwrap_or_default(),
        is_erased: row.try_get::<Option<Vec<u8>>, _>("wrapped")?.is_none(),
        ..call
    })
}

/// What was asked, from a row that has a call's names, its key and what is sealed of it.
pub(crate) fn asked(row: &AnyRow, keys: &Keys, call: &CallId) -> Result<Asked, StoreError> {
    let recorded = Names { request: digest(row, "request")?, arguments: digest(row, "arguments")? };
    let Some(wrapped) = row.try_get::<Option<Vec<u8>>, _>("wrapped")? else {
        return Ok(Asked { names: recorded, arguments_json: None });
    };
    let unreadable = || StoreError::Unreadable { what: "private text" };
    let secrets = keys.wrapping().unwrap(call, &wrapped)?;
    // What is shown is what was recorded, or nothing is.
    if !recorded.are_of(&secrets) {
        return Err(unreadable());
    }
    let open = |sealed: Vec<u8>| {
        let text = secrets.key.open(call, Kind::Asked.as_str(), "", &sealed)?;
        String::from_utf8(text).map_err(|_| unreadable())
    };
    let arguments_json = row.try_get::<Option<Vec<u8>>, _>("sealed")?.map(open).transpose()?;
    Ok(Asked { names: Names::plain(&secrets), arguments_json })
}

/// What is wrapped of a call. Nothing if it is erased.
pub(crate) async fn secrets_of(
    connection: &mut AnyConnection,
    keys: &Keys,
    id: &CallId,
) -> Result<Option<Secrets>, StoreError> {
    let row = sqlx::query(KEY).bind(id.as_str()).fetch_optional(connection).await?;
    row.map(|row| keys.wrapping().unwrap(id, &bytes(&row, "wrapped")?)).transpose()
}

/// A call, and what is wrapped of it, from its row.
pub(crate) fn call_and_secrets(
    row: &AnyRow,
    keys: &Keys,
    id: &CallId,
) -> Result<(CallRow, Option<Secrets>), StoreError> {
    let wrapped: Option<Vec<u8>> = row.try_get("wrapped")?;
    let secrets = wrapped.map(|wrapped| keys.wrapping().unwrap(id, &wrapped)).transpose()?;
    Ok((call_row(row)?, secrets))
}

/// Seals what was asked of a call, whose row is there.
pub(crate) fn keep_asked(
    write: &mut Write<'_>,
    keys: &Keys,
    call: &CallId,
    secrets: &Secrets,
    arguments_json: &str,
) -> Result<(), StoreError> {
    let wrapping = keys.wrapping();
    let add = sqlx::query(ADD_KEY)
        .bind(call.as_str())
        .bind(wrapping.wrap(call, secrets)?)
        .bind(wrapping.lookup("request", secrets.request.as_bytes()))
        .bind(wrapping.lookup("arguments", secrets.arguments.as_bytes()));
    write.say(add)?;
    keep(write, call, &secrets.key, Kind::Asked, "", arguments_json.as_bytes(), None)
}

/// Seals something of a call.
pub(crate) fn keep(
    write: &mut Write<'_>,
    call: &CallId,
    key: &CallKey,
    kind: Kind,
    name: &str,
    plain: &[u8],
    lookup: Option<String>,
) -> Result<(), StoreError> {
    let sealed = key.seal(call, kind.as_str(), name, plain)?;
    let add = sqlx::query(ADD).bind(call.as_str()).bind(kind.as_str()).bind(name);
    write.say(add.bind(sealed).bind(lookup))
}

/// A receipt that names what is private as the records of its call do.
pub(crate) fn committed(mut body: ReceiptBody, secrets: &Secrets, recorded: &Names) -> ReceiptBody {
    let plain = Names { request: body.request, arguments: body.arguments };
    // A receipt of something else is left as it is, and found out.
    if plain == Names::plain(secrets) && recorded.are_of(secrets) {
        (body.request, body.arguments) = (recorded.request, recorded.arguments);
    }
    if let Some(run) = &mut body.run {
        run.output = run.output.as_ref().map(|output| secrets.key.commit("output", output));
    }
    body
}

/// The description of a grant, which names the arguments as the records of its call do.
pub(crate) fn committed_authority(mut authority: Value, recorded: &Digest) -> Value {
    if let Some(arguments) = authority.get_mut("arguments") {
        *arguments = json!(recorded);
    }
    authority
}

fn bytes(row: &AnyRow, column: &'static str) -> Result<Vec<u8>, StoreError> {
    Ok(row.try_get(column)?)
}
