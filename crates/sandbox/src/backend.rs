//! What every backend does: run one job, and say honestly what held it.

use std::path::PathBuf;

use jail::{Controls, HelperError, Plan, PlanError, Report, StartError, Streams};
use thiserror::Error;

/// One command to be run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Everything it may do.
    pub plan: Plan,
    /// The content of the files that the plan seals, one after the other.
    pub sealed: Vec<u8>,
    /// Where its standard streams lead.
    pub streams: Streams,
}

/// Runs jobs in one kind of sandbox.
pub trait Backend {
    /// Which one this is.
    fn name(&self) -> BackendName;

    /// Runs a job to its end. A refusal means that nothing was executed.
    fn run(&self, job: Job) -> Result<Report, Refusal>;
}

/// The backends there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendName {
    /// Runs nothing.
    Deny,
    /// Linux namespaces and what belongs to them.
    Native,
    /// A plain process, for hosts without better.
    Subprocess,
}

impl BackendName {
    /// Reads the name used in configuration and on the command line.
    pub fn parse(text: &str) -> Option<BackendName> {
        match text {
            "deny" => Some(BackendName::Deny),
            "native" => Some(BackendName::Native),
            "subprocess" => Some(BackendName::Subprocess),
            _ => None,
        }
    }

    /// The name used in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            BackendName::Deny => "deny",
            BackendName::Native => "native",
            BackendName::Subprocess => "subprocess",
        }
    }
}

/// Why nothing was executed. The code of each is stable.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The backend runs nothing.
    #[error("no sandbox backend is configured for this")]
    Denied,
    /// A required wall does not stand on this host.
    #[error("this host does not hold: {missing}")]
    NotProved {
        /// Which.
        missing: Controls,
        /// What would change that.
        fix: Option<String>,
    },
    /// The plan asks for more than the backend can hold.
    #[error("the {backend} backend cannot hold this plan: {why}")]
    Beyond {
        /// Which backend.
        backend: &'static str,
        /// What it cannot hold.
        why: &'static str,
    },
    /// The plan is not valid.
    #[error("the plan is not valid")]
    Plan(#[from] PlanError),
    /// The sandbox could not be built.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The process that builds sandboxes failed.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// The sandbox could not be built, as the helper tells it.
    #[error("{}", messages.join(": "))]
    Told {
        /// The error and its causes.
        messages: Vec<String>,
        /// What would change that.
        fix: Option<String>,
    },
    /// What a sealed file stands for is not there any more.
    #[error("`{}` is no longer the file that was sealed", path.display())]
    SealedGone {
        /// Which file.
        path: PathBuf,
    },
    /// The canaries could not be prepared.
    #[error("cannot prepare the canaries that prove the walls")]
    Canaries(#[source] std::io::Error),
    /// A plain process could not be started.
    #[error("cannot start the command")]
    Spawn(#[source] std::io::Error),
}

impl Refusal {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Denied => "sandbox_denied",
            Refusal::NotProved { .. } => "sandbox_not_proved",
            Refusal::Beyond { .. } => "sandbox_beyond_backend",
            Refusal::Plan(_) => "sandbox_bad_plan",
            Refusal::Start(
                StartError::Directory { .. }
                | StartError::Link { .. }
                | StartError::Links { .. }
                | StartError::Late { .. }
                | StartError::Window { .. },
            ) => "sandbox_bad_directory",
            Refusal::Start(StartError::Owners { .. }) => "sandbox_owners",
            Refusal::Start(StartError::Partly { .. }) => "sandbox_partly_enforced",
            Refusal::Start(_) | Refusal::Told { .. } => "sandbox_cannot_build",
            Refusal::SealedGone { .. } => "sandbox_sealed_gone",
            Refusal::Helper(_) => "sandbox_helper",
            Refusal::Canaries(_) => "sandbox_canaries",
            Refusal::Spawn(_) => "sandbox_spawn",
        }
    }

    /// What would change it, if that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            Refusal::NotProved { fix, .. } | Refusal::Told { fix, .. } => fix.clone(),
            Refusal::Start(error) => crate::fix::fix_for(error),
            Refusal::Plan(PlanError::Forbidden { .. }) => Some(
                "take a directory with files of your own, such as a project's: start there, or name it with `workspace`"
                    .to_owned(),
            ),
            Refusal::Denied => Some("choose a backend: `--backend native`".to_owned()),
            _ => None,
        }
    }
}
