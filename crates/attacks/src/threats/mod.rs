//! The threats, one file each. A file holds its cases, what it runs inside, and nothing of the others.

use jail::Caller;

use crate::case::Case;
use crate::payload::Payload;

mod again;
mod commands;
mod disk;
mod files;
mod gate;
mod handed;
mod hidden;
mod identity;
mod in_place;
mod kernel;
mod leaks;
mod lifetime;
mod limits;
mod litter;
mod network;
mod output;
mod plants;
mod processes;
mod programs;
mod protected;
mod races;
mod seals;
mod sockets;
mod terminals;
mod views;
mod waiting;

pub(crate) use lifetime::{wait_at_most, wait_patiently};

/// Every case, by the name of its group.
pub(crate) fn all(caller: Caller) -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("again", again::cases()),
        ("commands", commands::cases()),
        ("disk", disk::cases()),
        ("files", files::cases()),
        ("gate", gate::cases()),
        ("handed", handed::cases()),
        ("hidden", hidden::cases()),
        ("identity", identity::cases()),
        ("in_place", in_place::cases()),
        ("kernel", kernel::cases()),
        ("leaks", leaks::cases(caller)),
        ("lifetime", lifetime::cases()),
        ("limits", limits::cases(caller)),
        ("litter", litter::cases()),
        ("network", network::cases()),
        ("output", output::cases()),
        ("processes", processes::cases(caller)),
        ("programs", programs::cases()),
        ("protected", protected::cases()),
        ("races", races::cases()),
        ("seals", seals::cases()),
        ("sockets", sockets::cases()),
        ("terminals", terminals::cases()),
        ("views", views::cases(caller)),
        ("waiting", waiting::cases()),
    ]
}

/// Everything that can be run inside.
pub(crate) fn payloads() -> Vec<Payload> {
    [
        disk::PAYLOADS,
        files::PAYLOADS,
        handed::PAYLOADS,
        hidden::PAYLOADS,
        identity::PAYLOADS,
        kernel::PAYLOADS,
        leaks::PAYLOADS,
        lifetime::PAYLOADS,
        limits::PAYLOADS,
        litter::PAYLOADS,
        waiting::PAYLOADS,
        network::PAYLOADS,
        output::PAYLOADS,
        processes::PAYLOADS,
        programs::PAYLOADS,
        protected::PAYLOADS,
        seals::PAYLOADS,
        sockets::PAYLOADS,
        terminals::PAYLOADS,
        views::PAYLOADS,
    ]
    .concat()
}
