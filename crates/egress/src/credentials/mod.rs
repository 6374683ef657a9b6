//! Puts secrets into requests on their way out, each for its own hosts and over TLS only.
//!
//! Knows no connection of a sandbox's. A secret is fetched outside, when a request needs it, and never goes back.
//!
//! # Invariants
//! - A secret goes to the hosts it is configured for, proved by its certificate, and nowhere else. A placeholder that
//!   goes anywhere else stays what it is: text.
//! - A key for ssh is never put into anything: see `ssh`.
//! - What the caller sent in the secret's place is replaced, not kept beside it.
//! - A secret that cannot be had stops the request.
//! - A host that says a secret back as it got it is not heard saying it.

mod inject;
mod mask;
mod secret;
mod signature;
mod source;
mod vault;

use std::sync::Arc;

use contract::{HostPattern, Reach, Target};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request};

pub(crate) use inject::{percent_decode, percent_encode};
pub(crate) use mask::{Mask, Masked};
pub use secret::Secret;
pub use source::{HeldSignIn, SecretSource, Vault, VaultToken};

use crate::EgressError;
use crate::events::Denial;
use crate::request::{Body, Speaks};
use crate::resolve::Resolver;
use crate::ssh::SigningKey;
use crate::tls::Tls;
use source::Fetcher;

/// A secret that requests to certain hosts get.
#[derive(Clone, Debug)]
pub struct Credential {
    /// To which hosts, on which port.
    pub to: Reach,
    /// Where in the request.
    pub injection: Injection,
    /// Where the secret is to be had.
    pub source: SecretSource,
}

impl Credential {
    /// To operators: whoever asked is told no more than that there is none.
    fn tell_it_is_not_had(&self) {
        let kept = match &self.source {
            SecretSource::Value(_) => "in the environment".to_owned(),
            SecretSource::File(path) => format!("in the file `{}`", path.display()),
            SecretSource::Keyring(name) => format!("in the keyring, as `{name}`"),
            SecretSource::Vault { path, field } => format!("in the vault, as `{path}#{field}`"),
            SecretSource::SignIn(_) => "as a sign-in".to_owned(),
        };
        tracing::warn!(to = %self.to, "a credential that is kept {kept} cannot be had");
    }
}

/// Where in a request a secret goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injection {
    /// The value of this header.
    Header {
        /// Its name.
        name: String,
    },
    /// `Authorization: Bearer`.
    Bearer,
    /// The password of `Authorization: Basic`.
    Basic {
        /// Whose.
        user: String,
    },
    /// The value of this parameter of the query.
    Query {
        /// Its name.
        name: String,
    },
    /// In place of a text in the body, written as the body's kind demands.
    BodyPlaceholder {
        /// The text.
        placeholder: String,
    },
    /// The key of a signature in the way of AWS, version 4.
    AwsSigV4 {
        /// The name of the key.
        access_key: String,
        /// Such as `eu-central-1`.
        region: String,
        /// Such as `s3`.
        service: String,
    },
    /// In no request: it is the private key, in the form of OpenSSH, that the gate signs with for whoever logs in over ssh.
    SshKey,
}

/// Headers that say whom a request is for and where it ends.
const NOT_FOR_SECRETS: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE];
/// A shorter text could be met by chance.
const MIN_PLACEHOLDER: usize = 8;

/// All of a gate's.
pub(crate) struct Credentials {
    /// Those for one host before those for many, so that the first for a place of a request counts.
    all: Vec<Credential>,
    /// Those that sign for ssh, in the same order. No request gets them.
    keys: Vec<Credential>,
    fetcher: Fetcher,
    clock: fn() -> i64,
}

impl Credentials {
    pub(crate) fn new(
        mut credentials: Vec<Credential>,
        vault: Option<Vault>,
        clock: fn() -> i64,
    ) -> Result<Credentials, EgressError> {
        for (number, credential) in credentials.iter().enumerate() {
            credential.injection.check()?;
            if credential.to.host == HostPattern::Public {
                return Err(EgressError::ForEverybody);
            }
            if matches!(credential.source, SecretSource::Vault { .. }) && vault.is_none() {
                return Err(EgressError::NoVault);
            }
            let mut before = credentials.iter().take(number).filter(|other| other.to == credential.to);
            if before.any(|other| other.injection.shares_place_with(&credential.injection)) {
                return Err(EgressError::SamePlace { to: credential.to.to_string() });
            }
        }
        credentials.sort_by_key(|credential| !matches!(credential.to.host, HostPattern::Exact(_)));
        let (keys, all) =
            credentials.into_iter().partition(|credential| credential.injection == Injection::SshKey);
        Ok(Credentials { all, keys, fetcher: Fetcher::new(vault), clock })
    }

    /// A secret of the gate's own, which goes with no request of a sandbox.
    pub(crate) async fn own(
        &self,
        source: &SecretSource,
        resolver: &Arc<Resolver>,
        tls: &Tls,
    ) -> Result<Secret, Denial> {
        self.fetcher.fetch_anew(source, resolver, tls).await
    }

    /// Whether there is a key to log in to the place with.
    pub(crate) fn signs_for(&self, target: &Target) -> bool {
        self.keys.iter().any(|credential| credential.to.covers(target))
    }

    /// The key to log in to the place with.
    pub(crate) async fn signing_key(
        &self,
        target: &Target,
        resolver: &Arc<Resolver>,
        tls: &Tls,
    ) -> Result<SigningKey, Denial> {
        let mut keys = self.keys.iter().enumerate();
        let found = keys.find(|(_, credential)| credential.to.covers(target));
        let (number, credential) = found.ok_or(Denial::NoCredential)?;
        // Their numbers follow those of the others.
        let number = self.all.len() + number;
        let fetched = self.fetcher.fetch(number, &credential.source, resolver, tls).await;
        SigningKey::read(&fetched.inspect_err(|_| credential.tell_it_is_not_had())?)
    }

    /// Whether requests to the place get a secret.
    pub(crate) fn has(&self, target: &Target) -> bool {
        self.all.iter().any(|credential| credential.to.covers(target))
    }

    /// Puts the secrets of a place into a request to it, and says what has to be taken out of the answer. In the clear, which is
    /// to this machine, only what a sign-in there has given goes along.
    pub(crate) async fn inject(
        &self,
        mut request: Request<Body>,
        target: &Target,
        speaks: Speaks,
        resolver: &Arc<Resolver>,
        tls: &Tls,
    ) -> Result<(Request<Body>, Mask), Denial> {
        let mut mask = Mask::default();
        let mut done: Vec<&Injection> = Vec::new();
        for (number, credential) in self.all.iter().enumerate() {
            let injection = &credential.injection;
            if !credential.to.covers(target) || done.iter().any(|other| other.shares_place_with(injection)) {
                continue;
            }
            // A host answers it with the request itself, and so with the secret.
            if request.method() == Method::TRACE || request.method().as_str() == "TRACK" {
                return Err(Denial::ShowsCredential);
            }
            let secret = match &credential.source {
                SecretSource::SignIn(HeldSignIn(held)) => match held.token_for(request.uri().path()) {
                    Some(token) => token,
                    None => continue,
                },
                _ if speaks == Speaks::Http => continue,
                source => {
                    let fetched = self.fetcher.fetch(number, source, resolver, tls).await;
                    fetched.inspect_err(|_| credential.tell_it_is_not_had())?
                }
            };
            request = match injection {
                Injection::AwsSigV4 { access_key, region, service } => {
                    let scope = signature::Scope { access_key, region, service };
                    let now = (self.clock)();
                    signature::sign(request, target, &scope, &secret, now).await?
                }
                other => inject::put(request, other, &secret).await?,
            };
            mask.add(&secret, injection);
            done.push(injection);
        }
        if !mask.is_empty() {
            // In a packed answer it could not be found.
            request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            // Nor in pieces that are shorter than it.
            request.headers_mut().remove(header::RANGE);
            request.headers_mut().remove(header::IF_RANGE);
        }
        Ok((request, mask))
    }
}

impl Injection {
    /// Whether a secret can go there.
    pub fn check(&self) -> Result<(), EgressError> {
        match self {
            Injection::Header { name } => {
                let parsed: Option<HeaderName> = name.parse().ok();
                let is_fit = parsed.is_some_and(|parsed| !NOT_FOR_SECRETS.contains(&parsed));
                if is_fit { Ok(()) } else { Err(EgressError::Header { name: name.clone() }) }
            }
            Injection::BodyPlaceholder { placeholder } if placeholder.len() < MIN_PLACEHOLDER => {
                Err(EgressError::Placeholder { least: MIN_PLACEHOLDER })
            }
            Injection::Basic { user } if user.contains(':') => Err(EgressError::BasicUser),
            _ => Ok(()),
        }
    }

    /// Whether two secrets would go to the same place of a request.
    pub fn shares_place_with(&self, other: &Injection) -> bool {
        match (header_of(self), header_of(other)) {
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
            _ => self == other,
        }
    }
}

fn header_of(injection: &Injection) -> Option<&str> {
    match injection {
        Injection::Header { name } => Some(name),
        Injection::Bearer | Injection::Basic { .. } | Injection::AwsSigV4 { .. } => Some("authorization"),
        Injection::Query { .. } | Injection::BodyPlaceholder { .. } | Injection::SshKey => None,
    }
}
