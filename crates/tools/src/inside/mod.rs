//! What runs inside the sandbox: our own code as a worker.
//!
//! It knows no policy and no settings but what a question carries. It trusts neither the files it meets nor that the
//! sandbox has covered what it should: names are checked again, and every path is walked from the workspace's handle.

mod change;
mod diff;
mod edit;
mod git;
mod http;
mod list;
mod operand;
mod pipeline;
mod read;
mod root;
mod search;
mod write;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

pub(crate) use git::{GitUse, SshInside, Transport};
pub(crate) use pipeline::{Chunk, End, Pipeline, PipelineError, Stage, StageEnd};

use crate::files::{FileCall, FileResult};
use crate::wire::{Changed, WorkerRequest, WorkerResponse, numbered_frame, read_frame};
use clean::Findings;
use contract::Reason;
use root::Root;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trade {
    /// Answers questions about files, one after the other, until its input ends.
    Files,
    /// Runs one pipeline of commands.
    Pipeline,
    /// Asks one thing of the web.
    Http,
}

impl Trade {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Trade::Files => "files",
            Trade::Pipeline => "pipeline",
            Trade::Http => "http",
        }
    }
}

/// A worker: what sandboxes run for [`jail::Program::Own`].
pub const WORKER: jail::Own = jail::Own { prepare: clean::prepare, run: work };

fn work(arguments: &[OsString]) -> i32 {
    let trades = [Trade::Files, Trade::Pipeline, Trade::Http];
    let asked = |trade: &Trade| arguments.first().is_some_and(|argument| argument == trade.as_str());
    let worked = match trades.into_iter().find(asked) {
        Some(Trade::Files) => serve_files(),
        Some(Trade::Pipeline) => pipeline::serve(),
        Some(Trade::Http) => http::serve(),
        None => Err(io::ErrorKind::InvalidInput.into()),
    };
    i32::from(worked.is_err())
}

/// ATTACK(worker-memory): what runs beside a worker must not read or write its memory and descriptors.
fn close_to_neighbours() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn serve_files() -> io::Result<()> {
    close_to_neighbours()?;
    let input = io::stdin();
    let mut output = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    // What comes meanwhile waits in the socket. Answers leave in the order of their questions: the gate relies on it.
    while let Some(frame) = read_frame(input.lock())? {
        let (number, question) = frame.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
        let said = match question {
            [] => Vec::new(),
            question => serde_json::to_vec(&answer(&serde_json::from_slice(question)?))?,
        };
        output.write_all(&numbered_frame(u64::from_le_bytes(*number), &said))?;
    }
    Ok(())
}

fn answer(question: &WorkerRequest) -> WorkerResponse {
    let before = cpu_micros();
    let (mut changed, mut findings) = (Changed::default(), Findings::default());
    let result = Root::open(question).and_then(|root| {
        operand::check(&root, &question.expected)?;
        perform(&root, &question.call, &mut changed, &mut findings)
    });
    WorkerResponse {
        result,
        changed,
        findings,
        cpu_micros: cpu_micros().saturating_sub(before),
        peak_memory: peak_memory(),
    }
}

fn perform(
    root: &Root<'_>,
    call: &FileCall,
    changed: &mut Changed,
    findings: &mut Findings,
) -> Result<FileResult, Reason> {
    match call {
        FileCall::Read(input) => read::read(root, input, findings).map(FileResult::Read),
        FileCall::Write(input) => write::write(root, input, changed).map(FileResult::Write),
        FileCall::Append(input) => write::append(root, input, changed).map(FileResult::Append),
        FileCall::Edit(input) => edit::edit(root, input, changed).map(FileResult::Edit),
        FileCall::List(input) => list::list(root, input).map(FileResult::List),
        FileCall::Stat(input) => list::stat(root, input).map(FileResult::Stat),
        FileCall::MakeDirectory(input) => {
            change::make_directory(root, input, changed).map(FileResult::MakeDirectory)
        }
        FileCall::Move(input) => change::move_entry(root, input, changed).map(FileResult::Move),
        FileCall::Delete(input) => change::delete(root, input, changed).map(FileResult::Delete),
        FileCall::Search(input) => search::search(root, input, findings).map(FileResult::Search),
        FileCall::Bind(input) => operand::bind(root, input).map(FileResult::Bind),
    }
}

fn cpu_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1000).unwrap_or_default()
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests;
