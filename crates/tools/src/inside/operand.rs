//! Looks at the files that a call names, and looks again before the call uses them.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Binding, Code, Digest, Reason};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::root::{Place, Root, is_kind, refuse};
use crate::operands::{MOST_BYTES, MOST_FILES};
use crate::path::{Beneath, Guarded, shown};
use crate::wire::{BindInput, Expected, Looked, Met, Missing, Word};

/// What the words name.
pub(super) fn bind(root: &Root<'_>, input: &BindInput) -> Result<Vec<Looked>, Reason> {
    let directory = Beneath::parse(&input.directory)?;
    refuse(root.guard.against_reading(&directory.path()), &input.directory)?;
    let mut budget = Budget { files: MOST_FILES, bytes: MOST_BYTES };
    Ok(input.words.iter().map(|word| look(root, &directory, word, &mut budget)).collect())
}

/// What may still be bound.
struct Budget {
    files: usize,
    bytes: u64,
}

fn look(root: &Root<'_>, directory: &Beneath, word: &Word, budget: &mut Budget) -> Looked {
    // One that begins with a slash counts from the workspace, others from where the call starts.
    let start: &[String] = if word.text.starts_with('/') { &[] } else { directory.names() };
    let names = start.iter().map(OsString::from).chain(names_in(&word.text));
    let named = named(start, &word.text);
    let found = |met| Looked { named: named.clone(), met };
    match root.follow(names.collect(), &word.text) {
        Ok(place) => found(examine(root, &named, place, word, budget)),
        // Only a word that leads somewhere can lead out.
        Err(reason) if reason.code == Code::Outside => found(Met::Outside),
        Err(_) if word.missing == Missing::Bind => found(Met::Closed),
        Err(_) => found(Met::Absent),
    }
}

fn examine(root: &Root<'_>, named: &str, place: Place, word: &Word, budget: &mut Budget) -> Met {
    let is_hidden = |path: &Path| root.guard.against_reading(path) == Some(Guarded::Hidden);
    let status = match place.status() {
        Ok(status) => status,
        Err(_) if word.missing == Missing::Bind => {
            return place.path.to_str().map_or(Met::NotText, |path| Met::Nothing { path: path.to_owned() });
        }
        Err(_) => return Met::Absent,
    };
    // ATTACK(sealed-secret): neither copied nor even hashed, by whichever of its names.
    if is_hidden(Path::new(named)) || is_hidden(&place.path) {
        return Met::Hidden;
    }
    if is_kind(&status, FileType::Directory) {
        return Met::Directory;
    }
    if !is_kind(&status, FileType::RegularFile) {
        return Met::Closed;
    }
    let Some(path) = place.path.to_str().map(str::to_owned) else { return Met::NotText };
    if budget.files == 0 || u64::try_from(status.st_size).unwrap_or(u64::MAX) > budget.bytes {
        return Met::TooMuch;
    }
    let Ok(Content { bytes, is_known_elsewhere, executable }) = read(&place, budget.bytes) else {
        return Met::Closed;
    };
    if bytes.len() as u64 > budget.bytes {
        return Met::TooMuch;
    }
    budget.files -= 1;
    budget.bytes -= bytes.len() as u64;
    let guarded = root.guard.against_writing(&place.path).is_some();
    let copies = word.how == Binding::Sealed && !guarded && !is_known_elsewhere;
    Met::File {
        path,
        digest: Digest::of(&bytes),
        bytes: bytes.len() as u64,
        executable,
        copy: copies.then(|| STANDARD.encode(&bytes)),
    }
}

/// Refuses where something is not as it was when people were asked.
///
/// ATTACK(swapped-while-pending): this is the sandbox that uses them, and nobody else writes in the workspace meanwhile.
pub(super) fn check(root: &Root<'_>, expected: &[Expected]) -> Result<(), Reason> {
    expected.iter().try_for_each(|operand| {
        let changed = || {
            let why = format!("`{}` is not what it was when the call was asked about", shown(&operand.named));
            Reason::changed(why).with_hint("make the call again to ask anew")
        };
        let found = root.follow(names_in(&operand.named).collect(), &operand.named);
        let Some(path) = &operand.path else {
            // ATTACK(file-that-comes-later): what led nowhere leads nowhere still.
            let is_absent = match found {
                Ok(place) => place.status().is_err(),
                Err(reason) => reason.code != Code::Outside,
            };
            return if is_absent { Ok(()) } else { Err(changed()) };
        };
        let place = found.map_err(|_| changed())?;
        if place.path != Path::new(path) {
            return Err(changed());
        }
        let is_same = match (read(&place, MOST_BYTES), operand.digest) {
            (Ok(content), Some(digest)) => Digest::of(&content.bytes) == digest,
            (Err(Errno::NOENT), None) => true,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(changed()) }
    })
}

struct Content {
    bytes: Vec<u8>,
    is_known_elsewhere: bool,
    executable: bool,
}

/// What is in a regular file, and one byte more than `most` if there is more.
fn read(place: &Place, most: u64) -> Result<Content, Errno> {
    let name = place.name.as_deref().ok_or(Errno::ISDIR)?;
    let open = |flags: OFlags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let handle = openat(&place.directory, name, flags, Mode::empty())?;
        let status = fstat(&handle)?;
        if is_kind(&status, FileType::RegularFile) { Ok((handle, status)) } else { Err(Errno::INVAL) }
    };
    // Opening a device can already do something, so it is looked at by a handle that opens nothing.
    open(OFlags::PATH)?;
    let (handle, status) = open(OFlags::RDONLY)?;
    let mut bytes = Vec::new();
    let read = File::from(handle).take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let (is_known_elsewhere, executable) = (status.st_nlink > 1, status.st_mode & 0o111 != 0);
    Ok(Content { bytes, is_known_elsewhere, executable })
}

fn names_in(text: &str) -> impl Iterator<Item = OsString> {
    Path::new(text).components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

/// A word as it is counted from the workspace.
fn named(start: &[String], text: &str) -> String {
    let plain = Path::new(text).components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        Component::ParentDir => Some(".."),
        _ => None,
    });
    let names: Vec<&str> = start.iter().map(String::as_str).chain(plain).collect();
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}
