//! The engine from outside, with a tool that needs no sandbox.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]
#![expect(clippy::panic, reason = "so is what it gets and did not expect")]

mod desk;
mod disclosure;
mod faults;
mod hardship;
mod hooks;
mod limits;
mod reload;
mod sources;
mod together;
mod turns;
