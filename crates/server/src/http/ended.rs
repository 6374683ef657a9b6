//! Whether whoever made a request would still be let in: what takes long ends with the credential that it came by.
//!
//! # Invariants
//! - No answer, and no part of one, is given to a credential that has been revoked, or is past its time, for longer than
//!   [`LOOK_AGAIN`]. What it waits for is waited for by nobody then, and what it runs is told to end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use contract::Digest;

use super::app::App;
use super::caller::{AGENT, Caller, bearer};
use super::guards::Guard;
use super::mcp;
use super::problem::Problem;
use super::room::Holder;

/// How often it is looked at: other processes revoke, too.
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// Whoever made a request by a token, and all that they are known by.
pub(super) struct Bearer {
    app: App,
    headers: HeaderMap,
    holder: Holder,
    is_at_mcp: bool,
}

impl Bearer {
    /// Nothing for the page: its session is looked at where it listens.
    pub(super) fn of(app: &App, request: &Request, caller: &Caller) -> Option<Arc<Bearer>> {
        if !app.guards.stands(Guard::Endings) {
            return None;
        }
        let of = |name: HeaderName| request.headers().get(&name).map(|value| (name.clone(), value.clone()));
        let headers = [Some(of(header::AUTHORIZATION)?), of(AGENT)].into_iter().flatten().collect();
        let is_at_mcp = request.uri().path() == mcp::PATH;
        Some(Arc::new(Bearer { app: app.clone(), headers, holder: caller.holder(), is_at_mcp }))
    }

    /// Waits until they would not be let in any more.
    // ATTACK(revoked-while-waiting)
    pub(super) async fn ended(&self) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let read = match self.is_at_mcp {
                true => mcp::who(&self.app, &self.headers).await,
                false => Caller::read(&self.app, &self.headers).await,
            };
            match read {
                Ok(caller) if caller.holder() == self.holder => {}
                Ok(_) => return,
                // A store that does not answer says nothing of anybody.
                Err(problem) if problem.status().is_server_error() => {}
                Err(_) => return,
            }
        }
    }

    /// Ends what they have left open.
    pub(super) async fn leave(&self) {
        if let (Some(door), Some(token)) = (&self.app.mcp, bearer(&self.headers)) {
            door.forget(Digest::of(token.as_bytes())).await;
        }
    }

    /// The same, without waiting for it.
    pub(super) fn leave_soon(self: Arc<Bearer>) {
        let tasks = self.app.tasks.clone();
        tasks.spawn(async move { self.leave().await });
    }
}

/// What they are told.
pub(super) fn problem() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "bad_credential",
        "the credential has ended while this was under way",
    )
    .with_hint("`toolgate agents token NAME` gives an agent's token, and with `--rotate` another one")
}
