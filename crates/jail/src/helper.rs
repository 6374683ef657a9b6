//! A process of its own to launch from: a gate has threads, and a threaded process must not fork a sandbox.
//!
//! The helper is our own binary under another argument. Its standard input is a socket, on which it reads one request
//! and answers it; it ends its sandbox when the gate hangs up.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::launch::run;
use crate::orders::Step;
use crate::plan::{Plan, PlanError};
use crate::report::Report;
use crate::stream::{Feed, Streams};

/// The argument that makes our binary a helper.
pub const HELPER_ARGUMENT: &str = "__jail";

const MAX_INPUT: usize = 64 * 1024 * 1024;

/// One run to be made by a helper.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to run.
    pub plan: Plan,
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
    #[expect(clippy::disallowed_methods, reason = "the helper is our own binary, and raises the walls")]
    pub fn run(&self, request: &Request) -> Result<Response, HelperError> {
        let plan = request.plan.encode()?;
        let (ours, theirs) = UnixStream::pair().map_err(HelperError::Silent)?;
        let spawned = theirs.try_clone().and_then(|output| {
            Command::new(&self.binary)
                .arg(HELPER_ARGUMENT)
                .env_clear()
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
                .stderr(Stdio::inherit())
                .spawn()
        });
        let mut child =
            spawned.map_err(|source| HelperError::Spawn { binary: self.binary.clone(), source })?;
        let answer = exchange(ours, &plan, &request.input);
        let ended = child.wait();
        let bytes = answer.map_err(HelperError::Silent)?;
        ended.map_err(HelperError::Silent)?;
        postcard::from_bytes(&bytes)
            .map_err(|_| HelperError::Silent(io::Error::from(io::ErrorKind::InvalidData)))
    }
}

/// Becomes a helper if the arguments say so, and does not return then. The first line of `main`, before any thread.
pub fn serve_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == HELPER_ARGUMENT) {
        let code = i32::from(serve().is_err());
        std::process::exit(code);
    }
}

fn serve() -> io::Result<()> {
    let channel = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    let response = match read_request(&channel) {
        Ok((plan, input)) => answer(&plan, input, &channel),
        Err(error) => Response::Refused { messages: vec![error.to_string()], step: None, error: None },
    };
    let bytes = postcard::to_stdvec(&response).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    write_frame(&channel, &bytes)
}

fn answer(plan: &Plan, input: Vec<u8>, channel: &UnixStream) -> Response {
    use std::os::fd::AsFd;
    match run(plan, Streams::Collect { input: Feed::Bytes(input) }, Some(channel.as_fd())) {
        Ok(report) => Response::Report(Box::new(report)),
        Err(error) => {
            let mut messages = vec![error.to_string()];
            let mut source = std::error::Error::source(&error);
            let mut number = None;
            while let Some(cause) = source {
                messages.push(cause.to_string());
                number = number.or(cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error));
                source = cause.source();
            }
            let step = match error {
                crate::launch::StartError::Wall { step, .. } => Some(step),
                _ => None,
            };
            Response::Refused { messages, step, error: number }
        }
    }
}

fn exchange(channel: UnixStream, plan: &[u8], input: &[u8]) -> io::Result<Vec<u8>> {
    write_frame(&channel, plan)?;
    write_frame(&channel, input)?;
    read_frame(&channel, usize::MAX)
}

fn read_request(channel: &UnixStream) -> Result<(Plan, Vec<u8>), Box<dyn std::error::Error>> {
    let plan = Plan::decode(&read_frame(channel, crate::plan::MAX_PLAN_BYTES)?)?;
    Ok((plan, read_frame(channel, MAX_INPUT)?))
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
