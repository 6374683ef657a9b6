//! The keys under `tools`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::{BrowserModeWord, ContainerNetworkWord};

/// Settings of the built-in tools.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tools {
    /// `shell`.
    #[serde(alias = "shell")]
    #[schemars(extend("x-spellings" = ["shell"]))]
    pub(crate) bash: Given<Bash>,
    /// `fs.*`.
    #[serde(alias = "fs", alias = "file_system", alias = "fileSystem")]
    #[schemars(extend("x-spellings" = ["fs", "file_system", "fileSystem"]))]
    pub(crate) filesystem: Given<Filesystem>,
    /// `http.*`.
    pub(crate) http: Given<Http>,
    /// `browser.*`.
    pub(crate) browser: Given<Browser>,
    /// Containers for code. Switching them off leaves the native walls.
    pub(crate) sandbox: Given<SandboxTool>,
    /// How agents with many tools are told of them.
    pub(crate) disclosure: Given<Disclosure>,
}

/// How agents with many tools are told of them: a line of each, and more of those that they load.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Disclosure {
    /// With fewer tools an agent is told all of them at once. Default: 30.
    #[serde(alias = "minTools")]
    pub(crate) min_tools: Given<u64>,
    /// Tokens that may be sent before a tool is loaded: a line of each, and the tools that find and load others. At least
    /// 1500. Default: 3000.
    #[serde(alias = "l1TokenBudget")]
    pub(crate) l1_token_budget: Given<u64>,
    /// Tokens that the loaded tools of one agent and task may cost together. At least 1000. Default: 15000.
    #[serde(alias = "l2TokenBudget")]
    pub(crate) l2_token_budget: Given<u64>,
    /// Whether the oldest loaded tool gives way when there is no room; else loading is refused. Default: true.
    #[serde(alias = "autoUnloadOnBudgetPressure")]
    pub(crate) auto_unload_on_budget_pressure: Given<bool>,
    /// How full a context is when loaded tools give way, in per cent, from 1 to 100. Default: 80.
    #[serde(alias = "unloadThresholdPercent")]
    pub(crate) unload_threshold_percent: Given<u64>,
    /// How large a context is, in tokens, where a client does not say. At least 1000. Default: 200000.
    #[serde(alias = "contextWindowTokens")]
    pub(crate) context_window_tokens: Given<u64>,
}

/// Settings of `shell`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Bash {
    /// Whether there is one. Default: true.
    pub(crate) enabled: Given<bool>,
    /// If given, these commands are run and no others, whatever the profile: it takes the place of the profiles' own lists,
    /// so `ls` has to be in it too. What a command starts by its words has to be in it as well, such as `git` in `env git`, and
    /// one that may start anything is refused. An empty list is none. To add to the profiles' lists, there is `terminal: full`.
    #[serde(alias = "allowedCommands")]
    pub(crate) allowed_commands: Given<Vec<At<String>>>,
    /// Commands that are never run, nor started by the words of another. With such a list, a command that may start anything is
    /// refused: code or a text for a shell in its words, `git -c`, `make CC=x`. Default: none.
    #[serde(alias = "deniedCommands")]
    pub(crate) denied_commands: Given<Vec<At<String>>>,
    /// If given, only agents whose workspace is in one of these directories run commands.
    #[serde(alias = "allowedDirectories")]
    pub(crate) allowed_directories: Given<Vec<At<String>>>,
    /// How long a command may take, in milliseconds. Default: 30000.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Given<u64>,
}

/// Settings of `fs.*`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filesystem {
    /// Whether there are any. Default: true.
    pub(crate) enabled: Given<bool>,
    /// If given, only agents whose workspace is in one of these directories touch files.
    #[serde(alias = "allowedDirectories")]
    pub(crate) allowed_directories: Given<Vec<At<String>>>,
    /// Whether nothing may be changed. Default: false.
    #[serde(alias = "readOnly")]
    pub(crate) read_only: Given<bool>,
    /// Whether deleting may be asked for at all. Default: true.
    pub(crate) delete: Given<bool>,
    /// The largest file that is read or written, in bytes. Default: 10485760.
    #[serde(alias = "maxFileSize")]
    pub(crate) max_file_size: Given<u64>,
    /// Names that no tool may read, besides those that always are hidden (`.env*`, `.ssh`, `*.pem` …): `*.sqlite`,
    /// `secrets/prod`. None of the others can be taken away.
    #[serde(alias = "hiddenNames")]
    pub(crate) hidden_names: Given<Vec<At<String>>>,
    /// Names that no tool may change, besides those that always are protected (`.git/hooks`, `.vscode` …).
    #[serde(alias = "protectedNames")]
    pub(crate) protected_names: Given<Vec<At<String>>>,
}

/// Settings of `http.*`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    /// Whether there are any. Default: true.
    pub(crate) enabled: Given<bool>,
    /// Whom they may reach without a question, on the ports of `egress.ports` where none is named; `*` is any public host.
    /// An empty list is nobody. Default: as `egress` has it.
    #[serde(alias = "allowedDomains")]
    pub(crate) allowed_domains: Given<Vec<At<String>>>,
    /// Whom they may not reach, besides `egress.block`.
    #[serde(alias = "blockedDomains")]
    pub(crate) blocked_domains: Given<Vec<At<String>>>,
    /// How long a request may take, in milliseconds. Default: 30000.
    #[serde(alias = "timeoutMs")]
    pub(crate) timeout_ms: Given<u64>,
    /// Methods that there are. Default: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` and `OPTIONS`.
    pub(crate) methods: Given<Vec<At<String>>>,
    /// What happens to the headers of a request.
    pub(crate) headers: Given<Headers>,
    /// How much of an answer is read, such as `1m`. Default: 10485760.
    #[serde(alias = "maxResponse")]
    pub(crate) max_response: Given<String>,
}

/// What happens to the headers of a request.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Headers {
    /// Those that a caller may set; an empty list is none. Default: all that do not belong to the connection.
    pub(crate) allow: Given<Vec<At<String>>>,
    /// Those that are taken out. Default: none.
    pub(crate) strip: Given<Vec<At<String>>>,
    /// Those that are added, whatever a caller has set. What is secret belongs into `egress.credentials`. Default: none.
    pub(crate) add: Given<BTreeMap<At<String>, At<String>>>,
}

/// Settings of `browser.*`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Browser {
    /// Whether there are any. Default: true.
    pub(crate) enabled: Given<bool>,
    /// How pages are opened. Default: `simple`.
    pub(crate) mode: Given<BrowserModeWord>,
    /// Whom they may reach without a question; `*` is any public host. An empty list is nobody. Default: as `egress` has it.
    #[serde(alias = "allowedDomains")]
    pub(crate) allowed_domains: Given<Vec<At<String>>>,
}

/// Containers for code.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxTool {
    /// Whether code runs in containers. Default: false, and the native walls hold it.
    pub(crate) enabled: Given<bool>,
    /// The image that containers are made of.
    pub(crate) image: Given<String>,
    /// Their network. Default: `none`.
    #[serde(alias = "networkMode")]
    pub(crate) network_mode: Given<ContainerNetworkWord>,
    /// Memory, such as `512m`.
    #[serde(alias = "memoryLimit")]
    pub(crate) memory_limit: Given<String>,
}
