//! The keys by which hosts are known, as `known_hosts(5)` writes them.

use contract::{Host, Target};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use ssh_key::PublicKey;
use ssh_key::public::{EcdsaPublicKey, KeyData};

use super::wire::{Fields, without_zeros};

const SSH_PORT: u16 = 22;
const MAX_LINE: usize = 16 * 1024;

/// A host, and a key that it proves itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHost {
    at: Target,
    key: HostKey,
}

/// Why a line names no host and key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnownHostError {
    /// Not three words.
    #[error("a known host is a line such as `example.com ssh-ed25519 AAAA…`")]
    Shape,
    /// `@cert-authority` or `@revoked`.
    #[error("`{mark}` is not understood: name the host's own key")]
    Mark {
        /// Which.
        mark: String,
    },
    /// A name of which only a digest is given.
    #[error("the name is hashed: write the host in the open")]
    Hashed,
    /// `*`, `?` or `!`.
    #[error("`{text}` is a pattern: name one host")]
    Pattern {
        /// What was written.
        text: String,
    },
    /// No host, or no port.
    #[error("`{text}` is no host such as `example.com` or `[example.com]:2222`")]
    Host {
        /// What was written.
        text: String,
    },
    /// The key cannot be read.
    #[error("the key of `{host}` cannot be read")]
    Key {
        /// Whose.
        host: String,
    },
    /// A key of a kind that is not checked here.
    #[error(
        "the key of `{host}` is of a kind that cannot be checked: `{kind}`; it may be ed25519, ecdsa (256 or 384) or rsa (2048 bits at least)"
    )]
    Kind {
        /// Whose.
        host: String,
        /// Which kind.
        kind: String,
    },
}

impl KnownHost {
    /// Reads one line: one entry for each host that it names.
    pub fn parse(line: &str) -> Result<Vec<KnownHost>, KnownHostError> {
        let line = line.trim();
        let mut words = line.split_ascii_whitespace();
        let (Some(hosts), Some(kind), Some(key)) = (words.next(), words.next(), words.next()) else {
            return Err(KnownHostError::Shape);
        };
        if line.len() > MAX_LINE || line.contains(['\n', '\r', '\0']) {
            return Err(KnownHostError::Shape);
        }
        if hosts.starts_with('@') {
            return Err(KnownHostError::Mark { mark: hosts.to_owned() });
        }
        if hosts.starts_with('|') {
            return Err(KnownHostError::Hashed);
        }
        let unread = |_| KnownHostError::Key { host: hosts.to_owned() };
        let public = PublicKey::from_openssh(&format!("{kind} {key}")).map_err(unread)?;
        let key = HostKey::new(public)
            .ok_or_else(|| KnownHostError::Kind { host: hosts.to_owned(), kind: kind.to_owned() })?;
        hosts.split(',').map(|host| Ok(KnownHost { at: place(host)?, key: key.clone() })).collect()
    }

    /// Which host, on which port.
    pub fn at(&self) -> &Target {
        &self.at
    }

    /// A line for this host alone, as ssh looks it up.
    pub fn line(&self) -> String {
        let Target { host, port } = &self.at;
        let name = if *port == SSH_PORT { host.to_string() } else { format!("[{host}]:{port}") };
        format!("{name} {}", self.key.text())
    }

    pub(crate) fn key(&self) -> &HostKey {
        &self.key
    }
}

/// `host` or `[host]:port`.
fn place(text: &str) -> Result<Target, KnownHostError> {
    if text.contains(['*', '?', '!']) {
        return Err(KnownHostError::Pattern { text: text.to_owned() });
    }
    let bad = || KnownHostError::Host { text: text.to_owned() };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once("]:").ok_or_else(bad)?;
            let is_plain = port.bytes().all(|byte| byte.is_ascii_digit());
            (host, port.parse().ok().filter(|port| is_plain && *port != 0).ok_or_else(bad)?)
        }
        None => (text, SSH_PORT),
    };
    Ok(Target { host: Host::parse(host).map_err(|_odd| bad())?, port })
}

/// The public half of a host's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostKey {
    public: PublicKey,
    /// As it goes over the wire.
    blob: Vec<u8>,
}

impl HostKey {
    /// A key whose signatures can be checked.
    fn new(public: PublicKey) -> Option<HostKey> {
        let fits = match public.key_data() {
            KeyData::Ed25519(_) => true,
            KeyData::Ecdsa(key) => !matches!(key, EcdsaPublicKey::NistP521(_)),
            KeyData::Rsa(key) => {
                key.n.as_positive_bytes().is_some_and(|n| (256..=1024).contains(&without_zeros(n).len()))
            }
            _ => false,
        };
        let blob = public.to_bytes().ok()?;
        fits.then(|| HostKey { public: PublicKey::from(public.key_data().clone()), blob })
    }

    /// The kind and the key, as files have them.
    fn text(&self) -> String {
        self.public.to_openssh().unwrap_or_default()
    }

    pub(crate) fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Whether it has signed this. Signatures by SHA-1 are none.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verify(message, signature).is_some()
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Option<()> {
        let mut fields = Fields::of(signature);
        let (scheme, signed) = (fields.string()?, fields.string()?);
        if !fields.is_empty() {
            return None;
        }
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8], signed: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signed).ok()
        };
        match (self.public.key_data(), scheme) {
            (KeyData::Ed25519(key), b"ssh-ed25519") => by(&ED25519, &key.0, signed),
            (KeyData::Ecdsa(key @ EcdsaPublicKey::NistP256(_)), b"ecdsa-sha2-nistp256") => {
                by(&ECDSA_P256_SHA256_FIXED, key.as_sec1_bytes(), &fixed(signed, 32)?)
            }
            (KeyData::Ecdsa(key @ EcdsaPublicKey::NistP384(_)), b"ecdsa-sha2-nistp384") => {
                by(&ECDSA_P384_SHA384_FIXED, key.as_sec1_bytes(), &fixed(signed, 48)?)
            }
            (KeyData::Rsa(key), b"rsa-sha2-256" | b"rsa-sha2-512") => {
                let n = without_zeros(key.n.as_positive_bytes()?);
                let e = without_zeros(key.e.as_positive_bytes()?);
                let components = RsaPublicKeyComponents { n, e };
                let algorithm = if scheme == b"rsa-sha2-256" {
                    &RSA_PKCS1_2048_8192_SHA256
                } else {
                    &RSA_PKCS1_2048_8192_SHA512
                };
                components.verify(algorithm, message, signed).ok()
            }
            _ => None,
        }
    }
}

/// The two numbers of an ECDSA signature, each as long as the curve's.
fn fixed(signed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut fields = Fields::of(signed);
    let mut both = Vec::with_capacity(length * 2);
    for number in [fields.string()?, fields.string()?] {
        let number = without_zeros(number);
        both.extend(std::iter::repeat_n(0, length.checked_sub(number.len())?));
        both.extend_from_slice(number);
    }
    fields.is_empty().then_some(both)
}
