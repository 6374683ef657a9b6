//! What operators prove themselves with besides their credential, and how often somebody may try.
//!
//! It compares no password and checks no signature: it keeps what is compared, and says whose it is.
//!
//! # Invariants
//! - A password or a passkey is somebody's if the signed ledger tells so. The ledger has the digest of what a password is
//!   compared with, so that a row that was put in its place is nobody's.
//! - A try is on record before it is made: those made at once are counted like those made one after the other.

use contract::{Digest, OperatorName};
use serde_json::{Value, json};
use sqlx::Row;
use thiserror::Error;

use crate::error::StoreError;
use crate::open::Store;
use crate::records::MOST_CHANGES;

const SET_PASSWORD: &str = "INSERT INTO operator_passwords (operator, verifier, set_at) VALUES ($1, $2, $3) \
    ON CONFLICT (operator) DO UPDATE SET verifier = excluded.verifier, set_at = excluded.set_at";
const PASSWORD: &str = "SELECT verifier FROM operator_passwords WHERE operator = $1";
const ADD_PASSKEY: &str = "INSERT INTO passkey_uses (id, operator, uses) VALUES ($1, $2, $3)";
const REMOVE_PASSKEY: &str = "DELETE FROM passkey_uses WHERE id = $1";
const USE_PASSKEY: &str =
    "UPDATE passkey_uses SET uses = $2 WHERE id = $1 AND (uses < $2 OR (uses = 0 AND $3 = 0))";
const FORGET_OLD: &str = "DELETE FROM sign_in_failures WHERE tried_at <= $1";
const FAILURES: &str = "SELECT COUNT(*) AS of_all, CAST(COALESCE(SUM(CASE WHEN account = $1 THEN 1 ELSE 0 END), 0) AS BIGINT) AS of_one, \
    COALESCE(MIN(CASE WHEN account = $1 THEN tried_at END), 0) AS first_of_one, COALESCE(MIN(tried_at), 0) AS first \
    FROM sign_in_failures WHERE CASE WHEN substr(account, 1, 1) = '?' THEN 1 ELSE 0 END = $2";
const FAIL: &str = "INSERT INTO sign_in_failures (account, tried_at) VALUES ($1, $2)";
const SUCCEED: &str = "DELETE FROM sign_in_failures WHERE account = $1";

/// For how long a failed try counts, in milliseconds.
pub const TRIES_COUNT_FOR: i64 = 15 * 60 * 1000;
/// How many failed tries there can be in that time for one account.
pub const MOST_TRIES: i64 = 5;
/// And for all operators together; as many for all who are none.
pub const MOST_TRIES_OF_ALL: i64 = 50;
/// How many passkeys somebody can have.
const MOST_PASSKEYS: usize = 20;

/// A key of somebody's authenticator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    /// By which the authenticator finds it, in base64url.
    pub id: String,
    /// Whose it is.
    pub operator: OperatorName,
    /// Which kind of signature it makes, by the number that COSE gives it.
    pub algorithm: i64,
    /// The key, as its kind writes it, in base64url.
    pub public_key: String,
    /// What its owner calls it.
    pub label: String,
    /// Since when it is theirs, in milliseconds since 1970.
    pub added_at: i64,
}

/// Why nothing was changed about what somebody proves themselves with.
#[derive(Debug, Error)]
pub enum PresenceError {
    /// There is no such operator.
    #[error("there is no operator `{name}`")]
    Unknown {
        /// Which name.
        name: OperatorName,
    },
    /// The authenticator is known already.
    #[error("this passkey is in use already")]
    Taken,
    /// They have enough.
    #[error("{MOST_PASSKEYS} passkeys are all that somebody can have: remove one first")]
    TooMany,
    /// They have changed so much already.
    #[error("passwords and passkeys are set {MOST_CHANGES} times a day at most")]
    TooOften,
    /// There is no such passkey of theirs.
    #[error("there is no such passkey")]
    NoPasskey,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why somebody may not try now.
#[derive(Debug, Error)]
pub enum TryError {
    /// Too many failed.
    #[error("too many tries to sign in have failed")]
    TooMany {
        /// In how many milliseconds one counts no more.
        again_in: i64,
    },
    /// Too many have failed under names that are nobody's.
    #[error("too many tries to sign in have failed under names that are nobody's")]
    TooManyUnknown,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whose a try is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account<'a> {
    /// An operator's.
    Known(&'a str),
    /// Nobody's: somebody has made the name up.
    Unknown(&'a str),
}

/// What an operator did at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorEvent {
    /// They came in.
    SignedIn,
    /// They went.
    SignedOut,
    /// Somebody was not let in.
    Refused,
    /// They had a link made, by which they can come in.
    LinkMade,
}

impl Store {
    /// Gives an operator another password; `verifier` is what it is compared with.
    pub async fn set_password(
        &self,
        name: &OperatorName,
        verifier: &str,
        now: i64,
    ) -> Result<(), PresenceError> {
        let mut write = self.write().await?;
        let roster = write.roster().await?;
        if roster.role_of(name).is_none() {
            return Err(PresenceError::Unknown { name: name.clone() });
        }
        if roster.changes_too_often(name, now) {
            return Err(PresenceError::TooOften);
        }
        let set = sqlx::query(SET_PASSWORD).bind(name.as_str()).bind(verifier).bind(now);
        set.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let body = json!({ "operator": name, "verifier": Digest::of(verifier.as_bytes()) });
        write.append(now, "operator.password", body).await?;
        Ok(write.commit().await?)
    }

    /// What an operator's password is compared with, if they have one.
    pub async fn password_of(&self, name: &OperatorName) -> Result<Option<String>, StoreError> {
        let roster = self.roster().await?;
        let Some(told) = roster.role_of(name).and_then(|_| roster.password_of(name)) else { return Ok(None) };
        let row = sqlx::query(PASSWORD).bind(name.as_str()).fetch_optional(&mut *self.read().await?).await?;
        let verifier = row.map(|row| row.try_get::<String, _>("verifier")).transpose()?;
        // ATTACK(forged-password): by what the signed ledger tells, not by the table.
        Ok(verifier.filter(|verifier| Digest::of(verifier.as_bytes()) == told))
    }

    /// Adds a key of somebody's authenticator.
    pub async fn add_passkey(&self, passkey: &Passkey, uses: i64) -> Result<(), PresenceError> {
        let mut write = self.write().await?;
        let roster = write.roster().await?;
        let name = &passkey.operator;
        if roster.role_of(name).is_none() {
            return Err(PresenceError::Unknown { name: name.clone() });
        }
        if roster.passkey(&passkey.id).is_some() {
            return Err(PresenceError::Taken);
        }
        if roster.passkeys_of(name).count() >= MOST_PASSKEYS {
            return Err(PresenceError::TooMany);
        }
        if roster.changes_too_often(name, passkey.added_at) {
            return Err(PresenceError::TooOften);
        }
        let clear = sqlx::query(REMOVE_PASSKEY).bind(&passkey.id);
        clear.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let add = sqlx::query(ADD_PASSKEY).bind(&passkey.id).bind(name.as_str()).bind(uses);
        add.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let body = json!({ "operator": name, "id": passkey.id, "algorithm": passkey.algorithm,
            "public_key": passkey.public_key, "label": passkey.label });
        write.append(passkey.added_at, "operator.passkey", body).await?;
        Ok(write.commit().await?)
    }

    /// Takes one away, at once.
    pub async fn remove_passkey(&self, id: &str, of: &OperatorName, now: i64) -> Result<(), PresenceError> {
        let mut write = self.write().await?;
        let roster = write.roster().await?;
        if roster.passkey(id).is_none_or(|passkey| passkey.operator != *of) {
            return Err(PresenceError::NoPasskey);
        }
        let remove = sqlx::query(REMOVE_PASSKEY).bind(id);
        remove.execute(write.connection().await?).await.map_err(StoreError::from)?;
        write.append(now, "operator.passkey_removed", json!({ "operator": of, "id": id })).await?;
        Ok(write.commit().await?)
    }

    /// The passkey of an id, while it is an operator's.
    pub async fn passkey(&self, id: &str) -> Result<Option<Passkey>, StoreError> {
        let roster = self.roster().await?;
        let known = roster.passkey(id).filter(|passkey| roster.role_of(&passkey.operator).is_some());
        Ok(known.cloned())
    }

    /// An operator's passkeys.
    pub async fn passkeys_of(&self, name: &OperatorName) -> Result<Vec<Passkey>, StoreError> {
        Ok(self.roster().await?.passkeys_of(name).cloned().collect())
    }

    /// Notes what an authenticator says of how often it was used. Not if it says less than before: then it was copied.
    pub async fn use_passkey(&self, id: &str, uses: i64) -> Result<bool, StoreError> {
        let mut write = self.write().await?;
        let count = sqlx::query(USE_PASSKEY).bind(id).bind(uses).bind(uses);
        let counted = count.execute(write.connection().await?).await?.rows_affected();
        write.commit().await?;
        Ok(counted == 1)
    }

    /// Lets somebody try to sign in, unless too many tries have failed. It counts as failed until it has succeeded.
    pub async fn try_to_sign_in(&self, account: Account<'_>, now: i64) -> Result<(), TryError> {
        // ATTACK(made-up-names): what is tried under names that are nobody's is counted apart. No name begins so.
        let (account, unknown) = match account {
            Account::Known(name) => (name.to_owned(), 0_i64),
            Account::Unknown(name) => (format!("?{name}"), 1),
        };
        let mut write = self.write().await?;
        let old = sqlx::query(FORGET_OLD).bind(now.saturating_sub(TRIES_COUNT_FOR));
        old.execute(write.connection().await?).await.map_err(StoreError::from)?;
        let failures =
            sqlx::query(FAILURES).bind(&account).bind(unknown).fetch_one(write.connection().await?).await;
        let failures = failures.map_err(StoreError::from)?;
        let number = |column: &str| failures.try_get::<i64, _>(column).map_err(StoreError::from);
        let first = if number("of_one")? >= MOST_TRIES {
            Some(number("first_of_one")?)
        } else if unknown == 1 && number("of_all")? >= MOST_TRIES_OF_ALL {
            return Err(TryError::TooManyUnknown);
        } else if number("of_all")? >= MOST_TRIES_OF_ALL {
            Some(number("first")?)
        } else {
            None
        };
        if let Some(first) = first {
            let again_in = first.saturating_add(TRIES_COUNT_FOR).saturating_sub(now).max(1000);
            return Err(TryError::TooMany { again_in });
        }
        let fail = sqlx::query(FAIL).bind(account).bind(now);
        fail.execute(write.connection().await?).await.map_err(StoreError::from)?;
        Ok(write.commit().await?)
    }

    /// Forgets the tries of somebody who has succeeded.
    pub async fn has_signed_in(&self, account: &str) -> Result<(), StoreError> {
        let mut write = self.write().await?;
        sqlx::query(SUCCEED).bind(account).execute(write.connection().await?).await?;
        write.commit().await
    }

    /// Tells the ledger who came in or went, or was not let in.
    pub async fn record_at_the_door(
        &self,
        event: DoorEvent,
        body: Value,
        now: i64,
    ) -> Result<(), StoreError> {
        let kind = match event {
            DoorEvent::SignedIn => "operator.signed_in",
            DoorEvent::SignedOut => "operator.signed_out",
            DoorEvent::Refused => "operator.sign_in_refused",
            DoorEvent::LinkMade => "operator.link_made",
        };
        let mut write = self.write().await?;
        write.append(now, kind, body).await?;
        write.commit().await
    }
}
