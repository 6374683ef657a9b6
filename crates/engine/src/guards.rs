//! The guards of the catalogue, one by one, so that an attack can be made without each.
//!
//! - INVARIANT(no-weak-catalogue): every guard stands in every build without the `weaken` feature.

#[cfg(feature = "weaken")]
use std::sync::OnceLock;

use contract::Digest;
use store::Stance;

/// What stands before tools that come from somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogueGuard {
    /// A pinned tool that has changed is suspended.
    Pins,
    /// A tool that speaks of another source's is told of.
    Neighbours,
}

/// Which guards stand.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    #[cfg(feature = "weaken")]
    without: OnceLock<CatalogueGuard>,
}

impl Guards {
    #[cfg(not(feature = "weaken"))]
    pub(crate) fn stands(&self, _guard: CatalogueGuard) -> bool {
        true
    }

    #[cfg(feature = "weaken")]
    pub(crate) fn stands(&self, guard: CatalogueGuard) -> bool {
        self.without.get() != Some(&guard)
    }

    /// What is believed of a tool whose definition has this hash.
    pub(crate) fn believed(&self, stance: Stance, hash: Digest) -> Stance {
        if self.stands(CatalogueGuard::Pins) {
            return stance;
        }
        let pin = stance.pin.map(|pin| store::Pin { hash, ..pin });
        Stance { pin, is_suspended: false, ..stance }
    }
}

#[cfg(feature = "weaken")]
impl crate::engine::Engine {
    /// Takes a guard away, for good.
    pub fn take_away(&self, guard: CatalogueGuard) {
        let _ = self.inner.shelf.guards.without.set(guard);
    }
}
