//! The guards at the door of MCP, one by one, so that an attack can be made without each.
//!
//! - INVARIANT(no-weak-door): every guard stands in every build without the `weaken` feature.

/// What stands at the door of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorGuard {
    /// A session serves the credential that opened it.
    Sessions,
    /// A message is what its headers say.
    Headers,
}

/// Which guards stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards {
    #[cfg(feature = "weaken")]
    pub(crate) without: Option<DoorGuard>,
}

impl Guards {
    #[cfg(not(feature = "weaken"))]
    pub(crate) fn stands(self, _guard: DoorGuard) -> bool {
        true
    }

    #[cfg(feature = "weaken")]
    pub(crate) fn stands(self, guard: DoorGuard) -> bool {
        self.without != Some(guard)
    }
}
