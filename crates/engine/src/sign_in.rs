//! How operators come in without their credential: by password, or by a key of their authenticator.
//!
//! Whoever has proved themselves so gets a credential that is good in this process alone, until it ends, and as long as
//! what they proved themselves with is theirs.
//!
//! # Invariants
//! - A try is counted before it is made; too many for one name, or in all, and none is made for a while.
//! - Who came in, and who was not let in, is in the ledger.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::{ApprovalId, Digest, OperatorName};
use serde_json::json;
use store::{Account, DoorEvent, FindError, OperatorRow, Passkey, PresenceError, TryError};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::operator::{Credential, CredentialError};
use crate::password::{Password, PasswordError};

/// How many passwords are hashed at once.
const AT_ONCE: usize = 2;
/// How often one person can be in at once.
const MOST_VOUCHED: usize = 32;

/// Who is in without their credential.
pub(crate) struct Vouched {
    credentials: Mutex<HashMap<Digest, Voucher>>,
    hashing: Semaphore,
    /// How long the last comparison took, in microseconds.
    takes: AtomicU64,
}

struct Voucher {
    name: OperatorName,
    by: Proof,
    /// What they had when they came in; something else means that they have to come in again.
    basis: Digest,
    made_at: i64,
}

/// How somebody proved that they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By a link, which takes the credential.
    Link,
    /// By their password.
    Password,
    /// By a key of their authenticator, which has this id.
    Passkey(String),
}

impl Proof {
    /// As the ledger has it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Proof::Link => "link",
            Proof::Password => "password",
            Proof::Passkey(_) => "passkey",
        }
    }
}

/// Somebody who came in.
#[derive(Debug)]
pub struct SignedIn {
    /// Who.
    pub operator: OperatorRow,
    /// By which they are known from now on, in this process.
    pub credential: Credential,
}

/// Why somebody was not let in.
#[derive(Debug, Error)]
pub enum SignInRefused {
    /// It is not they, or they are nobody.
    #[error("that is nobody's name and password")]
    NotThem,
    /// Too many tries have failed.
    #[error("too many tries to sign in have failed; the next is possible in {} minutes", (again_in + 59_999) / 60_000)]
    TooMany {
        /// In how many milliseconds.
        again_in: i64,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why nothing was changed about what somebody proves themselves with.
#[derive(Debug, Error)]
pub enum ProofError {
    /// Whoever asks is no operator.
    #[error("this credential is nobody's")]
    NotAnOperator,
    /// The password will not do.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// It cannot be so.
    #[error(transparent)]
    Presence(#[from] PresenceError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Default for Vouched {
    fn default() -> Vouched {
        Vouched {
            credentials: Mutex::default(),
            hashing: Semaphore::new(AT_ONCE),
            takes: AtomicU64::new(50_000),
        }
    }
}

impl Engine {
    /// Lets somebody in who knows the password of that name.
    pub async fn sign_in_by_password(&self, name: &str, typed: Password) -> Result<SignedIn, SignInRefused> {
        let known = match OperatorName::parse(name) {
            Ok(name) => self.present(&name).await?,
            Err(_) => None,
        };
        // ATTACK(guessed-password): counted first, so that many at once are as many as one after the other.
        match self.count_try(name, known.is_some()).await {
            Err(TryError::TooManyUnknown) => {
                // ATTACK(made-up-names): they use up nobody's tries. It takes as long as if they were somebody's.
                tokio::time::sleep(Duration::from_micros(self.inner.vouched.takes.load(Ordering::Relaxed)))
                    .await;
                return Err(SignInRefused::NotThem);
            }
            Err(TryError::TooMany { again_in }) => return Err(SignInRefused::TooMany { again_in }),
            Err(TryError::Store(error)) => return Err(EngineError::from(error).into()),
            Ok(()) => {}
        }
        let verifier = match &known {
            Some(operator) => {
                self.inner.store.password_of(&operator.name).await.map_err(EngineError::from)?
            }
            None => None,
        };
        // ATTACK(old-password-in-the-meantime): a session rests on what was compared. Comparing takes a while, in which
        // they may have got another password.
        let basis = known.as_ref().zip(verifier.as_deref()).map(|(operator, of)| basis(operator, of));
        let fits = self.hashing(move || typed.fits(verifier.as_deref())).await?;
        match known.zip(basis).filter(|_| fits) {
            Some((operator, basis)) => self.let_in(operator, Proof::Password, basis).await,
            None => self.turn_away(name, "password").await,
        }
    }

    /// Lets somebody in whose authenticator has signed: whoever calls this has checked the signature by the key of this
    /// passkey. `uses` is how often it says that it was used.
    pub async fn sign_in_by_passkey(&self, passkey: &Passkey, uses: i64) -> Result<SignedIn, SignInRefused> {
        let store = &self.inner.store;
        let (id, name) = (&passkey.id, &passkey.operator);
        // ATTACK(forged-passkey): one that was used less often than it was is a copy.
        let counted = store.use_passkey(id, uses).await.map_err(EngineError::from)?;
        match self.present(name).await?.filter(|_| counted) {
            Some(operator) => {
                let basis = basis(&operator, &passkey.public_key);
                self.let_in(operator, Proof::Passkey(id.clone()), basis).await
            }
            None => self.turn_away(name.as_str(), "passkey").await,
        }
    }

    /// Counts a try to come in by password.
    async fn count_try(&self, name: &str, known: bool) -> Result<(), TryError> {
        // Not every store can keep every character.
        let account: String = name.chars().filter(|c| *c != '\0').take(64).collect();
        let account = if known { Account::Known(&account) } else { Account::Unknown(&account) };
        self.inner.store.try_to_sign_in(account, self.now()).await
    }

    /// Tells the ledger that somebody was not let in.
    pub async fn turn_away<T>(&self, account: &str, by: &'static str) -> Result<T, SignInRefused> {
        // What was typed as a name may be a password: it is told only if it is somebody's.
        let name = OperatorName::parse(account).ok();
        let known = match &name {
            Some(name) => {
                self.inner.store.operator(name).await.map_err(EngineError::from)?.map(|row| row.name)
            }
            None => None,
        };
        let body = json!({ "operator": known, "by": by });
        let told = self.inner.store.record_at_the_door(DoorEvent::Refused, body, self.now()).await;
        told.map_err(EngineError::from)?;
        Err(SignInRefused::NotThem)
    }

    /// Tells the ledger that somebody has a link made for them, before it is.
    pub async fn will_make_link(&self, credential: &Credential) -> Result<(), EngineError> {
        let Some(operator) = self.operator_of(credential).await? else { return Ok(()) };
        let body = json!({ "operator": operator.name });
        Ok(self.inner.store.record_at_the_door(DoorEvent::LinkMade, body, self.now()).await?)
    }

    /// Tells the ledger that somebody came in by a link.
    pub async fn came_by_link(&self, credential: &Credential) -> Result<(), EngineError> {
        let Some(operator) = self.operator_of(credential).await? else { return Ok(()) };
        let body = json!({ "operator": operator.name, "by": Proof::Link.as_str() });
        Ok(self.inner.store.record_at_the_door(DoorEvent::SignedIn, body, self.now()).await?)
    }

    /// Ends what somebody came in with, and tells the ledger that they went.
    pub async fn sign_out(&self, credential: &Credential) -> Result<(), EngineError> {
        let operator = self.operator_of(credential).await?;
        self.vouched().remove(&credential.digest());
        let Some(operator) = operator else { return Ok(()) };
        let body = json!({ "operator": operator.name });
        Ok(self.inner.store.record_at_the_door(DoorEvent::SignedOut, body, self.now()).await?)
    }

    /// Forgets what somebody came in with, when its session has ended by itself.
    pub fn forget(&self, credential: &Credential) {
        self.vouched().remove(&credential.digest());
    }

    /// Whether a yes to a question takes a fresh proof that whoever gives it is there.
    pub async fn takes_presence(&self, id: &ApprovalId) -> Result<bool, EngineError> {
        let row = match self.inner.store.find_approval(id.as_str()).await {
            Ok(row) => row,
            Err(FindError::Store(error)) => return Err(error.into()),
            // Nothing is decided of what there is not.
            Err(_) => return Ok(false),
        };
        let call = self.inner.store.call(&row.call).await?;
        // Of what nobody can tell, the worst is supposed.
        Ok(call.is_none_or(|call| call.safety.is_grave()))
    }

    /// Gives somebody another password. Whoever came in by the old one has to come in again.
    pub async fn set_password(&self, of: &Credential, password: Password) -> Result<(), ProofError> {
        let operator = self.operator_of(of).await?.ok_or(ProofError::NotAnOperator)?;
        let verifier = self.hashing(move || password.verifier()).await??;
        Ok(self.inner.store.set_password(&operator.name, &verifier, self.now()).await?)
    }

    /// The passkey of an id.
    pub async fn passkey(&self, id: &str) -> Result<Option<Passkey>, EngineError> {
        Ok(self.inner.store.passkey(id).await?)
    }

    /// Somebody's passkeys.
    pub async fn passkeys(&self, of: &Credential) -> Result<Vec<Passkey>, ProofError> {
        let operator = self.operator_of(of).await?.ok_or(ProofError::NotAnOperator)?;
        Ok(self.inner.store.passkeys_of(&operator.name).await.map_err(EngineError::from)?)
    }

    /// Adds a key of somebody's authenticator.
    pub async fn add_passkey(
        &self,
        of: &Credential,
        passkey: Passkey,
        uses: i64,
    ) -> Result<Passkey, ProofError> {
        let operator = self.operator_of(of).await?.ok_or(ProofError::NotAnOperator)?;
        let passkey = Passkey { operator: operator.name, added_at: self.now(), ..passkey };
        self.inner.store.add_passkey(&passkey, uses).await?;
        Ok(passkey)
    }

    /// Takes one away, at once.
    pub async fn remove_passkey(&self, of: &Credential, id: &str) -> Result<(), ProofError> {
        let operator = self.operator_of(of).await?.ok_or(ProofError::NotAnOperator)?;
        Ok(self.inner.store.remove_passkey(id, &operator.name, self.now()).await?)
    }

    /// Who is known by a credential of this process.
    pub(crate) async fn vouched_for(&self, digest: &Digest) -> Result<Option<OperatorRow>, EngineError> {
        let voucher = self
            .vouched()
            .get(digest)
            .map(|voucher| (voucher.name.clone(), voucher.by.clone(), voucher.basis));
        let Some((name, by, basis)) = voucher else { return Ok(None) };
        let Some(operator) = self.present(&name).await? else { return Ok(None) };
        // ATTACK(session-outlives-its-proof): what it was opened with must still be theirs.
        Ok((self.basis_of(&operator, &by).await? == Some(basis)).then_some(operator))
    }

    /// Lets somebody in on what they have proved themselves with, as long as that is still theirs.
    async fn let_in(
        &self,
        operator: OperatorRow,
        by: Proof,
        basis: Digest,
    ) -> Result<SignedIn, SignInRefused> {
        let now_present = self.present(&operator.name).await?;
        let still = match &now_present {
            Some(operator) => self.basis_of(operator, &by).await? == Some(basis),
            None => false,
        };
        if !still {
            return self.turn_away(operator.name.as_str(), by.as_str()).await;
        }
        let failed = |error| match error {
            CredentialError::Random(error) => EngineError::Random(error),
            _ => EngineError::Missing,
        };
        let credential = Credential::random().map_err(failed)?;
        let now = self.now();
        let body = json!({ "operator": operator.name, "by": by.as_str() });
        let store = &self.inner.store;
        store.record_at_the_door(DoorEvent::SignedIn, body, now).await.map_err(EngineError::from)?;
        if by == Proof::Password {
            store.has_signed_in(operator.name.as_str()).await.map_err(EngineError::from)?;
        }
        let voucher = Voucher { name: operator.name.clone(), by, basis, made_at: now };
        let mut vouched = self.vouched();
        // ATTACK(pushed-out): whoever comes in often ends sessions of their own.
        let own = |voucher: &Voucher| voucher.name == operator.name;
        while vouched.values().filter(|voucher| own(voucher)).count() >= MOST_VOUCHED {
            let theirs = vouched.iter().filter(|(_, voucher)| own(voucher));
            let oldest = theirs.min_by_key(|(_, voucher)| voucher.made_at).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { break };
            vouched.remove(&oldest);
        }
        vouched.insert(credential.digest(), voucher);
        drop(vouched);
        Ok(SignedIn { operator, credential })
    }

    async fn present(&self, name: &OperatorName) -> Result<Option<OperatorRow>, EngineError> {
        let operator = self.inner.store.operator(name).await?;
        Ok(operator.filter(|operator| operator.revoked_at.is_none()))
    }

    /// What a proof rests on.
    async fn basis_of(&self, operator: &OperatorRow, by: &Proof) -> Result<Option<Digest>, EngineError> {
        let store = &self.inner.store;
        let of = match by {
            Proof::Link => return Ok(Some(operator.credential)),
            Proof::Password => store.password_of(&operator.name).await?,
            Proof::Passkey(id) => store.passkey(id).await?.map(|passkey| passkey.public_key),
        };
        Ok(of.map(|of| basis(operator, &of)))
    }

    /// Beside the calls, and few at a time.
    async fn hashing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let _turn = self.inner.vouched.hashing.acquire().await.map_err(|_| EngineError::Missing)?;
        let began = Instant::now();
        let done = tokio::task::spawn_blocking(work).await.map_err(|_| EngineError::Missing);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.inner.vouched.takes.store(took, Ordering::Relaxed);
        done
    }

    fn vouched(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Voucher>> {
        // Nothing in here can be half done.
        self.inner.vouched.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session rests on: what its owner has proved to know or to have, and their credential.
fn basis(operator: &OperatorRow, of: &str) -> Digest {
    Digest::of(format!("{} {of}", operator.credential).as_bytes())
}
