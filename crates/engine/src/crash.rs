//! Where a test can have the gate killed, or have it make a mistake. Nothing of it is in what is shipped: see
//! `store::crash`.

#[cfg(feature = "crash")]
pub(crate) use store::crash::{is_seeded, reach};

/// There is no such point in what is shipped.
#[cfg(not(feature = "crash"))]
#[inline]
pub(crate) fn reach(_point: &str) {}

/// What is shipped makes no mistakes on purpose.
#[cfg(not(feature = "crash"))]
#[inline]
pub(crate) const fn is_seeded(_mistake: &str) -> bool {
    false
}
