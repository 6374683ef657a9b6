//! The sandbox's process 1: builds it from inside, starts the tool, reaps, and reports.
//!
//! It runs in a copy of the launcher's memory, so it blanks its variables and words there, cannot be traced or read, and ends
//! up behind the same walls as the tool.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::hint::black_box;
use std::io;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, Mode, OFlags, access, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, setsid};
use rustix::termios::Winsize;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::control::{Control, Controls, Enforcement, Level};
use crate::doors::Doors;
use crate::environment::HOME;
use crate::identity::Identity;
use crate::landlock::landlock_version;
use crate::orders::{
    Manner, NotStarted, OrderedCommand, OrderedProgram, Orders, Rlimits, Said, Step, receive, send,
    wait_for_word,
};
use crate::own;
use crate::plan::{self, HomeFile};
use crate::readied;
use crate::rooms;
use crate::stage_one::{self, Failure, HalfBuilt};
use crate::stage_two::{self, BROUGHT};
use crate::sys::{self, Beside, Executable, Haste, Unexecuted, Used};

/// How long those whom a tool leaves behind may take to end. They are killed, but the kernel may be busy with one of them.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// What the init gets from the launcher by being its copy.
pub(crate) struct Inherited {
    /// To and from the launcher.
    pub(crate) socket: OwnedFd,
    /// The tool's standard streams.
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) identity: Identity,
    pub(crate) without: Controls,
    pub(crate) network: Network,
}

/// Whose the network is that an init is born in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The launcher's: it makes one of its own.
    Own,
    /// One for sandboxes alone, over which it has no power.
    Lent,
}

/// Runs as process 1 until the tool ends. Never returns to the launcher's code.
pub(crate) fn live(inherited: Inherited) -> ! {
    let socket = &inherited.socket;
    let code = match build_and_start(socket, &inherited) {
        Ok(Started::Tool { pid, beside, holds_outputs }) => {
            sys::close_standard_streams(if holds_outputs { sys::Closed::Input } else { sys::Closed::All });
            reap_until(pid, beside.as_ref(), socket, inherited.without)
        }
        Ok(Started::Nothing(why)) => report(socket, &Said::NotStarted(why)),
        Ok(Started::Abandoned) => 1,
        Err(Failure { step, error }) => report(socket, &Said::Failed { step, error }),
    };
    sys::exit_now(code)
}

enum Started {
    Tool {
        pid: Pid,
        /// If it may turn out that it could not be executed.
        beside: Option<Beside>,
        holds_outputs: bool,
    },
    Nothing(NotStarted),
    /// The launcher is gone.
    Abandoned,
}

/// Goes through what an init does with its orders, as far as that leaves nothing behind: its code is at hand then.
pub(crate) fn rehearse() {
    let Ok((ours, theirs)) = UnixStream::pair() else { return };
    if send(&ours, &usual_orders(), &[]).is_ok()
        && let Ok((orders, _)) = receive::<Orders>(&theirs)
        && let Some(command) = &orders.command
        && let OrderedProgram::Inside(name) = &command.program
    {
        drop(found(name, command, orders.without));
    }
    let mut enforcement = Enforcement::absent("left out");
    enforcement.set(
        Control::LandlockFiles,
        Level::Absent,
        format!("ABI {}", landlock_version().unwrap_or(0)),
    );
    let _ = send(&ours, &Said::Started(enforcement), &[]);
    stage_two::fail_beyond_limits();
    sys::default_signal(libc::SIGXFSZ);
}

/// Has the kernel give this process the memory that its orders will take, before anybody waits for it: what it shares with what
/// it is a copy of is copied when it is first written to.
fn foresee_orders() {
    sys::touch_memory();
    let orders = postcard::to_stdvec(&usual_orders()).unwrap_or_default();
    drop(black_box(postcard::from_bytes::<Orders>(&orders)));
    drop(black_box(Enforcement::absent("left out")));
}

fn usual_orders() -> Orders {
    let text = |text: &str| OsString::from(text);
    Orders {
        command: Some(OrderedCommand {
            program: OrderedProgram::Inside(text("true")),
            arguments: vec![text("-")],
            environment: vec![(text("PATH"), text("/usr/bin")), (text("HOME"), text(HOME))],
            home: Vec::new(),
        }),
        working_directory: PathBuf::from("/"),
        directories: Vec::new(),
        sealed: Vec::new(),
        network: plan::Network::Closed,
        rlimits: Rlimits { pids: Some(1), file_bytes: Some(1), open_files: 1 },
        enters_cgroup: false,
        takes_our_place: false,
        holds_outputs: true,
        scratch_bytes: 1,
        terminal: None,
        without: Controls::NONE,
    }
}

/// The tool's streams become 0, 1 and 2; everything else but the socket is closed.
fn take_descriptors(inherited: &Inherited) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&inherited.stdin)?;
    rustix::stdio::dup2_stdout(&inherited.stdout)?;
    rustix::stdio::dup2_stderr(&inherited.stderr)?;
    if inherited.without.contains(Control::Descriptors) {
        return Ok(());
    }
    sys::close_all_but(&inherited.socket)
}

fn build_and_start(socket: &OwnedFd, inherited: &Inherited) -> Result<Started, Failure> {
    let (identity, without) = (&inherited.identity, inherited.without);
    take_descriptors(inherited).map_err(Failure::at(Step::Channel))?;
    if !without.contains(Control::Environment) {
        sys::blank_environment();
        // ATTACK(launcher-arguments): they name files, purposes and stores that are not the tool's to know.
        sys::blank_arguments(std::env::args_os());
    }
    stage_one::bind_life_to_parent()?;
    if !without.contains(Control::Session) {
        setsid().map_err(Failure::at(Step::Terminal))?;
    }
    stage_one::enter_namespaces(without, inherited.network)?;
    // The maps are written, and the cgroup is there.
    let Ok((manner, doors)) = receive::<Manner>(socket) else { return Ok(Started::Abandoned) };
    for door in doors {
        enter_cgroup(&door)?;
    }
    stage_one::see_own_cgroup_only(without)?;
    stage_one::take_identity(identity)?;
    // The launcher may have died while no death signal was set; its orders may be here all the same.
    if is_hung_up(socket) {
        return Ok(Started::Abandoned);
    }
    let keeps_root = without.contains(Control::Filesystem);
    let readied = readied::readied();
    let mut built = if keeps_root { None } else { Some(stage_one::build_root(identity, without, readied)?) };
    stage_one::raise_first_walls(without, readied)?;
    let mut processors = None;
    if manner == Manner::Waiting {
        processors = sched_getaffinity(None).ok();
        foresee_orders();
        say_ready(socket, inherited.network).map_err(Failure::at(Step::Channel))?;
    }
    wait_for_word(socket).map_err(Failure::at(Step::Channel))?;
    let Ok((mut orders, sent)) = receive::<Orders>(socket) else { return Ok(Started::Abandoned) };
    if orders.command.is_some() {
        sys::go_on_with(Haste::Usual);
    }
    if let (Some(processors), true) = (&processors, orders.takes_our_place) {
        // Nobody whom it starts is to be kept where it was for that moment.
        let _ = sched_setaffinity(None, processors);
    }
    let mut sent = sent.into_iter();
    if orders.enters_cgroup {
        let door = sent.next().ok_or(Failure { step: Step::Cgroup, error: libc::EBADF })?;
        enter_cgroup(&door)?;
    }
    let rooms = built.as_mut().map(|built| rooms::make(built, &orders)).transpose()?.unwrap_or_default();
    let doors = guard_network(&orders, inherited.network, built.as_ref())?;
    let landlock = match built {
        Some(built) => {
            stage_two::enter(&built, &orders, rooms, sent)?;
            built.landlock
        }
        None => None,
    };
    let terminal = orders.terminal.map(open_terminal).transpose().map_err(Failure::at(Step::Terminal))?;
    if let Some(doors) = doors {
        // Not ours any more: whoever holds them decides how long they are open.
        send(socket, &Said::Guarded, &doors.descriptors()).map_err(Failure::at(Step::Channel))?;
    }
    let enforcement = stage_two::raise_walls(&orders, landlock)?;
    let command = match orders.command.take() {
        Some(command) => command,
        None => match wait_for_command(socket).map_err(Failure::at(Step::Channel))? {
            Some(command) => command,
            None => return Ok(Started::Abandoned),
        },
    };
    start(socket, &orders, &command, enforcement, terminal)
}

/// Waits behind every wall. Nothing if the launcher is gone, or has no use for this place.
fn wait_for_command(socket: &OwnedFd) -> io::Result<Option<OrderedCommand>> {
    send(socket, &Said::InPlace, &[])?;
    wait_for_word(socket)?;
    let command = receive::<OrderedCommand>(socket).ok().map(|(command, _)| command);
    sys::go_on_with(Haste::Usual);
    Ok(command)
}

/// The ways out of the sandbox's network, if the plan has any.
fn guard_network(
    orders: &Orders,
    network: Network,
    built: Option<&HalfBuilt>,
) -> Result<Option<Doors>, Failure> {
    let plan::Network::Guarded(guarded) = &orders.network else { return Ok(None) };
    if !orders.keeps(Control::Network) {
        // It would be the host's network that everything is led away from.
        return Err(Failure { step: Step::Network, error: libc::EPERM });
    }
    if network == Network::Lent {
        // What guards it is made in it, which takes power over it.
        stage_one::make_network()?;
    }
    let root = built.map(|built| &built.root);
    Doors::make(guarded, root).map(Some).map_err(Failure::at(Step::Network))
}

/// Says that stage one is built, and hands over the mount and network namespaces: held by the launcher, they are taken down
/// after the report.
fn say_ready(socket: &OwnedFd, network: Network) -> io::Result<()> {
    let open = |path| openat(rustix::fs::CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    // To find it in `/proc` makes the kernel put together a good part of that.
    let mounts = pidfd_open(getpid(), PidfdFlags::empty())
        .map_err(io::Error::from)
        .and_then(sys::mount_namespace_of)
        .or_else(|_| open("/proc/self/ns/mnt"));
    let own = (network == Network::Own).then(|| open("/proc/self/ns/net"));
    // Where they cannot be opened, taking them down is waited for.
    let namespaces: Vec<OwnedFd> = mounts.into_iter().chain(own.into_iter().flatten()).collect();
    send(socket, &Said::Ready, &namespaces.iter().map(AsFd::as_fd).collect::<Vec<_>>())
}

fn start(
    socket: &OwnedFd,
    orders: &Orders,
    command: &OrderedCommand,
    enforcement: Enforcement,
    terminal: Option<OwnedFd>,
) -> Result<Started, Failure> {
    // Every wall stands around this process by now.
    fill_home(&command.home).map_err(Failure::at(Step::Scratch))?;
    let mut beside = None;
    let found = |name: &OsStr| found(name, command, orders.without);
    let started = match &command.program {
        OrderedProgram::Own => own::begin(command),
        OrderedProgram::Brought(_) => {
            executable(PathBuf::from(BROUGHT), OsString::from(BROUGHT), command, orders.without)
                .and_then(|executable| sys::spawn(&executable))
        }
        // Whoever collects outputs hears of the end and of the beginning at once. Others are told that it could be executed.
        OrderedProgram::Inside(name) if orders.holds_outputs => found(name)
            .and_then(|program| sys::spawn_beside(program, None))
            .map(|begun| beside.insert(begun).pid),
        OrderedProgram::Inside(name) => found(name).and_then(|program| sys::spawn(&program)),
        OrderedProgram::WhenTold(name) => {
            let begun = found(name).and_then(|program| sys::spawn_beside(program, Some(read_nothing()?)));
            // Whoever answers before the word is taken for gone, and made anew.
            if begun.is_err() && !sys::has_word_come() {
                return Ok(Started::Abandoned);
            }
            begun.map(|begun| beside.insert(begun).pid)
        }
    };
    let pid = match started {
        Ok(pid) => pid,
        Err(error) => return Ok(Started::Nothing(why_not(&error))),
    };
    let tool = pidfd_open(pid, PidfdFlags::empty()).map_err(Failure::at(Step::Channel))?;
    let mut descriptors = vec![tool.as_fd()];
    descriptors.extend(terminal.as_ref().map(AsFd::as_fd));
    send(socket, &Said::Started(enforcement), &descriptors).map_err(Failure::at(Step::Channel))?;
    Ok(Started::Tool { pid, beside, holds_outputs: orders.holds_outputs })
}

fn why_not(error: &io::Error) -> NotStarted {
    match error.raw_os_error() {
        Some(libc::ENOENT) => NotStarted::NotFound,
        None if error.kind() == io::ErrorKind::NotFound => NotStarted::NotFound,
        number => NotStarted::CannotExecute(number.unwrap_or(libc::EINVAL)),
    }
}

/// What a program reads that was begun by a word on its input.
fn read_nothing() -> io::Result<OwnedFd> {
    Ok(openat(rustix::fs::CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Scratch space of this sandbox, where nobody has been yet.
fn fill_home(files: &[HomeFile]) -> io::Result<()> {
    files.iter().try_for_each(|file| std::fs::write(Path::new(HOME).join(&file.name), &file.content))
}

fn found(name: &OsStr, command: &OrderedCommand, without: Controls) -> io::Result<Executable> {
    let path = find(name, &command.environment).ok_or(io::ErrorKind::NotFound)?;
    executable(path, name.to_owned(), command, without)
}

/// What the kernel is told to execute.
fn executable(
    path: PathBuf,
    name: OsString,
    command: &OrderedCommand,
    without: Controls,
) -> io::Result<Executable> {
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(io::Error::from);
    let arguments = iter::once(&name).chain(&command.arguments);
    let inherited = if without.contains(Control::Environment) { own_environment() } else { Vec::new() };
    // What is named twice has its last value.
    let environment: BTreeMap<&OsString, &OsString> =
        inherited.iter().chain(&command.environment).map(|(name, value)| (name, value)).collect();
    Ok(Executable {
        path: text(path.into_os_string().into_vec())?,
        arguments: arguments.map(|argument| text(argument.as_bytes().to_vec())).collect::<io::Result<_>>()?,
        environment: environment
            .into_iter()
            .map(|(name, value)| text([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<io::Result<_>>()?,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "only where the plan leaves this wall out, to show that it matters"
)]
fn own_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Waits for everyone, until the tool itself is gone, and ends whoever it has left behind.
fn reap_until(tool: Pid, beside: Option<&Beside>, socket: &OwnedFd, without: Controls) -> i32 {
    loop {
        match sys::wait_for(None) {
            Ok((pid, ended)) if pid == tool => {
                match beside.map_or(Ok(()), Beside::was_executed) {
                    Ok(()) => {}
                    Err(Unexecuted::NoWord) => return 1,
                    Err(Unexecuted::Error(error)) => {
                        return report(socket, &Said::NotStarted(why_not(&error)));
                    }
                }
                let is_alone = !without.contains(Control::Processes) && end_all_others();
                let used = if is_alone { Used::so_far().ok() } else { None };
                let code = report(socket, &Said::Ended { status: ended.status, used });
                if used.is_some() {
                    wait_for_hangup(socket);
                }
                return code;
            }
            Ok(_) => {}
            Err(_) => return 1,
        }
    }
}

/// Ends everybody else in the sandbox, and waits for them. Whether nobody is left, and so all that they used is counted.
///
/// ATTACK(work-after-the-end): whoever is left when process 1 exits is ended by the kernel, which counts it for nobody.
fn end_all_others() -> bool {
    // Whoever has lost its parent is process 1's child.
    if sys::is_alone() {
        return true;
    }
    if !getpid().is_init() {
        return false;
    }
    // Group 1 stands for everybody whom this process sees, and process 1 sees its sandbox. It reaches those, too, that are
    // being made: nobody can be forked by whom it has reached.
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
    let until = Instant::now() + ENDED_WITHIN;
    while !sys::is_alone() {
        if Instant::now() >= until {
            // The kernel ends them when process 1 exits, and nobody says what they used.
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// To take a process down takes longer than to tell of it: whoever reads the report ends this one when they have time.
fn wait_for_hangup(socket: &OwnedFd) {
    while wait_for_word(socket).is_ok()
        && matches!(rustix::io::read(socket, &mut [0; 1]), Ok(1) | Err(Errno::INTR))
    {}
}

fn report(socket: &OwnedFd, said: &Said) -> i32 {
    i32::from(send(socket, said, &[]).is_err())
}

/// Moves this one thread; there is no other.
fn enter_cgroup(door: &OwnedFd) -> Result<(), Failure> {
    rustix::io::write(door, b"0").map(drop).map_err(Failure::at(Step::Cgroup))
}

fn is_hung_up(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_err()
        || watched.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// A terminal in the sandbox's own `/dev/pts`: this session's, and the tool's standard streams. Returns its other end.
fn open_terminal((rows, columns): (u16, u16)) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = openat(rustix::fs::CWD, "/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = openat(rustix::fs::CWD, name, flags, Mode::empty())?;
    rustix::stdio::dup2_stdin(&slave)?;
    rustix::stdio::dup2_stdout(&slave)?;
    rustix::stdio::dup2_stderr(&slave)?;
    sys::take_terminal(&slave)?;
    Ok(master)
}

/// The file a command name means, looked up in the sandbox's own `PATH`.
fn find(name: &OsStr, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 || Path::new(name).is_absolute() {
        return Some(PathBuf::from(name));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    std::env::split_paths(path.unwrap_or_default())
        .map(|directory| directory.join(name))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}
