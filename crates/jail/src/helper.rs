//! A process of its own to launch from: a gate has threads, and a threaded process must not fork a sandbox.
//!
//! A helper is our own binary under another argument, started for one run ([`Helper`]), or copied from one that waits
//! ([`crate::Warm`]). Its standard input is a socket, on which it reads one errand. Either it runs a plan and answers with
//! a report, or it keeps what it started and passes bytes between the gate and it. In both cases it ends its sandbox when
//! the gate hangs up.
//!
//! Messages are frames: a length and that many bytes. In the place of a length [`READY`] says that a helper which waits is ready:
//! for whoever reads frames, an empty one.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::mem;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::Pid;
use rustix::thread::gettid;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::beside::{anywhere, beside_us, in_our_place};
use crate::control::Enforcement;
use crate::directories;
use crate::doors::Doors;
use crate::host_mounts::HostMounts;
use crate::keeper::{self, ZYGOTE_ARGUMENT};
use crate::launch::{Prepared, StartError, Where};
use crate::nursery::Nursery;
use crate::orders::{Step, receive_with, send_with, wait_for_word};
use crate::own::{self, Own};
use crate::plan::{Plan, PlanError, Program};
use crate::report::Report;
use crate::seal::MAX_SEALED_BYTES;
use crate::stream::{Feed, Streams};
use crate::supervise::News;
use crate::sys::{self, Haste};

/// The argument that makes our binary a helper.
pub const HELPER_ARGUMENT: &str = "__jail";

/// What a helper is to do; the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// Run a plan and report.
    Run,
    /// The same; and whoever waits next, waits for a plan like it.
    RunAndExpect,
    /// Run a plan and pass bytes.
    Keep,
}

impl Errand {
    fn as_bytes(self) -> &'static [u8] {
        match self {
            Errand::Run => b"run",
            Errand::RunAndExpect => b"run and expect",
            Errand::Keep => b"keep",
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Errand> {
        [Errand::Run, Errand::RunAndExpect, Errand::Keep]
            .into_iter()
            .find(|errand| errand.as_bytes() == bytes)
    }
}

/// What a helper that waits says when it is ready, with the number of its thread.
const READY: u64 = 1 << 63;
/// Said with it by one that waits in the place of a plan.
const IN_PLACE: u64 = 1 << 62;
const MAX_INPUT: usize = 64 * 1024 * 1024;
/// As much of a frame as is gathered before it is sent, and reserved before it has come.
const FRAME_AT_ONCE: usize = 16 * 1024;
/// As much as is gathered before it is sent: what is short is sent in one piece.
const GATHERED: usize = 64 * 1024;
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
        self.call()?.start(request)
    }

    /// Starts a program that is talked to over its standard input and output. What it says on its standard error is
    /// dropped. Returns when it has been started and every wall stands around it.
    pub fn keep(&self, plan: &Plan) -> Result<Result<Kept, Response>, HelperError> {
        self.call()?.keep(plan)
    }

    /// A helper that was started for one errand.
    pub(crate) fn call(&self) -> Result<Line, HelperError> {
        let (child, channel) = self.spawn(HELPER_ARGUMENT, None)?;
        Ok(Line::new(channel, Some(child)))
    }

    /// The same under another argument. It has no variable but this one.
    pub(crate) fn spawn(
        &self,
        argument: &str,
        variable: Option<(&str, &str)>,
    ) -> Result<(Child, UnixStream), HelperError> {
        let (ours, theirs) = UnixStream::pair().map_err(HelperError::Silent)?;
        Ok((self.spawn_at(argument, variable, theirs)?, ours))
    }

    #[expect(clippy::disallowed_methods, reason = "the helper is our own binary, and raises the walls")]
    fn spawn_at(
        &self,
        argument: &str,
        variable: Option<(&str, &str)>,
        theirs: UnixStream,
    ) -> Result<Child, HelperError> {
        let spawned = theirs.try_clone().and_then(|output| {
            Command::new(&self.binary)
                .arg(argument)
                .env_clear()
                .envs(variable)
                // Whoever kills the gate's whole group leaves somebody to clean up after it.
                .process_group(0)
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
                .stderr(Stdio::null())
                .spawn()
        });
        spawned.map_err(|source| HelperError::Spawn { binary: self.binary.clone(), source })
    }
}

/// The line to a helper that has no errand yet. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) channel: UnixStream,
    /// The helper, if it was started for this errand.
    pub(crate) child: Option<Child>,
    /// Where a helper that goes on waits for the errand after this one; goes with the first bytes.
    pub(crate) next: Option<UnixStream>,
    /// Whether it is to expect a plan like the one that is run now.
    pub(crate) expects: bool,
}

/// Where a sandbox waits for an errand, as whoever serves it sees it.
pub(crate) struct Turn {
    pub(crate) channel: UnixStream,
    /// What it is likely to be.
    pub(crate) expected: Option<Plan>,
}

impl Line {
    pub(crate) fn new(channel: UnixStream, child: Option<Child>) -> Line {
        Line { channel, child, next: None, expects: false }
    }

    fn run(&self) -> Errand {
        if self.expects { Errand::RunAndExpect } else { Errand::Run }
    }

    pub(crate) fn start(self, request: &Request) -> Result<Running, HelperError> {
        let plan = request.plan.encode()?;
        let mut running = Running::on(self);
        let frames = [running.line.run().as_bytes(), &plan, &request.sealed, &request.input];
        // Whoever was started for this errand says nothing before it.
        let sent = match running.line.child {
            Some(_) => running.line.send(&frames),
            None => {
                let thread = running.line.ready_thread().map_err(HelperError::Silent)?;
                in_our_place(thread, || running.line.send(&frames))
            }
        };
        match sent {
            // It has answered before it had read everything: what it said is there to be read.
            Err(HelperError::Silent(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(running),
            sent => sent.map(|()| running),
        }
    }

    /// The same without the input, which [`Running::give`] brings, for one that has said that it is ready: it gets ready
    /// beside us. `plan` is encoded.
    pub(crate) fn begin(self, plan: &[u8]) -> Result<Running, HelperError> {
        let mut running = Running::on(self);
        let thread = running.line.ready_thread().map_err(HelperError::Silent)?;
        let errand = running.line.run();
        beside_us(thread, || running.line.send(&[errand.as_bytes(), plan, &[]]))?;
        running.thread = Some(thread);
        Ok(running)
    }

    /// Which thread it is that has said that it is ready. Whatever else is said first is the number of nobody's.
    fn ready_thread(&self) -> io::Result<Pid> {
        let mut said = [0; 8];
        (&self.channel).read_exact(&mut said)?;
        let said = Some(u64::from_le_bytes(said)).filter(|said| said & READY != 0);
        let number = said.and_then(|said| i32::try_from(said & !(READY | IN_PLACE)).ok());
        number.and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(crate) fn keep(self, plan: &Plan) -> Result<Result<Kept, Response>, HelperError> {
        let plan = plan.encode()?;
        let mut kept = Kept { line: self, enforcement: Enforcement::default(), doors: None };
        kept.line.send(&[Errand::Keep.as_bytes(), &plan])?;
        let opened = loop {
            let (bytes, descriptors) =
                read_with_descriptors(&kept.line.channel).map_err(HelperError::Silent)?;
            match (bytes.is_empty(), descriptors.is_empty()) {
                // It was ready.
                (true, _) => {}
                (false, true) => break bytes,
                (false, false) => {
                    let ports: Vec<u16> = postcard::from_bytes(&bytes).map_err(|_| garbled())?;
                    kept.doors = Some(Doors::from_descriptors(&ports, descriptors).ok_or_else(garbled)?);
                }
            }
        };
        let opening: Opening = postcard::from_bytes(&opened).map_err(|_| garbled())?;
        Ok(opening.map(|enforcement| {
            kept.enforcement = enforcement;
            kept
        }))
    }

    /// Waits until the other side is gone. What it still says is dropped.
    fn wait_for_end(&self, until: Instant) {
        let mut dropped = [0; 4096];
        loop {
            let left =
                Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap_or_default();
            let mut watched = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut watched, Some(&left)) {
                Err(Errno::INTR) => continue,
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            match rustix::io::read(&self.channel, &mut dropped) {
                Ok(0) => return,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<(), HelperError> {
        // What is short goes at once: each piece would wake the other side.
        let mut gathered = Vec::with_capacity(4096);
        let mut rest = frames.iter();
        while gathered.len() < GATHERED
            && let Some(frame) = rest.next()
        {
            write_frame(&mut gathered, frame).map_err(HelperError::Silent)?;
        }
        let next = self.next.take();
        let beside: Vec<BorrowedFd<'_>> = next.iter().map(AsFd::as_fd).collect();
        send_with(&self.channel, &gathered, &beside).map_err(HelperError::Silent)?;
        rest.try_for_each(|frame| write_frame(&self.channel, frame)).map_err(HelperError::Silent)
    }
}

/// A run that is being made.
#[derive(Debug)]
pub struct Running {
    line: Line,
    /// The keeper's thread that makes it, if it was begun without its input.
    thread: Option<Pid>,
    has_answered: bool,
    /// The answer, if it came where something else was waited for.
    early: Option<Vec<u8>>,
    /// Whether somebody waits for it who must not block.
    is_watched: bool,
}

impl Running {
    fn on(line: Line) -> Running {
        Running { line, thread: None, has_answered: false, early: None, is_watched: false }
    }
}

/// How much of an answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Nothing.
    NotYet,
    /// It is long, and may have to be waited for.
    InPart,
    /// All of it, or whoever was to give it is gone: [`Running::wait`] does not block.
    Whole,
}

/// Ends a run from elsewhere.
#[derive(Debug)]
pub struct Hangup(UnixStream);

impl Running {
    /// What ends it while somebody waits for it.
    pub fn hangup(&self) -> io::Result<Hangup> {
        self.line.channel.try_clone().map(Hangup)
    }

    /// Gives its input to a run that was begun without. The giver waits next, so whoever makes the run goes on in their place.
    pub fn give(&self, input: &[u8]) -> Result<(), HelperError> {
        let give = || write_frame(&self.line.channel, input).map_err(HelperError::Silent);
        match self.thread {
            Some(thread) => in_our_place(thread, give),
            None => give(),
        }
    }

    /// What becomes readable when its answer comes, for whoever must not block.
    pub fn watched(&mut self) -> io::Result<OwnedFd> {
        self.is_watched = true;
        self.line.channel.set_nonblocking(true)?;
        self.line.channel.try_clone().map(OwnedFd::from)
    }

    /// From now on whoever reads waits.
    fn block(&mut self) -> io::Result<()> {
        if mem::take(&mut self.is_watched) { self.line.channel.set_nonblocking(false) } else { Ok(()) }
    }

    /// What is there of its answer by now. Does not block. For a run whose network is not guarded.
    ///
    /// What waited and could not be used says once more that it is ready: that is no answer, and whoever took it for one would
    /// wait for the whole run.
    pub fn answered(&self) -> Answered {
        let mut seen = [0; 8 + FRAME_AT_ONCE];
        loop {
            let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let length = match recv(&self.line.channel, seen.as_mut_slice(), peek) {
                Err(Errno::AGAIN) => return Answered::NotYet,
                Err(Errno::INTR) => return Answered::InPart,
                // Whoever has hung up says no more.
                Err(_) | Ok((_, 0)) => return Answered::Whole,
                Ok((_, length)) => length,
            };
            let frame = seen.first_chunk().map(|header| u64::from_le_bytes(*header)).filter(|_| length >= 8);
            match frame {
                Some(ready) if ready & READY != 0 => {
                    if recv(&self.line.channel, &mut [0_u8; 8], RecvFlags::DONTWAIT).is_err() {
                        return Answered::Whole;
                    }
                }
                Some(frame) if frame <= (length - 8) as u64 => return Answered::Whole,
                _ => return Answered::InPart,
            }
        }
    }

    /// What leads out of its network, if that is guarded: waits until it is there. Nothing if the run is over before, or was
    /// never begun; [`Running::wait`] says why.
    pub fn doors(&mut self) -> Result<Option<Doors>, HelperError> {
        loop {
            let (bytes, descriptors) =
                read_with_descriptors(&self.line.channel).map_err(HelperError::Silent)?;
            match (bytes.is_empty(), descriptors.is_empty()) {
                // It was ready.
                (true, _) => {}
                (false, true) => {
                    self.early = Some(bytes);
                    return Ok(None);
                }
                (false, false) => {
                    let ports: Vec<u16> = postcard::from_bytes(&bytes).map_err(|_| garbled())?;
                    return Doors::from_descriptors(&ports, descriptors).map(Some).ok_or_else(garbled);
                }
            }
        }
    }

    /// Waits for the answer. No process of the sandbox is alive then but its init, which does nothing any more.
    pub fn wait(mut self) -> Result<Response, HelperError> {
        self.block().map_err(HelperError::Silent)?;
        let bytes = match self.early.take() {
            Some(bytes) => bytes,
            None => read_answer(&self.line.channel).map_err(HelperError::Silent)?,
        };
        self.has_answered = true;
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
        let _ = self.block();
        // Not killed: what a tool has left behind is looked at after its end.
        let _ = self.line.channel.shutdown(Shutdown::Write);
        match &mut self.line.child {
            Some(child) => drop(child.wait()),
            None if self.has_answered => {}
            None => drop(io::copy(&mut &self.line.channel, &mut io::sink())),
        }
    }
}

/// A program behind walls that is talked to. It ends when this is dropped.
#[derive(Debug)]
pub struct Kept {
    line: Line,
    enforcement: Enforcement,
    doors: Option<Doors>,
}

impl Kept {
    /// What leads out of its network, if that is guarded; for the first who asks. As long as nobody serves them, nobody is
    /// reached.
    pub fn take_doors(&mut self) -> Option<Doors> {
        self.doors.take()
    }

    /// What leads to its standard input and from its standard output.
    pub fn channel(&self) -> &UnixStream {
        &self.line.channel
    }

    /// What holds it.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The helper ends the sandbox and removes its cgroup. It is waited for, and one that was started for this errand is
        // killed if it takes too long.
        let _ = self.line.channel.shutdown(Shutdown::Write);
        let begun = Instant::now();
        let Some(child) = &mut self.line.child else {
            self.line.wait_for_end(begun + END_WITHIN);
            // Whoever else listens on this line has nothing more to wait for.
            let _ = self.line.channel.shutdown(Shutdown::Both);
            return;
        };
        while begun.elapsed() < END_WITHIN {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn garbled_plan(error: &dyn std::error::Error) -> Response {
    Response::Refused { messages: vec![error.to_string()], step: None, error: None }
}

fn garbled() -> HelperError {
    HelperError::Silent(io::Error::from(io::ErrorKind::InvalidData))
}

/// Becomes a helper if the arguments say so, and does not return then. The first line of `main`, before any thread. `own` is
/// what sandboxes run for [`crate::Program::Own`].
pub fn serve_if_asked(own: Own) {
    // Whoever starts us may not want to hear of its children, and that is inherited; we have to hear of ours.
    sys::default_signal(libc::SIGCHLD);
    own::remember(own);
    let argument = std::env::args_os().nth(1).unwrap_or_default();
    let served = if argument == HELPER_ARGUMENT {
        serve()
    } else if argument == ZYGOTE_ARGUMENT {
        keeper::serve()
    } else {
        return;
    };
    std::process::exit(i32::from(served.is_err()));
}

/// Does one errand for whoever is at the other end of standard input.
fn serve() -> io::Result<()> {
    let channel = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    do_errand(Prepared::new(), &channel).map(drop)
}

/// Builds a sandbox ahead of time, says so, and does the one errand that comes. Returns where the next one may come.
pub(crate) fn serve_waiting(
    nursery: Nursery,
    mounts: &Arc<HostMounts>,
    Turn { channel, expected }: Turn,
) -> io::Result<Option<Turn>> {
    let is_promised = Cell::new(false);
    let ready = |where_it_waits| {
        is_promised.set(true);
        anywhere();
        sys::go_on_with(Haste::Usual);
        let place = if where_it_waits == Where::InPlace { IN_PLACE } else { 0 };
        let number = READY | place | u64::from(gettid().as_raw_nonzero().get().unsigned_abs());
        drop((&channel).write_all(&number.to_le_bytes()));
    };
    let prepared = Prepared::after_waiting(nursery.clone(), mounts, expected, channel.as_fd(), ready);
    if prepared.is_err() && nursery.is_gone() {
        return if is_promised.get() { hand_on(&channel) } else { Err(io::ErrorKind::NotConnected.into()) };
    }
    do_errand(prepared, &channel)
}

/// Has a helper do the errand that was promised, where nobody can be cloned any more. Nothing of it has been read yet.
fn hand_on(channel: &UnixStream) -> io::Result<Option<Turn>> {
    poll(&mut [PollFd::new(channel, PollFlags::IN)], None)?;
    let helper = Helper { binary: "/proc/self/exe".into() };
    let mut child = helper.spawn_at(HELPER_ARGUMENT, None, channel.try_clone()?).map_err(io::Error::other)?;
    child.wait()?;
    Ok(None)
}

/// Returns where the next one may come.
fn do_errand(prepared: Result<Prepared, StartError>, channel: &UnixStream) -> io::Result<Option<Turn>> {
    let (errand, beside) = read_with_descriptors(channel)?;
    let expected = match Errand::from_bytes(&errand) {
        Some(Errand::Run) => serve_run(prepared, channel).map(|_| None),
        Some(Errand::RunAndExpect) => serve_run(prepared, channel),
        Some(Errand::Keep) => serve_kept(prepared, channel).map(|()| None),
        None => Err(io::ErrorKind::InvalidData.into()),
    }?;
    Ok(beside.into_iter().next().map(|channel| Turn { channel: channel.into(), expected }))
}

/// Returns the plan if another one like it may be waited for where it was run.
fn serve_run(prepared: Result<Prepared, StartError>, channel: &UnixStream) -> io::Result<Option<Plan>> {
    let (plan, sealed, input) = match read_request(channel) {
        Ok(request) => request,
        Err(error) => return answer(channel, &garbled_plan(&*error)).map(|()| None),
    };
    let streams = Streams::Collect { input };
    let mut told = |news: News<'_>| {
        if let News::Guarded(doors) = news {
            // A gate that does not get them has hung up.
            let _ = hand_over(channel, &doors);
        }
    };
    let ran = prepared
        .and_then(|prepared| prepared.run_to_end(&plan, &sealed, streams, Some(channel.as_fd()), &mut told));
    match ran {
        // What is left is taken down after the answer: nobody has to wait for it.
        Ok((report, remains)) => {
            let answered = answer(channel, &Response::Report(Box::new(report)));
            // The same goes for whatever this thread makes next.
            sys::go_on_with(Haste::None);
            sys::let_others_run();
            let expected = plan.has_lasting_place() && directories::have_nothing_to_guard(&remains.opened);
            drop(remains);
            answered.map(|()| expected.then_some(plan))
        }
        Err(error) => answer(channel, &refused(&error)).map(|()| None),
    }
}

fn serve_kept(prepared: Result<Prepared, StartError>, channel: &UnixStream) -> io::Result<()> {
    let plan = match read_frame(channel, crate::plan::MAX_PLAN_BYTES).map(|bytes| Plan::decode(&bytes))? {
        Ok(plan) => plan,
        Err(error) => return answer(channel, &Opening::Err(garbled_plan(&error))),
    };
    // A gate that does not hear this has hung up, and that ends the sandbox.
    let mut started = |news: News<'_>| match news {
        News::Guarded(doors) => drop(hand_over(channel, &doors)),
        News::Started(enforcement) => drop(answer(channel, &Opening::Ok(enforcement.clone()))),
    };
    let run = prepared.and_then(|begun| begun.run_kept(&plan, channel.as_fd(), &mut started));
    match run {
        Ok(()) => Ok(()),
        Err(error) => answer(channel, &Opening::Err(refused(&error))),
    }
}

fn answer(channel: &UnixStream, answer: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(answer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    write_frame(channel, &bytes)
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

fn read_request(channel: &UnixStream) -> Result<(Plan, Vec<u8>, Feed), Box<dyn std::error::Error>> {
    let plan = Plan::decode(&read_frame(channel, crate::plan::MAX_PLAN_BYTES)?)?;
    let sealed = read_frame(channel, usize::try_from(MAX_SEALED_BYTES).unwrap_or(MAX_INPUT))?;
    // INVARIANT(nothing-before-the-word): only our own code runs before its input has come, and waits for it: a worker, or
    // an init that has everything ready but the program.
    let input = match &plan.draft().program {
        Program::Own | Program::WhenTold(_) => Feed::Lifeline,
        Program::Inside(_) | Program::Brought(_) => Feed::Bytes(read_frame(channel, MAX_INPUT)?),
    };
    Ok((plan, sealed, input))
}

/// The input of a tool that has been started without.
pub(crate) fn read_input(lifeline: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    read_frame(&UnixStream::from(lifeline.try_clone_to_owned()?), MAX_INPUT)
}

fn write_frame(mut channel: impl Write, bytes: &[u8]) -> io::Result<()> {
    let header = (bytes.len() as u64).to_le_bytes();
    if bytes.len() <= FRAME_AT_ONCE {
        // What is short goes at once: each piece would wake the other side.
        return channel.write_all(&[&header, bytes].concat());
    }
    channel.write_all(&header)?;
    channel.write_all(bytes)
}

/// Whether what was said, and is not read yet, is that somebody is ready in the place of a plan.
pub(crate) fn is_said_in_place(channel: &UnixStream) -> bool {
    let mut said = [0; 8];
    let peeked = recv(channel, said.as_mut_slice(), RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Ok((_, 8))) && u64::from_le_bytes(said) & (READY | IN_PLACE) == READY | IN_PLACE
}

/// The next frame that is more than a word that somebody is ready.
fn read_answer(channel: &UnixStream) -> io::Result<Vec<u8>> {
    loop {
        wait_for_word(channel)?;
        let bytes = read_frame(channel, usize::MAX)?;
        if !bytes.is_empty() {
            return Ok(bytes);
        }
    }
}

/// Sends the gate what leads out of a guarded network.
fn hand_over(channel: &UnixStream, doors: &Doors) -> io::Result<()> {
    let ports =
        postcard::to_stdvec(&doors.ports()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let frame = [(ports.len() as u64).to_le_bytes().as_slice(), &ports].concat();
    send_with(channel, &frame, &doors.descriptors())
}

/// A frame, and what came with it.
fn read_with_descriptors(channel: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut header = [0; 8];
    let descriptors = receive_with(channel, &mut header)?;
    let length = length_of(header);
    let mut bytes = Vec::with_capacity(length.min(FRAME_AT_ONCE));
    channel.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok((bytes, descriptors)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_frame(mut channel: &UnixStream, most: usize) -> io::Result<Vec<u8>> {
    let mut header = [0; 8];
    channel.read_exact(&mut header)?;
    let length = length_of(header);
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    // Grows as bytes arrive: a length alone reserves little.
    let mut bytes = Vec::with_capacity(length.min(FRAME_AT_ONCE));
    channel.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) }
}

fn length_of(header: [u8; 8]) -> usize {
    match u64::from_le_bytes(header) {
        ready if ready & READY != 0 => 0,
        length => usize::try_from(length).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> (Running, UnixStream) {
        let (channel, other) = UnixStream::pair().unwrap();
        (Running::on(Line::new(channel, None)), other)
    }

    #[test]
    fn an_answer_is_there_when_all_of_it_is() {
        let (running, other) = running();
        assert_eq!(running.answered(), Answered::NotYet);
        (&other).write_all(&3_u64.to_le_bytes()).unwrap();
        assert_eq!(running.answered(), Answered::InPart);
        (&other).write_all(b"abc").unwrap();
        assert_eq!(running.answered(), Answered::Whole);
        drop(other);
    }

    #[test]
    fn what_is_ready_has_not_answered_however_often_it_says_so() {
        let (running, other) = running();
        for _ in 0..3 {
            (&other).write_all(&(READY | 7).to_le_bytes()).unwrap();
        }
        assert_eq!(running.answered(), Answered::NotYet);
        write_frame(&other, b"x").unwrap();
        assert_eq!(running.answered(), Answered::Whole);
        drop(other);
    }

    #[test]
    fn only_who_says_that_it_is_ready_has_a_thread() {
        let (running, other) = running();
        for (said, thread) in [(READY | 7, Some(7)), (7, None), (READY, None), (READY | 1 << 40, None)] {
            (&other).write_all(&said.to_le_bytes()).unwrap();
            assert_eq!(running.line.ready_thread().ok(), thread.and_then(Pid::from_raw), "{said:x}");
        }
    }

    #[test]
    fn whoever_hangs_up_has_said_everything() {
        let (running, other) = running();
        drop(other);
        assert_eq!(running.answered(), Answered::Whole);
    }
}
