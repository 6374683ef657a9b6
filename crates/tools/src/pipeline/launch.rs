//! One run of our own code behind walls, from its plan to its report.
//!
//! Knows neither what it is told nor what it says. Whoever stops waiting for it ends it, and with it whatever it could reach.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{Digest, Reason};
use egress::OpenGrant;
use jail::{Answered, Hangup, HelperError, Plan, Report, Request, Running};
use policy::WorkspaceAccess;
use sandbox::{Launcher, Refusal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;

use crate::facts::not_enforced;
use crate::operands::{Hold, busy};
use crate::reach::{Usage, WayOut};
use crate::surroundings::Surroundings;
use crate::tool::taken_back;

/// As much as is given to a sandbox in place: it takes that without waiting for anybody to read.
const GIVEN_AT_ONCE: usize = 16 * 1024;

/// A run that has its plan.
pub(crate) struct Launch {
    pub(crate) plan: Plan,
    /// The content of what the plan seals.
    pub(crate) sealed: Vec<u8>,
    /// What it is told.
    pub(crate) input: Vec<u8>,
    /// The workspace, and what is done there.
    pub(crate) root: PathBuf,
    pub(crate) access: WorkspaceAccess,
    /// How long it waits for the workspace.
    pub(crate) timeout: Duration,
    /// Its way to other hosts, if it has one.
    pub(crate) way: Option<WayOut>,
}

/// A run that is over.
pub(crate) struct Launched {
    pub(crate) report: Report,
    /// What its network was used for.
    pub(crate) usage: Usage,
    /// The digest of the code that ran.
    pub(crate) worker: Option<Digest>,
}

impl Launch {
    pub(crate) async fn run(self, at: &Surroundings, cancel: &CancellationToken) -> Result<Launched, Reason> {
        let effect = if self.access == WorkspaceAccess::Write || self.way.is_some() {
            Effect::Possible
        } else {
            Effect::None
        };
        let hold = tokio::select! {
            held = at.hold(&self.root, self.access) => held?,
            () = cancel.cancelled() => return Err(taken_back()),
            () = tokio::time::sleep(self.timeout) => return Err(busy()),
        };
        let ready = at.take_ready().and_then(|ready| ready.taken_for(&self.plan));
        let request = Request { plan: self.plan, sealed: self.sealed, input: self.input };
        let ending = Arc::new(Ending::default());
        // Ends the sandbox when this future is dropped, too.
        let on_drop = EndOnDrop(Arc::clone(&ending));
        let running = run_to_end(ready, self.way, request, hold, at, Arc::clone(&ending));
        tokio::pin!(running);
        let mut cancelled = false;
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran,
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    ending.end();
                }
            }
        };
        drop(on_drop);
        let worker = at.worker_digest().await;
        let (report, open) = ran.ok_or_else(|| Reason::internal("the gate is ending"))?;
        // Whatever became of it: what it could reach it can reach no more.
        let usage = match open {
            Some(open) => open.close().await,
            None => Usage::default(),
        };
        let report = report.map_err(|refusal| {
            // There is no receipt of it but the reason.
            tracing::warn!(?usage, "a run ended without a report; this is what its network was used for");
            not_ended(&refusal, effect)
        })?;
        Ok(Launched { report, usage, worker })
    }
}

/// Runs it in one of three ways: in what is ready, waited for in place or by a thread; or in what is made for it, by a thread.
/// Returns the guard of its network, too. Nothing if the gate is ending.
async fn run_to_end(
    ready: Option<Running>,
    way: Option<WayOut>,
    request: Request,
    hold: Option<Arc<Hold>>,
    at: &Surroundings,
    ending: Arc<Ending>,
) -> Option<(Result<Report, Refusal>, Option<OpenGrant>)> {
    let is_short = way.is_none() && request.input.len() <= GIVEN_AT_ONCE;
    let ready = match ready {
        Some(running) if is_short => match Given::give(running, hold.clone(), at, &request.input, &ending) {
            Some(given) => return Some((given.answer().await?, None)),
            None => None,
        },
        ready => ready,
    };
    at.launch(move |launcher| {
        // Until its last process has ended, whoever stops waiting for it.
        let _hold = hold;
        let begun = |hangup| ending.begun(hangup);
        match (way, ready) {
            (Some(way), _) => {
                let mut open = None;
                let ran = launcher.run_guarded(&request, begun, |doors| open = way.open(doors));
                (ran, open)
            }
            (None, Some(running)) => (launcher.finish(running, &request, begun), None),
            (None, None) => (launcher.run(&request, begun), None),
        }
    })
    .await
}

/// A run that has been given its input, and is waited for in place: to wake a thread for that, and to be woken by it, takes
/// longer than a short command. It ends when this is dropped, and the workspace is held until then.
struct Given {
    running: Option<(Running, Option<Arc<Hold>>)>,
    at: Surroundings,
}

impl Given {
    /// Nothing if it is gone: whoever goes before the word has begun nothing, and is made anew.
    fn give(
        running: Running,
        hold: Option<Arc<Hold>>,
        at: &Surroundings,
        input: &[u8],
        ending: &Ending,
    ) -> Option<Given> {
        let given = Given { running: Some((running, hold)), at: at.clone() };
        let (running, _) = given.running.as_ref()?;
        // What could not be ended is not begun.
        let hangup = running.hangup().ok()?;
        running.give(input).ok()?;
        ending.begun(hangup);
        given.at.launcher().foresee();
        Some(given)
    }

    /// Nothing if the gate is ending.
    async fn answer(mut self) -> Option<Result<Report, Refusal>> {
        let comes = Given::comes(&mut self.running.as_mut()?.0).await;
        let (running, hold) = self.running.take()?;
        let answer = match comes {
            Ok(Answered::Whole) => self.at.launcher().answer_of(running),
            // What is long is waited for by somebody who may.
            _ => {
                let wait = move |launcher: &Launcher| (launcher.answer_of(running), hold);
                self.at.launch(wait).await?.0
            }
        };
        if self.at.launcher().is_refill_due() {
            let at = self.at.clone();
            tokio::task::spawn_blocking(move || at.launcher().refill());
        }
        Some(answer)
    }

    /// Waits until there is an answer. Not for room to say more as well: whoever asks for that is woken when the other side has
    /// heard.
    async fn comes(running: &mut Running) -> io::Result<Answered> {
        #[expect(
            deprecated,
            reason = "it owns what is watched; what may not is unsound, and its successor unsafe"
        )]
        let watched = AsyncFd::with_interest(running.watched()?, Interest::READABLE)?;
        let look = || match running.answered() {
            Answered::NotYet => Err(io::ErrorKind::WouldBlock.into()),
            answered => Ok(answered),
        };
        watched.async_io(Interest::READABLE, |_| look()).await
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some((running, hold)) = self.running.take() {
            // Its end is waited for.
            let at = self.at.clone();
            tokio::task::spawn_blocking(move || {
                at.launcher().let_go(running);
                drop(hold);
            });
        }
    }
}

/// Whether a run may leave something behind.
#[derive(Clone, Copy)]
enum Effect {
    None,
    Possible,
}

/// Why there is no report. A helper that says nothing may have run all of it.
fn not_ended(refusal: &Refusal, effect: Effect) -> Reason {
    match (refusal, effect) {
        (Refusal::Helper(HelperError::Silent(_)), Effect::Possible) => Reason::outcome_unknown(
            "the sandbox's launcher ended in the middle of the call; it may have happened",
        )
        .with_hint("look at the workspace before you try again"),
        _ => not_enforced(refusal),
    }
}

/// The end of a run, asked for by one thread and brought about by another.
#[derive(Default)]
pub(crate) struct Ending(Mutex<EndingState>);

#[derive(Default)]
enum EndingState {
    #[default]
    NotBegun,
    Begun(Hangup),
    Ended,
}

impl Ending {
    pub(crate) fn begun(&self, hangup: Hangup) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            EndingState::Ended => hangup.hang_up(),
            EndingState::NotBegun | EndingState::Begun(_) => *state = EndingState::Begun(hangup),
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), EndingState::Ended)
    }

    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let EndingState::Begun(hangup) = std::mem::replace(&mut *state, EndingState::Ended) {
            hangup.hang_up();
        }
    }
}

/// Ends a run when nobody waits for it any more.
pub(crate) struct EndOnDrop(pub(crate) Arc<Ending>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
