//! ssh without its secret: a signer, which is an ssh agent for one host and one call, and the keys by which hosts are known.
//!
//! Knows neither git nor what is said over ssh: that is encrypted from the sandbox to the host. The private key stays on this
//! side; what goes in are signatures, each good for one session with one host.
//!
//! # Invariants
//! - Host keys are configured, and never learnt.
//! - INVARIANT(signed-for-one-host): a signature is made only for a session that the granted host has signed with a key that
//!   is known, that is not passed on, and for a request to log in with the key of the credential in that very session.
//! - Every signature and every refusal is an event.

mod door;
mod host_key;
mod key;
mod signer;
mod wire;

use contract::Target;

pub(crate) use door::serve;
pub(crate) use host_key::HostKey;
pub use host_key::{KnownHost, KnownHostError};
pub(crate) use key::SigningKey;

/// Whom a call logs in to over ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Where.
    pub target: Target,
    /// As whom; anybody, where nobody has said.
    pub user: Option<String>,
}

#[cfg(test)]
mod tests;
