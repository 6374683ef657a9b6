//! The points at which gates are killed, and what has to come of the same call made again.

/// What a gate does when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    /// It pays: a tool in the gate itself, whose key is made from its arguments.
    Paying,
    /// It appends to a file: a worker that is kept does it, under the caller's key.
    Appending,
    /// It runs a command: a sandbox of its own, under the caller's key.
    Making,
    /// It pays after a person said yes.
    PayingWithApproval,
    /// It ends what a gate before it has left: one that was killed right after it had paid.
    Recovering,
    /// It records what a person found out about such a payment.
    Reconciling,
}

/// What comes of the same call made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is done, once in all.
    Done,
    /// Nobody knows, and it was not done.
    UnknownUndone,
    /// Nobody knows, and it was done, once.
    UnknownDone,
}

/// One point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) during: During,
    pub(crate) then: Then,
}

const fn point(name: &'static str, during: During, then: Then) -> Point {
    Point { name, during, then }
}

use During::{Appending, Making, Paying, PayingWithApproval, Reconciling, Recovering};
use Then::{Done, UnknownDone, UnknownUndone};

/// In the order of a call. What stands before the slash is the ledger entry that a transaction is about.
pub(crate) const POINTS: [Point; 30] = [
    point("admitted", Paying, Done),
    point("decided", Paying, Done),
    point("call.planned/before-commit", Paying, Done),
    point("call.planned/before-sync", Paying, Done),
    // Of a payment that nobody is asked about, it is on the disk with `call.started`.
    point("call.planned/durable", PayingWithApproval, Done),
    point("approval.answered/before-commit", PayingWithApproval, Done),
    point("approval.answered/before-sync", PayingWithApproval, Done),
    point("approval.answered/durable", PayingWithApproval, Done),
    point("call.started/before-commit", Paying, Done),
    point("call.started/before-commit", PayingWithApproval, Done),
    // From here on it may have happened, as far as a gate that comes after can know.
    point("call.started/before-sync", Paying, UnknownUndone),
    point("call.started/durable", Paying, UnknownUndone),
    point("call.started/durable", PayingWithApproval, UnknownUndone),
    point("effect/before", Paying, UnknownUndone),
    point("worker/unasked", Appending, UnknownUndone),
    point("effect/after", Paying, UnknownDone),
    point("effect/after", PayingWithApproval, UnknownDone),
    point("worker/answered", Appending, UnknownDone),
    point("ran", Making, UnknownDone),
    point("call.settled/before-commit", Paying, UnknownDone),
    // From here on it is on record.
    point("call.settled/before-sync", Paying, Done),
    point("call.settled/durable", Paying, Done),
    point("call.settled/durable", Appending, Done),
    point("settled", Making, Done),
    point("gate.lost/before-commit", Recovering, UnknownDone),
    point("gate.lost/durable", Recovering, UnknownDone),
    point("call.settled/before-commit", Recovering, UnknownDone),
    point("call.settled/durable", Recovering, UnknownDone),
    point("call.reconciled/before-commit", Reconciling, Done),
    point("call.reconciled/durable", Reconciling, Done),
];
