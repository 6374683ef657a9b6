//! The native walls for a process with threads: runs that can be ended early, and programs that are kept and talked to.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use jail::{Doors, Hangup, Helper, HelperError, Kept, Plan, Report, Request, Response, Running, Step, Warm};

use crate::backend::Refusal;
use crate::fix::{fix_for_step, fix_for_walls};
use crate::native::Native;
use crate::proof::Proofs;

/// Starts sandboxes for a gate. Every call blocks; none starts anything before the walls are proved on this host.
#[derive(Debug)]
pub struct Launcher {
    helper: Helper,
    /// Sandboxes that wait. Whoever makes one run only has no use for them.
    warm: OnceLock<Warm>,
    runs: AtomicUsize,
    proofs: Proofs,
    /// Set once the walls are proved; a failure is tried again, because somebody may have mended the host.
    proved: OnceLock<()>,
}

impl Launcher {
    /// `helper` is a binary that serves as one, `proofs` says what this host holds. From the second run on, sandboxes are
    /// built ahead and wait for the next ones.
    pub fn new(helper: Helper, proofs: Proofs) -> Launcher {
        let runs = AtomicUsize::new(0);
        Launcher { helper, warm: OnceLock::new(), runs, proofs, proved: OnceLock::new() }
    }

    /// Runs a plan to its end. `begun` gets what can end it before.
    pub fn run(&self, request: &Request, begun: impl FnOnce(Hangup)) -> Result<Report, Refusal> {
        self.check_walls()?;
        let running = self.start(request)?;
        begun(running.hangup().map_err(HelperError::Silent)?);
        self.wait(running)
    }

    /// The same for a plan whose network is guarded. `guard` gets what leads out of it.
    pub fn run_guarded(
        &self,
        request: &Request,
        begun: impl FnOnce(Hangup),
        guard: impl FnOnce(Doors),
    ) -> Result<Report, Refusal> {
        self.check_walls()?;
        let mut running = self.start(request)?;
        begun(running.hangup().map_err(HelperError::Silent)?);
        if let Some(doors) = running.doors()? {
            guard(doors);
        }
        self.wait(running)
    }

    /// Makes everything ready for a plan ahead of its input, if a sandbox is ready for it: our own code waits for that, and a
    /// program is not executed before. Does not block.
    pub fn begin(&self, plan: &Plan) -> Option<Running> {
        self.proved.get().and(self.warm.get())?.begin(plan)
    }

    /// Gives what was begun for this request its input, and waits for its end. `begun` gets what can end it before.
    pub fn finish(
        &self,
        running: Running,
        request: &Request,
        begun: impl FnOnce(Hangup),
    ) -> Result<Report, Refusal> {
        if running.give(&request.input).is_err() {
            // It is gone, and has begun with nothing.
            drop(running);
            return self.run(request, begun);
        }
        begun(running.hangup().map_err(HelperError::Silent)?);
        if let Some(warm) = self.warm.get() {
            warm.refill_if_empty();
        }
        self.wait(running)
    }

    /// Waits for the end of what has been given its input. Does not block if that is [`jail::Answered::Whole`]; sandboxes for
    /// later runs are made by [`Launcher::refill`].
    pub fn answer_of(&self, running: Running) -> Result<Report, Refusal> {
        reported(running.wait())
    }

    /// Whether fewer sandboxes wait than should.
    pub fn is_refill_due(&self) -> bool {
        self.warm.get().is_some_and(Warm::is_refill_due)
    }

    /// Makes what the next run needs, while one is waited for.
    pub fn foresee(&self) {
        if let Some(warm) = self.warm.get() {
            warm.foresee();
        }
    }

    /// Ends what was begun and is not wanted.
    pub fn let_go(&self, running: Running) {
        drop(running);
        self.refill();
    }

    /// Has as many sandboxes wait as should.
    pub fn refill(&self) {
        if let Some(warm) = self.warm.get() {
            warm.refill();
        }
    }

    fn wait(&self, running: Running) -> Result<Report, Refusal> {
        let answered = running.wait();
        self.refill();
        reported(answered)
    }

    /// Starts a program that is talked to.
    pub fn keep(&self, plan: &Plan) -> Result<Kept, Refusal> {
        self.check_walls()?;
        let kept = match self.warm.get() {
            Some(warm) => warm.keep(plan),
            None => self.helper.keep(plan),
        };
        self.warm_up();
        kept?.map_err(told)
    }

    fn start(&self, request: &Request) -> Result<Running, HelperError> {
        let started = match self.warm.get() {
            Some(warm) => warm.start(request),
            None => self.helper.start(request),
        };
        self.warm_up();
        started
    }

    fn warm_up(&self) {
        if self.runs.fetch_add(1, Ordering::Relaxed) > 0 {
            self.warm.get_or_init(|| Warm::new(self.helper.clone()));
        }
    }

    /// INVARIANT(proved-first): no sandbox is started on a host whose required walls were not seen to stand.
    fn check_walls(&self) -> Result<(), Refusal> {
        if self.proved.get().is_some() {
            return Ok(());
        }
        let native = Native::with_helper(self.helper.clone(), self.proofs.clone());
        let missing = native.proof()?.missing_walls();
        if !missing.is_empty() {
            return Err(Refusal::NotProved { missing, fix: fix_for_walls() });
        }
        let _ = self.proved.set(());
        Ok(())
    }
}

fn reported(answered: Result<Response, HelperError>) -> Result<Report, Refusal> {
    match answered? {
        Response::Report(report) => Ok(*report),
        refused => Err(told(refused)),
    }
}

/// A helper's refusal, with the fix for it.
pub(crate) fn told(response: Response) -> Refusal {
    match response {
        Response::Refused { step: Some(Step::Sealed(path)), .. } => Refusal::SealedGone { path },
        Response::Refused { messages, step, error } => {
            Refusal::Told { messages, fix: step.and_then(|step| fix_for_step(&step, error)) }
        }
        // A report where a refusal belongs is nonsense.
        Response::Report(_) => {
            Refusal::Told { messages: vec!["the helper gave no answer".to_owned()], fix: None }
        }
    }
}
