//! Runs a pipeline of commands inside the sandbox, and tells what each one came to.
//!
//! Its output goes to the gate in pieces, each marked with its stream, so that what was written before a timeout is not
//! lost. The commands hold pipes, not the worker's own streams: they cannot speak in its name.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use contract::Reason;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::process::{Pid, PidfdFlags, fchdir, pidfd_open};
use serde::{Deserialize, Serialize};

use super::git::{self, GitUse, SshInside};
use super::root::Root;
use super::{close_to_neighbours, operand};
use crate::path::Beneath;
use crate::wire::{Check, Links, read_frame, write_frame};

const BUFFER: usize = 64 * 1024;

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pipeline {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Where the commands start, beneath the workspace.
    pub(crate) directory: String,
    /// Commands that come before, one after the other; the first that fails is the last.
    pub(crate) before: Vec<Stage>,
    /// The commands; the output of each is the input of the next.
    pub(crate) stages: Vec<Stage>,
    /// Whether they are git's: then it is told first what no repository may tell it otherwise.
    pub(crate) git: Option<GitUse>,
    /// What ssh knows, where git reaches out by it.
    pub(crate) ssh: Option<SshInside>,
    /// What must be as it was when people were asked.
    pub(crate) check: Option<Check>,
    /// Bytes of each stream that are sent to the gate; the rest is read and counted.
    pub(crate) most: u64,
}

/// One command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
}

impl Stage {
    /// What people call it: of git, the verb is half of the name.
    pub(crate) fn name(&self) -> String {
        match self.arguments.iter().find(|word| !word.starts_with('-')) {
            Some(verb) if self.command == "git" => format!("git {verb}"),
            _ => self.command.clone(),
        }
    }

    /// Whether the sandbox itself can be told to start it.
    pub(crate) fn fits(&self, most: usize) -> bool {
        let words = || [&self.command].into_iter().chain(&self.arguments);
        words().map(|word| word.len() + 1).sum::<usize>() <= most && !words().any(|word| word.contains('\0'))
    }
}

/// A piece of what a pipeline has to say. In JSON for its end, with a mark before it for the streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The last one.
    End(Result<End, PipelineError>),
}

/// How a pipeline ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// One for each command.
    pub(crate) stages: Vec<StageEnd>,
    /// Bytes that the last command wrote.
    pub(crate) stdout: u64,
    /// Bytes that all commands complained.
    pub(crate) stderr: u64,
}

/// How one command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageEnd {
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// Why a pipeline was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PipelineError {
    /// The directory to start in is not there, or not beneath the workspace.
    Directory,
    /// Something is not as it was when people were asked.
    Changed(Reason),
    /// The repository is none that git may be started in.
    Repository(Reason),
    /// One that comes before the others did not go well.
    Before { command: String, end: StageEnd },
    /// There is no such command in the sandbox.
    NotFound { command: String },
    /// It cannot be executed.
    CannotExecute { command: String, error: i32 },
    /// Something of the worker failed.
    Broken,
}

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const END: u8 = 3;

impl Chunk {
    fn encode(&self) -> io::Result<Vec<u8>> {
        let (mark, bytes) = match self {
            Chunk::Stdout(bytes) => (STDOUT, bytes.clone()),
            Chunk::Stderr(bytes) => (STDERR, bytes.clone()),
            Chunk::End(end) => (END, serde_json::to_vec(end)?),
        };
        Ok([mark].into_iter().chain(bytes).collect())
    }

    fn decode(bytes: &[u8]) -> Option<Chunk> {
        let (mark, rest) = bytes.split_first()?;
        match *mark {
            STDOUT => Some(Chunk::Stdout(rest.to_vec())),
            STDERR => Some(Chunk::Stderr(rest.to_vec())),
            END => serde_json::from_slice(rest).ok().map(Chunk::End),
            _ => None,
        }
    }

    /// The whole pieces at the beginning of what a worker said. A worker that was stopped may leave half of one.
    pub(crate) fn read_all(mut said: &[u8]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        while let Ok(Some(bytes)) = read_frame(&mut said) {
            match Chunk::decode(&bytes) {
                Some(chunk) => chunks.push(chunk),
                None => break,
            }
        }
        chunks
    }
}

/// Reads one pipeline, runs it, tells how it ended.
pub(super) fn serve() -> io::Result<()> {
    close_to_neighbours()?;
    let Some(bytes) = read_frame(io::stdin().lock())? else { return Ok(()) };
    let pipeline: Pipeline = serde_json::from_slice(&bytes)?;
    let ended = run(&pipeline);
    tell(&Chunk::End(ended))
}

fn tell(chunk: &Chunk) -> io::Result<()> {
    write_frame(io::stdout().lock(), &chunk.encode()?)
}

fn run(pipeline: &Pipeline) -> Result<End, PipelineError> {
    if let Some(Check { names, expected }) = &pipeline.check {
        let root = Root::at(&pipeline.root, names, Links::FollowInside, 0);
        root.and_then(|root| operand::check(&root, expected)).map_err(PipelineError::Changed)?;
    }
    if matches!(pipeline.git, Some(GitUse::Clone(_))) {
        make_directory(pipeline).map_err(|_| PipelineError::Directory)?;
    }
    enter(pipeline).map_err(|_| PipelineError::Directory)?;
    let variables = match pipeline.git {
        Some(used) => git::variables(used, pipeline.ssh.as_ref()).map_err(PipelineError::Repository)?,
        None => Vec::new(),
    };
    for stage in &pipeline.before {
        run_before(stage, &variables, pipeline.most)?;
    }
    let broken = |_: io::Error| PipelineError::Broken;
    let (errors_from, errors_to) = io::pipe().map_err(broken)?;
    let (output_from, output_to) = io::pipe().map_err(broken)?;
    let mut output_to = Some(output_to);
    let mut children = Vec::new();
    let mut input = Stdio::null();
    let last = pipeline.stages.len().saturating_sub(1);
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let (output, next) = if index == last {
            (output_to.take().map_or_else(Stdio::null, Stdio::from), Stdio::null())
        } else {
            let (from, to) = io::pipe().map_err(broken)?;
            (Stdio::from(to), Stdio::from(from))
        };
        let errors = errors_to.try_clone().map_err(broken)?;
        // Whoever was started already dies with this sandbox.
        children.push(start(stage, &variables, input, output, errors.into())?);
        input = next;
    }
    drop((errors_to, input));
    let outputs = [Drained::new(output_from.into(), STDOUT), Drained::new(errors_from.into(), STDERR)];
    watch(children, outputs, pipeline.most).map_err(broken)
}

/// A directory that is reached through no link.
const BY_NAME: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes the directory to start in, and those above it, where they are not there.
fn make_directory(pipeline: &Pipeline) -> io::Result<()> {
    let beneath = Beneath::parse(&pipeline.directory).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut here = openat(CWD, &pipeline.root, BY_NAME, Mode::empty())?;
    for name in beneath.names() {
        match mkdirat(&here, name.as_str(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = openat(&here, name.as_str(), BY_NAME, Mode::empty())?;
    }
    Ok(())
}

/// Runs one command to its end. Whatever it says is a complaint: its answer is that it went well.
fn run_before(stage: &Stage, variables: &[(String, String)], most: u64) -> Result<(), PipelineError> {
    let broken = |_: io::Error| PipelineError::Broken;
    let (from, to) = io::pipe().map_err(broken)?;
    let errors = to.try_clone().map_err(broken)?;
    let child = start(stage, variables, Stdio::null(), to.into(), errors.into())?;
    let nothing = Drained { from: None, mark: STDOUT, total: 0 };
    let ended = watch(vec![child], [nothing, Drained::new(from.into(), STDERR)], most).map_err(broken)?;
    match ended.stages.first() {
        Some(StageEnd { exit_code: Some(0), .. }) => Ok(()),
        Some(end) => Err(PipelineError::Before { command: stage.name(), end: *end }),
        None => Err(PipelineError::Broken),
    }
}

/// ATTACK(model-chosen-directory): the directory is reached from the workspace's handle, by names, through no link.
fn enter(pipeline: &Pipeline) -> io::Result<()> {
    let beneath = Beneath::parse(&pipeline.directory).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut here = openat(CWD, &pipeline.root, BY_NAME, Mode::empty())?;
    for name in beneath.names() {
        here = openat(&here, name.as_str(), BY_NAME, Mode::empty())?;
    }
    Ok(fchdir(&here)?)
}

#[expect(clippy::disallowed_methods, reason = "behind every wall: this is the inside of the sandbox")]
fn start(
    stage: &Stage,
    variables: &[(String, String)],
    input: Stdio,
    output: Stdio,
    errors: Stdio,
) -> Result<Child, PipelineError> {
    let spawned = Command::new(&stage.command)
        .args(&stage.arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .spawn();
    spawned.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PipelineError::NotFound { command: stage.command.clone() },
        _ => PipelineError::CannotExecute {
            command: stage.command.clone(),
            error: error.raw_os_error().unwrap_or_default(),
        },
    })
}

/// One stream of the pipeline, on its way to the gate.
struct Drained {
    from: Option<OwnedFd>,
    mark: u8,
    total: u64,
}

impl Drained {
    fn new(from: OwnedFd, mark: u8) -> Drained {
        // Read only when there is something, and to the end when everybody is gone.
        let _ = rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK);
        Drained { from: Some(from), mark, total: 0 }
    }

    /// Passes on what is there. Says whether there may be more right now.
    fn advance(&mut self, buffer: &mut [u8], most: u64) -> io::Result<bool> {
        let Some(from) = &self.from else { return Ok(false) };
        match rustix::io::read(from, &mut *buffer) {
            Ok(0) => {
                self.from = None;
                Ok(false)
            }
            Ok(count) => {
                let room = usize::try_from(most.saturating_sub(self.total)).unwrap_or(usize::MAX);
                self.total += count as u64;
                let kept = buffer.get(..count.min(room)).unwrap_or_default();
                if !kept.is_empty() {
                    let kept = kept.to_vec();
                    tell(&if self.mark == STDOUT { Chunk::Stdout(kept) } else { Chunk::Stderr(kept) })?;
                }
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(_) => {
                self.from = None;
                Ok(false)
            }
        }
    }
}

/// Waits for every command, passing on what they write. Whoever they leave behind is not waited for: it holds a pipe,
/// and dies with the sandbox.
fn watch(mut children: Vec<Child>, mut outputs: [Drained; 2], most: u64) -> io::Result<End> {
    let mut buffer = vec![0; BUFFER];
    let handles: Vec<OwnedFd> = children.iter().map(handle_of).collect::<io::Result<_>>()?;
    let mut ended: Vec<Option<StageEnd>> = vec![None; children.len()];
    while ended.iter().any(Option::is_none) {
        let running =
            handles.iter().zip(&ended).filter(|(_, end)| end.is_none()).map(|(handle, _)| handle.as_fd());
        let open = outputs.iter().filter_map(|output| output.from.as_ref()).map(AsFd::as_fd);
        let mut watched: Vec<PollFd<'_>> =
            open.chain(running).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for output in &mut outputs {
            output.advance(&mut buffer, most)?;
        }
        for (child, end) in children.iter_mut().zip(&mut ended).filter(|(_, end)| end.is_none()) {
            if let Some(status) = child.try_wait()? {
                *end = Some(StageEnd { exit_code: status.code(), signal: status.signal() });
            }
        }
    }
    for output in &mut outputs {
        // What a pipe holds, and no more: somebody left behind may write for ever.
        for _ in 0..64 {
            if !output.advance(&mut buffer, most)? {
                break;
            }
        }
    }
    io::stdout().flush()?;
    let [stdout, stderr] = outputs;
    Ok(End { stages: ended.into_iter().flatten().collect(), stdout: stdout.total, stderr: stderr.total })
}

fn handle_of(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_back_and_half_a_piece_is_left_out() {
        let end = Chunk::End(Ok(End {
            stages: vec![StageEnd { exit_code: Some(0), signal: None }],
            stdout: 2,
            stderr: 0,
        }));
        let chunks = [Chunk::Stdout(b"hi".to_vec()), Chunk::Stderr(Vec::new()), end];
        let mut said = Vec::new();
        for chunk in &chunks {
            write_frame(&mut said, &chunk.encode().unwrap()).unwrap();
        }
        assert_eq!(Chunk::read_all(&said), chunks);
        assert_eq!(Chunk::read_all(&said[..said.len() - 1]), chunks[..2]);
        assert_eq!(Chunk::read_all(&[0xff; 100]), []);
    }
}
