//! The keys under `metrics` and `telemetry`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::Given;

/// Numbers for Prometheus.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Where the token is to be had by which numbers, and nothing else, can be looked at: `env:NAME` or `file:PATH`, 32
    /// characters at least. Default: none, and operators alone look at them.
    pub(crate) token: Given<String>,
}

/// Traces, numbers and events for OpenTelemetry.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Telemetry {
    /// Where the collector takes OTLP over HTTP: `https://collector.example.com:4318`. `http://` only to a host that
    /// `egress.private` lists. Must be given.
    pub(crate) endpoint: Given<String>,
    /// A header whose value is a secret, such as `authorization`. Default: none.
    pub(crate) header: Given<String>,
    /// Where its value is to be had.
    #[serde(alias = "headerFrom")]
    pub(crate) header_from: Given<String>,
    /// Whether each call is a trace. Default: true.
    pub(crate) traces: Given<bool>,
    /// Whether numbers are told. Default: true.
    pub(crate) metrics: Given<bool>,
    /// Whether each event of the ledger is told, without what it is about. Default: true.
    pub(crate) logs: Given<bool>,
    /// How often, in seconds. Default: 15.
    #[serde(alias = "everySeconds")]
    pub(crate) every_seconds: Given<u64>,
}
