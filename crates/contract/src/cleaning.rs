//! What cleaning a call's output came to, as its result and its receipt tell it: numbers and names, never the text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was found in what a tool gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cleaning {
    /// Whether something in it tries to steer whoever reads it.
    pub tainted: bool,
    /// How many places were taken out.
    pub removed: u64,
    /// How many were masked.
    pub masked: u64,
    /// How many were only flagged.
    pub flagged: u64,
    /// How often each rule spoke, as `category/rule`.
    pub rules: BTreeMap<String, u64>,
}

impl Cleaning {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
