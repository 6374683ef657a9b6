//! The keys under `hooks`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::HookTimeWord;

/// A program of yours that is heard about calls.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HookFile {
    /// By which reasons and receipts name it: letters, digits, `-` and `_`. Must be given.
    pub(crate) name: Given<String>,
    /// The program, by its absolute path, without links. Only root or whoever runs the gate may be able to change it, and
    /// no agent may work where it is. Must be given.
    pub(crate) command: Given<String>,
    /// Its arguments. Default: none.
    pub(crate) args: Given<Vec<At<String>>>,
    /// When it is heard. Default: `before`.
    pub(crate) when: Given<HookTimeWord>,
    /// About calls of which tools: `shell`, `fs.*`. Default: all.
    pub(crate) tools: Given<Vec<At<String>>>,
    /// How long it may take, 5000 at most; after that it has said no. Default: 2000.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Given<u64>,
}
