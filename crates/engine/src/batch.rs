//! Many calls at once: each takes the one path, a bounded number at a time, and none ends another.
//!
//! # Invariants
//! - A call that fails, is refused, or in which code panics has its answer, and so have its siblings.
//! - Answers come in the order of the requests, and there are as many.
//! - No more calls are under way at a time than was said, however many are asked for.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use contract::{CallId, CallResult, Reason, ToolName};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::filed_under;
use crate::engine::Engine;
use crate::request::Request;
use crate::settle::lost;

/// How many calls are under way at a time unless somebody says otherwise.
pub const AT_ONCE: usize = 8;
/// How many calls are taken together.
pub const MOST_TOGETHER: usize = 1000;

tokio::task_local! {
    /// Whether code of the gate or of a tool has panicked in the call that this task makes.
    static PANICKED: Cell<bool>;
}

/// What became of many calls.
#[derive(Debug)]
pub struct Batch {
    /// An answer for each request, in their order.
    pub results: Vec<CallResult>,
    /// In which of them code panicked, by their place. What such a call has done is unknown.
    pub panicked: Vec<usize>,
}

impl Engine {
    /// Makes many calls, `at_once` at a time, and returns when all have their answer.
    ///
    /// Dropping the future, like cancelling, ends those that run.
    pub async fn call_all(
        &self,
        requests: Vec<Request>,
        at_once: usize,
        patience: Duration,
        cancel: CancellationToken,
    ) -> Batch {
        let gone = cancel.child_token();
        let _gone_with_us = gone.clone().drop_guard();
        let tools: Vec<ToolName> = requests.iter().map(|request| filed_under(&request.tool)).collect();
        let room = Arc::new(Semaphore::new(at_once.max(1)));
        let mut running = JoinSet::new();
        for (place, request) in requests.into_iter().enumerate() {
            let (engine, room, cancel) = (self.clone(), Arc::clone(&room), gone.clone());
            running.spawn(PANICKED.scope(Cell::new(false), async move {
                // Nobody closes it.
                let _turn = room.acquire_owned().await;
                let result = engine.call(request, patience, cancel).await;
                (place, result, PANICKED.with(Cell::get))
            }));
        }
        let mut answers: Vec<Option<CallResult>> = tools.iter().map(|_| None).collect();
        let mut panicked = Vec::new();
        // INVARIANT(siblings): whatever became of one, the others are waited for.
        while let Some(ended) = running.join_next().await {
            let Ok((place, result, has_panicked)) = ended else { continue };
            panicked.extend(has_panicked.then_some(place));
            if let Some(answer) = answers.get_mut(place) {
                *answer = Some(result);
            }
        }
        panicked.extend(
            answers.iter().enumerate().filter(|(_, answer)| answer.is_none()).map(|(place, _)| place),
        );
        panicked.sort_unstable();
        let results =
            answers.into_iter().zip(tools).map(|(answer, tool)| answer.unwrap_or_else(|| fell(&tool)));
        Batch { results: results.collect(), panicked }
    }
}

/// The answer of a call whose own task panicked: whether it was recorded, nobody can say here.
fn fell(tool: &ToolName) -> CallResult {
    let reason = Reason::outcome_unknown("the gate's own code failed in the middle of the call");
    lost(&CallId::from_random([0; 16]), tool, reason)
}

/// Notes that code has panicked in the call that is being made.
pub(crate) fn note_panic() {
    // Where nobody counts, nobody is told.
    let _ = PANICKED.try_with(|panicked| panicked.set(true));
}

/// Runs a tool's own code that touches nothing. One that panics has said no.
pub(crate) fn caught<T>(code: impl FnOnce() -> T) -> Result<T, Reason> {
    // What it leaves half done is its own, and is thrown away.
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| {
        note_panic();
        Reason::internal("the tool's own code failed before anything was done")
    })
}
