//! The threat model of the network, executable: a program behind walls that would reach somebody it was not granted.
//!
//! Each case runs in a world where every address is this machine ([`crate::world`]), so that whoever is reached says so.

mod clients;
mod levels;
mod names;
mod places;
mod pull_requests;
mod repositories;
mod requests;
mod secrets;
mod sign_in;
mod ssh;
mod talk;
mod templates;
mod trip;
mod ways;

use crate::gate::case::Case;
use crate::gate::hosts;

/// Every case, by the name of its group.
pub(crate) fn all() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("hosts", hosts::cases()),
        ("places", places::cases()),
        ("reach", levels::cases()),
        ("names", names::cases()),
        ("talk", talk::cases()),
        ("ways", ways::cases()),
        ("requests", requests::cases()),
        ("secrets", secrets::cases()),
        ("sign_in", sign_in::cases()),
        ("repositories", repositories::cases()),
        ("pull_requests", pull_requests::cases()),
        ("ssh", ssh::cases()),
        ("clients", clients::cases()),
        ("templates", templates::cases()),
    ]
}
