//! The guards before servers of others, one by one, so that an attack can be made without each.
//!
//! - INVARIANT(no-weak-gateway): every guard stands in every build without the `weaken` feature.

/// What stands before a server of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A message has one meaning, or none.
    Reading,
    /// What runs is what was imported.
    Definitions,
    /// Texts that give orders are shown to no model.
    Cleaning,
    /// It is classed as the worst, whatever it says of itself.
    Classes,
    /// It asks nobody what it may not.
    Questions,
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
}

#[cfg(feature = "weaken")]
impl Guards {
    pub(crate) fn without(guard: Guard) -> Guards {
        Guards { without: Some(guard) }
    }

    pub(crate) fn stands(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }
}
