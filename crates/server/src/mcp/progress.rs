//! Signs of life, for clients that ask for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

/// How often a client that wants to know hears that a call still goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Tells the client that a call still goes on, if it asked to be told.
pub(super) struct Progress {
    context: Option<(Peer<RoleServer>, ProgressToken)>,
    told: Arc<Mutex<Furthest>>,
}

/// How far a client was told that a call is. It never goes back.
#[derive(Debug, Default)]
pub(super) struct Furthest {
    latest: Option<f64>,
    /// The server of somebody else says so itself, in its own numbers.
    by_the_server: bool,
}

impl Furthest {
    /// Whether what a server says is further than what was told. From now on it speaks for itself.
    pub(super) fn by_the_server(&mut self, progress: f64) -> bool {
        self.by_the_server = true;
        self.is_further(progress)
    }

    fn is_further(&mut self, progress: f64) -> bool {
        let is_further = self.latest.is_none_or(|latest| progress > latest);
        if is_further {
            self.latest = Some(progress);
        }
        is_further
    }
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Progress {
        let context = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        Progress { context, told: Arc::default() }
    }

    /// What was told so far.
    pub(super) fn told(&self) -> Arc<Mutex<Furthest>> {
        Arc::clone(&self.told)
    }

    pub(super) async fn beside<T>(self, work: impl Future<Output = T>) -> T {
        let done = CancellationToken::new();
        let telling = async {
            let Some((peer, token)) = self.context else { return };
            let mut seconds = 0.0;
            while !done.is_cancelled() {
                tokio::select! {
                    () = done.cancelled() => return,
                    () = tokio::time::sleep(PROGRESS_EVERY) => {}
                }
                seconds += PROGRESS_EVERY.as_secs_f64();
                let is_ours = {
                    let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                    !told.by_the_server && told.is_further(seconds)
                };
                if !is_ours {
                    continue;
                }
                let mut told = ProgressNotificationParam::new(token.clone(), seconds);
                told.message = Some("the call still goes on".to_owned());
                let _ = peer.notify_progress(told).await;
            }
        };
        let work = async {
            let result = work.await;
            done.cancel();
            result
        };
        let (result, ()) = tokio::join!(work, telling);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_call_is_never_goes_back() {
        let mut told = Furthest::default();
        assert!(told.is_further(2.0));
        assert!(!told.by_the_server(0.0), "behind what was told");
        assert!(told.by_the_server(50.0) && !told.by_the_server(50.0));
        assert!(told.by_the_server);
    }
}
