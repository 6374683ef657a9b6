//! Kills gates at every named point between a request and its receipt, starts them again, and proves from outside that
//! nothing happened twice, nothing unrecorded, and nothing is left.
//!
//! The gate that is killed is this binary itself, built with points to be killed at; what is shipped has none.
//!
//! # Invariants
//! - A round whose gate was not killed at its point fails: it proved nothing.
//! - The checker believes the effects it counts, the ledger, and the list of processes; never the gate's own word alone.
//! - The checker finds mistakes that are made on purpose.

mod check;
mod driver;
mod points;
mod suite;

pub use driver::serve_if_asked;
pub(crate) use driver::{ARGUMENT, Deed, Orders};
pub use suite::StormSuite;
