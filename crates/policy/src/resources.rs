//! How much one call may use, where the configuration says less than the contract.
//!
//! # Invariants
//! - What is configured only lowers: no limit of a grant exceeds the contract's.
//! - Of several that name a tool, the lowest holds for each resource.

use std::time::Duration;

use contract::ToolName;
use serde::Serialize;

use crate::grant::GrantLimits;
use crate::settings::ToolGlob;

/// The most that calls of some tools may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolResources {
    /// Which tools.
    pub tools: ToolGlob,
    /// How much each call of them may use.
    pub most: Resources,
}

/// The most that one call may use. What is not said is as the contract has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// How long it may take, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// Thousandths of one processor.
    pub cpu_millis: Option<u32>,
    /// Processes and threads at once.
    pub processes: Option<u32>,
    /// Bytes that it may add to the disk.
    pub disk: Option<u64>,
    /// Bytes of output that are kept.
    pub output: Option<u64>,
}

impl Resources {
    /// Limits, lowered to these where they are lower.
    #[must_use]
    pub fn lower(&self, limits: GrantLimits) -> GrantLimits {
        fn least<T: Ord>(one: T, other: Option<T>) -> T {
            match other {
                Some(other) => one.min(other),
                None => one,
            }
        }
        GrantLimits {
            timeout: least(limits.timeout, self.duration_ms.map(Duration::from_millis)),
            memory: least(limits.memory, self.memory),
            cpu_millis: least(limits.cpu_millis, self.cpu_millis),
            pids: least(limits.pids, self.processes),
            disk: least(limits.disk, self.disk),
            output: least(limits.output, self.output),
        }
    }
}

/// What a call of a tool may use, of what its contract has.
pub(crate) fn limits_for(
    tool: &ToolName,
    contract: GrantLimits,
    configured: &[ToolResources],
) -> GrantLimits {
    let named = configured.iter().filter(|resources| resources.tools.matches(tool));
    named.fold(contract, |limits, resources| resources.most.lower(limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(tools: &str, most: Resources) -> ToolResources {
        ToolResources { tools: ToolGlob::parse(tools).unwrap(), most }
    }

    #[test]
    fn the_lowest_holds_for_each_resource_and_nothing_is_raised() {
        let contract = GrantLimits::default();
        let all = [
            configured(
                "*",
                Resources { memory: Some(64 << 20), processes: Some(9999), ..Resources::default() },
            ),
            configured(
                "shell",
                Resources { duration_ms: Some(500), memory: Some(1 << 40), ..Resources::default() },
            ),
            configured("fs.*", Resources { disk: Some(1), ..Resources::default() }),
        ];
        let limits = limits_for(&ToolName::parse("shell").unwrap(), contract, &all);
        let expected =
            GrantLimits { timeout: Duration::from_millis(500), memory: 64 << 20, ..GrantLimits::default() };
        assert_eq!(limits, expected);
    }

    #[test]
    fn what_nobody_configured_is_the_contracts() {
        let limits = limits_for(&ToolName::parse("shell").unwrap(), GrantLimits::default(), &[]);
        assert_eq!(limits, GrantLimits::default());
    }
}
