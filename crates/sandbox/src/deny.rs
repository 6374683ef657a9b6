//! The backend for whatever is not configured: it runs nothing.

use jail::Report;

use crate::backend::{Backend, BackendName, Job, Refusal};

/// Refuses every job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deny;

impl Backend for Deny {
    fn name(&self) -> BackendName {
        BackendName::Deny
    }

    fn run(&self, _job: Job) -> Result<Report, Refusal> {
        Err(Refusal::Denied)
    }
}
