//! What goes into `shell` and what comes out of it.

use std::collections::BTreeMap;

use contract::Profile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellInput {
    /// The program: a name such as `git`, and nothing else. There is no shell, so no `&&`, `|`, `>` or `$(…)`.
    pub(crate) command: String,
    /// Its arguments, one by one. They reach the program exactly as they are; nothing is expanded.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// More programs, each reading what the one before wrote: a pipeline.
    #[serde(default)]
    pub(crate) stages: Vec<StageInput>,
    /// The directory to start in, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    /// What it is for, in a few words, for whoever has to approve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) purpose: Option<String>,
    /// What it may do: `inspect` (the default) only looks; `build` writes in the workspace; `mutate` also moves and
    /// deletes, and may have to be approved; `networked` reaches other hosts.
    #[serde(default = "inspect")]
    pub(crate) profile: Profile,
    /// Seconds before everything is killed, at most 600 (the default is 30).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    /// Variables to set. Secrets, search paths and what makes a loader run other code are refused.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
}

fn inspect() -> Profile {
    Profile::Inspect
}

/// One more program of a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageInput {
    /// The program.
    pub(crate) command: String,
    /// Its arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellOutput {
    /// 0 if every program went well, else that of the last one that did not; 128 and the signal if one ended it.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether it was killed because its time was over.
    pub(crate) timed_out: bool,
    /// What the last program wrote, cut in the middle if it is long.
    pub(crate) stdout: String,
    /// What the programs complained, cut in the middle if it is long.
    pub(crate) stderr: String,
    /// How many bytes it wrote in all.
    pub(crate) stdout_bytes: u64,
    /// How many bytes they complained in all.
    pub(crate) stderr_bytes: u64,
    /// Whether something is left out here; it is in the artifacts `stdout` and `stderr`.
    pub(crate) truncated: bool,
    /// Each program, in order.
    pub(crate) stages: Vec<StageOutput>,
}

/// How one program of a pipeline ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageOutput {
    /// The program.
    pub(crate) command: String,
    /// Its exit code, if it exited.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub(crate) signal: Option<i32>,
}
