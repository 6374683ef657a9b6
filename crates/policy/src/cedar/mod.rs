//! Rules in Cedar: what operators forbid, or have people asked about, in a language that was made for it.
//!
//! Knows texts, not files: who reads them says where each stands.
//!
//! # Invariants
//! - A rule only ever restricts: no text of one can turn a deny or a question into an allow.
//! - A rule that cannot be evaluated for a call denies it; an erroring `forbid` never counts as absent.
//! - What a call holds and a rule cannot be shown is no way around that rule.

mod carry;
mod check;
mod index;
mod names;
mod read;
mod say;
mod schema;
mod sight;
mod spend;
mod tree;
mod types;
mod untold;
mod words;

pub use check::{CedarChecks, CedarSchema, Checked};
pub use names::{Named, Reads};
pub use read::{CedarEffect, CedarProblem, CedarRule};
pub use schema::CedarTool;
pub use sight::Circumstances;
pub use spend::Spend;
pub use types::{ArgumentTypes, Kind, Member};

pub(crate) use index::CedarIndex;
pub(crate) use sight::Shown;
pub(crate) use untold::lets_by;

/// What one rule says about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CedarSays {
    /// It is not about the call.
    Nothing,
    /// It is.
    Matches,
    /// Nobody can tell, and why.
    Fails(String),
}
