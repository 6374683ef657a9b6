//! Hosts, addresses and the places a call may reach, each in one spelling.
//!
//! It opens no socket and asks no resolver: whether a name leads to a special address is found out where it is dialled.
//!
//! # Invariants
//! - There is one parser of hosts. What it accepts has one spelling, and reading that spelling gives the same host.
//! - No accepted name can be read as a number by anything that resolves it.
//! - A grant that is read from text never means every host.

mod host;
mod lookalike;
mod network;
mod number;
mod pattern;
mod preset;
mod private;
mod reach;
mod special;

pub use host::{Host, HostError};
pub use network::{Network, NetworkError};
pub use pattern::{HostPattern, Zone};
pub use preset::{PRESETS, preset};
pub use private::{Private, PrivateError};
pub use reach::{Reach, ReachError, Target};
pub use special::{Special, special_name, special_purpose};

#[cfg(test)]
mod properties;
