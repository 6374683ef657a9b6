//! Linux namespaces and what belongs to them, from the `jail` crate, once they are proved on this host.

use std::cell::Cell;

use jail::{Doors, Feed, Helper, News, Prepared, Report, Request, Response, Streams};

use crate::backend::{Backend, BackendName, Job, Refusal};
use crate::fix::fix_for_walls;
use crate::proof::{Proof, Proofs};
use crate::threaded::told;

/// Runs jobs in Linux namespaces.
pub struct Native {
    launcher: Launcher,
    proofs: Proofs,
}

enum Launcher {
    /// This process has one thread and may fork. It may have begun already.
    Own(Cell<Option<Box<Prepared>>>),
    /// A helper forks instead.
    Helper(Helper),
}

impl Native {
    /// For a process with one thread, such as a command line: no helper is needed. `begun` serves the first job.
    pub fn single_threaded(proofs: Proofs, begun: Option<Prepared>) -> Native {
        Native { launcher: Launcher::Own(Cell::new(begun.map(Box::new))), proofs }
    }

    /// For a process with threads.
    pub fn with_helper(helper: Helper, proofs: Proofs) -> Native {
        Native { launcher: Launcher::Helper(helper), proofs }
    }

    /// What is proved of this boot and this binary; the canaries run if that is nothing yet.
    pub fn proof(&self) -> Result<Proof, Refusal> {
        self.proofs.current(|job| self.launch(job))
    }

    /// Runs the canaries anew and keeps what they prove.
    pub fn prove(&self) -> Result<Proof, Refusal> {
        self.proofs.renew(|job| self.launch(job))
    }

    /// Runs a job whose network is guarded. `guard` gets what leads out of it, and must not block.
    pub fn run_guarded(&self, job: Job, guard: &mut dyn FnMut(Doors)) -> Result<Report, Refusal> {
        if let Launcher::Helper(_) = self.launcher {
            let why = "what leads out of its network goes to whoever started the helper";
            return Err(Refusal::Beyond { backend: "native", why });
        }
        self.check_walls()?;
        self.launch_telling(job, &mut |news| {
            if let News::Guarded(doors) = news {
                guard(doors);
            }
        })
    }

    fn check_walls(&self) -> Result<(), Refusal> {
        let missing = self.proof()?.missing_walls();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::NotProved { missing, fix: fix_for_walls() })
    }

    fn launch(&self, job: Job) -> Result<Report, Refusal> {
        self.launch_telling(job, &mut |_| {})
    }

    fn launch_telling(&self, job: Job, hears: &mut dyn FnMut(News<'_>)) -> Result<Report, Refusal> {
        match (&self.launcher, job.streams) {
            (Launcher::Own(begun), streams) => match begun.take() {
                Some(prepared) => Ok(prepared.run_telling(&job.plan, &job.sealed, streams, None, hears)?),
                None => Ok(jail::run_telling(&job.plan, &job.sealed, streams, None, hears)?),
            },
            (Launcher::Helper(helper), Streams::Collect { input: Feed::Bytes(input) }) => {
                match helper.run(&Request { plan: job.plan, sealed: job.sealed, input })? {
                    Response::Report(report) => Ok(*report),
                    refused => Err(told(refused)),
                }
            }
            (Launcher::Helper(_), _) => {
                Err(Refusal::Beyond { backend: "native", why: "a helper has no standard streams to pass on" })
            }
        }
    }
}

impl Backend for Native {
    fn name(&self) -> BackendName {
        BackendName::Native
    }

    fn run(&self, job: Job) -> Result<Report, Refusal> {
        self.check_walls()?;
        self.launch(job)
    }
}
