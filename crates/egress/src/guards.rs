//! The guards of this crate by name, so that the attack suite can switch one off and see that it is noticed.
//!
//! # Invariants
//! - INVARIANT(no-weak-way-out): every guard stands in every build without the `weaken` feature.

#[cfg(feature = "weaken")]
use contract::{HostPattern, Reach};

use crate::permit::Permit;

/// Something that stands between a sandbox and whom it was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Only the places of the permit are reached.
    Places,
    /// No special address is dialled.
    Addresses,
    /// TLS names the host that was dialled.
    ServerNames,
    /// A request names the host that was dialled.
    Hosts,
    /// A host that says a secret back is not heard.
    Masks,
    /// A key for ssh signs in sessions with its own host.
    Sessions,
}

/// Which guards stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards {
    #[cfg(feature = "weaken")]
    without: Option<Guard>,
}

#[cfg(not(feature = "weaken"))]
impl Guards {
    pub(crate) fn stands(self, _guard: Guard) -> bool {
        true
    }

    /// The permit as it is kept.
    pub(crate) fn kept(self, permit: Permit) -> Permit {
        permit
    }
}

#[cfg(feature = "weaken")]
impl Guards {
    pub(crate) fn without(guard: Guard) -> Guards {
        Guards { without: Some(guard) }
    }

    pub(crate) fn stands(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    pub(crate) fn kept(self, mut permit: Permit) -> Permit {
        if !self.stands(Guard::Places) {
            let anybody = |reach: Reach| Reach { host: HostPattern::Public, ..reach };
            permit.reach = permit.reach.into_iter().map(anybody).collect();
        }
        permit
    }
}
