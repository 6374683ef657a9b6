//! How the gate signs in to a server, why it is not, and what is kept and told of it.

use std::pin::Pin;

use zeroize::Zeroizing;

use crate::credentials::SecretSource;
use crate::fetch::{Bounds, NoAnswer};

/// How the gate signs in to one server.
#[derive(Clone, Debug)]
pub struct SignInSettings {
    /// What the server is called.
    pub server: String,
    /// Where it is.
    pub url: String,
    /// Who we are to whoever vouches for us.
    pub client: ClientKind,
    /// By which way.
    pub by: SignInBy,
    /// What is asked for, in the place of what the server asks for.
    pub scopes: Option<Vec<String>>,
    /// Who vouches for us, where the operator says so.
    pub issuer: Option<String>,
    /// Whom the gate may ask on the way.
    pub bounds: Bounds,
}

/// By which way the gate signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInBy {
    /// Somebody says yes on a page of the issuer's.
    People,
    /// With the gate's own name and secret.
    ClientCredentials,
}

/// Who the gate is to an issuer.
#[derive(Clone, Debug)]
pub enum ClientKind {
    /// It asks the issuer for a name.
    Registered,
    /// Its name is where it says who it is, if the issuer takes such; else it asks for one.
    Document {
        /// The address.
        url: String,
    },
    /// It has a name, and no secret.
    Public {
        /// The name.
        id: String,
    },
    /// It has a name and a secret.
    Secret {
        /// The name.
        id: String,
        /// The secret.
        secret: SecretSource,
    },
    /// It has a name and a key, PKCS #8 in PEM, for P-256.
    Key {
        /// The name.
        id: String,
        /// The key.
        key: SecretSource,
    },
}

impl SignInSettings {
    pub(crate) fn is_for_people(&self) -> bool {
        self.by == SignInBy::People
    }
}

/// Why nobody is signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSignedIn {
    /// Somebody has to say yes.
    #[error("somebody has to sign in to it")]
    NobodyHas,
    /// It wants more than was given, after it was asked for.
    #[error("it wants more than it was given, though that was asked for")]
    NotEnough,
    /// Somebody did not answer.
    #[error("`{place}` cannot be asked: {source}")]
    NoAnswer {
        /// Who.
        place: String,
        /// Why.
        source: NoAnswer,
    },
    /// Something is not said.
    #[error("nothing is said of `{0}`")]
    Lacks(&'static str),
    /// Something cannot be understood.
    #[error("what is said of `{0}` cannot be understood")]
    Odd(&'static str),
    /// An address that is none, of another, or not private.
    #[error("`{what}` is no address that would be used: of another origin, without TLS, or none of the web")]
    OddAddress {
        /// Of what.
        what: &'static str,
    },
    /// The metadata is about somebody else.
    #[error("its metadata is about another server")]
    OtherResource,
    /// The issuer is not the one that is meant.
    #[error("the issuer is another one than it should be")]
    OtherIssuer,
    /// Codes would not be safe.
    #[error("the issuer does not promise PKCE with S256")]
    NoPkce,
    /// The issuer knows no such client, and makes none.
    #[error("the issuer registers nobody: configure a `client_id`")]
    NotRegistered,
    /// A secret of ours is not to be had.
    #[error("the secret or key of the client cannot be had")]
    NoSecret,
    /// The answer is to another question.
    #[error("the answer does not belong to this sign-in")]
    OtherState,
    /// It was refused.
    #[error("it was refused: {error}")]
    Refused {
        /// In a word of the protocol.
        error: String,
    },
    /// It could not be kept.
    #[error("what was given cannot be kept")]
    NotKept,
}

/// Something about a sign-in that stays on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInEvent {
    /// A word for it.
    pub what: &'static str,
    /// Who vouches.
    pub issuer: Option<String>,
    /// What the token is for.
    pub resource: Option<String>,
    /// What it allows.
    pub scopes: Vec<String>,
    /// Why not, if it is a refusal.
    pub why: Option<String>,
}

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps sign-ins, sealed, and tells of them.
pub trait SignInKeeper: Send + Sync {
    /// What is kept for a server.
    fn kept<'a>(&'a self, server: &'a str) -> Later<'a, Option<Zeroizing<Vec<u8>>>>;
    /// Keeps it, with what is to be told; whether that was done.
    fn keep<'a>(
        &'a self,
        server: &'a str,
        kept: Zeroizing<Vec<u8>>,
        event: Option<SignInEvent>,
    ) -> Later<'a, bool>;
    /// Tells of something.
    fn tell<'a>(&'a self, server: &'a str, event: SignInEvent) -> Later<'a, ()>;
}
