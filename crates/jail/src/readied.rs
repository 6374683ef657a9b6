//! What a zygote has made once for all inits that will be its copies: the root of a sandbox with what every sandbox shows of
//! the system, and the long part of the filter.
//!
//! A sandbox shows the same software, settings and devices whatever its plan is. They are put together in a mount namespace
//! of the zygote's own, which is all that the zygote sees from then on, and an init has them by copying that namespace. They
//! are read-only mounts, and what is in them is the host's or made here: no sandbox writes to them, and none leaves anything
//! in them. What a sandbox has of its own is mounted over it; see [`crate::rooms`] for the directories of a plan.
//!
//! It is of one moment: the keeper makes no use of it once the host's mounts have changed, or after some minutes.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::umask;
use rustix::thread::UnshareFlags;

use crate::control::Controls;
use crate::doors::TOLD_SETTINGS;
use crate::entry::Kind;
use crate::identity::{self, Identity};
use crate::init;
use crate::mounts::{
    Use, attach_at, copy_of, make_directory, new_filesystem, restrict, restrict_only, write_file,
};
use crate::orders::Step;
use crate::stage_one::{self, Failure, Shown};
use crate::sys::{self, Cloned, MountAttributes, NEW_PID};

/// Set in a zygote, and so in its copies; see [`ready`].
static READIED: OnceLock<Readied> = OnceLock::new();

/// Settings and devices: directories of ours, in which parts of the host are mounted; and what covers are copied from.
pub(crate) const OWN: [&str; 3] = ["etc", "dev", ".cover"];

/// The system, put together.
pub(crate) struct Readied {
    /// What else stands beside [`OWN`], in the root itself.
    pub(crate) software: Vec<(PathBuf, Shown)>,
    /// What of `/proc` has to be covered on this host.
    pub(crate) masked: Vec<(&'static str, Kind)>,
}

/// Makes everything ready in this process, which becomes good for nothing but being copied. For sandboxes with every wall.
pub(crate) fn ready(identity: &Identity) -> Result<(), Failure> {
    see_host_alone()?;
    // Root's is for others to enter, whatever the gate makes for itself. What tools make is as it was.
    let usual = umask(Mode::from_raw_mode(0o022));
    let made = put_together(identity);
    umask(usual);
    let readied = made?;
    hand_on_code();
    stage_one::raise_inherited_walls(Controls::NONE)?;
    let _ = READIED.set(readied);
    Ok(())
}

fn put_together(identity: &Identity) -> Result<Readied, Failure> {
    let root = stage_one::new_root().map_err(Failure::at(Step::Root))?;
    stage_one::make_skeleton(&root).map_err(Failure::at(Step::Root))?;
    // Mounts of their own from the start: what is mounted in them is there once, and copied once.
    let own = OWN.map(|name| make_own(&root, name));
    let own = own.into_iter().collect::<Result<Vec<OwnedFd>, Errno>>().map_err(Failure::at(Step::Root))?;
    make_ready_covers(&root)?;
    stage_one::make_settings(&root, identity).map_err(Failure::at(Step::Root))?;
    let software = stage_one::show_software(&root)?;
    stage_one::show_settings(&root)?;
    stage_one::make_devices(&root, Controls::NONE).map_err(Failure::at(Step::Devices))?;
    TOLD_SETTINGS
        .iter()
        .try_for_each(|place| write_file(&root, Path::new(place), b""))
        .map_err(Failure::at(Step::Root))?;
    own.iter().try_for_each(|mount| restrict_only(mount, Use::ReadOnly)).map_err(Failure::at(Step::Root))?;
    let processes = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Failure::at(Step::Proc))?;
    let masked = stage_one::masked_in(&processes);
    show_no_processes(&root)?;
    identity::keep_processes(processes);
    stage_one::leave_host(&root)?;
    let seal = open_root().map_err(Failure::at(Step::Root))?;
    restrict_only(seal, Use::ReadOnly).map_err(Failure::at(Step::Root))?;
    Ok(Readied { software, masked })
}

/// Has this process see the host's mounts in a namespace of its own. What is mounted here is not for the host to see; what
/// the host takes off goes here, too.
pub(crate) fn see_host_alone() -> Result<(), Failure> {
    sys::enter_new_namespaces(UnshareFlags::NEWNS).map_err(Failure::at(Step::Namespaces))?;
    let host = open_root().map_err(Failure::at(Step::Root))?;
    let propagation = libc::MS_SLAVE;
    sys::set_mount_attributes(&host, MountAttributes { propagation, ..MountAttributes::default() })
        .map_err(Failure::at(Step::Root))
}

/// Has the kernel hand on where code and constants are to whoever is a copy of this process, instead of finding each page
/// of them again: it does so for mappings that have a page of their own. Nothing hangs on it but time.
fn hand_on_code() {
    init::rehearse();
    let Ok(memory) = identity::open_in_processes("self/mem", OFlags::RDWR) else { return };
    for address in [init::rehearse as *const () as u64, OWN.as_ptr() as u64] {
        // The same byte is written, which makes a page of it this process's own.
        let mut byte = [0];
        let _ = memory.read_exact_at(&mut byte, address).and_then(|()| memory.write_all_at(&byte, address));
    }
}

/// The root that this process sees.
pub(crate) fn open_root() -> Result<OwnedFd, Errno> {
    openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory of the root that is a mount.
fn make_own(root: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let path = Path::new(name);
    make_directory(root, path)?;
    let mount = copy_of(root, path)?;
    attach_at(&mount, root, path, Kind::Directory)?;
    Ok(mount)
}

/// Covers that have their attributes already, so that each sandbox only has to copy them.
fn make_ready_covers(root: &OwnedFd) -> Result<(), Failure> {
    stage_one::make_covers(root).map_err(Failure::at(Step::Root))?;
    for (path, kind) in stage_one::COVERS {
        let cover = copy_of(root, Path::new(path)).map_err(Failure::at(Step::Root))?;
        restrict(&cover, Use::Cover).map_err(Failure::at(Step::Root))?;
        attach_at(&cover, root, Path::new(path), kind).map_err(Failure::at(Step::Root))?;
    }
    Ok(())
}

/// The kernel lets a sandbox mount a `/proc` of its own only where it sees one. This one is of a process namespace whose
/// only process has ended: no sandbox has the host's, not even beneath its own.
fn show_no_processes(root: &OwnedFd) -> Result<(), Failure> {
    let child = match sys::clone_process(NEW_PID, None).map_err(Failure::at(Step::Proc))? {
        Cloned::Child => {
            let show = || {
                let proc = new_filesystem("proc", &[], stage_one::PROC | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
                attach_at(&proc, root, Path::new("proc"), Kind::Directory)
            };
            sys::exit_now(show().map_or_else(Errno::raw_os_error, |()| 0))
        }
        Cloned::Parent { pid, .. } => pid,
    };
    match sys::wait_for(Some(child)).map_err(Failure::at(Step::Proc))?.1.status {
        0 => Ok(()),
        status => Err(Failure { step: Step::Proc, error: libc::WEXITSTATUS(status) }),
    }
}

/// What the zygote that this process is a copy of has made ready; nothing if it has not.
pub(crate) fn readied() -> Option<&'static Readied> {
    READIED.get()
}
