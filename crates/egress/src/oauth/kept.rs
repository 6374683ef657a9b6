//! What is kept of a sign-in: who we are to the issuer, and the tokens. It is a secret as a whole.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::challenge::Challenge;
use super::client::Client;
use crate::credentials::Secret;

/// As long as what is kept may be; made at once, so that no copy of it is left where it grew.
const MOST: usize = 128 * 1024;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The address of the server that it is for.
    pub(super) server: String,
    /// What the server asked for last, until it was given.
    pub(super) challenge: Option<Challenge>,
    pub(super) client: Option<Client>,
    pub(super) tokens: Option<Tokens>,
}

/// What we show a server, and how we get it anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) issuer: String,
    /// What the token is for, as the server has written it.
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    pub(super) client: Client,
    #[serde(with = "secret_text")]
    pub(super) access: Secret,
    #[serde(default, with = "maybe_secret_text")]
    pub(super) refresh: Option<Secret>,
    /// In milliseconds since 1970.
    pub(super) until: i64,
    /// The scopes that were asked for, and those that were given.
    pub(super) asked: Vec<String>,
    pub(super) scopes: Vec<String>,
}

impl Kept {
    /// For the server at this address, if what was kept is that.
    pub(super) fn read(bytes: &[u8], server: &str) -> Option<Kept> {
        let kept: Kept = serde_json::from_slice(bytes).ok()?;
        // An address that has changed is another server's.
        (kept.server == server).then_some(kept)
    }

    pub(super) fn write(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MOST));
        // Nothing in it could fail to be written.
        let _ = serde_json::to_writer(&mut *bytes, self);
        bytes
    }
}

pub(super) mod secret_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::credentials::Secret;

    pub(in super::super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }
}

pub(super) mod maybe_secret_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::credentials::Secret;

    #[expect(clippy::ref_option, reason = "this is how serde asks")]
    pub(in super::super) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.expose()),
            None => to.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::new))
    }
}
