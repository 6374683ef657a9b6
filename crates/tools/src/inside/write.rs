//! `fs.write` and `fs.append`, and the one way in which a file's content is replaced.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::Reason;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, linkat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::change::make_parents;
use super::read::check_size;
use super::root::{Place, Root, check_file, failed, failed_io};
use crate::files::{AppendInput, Encoding, WriteInput, WriteOutput};
use crate::wire::Changed;

/// Permissions of a new file.
const NEW_FILE: Mode = Mode::from_raw_mode(0o644);

pub(super) fn write(
    root: &Root<'_>,
    input: &WriteInput,
    changed: &mut Changed,
) -> Result<WriteOutput, Reason> {
    let bytes = decode(&input.content, input.encoding)?;
    check_size(root, &input.path, bytes.len() as u64)?;
    if input.parents {
        make_parents(root, &input.path, changed)?;
    }
    let (place, name) = root.find_to_change(&input.path)?;
    let replace = if input.create_only { Replace::Never } else { Replace::File };
    let created = put(&place, &name, &bytes, replace)?;
    let path = place.path.to_string_lossy().into_owned();
    changed.note(path.clone(), if created { "created" } else { "modified" });
    Ok(WriteOutput { path, size: bytes.len() as u64, created })
}

pub(super) fn append(
    root: &Root<'_>,
    input: &AppendInput,
    changed: &mut Changed,
) -> Result<WriteOutput, Reason> {
    let bytes = decode(&input.content, input.encoding)?;
    let (place, name) = root.find_to_change(&input.path)?;
    let path = place.path.to_string_lossy().into_owned();
    let (mut file, status) = match place.open_file(OFlags::WRONLY | OFlags::APPEND) {
        Ok(opened) => opened,
        Err(_) if is_missing(&place, &name) => {
            check_size(root, &input.path, bytes.len() as u64)?;
            put(&place, &name, &bytes, Replace::Never)?;
            changed.note(path.clone(), "created");
            return Ok(WriteOutput { path, size: bytes.len() as u64, created: true });
        }
        Err(reason) => return Err(reason),
    };
    let before = u64::try_from(status.st_size).unwrap_or(u64::MAX);
    let size = before.saturating_add(bytes.len() as u64);
    check_size(root, &input.path, size)?;
    changed.note(path.clone(), "modified");
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .map_err(|error| failed_io("write", &input.path, &error))?;
    Ok(WriteOutput { path, size, created: false })
}

fn decode(content: &str, encoding: Encoding) -> Result<Vec<u8>, Reason> {
    match encoding {
        Encoding::Text => Ok(content.as_bytes().to_vec()),
        Encoding::Base64 => {
            STANDARD.decode(content).map_err(|_| Reason::bad_arguments("`content` is not valid base64"))
        }
    }
}

fn is_missing(place: &Place, name: &OsStr) -> bool {
    matches!(rustix::fs::statat(&place.directory, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Whether something may be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    /// Nothing may be there.
    Never,
    /// A regular file with one name may be.
    File,
}

/// Gives a file this content in one step: a new file beside it takes its name once it is on the disk. Says whether
/// there was none before.
pub(super) fn put(place: &Place, name: &OsStr, bytes: &[u8], replace: Replace) -> Result<bool, Reason> {
    let failed = |doing: &'static str| move |errno: Errno| failed(doing, &place.text, errno);
    let created = is_missing(place, name);
    let mode = match (created, replace) {
        (true, _) => NEW_FILE,
        (false, Replace::Never) => return Err(failed("create")(Errno::EXIST)),
        // Opened for writing, although nothing is written to it: whoever may not do that may not replace it either.
        (false, Replace::File) => {
            let (_, status) = place.open_file(OFlags::WRONLY)?;
            Mode::from_raw_mode(status.st_mode & 0o777)
        }
    };
    let (fresh, file) = Fresh::new(&place.directory, &place.text)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes).map_err(|error| failed_io("write", &place.text, &error))?;
    fchmod(&file, mode).map_err(failed("write"))?;
    file.sync_all().map_err(|error| failed_io("write", &place.text, &error))?;
    let status = fstat(&file).map_err(failed("write"))?;
    check_file(&place.text, &status)?;
    let replace = if created { Replace::Never } else { Replace::File };
    rename((&place.directory, &fresh.name), (&place.directory, name), replace).map_err(failed("write"))?;
    fresh.keep();
    sync(&place.directory);
    Ok(created)
}

/// Gives an entry another name in one step.
pub(super) fn rename(
    from: (&OwnedFd, &OsStr),
    to: (&OwnedFd, &OsStr),
    replace: Replace,
) -> Result<(), Errno> {
    let flags = match replace {
        Replace::File => RenameFlags::empty(),
        Replace::Never => RenameFlags::NOREPLACE,
    };
    match renameat_with(from.0, from.1, to.0, to.1, flags) {
        // Network and shared folders often cannot refuse by themselves; a second name for a file they can.
        Err(Errno::INVAL | Errno::NOSYS) if replace == Replace::Never => {
            linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?;
            unlinkat(from.0, from.1, AtFlags::empty())
        }
        other => other,
    }
}

/// Makes what happened in a directory last. A handle that opens nothing cannot be synced, so it is opened again.
pub(super) fn sync(directory: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(opened) = openat(directory, ".", flags, Mode::empty()) {
        // The content is on the disk already; a name that a power cut loses is the old one.
        let _ = fsync(&opened);
    }
}

/// A new file under a name nobody else has; removed unless it is kept.
struct Fresh<'a> {
    directory: &'a OwnedFd,
    name: OsString,
    kept: bool,
}

impl<'a> Fresh<'a> {
    fn new(directory: &'a OwnedFd, text: &str) -> Result<(Fresh<'a>, OwnedFd), Reason> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut last = Errno::EXIST;
        for attempt in 0..100 {
            let name = OsString::from(format!(".toolgate-{}-{attempt}.tmp", unlikely()));
            match openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok((Fresh { directory, name, kept: false }, file)),
                Err(errno @ Errno::EXIST) => last = errno,
                Err(errno) => return Err(failed("write", text, errno)),
            }
        }
        Err(failed("write", text, last))
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// A number that another worker hardly has at the same moment: process numbers are the same in every sandbox.
fn unlikely() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec)
}
