//! The authority to make one call, and nothing else.
//!
//! # Invariants
//! - Only [`crate::decide`] makes one: the fields are private, and it is neither `Clone` nor `Deserialize`.
//! - Whoever obeys it consumes it: one grant, one call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::{ApprovalId, CallId, Digest, EgressClass, HostPattern, Profile, Reach, Target, ToolName};
use serde::{Serialize, Serializer};

use crate::budget::Charge;

/// The whole plan of one call. What is not in it cannot happen.
#[derive(Debug)]
#[must_use = "a grant that nobody obeys was decided for nothing"]
pub struct Grant {
    authority: Box<Authority>,
    charge: Option<Box<Charge>>,
}

/// What a grant permits, in the open: for the ledger and for people. It is a description, and no authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Authority {
    /// For which call.
    pub call: CallId,
    /// Of which tool.
    pub tool: ToolName,
    /// Under which contract.
    pub contract: Digest,
    /// With which arguments.
    pub arguments: Digest,
    /// By which policy.
    pub policy: Digest,
    /// After which approval.
    pub approval: Option<ApprovalId>,
    /// With which files, as people were shown them: their digests, and what has none.
    pub operands: Option<Digest>,
    /// In which directory.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// With what access to it.
    pub access: WorkspaceAccess,
    /// For commands: what kind of command.
    pub profile: Option<Profile>,
    /// What may leave the machine: nothing, questions, or whatever changes something.
    pub egress: EgressClass,
    /// To which hosts and ports.
    pub hosts: Vec<Reach>,
    /// Those of them that the call itself names. For these, and no other, the gate adds its credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<Target>,
    /// Those of them that only a pattern lists. They do not lie in ranges that were opted in to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_pattern: Vec<Target>,
    /// To which hosts not, though they are among those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<HostPattern>,
    /// With how much.
    pub limits: GrantLimits,
    /// Until when, in milliseconds since 1970.
    pub expires_at: i64,
}

/// What may be done in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// It is not even visible.
    None,
    /// Read.
    Read,
    /// Read and change.
    Write,
}

/// How much one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GrantLimits {
    /// How long it may take.
    pub timeout: Duration,
    /// Memory, in bytes.
    pub memory: u64,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
    /// Processes.
    pub pids: u32,
    /// Bytes that it may add to the disk.
    pub disk: u64,
    /// Output that is kept, in bytes.
    pub output: u64,
}

/// A path as people read it: what is not UTF-8 in it is shown as such, and is no reason to record nothing.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Default for GrantLimits {
    fn default() -> GrantLimits {
        GrantLimits {
            timeout: Duration::from_secs(30),
            memory: 2 * 1024 * 1024 * 1024,
            cpu_millis: 4000,
            pids: 512,
            disk: 1024 * 1024 * 1024,
            output: 10 * 1024 * 1024,
        }
    }
}

impl GrantLimits {
    /// Each limit by its name, as receipts have them.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let timeout = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let all = [
            ("timeout_ms", timeout),
            ("memory", self.memory),
            ("cpu_millis", self.cpu_millis.into()),
            ("processes", self.pids.into()),
            ("disk", self.disk),
            ("output", self.output),
        ];
        all.into_iter().map(|(name, most)| (name.to_owned(), most)).collect()
    }
}

impl Grant {
    pub(crate) fn new(authority: Authority, charge: Option<Charge>) -> Grant {
        Grant { authority: Box::new(authority), charge: charge.map(Box::new) }
    }

    /// What the call counts for, and against what; nothing if it has no price and no budget is about it.
    pub fn charge(&self) -> Option<&Charge> {
        self.charge.as_deref()
    }

    /// What it permits.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Where it may work.
    pub fn workspace(&self) -> &Path {
        &self.authority.workspace
    }

    /// Whether it is for these arguments of this tool, and still good.
    pub fn covers(&self, tool: &ToolName, arguments: Digest, now: i64) -> bool {
        let authority = &self.authority;
        authority.tool == *tool && authority.arguments == arguments && now < authority.expires_at
    }
}
