//! `fs.mkdir`, `fs.move` and `fs.delete`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use contract::Reason;
use rustix::fs::{AtFlags, FileType, Mode, mkdirat, statat, unlinkat};
use rustix::io::Errno;

use super::list::{kind_of, names_in, open_in, path_text};
use super::root::{Root, failed, is_kind, refuse};
use super::write::{Replace, rename, sync};
use crate::files::{
    DeleteInput, DeleteOutput, Kind, MakeDirectoryInput, MakeDirectoryOutput, MoveInput, MoveOutput,
};
use crate::path::{Beneath, shown};
use crate::wire::Changed;

/// Permissions of a new directory.
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o755);
/// Entries that one call deletes at most.
const MOST_DELETED: u64 = 100_000;
/// How deep a tree is gone into.
const DEEPEST: usize = 256;

pub(super) fn make_directory(
    root: &Root<'_>,
    input: &MakeDirectoryInput,
    changed: &mut Changed,
) -> Result<MakeDirectoryOutput, Reason> {
    if input.parents {
        make_parents(root, &input.path, changed)?;
    }
    let (place, name) = root.find_to_change(&input.path)?;
    let path = path_text(&place.path);
    match mkdirat(&place.directory, &name, NEW_DIRECTORY) {
        Ok(()) => {
            changed.note(path.clone(), "created");
            sync(&place.directory);
            Ok(MakeDirectoryOutput { path, created: true })
        }
        Err(Errno::EXIST) if input.parents && is_kind(&place.status()?, FileType::Directory) => {
            Ok(MakeDirectoryOutput { path, created: false })
        }
        Err(errno) => Err(failed("make", &input.path, errno)),
    }
}

/// Makes the directories that the last name of a path is in.
pub(super) fn make_parents(root: &Root<'_>, text: &str, changed: &mut Changed) -> Result<(), Reason> {
    let beneath = Beneath::parse(text)?;
    refuse(root.guard.against_writing(&beneath.path()), text)?;
    let Some((_, parents)) = beneath.names().split_last() else { return Ok(()) };
    for length in 1..=parents.len() {
        let parent = parents.get(..length).unwrap_or_default().join("/");
        let (place, name) = root.find_to_change(&parent)?;
        match mkdirat(&place.directory, &name, NEW_DIRECTORY) {
            Ok(()) => changed.note(path_text(&place.path), "created"),
            // If it is no directory, whoever goes through it will say so.
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make", &parent, errno)),
        }
    }
    Ok(())
}

pub(super) fn move_entry(
    root: &Root<'_>,
    input: &MoveInput,
    changed: &mut Changed,
) -> Result<MoveOutput, Reason> {
    let (from, from_name) = root.find_to_change(&input.from)?;
    let (to, to_name) = root.find_to_change(&input.to)?;
    let status = from.status()?;
    match kind_of(&status) {
        Kind::File => {}
        Kind::Directory => {
            // ATTACK(guarded-by-move): `x` with `git` in it, moved to `.config`, would be what git obeys.
            refuse(root.guard.against_moving(&from.path), &input.from)?;
            refuse(root.guard.against_moving(&to.path), &input.to)?;
        }
        Kind::Link | Kind::Special => {
            let why = format!("`{}` is neither a file nor a directory", shown(&input.from));
            return Err(Reason::tool_failed(why));
        }
    }
    let there = match statat(&to.directory, &to_name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Some(kind_of(&status)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(failed("look at", &input.to, errno)),
    };
    let replaced = match (there, input.overwrite) {
        (None, _) => false,
        (Some(Kind::File), true) if kind_of(&status) == Kind::File => true,
        (Some(_), true) => {
            let why = format!("`{}` exists, and only a file is replaced by a file", shown(&input.to));
            return Err(Reason::tool_failed(why));
        }
        (Some(_), false) => {
            let hint = "with `overwrite` a file replaces a file; the call may have to be approved";
            return Err(failed("move to", &input.to, Errno::EXIST).with_hint(hint));
        }
    };
    // What appears there in the meantime is not replaced without being asked for.
    let replace = if replaced { Replace::File } else { Replace::Never };
    rename((&from.directory, &from_name), (&to.directory, &to_name), replace)
        .map_err(|errno| failed("move", &input.from, errno))?;
    sync(&from.directory);
    sync(&to.directory);
    let output = MoveOutput { from: path_text(&from.path), to: path_text(&to.path), replaced };
    changed.note(output.from.clone(), "removed");
    changed.note(output.to.clone(), if replaced { "modified" } else { "created" });
    Ok(output)
}

pub(super) fn delete(
    root: &Root<'_>,
    input: &DeleteInput,
    changed: &mut Changed,
) -> Result<DeleteOutput, Reason> {
    let (place, name) = root.find_to_change(&input.path)?;
    let path = path_text(&place.path);
    if !is_kind(&place.status()?, FileType::Directory) {
        unlinkat(&place.directory, &name, AtFlags::empty())
            .map_err(|errno| failed("delete", &input.path, errno))?;
        changed.note(path.clone(), "removed");
        sync(&place.directory);
        return Ok(DeleteOutput { path, removed: 1 });
    }
    let mut removed = 0;
    if input.recursive {
        let handle = open_in(&place.directory, &name).map_err(|errno| failed("open", &input.path, errno))?;
        // Looked through first: a tree with something guarded in it stays whole.
        let mut seen = 0;
        check_tree(root, &handle, &place.path, 0, &mut seen)?;
        removed = empty(&handle, &place.path, 0, changed)?;
    }
    unlinkat(&place.directory, &name, AtFlags::REMOVEDIR).map_err(|errno| match errno {
        Errno::NOTEMPTY => {
            failed("delete", &input.path, errno).with_hint("set `recursive` to delete all of it")
        }
        errno => failed("delete", &input.path, errno),
    })?;
    changed.note(path.clone(), "removed");
    sync(&place.directory);
    Ok(DeleteOutput { path, removed: removed + 1 })
}

fn check_tree(
    root: &Root<'_>,
    handle: &OwnedFd,
    path: &Path,
    depth: usize,
    seen: &mut u64,
) -> Result<(), Reason> {
    let text = path_text(path);
    let (names, more) = names_in(handle).map_err(|errno| failed("list", &text, errno))?;
    *seen += names.len() as u64;
    if more || *seen > MOST_DELETED || depth > DEEPEST {
        let why = format!("there is more in `{}` than one call deletes", shown(&text));
        return Err(Reason::tool_failed(why).with_hint("delete its directories one by one"));
    }
    for name in &names {
        let inner = path.join(name);
        refuse(root.guard.against_writing(&inner), &path_text(&inner))?;
        if is_directory(handle, name) {
            let next = open_in(handle, name).map_err(|errno| failed("open", &path_text(&inner), errno))?;
            check_tree(root, &next, &inner, depth + 1, seen)?;
        }
    }
    Ok(())
}

fn is_directory(handle: &OwnedFd, name: &OsStr) -> bool {
    statat(handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|status| is_kind(&status, FileType::Directory))
}

/// Deletes what is in a directory, deepest first. A link is deleted, not followed.
fn empty(handle: &OwnedFd, path: &Path, depth: usize, changed: &mut Changed) -> Result<u64, Reason> {
    let (names, _) = names_in(handle).map_err(|errno| failed("list", &path_text(path), errno))?;
    let mut removed = 0;
    for name in &names {
        let inner: PathBuf = path.join(name);
        let failed = |errno| failed("delete", &path_text(&inner), errno);
        if is_directory(handle, name) && depth < DEEPEST {
            let next = open_in(handle, name).map_err(failed)?;
            removed += empty(&next, &inner, depth + 1, changed)?;
            unlinkat(handle, name, AtFlags::REMOVEDIR).map_err(failed)?;
        } else {
            unlinkat(handle, name, AtFlags::empty()).map_err(failed)?;
        }
        changed.note(path_text(&inner), "removed");
        removed += 1;
    }
    Ok(removed)
}
