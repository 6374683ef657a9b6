//! The threat model, executable: every wall of a sandbox attacked from inside, by the same binary that launches it,
//! and the gate attacked with the calls that a model could make.
//!
//! Knows the walls only by their names and their reports; what it believes is what it sees at the target.
//!
//! # Invariants
//! - A case has teeth: with its walls left out, or on the bare host, the same attack works.
//! - A case that did not run its attack fails; it never counts as held.
//! - For every wall there is a case that turns red when the wall is switched off.
//! - `unsafe` appears only in `raw.rs`.

mod bench;
mod case;
mod egress;
mod gate;
mod launch;
mod payload;
mod place;
mod raw;
mod stage;
mod storm;
mod suite;
mod threats;
mod world;

pub use gate::{Cases, GateSuite, LIAR, serve_visitor_if_asked};
pub use payload::{ATTACK_ARGUMENT, serve_if_asked};
pub use storm::{StormSuite, serve_if_asked as serve_storm_if_asked};
pub use suite::Suite;
pub use world::enter_if_possible as enter_world;

/// What every step of a case gives: a value, or why the case could not be tried.
pub(crate) type Try<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
