//! The launcher: makes what only the caller has the authority for, and gives the orders.
//!
//! It works while the init builds stage one: id maps first, because the init waits for them; then cgroup, surveys and
//! mounts, of which the init knows nothing until the orders come.

mod in_place;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, pidfd_send_signal};
use rustix::thread::CpuSet;
use serde::Serialize;
use thiserror::Error;

use crate::beside::in_our_place;
use crate::cgroup::{Cgroup, Wanted};
use crate::changes;
use crate::control::{Control, Controls, Enforcement, Level};
use crate::directories::{Opened, detached_for_root, open_directories, order_for};
use crate::environment::HOME;
use crate::host_mounts::{HostMounts, Moment};
use crate::identity::{Caller, Identity};
use crate::limits::Limits;
use crate::mounts::copy_of;
use crate::nursery::{Born, Lent, Nursery, Root};
use crate::orders::{
    Manner, OrderedCommand, OrderedProgram, Orders, Rlimits, Said, Source, Step, receive, send,
};
use crate::plan::{Access, Directory, Plan, Program, Strictness};
use crate::report::Report;
use crate::seal;
use crate::stream::Streams;
use crate::supervise::{News, Told, supervise};
use crate::sys::{self, Used};
use crate::tree::End;
use crate::watch::confine_to_processors;
use crate::windows::Window;
use in_place::Place;
pub(crate) use in_place::Where;

/// How long the directories of a plan are searched at most. It counts as the tool's own time, which may be shorter.
const SEARCH: Duration = Duration::from_secs(10);

/// Why a plan could not be carried out. Nothing was executed.
#[derive(Debug, Error)]
pub enum StartError {
    /// A fork of a threaded process is not safe; use [`crate::Helper`].
    #[error("a sandbox cannot be started from a process with several threads")]
    Threads,
    /// A directory of the plan cannot be opened.
    #[error("cannot open the directory `{}`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory of the plan is, or is reached through, a symbolic link.
    #[error("`{}` is or leads through a symbolic link", path.display())]
    Link {
        /// The directory.
        path: PathBuf,
    },
    /// Directories in it kept moving while it was searched for secrets.
    #[error("`{}` keeps changing while it is searched", path.display())]
    Unstable {
        /// The directory.
        path: PathBuf,
    },
    /// It is too large to be searched before its time is over.
    #[error("`{}` could not be searched in time", path.display())]
    Late {
        /// The directory.
        path: PathBuf,
    },
    /// Links in it give so many directories other names that what those mean cannot be followed.
    #[error("`{}` has too many links that give directories another name", path.display())]
    Links {
        /// The directory.
        path: PathBuf,
    },
    /// It shows the kernel, not files.
    #[error("`{}` is in a filesystem of the kernel (`{kind}`)", path.display())]
    Window {
        /// The directory.
        path: PathBuf,
        /// The kind of filesystem.
        kind: &'static str,
    },
    /// The program to be brought in cannot be opened.
    #[error("cannot open the program `{}`", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content that came with the plan is not what the plan says.
    #[error("the content of the sealed files is not what the plan says")]
    Sealed(#[source] io::Error),
    /// Files could not be made to belong to the caller.
    #[error("the filesystem of `{}` cannot translate owners (id-mapped mounts), and root does not run tools as root", path.display())]
    Owners {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The host can only watch some limits, and the plan asks for more.
    #[error("the host does not fully enforce: {missing}")]
    Partly {
        /// Which.
        missing: Controls,
    },
    /// A wall could not be raised.
    #[error("cannot {step}")]
    Wall {
        /// Which one.
        step: Step,
        /// What the kernel said.
        source: io::Error,
    },
    /// The init ended without a word.
    #[error("the sandbox's init ended before the command was started")]
    InitDied,
}

/// A sandbox after stage one, waiting for a plan. It is good for one run, and ends when dropped.
pub struct Prepared {
    nursery: Nursery,
    init: Init,
    identity: Identity,
    without: Controls,
    root: Root,
    socket: OwnedFd,
    pipes: Pipes,
    waited: Waited,
    /// The place that it stands in already, with every wall around it.
    place: Option<Place>,
    /// After the init and its mounts: nobody is in it, and nothing is kept in its memory.
    cgroup: Cgroup,
    /// After the init: nobody of it is alive when its network is given back.
    network: Option<Lent>,
}

/// What was made and heard while there was no plan yet.
#[derive(Default)]
struct Waited {
    namespaces: Vec<OwnedFd>,
    /// Whether it saw the mounts of one moment while it was built.
    is_of_one_moment: bool,
    /// When it was begun, if the host's mounts are looked after.
    since: Option<(Arc<HostMounts>, Moment)>,
}

impl Waited {
    /// The host's windows, if they are known and the same.
    fn windows(&self) -> Option<Arc<[Window]>> {
        let (mounts, begun) = self.since.as_ref()?;
        mounts.windows(*begun)
    }
}

/// The launcher's ends of the tool's standard streams.
pub(crate) struct Pipes {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Prepared {
    /// Begins a sandbox before its plan is known: the kernel makes namespaces while the caller makes up its mind.
    pub fn new() -> Result<Prepared, StartError> {
        Prepared::without(Nursery::here(), Controls::NONE, Manner::AtOnce)
    }

    /// The same ahead of time: returns when there is something to be read from `channel`, or its end. `ready` is told when
    /// that may come. Whatever is wrong with what was built ahead, another is made then, as if nobody had waited.
    ///
    /// If a plan is expected, it waits in the place of that, if the place allows it.
    pub(crate) fn after_waiting(
        nursery: Nursery,
        mounts: &Arc<HostMounts>,
        expected: Option<Plan>,
        channel: BorrowedFd<'_>,
        ready: impl Fn(Where),
    ) -> Result<Prepared, StartError> {
        // Before anything is built: what is built sees the mounts of this moment.
        let begun = mounts.now();
        let waited = Prepared::without(nursery.clone(), Controls::NONE, Manner::Waiting)
            .and_then(|built| built.wait((mounts, begun), expected, channel, &ready));
        if let Ok(mut prepared) = waited
            && prepared.waited.is_of_one_moment
            && mounts.now().is_same_list(begun)
            && !(prepared.root == Root::Shared && nursery.is_blind())
        {
            prepared.waited.since = Some((mounts.clone(), begun));
            return Ok(prepared);
        }
        if nursery.is_gone() {
            // Nothing is promised that nobody could keep: whoever asks goes elsewhere.
            return Err(StartError::InitDied);
        }
        ready(Where::Anywhere);
        poll_again(&mut [PollFd::from_borrowed_fd(channel, PollFlags::IN)])?;
        Prepared::without(nursery, Controls::NONE, Manner::AtOnce)
    }

    fn without(nursery: Nursery, without: Controls, manner: Manner) -> Result<Prepared, StartError> {
        let identity = Identity::choose(without.contains(Control::Identity));
        let is_birthplace = Cgroup::is_birthplace();
        let mut cgroup = if is_birthplace { nursery.cgroup() } else { Cgroup::none() };
        let born = nursery.bear(identity, without, cgroup.birthplace())?;
        if is_birthplace && !born.is_in_cgroup {
            cgroup = Cgroup::none();
        }
        if !is_birthplace {
            cgroup = nursery.cgroup();
        }
        let door: Vec<BorrowedFd<'_>> = cgroup.door().into_iter().map(AsFd::as_fd).collect();
        tell(&born.socket, &manner, &door)?;
        let Born { init, socket, pipes, network, root, .. } = born;
        let waited = Waited::default();
        let place = None;
        Ok(Prepared { nursery, init, identity, without, root, cgroup, socket, pipes, waited, place, network })
    }

    fn wait(
        mut self,
        (mounts, begun): (&HostMounts, Moment),
        mut expected: Option<Plan>,
        channel: BorrowedFd<'_>,
        ready: impl Fn(Where),
    ) -> Result<Prepared, StartError> {
        loop {
            let mut watched =
                [PollFd::from_borrowed_fd(channel, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
            poll_again(&mut watched)?;
            let [asked, said] = watched.map(|watched| watched.revents());
            if !said.is_empty() {
                match receive::<Said>(&self.socket) {
                    Ok((Said::Ready, namespaces)) => {
                        self.waited.namespaces = namespaces;
                        self.foresee(mounts, begun);
                        if let Some(plan) = expected.take()
                            && let Some(windows) = mounts.windows(begun)
                            && self.take_place(plan, &windows)?
                        {
                            // It says when it is there.
                            continue;
                        }
                        self.waited.is_of_one_moment = mounts.now() == begun;
                        ready(Where::Anywhere);
                    }
                    Ok((Said::InPlace, _)) => {
                        self.waited.is_of_one_moment = mounts.now() == begun;
                        ready(Where::InPlace);
                    }
                    Ok((Said::Failed { step, error }, _)) => {
                        return Err(StartError::Wall { step, source: io::Error::from_raw_os_error(error) });
                    }
                    Ok(_) | Err(_) => return Err(StartError::InitDied),
                }
            } else if !asked.is_empty() {
                return Ok(self);
            }
        }
    }

    /// Makes what the next plan is likely to need: root's own directories are the usual ones.
    fn foresee(&mut self, mounts: &HostMounts, begun: Moment) {
        let _ = mounts.windows(begun);
        self.cgroup.foresee(&Limits::default());
        if self.identity.caller == Caller::Root && !self.identity.is_host_root() {
            let _ = self.nursery.translation(&self.identity, (0, 0));
        }
    }

    /// Runs one plan in it and waits for the end. `lifeline`, if given, ends the sandbox when its other side hangs up.
    pub fn run(
        self,
        plan: &Plan,
        streams: Streams,
        lifeline: Option<BorrowedFd<'_>>,
    ) -> Result<Report, StartError> {
        self.run_sealed(plan, &[], streams, lifeline)
    }

    /// The same for a plan that seals files, with their content, one after the other.
    pub fn run_sealed(
        self,
        plan: &Plan,
        sealed: &[u8],
        streams: Streams,
        lifeline: Option<BorrowedFd<'_>>,
    ) -> Result<Report, StartError> {
        self.run_telling(plan, sealed, streams, lifeline, &mut |_| {})
    }

    /// The same; `told` hears how it goes, and must not block. Threads may be started from then on: nothing is forked any
    /// more.
    pub fn run_telling(
        self,
        plan: &Plan,
        sealed: &[u8],
        streams: Streams,
        lifeline: Option<BorrowedFd<'_>>,
        told: &mut dyn FnMut(News<'_>),
    ) -> Result<Report, StartError> {
        self.run_to_end(plan, sealed, streams, lifeline, told).map(|(report, _)| report)
    }

    /// The same; what is left of the sandbox is taken down when the caller drops it. No process of it is alive by then but
    /// its init, on the way out.
    pub(crate) fn run_to_end(
        self,
        plan: &Plan,
        sealed: &[u8],
        streams: Streams,
        lifeline: Option<BorrowedFd<'_>>,
        told: Told<'_>,
    ) -> Result<(Report, Running), StartError> {
        let begun = Instant::now();
        let (running, pipes) = self.fit(plan, &streams, begun)?.order(plan, sealed, &streams, begun)?;
        let supervised = supervise(&running, pipes, plan, streams, lifeline, begun, told)?;
        let aftermath = changes::after(plan, &running.opened);
        Ok((supervised.into_report(&running, aftermath), running))
    }

    /// Another one, if a plan leaves out walls, or has directories for which there is no place here; or if this one stands
    /// elsewhere.
    fn fit(mut self, plan: &Plan, streams: &Streams, begun: Instant) -> Result<Prepared, StartError> {
        let fits = match self.place {
            Some(_) => self.is_in_place_for(plan, streams, begun),
            None => self.has_places_for(plan),
        };
        if fits {
            return Ok(self);
        }
        let nursery = self.nursery.for_own_settings();
        drop(self);
        Prepared::without(nursery, plan.without(), Manner::AtOnce)
    }

    fn has_places_for(&self, plan: &Plan) -> bool {
        let is_setting = |directory: &Directory| directory.path.starts_with("/etc");
        let has_places = self.root == Root::Own || !plan.draft().directories.iter().any(is_setting);
        has_places && self.without == plan.without()
    }

    /// Runs one plan for whoever is at the other end of `lifeline`, until they hang up.
    ///
    /// Nothing is looked through afterwards: it may have lived for long, and what is new in its directories is as likely
    /// somebody else's. What is kept guards names itself.
    pub(crate) fn run_kept(
        self,
        plan: &Plan,
        lifeline: BorrowedFd<'_>,
        told: Told<'_>,
    ) -> Result<(), StartError> {
        let begun = Instant::now();
        let streams = Streams::Lifeline;
        let (running, pipes) = self.fit(plan, &streams, begun)?.order(plan, &[], &streams, begun)?;
        supervise(&running, pipes, plan, streams, Some(lifeline), begun, told).map(drop)
    }

    fn order(
        mut self,
        plan: &Plan,
        sealed: &[u8],
        streams: &Streams,
        begun: Instant,
    ) -> Result<(Running, Pipes), StartError> {
        if let Some(place) = self.place.take() {
            refuse_partly(plan, &place.held)?;
            let (command, _) = ordered_command(plan, self.identity.caller, (&self.nursery, self.root))?;
            self.confine(plan);
            // Wherever the kernel puts it: behind its walls it could not take its processors back before it starts somebody.
            tell(&self.socket, &command, &[])?;
            return Ok(self.into_running(place.held, place.opened));
        }
        let limits = &plan.draft().limits;
        let until = plan.keeps(Control::Timeout).then(|| begun + limits.timeout.min(SEARCH));
        let opened = open_directories(plan, self.waited.windows(), until)?;
        let terminal = matches!(streams, Streams::Terminal).then(own_terminal_size);
        let (mut orders, mut mounts) =
            give_orders(plan, &self.identity, &opened, terminal, (&self.nursery, self.root))?;
        orders.holds_outputs = matches!(streams, Streams::Collect { .. });
        mounts.extend(content_of(plan, sealed)?);
        let wanted = wanted_of(plan);
        self.cgroup.limit(limits, wanted);
        let door = self.cgroup.second_door();
        orders.enters_cgroup = door.is_some();
        // One that has not waited is at work elsewhere; and where nothing else holds it, it is told by its place how much it has.
        orders.takes_our_place = self.waited.since.is_some() && !wanted.cpu;
        let descriptors: Vec<BorrowedFd<'_>> = door.into_iter().chain(&mounts).map(AsFd::as_fd).collect();
        let held = held_by_launcher(plan, &self.identity, &self.cgroup, &opened);
        refuse_partly(plan, &held)?;
        // INVARIANT(limits-first): the init gets its orders, and can start anything, only after every limit is written.
        self.confine(plan);
        match orders.takes_our_place {
            true => in_our_place(self.init.pid, || tell(&self.socket, &orders, &descriptors)),
            false => tell(&self.socket, &orders, &descriptors),
        }?;
        Ok(self.into_running(held, opened))
    }

    /// Holds the processor by the number of processors, where no cgroup does. Whoever the init starts has what it has then.
    fn confine(&self, plan: &Plan) {
        if plan.keeps(Control::Cpu) && self.cgroup.holds_cpu().is_none() {
            confine_to_processors(self.init.pid, plan.draft().limits.cpu_millis);
        }
    }

    fn into_running(self, held: Enforcement, opened: Vec<Opened>) -> (Running, Pipes) {
        let running = Running {
            init: self.init,
            socket: self.socket,
            cgroup: self.cgroup,
            held,
            opened,
            _namespaces: self.waited.namespaces,
            _network: self.network,
        };
        (running, self.pipes)
    }
}

/// Runs one plan in a fresh sandbox and waits for the end. See [`Prepared`].
pub fn run(plan: &Plan, streams: Streams, lifeline: Option<BorrowedFd<'_>>) -> Result<Report, StartError> {
    Prepared::without(Nursery::here(), plan.without(), Manner::AtOnce)?.run(plan, streams, lifeline)
}

/// The same for a plan that seals files, with their content, one after the other.
pub fn run_sealed(
    plan: &Plan,
    sealed: &[u8],
    streams: Streams,
    lifeline: Option<BorrowedFd<'_>>,
) -> Result<Report, StartError> {
    run_telling(plan, sealed, streams, lifeline, &mut |_| {})
}

/// The same; `told` hears how it goes. See [`Prepared::run_telling`].
pub fn run_telling(
    plan: &Plan,
    sealed: &[u8],
    streams: Streams,
    lifeline: Option<BorrowedFd<'_>>,
    told: &mut dyn FnMut(News<'_>),
) -> Result<Report, StartError> {
    let prepared = Prepared::without(Nursery::here(), plan.without(), Manner::AtOnce)?;
    prepared.run_telling(plan, sealed, streams, lifeline, told)
}

/// The content of the files that a plan seals, as the init gets it.
fn content_of(plan: &Plan, sealed: &[u8]) -> Result<Option<OwnedFd>, StartError> {
    if seal::total(plan.sealed()) != sealed.len() as u64 {
        return Err(StartError::Sealed(io::ErrorKind::InvalidData.into()));
    }
    let is_needed = !plan.sealed().is_empty();
    is_needed.then(|| seal::in_memory(sealed)).transpose().map_err(StartError::Sealed)
}

/// A sandbox whose init has its orders.
pub(crate) struct Running {
    /// First: it is over before its cgroup is removed or used again.
    pub(crate) init: Init,
    pub(crate) socket: OwnedFd,
    /// What the launcher itself holds; the init adds the walls.
    pub(crate) held: Enforcement,
    pub(crate) opened: Vec<Opened>,
    /// Held so that they are taken down after the report, and not before it.
    _namespaces: Vec<OwnedFd>,
    /// After those: what was in scratch space is not charged to it any more.
    pub(crate) cgroup: Cgroup,
    /// After the init: nobody of it is alive when its network is given back.
    _network: Option<Lent>,
}

/// Waits for one of these, however often it is interrupted.
fn poll_again(watched: &mut [PollFd<'_>]) -> Result<(), StartError> {
    loop {
        match poll(watched, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(StartError::Wall { step: Step::Channel, source: error.into() }),
            Ok(_) => return Ok(()),
        }
    }
}

fn tell(
    socket: &OwnedFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), StartError> {
    match send(socket, message, descriptors) {
        // The init has failed already; what it said is on the socket.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| StartError::Wall { step: Step::Channel, source }),
    }
}

/// The sandbox's process 1, as its launcher sees it. All of the sandbox ends when this is dropped.
pub(crate) struct Init {
    pub(crate) pid: Pid,
    pidfd: OwnedFd,
    is_over: Cell<bool>,
}

impl Init {
    pub(crate) fn new(pid: Pid, pidfd: OwnedFd) -> Init {
        Init { pid, pidfd, is_over: Cell::new(false) }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Somebody else ends it and waits for it.
    pub(crate) fn let_go(&self) {
        self.is_over.set(true);
    }

    /// Ends every process of the sandbox: the kernel takes them all when process 1 dies.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Ends it, and waits until nothing of it is left. Waiting has no deadline, so it does not depend on its word.
    pub(crate) fn end(&self) -> io::Result<Used> {
        self.kill();
        // Once: the number may be another's afterwards.
        self.is_over.set(true);
        sys::wait_for(Some(self.pid)).map(|(_, ended)| ended.used)
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if !self.is_over.get() {
            let _ = self.end();
        }
    }
}

fn give_orders(
    plan: &Plan,
    identity: &Identity,
    opened: &[Opened],
    terminal: Option<(u16, u16)>,
    (nursery, root): (&Nursery, Root),
) -> Result<(Orders, Vec<OwnedFd>), StartError> {
    let draft = plan.draft();
    let mut mounts = Vec::new();
    let mut directories = Vec::new();
    for directory in opened {
        let source = match (identity.caller, root) {
            (Caller::User, Root::Own) => Source::Copy(directory.path.clone()),
            (Caller::User, Root::Shared) => {
                let path = &directory.path;
                let failed = |source| StartError::Directory { path: path.clone(), source };
                mounts.push(nursery.show(path).map_err(failed)?);
                Source::Sent
            }
            (Caller::Root, _) => {
                mounts.push(detached_for_root(directory, identity, nursery)?);
                Source::Sent
            }
        };
        directories.push(order_for(plan, directory, opened, source)?);
    }
    let (command, mount) = ordered_command(plan, identity.caller, (nursery, root))?;
    mounts.extend(mount);
    let limits = &draft.limits;
    let disk = plan.keeps(Control::Disk);
    let orders = Orders {
        command: Some(command),
        working_directory: draft.working_directory.clone(),
        directories,
        sealed: plan.sealed().to_vec(),
        network: draft.network.clone(),
        rlimits: Rlimits {
            // The init counts as one.
            pids: plan.keeps(Control::Pids).then(|| u64::from(limits.pids) + 1),
            file_bytes: disk.then_some(limits.disk),
            open_files: u64::from(limits.open_files),
        },
        enters_cgroup: false,
        takes_our_place: false,
        holds_outputs: false,
        scratch_bytes: if disk { limits.disk } else { 1 << 40 },
        terminal,
        without: plan.without(),
    };
    Ok((orders, mounts))
}

/// What is to be executed, and the mount with it if that is sent.
fn ordered_command(
    plan: &Plan,
    caller: Caller,
    (nursery, root): (&Nursery, Root),
) -> Result<(OrderedCommand, Option<OwnedFd>), StartError> {
    let draft = plan.draft();
    let (program, mount) = match &draft.program {
        Program::Inside(name) => (OrderedProgram::Inside(name.clone()), None),
        Program::WhenTold(name) => (OrderedProgram::WhenTold(name.clone()), None),
        Program::Own => (OrderedProgram::Own, None),
        Program::Brought(path) => {
            let failed = |source: io::Error| StartError::Program { path: path.clone(), source };
            let status = rustix::fs::stat(path).map_err(|error| failed(error.into()))?;
            if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
                return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
            }
            let sent = |mount| (OrderedProgram::Brought(Source::Sent), Some(mount));
            match (caller, root) {
                (Caller::User, Root::Own) => (OrderedProgram::Brought(Source::Copy(path.clone())), None),
                (Caller::User, Root::Shared) => sent(nursery.show(path).map_err(failed)?),
                (Caller::Root, _) => sent(copy_of(CWD, path).map_err(|error| failed(error.into()))?),
            }
        }
    };
    let command = OrderedCommand {
        program,
        arguments: draft.arguments.clone(),
        environment: draft.environment.clone(),
        home: plan.home().to_vec(),
    };
    Ok((command, mount))
}

/// The size of the caller's terminal; a caller without one gets the usual.
fn own_terminal_size() -> (u16, u16) {
    rustix::termios::tcgetwinsize(rustix::stdio::stdin()).map_or((24, 80), |size| (size.ws_row, size.ws_col))
}

/// What the launcher holds by itself, by cgroup, by limits or by watching.
fn held_by_launcher(plan: &Plan, identity: &Identity, cgroup: &Cgroup, opened: &[Opened]) -> Enforcement {
    let mut held = Enforcement::default();
    let mut say = |control: Control, level: Level, how: String| {
        if plan.keeps(control) {
            held.set(control, level, how);
        }
    };
    say(Control::Identity, Level::Enforced, identity.describe());
    match cgroup.holds_memory() {
        Some(by) => say(Control::Memory, Level::Enforced, by.to_owned()),
        None => say(Control::Memory, Level::Partly, "watched every 50 ms: no cgroup is delegated".to_owned()),
    }
    match cgroup.holds_cpu() {
        Some(by) => say(Control::Cpu, Level::Enforced, by.to_owned()),
        None if has_no_more_processors_than(plan.draft().limits.cpu_millis) => {
            say(
                Control::Cpu,
                Level::Enforced,
                "the machine has no more processors than the limit".to_owned(),
            );
        }
        None => {
            say(Control::Cpu, Level::Partly, "processor affinity only: no cgroup is delegated".to_owned())
        }
    }
    say(Control::Pids, Level::Enforced, "RLIMIT_NPROC of its own user namespace".to_owned());
    if opened.iter().any(|directory| directory.access == Access::Write) {
        let how =
            "scratch and single files by the kernel; the sum in granted directories watched every 50 ms";
        say(Control::Disk, Level::Partly, how.to_owned());
    } else {
        say(Control::Disk, Level::Enforced, "size of the scratch filesystem".to_owned());
    }
    say(Control::CoreDumps, Level::Enforced, "core limit of 1 that cannot be changed".to_owned());
    say(Control::Output, Level::Enforced, "counted and drained by the launcher".to_owned());
    say(Control::Timeout, Level::Enforced, "the launcher kills the whole pid namespace".to_owned());
    if shows_beneath_writable(opened) {
        let how = "a read-only directory lies beneath a writable one, where mounts hold alone";
        say(Control::LandlockFiles, Level::Partly, how.to_owned());
    }
    if opened.iter().any(|directory| directory.survey.end != End::Whole) {
        let how = "not all of a granted directory could be searched, and what was not is not guarded";
        for control in [Control::HiddenNames, Control::ProtectedNames, Control::HostSockets] {
            say(control, Level::Partly, how.to_owned());
        }
    }
    held
}

/// Landlock rules reach all the way down: what is granted for a directory is granted for what is mounted beneath it.
fn shows_beneath_writable(opened: &[Opened]) -> bool {
    let granted =
        opened.iter().filter(|directory| directory.access == Access::Write).map(|d| d.path.as_path());
    let writable: Vec<&Path> = granted.chain([Path::new("/tmp"), Path::new(HOME)]).collect();
    let mut shown = opened.iter().filter(|directory| directory.access == Access::Read);
    shown.any(|directory| writable.iter().any(|path| directory.path.starts_with(path)))
}

/// Strict plans refuse totals that are only watched.
fn refuse_partly(plan: &Plan, held: &Enforcement) -> Result<(), StartError> {
    if plan.draft().strictness == Strictness::Report {
        return Ok(());
    }
    let second_wall = |control: Control| control == Control::LandlockFiles;
    let short = held.findings().iter().filter(|f| f.level != Level::Enforced && !second_wall(f.control));
    let partly = short.map(|finding| finding.control);
    let missing = partly.fold(Controls::NONE, Controls::with);
    if missing.is_empty() { Ok(()) } else { Err(StartError::Partly { missing }) }
}

/// What cgroups are to hold of a plan.
fn wanted_of(plan: &Plan) -> Wanted {
    let needs_cpu = !has_no_more_processors_than(plan.draft().limits.cpu_millis);
    Wanted { memory: plan.keeps(Control::Memory), cpu: needs_cpu && plan.keeps(Control::Cpu) }
}

pub(crate) fn has_no_more_processors_than(cpu_millis: u32) -> bool {
    processors() * 1000 <= cpu_millis
}

/// Processors this process may use: those of its first thread. A keeper's others are kept off one for a moment now and then;
/// see [`crate::beside`].
pub(crate) fn allowed_processors() -> Result<CpuSet, Errno> {
    rustix::thread::sched_getaffinity(Some(getpid()))
}

/// How many those are.
pub(crate) fn processors() -> u32 {
    allowed_processors().map_or(1, |set| set.count())
}
