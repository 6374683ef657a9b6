//! Ends a run at a server in its time, and says what was known of it by then.

use std::pin::pin;
use std::time::Duration;

use contract::{Reason, RunFacts};
use tokio_util::sync::CancellationToken;

use super::run_so_far::CUT_WITHIN;
use crate::tool::taken_back;

/// What comes of a run in its time. One that is taken back or takes too long is cut short, and says what was known of it.
pub(super) async fn within<T>(
    timeout: Duration,
    cancel: &CancellationToken,
    cut: &CancellationToken,
    too_late: impl FnOnce() -> Reason,
    run: impl Future<Output = Result<(T, RunFacts), (Reason, RunFacts)>>,
) -> Result<(T, RunFacts), (Reason, RunFacts)> {
    let mut run = pin!(run);
    let why = tokio::select! {
        ended = &mut run => return ended,
        () = cancel.cancelled() => taken_back(),
        () = tokio::time::sleep(timeout) => too_late(),
    };
    cut.cancel();
    let facts = match tokio::time::timeout(CUT_WITHIN, run).await {
        Ok(Ok((_, facts)) | Err((_, facts))) => facts,
        Err(_) => RunFacts::default(),
    };
    Err((why, facts))
}

/// What comes of this, unless the run is cut short first.
pub(super) async fn unless_cut<T>(
    cut: &CancellationToken,
    work: impl Future<Output = Result<T, Reason>>,
) -> Result<T, Reason> {
    tokio::select! {
        done = work => done,
        () = cut.cancelled() => Err(taken_back()),
    }
}
