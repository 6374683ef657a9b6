//! The workspace as a handle, and the only way from a path to a file.
//!
//! `openat2` with `RESOLVE_BENEATH` is what this would use, but the sandbox has no such call: its mode comes by pointer,
//! where no filter can look. So a path is walked one name at a time, each opened beneath the last and never through a
//! link. A directory that is swapped for a link in the meantime is met as a link.
//!
//! # Invariants
//! - Every file is opened relative to a handle that was reached from the workspace's own, by names that are not `..`.
//! - What was opened is looked at by its handle before anything is done with it: regular, and known by one name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use contract::Reason;
use jail::Names;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::path::{Beneath, Guard, Guarded, shown};
use crate::wire::{Links, WorkerRequest};

/// Links that are followed in one path.
const MAX_LINKS: usize = 40;

/// The workspace.
pub(super) struct Root<'a> {
    handle: OwnedFd,
    path: &'a Path,
    links: Links,
    pub(super) guard: Guard<'a>,
    pub(super) max_bytes: u64,
}

/// An entry of a directory, found but not opened.
pub(super) struct Place {
    /// The directory it is in.
    pub(super) directory: OwnedFd,
    /// Its name there; nothing for the workspace itself.
    pub(super) name: Option<OsString>,
    /// Where that really is, relative to the workspace.
    pub(super) path: PathBuf,
    /// As the agent wrote it.
    pub(super) text: String,
}

impl<'a> Root<'a> {
    pub(super) fn open(question: &'a WorkerRequest) -> Result<Root<'a>, Reason> {
        Root::at(&question.root, question.names.names(), question.links, question.max_bytes)
    }

    pub(super) fn at(
        path: &'a Path,
        names: &'a Names,
        links: Links,
        max_bytes: u64,
    ) -> Result<Root<'a>, Reason> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(rustix::fs::CWD, path, flags, Mode::empty())
            .map_err(|_| Reason::internal("the workspace is not where the worker looks for it"))?;
        Ok(Root { handle, path, links, guard: Guard { names, root: path }, max_bytes })
    }

    /// Finds an entry that may be read.
    pub(super) fn find(&self, text: &str) -> Result<Place, Reason> {
        let beneath = Beneath::parse(text)?;
        refuse(self.guard.against_reading(&beneath.path()), text)?;
        let place = self.walk(&beneath, text)?;
        // A link may have led to another name than the one that was asked for.
        refuse(self.guard.against_reading(&place.path), text)?;
        Ok(place)
    }

    /// Finds an entry that may be changed.
    pub(super) fn find_to_change(&self, text: &str) -> Result<(Place, OsString), Reason> {
        let beneath = Beneath::parse(text)?;
        refuse(self.guard.against_writing(&beneath.path()), text)?;
        let place = self.walk(&beneath, text)?;
        refuse(self.guard.against_writing(&place.path), text)?;
        let Some(name) = place.name.clone() else {
            return Err(Reason::bad_arguments("the workspace itself cannot be replaced")
                .with_hint("name a file in it"));
        };
        refuse(self.is_in_repository(&place.path, &name).then_some(Guarded::Protected), text)?;
        Ok((place, name))
    }

    /// Whether a directory on the way to an entry is one that git takes for a repository, or would be with the entry in
    /// it, whatever it is called.
    ///
    /// ATTACK(planted-bare-repository): git obeys the settings of one wherever somebody enters it.
    fn is_in_repository(&self, path: &Path, name: &OsStr) -> bool {
        let mut folders = path.ancestors().skip(1);
        let own = folders.next().into_iter().map(|folder| (folder, Some(name)));
        own.chain(folders.map(|folder| (folder, None))).any(|(folder, added)| {
            let has = |part: &str| {
                let is_added = added.is_some_and(|name| name.eq_ignore_ascii_case(part));
                is_added || statat(&self.handle, folder.join(part), AtFlags::SYMLINK_NOFOLLOW).is_ok()
            };
            // With `commondir` the rest is elsewhere.
            has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
        })
    }

    /// Walks down to the directory that holds the last name.
    fn walk(&self, beneath: &Beneath, text: &str) -> Result<Place, Reason> {
        self.follow(beneath.names().iter().map(OsString::from).collect(), text)
    }

    /// The same by any names, `..` among them, as a program would go. Guards nothing.
    pub(super) fn follow(&self, names: Vec<OsString>, text: &str) -> Result<Place, Reason> {
        let mut waiting: Vec<OsString> = names.into_iter().rev().collect();
        let mut above: Vec<(OwnedFd, OsString)> = Vec::new();
        let mut here = clone(&self.handle)?;
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            if name == ".." {
                // It leads no higher than the workspace.
                here = above.pop().map(|(directory, _)| directory).ok_or_else(|| leaves(text))?;
                continue;
            }
            match self.look(&here, &name, waiting.is_empty()) {
                Met::Last => {
                    let path =
                        above.iter().map(|(_, name)| name.as_os_str()).chain([name.as_os_str()]).collect();
                    return Ok(Place { directory: here, path, name: Some(name), text: text.to_owned() });
                }
                Met::Directory(next) => above.push((std::mem::replace(&mut here, next), name)),
                Met::Link if self.links == Links::FollowInside && links < MAX_LINKS => {
                    links += 1;
                    let target = self.target_of(&here, &name, text)?;
                    if target.is_absolute() {
                        here = clone(&self.handle)?;
                        above.clear();
                    }
                    let names = target.components().rev().filter_map(|component| match component {
                        Component::Normal(name) => Some(name.to_owned()),
                        Component::ParentDir => Some(OsString::from("..")),
                        _ => None,
                    });
                    waiting.extend(names);
                }
                Met::Link => return Err(is_link(text)),
                Met::Nothing(errno) => return Err(failed("find", text, errno)),
            }
        }
        // The workspace itself, or a link that led to a directory and ended there.
        let path = above.iter().map(|(_, name)| name.as_os_str()).collect();
        match above.pop() {
            Some((directory, name)) => Ok(Place { directory, name: Some(name), path, text: text.to_owned() }),
            None => Ok(Place { directory: here, name: None, path, text: text.to_owned() }),
        }
    }

    fn look(&self, here: &OwnedFd, name: &OsStr, is_last: bool) -> Met {
        // ATTACK(symlink-swap): a directory is opened as one and not through a link; there is no check before the use.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_a_link = || {
            statat(here, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
        };
        match is_last {
            true if self.links == Links::FollowInside && is_a_link() => Met::Link,
            true => Met::Last,
            false => match openat(here, name, flags, Mode::empty()) {
                Ok(next) => Met::Directory(next),
                Err(Errno::LOOP) => Met::Link,
                Err(Errno::NOTDIR) if is_a_link() => Met::Link,
                Err(errno) => Met::Nothing(errno),
            },
        }
    }

    /// What a link leads to; an absolute target counts from the workspace, if it lies there.
    fn target_of(&self, here: &OwnedFd, name: &OsStr, text: &str) -> Result<PathBuf, Reason> {
        let target = readlinkat(here, name, Vec::new()).map_err(|errno| failed("follow", text, errno))?;
        let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
        if !target.is_absolute() {
            return Ok(target);
        }
        let rest = target.strip_prefix(self.path).map_err(|_| leaves(text))?;
        Ok(Path::new("/").join(rest))
    }
}

/// What a name turned out to be.
enum Met {
    /// The last one; nobody has looked at it.
    Last,
    Directory(OwnedFd),
    Link,
    Nothing(Errno),
}

impl Place {
    /// Its name, or `.` for the workspace itself.
    fn name_or_here(&self) -> &OsStr {
        self.name.as_deref().unwrap_or(OsStr::new("."))
    }

    /// What it is, without following it.
    pub(super) fn status(&self) -> Result<Stat, Reason> {
        statat(&self.directory, self.name_or_here(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("look at", &self.text, errno))
    }

    pub(super) fn target(&self) -> Option<String> {
        let target = readlinkat(&self.directory, self.name_or_here(), Vec::new()).ok()?;
        Some(name_text(target.as_bytes()))
    }

    /// Opens it as a directory to be listed.
    pub(super) fn open_directory(&self) -> Result<OwnedFd, Reason> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.directory, self.name_or_here(), flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => match self.status() {
                Ok(status) if is_kind(&status, FileType::Symlink) => is_link(&self.text),
                _ => Reason::tool_failed(format!("`{}` is not a directory", shown(&self.text))),
            },
            errno => failed("open", &self.text, errno),
        })
    }

    /// Opens it as a regular file that is known by no other name. Pipes, devices and sockets are neither opened for
    /// real nor waited for.
    pub(super) fn open_file(&self, flags: OFlags) -> Result<(File, Stat), Reason> {
        let name = self.name_or_here();
        let open = |flags: OFlags| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let handle =
                openat(&self.directory, name, flags, Mode::empty()).map_err(|errno| match errno {
                    Errno::LOOP => is_link(&self.text),
                    errno => failed("open", &self.text, errno),
                })?;
            let status = fstat(&handle).map_err(|errno| failed("look at", &self.text, errno))?;
            check_file(&self.text, &status)?;
            Ok((handle, status))
        };
        // Opening a device can already do something, so it is looked at by a handle that opens nothing.
        open(OFlags::PATH)?;
        let (handle, status) = open(flags)?;
        Ok((File::from(handle), status))
    }
}

/// Refuses whatever is not a regular file with one name.
pub(super) fn check_file(text: &str, status: &Stat) -> Result<(), Reason> {
    let shown = shown(text);
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(is_link(text)),
        FileType::Directory => {
            return Err(Reason::tool_failed(format!("`{shown}` is a directory")).with_hint("use `fs.list`"));
        }
        _ => return Err(Reason::tool_failed(format!("`{shown}` is a pipe, socket or device, not a file"))),
    }
    // ATTACK(hard-link): the other name may stand outside of the workspace, or be a hidden one.
    if status.st_nlink > 1 {
        let why = format!("`{shown}` has {} names, and one may be outside of the workspace", status.st_nlink);
        return Err(Reason::outside(why).with_hint("copy it to a file of its own, and use that"));
    }
    Ok(())
}

pub(super) fn is_kind(status: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(status.st_mode) == kind
}

pub(super) fn refuse(guarded: Option<crate::path::Guarded>, text: &str) -> Result<(), Reason> {
    guarded.map_or(Ok(()), |guarded| Err(guarded.reason(text)))
}

fn leaves(text: &str) -> Reason {
    Reason::outside(format!("`{}` leads out of the workspace", shown(text)))
}

fn is_link(text: &str) -> Reason {
    Reason::outside(format!("`{}` is, or leads through, a symbolic link", shown(text)))
        .with_hint("name the file itself; `fs.stat` tells what a link leads to")
}

fn clone(handle: &OwnedFd) -> Result<OwnedFd, Reason> {
    handle.try_clone().map_err(|_| Reason::internal("the worker has no descriptors left"))
}

/// Why the system did not do it, in words for a model.
pub(super) fn failed(doing: &str, text: &str, errno: Errno) -> Reason {
    let shown = shown(text);
    match errno {
        Errno::NOENT => Reason::tool_failed(format!("there is no `{shown}`"))
            .with_hint("`fs.list` shows what is there, `fs.search` finds files by name"),
        Errno::NOTDIR => Reason::tool_failed(format!("a part of `{shown}` is not a directory")),
        Errno::EXIST => Reason::tool_failed(format!("`{shown}` exists already")),
        Errno::NOTEMPTY => Reason::tool_failed(format!("the directory `{shown}` is not empty")),
        // Within a directory that is granted, only guarded names are mounts of their own.
        Errno::ROFS | Errno::BUSY | Errno::XDEV => {
            Reason::protected(format!("`{shown}` is guarded by the sandbox"))
        }
        Errno::ACCESS | Errno::PERM => Reason::tool_failed(format!("no permission to {doing} `{shown}`"))
            .with_hint("`fs.stat` shows its permissions; ask a person to change them"),
        Errno::NXIO => Reason::tool_failed(format!("`{shown}` is a pipe, socket or device, not a file")),
        Errno::NOSPC | Errno::DQUOT => Reason::tool_failed(format!("no space left to {doing} `{shown}`")),
        errno => {
            let why = std::io::Error::from(errno);
            Reason::tool_failed(format!("cannot {doing} `{shown}`: {why}"))
        }
    }
}

/// The same for an error of the standard library.
pub(super) fn failed_io(doing: &str, text: &str, error: &std::io::Error) -> Reason {
    let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    failed(doing, text, errno)
}

/// A name as text: bytes that are not UTF-8 become `\xNN`.
pub(super) fn name_text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}
