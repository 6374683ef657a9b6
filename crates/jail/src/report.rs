//! What one run did: the typed answer to a plan.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::control::Enforcement;
use crate::plan::wire_path;
use crate::stream::Captured;

/// The answer to one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How the tool ended.
    pub outcome: Outcome,
    /// What it wrote, up to the cap.
    pub stdout: Captured,
    /// What it complained, up to the cap.
    pub stderr: Captured,
    /// Where the time went.
    pub timings: Timings,
    /// What it used.
    pub usage: Usage,
    /// What really held it.
    pub enforcement: Enforcement,
    /// What it changed in the directories it could write.
    pub changes: Changes,
    /// Files it left that would have made the host run code, moved out of the way.
    pub quarantined: Vec<Quarantined>,
}

/// How the tool ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited by itself.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was stopped because it went past a limit.
    Stopped(Limit),
    /// The command was not found inside the sandbox.
    NotFound,
    /// The command was found and could not be executed; the system's error number.
    CannotExecute(i32),
}

/// The limit a run was stopped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall clock time.
    Timeout,
    /// Total memory.
    Memory,
    /// Bytes written.
    Disk,
    /// The caller went away.
    Abandoned,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// From the plan to the start of the tool.
    pub setup: Duration,
    /// From the start of the tool to the end of its last process.
    pub run: Duration,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in the tool's own code, all processes.
    pub cpu_user: Duration,
    /// Processor time in the kernel, all processes.
    pub cpu_system: Duration,
    /// Whether all of them are counted.
    pub counted: Counted,
    /// Peak memory.
    pub memory: Memory,
}

/// Whose processor time was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Every process's.
    All,
    /// Not that of some that were ended from outside: they used more than is said.
    #[default]
    Part,
}

/// Peak memory, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Peak of the whole sandbox, in bytes.
    Total(u64),
    /// Peak of the largest process, in bytes; the sum is not known.
    LargestProcess(u64),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::LargestProcess(0)
    }
}

/// What changed in the writable directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// The plan did not ask.
    NotAsked,
    /// All of them.
    Exact(Vec<Change>),
    /// Some of them; the reason says what is missing.
    Partial {
        /// Those that were seen.
        seen: Vec<Change>,
        /// What is missing and why.
        why: String,
    },
}

/// One changed path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    /// The host path.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// Its content or attributes differ.
    Modified,
    /// It is gone.
    Removed,
    /// The tool made it, and it was moved away: see [`Report::quarantined`].
    Quarantined,
}

/// A file that was moved out of the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// Where the tool put it.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// Where it is now.
    #[serde(with = "wire_path")]
    pub moved_to: PathBuf,
    /// What it would have done.
    pub why: String,
}
