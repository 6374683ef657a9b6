//! What a zygote has made once for all inits that will be its copies: what every sandbox shows of the system, and the long
//! part of the filter.
//!
//! A sandbox shows the same software, settings and devices whatever its plan is. They are put together in a mount namespace
//! of the zygote's own, and an init copies them with a few calls. They are read-only mounts, and what is in them is the
//! host's or made here: no sandbox writes to them, and none leaves anything in them.
//!
//! It is of one moment: the keeper makes no use of it once the host's mounts have changed, or after some minutes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

use crate::control::Controls;
use crate::doors::TOLD_SETTINGS;
use crate::entry::Kind;
use crate::identity::{Caller, Identity};
use crate::mounts::{
    Use, attach_at, attach_at_new, copy_of, make_directory, make_link, restrict, restrict_only, write_file,
};
use crate::orders::Step;
use crate::stage_one::{self, Failure, Shown};
use crate::sys::{self, MountAttributes};

/// Set in a zygote, and so in its copies; see [`ready`].
static READIED: OnceLock<Readied> = OnceLock::new();

/// Settings and devices: directories of ours, in which parts of the host are mounted; and what covers are copied from.
const OWN: [&str; 3] = ["etc", "dev", ".cover"];

/// The system, put together.
pub(crate) struct Readied {
    /// Where it is mounted, for whoever has a copy of the zygote's mounts.
    place: &'static str,
    /// What else stands beside [`OWN`], in the root itself.
    software: Vec<(PathBuf, Shown)>,
}

/// Makes everything ready in this process, which becomes good for nothing but being copied. For sandboxes with every wall.
pub(crate) fn ready(identity: &Identity) -> Result<(), Failure> {
    sys::enter_new_namespaces(UnshareFlags::NEWNS).map_err(Failure::at(Step::Namespaces))?;
    let host =
        openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(Failure::at(Step::Root))?;
    // What is mounted here is not for the host to see; what the host takes off goes here, too.
    let propagation = libc::MS_SLAVE;
    sys::set_mount_attributes(&host, MountAttributes { propagation, ..MountAttributes::default() })
        .map_err(Failure::at(Step::Root))?;
    let (root, place) = stage_one::new_root().map_err(Failure::at(Step::Root))?;
    ["etc", "dev"]
        .iter()
        .try_for_each(|name| make_directory(&root, Path::new(name)))
        .map_err(Failure::at(Step::Root))?;
    make_ready_covers(&root).map_err(Failure::at(Step::Root))?;
    stage_one::make_settings(&root, identity).map_err(Failure::at(Step::Root))?;
    let software = stage_one::show_software(&root)?;
    stage_one::show_settings(&root)?;
    stage_one::make_devices(&root, Controls::NONE).map_err(Failure::at(Step::Devices))?;
    TOLD_SETTINGS
        .iter()
        .try_for_each(|place| write_file(&root, Path::new(place), b""))
        .map_err(Failure::at(Step::Root))?;
    for name in OWN {
        let close = || -> io::Result<()> {
            let tree = copy_of(&root, Path::new(name))?;
            restrict_only(&tree, Use::ReadOnly)?;
            Ok(attach_at(&tree, &root, Path::new(name), Kind::Directory)?)
        };
        close().map_err(Failure::at(Step::Root))?;
    }
    let place = if identity.caller == Caller::Root { leave_host(&root)? } else { place };
    stage_one::raise_inherited_walls(Controls::NONE)?;
    let _ = READIED.set(Readied { place, software });
    Ok(())
}

/// Covers that have their attributes already, so that each sandbox only has to copy them.
fn make_ready_covers(root: &OwnedFd) -> io::Result<()> {
    stage_one::make_covers(root)?;
    for (path, kind) in stage_one::COVERS {
        let cover = copy_of(root, Path::new(path))?;
        restrict(&cover, Use::Cover)?;
        attach_at(&cover, root, Path::new(path), kind)?;
    }
    Ok(())
}

/// Leaves the host's root for what was made ready, where nothing of the host is needed any more: what a plan of root's shows
/// is sent. Every init copies the mounts that it sees, and takes them off again. Returns where it is now.
fn leave_host(root: &OwnedFd) -> Result<&'static str, Failure> {
    let see_processes = || -> Result<(), Errno> {
        // Maps are written there, and the kernel shows a new one only to those who see one.
        let processes = copy_of(CWD, Path::new("/proc"))?;
        attach_at_new(processes, root, Path::new("proc"), Kind::Directory)?;
        // A place for the root of a sandbox.
        make_directory(root, Path::new("sys"))
    };
    see_processes().map_err(Failure::at(Step::Proc))?;
    stage_one::leave_host(root)?;
    Ok("/")
}

/// What the zygote that this process is a copy of has made ready; nothing if it has not.
pub(crate) fn readied() -> Option<&'static Readied> {
    READIED.get()
}

impl Readied {
    /// The system as this process sees it, before it builds anything over it.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        openat(CWD, self.place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Shows it in a new root.
    pub(crate) fn show(&self, system: impl AsFd, root: impl AsFd) -> Result<(), Failure> {
        for (path, shown) in &self.software {
            let show = || -> Result<(), Errno> {
                match shown {
                    Shown::Link(target) => make_link(&root, path, target),
                    Shown::Mounted(kind) => {
                        let tree = copy_of(&system, path.strip_prefix("/").unwrap_or(path))?;
                        attach_at_new(tree, &root, path, *kind)
                    }
                }
            };
            show().map_err(Failure::at(Step::System(path.clone())))?;
        }
        for name in OWN {
            let path = Path::new(name);
            let show = || attach_at_new(copy_of(&system, path)?, &root, path, Kind::Directory);
            show().map_err(Failure::at(Step::System(path.to_owned())))?;
        }
        Ok(())
    }
}
