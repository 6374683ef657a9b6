//! The keys under `sandboxing`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::{
    BackendWord, ByCategory, ContainerNetworkWord, LifecycleWord, MountModeWord, PodNetworkWord,
};

/// What runs the calls.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandboxing {
    /// For every category that is not named under `overrides`. Default: `native`.
    #[serde(alias = "defaultBackend")]
    pub(crate) default_backend: Given<BackendWord>,
    /// For single categories. A category whose backend this version does not have is refused.
    pub(crate) overrides: Given<ByCategory<At<BackendWord>>>,
    /// Settings of `subprocess`, which gets the native walls where they work.
    pub(crate) subprocess: Given<SubprocessFile>,
    /// Settings of `native`, which hold wherever its walls stand.
    pub(crate) native: Given<Native>,
    /// Settings of `docker`.
    pub(crate) docker: Given<Docker>,
    /// Settings of `kubernetes`.
    #[serde(alias = "kubernetes")]
    #[schemars(extend("x-spellings" = ["kubernetes"]))]
    pub(crate) k8s: Given<Kubernetes>,
}

/// Settings of `subprocess`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SubprocessFile {
    /// How long a call may take. Default: 30.
    #[serde(alias = "timeoutSeconds")]
    pub(crate) timeout_seconds: Given<u64>,
    /// Whether a call sees the workspace only. It always does.
    #[serde(alias = "workspaceOnly")]
    pub(crate) workspace_only: Given<bool>,
    /// Whether programs are looked for in the system's directories only. They always are.
    #[serde(alias = "restrictedPath")]
    pub(crate) restricted_path: Given<bool>,
    /// More directories to look for programs in.
    #[serde(alias = "extraSafePathPrefixes")]
    pub(crate) extra_safe_path_prefixes: Given<Vec<String>>,
}

/// Settings of `native`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Native {
    /// Whom the workers of the file tools are kept for, and how long. A command has a sandbox of its own each time.
    pub(crate) lifecycle: Given<NativeLifecycle>,
}

/// Whom workers are kept for, and how long.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NativeLifecycle {
    /// Whom one worker serves: one call, the calls of one agent for one task, or all calls of one agent. A call without a
    /// task has a worker of its own under `per-task`. Default: `per-task` for calls that name a task, `per-agent` for those
    /// that name none.
    pub(crate) strategy: Given<LifecycleWord>,
    /// How long a worker of a task waits for the next call, in seconds. At most 600. Default: 30.
    #[serde(alias = "graceSeconds")]
    pub(crate) grace_seconds: Given<u64>,
    /// How long a worker of an agent waits for the next call, in seconds. At most 600. Default: 300.
    #[serde(alias = "idleSeconds")]
    pub(crate) idle_seconds: Given<u64>,
    /// After how long a worker that waits is asked whether it is well, in seconds. At most 600. Default: 10.
    #[serde(alias = "healthSeconds")]
    pub(crate) health_seconds: Given<u64>,
    /// How many workers there are before those that wait longest are ended. Default: 64.
    pub(crate) most: Given<u64>,
}

/// Settings of `docker`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Docker {
    /// The image that containers are made of.
    pub(crate) image: Given<String>,
    /// The network of every category that is not named under `network_overrides`. Default: `none`.
    pub(crate) network: Given<ContainerNetworkWord>,
    /// The network of single categories.
    #[serde(alias = "networkOverrides")]
    pub(crate) network_overrides: Given<ByCategory<ContainerNetworkWord>>,
    /// Whom a container may reach, as `host:port`. An empty list is nobody.
    #[serde(alias = "allowedHosts")]
    pub(crate) allowed_hosts: Given<Vec<At<String>>>,
    /// Whether names of allowed hosts are looked up.
    #[serde(alias = "dnsAllowed")]
    pub(crate) dns_allowed: Given<bool>,
    /// Whether a container may talk to itself.
    #[serde(alias = "loopbackAllowed")]
    pub(crate) loopback_allowed: Given<bool>,
    /// Memory, such as `512m`.
    #[serde(alias = "memoryLimit")]
    pub(crate) memory_limit: Given<String>,
    /// Processors, such as `1.5`.
    #[serde(alias = "cpuLimit")]
    pub(crate) cpu_limit: Given<String>,
    /// How long a call may take. Default: 120.
    #[serde(alias = "timeoutSeconds")]
    pub(crate) timeout_seconds: Given<u64>,
    /// How the workspace is mounted. Default: `ro`.
    #[serde(alias = "mountMode")]
    pub(crate) mount_mode: Given<MountModeWord>,
    /// Whether containers are removed afterwards. Default: true.
    #[serde(alias = "autoRemove")]
    pub(crate) auto_remove: Given<bool>,
    /// The runtime, such as `runsc`.
    pub(crate) runtime: Given<String>,
    /// How long a container is kept.
    pub(crate) lifecycle: Given<Lifecycle>,
}

/// How long a container is kept.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Lifecycle {
    /// For whom one container is good. Default: `per-call`.
    pub(crate) strategy: Given<LifecycleWord>,
}

/// Settings of `kubernetes`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Kubernetes {
    /// Where pods are made.
    pub(crate) namespace: Given<String>,
    /// What a pod is promised.
    #[serde(alias = "resourceRequests")]
    pub(crate) resource_requests: Given<Resources>,
    /// What a pod may not pass.
    #[serde(alias = "resourceLimits")]
    pub(crate) resource_limits: Given<Resources>,
    /// What pods may reach besides the gate: nothing.
    #[serde(alias = "networkPolicy")]
    pub(crate) network_policy: Given<PodNetworkWord>,
}

/// Amounts as Kubernetes writes them.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resources {
    /// Processors, such as `250m`.
    pub(crate) cpu: Given<String>,
    /// Memory, such as `256Mi`.
    pub(crate) memory: Given<String>,
}
