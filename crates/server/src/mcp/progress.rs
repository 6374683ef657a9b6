//! Signs of life, for clients that ask for them.

use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

/// How often a client that wants to know hears that a call still goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Tells the client that a call still goes on, if it asked to be told.
pub(super) struct Progress {
    context: Option<(Peer<RoleServer>, ProgressToken)>,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Progress {
        Progress { context: context.meta.get_progress_token().map(|token| (context.peer.clone(), token)) }
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
