//! Builds the Linux sandbox and runs one command in it.
//!
//! It obeys a [`Plan`] and decides nothing: who may run what is not known here.
//!
//! Three processes take part. The *launcher* is the caller: it makes what only it has the authority for (id maps,
//! id-mapped mounts, cgroups), watches limits and moves bytes. The *init* is process 1 of the sandbox: it raises the
//! walls in two stages (stage one needs no plan, so that a pool can keep it waiting; stage two obeys the plan),
//! puts itself behind them, starts the tool, and reaps. The *tool* is the command.
//!
//! # Invariants
//! - A wall of the plan that cannot be raised is an error, and nothing is executed.
//! - Nothing of a sandbox outlives its launcher: the init dies with it, and the namespace with the init.
//! - `unsafe` appears only in `sys.rs`.
#![deny(unsafe_code)]

mod beside;
mod cgroup;
mod cgroups;
mod changes;
mod control;
mod directories;
mod doors;
mod entry;
mod environment;
mod helper;
mod host_mounts;
mod identity;
mod init;
mod keeper;
mod landlock;
mod lasting;
mod launch;
mod limits;
mod mounts;
mod names;
mod networks;
mod nursery;
mod orders;
mod own;
mod plan;
mod readied;
mod report;
mod rest;
mod rooms;
mod run_by_host;
mod seal;
mod seccomp;
mod stage_one;
mod stage_two;
mod stream;
mod supervise;
mod sys;
mod syscalls;
mod system;
mod tree;
mod warm;
mod watch;
mod windows;

pub use control::{Control, Controls, Enforcement, Finding, Level};
#[cfg(feature = "weaken")]
pub use doors::lead_everything_to_loopback;
pub use doors::{CERTIFICATES, Doors, LOCAL_DOOR};
pub use environment::{DEFAULT_PATH, HOME, PASSED_VARIABLES, is_denied_variable};
pub use helper::{
    Answered, HELPER_ARGUMENT, Hangup, Helper, HelperError, Kept, Request, Response, Running, serve_if_asked,
};
pub use identity::Caller;
pub use keeper::ZYGOTE_ARGUMENT;
pub use landlock::landlock_version;
pub use launch::{Prepared, StartError, run, run_sealed, run_telling};
pub use limits::{Limits, LimitsError};
pub use names::{Names, Pattern, PatternError};
pub use orders::Step;
pub use own::Own;
pub use plan::{
    Access, ChangeReport, Content, Directory, Draft, Guarded, HomeFile, LocalDoor, Network, Plan, PlanError,
    Program, Strictness, WORD,
};
pub use report::{
    Change, ChangeKind, Changes, Counted, Limit, Memory, Outcome, Quarantined, Report, Timings, Usage,
};
pub use rest::Rest;
pub use seal::{MAX_SEALED_BYTES, MAX_SEALED_FILES, SealedFile};
pub use stream::{Capture, Captured, Feed, Streams};
pub use supervise::News;
pub use system::is_of_the_system;
pub use warm::Warm;
