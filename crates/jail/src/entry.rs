//! Files of the host by handle: opened without following a link, and known by what they are, not by name.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The device and inode of an entry, and of a link when it was made: nothing can be mounted over a link, so it can go
/// and its inode be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    inode: u64,
    link: Option<(i64, i64)>,
}

impl Identity {
    pub(crate) fn of(status: &Stat) -> Identity {
        let is_link = FileType::from_raw_mode(status.st_mode) == FileType::Symlink;
        let link = is_link.then(|| changed(status));
        Identity { device: status.st_dev, inode: status.st_ino, link }
    }
}

/// An entry to be guarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guarded {
    #[serde(with = "crate::plan::wire_path")]
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) identity: Identity,
}

impl Guarded {
    /// What is at a path beneath a directory, links not followed.
    pub(crate) fn at(directory: impl AsFd, path: &Path) -> Result<Guarded, Errno> {
        let status = statat(directory, or_here(path), AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => Kind::Directory,
            _ => Kind::File,
        };
        Ok(Guarded { path: path.to_owned(), kind, identity: Identity::of(&status) })
    }
}

/// What kind of mount point an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// Opens a host directory by its plain path; a symbolic link anywhere in it is an error (`ELOOP`).
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
}

/// Opens something beneath a directory handle, following no link. The empty path is the directory itself.
pub(crate) fn open_beneath(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat2(directory, or_here(path), flags, Mode::empty(), resolve)
}

/// The path, or `.` for the empty one.
pub(crate) fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// When an entry last changed, by the kernel's own record.
pub(crate) fn changed(status: &Stat) -> (i64, i64) {
    (status.st_ctime, i64::try_from(status.st_ctime_nsec).unwrap_or_default())
}

/// Where an open file really is.
pub(crate) fn real_path(fd: impl AsFd) -> Option<PathBuf> {
    let path = readlinkat(rustix::fs::CWD, by_handle(fd), Vec::new()).ok()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

/// A path to what a handle stands for, and to nothing else.
pub(crate) fn by_handle(handle: impl AsFd) -> String {
    format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd())
}
