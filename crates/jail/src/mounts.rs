//! Mounts as values: made detached, given their attributes, and only then attached.
//!
//! Nothing here resolves a path that the sandboxed program could have changed: targets are directory handles.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::entry::{Kind, open_beneath};
use crate::sys::{MountAttributes, Reach, set_mount_attributes};

/// What may be done through a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read and execute.
    ReadOnly,
    /// Read, execute and write.
    ReadWrite,
    /// Device files work; nothing else does.
    Devices,
    /// Nothing: the mount covers something.
    Cover,
}

impl Use {
    fn attributes(self) -> u64 {
        let nosuid = libc::MOUNT_ATTR_NOSUID;
        match self {
            Use::ReadOnly => nosuid | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY,
            Use::ReadWrite => nosuid | libc::MOUNT_ATTR_NODEV,
            Use::Devices => nosuid | libc::MOUNT_ATTR_NOEXEC,
            Use::Cover => nosuid | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY,
        }
    }
}

/// A new filesystem of a kind the kernel lets a user namespace mount, not attached anywhere yet.
pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A detached copy of the mounts at `path`, those beneath included.
pub(crate) fn copy_of(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(directory, path, flags)
}

/// Restricts a detached mount, and cuts it off from later mounts of the host.
pub(crate) fn restrict(tree: impl AsFd, wanted: Use) -> io::Result<()> {
    let (set, propagation) = (wanted.attributes(), libc::MS_PRIVATE);
    set_mount_attributes(tree, MountAttributes { set, propagation, ..MountAttributes::default() })
}

/// Translates owners on a detached mount by the map of a user namespace.
pub(crate) fn translate_owners(tree: impl AsFd, user_namespace: impl AsFd) -> io::Result<()> {
    let id_map = Some(user_namespace.as_fd());
    set_mount_attributes(tree, MountAttributes { id_map, ..MountAttributes::default() })
}

/// Restricts one mount and leaves those mounted on it as they are.
pub(crate) fn restrict_only(mount: impl AsFd, wanted: Use) -> io::Result<()> {
    let set = wanted.attributes();
    set_mount_attributes(mount, MountAttributes { reach: Reach::One, set, ..MountAttributes::default() })
}

/// Attaches a detached mount over an open file or directory.
pub(crate) fn attach_over(tree: impl AsFd, target: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

/// Attaches a detached mount over a name in an open directory of the kernel's, or of ours, in which nobody has made a link.
pub(crate) fn attach_over_name(tree: impl AsFd, directory: impl AsFd, name: &Path) -> Result<(), Errno> {
    move_mount(tree, "", directory, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Attaches a detached mount at a path beneath the root being built, making the mount point if there is none.
///
/// ATTACK(bind-target-race): the path is resolved beneath the handle without links, so that a granted directory cannot
/// lead the mount elsewhere.
pub(crate) fn attach_at(tree: impl AsFd, root: impl AsFd, path: &Path, kind: Kind) -> Result<(), Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let target = match open_beneath(&root, relative, OFlags::PATH) {
        Err(Errno::NOENT) => {
            make_mount_point(&root, relative, kind)?;
            open_beneath(&root, relative, OFlags::PATH)?
        }
        other => other?,
    };
    attach_over(tree, target)
}

/// Attaches a detached mount at a new mount point of a root that nobody else has touched yet.
///
/// Only for stage one: nothing in such a root leads elsewhere, so its names need not be walked one by one.
pub(crate) fn attach_at_new(tree: impl AsFd, root: impl AsFd, path: &Path, kind: Kind) -> Result<(), Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    match kind {
        Kind::Directory => mkdirat(&root, relative, Mode::from_raw_mode(0o755))?,
        Kind::File => write_file(&root, relative, b"")?,
    }
    move_mount(tree, "", root, relative, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Makes a directory beneath the root being built, and its parents.
pub(crate) fn make_directory(root: impl AsFd, path: &Path) -> Result<(), Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mut here = openat(&root, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for name in relative.iter() {
        match mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            // A granted directory is not changed for our convenience: what is not there cannot be a mount point.
            Err(error) => return Err(error),
        }
        here = open_beneath(&here, Path::new(name), OFlags::PATH | OFlags::DIRECTORY)?;
    }
    Ok(())
}

/// Writes a small file of our own into the root being built.
pub(crate) fn write_file(root: impl AsFd, path: &Path, content: &[u8]) -> Result<(), Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = openat2(root, relative, flags, Mode::from_raw_mode(0o644), resolve)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Makes the same link in the root being built as the host has.
pub(crate) fn make_link(root: impl AsFd, path: &Path, target: &Path) -> Result<(), Errno> {
    symlinkat(target, root, path.strip_prefix("/").unwrap_or(path))
}

/// What a host path is, without following it.
pub(crate) fn kind_of(path: &Path) -> Result<rustix::fs::Stat, Errno> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

fn make_mount_point(root: impl AsFd, relative: &Path, kind: Kind) -> Result<(), Errno> {
    match kind {
        Kind::Directory => make_directory(root, relative),
        Kind::File => {
            if let Some(parent) = relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                make_directory(&root, parent)?;
            }
            write_file(root, relative, b"")
        }
    }
}
