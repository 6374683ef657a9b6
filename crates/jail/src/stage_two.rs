//! Stage two: the plan's directories, then the walls that can only be raised when everything is in its place.
//!
//! Runs in the init. The order matters: a process behind Landlock or the whole filter can no longer mount.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::vec;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, chdir, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

use crate::control::{Control, Enforcement, Level};
use crate::doors;
use crate::entry::{Guarded, Identity, Kind, open_beneath};
use crate::landlock::{self, Begun, Tcp};
use crate::limits::Limits;
use crate::mounts::{Use, attach_at, attach_over, copy_of, restrict, restrict_only};
use crate::orders::{OrderedDirectory, Orders, Rlimits, Source, Step};
use crate::plan::{Access, Network};
use crate::readied::open_root;
use crate::rooms::Rooms;
use crate::seal;
use crate::seccomp::{self, Part};
use crate::stage_one::{self, Failure, HalfBuilt, Host, no_landlock, resize_scratch};
use crate::sys;

/// Where a program brought from the host stands.
pub(crate) const BROUGHT: &str = "/run/.tool";

/// Mounts made by the launcher, in the order of the orders.
pub(crate) type Sent = vec::IntoIter<OwnedFd>;

/// Mounts what the plan grants, and leaves the host's root for good.
pub(crate) fn enter(built: &HalfBuilt, orders: &Orders, rooms: Rooms, mut sent: Sent) -> Result<(), Failure> {
    if orders.scratch_bytes != Limits::default().disk {
        resize_scratch(&built.root, orders.scratch_bytes).map_err(Failure::at(Step::Scratch))?;
    }
    let is_shared = built.shared.is_some();
    if !is_shared && orders.directories.iter().any(|directory| directory.path.starts_with("/var/tmp")) {
        // It leads to scratch space otherwise.
        unlinkat(&built.root, "var/tmp", AtFlags::empty()).map_err(Failure::at(Step::Scratch))?;
    }
    if let Network::Guarded(guarded) = &orders.network {
        doors::tell_programs(&built.root, guarded).map_err(Failure::at(Step::Network))?;
    }
    for directory in &orders.directories {
        show_directory(built, directory, orders, &rooms, &mut sent)?;
    }
    if let Some(source) = orders.brought() {
        let mut bring = || -> io::Result<()> {
            let tree = take(source, &mut sent)?;
            restrict(&tree, Use::ReadOnly)?;
            Ok(attach_at(&tree, &built.root, Path::new(BROUGHT), Kind::File)?)
        };
        bring().map_err(Failure::at(Step::Program))?;
    }
    if !orders.sealed.is_empty() {
        let content = sent.next().ok_or(Errno::BADF).map_err(Failure::at(Step::Seal))?;
        if orders.keeps(Control::SealedFiles) {
            seal::mount(&built.root, &orders.sealed, content)?;
        }
    }
    if built.host == Host::InSight {
        stage_one::leave_host(&built.root)?;
    }
    rooms.close()?;
    if is_shared {
        // It is sealed already.
        return Ok(());
    }
    // Only the root's own mount: what is mounted on it has its attributes already.
    seal_root().map_err(Failure::at(Step::Root))
}

/// Raises every wall that is left, around this process and all it will start.
pub(crate) fn raise_walls(orders: &Orders, begun: Option<Begun>) -> Result<Enforcement, Failure> {
    let mut enforcement = Enforcement::absent("left out");
    note_namespaces(orders, &mut enforcement);
    chdir(&orders.working_directory)
        .map_err(Failure::at(Step::WorkingDirectory(orders.working_directory.clone())))?;
    set_limits(&orders.rlimits).map_err(Failure::at(Step::Rlimits))?;
    if orders.keeps(Control::Privileges) {
        drop_privileges().map_err(Failure::at(Step::Privileges))?;
        enforcement.set(
            Control::Privileges,
            Level::Enforced,
            "no capabilities, empty bounding set, no_new_privs, nosuid mounts",
        );
    }
    let tcp = Tcp::of(&orders.network);
    let begun = match begun.filter(|begun| begun.tcp() == tcp) {
        Some(begun) => Some(begun),
        None => {
            let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(Failure::at(Step::Landlock))?;
            landlock::begin(root, tcp, orders.without).map_err(no_landlock)?
        }
    };
    let granted = orders.directories.iter().filter(|d| d.access == Access::Write).map(|d| d.path.as_path());
    landlock::raise(begun, granted, &mut enforcement).map_err(no_landlock)?;
    if orders.keeps(Control::Seccomp) {
        // A filter needs one of the two; the capability is gone.
        set_no_new_privs(true).map_err(Failure::at(Step::Seccomp))?;
        sys::install_filter(seccomp::filter(Part::Rest)).map_err(Failure::at(Step::Seccomp))?;
        enforcement.set(Control::Seccomp, Level::Enforced, "allowlist of system calls");
    }
    Ok(enforcement)
}

fn show_directory(
    built: &HalfBuilt,
    directory: &OrderedDirectory,
    orders: &Orders,
    rooms: &Rooms,
    sent: &mut Sent,
) -> Result<(), Failure> {
    let path = || directory.path.clone();
    let tree = take(&directory.source, sent).map_err(Failure::at(Step::Directory(path())))?;
    check_identity(&tree, directory)?;
    let wanted = match directory.access {
        Access::Read => Use::ReadOnly,
        Access::Write => Use::ReadWrite,
    };
    restrict(&tree, wanted).map_err(Failure::at(Step::Directory(path())))?;
    let attach = || {
        if rooms.attach(&tree, &directory.path, &orders.directories)? {
            return Ok(());
        }
        attach_at(&tree, &built.root, &directory.path, Kind::Directory)
    };
    attach().map_err(Failure::at(Step::Directory(path())))?;
    guard_names(built, &tree, directory, orders)
}

/// ATTACK(bind-target-race): what was surveyed is what is mounted, or nothing is.
fn check_identity(tree: &OwnedFd, directory: &OrderedDirectory) -> Result<(), Failure> {
    let status = rustix::fs::fstat(tree).map_err(Failure::at(Step::Directory(directory.path.clone())))?;
    if (status.st_dev, status.st_ino) == directory.identity {
        Ok(())
    } else {
        Err(Failure { step: Step::Replaced(directory.path.clone()), error: libc::ESTALE })
    }
}

fn guard_names(
    built: &HalfBuilt,
    tree: &OwnedFd,
    directory: &OrderedDirectory,
    orders: &Orders,
) -> Result<(), Failure> {
    let name = |path: &Path| Failure::at::<io::Error>(Step::Name(directory.path.join(path)));
    for way in &directory.between {
        remount(tree, way, Use::ReadWrite).map_err(name(&way.path))?;
    }
    let writes = directory.access == Access::Write;
    let protects = writes && orders.keeps(Control::ProtectedNames);
    // Both kinds of names lean on directories that keep theirs.
    if protects || (writes && orders.keeps(Control::HiddenNames)) {
        for guarded in &directory.pinned {
            remount(tree, guarded, Use::ReadWrite).map_err(name(&guarded.path))?;
        }
    }
    if protects {
        for guarded in &directory.protected {
            remount(tree, guarded, Use::ReadOnly).map_err(name(&guarded.path))?;
        }
    }
    for covered in &directory.covered {
        let cover = || -> io::Result<()> {
            match find(tree, covered)? {
                Some(target) => Ok(attach_over(built.cover(covered.kind)?, target)?),
                None => Ok(()),
            }
        };
        cover().map_err(name(&covered.path))?;
    }
    Ok(())
}

/// Mounts something over itself: it cannot be renamed or replaced from then on, and can have attributes of its own.
fn remount(tree: &OwnedFd, guarded: &Guarded, wanted: Use) -> io::Result<()> {
    let Some(target) = find(tree, guarded)? else { return Ok(()) };
    let is_link = FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode) == FileType::Symlink;
    if is_link {
        // What it leads to is guarded in its own place; a link that is replaced is noticed afterwards.
        return Ok(());
    }
    let copy = copy_of(&target, Path::new(""))?;
    restrict(&copy, wanted)?;
    Ok(attach_over(copy, target)?)
}

/// Finds what the survey found.
///
/// ATTACK(hidden-name-moved): what has moved since may move back, and something else may have its name; both are an
/// error. Only what cannot be reached from here needs no guard, because the tool is no more than this process.
fn find(tree: &OwnedFd, guarded: &Guarded) -> io::Result<Option<OwnedFd>> {
    let target = match open_beneath(tree, &guarded.path, OFlags::PATH) {
        Err(Errno::ACCESS) => return Ok(None),
        other => other?,
    };
    if Identity::of(&rustix::fs::fstat(&target)?) == guarded.identity {
        Ok(Some(target))
    } else {
        Err(io::Error::from_raw_os_error(libc::ESTALE))
    }
}

fn take(source: &Source, sent: &mut Sent) -> Result<OwnedFd, Errno> {
    match source {
        Source::Sent => sent.next().ok_or(Errno::BADF),
        Source::Copy(path) => {
            let handle = open_beneath_root(path)?;
            copy_of(handle, Path::new(""))
        }
    }
}

fn open_beneath_root(path: &PathBuf) -> Result<OwnedFd, Errno> {
    let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS | rustix::fs::ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn seal_root() -> io::Result<()> {
    restrict_only(open_root()?, Use::ReadOnly)
}

fn set_limits(limits: &Rlimits) -> Result<(), Errno> {
    // The caller may have less than the plan allows, and nobody can give more than they have.
    let set = |resource, value: u64| {
        let value = getrlimit(resource).maximum.map_or(value, |hard| hard.min(value));
        setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
    };
    set(Resource::Nofile, limits.open_files)?;
    if let Some(pids) = limits.pids {
        set(Resource::Nproc, pids)?;
    }
    if let Some(bytes) = limits.file_bytes {
        set(Resource::Fsize, bytes)?;
        fail_beyond_limits();
    }
    // Locked memory is memory the host cannot have back.
    set(Resource::Memlock, 8 * 1024 * 1024)
}

/// Has a write past a limit fail with an error, instead of ending the program as if it had crashed.
pub(crate) fn fail_beyond_limits() {
    sys::ignore_signal(libc::SIGXFSZ);
}

fn drop_privileges() -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)
}

fn note_namespaces(orders: &Orders, enforcement: &mut Enforcement) {
    let network = match &orders.network {
        Network::Closed | Network::Loopback => "network namespace with loopback only",
        Network::Guarded(_) => "network namespace with loopback only; every address in it leads to its guard",
    };
    let held = [
        (Control::Filesystem, "mount namespace, read-only root of its own, pivot_root"),
        (Control::Processes, "pid namespace, private /proc"),
        (Control::Network, network),
        (Control::Ipc, "ipc namespace"),
        (Control::Hostname, "uts namespace"),
        (Control::CgroupView, "cgroup namespace"),
        (Control::ProcFiles, "read-only /proc, host files in it and kernel filesystems elsewhere covered"),
        (Control::Devices, "harmless devices only, nodev everywhere else"),
        (Control::Descriptors, "all closed before the root is left"),
        (Control::Environment, "only what the plan names"),
        (Control::Session, "session of its own, pipes instead of the caller's terminal"),
        (Control::HiddenNames, "covered by mounts"),
        (Control::ProtectedNames, "read-only mounts; new ones quarantined"),
        (Control::HostSockets, "covered by mounts"),
        (Control::SealedFiles, "read-only copies mounted over their paths"),
    ];
    for (control, how) in held {
        if orders.keeps(control) {
            enforcement.set(control, Level::Enforced, how);
        }
    }
}
