//! What every route has at hand.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use engine::Credential;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::TokenBook;
use super::doors::{Doors, NoRandom};
use super::gate::Gate;
use super::look::Verification;
use super::oauth::AccessTokens;
use crate::mcp::Door;

/// How many can follow events at once.
const MOST_FOLLOWERS: usize = 32;

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
    pub(super) doors: Doors,
    pub(super) address: SocketAddr,
    pub(super) cookie_name: String,
    pub(super) shutdown: CancellationToken,
    pub(super) followers: Arc<Semaphore>,
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
        access_tokens: Option<Arc<AccessTokens>>,
        address: SocketAddr,
        shutdown: CancellationToken,
    ) -> App {
        App(Arc::new(Inner {
            gate,
            mcp,
            tokens,
            access_tokens,
            doors: Doors::default(),
            address,
            // Cookies are shared by all ports of a host: each gate has its own.
            cookie_name: format!("toolgate_{}", address.port()),
            shutdown,
            followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
            simulations: Arc::new(Semaphore::new(1)),
            verification: Verification::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// A new link by which a browser signs in, as the operator whose credential this is.
    pub(super) fn sign_in_url(&self, whose: Arc<Credential>) -> Result<String, NoRandom> {
        let code = self.doors.new_link(whose, self.gate.now())?;
        Ok(format!("http://{}/sign-in?code={code}", self.address))
    }
}

impl Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
