//! The key that wraps the keys of calls, and those keys themselves.
//!
//! What a call was asked and what it gave is kept under a key of its own. That key is kept wrapped by the gate's; without
//! it nobody reads the call, and dropping it is how a call is forgotten.
//!
//! # Invariants
//! - A key is never shown, is zeroed after use, and is wrapped for one call: a row moved to another call does not open.
//! - What is sealed is bound to its call, its kind and its name.
//! - Where records that stay name a private text, they name it by a hash that takes the call's own key: with the key
//!   gone, not even a guess can be checked.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use contract::{CallId, Digest};
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::file::place;
use crate::keys::{KeysError, hex};

const FILE: &str = "wrapping.key";
const NONCE: usize = 24;

type Secret = Zeroizing<[u8; 32]>;

/// The gate's own key. All gates on one store have the same.
#[derive(Clone)]
pub(crate) struct Wrapping(Arc<Secret>);

impl Wrapping {
    /// The key in a folder, if there is one.
    pub(crate) fn load(folder: &Path) -> Result<Option<Wrapping>, KeysError> {
        load(&Wrapping::path(folder))
    }

    /// A new one, which is nowhere yet.
    pub(crate) fn draft() -> Result<Wrapping, KeysError> {
        random().map(|secret| Wrapping(Arc::new(secret))).map_err(KeysError::Random)
    }

    /// Puts it into a folder, unless one is there already. The one that is there then.
    pub(crate) fn keep(&self, folder: &Path) -> Result<Wrapping, KeysError> {
        let path = Wrapping::path(folder);
        let text = Zeroizing::new(format!("{}\n", hex(self.0.as_slice())));
        let failed = |source| KeysError::File { what: "write", path: path.clone(), source };
        // Whoever was first has made the one that counts.
        place(&path, text.as_bytes(), 0o600).map_err(failed)?;
        load(&path)?.ok_or_else(|| KeysError::NotAKey { path: path.clone() })
    }

    /// Where it is kept.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// By which a store knows it.
    pub(crate) fn id(&self) -> String {
        blake3::Hash::from_bytes(blake3::derive_key("toolgate wrapping key id v1", self.0.as_slice()))
            .to_hex()
            .to_string()
    }

    /// A name for something private by which this gate finds it again, and nobody without the key.
    pub(crate) fn lookup(&self, what: &str, text: &[u8]) -> String {
        let key = Zeroizing::new(blake3::derive_key("toolgate lookup v1", self.0.as_slice()));
        keyed(&key, what, text).to_string()
    }

    /// Seals what the gate has to show a server.
    pub(crate) fn seal_sign_in(&self, server: &str, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        seal(&self.sign_ins(), server.as_bytes(), plain)
    }

    /// Opens it; nothing that was sealed for another server opens.
    pub(crate) fn open_sign_in(&self, server: &str, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        open(&self.sign_ins(), server.as_bytes(), sealed)
    }

    fn sign_ins(&self) -> Secret {
        Zeroizing::new(blake3::derive_key("toolgate sign-in seal v1", self.0.as_slice()))
    }

    pub(crate) fn wrap(&self, call: &CallId, secrets: &Secrets) -> Result<Vec<u8>, StoreError> {
        let Secrets { key, request, arguments } = secrets;
        let plain = [key.0.as_slice(), request.as_bytes(), arguments.as_bytes()].concat();
        seal(&self.0, &bound(call, "key", ""), &Zeroizing::new(plain))
    }

    pub(crate) fn unwrap(&self, call: &CallId, wrapped: &[u8]) -> Result<Secrets, StoreError> {
        let plain = Zeroizing::new(open(&self.0, &bound(call, "key", ""), wrapped)?);
        let [secret, request, arguments]: [[u8; 32]; 3] =
            plain.as_chunks().0.try_into().map_err(|_| unreadable())?;
        let digest = |bytes: [u8; 32]| Digest::parse(&hex(&bytes)).ok_or_else(unreadable);
        let key = CallKey(Zeroizing::new(secret));
        Ok(Secrets { key, request: digest(request)?, arguments: digest(arguments)? })
    }
}

impl fmt::Debug for Wrapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Wrapping(..)")
    }
}

/// What is wrapped of one call: its key, and the digests by which it is known inside.
pub(crate) struct Secrets {
    pub(crate) key: CallKey,
    pub(crate) request: Digest,
    pub(crate) arguments: Digest,
}

impl Secrets {
    /// For a new call.
    pub(crate) fn new(request: Digest, arguments: Digest) -> Result<Secrets, StoreError> {
        Ok(Secrets { key: CallKey::new()?, request, arguments })
    }
}

/// The key of one call.
pub(crate) struct CallKey(Secret);

impl CallKey {
    fn new() -> Result<CallKey, StoreError> {
        random().map(CallKey).map_err(|_| StoreError::NoRandom)
    }

    pub(crate) fn seal(
        &self,
        call: &CallId,
        kind: &str,
        name: &str,
        plain: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        seal(&self.part("toolgate call seal v1"), &bound(call, kind, name), plain)
    }

    pub(crate) fn open(
        &self,
        call: &CallId,
        kind: &str,
        name: &str,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        open(&self.part("toolgate call seal v1"), &bound(call, kind, name), sealed)
    }

    /// What stands for a digest in records that stay.
    pub(crate) fn commit(&self, what: &str, digest: &Digest) -> Digest {
        keyed(&self.salt(), what, digest.as_bytes())
    }

    /// With which what was committed to can be checked, and so guessed: for those who may read the call.
    pub(crate) fn salt(&self) -> Secret {
        self.part("toolgate call commitment v1")
    }

    fn part(&self, context: &str) -> Secret {
        Zeroizing::new(blake3::derive_key(context, self.0.as_slice()))
    }
}

/// The commitment to a digest under a salt: what a receipt holds. Anybody who has salt and digest can compute it.
pub(crate) fn keyed(salt: &[u8; 32], what: &str, message: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new_keyed(salt);
    hasher.update(what.as_bytes()).update(&[0]).update(message);
    let hash = hasher.finalize().to_hex();
    // Sixty-four digits of its own making.
    Digest::parse(hash.as_str()).unwrap_or_else(|| Digest::of(hash.as_bytes()))
}

fn bound(call: &CallId, kind: &str, name: &str) -> Vec<u8> {
    [call.as_str().as_bytes(), &[0], kind.as_bytes(), &[0], name.as_bytes()].concat()
}

fn seal(key: &Secret, bound: &[u8], plain: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|_| StoreError::NoRandom)?;
    let cipher = XChaCha20Poly1305::new(&Key::from(**key));
    let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: bound });
    let mut whole = nonce.to_vec();
    whole.extend(sealed.map_err(|_| unreadable())?);
    Ok(whole)
}

fn open(key: &Secret, bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or_else(unreadable)?;
    let cipher = XChaCha20Poly1305::new(&Key::from(**key));
    let opened = cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: bound });
    opened.map_err(|_| unreadable())
}

fn unreadable() -> StoreError {
    StoreError::Unreadable { what: "private text" }
}

fn random() -> Result<Secret, getrandom::Error> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(secret.as_mut())?;
    Ok(secret)
}

fn load(path: &Path) -> Result<Option<Wrapping>, KeysError> {
    let failed = |what, source| KeysError::File { what, path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", error)),
    };
    let mode = file.metadata().map_err(|error| failed("look at", error))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(128));
    file.take(128).read_to_string(&mut text).map_err(|error| failed("read", error))?;
    let hash = blake3::Hash::from_hex(text.trim_end());
    let secret = hash.map_err(|_| KeysError::NotAKey { path: path.to_owned() })?;
    Ok(Some(Wrapping(Arc::new(Zeroizing::new(*secret.as_bytes())))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapping() -> Wrapping {
        Wrapping::draft().unwrap()
    }

    fn call(number: u8) -> CallId {
        CallId::from_random([number; 16])
    }

    #[test]
    fn what_is_sealed_opens_for_its_call_its_kind_and_its_name_alone() {
        let key = CallKey::new().unwrap();
        let sealed = key.seal(&call(1), "artifact", "stdout", b"text").unwrap();
        assert_eq!(key.open(&call(1), "artifact", "stdout", &sealed).unwrap(), b"text");
        for (id, kind, name) in
            [(2, "artifact", "stdout"), (1, "result", "stdout"), (1, "artifact", "stderr")]
        {
            assert!(key.open(&call(id), kind, name, &sealed).is_err());
        }
        assert!(CallKey::new().unwrap().open(&call(1), "artifact", "stdout", &sealed).is_err());
        assert!(key.open(&call(1), "artifact", "stdout", &sealed[..10]).is_err());
    }

    #[test]
    fn a_key_is_wrapped_for_one_call_by_one_gate() {
        let ours = wrapping();
        let secrets = Secrets::new(Digest::of(b"request"), Digest::of(b"arguments")).unwrap();
        let wrapped = ours.wrap(&call(1), &secrets).unwrap();
        let opened = ours.unwrap(&call(1), &wrapped).unwrap();
        assert_eq!(opened.key.0, secrets.key.0);
        assert_eq!((opened.request, opened.arguments), (secrets.request, secrets.arguments));
        assert!(ours.unwrap(&call(2), &wrapped).is_err());
        assert!(wrapping().unwrap(&call(1), &wrapped).is_err());
    }

    #[test]
    fn a_commitment_differs_by_call_and_by_what_it_is_about() {
        let (one, other, digest) = (CallKey::new().unwrap(), CallKey::new().unwrap(), Digest::of(b"yes"));
        assert_eq!(one.commit("arguments", &digest), keyed(&one.salt(), "arguments", digest.as_bytes()));
        assert_ne!(one.commit("arguments", &digest), one.commit("request", &digest));
        assert_ne!(one.commit("arguments", &digest), other.commit("arguments", &digest));
        assert_ne!(one.commit("arguments", &digest), digest);
    }

    #[test]
    fn the_key_is_made_once_and_is_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        assert!(Wrapping::load(home.path()).unwrap().is_none());
        let first = wrapping().keep(home.path()).unwrap();
        assert_eq!(wrapping().keep(home.path()).unwrap().id(), first.id());
        assert_eq!(Wrapping::load(home.path()).unwrap().unwrap().id(), first.id());
        let path = home.path().join(FILE);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Wrapping::load(home.path()), Err(KeysError::Exposed { .. })));
        assert!(!format!("{first:?}").contains(&first.id()));
    }
}
