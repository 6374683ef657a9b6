//! Linux namespaces and what belongs to them, from the `jail` crate, once they are proved on this host.

use jail::{Feed, Helper, Report, Request, Response, Streams};

use crate::backend::{Backend, BackendName, Job, Refusal};
use crate::fix::{fix_for_step, fix_for_walls};
use crate::proof::{Proof, Proofs};

/// Runs jobs in Linux namespaces.
#[derive(Debug)]
pub struct Native {
    launcher: Launcher,
    proofs: Proofs,
}

#[derive(Debug)]
enum Launcher {
    /// This process has one thread and may fork.
    Own,
    /// A helper forks instead.
    Helper(Helper),
}

impl Native {
    /// For a process with one thread, such as a command line: no helper is needed.
    pub fn single_threaded(proofs: Proofs) -> Native {
        Native { launcher: Launcher::Own, proofs }
    }

    /// For a process with threads.
    pub fn with_helper(helper: Helper, proofs: Proofs) -> Native {
        Native { launcher: Launcher::Helper(helper), proofs }
    }

    /// Runs the canaries anew and keeps what they prove.
    pub fn prove(&self) -> Result<Proof, Refusal> {
        self.proofs.renew(|job| self.launch(job))
    }

    fn launch(&self, job: Job) -> Result<Report, Refusal> {
        match (&self.launcher, job.streams) {
            (Launcher::Own, streams) => Ok(jail::run(&job.plan, streams, None)?),
            (Launcher::Helper(helper), Streams::Collect { input: Feed::Bytes(input) }) => {
                match helper.run(&Request { plan: job.plan, input })? {
                    Response::Report(report) => Ok(*report),
                    Response::Refused { messages, step, error } => {
                        let fix = step.and_then(|step| fix_for_step(&step, error));
                        Err(Refusal::Told { messages, fix })
                    }
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
        // INVARIANT(proved): without a proof of this boot and this binary, the canaries run first.
        let proof = self.proofs.current(|job| self.launch(job))?;
        let missing = proof.missing_walls();
        if !missing.is_empty() {
            return Err(Refusal::NotProved { missing, fix: fix_for_walls() });
        }
        self.launch(job)
    }
}
