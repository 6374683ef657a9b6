//! Runs commands behind walls, and proves that the walls stand.
//!
//! Mechanism only: it obeys a plan and does not know who asked or whether they may.
//!
//! # Invariants
//! - A backend whose required walls are not proved on this host refuses to run anything.
//! - Nothing configured means [`Deny`].
#![forbid(unsafe_code)]

mod backend;
mod canary;
mod deny;
mod fix;
mod host;
mod native;
mod profile;
mod proof;
mod subprocess;
mod threaded;

pub use backend::{Backend, BackendName, Job, Refusal};
pub use canary::serve_if_asked;
pub use deny::Deny;
pub use fix::fix_for;
pub use host::{Capability, host_facts};
pub use native::Native;
pub use profile::{Host, PlanRequest, Profile};
pub use proof::{Proof, Proofs, ProvedControl};
pub use subprocess::Subprocess;
pub use threaded::Launcher;
