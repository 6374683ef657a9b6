//! A process of its own to launch from: a gate has threads, and a threaded process must not fork a sandbox.
//!
//! The helper is our own binary under another argument. Its standard input is a socket, on which it reads one plan.
//! Either it runs that plan and answers with a report ([`Helper::start`]), or it keeps what it started and passes bytes
//! between the gate and it ([`Helper::keep`]). In both cases it ends its sandbox when the gate hangs up.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::control::Enforcement;
use crate::launch::{Prepared, StartError, run_sealed};
use crate::orders::Step;
use crate::plan::{Plan, PlanError};
use crate::report::Report;
use crate::seal::MAX_SEALED_BYTES;
use crate::stream::{Feed, Streams};

/// The argument that makes our binary a helper.
pub const HELPER_ARGUMENT: &str = "__jail";

/// The argument after it that makes it keep what it starts.
const KEEP_ARGUMENT: &str = "--keep";

const MAX_INPUT: usize = 64 * 1024 * 1024;
/// How long a helper that was hung up on may take to clean up.
const END_WITHIN: Duration = Duration::from_secs(2);

/// One run to be made by a helper.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to run.
    pub plan: Plan,
    /// The content of the files that the plan seals, one after the other.
    pub sealed: Vec<u8>,
    /// The tool's standard input.
    pub input: Vec<u8>,
}

/// A helper's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Response {
    /// It ran.
    Report(Box<Report>),
    /// It could not be started; the error and its causes, outermost first.
    Refused {
        /// What happened.
        messages: Vec<String>,
        /// Which wall, if it was one.
        step: Option<Step>,
        /// The system's error number, if there was one.
        error: Option<i32>,
    },
}

/// What a helper says of a program that it is to keep: what holds it, or why it could not be started.
type Opening = Result<Enforcement, Response>;

/// Starts helpers.
#[derive(Clone, Debug)]
pub struct Helper {
    /// A binary whose `main` begins with [`serve_if_asked`].
    pub binary: PathBuf,
}

/// Why a helper gave no answer.
#[derive(Debug, Error)]
pub enum HelperError {
    /// The plan does not fit on the wire.
    #[error("the plan cannot be sent")]
    Plan(#[from] PlanError),
    /// The binary cannot be started.
    #[error("cannot start the helper `{}`", binary.display())]
    Spawn {
        /// The binary.
        binary: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The helper went away, or talked nonsense.
    #[error("the helper gave no answer")]
    Silent(#[source] io::Error),
}

impl Helper {
    /// A helper from the running binary.
    pub fn own() -> io::Result<Helper> {
        Ok(Helper { binary: std::env::current_exe()? })
    }

    /// Runs one request and waits for the answer. The sandbox ends when this process does.
    pub fn run(&self, request: &Request) -> Result<Response, HelperError> {
        self.start(request)?.wait()
    }

    /// Starts one request. The sandbox ends when the handle is dropped.
    pub fn start(&self, request: &Request) -> Result<Running, HelperError> {
        let plan = request.plan.encode()?;
        let (child, channel) = self.spawn(&[], Stdio::inherit())?;
        let running = Running { child, channel };
        let frames = [&plan, &request.sealed, &request.input];
        let sent = frames.into_iter().try_for_each(|frame| write_frame(&running.channel, frame));
        sent.map_err(HelperError::Silent)?;
        Ok(running)
    }

    /// Starts a program that is talked to over its standard input and output. What it says on its standard error is
    /// dropped. Returns when it has been started and every wall stands around it.
    pub fn keep(&self, plan: &Plan) -> Result<Result<Kept, Response>, HelperError> {
        let plan = plan.encode()?;
        let (child, channel) = self.spawn(&[KEEP_ARGUMENT], Stdio::null())?;
        let mut kept = Kept { child, channel, enforcement: Enforcement::default() };
        let sent = write_frame(&kept.channel, &plan);
        let opened = sent.and_then(|()| read_frame(&kept.channel, MAX_INPUT)).map_err(HelperError::Silent)?;
        let opening: Opening = postcard::from_bytes(&opened).map_err(|_| garbled())?;
        Ok(opening.map(|enforcement| {
            kept.enforcement = enforcement;
            kept
        }))
    }

    #[expect(clippy::disallowed_methods, reason = "the helper is our own binary, and raises the walls")]
    fn spawn(&self, arguments: &[&str], stderr: Stdio) -> Result<(Child, UnixStream), HelperError> {
        let (ours, theirs) = UnixStream::pair().map_err(HelperError::Silent)?;
        let spawned = theirs.try_clone().and_then(|output| {
            Command::new(&self.binary)
                .arg(HELPER_ARGUMENT)
                .args(arguments)
                .env_clear()
                // Whoever kills the gate's whole group leaves somebody to clean up after it.
                .process_group(0)
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
                .stderr(stderr)
                .spawn()
        });
        let child = spawned.map_err(|source| HelperError::Spawn { binary: self.binary.clone(), source })?;
        Ok((child, ours))
    }
}

/// A run that is being made.
#[derive(Debug)]
pub struct Running {
    child: Child,
    channel: UnixStream,
}

/// Ends a run from elsewhere.
#[derive(Debug)]
pub struct Hangup(UnixStream);

impl Running {
    /// What ends it while somebody waits for it.
    pub fn hangup(&self) -> io::Result<Hangup> {
        self.channel.try_clone().map(Hangup)
    }

    /// Waits for the answer.
    pub fn wait(self) -> Result<Response, HelperError> {
        let bytes = read_frame(&self.channel, usize::MAX).map_err(HelperError::Silent)?;
        postcard::from_bytes(&bytes).map_err(|_| garbled())
    }
}

impl Hangup {
    /// Ends every process of the sandbox. Its report still comes, and says that the run was abandoned.
    pub fn hang_up(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.channel.shutdown(Shutdown::Both);
        // Not killed: what a tool has left behind is looked at after its end.
        let _ = self.child.wait();
    }
}

/// A program behind walls that is talked to. It ends when this is dropped.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    channel: UnixStream,
    enforcement: Enforcement,
}

impl Kept {
    /// What leads to its standard input and from its standard output.
    pub fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// What holds it.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The helper ends the sandbox and removes its cgroup. One that does not is ended itself, and the sandbox with it.
        let _ = self.channel.shutdown(Shutdown::Both);
        let begun = Instant::now();
        while begun.elapsed() < END_WITHIN {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn garbled_plan(error: &dyn std::error::Error) -> Response {
    Response::Refused { messages: vec![error.to_string()], step: None, error: None }
}

fn garbled() -> HelperError {
    HelperError::Silent(io::Error::from(io::ErrorKind::InvalidData))
}

/// Becomes a helper if the arguments say so, and does not return then. The first line of `main`, before any thread.
pub fn serve_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == HELPER_ARGUMENT) {
        let keeps = arguments.next().is_some_and(|argument| argument == KEEP_ARGUMENT);
        let served = if keeps { serve_kept() } else { serve() };
        std::process::exit(i32::from(served.is_err()));
    }
}

fn serve() -> io::Result<()> {
    let channel = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    let response = match read_request(&channel) {
        Ok(request) => answer(request, &channel),
        Err(error) => garbled_plan(&*error),
    };
    let bytes = postcard::to_stdvec(&response).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    write_frame(&channel, &bytes)
}

fn serve_kept() -> io::Result<()> {
    let channel = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    let tell = |opening: &Opening| {
        let bytes = postcard::to_stdvec(opening).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        write_frame(&channel, &bytes)
    };
    let plan = match read_frame(&channel, crate::plan::MAX_PLAN_BYTES).map(|bytes| Plan::decode(&bytes))? {
        Ok(plan) => plan,
        Err(error) => return tell(&Err(garbled_plan(&error))),
    };
    let mut started = |enforcement: &Enforcement| {
        // A gate that does not hear this has hung up, and that ends the sandbox.
        let _ = tell(&Ok(enforcement.clone()));
    };
    let run = Prepared::new().and_then(|begun| begun.run_kept(&plan, channel.as_fd(), &mut started));
    match run {
        Ok(()) => Ok(()),
        Err(error) => tell(&Err(refused(&error))),
    }
}

fn answer(Request { plan, sealed, input }: Request, channel: &UnixStream) -> Response {
    match run_sealed(&plan, &sealed, Streams::Collect { input: Feed::Bytes(input) }, Some(channel.as_fd())) {
        Ok(report) => Response::Report(Box::new(report)),
        Err(error) => refused(&error),
    }
}

/// An error as it crosses to the gate: it and its causes, which wall, which number.
fn refused(error: &StartError) -> Response {
    let mut messages = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    let mut number = None;
    while let Some(cause) = source {
        messages.push(cause.to_string());
        number = number.or(cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error));
        source = cause.source();
    }
    let step = match error {
        StartError::Wall { step, .. } => Some(step.clone()),
        _ => None,
    };
    Response::Refused { messages, step, error: number }
}

fn read_request(channel: &UnixStream) -> Result<Request, Box<dyn std::error::Error>> {
    let plan = Plan::decode(&read_frame(channel, crate::plan::MAX_PLAN_BYTES)?)?;
    let sealed = read_frame(channel, usize::try_from(MAX_SEALED_BYTES).unwrap_or(MAX_INPUT))?;
    Ok(Request { plan, sealed, input: read_frame(channel, MAX_INPUT)? })
}

fn write_frame(mut channel: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    channel.write_all(&(bytes.len() as u64).to_le_bytes())?;
    channel.write_all(bytes)
}

fn read_frame(mut channel: &UnixStream, most: usize) -> io::Result<Vec<u8>> {
    let mut header = [0; 8];
    channel.read_exact(&mut header)?;
    let length = usize::try_from(u64::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    // Grows as bytes arrive: a length alone reserves nothing.
    let mut bytes = Vec::new();
    channel.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) }
}
