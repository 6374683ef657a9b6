//! `fs.list` and `fs.stat`, and how a directory is read.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use contract::Reason;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat};

use super::root::{Root, failed, name_text};
use crate::files::{Entry, Kind, ListInput, ListOutput, StatInput, StatOutput};

const LIMIT: u32 = 1000;
const MOST: u32 = 10_000;
const DEPTH: u32 = 8;
const DEEPEST: u32 = 32;
/// Names of one directory that are read, to be sorted.
const MOST_NAMES: usize = 100_000;

pub(super) fn list(root: &Root<'_>, input: &ListInput) -> Result<ListOutput, Reason> {
    let place = root.find(&input.path)?;
    let handle = place.open_directory()?;
    let depth = if input.recursive { input.depth.unwrap_or(DEPTH).clamp(1, DEEPEST) } else { 1 };
    let mut walk = Walk {
        root,
        base: &place.path,
        limit: usize::try_from(input.limit.unwrap_or(LIMIT).clamp(1, MOST)).unwrap_or(1),
        entries: Vec::new(),
        truncated: false,
    };
    walk.go_into(&handle, Path::new(""), depth).map_err(|errno| failed("list", &input.path, errno))?;
    let path = if place.path.as_os_str().is_empty() {
        ".".into()
    } else {
        place.path.to_string_lossy().into_owned()
    };
    Ok(ListOutput { path, entries: walk.entries, truncated: walk.truncated })
}

pub(super) fn stat(root: &Root<'_>, input: &StatInput) -> Result<StatOutput, Reason> {
    let place = root.find(&input.path)?;
    let status = place.status()?;
    let path = if place.path.as_os_str().is_empty() {
        ".".into()
    } else {
        place.path.to_string_lossy().into_owned()
    };
    let kind = kind_of(&status);
    Ok(StatOutput {
        path,
        kind,
        size: u64::try_from(status.st_size).unwrap_or_default(),
        mode: format!("{:04o}", status.st_mode & 0o7777),
        modified: status
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(i64::try_from(status.st_mtime_nsec / 1_000_000).unwrap_or_default()),
        links: status.st_nlink,
        target: (kind == Kind::Link).then(|| place.target()).flatten(),
    })
}

pub(super) fn kind_of(status: &Stat) -> Kind {
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    }
}

/// The names in a directory, sorted by their bytes; and whether there were more than are read.
pub(super) fn names_in(directory: &OwnedFd) -> Result<(Vec<OsString>, bool), rustix::io::Errno> {
    // It may have been read before.
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut reader = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    let mut more = false;
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() >= MOST_NAMES {
            more = true;
            break;
        }
        names.push(OsString::from_vec(name.to_vec()));
    }
    names.sort_unstable();
    Ok((names, more))
}

/// Opens a directory in another to be read, not through a link.
pub(super) fn open_in(directory: &OwnedFd, name: &std::ffi::OsStr) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

struct Walk<'a> {
    root: &'a Root<'a>,
    base: &'a Path,
    limit: usize,
    entries: Vec<Entry>,
    truncated: bool,
}

impl Walk<'_> {
    fn go_into(&mut self, handle: &OwnedFd, path: &Path, depth: u32) -> Result<(), rustix::io::Errno> {
        let (names, more) = names_in(handle)?;
        self.truncated |= more;
        for name in names {
            if self.entries.len() >= self.limit {
                self.truncated = true;
                return Ok(());
            }
            // Gone since its name was read.
            let Ok(status) = statat(handle, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = path.join(&name);
            let kind = kind_of(&status);
            let hidden = self.root.guard.against_reading(&self.base.join(&path)).is_some();
            self.entries.push(Entry {
                path: path_text(&path),
                kind,
                size: (kind == Kind::File && !hidden)
                    .then(|| u64::try_from(status.st_size).unwrap_or_default()),
                hidden,
            });
            if kind != Kind::Directory || hidden || depth <= 1 {
                continue;
            }
            // One that cannot be opened is shown, and what is in it is not.
            if let Ok(next) = open_in(handle, &name) {
                self.go_into(&next, &path, depth - 1)?;
            }
        }
        Ok(())
    }
}

/// A path as text, name by name.
pub(super) fn path_text(path: &Path) -> String {
    let names: Vec<String> = path.iter().map(|name| name_text(name.as_bytes())).collect();
    names.join("/")
}
