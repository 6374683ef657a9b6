//! Surveys a granted directory: what must be hidden, what must be protected, and how its files look.
//!
//! Reads names and attributes, never content. Paths are resolved beneath the directory handle and never through links.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, openat2, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::names::{GitFiles, Names};

/// Entries looked at before a survey gives up and says so.
const MAX_ENTRIES: usize = 250_000;

/// Files in a git directory that decide what git will execute.
const GIT_DECIDES: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];

/// What a survey is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only names that mean something.
    Names,
    /// The attributes of every entry too.
    Stamps,
}

/// What was found in one directory. Paths are relative to it.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// To be covered by something empty.
    pub(crate) hidden: Vec<Covered>,
    /// Host sockets, to be covered too.
    pub(crate) sockets: Vec<Covered>,
    /// Directories that must become mount points, so that they cannot be renamed.
    pub(crate) pinned: Vec<PathBuf>,
    /// To be read-only inside a writable directory.
    pub(crate) protected: Vec<PathBuf>,
    /// Attributes by path, if they were asked for.
    pub(crate) stamps: BTreeMap<PathBuf, Stamp>,
    /// False when there were too many entries to look at all of them.
    pub(crate) complete: bool,
}

impl Survey {
    /// For a directory that is not searched.
    pub(crate) fn nothing_to_guard() -> Survey {
        Survey { complete: true, ..Survey::default() }
    }
}

/// An entry to be covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Covered {
    #[serde(with = "crate::plan::wire_path")]
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
}

/// What kind of mount point an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// Attributes that change when a file does. The change time cannot be set back from inside a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: i64,
    mode: u32,
    changed: (i64, i64),
    is_directory: bool,
}

impl Stamp {
    /// Whether the difference between the two is worth reporting: a directory changes with its entries, which are
    /// reported themselves.
    pub(crate) fn differs(&self, after: &Stamp) -> bool {
        if self.is_directory && after.is_directory { self.mode != after.mode } else { self != after }
    }
}

/// Opens a host directory by its plain path; a symbolic link anywhere in it is an error (`ELOOP`).
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
}

/// Opens something beneath a directory handle, following no link.
pub(crate) fn open_beneath(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(directory, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve)
}

/// Looks through the whole directory.
pub(crate) fn survey(directory: impl AsFd, names: &Names, detail: Detail) -> Survey {
    let mut walk = Walk { root: directory, names, detail, found: Survey::default(), entries: 0 };
    walk.run();
    walk.found
}

struct Walk<'a, Fd: AsFd> {
    root: Fd,
    names: &'a Names,
    detail: Detail,
    found: Survey,
    entries: usize,
}

impl<Fd: AsFd> Walk<'_, Fd> {
    fn run(&mut self) {
        let mut waiting = vec![PathBuf::new()];
        while let Some(directory) = waiting.pop() {
            if self.entries > MAX_ENTRIES {
                return;
            }
            let Some(entries) = self.list(&directory) else { continue };
            for (name, kind) in entries {
                let path = directory.join(&name);
                if self.visit(&path, &name, kind) == Next::Descend {
                    waiting.push(path);
                }
            }
        }
        self.found.complete = true;
    }

    /// The entries of one directory. One that cannot be listed is hidden: its owner could open it up from inside.
    fn list(&mut self, directory: &Path) -> Option<Vec<(std::ffi::OsString, FileType)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = if directory.as_os_str().is_empty() {
            open_beneath(&self.root, Path::new("."), flags)
        } else {
            open_beneath(&self.root, directory, flags)
        };
        let handle = match opened {
            Ok(handle) => handle,
            Err(Errno::ACCESS | Errno::PERM) => {
                self.found.hidden.push(Covered { path: directory.to_owned(), kind: Kind::Directory });
                return None;
            }
            Err(_) => return None,
        };
        let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
        let mut reader = RawDir::new(&handle, &mut buffer);
        let mut entries = Vec::new();
        while let Some(Ok(entry)) = reader.next() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                entries.push((name.to_owned(), entry.file_type()));
            }
        }
        self.entries += entries.len();
        Some(entries)
    }

    fn visit(&mut self, path: &Path, name: &OsStr, kind: FileType) -> Next {
        if self.detail == Detail::Stamps {
            self.stamp(path);
        }
        if self.names.hides(path) {
            self.hide(path, kind);
            return Next::Skip;
        }
        if self.names.git == GitFiles::Protected && name.eq_ignore_ascii_case(".git") {
            self.visit_git(path, kind);
            // The objects are git's own; but a change report lists them like anything else.
            return if self.detail == Detail::Stamps && kind == FileType::Directory {
                Next::Descend
            } else {
                Next::Skip
            };
        }
        if self.names.protects(path) {
            self.found.protected.push(path.to_owned());
        }
        match kind {
            FileType::Directory => Next::Descend,
            FileType::Socket => {
                self.found.sockets.push(Covered { path: path.to_owned(), kind: Kind::File });
                Next::Skip
            }
            // Some filesystems do not say; opening it as a directory tells.
            FileType::Unknown => Next::Descend,
            _ => Next::Skip,
        }
    }

    /// ATTACK(hidden-symlink): a link with a hidden name hides what it leads to, if that is in the directory.
    fn hide(&mut self, path: &Path, kind: FileType) {
        match kind {
            FileType::Directory => {
                self.found.hidden.push(Covered { path: path.to_owned(), kind: Kind::Directory })
            }
            FileType::Symlink => {
                let Some(target) = self.resolve_link(path) else { return };
                if let Ok(status) = statat(&self.root, &target, AtFlags::SYMLINK_NOFOLLOW) {
                    match FileType::from_raw_mode(status.st_mode) {
                        FileType::Directory => {
                            self.found.hidden.push(Covered { path: target, kind: Kind::Directory });
                        }
                        _ => self.found.hidden.push(Covered { path: target, kind: Kind::File }),
                    }
                }
            }
            _ => self.found.hidden.push(Covered { path: path.to_owned(), kind: Kind::File }),
        }
    }

    fn resolve_link(&self, path: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let target = openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::BENEATH).ok()?;
        real_path(&target)?.strip_prefix(real_path(&self.root)?).ok().map(Path::to_owned)
    }

    fn visit_git(&mut self, path: &Path, kind: FileType) {
        if kind != FileType::Directory {
            // A worktree's or submodule's pointer to a git directory elsewhere.
            self.found.protected.push(path.to_owned());
            return;
        }
        self.found.pinned.push(path.to_owned());
        self.protect_git(path);
        // ATTACK(git-commondir): a submodule or worktree has files of its own that decide.
        let mut waiting = vec![path.join("modules"), path.join("worktrees")];
        while let Some(directory) = waiting.pop() {
            for (name, kind) in self.list(&directory).unwrap_or_default() {
                let inner = directory.join(&name);
                if kind == FileType::Directory && name != "hooks" && name != "objects" {
                    self.protect_git(&inner);
                    waiting.push(inner);
                }
            }
        }
    }

    fn protect_git(&mut self, git_directory: &Path) {
        for name in GIT_DECIDES {
            let path = git_directory.join(name);
            if statat(&self.root, &path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.found.protected.push(path);
            }
        }
    }

    fn stamp(&mut self, path: &Path) {
        if let Ok(status) = statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW) {
            let stamp = Stamp {
                inode: status.st_ino,
                size: status.st_size,
                mode: status.st_mode,
                changed: (status.st_ctime, i64::try_from(status.st_ctime_nsec).unwrap_or_default()),
                is_directory: FileType::from_raw_mode(status.st_mode) == FileType::Directory,
            };
            self.found.stamps.insert(path.to_owned(), stamp);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Next {
    Descend,
    Skip,
}

/// Where an open file really is.
fn real_path(fd: impl AsFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let path = readlinkat(rustix::fs::CWD, link, Vec::new()).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn secrets_sockets_and_git_files_are_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/b/.git/hooks")).unwrap();
        fs::create_dir_all(at("a/.ssh")).unwrap();
        fs::write(at("a/b/.git/config"), "").unwrap();
        fs::write(at("a/b/.env"), "X=1").unwrap();
        fs::write(at("plain"), "").unwrap();
        fs::write(at("real-secret"), "").unwrap();
        std::os::unix::fs::symlink("../real-secret", at("a/.env.link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a/.env.out")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("a/s.sock")).unwrap();

        let mut found = survey(open_directory(folder.path()).unwrap(), &Names::default(), Detail::Names);
        found.hidden.sort_by(|a, b| a.path.cmp(&b.path));
        found.protected.sort();
        let covered = |path: &str, kind| Covered { path: path.into(), kind };
        assert_eq!(
            found.hidden,
            [
                covered("a/.ssh", Kind::Directory),
                covered("a/b/.env", Kind::File),
                covered("real-secret", Kind::File)
            ]
        );
        assert_eq!(found.sockets, [covered("a/s.sock", Kind::File)]);
        assert_eq!(found.pinned, [PathBuf::from("a/b/.git")]);
        assert_eq!(found.protected, [PathBuf::from("a/b/.git/config"), PathBuf::from("a/b/.git/hooks")]);
        assert!(found.complete);
    }

    #[test]
    fn a_directory_reached_through_a_link_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert_eq!(open_directory(&folder.path().join("link")).err(), Some(Errno::LOOP));
    }
}
