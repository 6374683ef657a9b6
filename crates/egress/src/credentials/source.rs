//! Fetches secrets from where they are kept, outside every sandbox.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::Target;
use linux_keyutils::{KeyRing, KeyRingIdentifier};
use zeroize::Zeroizing;

use super::Secret;
use crate::events::Denial;
use crate::resolve::Resolver;
use crate::tls::Tls;

/// Where a secret is to be had.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// It was had already: from the environment of the gate.
    Value(Secret),
    /// The text of a file, without the line's end. It is read anew for each request, so that a change counts.
    File(PathBuf),
    /// A key of type `user` in a keyring of the kernel, by its description: the session's, or else the user's own.
    Keyring(String),
    /// A field of an entry in the [`Vault`].
    Vault {
        /// Such as `secret/data/api`.
        path: String,
        /// Such as `token`.
        field: String,
    },
    /// What the gate got when it signed in. Before it has, nothing is put in.
    SignIn(HeldSignIn),
}

/// A sign-in as the source of a secret.
#[derive(Clone, Debug)]
pub struct HeldSignIn(pub(crate) Arc<crate::oauth::Held>);

/// A store of secrets that speaks as HashiCorp's Vault does.
#[derive(Clone, Debug)]
pub struct Vault {
    /// Where it is. It is spoken to by TLS alone.
    pub address: Target,
    /// What it is told to know us by: had already, or in a file.
    pub token: VaultToken,
}

/// Where the token for a [`Vault`] is to be had.
#[derive(Clone, Debug)]
pub enum VaultToken {
    /// It was had already.
    Value(Secret),
    /// The text of a file.
    File(PathBuf),
}

const MAX_SECRET: u64 = 64 * 1024;
/// What a vault said is asked again after this.
const KEPT: Duration = Duration::from_secs(60);

/// Fetches, and keeps for a while what a vault said.
pub(super) struct Fetcher {
    vault: Option<Vault>,
    kept: Mutex<HashMap<usize, (Instant, Secret)>>,
}

impl Fetcher {
    pub(super) fn new(vault: Option<Vault>) -> Fetcher {
        Fetcher { vault, kept: Mutex::default() }
    }

    /// The secret of the credential with this number.
    pub(super) async fn fetch(
        &self,
        number: usize,
        source: &SecretSource,
        resolver: &Arc<Resolver>,
        tls: &Tls,
    ) -> Result<Secret, Denial> {
        if !matches!(source, SecretSource::Vault { .. }) {
            return self.fetch_anew(source, resolver, tls).await;
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some((_, secret)) = kept.filter(|(at, _)| at.elapsed() < KEPT) {
            return Ok(secret);
        }
        let secret = self.fetch_anew(source, resolver, tls).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(number, (Instant::now(), secret.clone()));
        Ok(secret)
    }

    /// A secret as it is now.
    pub(super) async fn fetch_anew(
        &self,
        source: &SecretSource,
        resolver: &Arc<Resolver>,
        tls: &Tls,
    ) -> Result<Secret, Denial> {
        match source {
            SecretSource::Value(secret) => Ok(secret.clone()),
            SecretSource::File(path) => read_file(path).await,
            SecretSource::Keyring(name) => read_key(name).await,
            // It depends on the request: whoever puts it in asks for it.
            SecretSource::SignIn(_) => Err(Denial::NoCredential),
            SecretSource::Vault { path, field } => {
                let vault = self.vault.as_ref().ok_or(Denial::NoCredential)?;
                let token = match &vault.token {
                    VaultToken::Value(token) => token.clone(),
                    VaultToken::File(path) => read_file(path).await?,
                };
                let asking = super::vault::ask(&vault.address, &token, path, field, resolver, tls);
                let asked = tokio::time::timeout(Duration::from_secs(10), asking).await;
                asked.ok().flatten().ok_or(Denial::NoCredential)
            }
        }
    }
}

async fn read_file(path: &Path) -> Result<Secret, Denial> {
    let path = path.to_owned();
    read_elsewhere(move || {
        let mut bytes = Zeroizing::new(Vec::new());
        std::fs::File::open(path).ok()?.take(MAX_SECRET).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    })
    .await
}

async fn read_key(name: &str) -> Result<Secret, Denial> {
    let name = name.to_owned();
    read_elsewhere(move || {
        [KeyRingIdentifier::Session, KeyRingIdentifier::User].into_iter().find_map(|ring| {
            let key = KeyRing::from_special_id(ring, false).ok()?.search(&name).ok()?;
            key.read_to_vec().ok().map(Zeroizing::new)
        })
    })
    .await
}

/// Where nobody waits for it. What is had is text without the line's end, and not nothing.
async fn read_elsewhere(
    read: impl FnOnce() -> Option<Zeroizing<Vec<u8>>> + Send + 'static,
) -> Result<Secret, Denial> {
    let bytes = tokio::task::spawn_blocking(read).await.ok().flatten().ok_or(Denial::NoCredential)?;
    match str::from_utf8(&bytes).map(|text| text.trim_end_matches(['\r', '\n'])) {
        Ok(text) if !text.is_empty() => Ok(Secret::new(text.to_owned())),
        _ => Err(Denial::NoCredential),
    }
}
