//! The gate's signing key, and the public one by which others check what it signed.
//!
//! # Invariants
//! - The private half is in one file that only its owner can read; it is never shown and is zeroed after use.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::file::place;
use crate::wrapping::Wrapping;

const PRIVATE_FILE: &str = "signing.key";
const PUBLIC_FILE: &str = "signing.pub";

/// How a private key begins, as other tools for signed notes write it.
const PRIVATE_PREFIX: &str = "PRIVATE+KEY+";

/// Ed25519, in signed notes.
const ALGORITHM: u8 = 1;

/// No key file is longer.
const MAX_KEY_FILE: u64 = 4096;

/// The gate's key pair. Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    signing: Arc<SigningKey>,
    public: PublicKey,
    /// Until a store is opened with it, it may be nowhere but here.
    wrapping: Wrapping,
    folder: PathBuf,
}

/// Why there are no keys.
#[derive(Debug, Error)]
pub enum KeysError {
    /// A file or folder cannot be used.
    #[error("cannot {what} `{}`", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others can read the private key.
    #[error("`{}` can be read by others (mode {mode:o}): run `chmod 600` on it, or make a new key if they may have", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is not a private key.
    #[error("`{}` does not hold a private key", path.display())]
    NotAKey {
        /// Which file.
        path: PathBuf,
    },
    /// The two files do not belong together.
    #[error("`{}` is not the public half of the key beside it: put the right `signing.key` there, or, if that key is right, remove this file", path.display())]
    NotAPair {
        /// Which file.
        path: PathBuf,
    },
    /// It was there, and is no more.
    #[error("the signing key `{}` is gone: put it back from where it is kept safe; what it has signed needs it", path.display())]
    Gone {
        /// Which file.
        path: PathBuf,
    },
    /// A store has it, and it is not here.
    #[error("`{}` is not there, and what the store keeps private is sealed with it: put it back from its backup, or copy it from another gate of this store", path.display())]
    WrappingGone {
        /// Which file.
        path: PathBuf,
    },
    /// There is no randomness.
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl Keys {
    /// Reads the keys in a folder, or makes them there if there are none. Whether a wrapping key may be made, only the store
    /// can say that it is for: that one is kept when the store is opened.
    pub fn load_or_create(folder: &Path) -> Result<Keys, KeysError> {
        let private = folder.join(PRIVATE_FILE);
        let signing = match load(&private)? {
            Some(signing) => signing,
            // A new one beside what the old one has signed would be good for nothing, and stand in its way.
            None if folder.join(PUBLIC_FILE).exists() => {
                // Whoever makes them at this moment makes this one first.
                load(&private)?.ok_or_else(|| KeysError::Gone { path: private.clone() })?
            }
            None => {
                create(folder, &private)?;
                load(&private)?.ok_or_else(|| KeysError::NotAKey { path: private.clone() })?
            }
        };
        let public = PublicKey::of(signing.verifying_key());
        publish(&public, folder)?;
        let wrapping = Wrapping::load(folder)?.map_or_else(Wrapping::draft, Ok)?;
        Ok(Keys { signing: Arc::new(signing), public, wrapping, folder: folder.to_owned() })
    }

    /// The half that others may have.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }

    #[cfg(test)]
    fn from_seed(seed: &[u8; 32]) -> Keys {
        let signing = SigningKey::from_bytes(seed);
        let public = PublicKey::of(signing.verifying_key());
        let wrapping = Wrapping::draft().unwrap();
        Keys { signing: Arc::new(signing), public, wrapping, folder: PathBuf::new() }
    }

    /// The same for a store that has none yet: the wrapping key is kept from now on.
    pub(crate) fn for_a_new_store(self) -> Result<Keys, KeysError> {
        Ok(Keys { wrapping: self.wrapping.keep(&self.folder)?, ..self })
    }

    /// The same for a store that has one: no other is made in its place.
    pub(crate) fn for_a_store(self) -> Result<Keys, KeysError> {
        let gone = || KeysError::WrappingGone { path: Wrapping::path(&self.folder) };
        Ok(Keys { wrapping: Wrapping::load(&self.folder)?.ok_or_else(gone)?, ..self })
    }

    /// The key under which calls keep theirs.
    pub(crate) fn wrapping(&self) -> &Wrapping {
        &self.wrapping
    }
}

fn publish(public: &PublicKey, folder: &Path) -> Result<(), KeysError> {
    let path = folder.join(PUBLIC_FILE);
    let line = format!("{public}\n");
    match fs::read_to_string(&path) {
        Ok(text) if text == line => Ok(()),
        Ok(_) => Err(KeysError::NotAPair { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => put(&path, line.as_bytes(), 0o644),
        Err(source) => Err(KeysError::File { what: "read", path, source }),
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keys({}, ..)", self.public.id())
    }
}

fn load(path: &Path) -> Result<Option<SigningKey>, KeysError> {
    let failed = |what, source| KeysError::File { what, path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", error)),
    };
    let metadata = file.metadata().map_err(|error| failed("look at", error))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(256));
    file.take(MAX_KEY_FILE).read_to_string(&mut text).map_err(|error| failed("read", error))?;
    let seed = parse_private(text.trim_end()).ok_or_else(|| KeysError::NotAKey { path: path.to_owned() })?;
    Ok(Some(SigningKey::from_bytes(&seed)))
}

fn parse_private(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    // The name holds no `+`; the rest is its hash and the key.
    let mut parts = text.strip_prefix(PRIVATE_PREFIX)?.splitn(3, '+');
    let (_name, _hash, key) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(key).ok()?);
    match bytes.split_first() {
        Some((&ALGORITHM, seed)) => seed.try_into().ok().map(Zeroizing::new),
        _ => None,
    }
}

fn create(folder: &Path, private: &Path) -> Result<(), KeysError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| KeysError::File {
        what: "make the folder",
        path: folder.to_owned(),
        source,
    })?;
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(KeysError::Random)?;
    let public = PublicKey::of(SigningKey::from_bytes(&seed).verifying_key());
    let mut key = Zeroizing::new(vec![ALGORITHM]);
    key.extend_from_slice(seed.as_ref());
    let encoded = Zeroizing::new(BASE64_STANDARD.encode(&key));
    let text = Zeroizing::new(format!(
        "{PRIVATE_PREFIX}{}+{}+{}\n",
        public.name(),
        hex(&public.note_hash()),
        encoded.as_str()
    ));
    // Whoever was first has made the one that counts.
    put(private, text.as_bytes(), 0o600)
}

fn put(path: &Path, content: &[u8], mode: u32) -> Result<(), KeysError> {
    let failed = |source| KeysError::File { what: "write", path: path.to_owned(), source };
    place(path, content, mode).map(drop).map_err(failed)
}

/// A gate's public key: all that is needed to check what it signed.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    name: String,
    /// What follows from both, and is asked for with every signature.
    id: String,
    note_hash: [u8; 4],
}

/// Why a text is not a public key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PublicKeyError {
    /// It has another form.
    #[error("a public key has the form `name+hash+key`")]
    Form,
    /// The name is not one.
    #[error("the name of a public key is empty, or holds a space or `+`")]
    Name,
    /// Another kind of key.
    #[error("the key is not an Ed25519 key")]
    Algorithm,
    /// The hash belongs to another key.
    #[error("the hash in the key does not fit it")]
    Hash,
}

impl PublicKey {
    /// Reads a verifier key as tools for signed notes write it: `name+hash+key`.
    pub fn parse(text: &str) -> Result<PublicKey, PublicKeyError> {
        // Base64 may hold a `+`, so only the first two divide.
        let mut parts = text.trim_end_matches(['\n', '\r']).splitn(3, '+');
        let (Some(name), Some(hash), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(PublicKeyError::Form);
        };
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(PublicKeyError::Name);
        }
        let bytes = BASE64_STANDARD.decode(key).map_err(|_| PublicKeyError::Form)?;
        let key = match bytes.split_first() {
            Some((&ALGORITHM, key)) => key.try_into().map_err(|_| PublicKeyError::Algorithm)?,
            _ => return Err(PublicKeyError::Algorithm),
        };
        let key = VerifyingKey::from_bytes(key).map_err(|_| PublicKeyError::Algorithm)?;
        let public = PublicKey::named(key, name.to_owned());
        // A weak key would accept signatures that nobody made.
        if public.key.is_weak() {
            return Err(PublicKeyError::Algorithm);
        }
        if hex(&public.note_hash()) != hash { Err(PublicKeyError::Hash) } else { Ok(public) }
    }

    fn of(key: VerifyingKey) -> PublicKey {
        PublicKey::named(key, format!("toolgate.local/{}", id_of(&key)))
    }

    fn named(key: VerifyingKey, name: String) -> PublicKey {
        let mut hash = Sha256::new();
        hash.update(name.as_bytes());
        hash.update([b'\n', ALGORITHM]);
        hash.update(key.as_bytes());
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        PublicKey { key, name, id: id_of(&key), note_hash: [a, b, c, d] }
    }

    /// The name under which it signs: the origin of the ledger's checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is called in receipts: 16 hexadecimal digits of its hash.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// The four bytes by which a signed note names the key.
    pub(crate) fn note_hash(&self) -> [u8; 4] {
        self.note_hash
    }

    /// Whether this key made this signature.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(bytes) = <[u8; 64]>::try_from(signature) else { return false };
        self.key.verify_strict(message, &Signature::from_bytes(&bytes)).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ALGORITHM];
        key.extend_from_slice(self.key.as_bytes());
        write!(formatter, "{}+{}+{}", self.name, hex(&self.note_hash()), BASE64_STANDARD.encode(key))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({self})")
    }
}

fn id_of(key: &VerifyingKey) -> String {
    let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    hex(&hash).chars().take(16).collect()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(if half < 10 { b'0' + half } else { b'a' + half - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_key_that_is_gone_is_not_replaced() {
        let home = folder();
        Keys::load_or_create(home.path()).unwrap();
        fs::remove_file(home.path().join(PRIVATE_FILE)).unwrap();
        assert!(matches!(Keys::load_or_create(home.path()), Err(KeysError::Gone { .. })));
        assert!(!home.path().join(PRIVATE_FILE).exists());
    }

    #[test]
    fn a_wrapping_key_is_made_for_a_new_store_only() {
        let home = folder();
        let keys = Keys::load_or_create(home.path()).unwrap();
        assert!(matches!(keys.for_a_store(), Err(KeysError::WrappingGone { .. })));
        assert!(!Wrapping::path(home.path()).exists());
    }

    #[test]
    fn keys_are_made_once_and_found_again() {
        let home = folder();
        let place = home.path().join("not/there/yet");
        let first = Keys::load_or_create(&place).unwrap();
        let second = Keys::load_or_create(&place).unwrap();
        assert_eq!(first.public(), second.public());
        let mode = |name: &str| fs::metadata(place.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(PRIVATE_FILE), 0o600);
        assert_eq!(mode(PUBLIC_FILE), 0o644);
        let files = || fs::read_dir(&place).unwrap().count();
        assert_eq!(files(), 2, "two for signing, and no drafts are left");
        let kept = first.for_a_new_store().unwrap();
        assert_eq!(files(), 3, "and one for wrapping");
        for others in [second.clone().for_a_new_store(), second.for_a_store()] {
            assert_eq!(
                others.unwrap().wrapping().id(),
                kept.wrapping().id(),
                "whoever was first has made it"
            );
        }
    }

    #[test]
    fn a_private_key_that_others_can_read_is_refused() {
        let home = folder();
        Keys::load_or_create(home.path()).unwrap();
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(home.path().join(PRIVATE_FILE), fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Keys::load_or_create(home.path()), Err(KeysError::Exposed { .. })), "{mode:o}");
        }
    }

    #[test]
    fn a_broken_private_key_is_never_replaced() {
        let home = folder();
        Keys::load_or_create(home.path()).unwrap();
        let path = home.path().join(PRIVATE_FILE);
        for text in ["", "PRIVATE+KEY+a+b", "PRIVATE+KEY+a+b+AQ==", "\u{0}"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Keys::load_or_create(home.path()), Err(KeysError::NotAKey { .. })), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_public_key_of_another_pair_is_found() {
        let (home, other) = (folder(), folder());
        Keys::load_or_create(home.path()).unwrap();
        Keys::load_or_create(other.path()).unwrap();
        fs::copy(other.path().join(PUBLIC_FILE), home.path().join(PUBLIC_FILE)).unwrap();
        assert!(matches!(Keys::load_or_create(home.path()), Err(KeysError::NotAPair { .. })));
    }

    #[test]
    fn what_is_shown_of_keys_holds_nothing_secret() {
        let keys = Keys::from_seed(&[7; 32]);
        assert_eq!(format!("{keys:?}"), format!("Keys({}, ..)", keys.public().id()));
    }

    #[test]
    fn a_public_key_reads_back_as_itself_and_a_changed_one_not_at_all() {
        let key = Keys::from_seed(&[7; 32]).public().clone();
        let text = key.to_string();
        assert_eq!(PublicKey::parse(&text), Ok(key.clone()));
        assert_eq!(PublicKey::parse(&format!("{text}\n")), Ok(key));
        assert_eq!(PublicKey::parse(&text.replace("toolgate", "toolgale")), Err(PublicKeyError::Hash));
        assert_eq!(PublicKey::parse("toolgate"), Err(PublicKeyError::Form));
        assert_eq!(PublicKey::parse("a b+00000000+AQ=="), Err(PublicKeyError::Name));
    }

    #[test]
    fn a_verifier_key_of_the_go_checksum_database_is_read() {
        // Published with the Go toolchain: a key that was not made by this code.
        let text = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
        assert_eq!(PublicKey::parse(text).unwrap().to_string(), text);
    }
}
