//! The store from outside: through its API, and with raw SQL behind its back.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]
#![expect(clippy::panic, reason = "so is what it gets and did not expect")]

mod approvals;
mod calls;
mod gate;
mod ledger;
mod opening;
mod registry;
mod rules;
mod together;
