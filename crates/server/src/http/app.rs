//! What every route has at hand.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use engine::Credential;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body_room::BodyRoom;
use super::caller::{TokenBook, single};
use super::chats::Elsewhere;
use super::desk_routes::Verification;
use super::events::Tidings;
use super::gate::Gate;
use super::guards::Guards;
use super::numbers::Readiness;
use super::oauth::AccessTokens;
use super::outside::Outside;
use super::problem::Problem;
use super::refusals::Refusals;
use super::sessions::{NoRandom, Sessions};
use crate::mcp::Door;

/// How many can follow events at once.
const MOST_FOLLOWERS: usize = 208;
/// How many messages of chats are read at once.
const MOST_CHATS: usize = 8;

/// The state of the server. Cheap to clone.
#[derive(Clone)]
pub(super) struct App(Arc<Inner>);

pub(super) struct Inner {
    pub(super) gate: Arc<dyn Gate>,
    /// Where MCP clients come in.
    pub(super) mcp: Option<Door>,
    pub(super) tokens: Arc<dyn TokenBook>,
    /// Tokens of others that count at the door of MCP.
    pub(super) access_tokens: Option<Arc<AccessTokens>>,
    pub(super) elsewhere: Arc<dyn Elsewhere>,
    pub(super) chats: Arc<Semaphore>,
    pub(super) refusals: Refusals,
    /// Of messages that are signed.
    pub(super) refused_messages: Refusals,
    /// Of answers by people who may not give them.
    pub(super) refused_answers: Refusals,
    /// Of passkeys.
    pub(super) refused_passkeys: Refusals,
    /// Of tokens at the door of MCP.
    pub(super) refused_tokens: Refusals,
    pub(super) bodies: Arc<BodyRoom>,
    pub(super) readiness: Readiness,
    pub(super) sessions: Sessions,
    pub(super) address: SocketAddr,
    pub(super) outside: Outside,
    pub(super) cookie_name: String,
    /// Nobody new is let in, and nobody waits any more.
    pub(super) shutdown: CancellationToken,
    /// What runs is told to end, too.
    pub(super) ending: CancellationToken,
    pub(super) guards: Guards,
    pub(super) followers: Arc<Semaphore>,
    pub(super) tidings: Tidings,
    /// Candidates that are tried at the same time.
    pub(super) simulations: Arc<Semaphore>,
    /// What going through the ledger has found.
    pub(super) verification: Verification,
    pub(super) tasks: TaskTracker,
}

impl App {
    pub(super) fn new(
        gate: Arc<dyn Gate>,
        mcp: Option<Door>,
        tokens: Arc<dyn TokenBook>,
        (access_tokens, elsewhere): (Option<Arc<AccessTokens>>, Arc<dyn Elsewhere>),
        (address, outside): (SocketAddr, Outside),
        guards: Guards,
        shutdown: CancellationToken,
    ) -> App {
        App(Arc::new(Inner {
            gate,
            mcp,
            tokens,
            access_tokens,
            elsewhere,
            chats: Arc::new(Semaphore::new(MOST_CHATS)),
            refusals: Refusals::default(),
            refused_messages: Refusals::default(),
            refused_answers: Refusals::default(),
            refused_passkeys: Refusals::default(),
            refused_tokens: Refusals::default(),
            bodies: Arc::default(),
            readiness: Readiness::default(),
            sessions: Sessions::default(),
            address,
            cookie_name: match &outside.tls {
                // Browsers take it from us alone, by TLS, for this very host.
                Some(_) => "__Host-toolgate".to_owned(),
                // Cookies are shared by all ports of a host: each gate has its own.
                None => format!("toolgate_{}", address.port()),
            },
            outside,
            shutdown,
            ending: CancellationToken::new(),
            guards,
            followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
            tidings: Tidings::default(),
            simulations: Arc::new(Semaphore::new(1)),
            verification: Verification::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// The session's cookie, which scripts cannot read and other sites do not send.
    pub(super) fn cookie(&self, secret: &str) -> String {
        let secure = if self.outside.tls.is_some() { "; Secure" } else { "" };
        format!("{}={secret}; HttpOnly; SameSite=Strict{secure}; Path=/; Max-Age=43200", self.cookie_name)
    }

    /// The same, for a session that has ended.
    pub(super) fn no_cookie(&self) -> String {
        let secure = if self.outside.tls.is_some() { "; Secure" } else { "" };
        format!("{}=; HttpOnly; SameSite=Strict{secure}; Path=/; Max-Age=0", self.cookie_name)
    }

    /// The origin of a page that asks, by the name under which it asks; the guard has checked that it is ours.
    pub(super) fn origin_of(&self, headers: &HeaderMap) -> String {
        let host = single(headers, &header::HOST).unwrap_or_default();
        format!("{}://{}", self.scheme(), host.to_ascii_lowercase())
    }

    /// `https` where there is a certificate.
    pub(super) fn scheme(&self) -> &'static str {
        if self.outside.tls.is_some() { "https" } else { "http" }
    }

    /// Where the gate is, for those who are told to come.
    pub(super) fn base_url(&self) -> String {
        match self.outside.names.first() {
            Some(name) => format!("{}://{name}:{}", self.scheme(), self.address.port()),
            None => format!("{}://{}", self.scheme(), self.address),
        }
    }

    /// The same for somebody who asks for one: it is on record before there is one.
    pub(super) async fn new_link(&self, whose: Arc<Credential>) -> Result<String, Problem> {
        self.gate.will_make_link(&whose).await?;
        self.sign_in_url(whose).map_err(|_| Problem::no_random())
    }

    /// A new link by which a browser signs in, as the operator whose credential this is.
    pub(super) fn sign_in_url(&self, whose: Arc<Credential>) -> Result<String, NoRandom> {
        let code = self.sessions.new_link(whose, self.gate.now())?;
        Ok(format!("{}/sign-in?code={code}", self.base_url()))
    }
}

impl Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
