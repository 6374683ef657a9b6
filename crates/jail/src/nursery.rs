//! Where inits come from: a process that has one thread clones them, because the copy of one with several is broken.
//!
//! A launcher with one thread does that itself. The keeper, which has many, has a zygote beside it: that is told who the
//! sandbox is to be and nothing of what it will do, so no init is a copy of anything that belongs to a run. What it clones
//! are the keeper's children and not its own: they end with the keeper, and the keeper waits for them. Beside them there may
//! be a guide, which clones nobody: it copies mounts that plans name, for sandboxes that do not see the host.
//!
//! # Invariants
//! - INVARIANT(zygote-sees-no-plan): of a path that a plan names only the guide hears, of which nothing is a copy.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair, sockopt};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::cgroups::Cgroups;
use crate::control::{Control, Controls};
use crate::host_mounts::{HostMounts, Moment};
use crate::identity::{Caller, Identity};
use crate::init::{self, Inherited, Network};
use crate::launch::{Init, Pipes, StartError};
use crate::mounts::copy_of;
use crate::networks::Networks;
use crate::orders::{Step, receive, send, wait_for_word_within};
use crate::plan::wire_path;
use crate::readied;
use crate::sys::{self, Cloned, Haste, NEW_PID, NEW_USER, SIBLING};

/// After this long a zygote is not used any more: small files of the system were copied when it began.
const LONGEST_USE: Duration = Duration::from_secs(300);

/// How many translations are kept for the next run.
const TRANSLATIONS: usize = 64;

/// Makes inits, and what else only a process with one thread can make.
#[derive(Clone)]
pub(crate) struct Nursery {
    maker: Maker,
    /// Whether what has been made ready may be used.
    shares: bool,
    /// Made before. Each says who owns files, and holds nothing of a run.
    translations: Arc<Mutex<VecDeque<Translation>>>,
    /// A keeper's, which are used again.
    cgroups: Option<Arc<Cgroups>>,
}

/// Whose sandboxes see files of which owner as their own, by which user namespace.
type Translation = (Identity, Owner, Arc<OwnedFd>);

/// The user and the group that files belong to.
type Owner = (u32, u32);

/// Who clones.
#[derive(Clone)]
enum Maker {
    /// This process, which has one thread.
    Here,
    /// Zygotes.
    Zygotes(Arc<Zygotes>),
}

/// A process beside the keeper that is told what to do: one that clones, or the guide. One order at a time.
pub(crate) struct Zygote {
    socket: OwnedFd,
    /// Whose turn it is to ask.
    asking: Mutex<()>,
    /// Networks that it has lent and whose sandboxes have ended. It hears of them with its next order: each message would wake
    /// it, and it needs them no sooner.
    returned: Mutex<Vec<u64>>,
    /// As long as it is not buried.
    pid: Mutex<Option<Pid>>,
}

impl Zygote {
    /// A child of this process, and where it is asked.
    pub(crate) fn new(pid: Pid, socket: OwnedFd) -> Zygote {
        Zygote { socket, asking: Mutex::default(), returned: Mutex::default(), pid: Mutex::new(Some(pid)) }
    }

    fn returned(&self) -> MutexGuard<'_, Vec<u64>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ended, or does not answer. Then it is buried, if it can be by now.
    ///
    /// Waits neither for somebody who asks it at this moment nor for its end: what hangs in a file system of somebody else's
    /// does not even end when it is killed, and every run of every agent comes here.
    fn is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_gone = poll(&mut watched, Some(&now)).is_ok_and(|changed| changed > 0);
        if is_gone && let Ok(mut pid) = self.pid.try_lock() {
            *pid = pid.filter(|pid| {
                let _ = kill_process(*pid, Signal::KILL);
                matches!(sys::has_ended(*pid), Ok(false))
            });
        }
        is_gone
    }

    /// From now on it is gone.
    fn give_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// The one that copies mounts of the host. Nothing is a copy of it.
pub(crate) struct Guide(Zygote);

impl Guide {
    /// Once it has said that it sees what it is to see. One that does not is as good as gone.
    pub(crate) fn greeted(guide: Zygote) -> Guide {
        if receive::<Greeting>(&guide.socket).is_err() {
            guide.give_up();
        }
        Guide(guide)
    }

    fn show(&self, path: &Path) -> io::Result<OwnedFd> {
        ask_for_one(&self.0, &Wanted { path: path.to_owned() })
    }
}

/// The zygotes of a keeper, and the guide if it needs one.
pub(crate) struct Zygotes {
    /// Sees the host as it is, and clones for every sandbox.
    plain: Arc<Zygote>,
    /// Has made ready what every sandbox shows, and clones for those with every wall. It sees nothing of the host.
    readied: Arc<Zygote>,
    /// Copies mounts of the host for those, where the keeper itself may not.
    guide: Option<Guide>,
    /// Since before that.
    mounts: Arc<HostMounts>,
    since: Instant,
    /// Whether things were made ready while nothing happened to the mounts.
    is_of_one_moment: AtomicBool,
    is_stale: AtomicBool,
}

impl Zygotes {
    /// `mounts` was begun before anything was made ready.
    pub(crate) fn new(
        plain: Zygote,
        readied: Zygote,
        guide: Option<Guide>,
        mounts: Arc<HostMounts>,
    ) -> Zygotes {
        let [plain, readied] = [plain, readied].map(Arc::new);
        let (is_of_one_moment, is_stale) = (AtomicBool::new(false), AtomicBool::new(false));
        Zygotes { plain, readied, guide, mounts, since: Instant::now(), is_of_one_moment, is_stale }
    }

    /// Whether the host may look otherwise than when things were made ready, or nothing can be cloned any more. Where nothing
    /// could be made ready, the other one does.
    pub(crate) fn are_stale(&self) -> bool {
        let are_gone = self.plain.is_gone() || (self.is_blind() && !self.readied.is_gone());
        if self.since.elapsed() >= LONGEST_USE || !self.show_what_is_mounted() || are_gone {
            self.is_stale.store(true, Ordering::Relaxed);
        }
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Whether nobody copies mounts of the host any more for those who need somebody to.
    fn is_blind(&self) -> bool {
        self.guide.as_ref().is_some_and(|guide| guide.0.is_gone())
    }

    fn show_what_is_mounted(&self) -> bool {
        let now = self.mounts.now();
        now == Moment::FIRST
            || (self.is_of_one_moment.load(Ordering::Relaxed) && now.is_same_list(Moment::FIRST))
    }

    /// To be told when everything is ready: what happens from now on was not seen by whoever made it.
    fn are_ready(&self) {
        if self.mounts.now() == Moment::FIRST {
            self.is_of_one_moment.store(true, Ordering::Relaxed);
        }
    }
}

/// An init that has just been cloned: it enters its namespaces, and waits to be told how it goes on.
pub(crate) struct Born {
    pub(crate) init: Init,
    pub(crate) socket: OwnedFd,
    pub(crate) pipes: Pipes,
    /// Whether it was born in the cgroup that it was to be born in.
    pub(crate) is_in_cgroup: bool,
    /// The network that it was born in, if that was lent to it.
    pub(crate) network: Option<Lent>,
    pub(crate) root: Root,
}

/// Whose the root of a sandbox is when its plan comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// Its own.
    Own,
    /// One that others have, too. The host is out of sight there, and nothing of a plan has its place among its settings.
    Shared,
}

/// A network that was lent to a sandbox. It is given back when this is dropped: nobody of that sandbox may be alive then.
pub(crate) struct Lent {
    zygote: Arc<Zygote>,
    number: u64,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.zygote.returned().push(self.number);
    }
}

/// What a zygote is asked for.
#[derive(Serialize, Deserialize)]
enum Order {
    /// An init. The cgroup that it is to be born in travels beside this, if there is one. Everybody has ended in the networks
    /// that are returned.
    Bear { identity: Identity, without: Controls, returned: Vec<u64> },
    /// A user namespace that translates owners.
    Translate { identity: Identity, owner: Owner },
}

/// What it says when it was asked for an init.
#[derive(Serialize, Deserialize)]
enum Answer {
    /// The process, its socket and its streams travel beside this.
    Born { pid: i32, is_in_cgroup: bool, network: Option<u64> },
    /// What could not be done; and the process that is to be buried, if there is one.
    Failed { step: Step, error: i32, pid: i32 },
}

/// What whoever was asked for one descriptor says: it travels beside this, or the system's error number says why there is none.
type One = Result<(), i32>;

/// What the guide is asked for: a copy of what is mounted there.
#[derive(Serialize, Deserialize)]
struct Wanted {
    #[serde(with = "wire_path")]
    path: PathBuf,
}

/// What the guide says first: from now on what happens to the mounts was not seen by it.
#[derive(Serialize, Deserialize)]
struct Greeting;

impl Nursery {
    /// This process is to clone.
    pub(crate) fn here() -> Nursery {
        Nursery { maker: Maker::Here, shares: false, translations: Arc::default(), cgroups: None }
    }

    /// Zygotes are to clone.
    pub(crate) fn of_zygotes(zygotes: Arc<Zygotes>) -> Nursery {
        Nursery {
            maker: Maker::Zygotes(zygotes),
            shares: true,
            translations: Arc::default(),
            cgroups: Some(Arc::default()),
        }
    }

    /// An empty cgroup without limits.
    pub(crate) fn cgroup(&self) -> Cgroup {
        self.cgroups.as_ref().map_or_else(Cgroup::begin, Cgroups::take)
    }

    /// Whether nothing can be cloned any more.
    pub(crate) fn is_gone(&self) -> bool {
        match &self.maker {
            Maker::Here => false,
            Maker::Zygotes(zygotes) => zygotes.plain.is_gone(),
        }
    }

    /// Whether a sandbox that shares its root can be shown nothing of the host any more.
    pub(crate) fn is_blind(&self) -> bool {
        match &self.maker {
            Maker::Here => false,
            Maker::Zygotes(zygotes) => zygotes.is_blind(),
        }
    }

    /// The same, for sandboxes that share nothing with others.
    pub(crate) fn for_own_settings(&self) -> Nursery {
        Nursery { shares: false, ..self.clone() }
    }

    /// Clones an init for a sandbox, straight into a cgroup if one is given and that can be.
    pub(crate) fn bear(
        &self,
        identity: Identity,
        without: Controls,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Born, StartError> {
        let zygotes = match &self.maker {
            Maker::Here if !sys::is_single_threaded() => return Err(StartError::Threads),
            Maker::Here => {
                let inherits = Inherits { relation: 0, network: None };
                return bear(identity, without, cgroup, inherits).map_err(|(error, _)| error);
            }
            Maker::Zygotes(zygotes) => zygotes,
        };
        if self.shares && without.is_empty() && !zygotes.are_stale() && !zygotes.is_blind() {
            match bear_by(&zygotes.readied, identity, without, cgroup) {
                Ok(born) => {
                    zygotes.are_ready();
                    return Ok(Born { root: Root::Shared, ..born });
                }
                // The other one does it; this one is buried if it has ended.
                Err(_) => _ = zygotes.readied.is_gone(),
            }
        }
        bear_by(&zygotes.plain, identity, without, cgroup)
    }

    /// A copy of what is mounted at a path of the host, for a sandbox that shares its root with others.
    pub(crate) fn show(&self, path: &Path) -> io::Result<OwnedFd> {
        match &self.maker {
            Maker::Zygotes(zygotes) => zygotes.guide.as_ref().ok_or(io::ErrorKind::Unsupported)?.show(path),
            Maker::Here => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A user namespace that translates files of this owner to the sandbox's host id and back.
    pub(crate) fn translation(&self, identity: &Identity, owner: Owner) -> io::Result<Arc<OwnedFd>> {
        let known = || self.translations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, made)) = known().iter().find(|(whose, of, _)| whose == identity && *of == owner) {
            return Ok(made.clone());
        }
        let made = Arc::new(self.make_translation(identity, owner)?);
        let mut known = known();
        known.push_front((*identity, owner, made.clone()));
        known.truncate(TRANSLATIONS);
        Ok(made)
    }

    fn make_translation(&self, identity: &Identity, owner: Owner) -> io::Result<OwnedFd> {
        match &self.maker {
            Maker::Here => identity.translation_from(owner.0, owner.1),
            Maker::Zygotes(zygotes) => {
                let order = Order::Translate { identity: *identity, owner };
                // Whichever of both is there.
                ask_for_one(&zygotes.plain, &order).or_else(|_| ask_for_one(&zygotes.readied, &order))
            }
        }
    }
}

fn bear_by(
    zygote: &Arc<Zygote>,
    identity: Identity,
    without: Controls,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Born, StartError> {
    let gone = |source| StartError::Wall { step: Step::Clone, source };
    // A zygote that does not hear of them is gone, and has taken them along.
    let returned = mem::take(&mut *zygote.returned());
    let (answer, descriptors) =
        ask(zygote, &Order::Bear { identity, without, returned }, cgroup).map_err(gone)?;
    match answer {
        Answer::Born { pid, is_in_cgroup, network } => {
            let network = network.map(|number| Lent { zygote: zygote.clone(), number });
            born_elsewhere(pid, is_in_cgroup, network, descriptors).ok_or_else(garbled)
        }
        Answer::Failed { step, error, pid } => Err(failed(step, error, pid)),
    }
}

/// What an init has from whoever clones it.
#[derive(Clone, Copy)]
struct Inherits {
    /// Whose child it is; see [`SIBLING`].
    relation: u64,
    /// A network, if it is not to make one of its own.
    network: Option<u64>,
}

/// Which process beside the keeper this is; see [`Zygotes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sees the host as it is.
    Plain,
    /// Sees nothing but what it has made ready.
    Readied,
    /// Sees the host's mounts, in a namespace of its own, and is root there.
    Guide,
}

/// Its life, until the keeper hangs up.
pub(crate) fn serve(keeper: &OwnedFd, kind: Kind) -> io::Result<()> {
    // What it makes is for later, and calls are made now.
    sys::go_on_with(Haste::None);
    let identity = Identity::choose(false);
    // Root may make networks and mounts. Anybody else has to be root of a user namespace first, and where that cannot be had
    // each sandbox makes its own.
    let may_make = identity.caller == Caller::Root || identity.be_root_of_a_namespace().is_ok();
    match kind {
        Kind::Plain => clone_inits(keeper, may_make.then(Networks::default)),
        Kind::Readied if may_make && readied::ready(&identity).is_ok() => {
            clone_inits(keeper, Some(Networks::default()))
        }
        Kind::Guide if may_make && readied::see_host_alone().is_ok() => show_mounts(keeper),
        Kind::Readied | Kind::Guide => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// A zygote's life.
fn clone_inits(keeper: &OwnedFd, mut networks: Option<Networks>) -> io::Result<()> {
    loop {
        let Ok((order, descriptors)) = receive::<Order>(keeper) else { return Ok(()) };
        match order {
            Order::Bear { identity, without, returned } => {
                if let Some(made) = &mut networks {
                    returned.into_iter().for_each(|network| made.take_back(network));
                }
                let cgroup = descriptors.first().map(AsFd::as_fd);
                let network = lend_to(&mut networks, without);
                match bear(identity, without, cgroup, Inherits { relation: SIBLING, network }) {
                    Ok(born) => hand_over(keeper, &born, network)?,
                    Err((error, pid)) => {
                        networks
                            .iter_mut()
                            .zip(network)
                            .for_each(|(made, number)| drop(made.give_up(number)));
                        send(keeper, &failure(&error, pid), &[])?;
                    }
                }
            }
            Order::Translate { identity, owner } => {
                hand_one(keeper, identity.translation_from(owner.0, owner.1))?;
            }
        }
    }
}

/// The guide's life.
fn show_mounts(keeper: &OwnedFd) -> io::Result<()> {
    // What it copies is of a moment that the keeper knows.
    send(keeper, &Greeting, &[])?;
    while let Ok((Wanted { path }, _)) = receive::<Wanted>(keeper) {
        hand_one(keeper, show(&path).map_err(io::Error::from))?;
    }
    Ok(())
}

/// A copy of what is mounted at a path, for a sandbox that does not see the host. The init looks whether it is what was
/// searched.
fn show(path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    copy_of(place, Path::new(""))
}

/// A network for a sandbox with every wall: one that lacks some could leave something behind, or somebody.
fn lend_to(networks: &mut Option<Networks>, without: Controls) -> Option<u64> {
    let made = networks.as_mut().filter(|_| without.is_empty())?;
    let lent = made.lend();
    if lent.is_err() {
        *networks = None;
    }
    lent.ok()
}

/// Makes an init and its channels, and writes its maps. An error comes with the number of one that is to be buried by
/// whoever is its parent.
fn bear(
    identity: Identity,
    without: Controls,
    cgroup: Option<BorrowedFd<'_>>,
    inherits: Inherits,
) -> Result<Born, (StartError, i32)> {
    let wall = |step, source| StartError::Wall { step, source };
    let channel = |error: rustix::io::Errno| (wall(Step::Channel, error.into()), 0);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(channel)?;
    let (stdin_read, stdin_write) = pipe_with(PipeFlags::CLOEXEC).map_err(channel)?;
    let (stdout_read, stdout_write) = pipe_with(PipeFlags::CLOEXEC).map_err(channel)?;
    let (stderr_read, stderr_write) = pipe_with(PipeFlags::CLOEXEC).map_err(channel)?;
    let namespaces = if without.contains(Control::Processes) { NEW_USER } else { NEW_USER | NEW_PID };
    let flags = namespaces | inherits.relation;
    let (cloned, is_in_cgroup) = match sys::clone_process(flags, cgroup) {
        // A cgroup that we may make but not put anyone into is of no use.
        Err(_) if cgroup.is_some() => (sys::clone_process(flags, None), false),
        other => (other, cgroup.is_some()),
    };
    let init = match cloned.map_err(|source| (wall(Step::Clone, source), 0))? {
        Cloned::Child => init::live(Inherited {
            socket: theirs,
            stdin: stdin_read,
            stdout: stdout_write,
            stderr: stderr_write,
            identity,
            without,
            network: if inherits.network.is_some() { Network::Lent } else { Network::Own },
        }),
        Cloned::Parent { pid, pidfd } => Init::new(pid, pidfd),
    };
    if let Err(source) = identity.write_maps(init.pid) {
        return Err((wall(Step::IdMap, source), init.pid.as_raw_nonzero().get()));
    }
    let pipes = Pipes { stdin: stdin_write, stdout: stdout_read, stderr: stderr_read };
    Ok(Born { init, socket: ours, pipes, is_in_cgroup, network: None, root: Root::Own })
}

/// From now on the keeper ends it and waits for it.
fn hand_over(keeper: &OwnedFd, born: &Born, network: Option<u64>) -> io::Result<()> {
    let Born { init, socket, pipes, is_in_cgroup, .. } = born;
    let descriptors = [init.descriptor(), socket.as_fd()];
    let streams = [&pipes.stdin, &pipes.stdout, &pipes.stderr].map(AsFd::as_fd);
    let answer = Answer::Born { pid: init.pid.as_raw_nonzero().get(), is_in_cgroup: *is_in_cgroup, network };
    send(keeper, &answer, &[descriptors.as_slice(), &streams].concat())?;
    init.let_go();
    Ok(())
}

fn born_elsewhere(
    pid: i32,
    is_in_cgroup: bool,
    network: Option<Lent>,
    descriptors: Vec<OwnedFd>,
) -> Option<Born> {
    let [pidfd, socket, stdin, stdout, stderr] = <[OwnedFd; 5]>::try_from(descriptors).ok()?;
    let init = Init::new(Pid::from_raw(pid)?, pidfd);
    let pipes = Pipes { stdin, stdout, stderr };
    Some(Born { init, socket, pipes, is_in_cgroup, network, root: Root::Own })
}

/// Answers whoever has asked for one descriptor.
fn hand_one(keeper: &OwnedFd, made: io::Result<OwnedFd>) -> io::Result<()> {
    match made {
        Ok(made) => send(keeper, &One::Ok(()), &[made.as_fd()]),
        Err(error) => send(keeper, &One::Err(error_number(&error)), &[]),
    }
}

/// Asks for what is one descriptor.
fn ask_for_one(zygote: &Zygote, order: &impl Serialize) -> io::Result<OwnedFd> {
    let (answer, descriptors) = ask::<One>(zygote, order, None)?;
    answer.map_err(io::Error::from_raw_os_error)?;
    descriptors.into_iter().next().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn ask<A: DeserializeOwned>(
    zygote: &Zygote,
    order: &impl Serialize,
    beside: Option<BorrowedFd<'_>>,
) -> io::Result<(A, Vec<OwnedFd>)> {
    let _turn = zygote.asking.lock().unwrap_or_else(PoisonError::into_inner);
    let answered = send(&zygote.socket, order, beside.as_slice())
        .and_then(|()| {
            wait_for_word_within(
                &zygote.socket,
                sockopt::socket_timeout(&zygote.socket, sockopt::Timeout::Recv)?,
            )
        })
        .and_then(|()| receive(&zygote.socket));
    if answered.is_err() {
        // What it says later would be taken for an answer to somebody else.
        zygote.give_up();
    }
    answered
}

fn failure(error: &StartError, pid: i32) -> Answer {
    match error {
        StartError::Wall { step, source } => failed_with(step.clone(), source, pid),
        _ => Answer::Failed { step: Step::Clone, error: libc::EIO, pid },
    }
}

fn failed_with(step: Step, error: &io::Error, pid: i32) -> Answer {
    Answer::Failed { step, error: error_number(error), pid }
}

fn error_number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn failed(step: Step, error: i32, pid: i32) -> StartError {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = sys::wait_for(Some(pid));
    }
    StartError::Wall { step, source: io::Error::from_raw_os_error(error) }
}

fn garbled() -> StartError {
    StartError::Wall { step: Step::Clone, source: io::ErrorKind::InvalidData.into() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it is the zygote that buries it")]
    fn one_that_does_not_answer_is_gone_and_keeps_nobody_waiting() {
        #[expect(clippy::disallowed_methods, reason = "a child that does nothing")]
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let zygote = Zygote::new(Pid::from_child(&child), ours.into());
        // Somebody asks it all the while.
        let _asks = zygote.asking.lock().unwrap();
        assert!(!zygote.is_gone());
        zygote.give_up();
        // It has been killed when it is buried, sooner or later; nobody waits for that.
        let begun = Instant::now();
        while zygote.pid.lock().unwrap().is_some() {
            assert!(zygote.is_gone());
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not buried");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
