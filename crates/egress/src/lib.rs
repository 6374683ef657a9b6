//! What a sandbox reaches of the outside: a DNS of its own, a proxy that checks what it dials, and a count of the bytes.
//! And what the gate itself says to others (`own`, `fetch`, `oauth`, `smtp`), at addresses that are checked in the same way.
//!
//! A sandbox's network leads nowhere but to the sockets that the gate holds ([`Doors`]). This crate serves them as a
//! [`Permit`] says. It obeys and decides nothing: which call gets which permit is not known here.
//!
//! # Invariants
//! - A connection is dialled to an address that was checked, never to a name.
//! - Nothing is asked of the outside for a name that the permit does not hold. An empty permit is none.
//! - Every attempt is an event, let through or not; a refusal has one reason that the tool can read.
//! - A key for ssh signs for the host that it is meant for, in a session that this host has signed (`ssh`).
//! - A secret is put in on the way out, over TLS, for the host it is meant for. What that host says back of it, in the forms
//!   that it was sent in, is covered.
//! - Everything of a grant ends with it.
#![forbid(unsafe_code)]

mod authority;
mod carry;
mod connect;
mod credentials;
mod dns;
mod dns_door;
mod events;
mod fetch;
mod grant;
mod guards;
mod hello;
mod http;
mod names;
mod oauth;
mod opening;
mod own;
mod permit;
mod pipe;
mod refuse;
mod request;
mod resolve;
mod retry;
mod smtp;
mod socks;
mod ssh;
mod stream;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::Target;

pub use credentials::{Credential, HeldSignIn, Injection, Secret, SecretSource, Vault, VaultToken};
pub use events::{Bytes, Denial, Event, Outcome, Usage, Way};
pub use fetch::{Bounds, NoAnswer, WebUrl};
pub use grant::{Doors, OpenGrant};
pub use guards::Guard;
pub use hello::BadHello;
pub use names::MAX_NAMES;
pub use oauth::{
    ClientKind, NotSignedIn, Pending, SignIn, SignInBy, SignInEvent, SignInKeeper, SignInSettings,
};
pub use own::{OwnError, OwnUrl, OwnUrlError, Post, PostTo};
pub use permit::{Methods, Permit, PermitLimits};
pub use smtp::{Mail, MailTls, is_mail_address};
pub use ssh::{KnownHost, KnownHostError, Login};

/// What a gate's way out is made of.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Whom to ask for addresses; the system's resolvers if empty.
    pub nameservers: Vec<SocketAddr>,
    /// Certificates that hosts may prove their names with besides the system's, PEM.
    pub extra_roots: String,
    /// Secrets that requests get on their way out.
    pub credentials: Vec<Credential>,
    /// Servers that the gate signs in to.
    pub sign_ins: Vec<SignInSettings>,
    /// Where secrets of the vault are to be had.
    pub vault: Option<Vault>,
    /// The keys of hosts that are spoken to over ssh. No other is believed.
    pub known_hosts: Vec<KnownHost>,
    /// How long to wait for what.
    pub patience: Patience,
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> i64,
}

/// How long the gate waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a name's addresses.
    pub lookup: Duration,
    /// For one address to accept a connection.
    pub dial: Duration,
    /// For a client to say what it wants: a ClientHello, the head of a request, a greeting.
    pub handshake: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience { lookup: seconds(5), dial: seconds(5), handshake: seconds(10) }
    }
}

/// A gate's way out: one for all its grants.
#[derive(Clone, Debug)]
pub struct Egress {
    gate: Arc<Gate>,
}

/// Why there is no way out.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The name servers cannot be asked.
    #[error("the name servers of `egress.nameservers` cannot be used")]
    Resolver {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The extra certificates cannot be read.
    #[error("the extra root certificates cannot be read")]
    ExtraRoots {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A header that cannot carry a secret.
    #[error("`{name}` is no header that can carry a secret")]
    Header {
        /// Its name.
        name: String,
    },
    /// A placeholder that could be met by chance.
    #[error("a placeholder has at least {least} bytes")]
    Placeholder {
        /// How many.
        least: usize,
    },
    /// A user of Basic with a colon.
    #[error("the user of a basic credential has no colon")]
    BasicUser,
    /// Two secrets for one place of a request.
    #[error("two credentials for `{to}` go to the same place of a request")]
    SamePlace {
        /// The place that they are for.
        to: String,
    },
    /// A secret for every host.
    #[error("a credential is for hosts that are named, not for any")]
    ForEverybody,
    /// A secret is in a vault, and there is none.
    #[error("a credential is in a vault, and no vault is configured")]
    NoVault,
    /// A server to sign in to that is at no address.
    #[error("the server `{server}` is at no address of the web")]
    SignIn {
        /// Its name.
        server: String,
    },
    /// The authority that the sandboxes trust cannot be made.
    #[error("cannot make a certificate authority")]
    Authority {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a grant could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// One of the doors is no listening socket, or there is no runtime.
    #[error("cannot listen at a door of the sandbox")]
    Door {
        /// Why.
        source: io::Error,
    },
}

impl Egress {
    /// Makes ready. Opens nothing yet.
    pub fn new(settings: EgressSettings) -> Result<Egress, EgressError> {
        let EgressSettings {
            nameservers,
            extra_roots,
            mut credentials,
            sign_ins,
            vault,
            known_hosts,
            patience,
            clock,
        } = settings;
        let mut held = Vec::new();
        for settings in sign_ins {
            let server = settings.server.clone();
            let one = Arc::new(oauth::Held::new(settings).ok_or(EgressError::SignIn { server })?);
            credentials.push(Credential {
                to: one.url.target().clone().into(),
                injection: Injection::Bearer,
                source: SecretSource::SignIn(HeldSignIn(Arc::clone(&one))),
            });
            held.push(one);
        }
        let credentials = credentials::Credentials::new(credentials, vault, clock)?;
        let resolver = Arc::new(resolve::Resolver::new(&nameservers, patience.lookup)?);
        let tls = tls::Tls::new(&extra_roots, clock)?;
        let (supply, guards) = Default::default();
        let gate = Gate {
            resolver,
            tls,
            extra_roots,
            credentials,
            held,
            known_hosts,
            supply,
            guards,
            patience,
            clock,
        };
        Ok(Egress { gate: Arc::new(gate) })
    }

    /// The same with one guard switched off. Nothing must have been opened yet.
    #[cfg(feature = "weaken")]
    pub fn without(mut self, guard: Guard) -> Egress {
        if let Some(gate) = Arc::get_mut(&mut self.gate) {
            gate.guards = guards::Guards::without(guard);
        }
        self
    }

    /// Serves the doors as the permit says, until the grant is closed or dropped. Needs a tokio runtime around it.
    pub fn open(&self, permit: Permit, doors: Doors) -> Result<OpenGrant, OpenError> {
        OpenGrant::new(Arc::clone(&self.gate), permit, doors)
    }

    /// The sign-in of a server, if it has one.
    pub fn sign_in(&self, server: &str) -> Option<SignIn> {
        let held = self.gate.held.iter().find(|held| held.settings.server == server)?;
        Some(SignIn { gate: Arc::clone(&self.gate), held: Arc::clone(held) })
    }

    /// The certificate that sandboxes have to trust where the gate ends TLS, PEM.
    pub fn certificate_authority(&self) -> &str {
        self.gate.tls.authority()
    }

    /// Whom programs of a sandbox with this permit have to trust besides the host's own: whoever may vouch for hosts, and the
    /// gate's own authority where it ends TLS. PEM.
    pub fn trusted_inside(&self, permit: &Permit) -> Option<String> {
        let own = if self.terminates(permit) { self.certificate_authority() } else { "" };
        let all = [self.gate.extra_roots.as_str(), own].join("\n");
        (!all.trim().is_empty()).then_some(all)
    }

    /// The keys of this place that are known, a line each as `known_hosts(5)` has them.
    pub fn known_hosts(&self, target: &Target) -> Vec<String> {
        let known = self.gate.known_hosts.iter().filter(|known| known.at() == target);
        known.map(KnownHost::line).collect()
    }

    /// Whether the gate has a key to log in to this place with.
    pub fn signs_for(&self, target: &Target) -> bool {
        self.gate.credentials.signs_for(target)
    }

    /// Whether the gate would end TLS for any place of the permit.
    pub fn terminates(&self, permit: &Permit) -> bool {
        permit.methods.only_reads() || permit.spends.iter().any(|target| self.gate.credentials.has(target))
    }
}

/// What all grants of a gate share.
pub(crate) struct Gate {
    pub(crate) resolver: Arc<resolve::Resolver>,
    pub(crate) tls: tls::Tls,
    /// Whom else hosts may be vouched for by, PEM.
    pub(crate) extra_roots: String,
    pub(crate) credentials: credentials::Credentials,
    held: Vec<Arc<oauth::Held>>,
    pub(crate) known_hosts: Vec<KnownHost>,
    pub(crate) supply: names::Supply,
    pub(crate) guards: guards::Guards,
    pub(crate) patience: Patience,
    pub(crate) clock: fn() -> i64,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// A secret that the gate itself needs.
    pub(crate) async fn secret(&self, source: &SecretSource) -> Option<Secret> {
        self.credentials.own(source, &self.resolver, &self.tls).await.ok()
    }

    /// Whether requests to the place have to be seen, and TLS therefore ends here.
    pub(crate) fn sees_requests(&self, permit: &Permit, target: &Target) -> bool {
        permit.methods.only_reads() || self.has_credential(permit, target)
    }

    /// Whether requests to the place get a secret.
    pub(crate) fn has_credential(&self, permit: &Permit, target: &Target) -> bool {
        permit.spends.contains(target) && self.credentials.has(target)
    }
}
