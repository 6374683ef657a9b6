//! The guards of the door by name, so that the attack suite can switch one off and see that it is noticed.
//!
//! # Invariants
//! - INVARIANT(no-weak-door): every guard stands in every build without the `weaken` feature.

use std::sync::Arc;

use axum::extract::Request;
#[cfg(feature = "weaken")]
use axum::http::{HeaderValue, header};
use engine::Credential;

use super::sessions::{SessionKey, Sessions};

/// A session, whose it is, and when they proved to be there.
type Known = (SessionKey, Arc<Credential>, i64);

/// Something that stands between the door and whoever has no business there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The gate answers under its own names alone.
    Hosts,
    /// Nothing is changed for a page of another origin.
    Origins,
    /// A cookie alone is nobody.
    PageTokens,
    /// A token counts in its header, and nowhere else.
    Headers,
    /// No other page shows ours in a frame.
    Frames,
    /// Whoever signs in has a new session, and no longer the old one.
    Sessions,
    /// An agent's token is no operator's.
    Roles,
    /// A signed message is taken once.
    Replays,
    /// A signed message is taken while it is new.
    Ages,
    /// A body is no larger than it may be.
    Bodies,
    /// What takes its owner is not done from a page that was left open.
    Presence,
    /// A session of MCP serves the credential that opened it.
    Owners,
    /// A message of MCP is what its headers say.
    Agreement,
    /// What takes long ends with the credential that it came by.
    Endings,
}

/// Which guards stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards {
    #[cfg(feature = "weaken")]
    without: Option<Guard>,
}

#[cfg(not(feature = "weaken"))]
impl Guards {
    pub(crate) fn stands(self, _guard: Guard) -> bool {
        true
    }

    /// The session of a cookie and the page token that came with it.
    pub(super) fn session(
        self,
        sessions: &Sessions,
        cookie: &str,
        page: Option<&str>,
        now: i64,
    ) -> Option<Known> {
        sessions.session(cookie, page?, now)
    }

    /// What a request says of who makes it stands in its headers.
    pub(super) fn read_address(self, _request: &mut Request) {}
}

#[cfg(feature = "weaken")]
impl Guards {
    pub(super) fn without(guard: Guard) -> Guards {
        Guards { without: Some(guard) }
    }

    pub(crate) fn stands(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    pub(super) fn session(
        self,
        sessions: &Sessions,
        cookie: &str,
        page: Option<&str>,
        now: i64,
    ) -> Option<Known> {
        match self.stands(Guard::PageTokens) {
            true => sessions.session(cookie, page?, now),
            false => sessions.session_of_cookie(cookie, now),
        }
    }

    pub(super) fn read_address(self, request: &mut Request) {
        if self.stands(Guard::Headers) {
            return;
        }
        let query = request.uri().query().unwrap_or_default();
        let mut tokens = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
        let value = tokens.next().and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        if let Some(value) = value {
            request.headers_mut().entry(header::AUTHORIZATION).or_insert(value);
        }
    }
}
