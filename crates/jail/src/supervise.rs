//! Watches one sandbox until its end: moves bytes, forwards signals, keeps time, kills.

use std::cell::Cell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

use crate::changes::Aftermath;
use crate::control::{Control, Enforcement, Level};
use crate::doors::Doors;
use crate::entry::by_handle;
use crate::helper;
use crate::launch::{Pipes, Running, StartError};
use crate::orders::{NotStarted, Said, receive};
use crate::plan::{Network, Plan};
use crate::report::{Counted, Limit, Memory, Outcome, Report, Timings, Usage};
use crate::stream::{Capture, Feed, Flow, Streams, drain, read_anew};
use crate::sys::{self, Used};
use crate::watch::Watch;

/// Passed on to the tool. Everything else keeps its usual meaning for the launcher.
const FORWARDED: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// How long the init may take to end everybody after the tool, and to say what they used.
const COUNTED_WITHIN: Duration = Duration::from_millis(500);

const BUFFER: usize = 64 * 1024;

thread_local! {
    /// Of the run before: to have so much given and taken back each time costs more than all that is read.
    static KEPT_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// As much as a pipe that is ready takes without blocking.
const PASSED_AT_ONCE: usize = 4096;

/// What is told of a run while it goes on.
#[derive(Debug)]
pub enum News<'a> {
    /// Its network is guarded, and these lead out of it. The tool may use them at once.
    Guarded(Doors),
    /// The tool has been started, and this holds it.
    Started(&'a Enforcement),
}

/// Who is told.
pub(crate) type Told<'a> = &'a mut dyn FnMut(News<'_>);

/// What was seen of a sandbox that has ended.
pub(crate) struct Supervised {
    outcome: Outcome,
    walls: Enforcement,
    stdout: Capture,
    stderr: Capture,
    timings: Timings,
    used: Used,
    counted: Counted,
}

impl Supervised {
    pub(crate) fn into_report(self, running: &Running, aftermath: Aftermath) -> Report {
        let largest = Memory::LargestProcess(self.used.largest);
        let memory = running.cgroup.peak_memory().map_or(largest, Memory::Total);
        let usage = self.usage(running.cgroup.processor_time(), memory);
        let mut enforcement = with_held(self.walls, running);
        if let (Some(why), Level::Enforced) =
            (aftermath.unsearched, enforcement.level(Control::ProtectedNames))
        {
            enforcement.set(Control::ProtectedNames, Level::Partly, why);
        }
        Report {
            outcome: self.outcome,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            timings: self.timings,
            usage,
            enforcement,
            changes: aftermath.changes,
            quarantined: aftermath.quarantined,
        }
    }

    /// What processes said of each other, or what their cgroup says of them all, if that is more: of children whose parent
    /// does not want to hear of them nobody else says anything.
    fn usage(&self, by_cgroup: Option<(Duration, Duration)>, memory: Memory) -> Usage {
        let by_processes = (self.used.cpu_user, self.used.cpu_system);
        let counted = if by_cgroup.is_some() { Counted::All } else { self.counted };
        let more = by_cgroup.filter(|(user, system)| *user + *system > by_processes.0 + by_processes.1);
        let (cpu_user, cpu_system) = more.unwrap_or(by_processes);
        Usage { cpu_user, cpu_system, counted, memory }
    }
}

/// What the init says of its walls, and what the launcher itself holds.
fn with_held(mut walls: Enforcement, running: &Running) -> Enforcement {
    for finding in running.held.findings() {
        walls.set(finding.control, finding.level, finding.how.clone());
    }
    walls
}

/// Waits for the end of a sandbox that has its orders.
pub(crate) fn supervise(
    running: &Running,
    pipes: Pipes,
    plan: &Plan,
    streams: Streams,
    lifeline: Option<BorrowedFd<'_>>,
    begun: Instant,
    told: Told<'_>,
) -> Result<Supervised, StartError> {
    let channel = |source: io::Error| StartError::Wall { step: crate::orders::Step::Channel, source };
    let signals = match streams {
        Streams::Collect { input: Feed::Bytes(_) | Feed::Lifeline } | Streams::Lifeline => None,
        Streams::Collect { input: Feed::Own } | Streams::Pass | Streams::Terminal => {
            Some(sys::signals_as_descriptor(&FORWARDED).map_err(channel)?)
        }
    };
    let limits = &plan.draft().limits;
    let waits_for_input = matches!(streams, Streams::Collect { input: Feed::Lifeline })
        && !lifeline.is_some_and(has_something_to_read);
    let cap = if plan.keeps(Control::Output) { limits.output } else { u64::MAX };
    let [own_input, stdout, stderr] = ends_of(&streams, lifeline);
    let mut supervisor = Supervisor {
        running,
        lifeline,
        told,
        ports: match &plan.draft().network {
            Network::Guarded(guarded) => guarded.ports.clone(),
            Network::Closed | Network::Loopback => Vec::new(),
        },
        signals,
        tool: None,
        timeout: plan.keeps(Control::Timeout).then_some(limits.timeout),
        // What has nothing to do yet takes no time of its own.
        deadline: (plan.keeps(Control::Timeout) && !waits_for_input).then(|| begun + limits.timeout),
        watch: Watch::new(plan, running),
        begun,
        started: None,
        walls: Enforcement::default(),
        said: None,
        stopped: None,
        is_tool_killed: false,
        overdue: None,
        early_signals: Vec::new(),
        own_input: own_input.unwrap_or(rustix::stdio::stdin()),
        input: Input::new(&streams),
        outputs: [Output::new(pipes.stdout, stdout, cap), Output::new(pipes.stderr, stderr, cap)],
        // A terminal has no use for the pipe; its own end comes with the tool.
        stdin: Some(pipes.stdin).filter(|_| !matches!(streams, Streams::Terminal)),
        terminal: None,
        buffer: KEPT_BUFFER.take(),
    };
    supervisor.buffer.clear();
    supervisor.buffer.reserve(BUFFER);
    let ran = supervisor.run(plan).map_err(channel);
    KEPT_BUFFER.set(mem::take(&mut supervisor.buffer));
    ran?;
    supervisor.conclude()
}

/// Where the tool's input comes from, and where its outputs are passed to, if they are.
fn ends_of<'a>(streams: &Streams, lifeline: Option<BorrowedFd<'a>>) -> [Option<BorrowedFd<'a>>; 3] {
    use rustix::stdio::{stderr, stdin, stdout};
    match streams {
        Streams::Collect { .. } => [None, None, None],
        Streams::Pass | Streams::Terminal => [Some(stdin()), Some(stdout()), Some(stderr())],
        Streams::Lifeline => [lifeline, lifeline, Some(stderr())],
    }
}

/// How the init's side ended.
enum LastWord {
    Ended { status: i32, used: Option<Used> },
    NotStarted(NotStarted),
    Failed(StartError),
}

struct Supervisor<'a> {
    running: &'a Running,
    lifeline: Option<BorrowedFd<'a>>,
    told: Told<'a>,
    /// Of the guarded network, if it is one.
    ports: Vec<u16>,
    signals: Option<OwnedFd>,
    tool: Option<OwnedFd>,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    watch: Watch,
    begun: Instant,
    started: Option<Instant>,
    walls: Enforcement,
    said: Option<LastWord>,
    stopped: Option<Limit>,
    /// Whether the tool was killed for that, and not everybody at once.
    is_tool_killed: bool,
    /// When everybody is, if the init has not done it by then.
    overdue: Option<Instant>,
    /// What came before there was a tool to have it.
    early_signals: Vec<Signal>,
    own_input: BorrowedFd<'a>,
    input: Input,
    outputs: [Output<'a>; 2],
    stdin: Option<OwnedFd>,
    terminal: Option<Terminal>,
    buffer: Vec<u8>,
}

/// Which descriptor of the poll set is which.
#[derive(Clone, Copy)]
enum Source {
    Channel,
    Lifeline,
    /// The input comes by the lifeline.
    LifelineInput,
    Signals,
    /// The tool's output can be read, or ours written.
    Output(usize),
    /// Our own input can be read.
    OwnInput,
    /// The tool's input can be written.
    ToolInput,
}

impl Supervisor<'_> {
    fn run(&mut self, plan: &Plan) -> io::Result<()> {
        // Where there is nothing to be said, that is said at once.
        self.close_input_if_done();
        if let Some(stdin) = &self.stdin {
            rustix::fs::fcntl_setfl(stdin, OFlags::NONBLOCK)?;
        }
        let mut channel_open = true;
        while channel_open || self.outputs.iter().any(Output::is_open) {
            self.stop_if_due(plan);
            if self.stopped.is_some() && !channel_open {
                // Everything is dead. Whoever has not read by now does not keep us.
                self.outputs.iter_mut().for_each(Output::give_up);
                continue;
            }
            let ready = self.wait(channel_open)?;
            for source in ready {
                match source {
                    Source::Channel => channel_open = self.hear()?,
                    Source::Lifeline => self.stop(Limit::Abandoned),
                    Source::LifelineInput => self.read_lifeline()?,
                    Source::Signals => self.forward_signals()?,
                    Source::Output(index) => self.move_output(index)?,
                    Source::OwnInput => self.read_own_input()?,
                    Source::ToolInput => self.write_tool_input()?,
                }
            }
        }
        Ok(())
    }

    /// Waits until something can be done, or a deadline or the watch is due.
    fn wait(&self, channel_open: bool) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(8);
        let mut fds = Vec::with_capacity(8);
        if channel_open {
            sources.push(Source::Channel);
            fds.push(PollFd::new(&self.running.socket, PollFlags::IN));
        }
        if let (Some(lifeline), None) = (self.lifeline, self.stopped) {
            sources.push(Source::Lifeline);
            fds.push(PollFd::from_borrowed_fd(lifeline, PollFlags::RDHUP));
            if self.input.comes_by_lifeline() {
                sources.push(Source::LifelineInput);
                fds.push(PollFd::from_borrowed_fd(lifeline, PollFlags::IN));
            }
        }
        if let Some(signals) = &self.signals {
            sources.push(Source::Signals);
            fds.push(PollFd::new(signals, PollFlags::IN));
        }
        for (index, output) in self.outputs.iter().enumerate() {
            if let Some(fd) = output.wants() {
                sources.push(Source::Output(index));
                fds.push(fd);
            }
        }
        if self.input.reads_own() && self.stdin.is_some() {
            sources.push(Source::OwnInput);
            fds.push(PollFd::from_borrowed_fd(self.own_input, PollFlags::IN));
        }
        if let (Some(stdin), true) = (&self.stdin, self.input.has_something()) {
            sources.push(Source::ToolInput);
            fds.push(PollFd::new(stdin, PollFlags::OUT));
        }
        let timeout = self.timeout();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        Ok(sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(s, _)| s).collect())
    }

    fn timeout(&self) -> Option<Timespec> {
        let now = Instant::now();
        let due = |at: Instant| at.saturating_duration_since(now);
        let last = if self.stopped.is_none() { self.deadline } else { self.overdue };
        let watch = self.watch.next_look().filter(|_| last.is_some() || self.stopped.is_none());
        let soonest = [last, watch].into_iter().flatten().map(due).min()?;
        // Rounded up, so that the deadline has passed when the wait is over.
        Timespec::try_from(soonest + Duration::from_micros(200)).ok()
    }

    fn stop_if_due(&mut self, plan: &Plan) {
        let now = Instant::now();
        if self.stopped.is_some() {
            let is_due =
                |overdue: Instant| now >= overdue || self.watch.look(now, plan, self.running).is_some();
            if self.overdue.is_some_and(is_due) {
                self.overdue = None;
                self.running.init.kill();
            }
            return;
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.stop(Limit::Timeout);
        } else if let Some(limit) = self.watch.look(now, plan, self.running) {
            self.stop(limit);
        }
    }

    fn stop(&mut self, limit: Limit) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(limit);
        match &self.tool {
            // ATTACK(work-until-the-timeout): the init ends the others as soon as its tool is gone, and says what they used.
            // The kernel would end them all with the init, and say nothing.
            Some(tool) if self.said.is_none() && has_time_to_count(limit) => {
                self.is_tool_killed = true;
                self.overdue = Some(Instant::now() + COUNTED_WITHIN);
                let _ = pidfd_send_signal(tool, Signal::KILL);
            }
            _ => self.running.init.kill(),
        }
    }

    /// Takes one message of the init. False when it was the last, or the init is gone.
    fn hear(&mut self) -> io::Result<bool> {
        let (said, descriptors) = match receive::<Said>(&self.running.socket) {
            Ok(heard) => heard,
            Err(error) if is_hang_up(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        match said {
            // The orders came before it was, or it was heard before the command came.
            Said::Ready | Said::InPlace => {}
            Said::Guarded => {
                // Where something is wrong with them they are closed, and nothing leads out.
                if let Some(doors) = Doors::from_descriptors(&self.ports, descriptors) {
                    (self.told)(News::Guarded(doors));
                }
            }
            Said::Started(walls) => {
                let mut descriptors = descriptors.into_iter();
                self.started = Some(Instant::now());
                self.walls = with_held(walls, self.running);
                (self.told)(News::Started(&self.walls));
                self.tool = descriptors.next();
                if let Some(tool) = &self.tool {
                    for signal in self.early_signals.drain(..) {
                        let _ = pidfd_send_signal(tool, signal);
                    }
                }
                if let Some(master) = descriptors.next() {
                    self.attach_terminal(master)?;
                }
            }
            Said::NotStarted(why) => {
                // A process may have been begun for it beside the init, and never was the command.
                self.started = None;
                self.said = Some(LastWord::NotStarted(why));
            }
            Said::Failed { step, error } => {
                let source = io::Error::from_raw_os_error(error);
                self.said = Some(LastWord::Failed(StartError::Wall { step, source }));
            }
            Said::Ended { status, used } => {
                self.said = Some(LastWord::Ended { status, used });
                if used.is_some() {
                    self.take_rest()?;
                }
            }
        }
        // After its last word the init exits at once, and whoever is left with it, or waits to be ended if nobody is.
        Ok(self.said.is_none())
    }

    /// Nobody is left who could say more: what is collected is whole with what is in the pipes now.
    fn take_rest(&mut self) -> io::Result<()> {
        for output in self.outputs.iter_mut().filter(|output| output.to.is_none()) {
            if let Some(from) = &output.from {
                rustix::fs::fcntl_setfl(from, OFlags::NONBLOCK)?;
                let capture = &mut output.capture;
                while drain(from, &mut self.buffer, |bytes| capture.keep(bytes))? == Flow::Open
                    && !self.buffer.is_empty()
                {}
                output.from = None;
            }
        }
        Ok(())
    }

    fn attach_terminal(&mut self, master: OwnedFd) -> io::Result<()> {
        rustix::fs::fcntl_setfl(&master, OFlags::NONBLOCK)?;
        self.stdin = Some(master.try_clone()?);
        let [stdout, _] = &mut self.outputs;
        stdout.from = Some(master.try_clone()?);
        self.terminal = Some(Terminal::take(master));
        Ok(())
    }

    fn forward_signals(&mut self) -> io::Result<()> {
        let Some(signals) = &self.signals else { return Ok(()) };
        let mut record = [0; sys::SIGNAL_RECORD];
        while let Ok(sys::SIGNAL_RECORD) = rustix::io::read(signals, &mut record) {
            let number = record.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            if number == libc::SIGWINCH {
                if let Some(terminal) = &self.terminal {
                    terminal.copy_size();
                }
                continue;
            }
            match (&self.tool, Signal::from_named_raw(number)) {
                (Some(tool), Some(signal)) => {
                    let _ = pidfd_send_signal(tool, signal);
                }
                (None, Some(signal)) => self.early_signals.push(signal),
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn move_output(&mut self, index: usize) -> io::Result<()> {
        match self.outputs.get_mut(index) {
            Some(output) => output.advance(&mut self.buffer),
            None => Ok(()),
        }
    }

    /// Takes the input as it was sent, all of it.
    fn read_lifeline(&mut self) -> io::Result<()> {
        let Some(Ok(bytes)) = self.lifeline.map(helper::read_input) else {
            // Nobody is there to say what it is to do.
            self.stop(Limit::Abandoned);
            return Ok(());
        };
        self.input.push(&bytes);
        self.input.end(false);
        if self.deadline.is_none() {
            // It has waited, and its time begins with its work.
            let now = Instant::now();
            self.deadline = self.timeout.map(|timeout| now + timeout);
            self.started = self.started.map(|_| now);
        }
        // There is room for it most of the time, and somebody waits for it.
        self.write_tool_input()
    }

    fn read_own_input(&mut self) -> io::Result<()> {
        match read_anew(self.own_input, &mut self.buffer) {
            Ok(0) | Err(rustix::io::Errno::IO) => self.input.end(self.terminal.is_some()),
            Ok(_) => self.input.push(&self.buffer),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.close_input_if_done();
        Ok(())
    }

    fn write_tool_input(&mut self) -> io::Result<()> {
        let Some(stdin) = &self.stdin else { return Ok(()) };
        match rustix::io::write(stdin, self.input.waiting()) {
            Ok(count) => self.input.advance(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // The tool does not want any more of it.
            Err(_) => self.stdin = None,
        }
        self.close_input_if_done();
        Ok(())
    }

    /// The end of our input is the end of the tool's. On a terminal it was a key, and the terminal stays.
    fn close_input_if_done(&mut self) {
        if self.input.is_done() && self.terminal.is_none() {
            self.stdin = None;
        }
    }

    fn conclude(mut self) -> Result<Supervised, StartError> {
        self.terminal = None;
        let channel = |source: io::Error| StartError::Wall { step: crate::orders::Step::Channel, source };
        let (used, counted) = match &self.said {
            // Nobody is left but the init, which waits to be ended: that has time until after the report.
            Some(LastWord::Ended { used: Some(used), .. }) => (*used, Counted::All),
            // Who was not started has used nothing.
            _ if self.started.is_none() => (self.running.init.end().map_err(channel)?, Counted::All),
            _ => (self.running.init.end().map_err(channel)?, Counted::Part),
        };
        let finished = Instant::now();
        let outcome = match (self.stopped, self.said) {
            (_, Some(LastWord::Failed(error))) => return Err(error),
            // It had ended by itself; only its output, or the word of it, was still on its way.
            (Some(Limit::Timeout), Some(LastWord::Ended { status, .. }))
                if !(self.is_tool_killed && is_killed(status)) =>
            {
                outcome_of(status, self.running)
            }
            (Some(limit), _) => Outcome::Stopped(limit),
            (None, Some(LastWord::NotStarted(NotStarted::NotFound))) => Outcome::NotFound,
            (None, Some(LastWord::NotStarted(NotStarted::CannotExecute(error)))) => {
                Outcome::CannotExecute(error)
            }
            (None, Some(LastWord::Ended { status, .. })) => outcome_of(status, self.running),
            (None, None) if self.running.cgroup.ran_out_of_memory() => Outcome::Stopped(Limit::Memory),
            (None, None) if self.started.is_some() => Outcome::Signal(libc::SIGKILL),
            (None, None) => return Err(StartError::InitDied),
        };
        let none = || Enforcement::absent("the command was not started");
        let walls = self.started.map_or_else(none, |_| self.walls);
        let started = self.started.unwrap_or(finished);
        let [stdout, stderr] = self.outputs;
        Ok(Supervised {
            outcome,
            walls,
            stdout: stdout.capture,
            stderr: stderr.capture,
            timings: Timings { setup: started - self.begun, run: finished - started },
            used,
            counted,
        })
    }
}

/// Where memory or disk run out, everybody is ended at once, whatever is not counted then.
fn has_time_to_count(limit: Limit) -> bool {
    match limit {
        Limit::Timeout | Limit::Abandoned => true,
        Limit::Memory | Limit::Disk => false,
    }
}

fn is_killed(status: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL
}

fn outcome_of(status: i32, running: &Running) -> Outcome {
    match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
        (true, libc::SIGKILL) if running.cgroup.ran_out_of_memory() => Outcome::Stopped(Limit::Memory),
        (true, signal) => Outcome::Signal(signal),
        (false, _) => Outcome::Exit(libc::WEXITSTATUS(status)),
    }
}

fn has_something_to_read(lifeline: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(lifeline, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// The key that ends input on a terminal.
const END_OF_INPUT: u8 = 4;

/// Where a tool's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Our own standard input, or what stands for it.
    Own,
    /// Whoever holds the lifeline.
    Lifeline,
}

/// What is still to be given to the tool.
struct Input {
    waiting: Vec<u8>,
    at: usize,
    /// Where more comes from, if more comes.
    from: Option<From>,
    /// Whether the end has to be passed on by closing.
    closes: bool,
    in_line: bool,
}

impl Input {
    fn new(streams: &Streams) -> Input {
        let (waiting, from) = match streams {
            Streams::Collect { input: Feed::Bytes(bytes) } => (bytes.clone(), None),
            Streams::Collect { input: Feed::Lifeline } => (Vec::new(), Some(From::Lifeline)),
            Streams::Collect { input: Feed::Own } | Streams::Pass | Streams::Terminal | Streams::Lifeline => {
                (Vec::new(), Some(From::Own))
            }
        };
        Input { waiting, at: 0, from, closes: true, in_line: false }
    }

    fn comes_by_lifeline(&self) -> bool {
        self.from == Some(From::Lifeline)
    }

    /// One piece at a time: what the tool does not read is not read from us either.
    fn reads_own(&self) -> bool {
        self.from == Some(From::Own) && self.waiting().is_empty()
    }

    /// Something to write, or the end to pass on.
    fn has_something(&self) -> bool {
        !self.waiting().is_empty() || (self.from.is_none() && self.closes)
    }

    fn waiting(&self) -> &[u8] {
        self.waiting.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.in_line = bytes.last().is_some_and(|byte| *byte != b'\n');
        self.waiting = bytes.to_vec();
        self.at = 0;
    }

    fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// No more will come. On a terminal the end is typed: twice in the middle of a line, where once only sends it off.
    fn end(&mut self, on_terminal: bool) {
        self.from = None;
        if on_terminal {
            self.closes = false;
            let keys = if self.in_line { 2 } else { 1 };
            self.push([END_OF_INPUT; 2].get(..keys).unwrap_or_default());
        }
    }

    fn is_done(&self) -> bool {
        self.from.is_none() && self.waiting().is_empty()
    }
}

/// One output of the tool, and what waits to be passed on.
struct Output<'a> {
    from: Option<OwnedFd>,
    to: Option<BorrowedFd<'a>>,
    /// The same, opened again so that writing to it does not block. Made with the first byte.
    own: Option<Own<'a>>,
    capture: Capture,
    waiting: Vec<u8>,
}

impl<'a> Output<'a> {
    fn new(from: OwnedFd, to: Option<BorrowedFd<'a>>, cap: u64) -> Output<'a> {
        Output { from: Some(from), to, own: None, capture: Capture::new(cap), waiting: Vec::new() }
    }

    fn is_open(&self) -> bool {
        self.from.is_some() || !self.waiting.is_empty()
    }

    fn give_up(&mut self) {
        self.capture.lose(self.waiting.len());
        self.from = None;
        self.waiting = Vec::new();
    }

    /// Room on our side comes first: a reader that is slow slows the tool, not the clock.
    fn wants(&self) -> Option<PollFd<'_>> {
        match (&self.own, &self.from) {
            (Some(own), _) if !self.waiting.is_empty() => {
                Some(PollFd::from_borrowed_fd(own.fd(), PollFlags::OUT))
            }
            (_, Some(from)) => Some(PollFd::new(from, PollFlags::IN)),
            _ => None,
        }
    }

    fn advance(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.pass_on();
            return Ok(());
        }
        let Some(from) = &self.from else { return Ok(()) };
        let (capture, waiting, to) = (&mut self.capture, &mut self.waiting, self.to);
        let flow = drain(from, buffer, |bytes| match to {
            Some(_) => waiting.extend_from_slice(capture.take(bytes)),
            None => capture.keep(bytes),
        })?;
        if let (Some(to), false, None) = (to, waiting.is_empty(), &self.own) {
            self.own = Some(Own::open(to));
        }
        if flow == Flow::Ended {
            self.from = None;
        }
        Ok(())
    }

    fn pass_on(&mut self) {
        let Some(own) = &self.own else { return };
        match own.write(&self.waiting) {
            Ok(count) => {
                self.waiting.drain(..count);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // Nobody reads us any more: then nobody reads the tool, and it learns that the usual way.
            Err(rustix::io::Errno::PIPE) => {
                self.waiting = Vec::new();
                self.from = None;
            }
            Err(_) => self.give_up(),
        }
    }
}

/// One of our own streams, to be written without blocking.
enum Own<'a> {
    /// Opened again: the caller shares the first one, and its flags are not ours to change.
    Again(OwnedFd),
    /// Never blocks, or cannot be opened again.
    AsItIs(BorrowedFd<'a>),
}

impl<'a> Own<'a> {
    fn open(stream: BorrowedFd<'a>) -> Own<'a> {
        let kind = rustix::fs::fstat(stream).map(|status| FileType::from_raw_mode(status.st_mode));
        // A regular file opened again would begin at its start.
        if !matches!(kind, Ok(FileType::Fifo | FileType::CharacterDevice)) {
            return Own::AsItIs(stream);
        }
        let path = by_handle(stream);
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_or(Own::AsItIs(stream), Own::Again)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Own::Again(fd) => fd.as_fd(),
            Own::AsItIs(stream) => *stream,
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, rustix::io::Errno> {
        match self {
            Own::Again(fd) => rustix::io::write(fd, bytes),
            Own::AsItIs(stream) => {
                let piece = bytes.get(..bytes.len().min(PASSED_AT_ONCE)).unwrap_or_default();
                rustix::io::write(stream, piece)
            }
        }
    }
}

/// The caller's terminal in raw mode, and the sandbox's own behind it. Restored when dropped.
struct Terminal {
    master: OwnedFd,
    before: Option<Termios>,
}

impl Terminal {
    fn take(master: OwnedFd) -> Terminal {
        let own = rustix::stdio::stdin();
        let before = tcgetattr(own).ok();
        if let Some(mut raw) = before.clone() {
            raw.make_raw();
            let _ = tcsetattr(own, OptionalActions::Now, &raw);
        }
        let terminal = Terminal { master, before };
        // It may have changed since the orders were written.
        terminal.copy_size();
        terminal
    }

    fn copy_size(&self) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdin()) {
            let _ = tcsetwinsize(self.master.as_fd(), size);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = mem::take(&mut self.before) {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &before);
        }
    }
}
