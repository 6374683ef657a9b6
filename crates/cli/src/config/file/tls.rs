//! The keys under `tls`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};

/// The certificate by which `toolgate up` is known.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tls {
    /// The certificate chain, a PEM file, the gate's own first. A relative path begins at this file. Must be given.
    pub(crate) certificate: Given<String>,
    /// The certificate's key, a PEM file. Must be given.
    pub(crate) key: Given<String>,
    /// Names under which the gate answers besides `localhost`, as its certificate has them. Needed where others can reach it.
    /// Default: none.
    pub(crate) names: Given<Vec<At<String>>>,
}
