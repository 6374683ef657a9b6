//! The walls a sandbox has, by name, and how far each one really stands.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One wall or limit. The attack suite has a case for each, and a test that turning it off is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// A host identity of its own: not root, and not able to become anyone else.
    Identity,
    /// A root of its own: only what the plan names can be seen, only what it grants can be written.
    Filesystem,
    /// Sees and signals only its own processes.
    Processes,
    /// No route to anything outside.
    Network,
    /// System V and POSIX queues, semaphores and shared memory of its own.
    Ipc,
    /// A host name of its own.
    Hostname,
    /// The host's cgroup paths are not visible.
    CgroupView,
    /// No capabilities, an empty bounding set, no way to gain any.
    Privileges,
    /// Only listed system calls.
    Seccomp,
    /// Second wall for files, independent of mounts.
    LandlockFiles,
    /// Second wall for TCP, independent of the network namespace.
    LandlockTcp,
    /// Second wall for signals and abstract sockets, independent of namespaces.
    LandlockScopes,
    /// `/proc` cannot be written, files about the host in it are masked, and so are other windows into its kernel.
    ProcFiles,
    /// `/dev` holds harmless devices only, and device files elsewhere do not work.
    Devices,
    /// No descriptor of the launcher is open in the tool.
    Descriptors,
    /// No variable of the launcher reaches the tool unless the plan names it, and no word of its command line does.
    Environment,
    /// A session of its own: no way to the caller's terminal.
    Session,
    /// Secrets in granted directories cannot be read.
    HiddenNames,
    /// Files that make the host run code later (git hooks and configuration) cannot be written.
    ProtectedNames,
    /// Sockets and pipes of the host in granted directories cannot be reached.
    HostSockets,
    /// Files that came with the plan have the content that came with it, whatever stands at their path.
    SealedFiles,
    /// Total memory.
    Memory,
    /// Share of processor time.
    Cpu,
    /// Number of processes and threads.
    Pids,
    /// Bytes written to scratch space and granted directories.
    Disk,
    /// Core dumps do not reach the host's handler.
    CoreDumps,
    /// Output beyond the cap is drained and dropped.
    Output,
    /// Wall clock time, for the whole process tree.
    Timeout,
}

impl Control {
    /// Every control, in the order people are shown them.
    pub const ALL: [Control; 28] = [
        Control::Identity,
        Control::Filesystem,
        Control::Processes,
        Control::Network,
        Control::Ipc,
        Control::Hostname,
        Control::CgroupView,
        Control::Privileges,
        Control::Seccomp,
        Control::LandlockFiles,
        Control::LandlockTcp,
        Control::LandlockScopes,
        Control::ProcFiles,
        Control::Devices,
        Control::Descriptors,
        Control::Environment,
        Control::Session,
        Control::HiddenNames,
        Control::ProtectedNames,
        Control::HostSockets,
        Control::SealedFiles,
        Control::Memory,
        Control::Cpu,
        Control::Pids,
        Control::Disk,
        Control::CoreDumps,
        Control::Output,
        Control::Timeout,
    ];

    /// The stable name used in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Control::Identity => "identity",
            Control::Filesystem => "filesystem",
            Control::Processes => "processes",
            Control::Network => "network",
            Control::Ipc => "ipc",
            Control::Hostname => "hostname",
            Control::CgroupView => "cgroup_view",
            Control::Privileges => "privileges",
            Control::Seccomp => "seccomp",
            Control::LandlockFiles => "landlock_files",
            Control::LandlockTcp => "landlock_tcp",
            Control::LandlockScopes => "landlock_scopes",
            Control::ProcFiles => "proc_files",
            Control::Devices => "devices",
            Control::Descriptors => "descriptors",
            Control::Environment => "environment",
            Control::Session => "session",
            Control::HiddenNames => "hidden_names",
            Control::ProtectedNames => "protected_names",
            Control::HostSockets => "host_sockets",
            Control::SealedFiles => "sealed_files",
            Control::Memory => "memory",
            Control::Cpu => "cpu",
            Control::Pids => "pids",
            Control::Disk => "disk",
            Control::CoreDumps => "core_dumps",
            Control::Output => "output",
            Control::Timeout => "timeout",
        }
    }

    /// Without these no backend may run anything, whatever the configuration says.
    pub fn is_required(self) -> bool {
        matches!(
            self,
            Control::Identity
                | Control::Filesystem
                | Control::Processes
                | Control::Network
                | Control::Privileges
                | Control::Seccomp
        )
    }

    fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controls(u32);

impl Controls {
    /// No control.
    pub const NONE: Controls = Controls(0);

    /// This set and one more.
    pub fn with(self, control: Control) -> Controls {
        Controls(self.0 | control.bit())
    }

    /// Whether the set holds this control.
    pub fn contains(self, control: Control) -> bool {
        self.0 & control.bit() != 0
    }

    /// Whether the set holds nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            Control::ALL.into_iter().filter(|c| self.contains(*c)).map(Control::name).collect();
        f.write_str(&names.join(", "))
    }
}

/// How far a control really stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Not there.
    Absent,
    /// Watched or limited, but with a gap that `how` names.
    Partly,
    /// The kernel holds it, or the launcher from outside.
    Enforced,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Absent => "absent",
            Level::Partly => "partly",
            Level::Enforced => "enforced",
        })
    }
}

/// What is true of one control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which control.
    pub control: Control,
    /// How far it stands.
    pub level: Level,
    /// By which mechanism, or why not.
    pub how: String,
}

/// One finding for each control, in the order of [`Control::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement(Vec<Finding>);

impl Enforcement {
    /// Every control absent, for one reason.
    pub fn absent(why: &str) -> Enforcement {
        Enforcement(
            Control::ALL
                .into_iter()
                .map(|control| Finding { control, level: Level::Absent, how: why.to_owned() })
                .collect(),
        )
    }

    /// Replaces what is said of one control.
    pub fn set(&mut self, control: Control, level: Level, how: impl Into<String>) {
        let finding = Finding { control, level, how: how.into() };
        match self.0.iter_mut().find(|f| f.control == control) {
            Some(old) => *old = finding,
            None => self.0.push(finding),
        }
    }

    /// How far one control stands; a control nobody spoke of is absent.
    pub fn level(&self, control: Control) -> Level {
        self.0.iter().find(|f| f.control == control).map_or(Level::Absent, |f| f.level)
    }

    /// The findings.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }
}
