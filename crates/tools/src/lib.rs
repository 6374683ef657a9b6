//! The built-in tools, those that files declare (`imported`) and those of other people's MCP servers ([`mcp`]): what each
//! one promises, what a call of it would do, and how it is done behind walls.
//!
//! Decides nothing: it obeys a [`policy::Grant`], which it consumes. No file of the workspace is opened and no command
//! is run in this process; a worker does that, which is our own binary inside a sandbox. The workspace itself is opened
//! only to be held.
//!
//! # Invariants
//! - Without a grant that covers the very arguments nothing is started.
//! - A worker that may read never serves a call that writes, and a worker serves one owner.
//! - What a worker says is data: it is parsed, capped, and believed about nothing but its own work.
#![forbid(unsafe_code)]

mod command;
mod crash;
mod facts;
mod files;
mod foreign_text;
mod git;
mod guides;
mod http;
mod imported;
mod inside;
mod lifecycle;
pub mod mcp;
mod operands;
mod path;
mod pipeline;
mod pool;
mod program;
mod reach;
mod shell;
mod surroundings;
mod tool;
mod wire;

/// The tool that the guide adds, where the guide puts it.
#[cfg(test)]
#[path = "../tests/behind_walls/guide/text.rs"]
mod guide;

pub use command::{CommandLine, CommandOutput, CommandTool};
#[cfg(feature = "crash")]
pub use crash::watch_points;
pub use guides::{Guide, NAMES};
pub use imported::{DeclaredTools, ImportError, read_declared};
pub use inside::WORKER;
pub use lifecycle::{KeptFor, Lifecycle};
pub use operands::{Hold, InForce, Sealed};
pub use pipeline::Ready;
pub use program::{OwnProgram, ProgramError, Spoken, UnfitProgram, examine_program};
pub use reach::{doors_of, permit_limits};
pub use surroundings::{Correlation, Owner, Surroundings};
pub use tool::{CallKind, Ran, Tool, built_in};
